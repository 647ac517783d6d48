"""Blocks that are plain Python calls, run in turns.

The blocks run one after the other in the thread of the launch, where debuggers expect them. One that waits for memory
stays there while others run in threads of their own; only one of them runs at any time.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from tilewright.backends.reference.interpreter import Exit, Index, Running
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.scheduler import TURN, run_blocks
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.memory import MemoryOp

# Strong memory operations after which a block hands over. It counts as a whole turn: changing threads is slow.
HANDOVER = 16


class _Cancelled(BaseException):
    """Ends a waiting block of a launch that has failed."""


Pause = Callable[[MemoryOp], None]
Body = Callable[[Pause], None]


class _Turn:
    """One block: runs in a thread of its own choice, while another one decides when."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._resume: SimpleQueue[bool] = SimpleQueue()
        self._report: SimpleQueue[MemoryOp | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._count = 0
        self.ended = False

    def work(self) -> None:
        """Run the block to its end."""
        try:
            if self._resume.get():
                self._body(self._pause)
        except BaseException as e:  # noqa: BLE001 - it is raised again where the block was advanced
            self._error = e
        self.ended = True
        self._report.put(None)

    def _pause(self, op: MemoryOp) -> None:
        self._count += 1
        if self._count % HANDOVER:
            return
        self._report.put(op)
        if not self._resume.get():
            raise _Cancelled

    def advance(self) -> MemoryOp | None:
        """Let the block run until it hands over, before the op returned, or ends: None. Raises what it raises."""
        self._resume.put(True)
        op = self._report.get()
        if self._error is not None:
            raise self._error
        return op

    def cancel(self) -> None:
        """Let the block end where it waits."""
        self._resume.put(False)
        self._report.get()


class _Launch:
    """The thread of the launch runs blocks, and a second one the scheduler of the reference backend."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._tasks: SimpleQueue[_Turn | None] = SimpleQueue()
        self._waiting: list[_Turn] = []
        self._free = True  # the thread of the launch has no block
        self._trace = sys.gettrace()
        self._context = contextvars.copy_context()

    def serve(self) -> None:
        """Run blocks in this thread until the launch has ended."""
        while (turn := self._tasks.get()) is not None:
            turn.work()

    def schedule(self, bodies: Iterator[tuple[Index, Body]], memory: Memory) -> None:
        """Run all blocks; then ``serve`` returns."""
        try:
            run_blocks(((index, self._running(body)) for index, body in bodies), memory)
        except BaseException as e:  # noqa: BLE001 - it is raised again in the thread of the launch
            self.error = e
        for turn in self._waiting:
            turn.cancel()
        self._tasks.put(None)

    def _running(self, body: Body) -> Running:
        turn = _Turn(body)
        served = self._free
        if served:
            self._free = False
            self._tasks.put(turn)
        else:
            threading.Thread(target=self._context.copy().run, args=(self._traced, turn), daemon=True).start()
        self._waiting.append(turn)
        try:
            while (op := turn.advance()) is not None:
                for _ in range(TURN):
                    yield op
        finally:
            if turn.ended:
                self._waiting.remove(turn)
        self._free |= served
        return Exit(Return, [], [])

    def _traced(self, turn: _Turn) -> None:
        """A debugger that steps through the thread of the launch follows blocks into theirs."""
        sys.settrace(self._trace)
        turn.work()


def run(bodies: Iterator[tuple[Index, Body]], memory: Memory) -> None:
    """Run every block; ``bodies`` take the function to call before strong memory operations.

    Raises what a block raises, and TileError for deadlock.
    """
    launch = _Launch()
    scheduler = threading.Thread(target=launch.schedule, args=(bodies, memory), daemon=True)
    scheduler.start()
    launch.serve()
    scheduler.join()
    if launch.error is not None:
        raise launch.error
