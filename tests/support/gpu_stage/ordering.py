"""Which accesses to shared memory happen before which, where warps have different work, or other CTAs have access.

Each side has a clock, which advances when it says something to others through a barrier in shared memory; who waits for
that barrier knows what was done until then. What one side did to a byte and another one does not know of is a race.
"""

from __future__ import annotations

import numpy as np
from support.gpu_stage.faults import RACE, Fault
from support.gpu_stage.shadow import Array

from tilewright.ir.core import Op

SIDES = ("consumer", "producer", "stager")  # of a CTA


class Clocks:
    """What each side of the ``ctas`` of a cluster knows of each one; ``side`` is the number of the one that runs."""

    def __init__(self, ctas: int = 1) -> None:
        self.count = ctas * len(SIDES)
        self.side = 0
        self.known = np.ones((self.count, self.count), np.int64)  # row i: what side i knows
        np.fill_diagonal(self.known, 2)  # what was done before all began, all know

    @property
    def now(self) -> int:
        """The time of the side that runs."""
        return int(self.known[self.side, self.side])

    def release(self) -> Array:
        """What the side that runs has done, for those who come to know of it."""
        known = self.known[self.side].copy()
        self.known[self.side, self.side] += 1
        return known

    def acquire(self, known: Array) -> None:
        """The side that runs comes to know what others have released."""
        np.maximum(self.known[self.side], known, out=self.known[self.side])

    def join(self) -> None:
        """All sides of the CTA that runs have waited for each other."""
        first = self.side // len(SIDES) * len(SIDES)
        sides = range(first, first + len(SIDES))
        self.known[sides] = self.known[sides].max(0)
        self.known[sides, sides] += 1


class HappensBefore:
    """Accesses of all sides to ``size`` bytes of one CTA."""

    def __init__(self, size: int, clocks: Clocks) -> None:
        self.clocks = clocks
        self._written = np.zeros((clocks.count, size), np.int64)
        self._read = np.zeros((clocks.count, size), np.int64)
        self._last = np.zeros(clocks.count, np.int64)  # when each side had its last access

    def read(self, op: Op, addresses: Array) -> None:
        """Fault when another side wrote, as far as this one knows, at the same time."""
        self._check(op, addresses, self._written, "wrote")
        self._read[self.clocks.side, addresses] = self._last[self.clocks.side] = self.clocks.now

    def write(self, op: Op, addresses: Array) -> None:
        """Fault when another side accessed, as far as this one knows, at the same time."""
        self._check(op, addresses, self._written, "wrote")
        self._check(op, addresses, self._read, "reads")
        self._written[self.clocks.side, addresses] = self._last[self.clocks.side] = self.clocks.now

    def _check(self, op: Op, addresses: Array, times: Array, did: str) -> None:
        side = self.clocks.side
        for other in np.flatnonzero(self._last > self.clocks.known[side]).tolist():
            if other != side:
                unknown = times[other, addresses] > self.clocks.known[side, other]
                if unknown.any():
                    byte = int(np.asarray(addresses)[unknown][0])
                    whose = "" if other // len(SIDES) == side // len(SIDES) else " of the other CTA"
                    who = f"{SIDES[other % len(SIDES)]}{whose}"
                    raise Fault(
                        RACE, op, f"accesses byte {byte} of shared memory, which the {who} {did}: no barrier says when"
                    )
