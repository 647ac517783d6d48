"""The processor that code is generated for: the one that this process runs on."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path

import llvmlite.binding as llvm

from tilewright.backends.vector.features import HostFeatures
from tilewright.records import NamedTuple
from tilewright.system.environment import SettingError, switch
from tilewright.system.processors import request_tiles

# Bytes of a last-level cache for each processor, at most: a virtual machine is told of the cache of a whole socket,
# most of which others use. With two processors of 260 MiB, copies of 64 MiB were 1.27 times as fast past the caches.
_CACHE_OF_ONE = 8 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Processor(NamedTuple):
    """What code generation wants to know: element features, size and number of vector registers, the caches."""

    triple: str
    cpu: str
    flags: str
    features: HostFeatures
    vector_bytes: int
    vector_registers: int
    cache_bytes: int = 32 << 20  # of the last-level cache, as far as it is ours

    def lanes(self, element_bytes: int) -> int:
        """Elements of a vector register."""
        return max(1, self.vector_bytes // element_bytes)


def host() -> Processor:
    """The processor of this machine, as this process may use it.

    SettingError if TILEWRIGHT_BF16_DOT asks for instructions that it does not have.
    """
    return _with_bf16_dot() if switch("TILEWRIGHT_BF16_DOT") else _host()


def for_other_programs(processor: Processor) -> Processor:
    """``processor`` without what a process has to ask for, as programs do not that load our code without us."""
    features = processor.features._replace(dot_byte_tiles=False, dot_bfloat_tiles=False)
    return processor._replace(features=features)


@functools.cache
def _host() -> Processor:
    _initialize()
    found = described(llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features())
    share = (os.cpu_count() or 1) * _CACHE_OF_ONE
    features = found.features._replace(dot_byte_tiles=_has_tiles(found, "int8"))
    cache_bytes = min(last_level_cache() or found.cache_bytes, share)
    return found._replace(features=features, cache_bytes=cache_bytes)


def _has_tiles(processor: Processor, kind: str) -> bool:
    """Whether this process may use tile registers for elements of this ``kind``."""
    return f"+amx-{kind}" in processor.flags.split(",") and request_tiles()


@functools.cache
def _with_bf16_dot() -> Processor:
    processor = _host()
    if not processor.features.bfloat:
        raise SettingError(
            f"TILEWRIGHT_BF16_DOT=1 asks for AVX-512 BF16, which this processor ({processor.cpu}) does not have; "
            "unset it to multiply bfloat16 as float32"
        )
    features = processor.features._replace(dot_bfloat=True, dot_bfloat_tiles=_has_tiles(processor, "bf16"))
    return processor._replace(features=features)


def last_level_cache() -> int | None:
    """Bytes of the largest cache of a processor of this machine; None where Linux does not tell."""
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        if text[:-1].isdecimal() and text[-1] in _UNITS:
            sizes.append(int(text[:-1]) * _UNITS[text[-1]])
    return max(sizes, default=None)


def described(triple: str, cpu: str, flags: Mapping[str, bool]) -> Processor:
    """The processor that LLVM knows by these names; ``flags`` are the instruction sets that it has, or has not."""
    features = HostFeatures.of(triple, flags)
    vector_bytes = 64 if features.wide else 32 if flags.get("avx2") else 16
    registers = 32 if features.wide or triple.startswith(("aarch64", "arm64")) else 16
    text = ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(flags.items()))
    if features.wide:
        text += ",-prefer-256-bit"
    return Processor(triple, cpu, text, features, vector_bytes, registers)


@functools.cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.lru_cache(maxsize=8)
def machine(processor: Processor, *, position_independent: bool = False, level: int = 2) -> llvm.TargetMachine:
    """LLVM's code generator for ``processor``: for code that is loaded here, or for a shared library."""
    return new_machine(processor, position_independent=position_independent, level=level)


def new_machine(processor: Processor, *, position_independent: bool = False, level: int = 2) -> llvm.TargetMachine:
    """A code generator of one's own, such as execution engines take, which free it in the end."""
    target = llvm.Target.from_triple(processor.triple)
    common = {"cpu": processor.cpu, "features": processor.flags, "opt": level}
    if position_independent:
        return target.create_target_machine(reloc="pic", codemodel="default", **common)
    return target.create_target_machine(reloc="default", codemodel="jitdefault", jit=True, **common)
