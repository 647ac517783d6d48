"""A launch that several threads take part in: what each of them does, and how they are cancelled or found stuck."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tilewright.backends.cpu import threads
from tilewright.backends.cpu.compiled import PollLocation
from tilewright.backends.cpu.context import (
    ENDED,
    PATIENCE,
    STUCK,
    WORKER_BYTES,
    Axes,
    Cancellation,
    Field,
    Watch,
    Worker,
    block_index,
    worker_records,
)
from tilewright.backends.deadlock import OTHERS, Deadlock, Index, describe_blocks
from tilewright.ir.location import Loc
from tilewright.records import NamedTuple

Context = ctypes.c_int64 * len(Field)
Record: TypeAlias = "ctypes.Array[ctypes.c_int64]"
_RECORD = ctypes.c_int64 * len(Worker)
Entry = Callable[[bytes, Any, int, int], None]


def _records(count: int, *, ranges: bool) -> list[Record]:
    """Records of so many workers, one after the other: see ``context.Worker``."""
    memory = ctypes.create_string_buffer((count + 1) * WORKER_BYTES)
    start = -ctypes.addressof(memory) % WORKER_BYTES
    ctypes.memmove(ctypes.addressof(memory) + start, worker_records(count, ranges=ranges), count * WORKER_BYTES)
    return [_RECORD.from_buffer(memory, start + k * WORKER_BYTES) for k in range(count)]


class BlockLocations(NamedTuple):
    """Where the blocks of a kernel, whose definition is at ``loc``, can be."""

    polls: Callable[[], Sequence[PollLocation]]
    loc: Loc
    axes: Callable[[], Axes]  # of the grid, in the order of the blocks

    def of(self, grid: Index, stopped: Sequence[tuple[int, int]]) -> list[tuple[Index, Loc | None, str]]:
        """Which blocks they are, and where: for numbers of polls and blocks."""
        found: list[tuple[Index, Loc | None, str]] = []
        for poll, block in stopped:
            at = self.polls()[poll - 1] if poll > 0 else (self.loc, "its end")
            found.append((block_index(block, grid, self.axes()), *at))
        return sorted(found, key=lambda block: block[0][::-1])

    def note(self, error: BaseException, grid: Index, stopped: Sequence[tuple[int, int]]) -> None:
        """Add to ``error``, which has cancelled a launch, where the workers were."""
        known = [(poll, block) for poll, block in stopped if poll]
        if known and hasattr(error, "add_note"):  # since Python 3.11
            with contextlib.suppress(RuntimeError):  # the stack is too small to find what the polls are
                blocks = describe_blocks(self.of(grid, known))
                error.add_note(f"the launch of {self.loc.function or 'a kernel'}() was cancelled in {blocks}")


class ParallelLaunch:
    """Blocks that ``count`` workers share, with the record ``context`` of the launch.

    Another thread may ``cancel`` it. ``watch`` is for kernels whose blocks may wait for each other.
    """

    def __init__(
        self,
        kernel: BlockLocations,
        grid: Index,
        packed: bytes,
        context: ctypes.Array[ctypes.c_int64],
        count: int,
        scratch_bytes: int,
        *,
        ranges: bool,
        look: Callable[[Any, Any], int] | None,
    ) -> None:
        """``ranges``: each worker begins with blocks of its own (``codegen/drivers.ll``). ``look``: the function of
        ``codegen/drivers.ll``, where blocks may wait for each other."""
        self.context = context
        self._locations, self._grid, self._packed, self._scratch_bytes = kernel, grid, packed, scratch_bytes
        self.records: list[Record] = []  # of the workers that have begun
        self._free = dict(enumerate(_records(count, ranges=ranges)))
        self._look = look
        self._others = OTHERS.get() if look else None
        self._watched = (ctypes.c_int64 * len(Watch))()

    def work(self, entry: Entry) -> Record:
        """Run blocks until none is left; returns the record of this thread: that of its number, if it is free."""
        record = self._take_record()
        self.records.append(record)
        memory = threads.take_scratch(self._scratch_bytes)
        if self._others is not None:
            self._others.takes_part(id(self), True)
        try:
            entry(self._packed, self.context, memory.address, ctypes.addressof(record))
            return record
        finally:
            threads.give_scratch(memory)
            if self._others is not None:
                self._others.takes_part(id(self), False)

    def _take_record(self) -> Record:
        try:
            found = self._free.pop(threads.number(), None)
            return self._free.popitem()[1] if found is None else found
        except KeyError:  # more workers than were expected first: of blocks that wait, which have no ranges
            return _records(1, ranges=False)[0]

    def cancel(self) -> None:
        """Let all blocks end soon."""
        self.context[Field.CANCELLED] = self.context[Field.CANCELLED] or Cancellation.REQUESTED

    def watch(self, workers: int) -> int:
        """How many more threads than these ``workers`` are needed because all blocks that have started wait, and others
        have not started. Deadlock when none is left to start, either."""
        records = self.records
        if len(records) < workers:
            return 0
        if self._watched[Watch.COUNT] != len(records):
            rows = [word for record in records for word in (ctypes.addressof(record), 0)]
            head = int(PATIENCE * 1e9), 0, 0, 0, len(records), 0, 0  # see ``context.Watch``
            self._watched = (ctypes.c_int64 * (len(head) + len(rows)))(*head, *rows)
        assert self._look is not None
        found = self._look(self.context, self._watched)
        stuck = found == STUCK
        if self._others is not None:
            stuck = bool(self._others.is_stuck(id(self), stuck))
        if not stuck:
            return max(found, 0)
        waiting = [words for words in records if words[Worker.WAITED] != ENDED]
        raise Deadlock(self._locations.of(self._grid, [(w[Worker.WAITS_AT], w[Worker.BLOCK]) for w in waiting]))

    def explain(self, error: BaseException) -> None:
        """Note where the blocks were when they were cancelled."""
        self._locations.note(error, self._grid, [(r[Worker.POLL], r[Worker.BLOCK]) for r in self.records])
