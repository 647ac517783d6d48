"""Shadow memory: which threads accessed each byte since the last barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.gpu_stage.faults import RACE, Fault

from tilewright.ir.core import Op

Array = np.ndarray[Any, Any]
_MANY = -2  # threads; those of warp group g alone are -3 - g
_GROUP = 128  # threads of a warp group


class Shadow:
    """The accesses to ``size`` bytes of memory called ``memory``.

    ``advance`` is a barrier of all threads, ``advance_groups`` one of each warp group.
    """

    def __init__(self, size: int, memory: str) -> None:
        self.memory = memory
        self.epoch = 1  # bytes that nobody has accessed were so in epoch 0: memory is zeros until it is touched
        self.group_epoch = 0
        self.ops: list[Op] = []
        self._numbers: dict[Op, int] = {}
        # Of the last write and the last read: the thread, the epoch, the op, and the epoch of warp groups.
        self.written = np.zeros((4, size), np.int32)
        self.loaded = np.zeros((4, size), np.int32)

    def advance(self) -> None:
        self.epoch += 1

    def advance_groups(self) -> None:
        self.group_epoch += 1

    def number(self, op: Op) -> int:
        """A number for ``op``, which ``ops`` has at that position."""
        if op not in self._numbers:
            self._numbers[op] = len(self.ops)
            self.ops.append(op)
        return self._numbers[op]

    def read(self, op: Op, addresses: Array, threads: Array) -> None:
        """``threads[i]`` reads byte ``addresses[i]``; Fault when another one wrote there since the last barrier."""
        addresses, threads = _flat(addresses, threads)
        self._check(op, "reads", addresses, threads, self.written, "wrote")
        before = self.loaded[0, addresses].copy()
        # Those of the same warp group, before the last barrier of that, need not be remembered.
        recent = (self.loaded[1, addresses] == self.epoch) & ~self._group_done(self.loaded, addresses, threads)
        others = recent & (before != threads)
        self.loaded[0, addresses] = threads
        # Where several threads read one byte at once, the last one of them was kept.
        shared = others | (self.loaded[0, addresses] != threads)
        if shared.any():
            several, group = addresses[shared], _group_of(threads[shared])
            alike = ~others[shared] | (_group_of(before[shared]) == group)
            kept = np.where(alike, -3 - group, _MANY)
            self.loaded[0, several] = kept
            self.loaded[0, several[self.loaded[0, several] != kept]] = _MANY
        self.loaded[1, addresses] = self.epoch
        self.loaded[2, addresses] = self.number(op)
        self.loaded[3, addresses] = self.group_epoch

    def _group_done(self, earlier: Array, addresses: Array, threads: Array) -> Array | np.bool_:
        """Where only threads of the same warp group accessed, and it has waited for itself since."""
        if not self.group_epoch:
            return np.False_
        thread, epoch = earlier[0, addresses], earlier[3, addresses]
        return (epoch < self.group_epoch) & (_group_of(thread) == _group_of(threads))

    def write(self, op: Op, addresses: Array, threads: Array) -> None:
        """``threads[i]`` writes ``addresses[i]``; Fault when another one accessed them since, or does so at once."""
        addresses, threads = _flat(addresses, threads)
        self._check(op, "writes", addresses, threads, self.written, "wrote")
        self._check(op, "writes", addresses, threads, self.loaded, "read")
        self.written[0, addresses] = threads
        twice = self.written[0, addresses] != threads
        if twice.any():
            i = int(np.flatnonzero(twice)[0])
            pair = (
                f"threads {threads[i]} and {self.written[0, addresses[i]]} both write {self._described(addresses[i])}"
            )
            raise Fault(RACE, op, f"where {pair}")
        self.written[1, addresses] = self.epoch
        self.written[2, addresses] = self.number(op)
        self.written[3, addresses] = self.group_epoch

    def require_read(self, op: Op, addresses: Array) -> None:
        """The first thread overwrites ``addresses``; Fault when others read them since the last barrier."""
        addresses, threads = _flat(addresses, np.zeros(len(addresses), np.int64))
        self._check(op, "writes", addresses, threads, self.loaded, "read")

    def _check(self, op: Op, verb: str, addresses: Array, threads: Array, earlier: Array, did: str) -> None:
        thread, epoch, by, _ = earlier[:, addresses]
        wrong = (epoch == self.epoch) & (thread != threads) & ~self._group_done(earlier, addresses, threads)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            other = "other threads" if thread[i] <= _MANY else f"thread {thread[i]}"
            first = self.ops[int(by[i])]
            raise Fault(
                RACE,
                op,
                f"where thread {threads[i]} {verb} {self._described(addresses[i])}, which {other} {did} "
                f"in {first.name} at {first.loc} with no barrier between",
            )

    def _described(self, byte: int) -> str:
        return f"byte {byte} of {self.memory}"


def _group_of(thread: Array) -> Array:
    """The warp group of a thread, or of several of it; -1 where they are of different ones."""
    return np.where(thread >= 0, thread // _GROUP, np.where(thread <= -3, -3 - thread, -1))


def _flat(addresses: Array, threads: Array) -> tuple[Array, Array]:
    """Each byte with its thread."""
    return addresses.ravel(), np.broadcast_to(threads[:, None], addresses.shape).ravel()
