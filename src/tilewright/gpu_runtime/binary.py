"""What a GPU compiler gives: machine code of one kernel, and how it is launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class GpuBinary:
    """Machine code of one kernel, and what a launch needs to know of it. ``texts`` are the stages of compilation.

    A block is launched with ``threads`` or, where that is 0, with 32 for each of ``num_warps``.
    """

    code: bytes
    symbol: str
    num_warps: int
    num_ctas: int
    shared_bytes: int
    scratch_bytes: int
    descriptors: tuple[dict[str, Any], ...]
    boxes: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # as ``descriptors``, by tile: those of tables
    threads: int = 0
    texts: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def block_threads(self) -> int:
        return self.threads or 32 * self.num_warps
