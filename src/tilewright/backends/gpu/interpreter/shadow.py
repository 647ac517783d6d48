"""Shadow memory: which threads accessed each byte since the last barrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backends.gpu.interpreter.faults import RACE, Fault
from tilewright.ir.core import Op

Array = np.ndarray[Any, Any]
_MANY = -2  # threads


class Shadow:
    """The accesses to ``size`` bytes of memory called ``memory``. ``advance`` is a barrier of all threads."""

    def __init__(self, size: int, memory: str) -> None:
        self.memory = memory
        self.epoch = 0
        self.ops: list[Op] = []
        self._numbers: dict[Op, int] = {}
        # Of the last write and the last read: the thread, the epoch, and the op.
        self.written = np.full((3, size), -1, np.int32)
        self.loaded = np.full((3, size), -1, np.int32)

    def advance(self) -> None:
        self.epoch += 1

    def number(self, op: Op) -> int:
        """A number for ``op``, which ``ops`` has at that position."""
        if op not in self._numbers:
            self._numbers[op] = len(self.ops)
            self.ops.append(op)
        return self._numbers[op]

    def read(self, op: Op, places: Array, threads: Array) -> None:
        """``threads[i]`` reads the bytes ``places[i]``; Fault when another one wrote there since the last barrier."""
        places, threads = _flat(places, threads)
        self._check(op, "reads", places, threads, self.written, "wrote")
        recent = self.loaded[1, places] == self.epoch
        others = recent & (self.loaded[0, places] != threads)
        self.loaded[0, places] = threads
        # Where several threads read one byte at once, the last one of them was kept.
        shared = others | (self.loaded[0, places] != threads)
        self.loaded[0, places[shared]] = _MANY
        self.loaded[1, places] = self.epoch
        self.loaded[2, places] = self.number(op)

    def write(self, op: Op, places: Array, threads: Array) -> None:
        """``threads[i]`` writes ``places[i]``; Fault when another one accessed them since, or does so at once."""
        places, threads = _flat(places, threads)
        self._check(op, "writes", places, threads, self.written, "wrote")
        self._check(op, "writes", places, threads, self.loaded, "read")
        self.written[0, places] = threads
        twice = self.written[0, places] != threads
        if twice.any():
            i = int(np.flatnonzero(twice)[0])
            pair = f"threads {threads[i]} and {self.written[0, places[i]]} both write {self._place(places[i])}"
            raise Fault(RACE, op, f"where {pair}")
        self.written[1, places] = self.epoch
        self.written[2, places] = self.number(op)

    def _check(self, op: Op, verb: str, places: Array, threads: Array, earlier: Array, did: str) -> None:
        thread, epoch, by = earlier[:, places]
        wrong = (epoch == self.epoch) & (thread != threads)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            other = "other threads" if thread[i] == _MANY else f"thread {thread[i]}"
            first = self.ops[int(by[i])]
            raise Fault(
                RACE,
                op,
                f"where thread {threads[i]} {verb} {self._place(places[i])}, which {other} {did} in {first.name} at "
                f"{first.loc} with no barrier between",
            )

    def _place(self, byte: int) -> str:
        return f"byte {byte} of {self.memory}"


def _flat(places: Array, threads: Array) -> tuple[Array, Array]:
    """Each byte with its thread."""
    return places.ravel(), np.broadcast_to(threads[:, None], places.shape).ravel()
