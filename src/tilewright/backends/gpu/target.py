"""NVIDIA architectures that kernels are compiled for, and PTX of LLVM modules."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import llvmlite.binding as llvm

from tilewright.ir.errors import TileUnsupportedFeatureError

TRIPLE = "nvptx64-nvidia-cuda"
# Architecture -> the PTX version, as LLVM counts, that has all that it can do. With a suffix it can do more, and code
# for it runs nowhere else.
_ARCHITECTURES = {"80": 80, "86": 80, "89": 81, "90": 80, "90a": 80, "100": 86, "100a": 86, "120": 87, "120a": 87}
_WITH_SUFFIX = ("90", "100", "120")


@dataclass(frozen=True)
class Architecture:
    """A processor by its compute capability, such as ``sm_90a``."""

    name: str
    ptx_version: int

    @property
    def capability(self) -> int:
        """90 for sm_90 and for sm_90a."""
        return int(re.sub(r"\D", "", self.name))


@functools.cache
def architecture(name: str) -> Architecture:
    """The architecture ``sm_NN``, with the suffix of what only it has.

    TileUnsupportedFeatureError for an unknown one.
    """
    number = name.removeprefix("sm_")
    if number in _WITH_SUFFIX:
        number += "a"
    if not name.startswith("sm_") or number not in _ARCHITECTURES:
        known = ", ".join(f"sm_{n}" for n in _ARCHITECTURES)
        other = "; the triton backend has AMD's: pip install 'tilewright[gpu]'" if name.startswith("gfx") else ""
        raise TileUnsupportedFeatureError(
            f"the gpu backend does not know the architecture {name!r}; it has {known}{other}"
        )
    return Architecture(f"sm_{number}", _ARCHITECTURES[number])


@functools.cache
def _machine(target: Architecture, opt: int) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.name, features=f"+ptx{target.ptx_version}", opt=opt
    )


def emit_ptx(text: str, target: Architecture, *, coalesce: bool = False) -> str:
    """The PTX of LLVM IR in text form.

    Without optimization: what arrives is optimized, and passes of LLVM cost more than all the rest. With ``coalesce``
    values keep their registers from block to block: the assembler takes a copy of a sum in flight for a use of it.
    """
    module = llvm.parse_assembly(text)
    return str(_machine(target, int(coalesce)).emit_assembly(module))
