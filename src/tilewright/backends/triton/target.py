"""The GPUs that kernels are compiled for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tilewright.ir.hints import ByTarget


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
    def has_tma(self) -> bool:
        """Whether it copies tiles by tensor descriptors."""
        return self.capability >= 90

    @property
    def has_wgmma(self) -> bool:
        return self.capability // 10 == 9

    @property
    def has_fp8(self) -> bool:
        """Whether it converts and multiplies 8-bit floats."""
        return self.capability >= 89

    @property
    def shared_memory(self) -> int:
        """Bytes of shared memory that one block can use."""
        if not self.is_cuda:
            return 65536
        return {80: 166912, 86: 101376, 87: 166912, 89: 101376}.get(
            self.capability, 232448 if self.capability < 120 else 101376
        )


def resolved(hint: Any, target: GpuTarget) -> Any:
    """The value of a hint that may depend on the architecture."""
    return hint.resolve(target.name) if isinstance(hint, ByTarget) else hint


def parse_target(name: str) -> GpuTarget:
    """The target called ``name``. ValueError when kernels cannot be compiled for it."""
    if not re.fullmatch(r"sm_\d{2,3}|gfx[0-9a-f]{3,5}", name):
        raise ValueError(f"{name!r} is no GPU architecture; write for example sm_90 or gfx942")
    target = GpuTarget(name)
    if target.is_cuda and not 80 <= target.capability <= 129:
        raise ValueError(
            f"{name} is not supported: kernels compile for sm_80 to sm_129, and for AMD's gfx architectures"
        )
    return target
