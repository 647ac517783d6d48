"""Finds accesses of different blocks that nothing orders, by vector clocks (C++ reference 1.10).

A block is a thread; a release makes what it did before visible to whoever acquires at the same element later. Two
accesses of one element race unless one happens before the other, both are reads, or both are strong with a scope that
holds both blocks: what happened to come first in this run does not matter. So an atomic operation whose result nothing
uses acquires nothing, unless its block has learned of others before.

Of each element the last weak write, up to two strong writes and up to two reads of different blocks are remembered, as
numbers of *records*: a record is an operation of the program in one block between two of its releases.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.backends.reference.values import Array
from tilewright.ir.core import Op
from tilewright.ir.enums import MemoryScope
from tilewright.ir.ops.memory import MemoryOp
from tilewright.records import NamedTuple, dataclass
from tilewright.sanitizer.arrays import ArrayState
from tilewright.sanitizer.report import Index
from tilewright.sanitizer.windows import Touched

_ALL = ("write", "strong", "strong_other", "read", "read_other")
# Snapshots of clocks, and records, that may pile up before those that no element refers to are dropped.
_SNAPSHOTS, _RECORDS = 256, 1 << 16


class Record(NamedTuple):
    """Who did something: the operation and the block."""

    op: MemoryOp
    block: Index


@dataclass(frozen=True)
class Race:
    """Which of the touched elements race with an earlier access, and with which for the first of them."""

    wrong: Array
    other: Record


class Thread:
    """A block as the clocks see it: its number, its time, and what it knows of the times of others."""

    def __init__(self, number: int, index: Index) -> None:
        self.number = number
        self.index = index
        self.time = 1
        self.known: Array | None = None  # nothing until it acquires
        self.learns = False  # whether it has used what a strong operation read: else it cannot know what came first
        self.records: dict[Op, int] = {}
        self.generation = 0  # of the numbers in ``records``


def latest(clock: Array | None, other: Array | None) -> Array | None:
    """What is known by either of two clocks; None knows nothing."""
    if clock is None or other is None:
        return other if clock is None else clock
    return np.asarray(np.maximum(clock, other))


class Races:
    """The clocks of one launch of ``blocks`` blocks on ``arrays``."""

    def __init__(self, blocks: int, arrays: Sequence[ArrayState]) -> None:
        self.blocks = blocks
        self.arrays = arrays
        self.records: list[Record | None] = [None]
        self._block = np.full(1024, -1, np.int32)
        self._time = np.zeros(1024, np.int32)
        self._excludes = np.zeros(1024, bool)  # weak, or of a scope without the other blocks
        self._snapshots: dict[int, Array] = {}
        self._next_snapshot = 1
        self._snapshots_at, self._records_at = _SNAPSHOTS, _RECORDS
        self._generation = 0
        self._free: list[int] = []

    def record(self, thread: Thread, op: MemoryOp) -> int:
        """The number of ``op`` in this block at this time."""
        if thread.generation != self._generation:
            thread.records.clear()
            thread.generation = self._generation
        number = thread.records.get(op)
        if number is not None:
            return number
        if self._free:
            number = self._free.pop()
        else:
            number = len(self.records)
            self.records.append(None)
            if number == len(self._block):
                self._block, self._time = np.resize(self._block, 2 * number), np.resize(self._time, 2 * number)
                self._excludes = np.resize(self._excludes, 2 * number)
        self.records[number] = Record(op, thread.index)
        self._block[number], self._time[number] = thread.number, thread.time
        self._excludes[number] = op.memory_scope in (MemoryScope.NONE, MemoryScope.BLOCK)
        thread.records[op] = number
        return number

    # -- accesses

    def read(self, thread: Thread, array: ArrayState, touched: Touched, op: MemoryOp) -> Race | None:
        race = self._against(thread, array, touched, ("write", "strong", "strong_other"), op)
        self._remember(thread, array, touched, op, "read", "read_other")
        return race

    def weak_write(self, thread: Thread, array: ArrayState, touched: Touched, op: MemoryOp) -> Race | None:
        race = self._against(thread, array, touched, _ALL, op)
        touched.fill(array.field("write"), self.record(thread, op))
        for name in ("read", "read_other", "strong", "strong_other", "released"):
            if name in array.used:
                touched.fill(array.field(name), 0)
        return race

    def strong_write(self, thread: Thread, array: ArrayState, touched: Touched, op: MemoryOp) -> Race | None:
        race = self._against(thread, array, touched, _ALL, op)
        self._remember(thread, array, touched, op, "strong", "strong_other")
        return race

    def _unordered(self, thread: Thread, numbers: Array) -> Array:
        """Which of the records in ``numbers`` belong to other blocks and do not happen before now."""
        block = self._block[numbers]
        other = (numbers != 0) & (block != thread.number)
        if thread.known is not None:
            other &= self._time[numbers] > thread.known[block]
        return np.asarray(other)

    def _against(
        self, thread: Thread, array: ArrayState, touched: Touched, names: tuple[str, ...], op: MemoryOp
    ) -> Race | None:
        """The first race of ``op`` with what is remembered under ``names``."""
        scope = op.memory_scope
        for name in names:
            if name not in array.used:
                continue
            numbers = touched.of(array.field(name))
            if not numbers.any():
                continue
            wrong = self._unordered(thread, numbers)
            if scope not in (MemoryScope.NONE, MemoryScope.BLOCK):
                wrong &= self._excludes[numbers]
            if wrong.any():
                other = self.records[int(numbers[wrong].reshape(-1)[0])]
                assert other is not None
                return Race(wrong, other)
        return None

    def _remember(
        self, thread: Thread, array: ArrayState, touched: Touched, op: MemoryOp, first: str, second: str
    ) -> None:
        """Put this access in one of two slots: over one of this block or one that happened before it, if any."""
        number = self.record(thread, op)
        field = array.field(first)
        held = touched.of(field)
        occupied = self._unordered(thread, held)
        if not occupied.any():
            touched.fill(field, number)
            return
        other = array.field(second)
        touched.fill(field, np.where(occupied, held, number))
        touched.fill(other, np.where(occupied, number, touched.of(other)))

    # -- synchronization

    def released(self, array: ArrayState, touched: Touched) -> Array | None:
        """The times of blocks that whoever acquires at these elements gets to know."""
        if "released" not in array.used:
            return None
        numbers = np.unique(touched.of(array.field("released"))).tolist()
        clocks = [self._snapshots[n] for n in numbers if n]
        return np.asarray(np.maximum.reduce(clocks)) if clocks else None

    def release(self, thread: Thread, array: ArrayState, touched: Touched, earlier: Array | None) -> None:
        """What this block did until now becomes visible to those who acquire at these elements, as what was
        ``earlier`` released there."""
        snapshot = latest(thread.known, earlier)
        snapshot = np.zeros(self.blocks, np.int32) if snapshot is None else snapshot.copy()
        snapshot[thread.number] = thread.time
        thread.time += 1
        thread.records.clear()
        number = self._next_snapshot
        self._next_snapshot += 1
        self._snapshots[number] = snapshot
        touched.fill(array.field("released"), number)
        if len(self._snapshots) > self._snapshots_at:
            self._drop_snapshots()
        if len(self.records) - len(self._free) > self._records_at:
            self._drop_records()

    def forget(self, array: ArrayState, touched: Touched) -> None:
        """A relaxed store: it ends the chain of releases at these elements."""
        if "released" in array.used:
            touched.fill(array.field("released"), 0)

    def _referred(self, names: tuple[str, ...]) -> set[int]:
        """The numbers that the elements of any array hold under ``names``."""
        fields = (array.field(name) for array in self.arrays for name in names if name in array.used)
        return {n for field in fields for n in np.unique(field).tolist()}

    def _drop_snapshots(self) -> None:
        used = self._referred(("released",))
        self._snapshots = {n: s for n, s in self._snapshots.items() if n in used}
        self._snapshots_at = max(_SNAPSHOTS, 2 * len(self._snapshots))

    def _drop_records(self) -> None:
        used = self._referred(_ALL)
        self._free = [n for n in range(1, len(self.records)) if n not in used]
        for number in self._free:
            self.records[number] = None
        self._generation += 1
        self._records_at = max(_RECORDS, 2 * len(used))
