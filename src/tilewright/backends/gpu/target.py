"""NVIDIA architectures that kernels are compiled for, and PTX of LLVM modules."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

import llvmlite.binding as llvm

from tilewright.ir.errors import TileUnsupportedFeatureError

TRIPLE = "nvptx64-nvidia-cuda"
# Architecture -> the PTX version, as LLVM counts, that has all that it can do. With a suffix it can do more, and code
# for it runs nowhere else.
_ARCHITECTURES = {
    "80": 80,
    "86": 80,
    "87": 80,
    "89": 81,
    "90": 80,
    "100": 86,
    "103": 88,
    "110": 90,
    "120": 87,
    "121": 88,
}
_ARCHITECTURES |= {f"{n}a": version for n, version in _ARCHITECTURES.items() if int(n) >= 90}
_FEW_PARAMETERS, _MANY_PARAMETERS = 4352, 81  # their bytes, and the PTX version, of CUDA 12.1, that allows more
_MAPS_IN_MEMORY = 83  # that of CUDA 12.3, which has a fence for them
_FP8_MMA = 84  # that of CUDA 12.4


@dataclass(frozen=True)
class Architecture:
    """A processor by its compute capability, such as ``sm_90a``."""

    name: str
    ptx_version: int

    @property
    def capability(self) -> int:
        """90 for sm_90 and for sm_90a."""
        return int(re.sub(r"\D", "", self.name))

    @property
    def has_dependent_launch(self) -> bool:
        """Whether kernels wait for those before them, and may start beside them: programmatic dependent launch."""
        return self.capability >= 90


@functools.cache
def architecture(name: str) -> Architecture:
    """The architecture ``sm_NN``, with the suffix of what only it has.

    TileUnsupportedFeatureError for an unknown one.
    """
    number = name.removeprefix("sm_")
    if f"{number}a" in _ARCHITECTURES:
        number += "a"
    if not name.startswith("sm_") or number not in _ARCHITECTURES:
        known = ", ".join(f"sm_{n}" for n in _ARCHITECTURES)
        other = "; the triton backend has AMD's: pip install 'tilewright[gpu]'" if name.startswith("gfx") else ""
        raise TileUnsupportedFeatureError(
            f"the gpu backend does not know the architecture {name!r}; it has {known}{other}"
        )
    return Architecture(f"sm_{number}", _ARCHITECTURES[number])


@functools.cache
def _initialize() -> None:
    """Values keep their registers from block to block, as they do not where LLVM optimizes nothing: the assembler takes
    a copy of a sum in flight for a use of it. The lowest level of optimization, which does the same, takes LLVM nearly
    twice as long."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("", "--optimize-regalloc")
    llvm.set_option("", "--disable-auto-upgrade-debug-info")  # which verifies the module first


@functools.cache
def machine(target: Architecture, opt: int = 0) -> llvm.TargetMachine:
    """LLVM's code generator for ``target``, at the level ``opt`` of its optimizations."""
    _initialize()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.name, features=f"+ptx{target.ptx_version}", opt=opt
    )


def with_features(
    target: Architecture, size: int, *, maps_in_memory: bool, fp8_mma: bool, vector_atomics: bool, gathers: bool
) -> Architecture:
    """``target`` with a PTX version in which kernels may have parameters of ``size`` bytes, find tensor maps in memory
    if they do, multiply 8-bit floats by ``mma.sync`` if they do, add several floats at once if they do, and gather what
    the CTAs of a cluster have, if one ``gathers`` that."""
    needed = [_MANY_PARAMETERS] if size > _FEW_PARAMETERS or vector_atomics or gathers else []
    needed += [_FP8_MMA] if fp8_mma else []
    needed += [_MAPS_IN_MEMORY] if maps_in_memory else []
    return replace(target, ptx_version=max(target.ptx_version, *needed, 0))


def emit_ptx(text: str, target: Architecture) -> str:
    """The PTX of LLVM IR in text form.

    Without optimization: what arrives is optimized, and passes of LLVM cost more than all the rest.
    """
    module = llvm.parse_assembly(text, llvm.create_context())  # a shared one would keep types and constants
    return str(machine(target).emit_assembly(module))
