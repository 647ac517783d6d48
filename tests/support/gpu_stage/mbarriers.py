"""Barriers in shared memory, and the copies that they wait for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from support.gpu_stage.faults import RACE, UNINITIALIZED, Fault
from support.gpu_stage.shadow import Array

from tilewright.ir.core import Op


@dataclass
class Arrival:
    """A copy by the TMA unit under way: what will be in the bytes ``addresses``, of the allocation of a buffer."""

    op: Op
    addresses: Array
    data: Array
    allocation: int
    known: Array  # what its side had done when it was begun


@dataclass
class Mbarrier:
    """One barrier: a phase is over when ``count`` have arrived, and all bytes that it expects."""

    count: int
    sides: int
    missing: int = 0
    bytes: int = 0
    parity: int = 0  # of the current phase
    visible: bool = False  # to others than the thread that made it
    visible_to_mate: bool = False
    arriving: list[Arrival] = field(default_factory=list)
    gathered: Array = field(init=False)
    known: Array = field(init=False)  # to those who wait

    def __post_init__(self) -> None:
        self.missing = self.count
        self.gathered, self.known = np.zeros(self.sides, np.int64), np.zeros(self.sides, np.int64)

    def arrive(self, known: Array, times: int = 1) -> None:
        """So ``many`` arrive, who did what is ``known``."""
        self.gathered = np.maximum(self.gathered, known)
        for _ in range(times):
            self.missing -= 1
            self._complete()

    def expect(self, size: int) -> None:
        """The phase expects ``size`` bytes more, or fewer where they have arrived."""
        self.bytes += size
        self._complete()

    def _complete(self) -> None:
        if self.missing == 0 and self.bytes == 0:
            self.known = np.maximum(self.known, self.gathered)
            self.missing = self.count
            self.parity ^= 1


class Mbarriers:
    """The mbarriers of a CTA, by the byte where each lies. ``changes`` counts what happened to them.

    As many ``sides`` as that come to know of each other by them.
    """

    def __init__(self, sides: int) -> None:
        self._found: dict[int, Mbarrier] = {}
        self._sides = sides
        self.changes = 0

    def init(self, offset: int, count: int) -> None:
        self._found[offset] = Mbarrier(count, self._sides)

    @property
    def arriving(self) -> list[Arrival]:
        """What is under way to this CTA."""
        return [arrival for barrier in self._found.values() for arrival in barrier.arriving]

    def publish(self, *, to_cluster: bool = False) -> None:
        """All threads have come to a barrier of the CTA, or of the cluster."""
        for barrier in self._found.values():
            barrier.visible = True
            barrier.visible_to_mate = barrier.visible_to_mate or to_cluster

    def at(self, op: Op, offset: int, *, by_mate: bool = False) -> Mbarrier:
        """The one at byte ``offset``, for ``op``, which may be one of the mate."""
        found = self._found.get(offset)
        if found is None:
            raise Fault(UNINITIALIZED, op, f"of byte {offset} of shared memory, where no barrier was made")
        if not (found.visible_to_mate if by_mate else found.visible):
            raise Fault(RACE, op, f"of the barrier at byte {offset}, which one thread made with no barrier since")
        return found
