"""Which accesses to shared memory happen before which, where the warps of a CTA have different work.

Each side has a clock, which advances when it says something to others through a barrier in shared memory; who waits for
that barrier knows what was done until then. What one side did to a byte and another one does not know of is a race.
"""

from __future__ import annotations

import numpy as np

from tilewright.backends.gpu.interpreter.faults import RACE, Fault
from tilewright.backends.gpu.interpreter.shadow import Array
from tilewright.ir.core import Op

SIDES = ("consumer", "producer")


class Ordering:
    """Accesses of both sides to ``size`` bytes; ``side`` is the number of the one that runs."""

    def __init__(self, size: int) -> None:
        self.side = 0
        self.clocks = np.ones((len(SIDES), len(SIDES)), np.int64)  # row i: what side i knows of each one
        self._written = np.zeros((len(SIDES), size), np.int64)
        self._read = np.zeros((len(SIDES), size), np.int64)
        np.fill_diagonal(self.clocks, 2)  # what was done before both began, both know

    def release(self) -> Array:
        """What the side that runs has done, for those who come to know of it."""
        known = self.clocks[self.side].copy()
        self.clocks[self.side, self.side] += 1
        return known

    def acquire(self, known: Array) -> None:
        """The side that runs comes to know what others have released."""
        np.maximum(self.clocks[self.side], known, out=self.clocks[self.side])

    def read(self, op: Op, places: Array) -> None:
        """Fault when the other side wrote, as far as this one knows, at the same time."""
        self._check(op, places, self._written, "wrote")
        self._read[self.side, places] = self.clocks[self.side, self.side]

    def write(self, op: Op, places: Array) -> None:
        """Fault when the other side accessed, as far as this one knows, at the same time."""
        self._check(op, places, self._written, "wrote")
        self._check(op, places, self._read, "reads")
        self._written[self.side, places] = self.clocks[self.side, self.side]

    def _check(self, op: Op, places: Array, times: Array, did: str) -> None:
        for other, name in enumerate(SIDES):
            if other != self.side:
                unknown = times[other, places] > self.clocks[self.side, other]
                if unknown.any():
                    byte = int(np.asarray(places)[unknown][0])
                    raise Fault(
                        RACE, op, f"accesses byte {byte} of shared memory, which the {name} {did}: no barrier says when"
                    )
