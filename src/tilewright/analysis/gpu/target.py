"""The GPUs that kernels are compiled for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tilewright.ir.hints import ByTarget

# CUDA C++ Programming Guide, technical specifications per compute capability: registers of 32 bits.
SM_REGISTERS, THREAD_REGISTERS = 65536, 255
TF32_ROUNDING = 90  # the compute capability from which on one instruction rounds to nearest: PTX ISA, "cvt"


@dataclass(frozen=True)
class GpuTarget:
    """An architecture: ``sm_90`` (NVIDIA, compute capability 9.0) or ``gfx942`` (AMD)."""

    name: str

    @property
    def is_cuda(self) -> bool:
        return self.name.startswith("sm_")

    @property
    def capability(self) -> int:
        """The compute capability times ten; 0 for AMD."""
        return int(self.name[3:]) if self.is_cuda else 0

    @property
    def warp_size(self) -> int:
        return 64 if self.name.startswith("gfx9") else 32

    @property
    def most_warps(self) -> int:
        """The most warps of a block, which has up to 1024 threads."""
        return 1024 // self.warp_size

    @property
    def has_tma(self) -> bool:
        """Whether it copies tiles by tensor descriptors."""
        return self.capability >= 90

    @property
    def has_wgmma(self) -> bool:
        return self.capability // 10 == 9

    @property
    def has_tensor_memory(self) -> bool:
        """Whether MMA ops have a memory of their own for accumulators."""
        return self.capability // 10 == 10

    @property
    def multiplies_integers(self) -> bool:
        """Whether MMA ops of warp groups do: those of sm_103 do not. PTX ISA, "tcgen05.mma"."""
        return self.has_wgmma or self.capability == 100

    @property
    def has_fp8(self) -> bool:
        """Whether it converts and multiplies 8-bit floats."""
        return self.capability >= 89

    @property
    def shared_memory(self) -> int:
        """Bytes of shared memory that one block can use."""
        return _NVIDIA[self.name] if self.is_cuda else _AMD[self.name]


def most_registers(threads: int) -> int:
    """The registers that each thread can have where an SM has so many ``threads``."""
    return min(SM_REGISTERS // threads, THREAD_REGISTERS)


def resolved(hint: Any, target: GpuTarget) -> Any:
    """The value of a hint that may depend on the architecture."""
    return hint.resolve(target.name) if isinstance(hint, ByTarget) else hint


# Architecture -> bytes of shared memory that one block can use.
_NVIDIA = {
    **dict.fromkeys(("sm_80", "sm_87"), 166912),
    **dict.fromkeys(("sm_86", "sm_89", "sm_120", "sm_121"), 101376),
    **dict.fromkeys(("sm_90", "sm_100", "sm_103", "sm_110"), 232448),
}
_AMD = {
    **dict.fromkeys(("gfx908", "gfx90a", "gfx942"), 65536),
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151", "gfx1200", "gfx1201"), 65536),
    "gfx950": 163840,
    "gfx1250": 327680,
}


def parse_target(name: str) -> GpuTarget:
    """The target called ``name``. ValueError when kernels cannot be compiled for it."""
    if name in _NVIDIA or name in _AMD:
        return GpuTarget(name)
    if not isinstance(name, str) or not re.fullmatch(r"sm_\d{2,3}|gfx[0-9a-f]{3,4}", name):
        raise ValueError(f"{name!r} is no GPU architecture; write for example sm_90 or gfx942")
    known = sorted(_NVIDIA, key=lambda n: int(n[3:])) if name.startswith("sm_") else _AMD
    raise ValueError(f"{name} is not supported: kernels compile for {', '.join(known)}")
