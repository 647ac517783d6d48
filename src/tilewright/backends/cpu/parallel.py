"""A launch that several threads take part in: what each of them does, and how they are cancelled or found stuck."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilewright.backends.cpu import threads
from tilewright.backends.cpu.compiled import CompiledKernel
from tilewright.backends.cpu.context import (
    ENDED,
    PATIENCE,
    STUCK_ITERATIONS,
    WAITS,
    WORKER_BYTES,
    Cancellation,
    Field,
    Worker,
)
from tilewright.backends.deadlock import Deadlock, Index, describe_blocks
from tilewright.ir.location import Loc

_WORDS = WORKER_BYTES // 8
Context = ctypes.c_int64 * len(Field)
Entry = Callable[[bytes, Any, int, int], None]


class _Record:
    """That of a worker: see ``context.Worker``."""

    def __init__(self) -> None:
        memory = (ctypes.c_int64 * (2 * _WORDS))()
        self.address = -(-ctypes.addressof(memory) // WORKER_BYTES) * WORKER_BYTES
        self.words = (ctypes.c_int64 * _WORDS).from_address(self.address)
        self._memory = memory


class BlockLocations(NamedTuple):
    """Where the blocks of ``kernel``, whose definition is at ``loc``, can be."""

    kernel: CompiledKernel
    loc: Loc

    def of(self, grid: Index, stopped: Sequence[tuple[int, int]]) -> list[tuple[Index, Loc | None, str]]:
        """Which blocks they are, and where: for numbers of polls and blocks."""
        x, y, _ = grid
        found: list[tuple[Index, Loc | None, str]] = []
        for poll, block in stopped:
            at = self.kernel.polls[poll - 1] if poll > 0 else (self.loc, "its end")
            found.append(((block % x, block // x % y, block // (x * y)), *at))
        return sorted(found, key=lambda place: place[0][::-1])

    def note(self, error: BaseException, grid: Index, stopped: Sequence[tuple[int, int]]) -> None:
        """Add to ``error``, which has cancelled a launch, where the workers were."""
        blocks = self.of(grid, [(poll, block) for poll, block in stopped if poll])
        if blocks and hasattr(error, "add_note"):  # since Python 3.11
            error.add_note(
                f"the launch of {self.loc.function or 'a kernel'}() was cancelled in {describe_blocks(blocks)}"
            )


class ParallelLaunch:
    """Blocks that ``count`` workers share, with the record ``context`` of the launch.

    Another thread may ``cancel`` it. ``watch`` is for kernels whose blocks may wait for each other.
    """

    def __init__(
        self, kernel: BlockLocations, grid: Index, packed: bytes, context: ctypes.Array[ctypes.c_int64], count: int
    ) -> None:
        self.context = context
        self._locations, self._grid, self._packed = kernel, grid, packed
        self._records: list[_Record] = []
        self.expected = count  # workers
        self._stuck: tuple[float, int, list[int]] | None = None  # since when, with which progress and iterations

    def work(self, entry: Entry) -> ctypes.Array[ctypes.c_int64]:
        """Run blocks until none is left; returns the words of the record of this thread."""
        record = _Record()
        self._records.append(record)
        memory = threads.take_scratch(self._locations.kernel.scratch_bytes)
        try:
            entry(self._packed, self.context, memory.address, record.address)
            return record.words
        finally:
            threads.give_scratch(memory)

    def cancel(self) -> None:
        """Let all blocks end soon."""
        self.context[Field.CANCELLED] = self.context[Field.CANCELLED] or Cancellation.REQUESTED

    def watch(self) -> int:
        """How many more threads are needed because all blocks that have started wait, and others have not started.

        Deadlock when none is left to start, either."""
        found = self._waiting()
        if found is None:
            self._stuck = None
            return 0
        waiting, progress = found
        waited = [words[Worker.WAITED] for words in waiting]
        if self._stuck is None or self._stuck[1] != progress or len(self._stuck[2]) != len(waited):
            self._stuck = (time.monotonic(), progress, waited)
            return 0
        since, _, before = self._stuck
        left = self.context[Field.TOTAL] - self.context[Field.NEXT]
        if left > 0:
            self._stuck = None
            more = min(left, len(self._records))
            self.expected += more
            return more
        if self.context[Field.FAILED]:  # what failed does not do what the others wait for
            self.cancel()
        elif time.monotonic() - since >= PATIENCE and min(a - b for a, b in zip(waited, before)) >= STUCK_ITERATIONS:
            raise Deadlock(self._locations.of(self._grid, [(w[Worker.WAITS_AT], w[Worker.BLOCK]) for w in waiting]))
        return 0

    def _waiting(self) -> tuple[list[ctypes.Array[ctypes.c_int64]], int] | None:
        """The records of the workers that are left, when all of them wait, and what they have changed in all."""
        if len(self._records) < self.expected:
            return None
        waiting, progress = [], 0
        for record in self._records:
            waited = record.words[Worker.WAITED]
            if 0 <= waited < WAITS:
                return None
            progress += record.words[Worker.PROGRESS]
            if waited != ENDED:
                waiting.append(record.words)
        return (waiting, progress) if waiting else None

    def explain(self, error: BaseException) -> None:
        """Note where the blocks were when they were cancelled."""
        self._locations.note(error, self._grid, [(r.words[Worker.POLL], r.words[Worker.BLOCK]) for r in self._records])
