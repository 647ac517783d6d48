"""The backend ``sanitizer``: the reference backend, with every block checked."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.base import Backend, Capabilities, Executable
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.backends.reference.backend import NumpyBackend, bound_arguments
from tilewright.backends.reference.interpreter import Index, Running
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.scheduler import Deadlock, Waiting, run_blocks
from tilewright.backends.reference.values import PartitionView, Pointers
from tilewright.ir.core import Function
from tilewright.ir.printer import print_function
from tilewright.sanitizer.aliasing import check_arguments, check_promises
from tilewright.sanitizer.batches import Blocks
from tilewright.sanitizer.block import CheckedBlock
from tilewright.sanitizer.categories import CATEGORIES
from tilewright.sanitizer.events import Launch
from tilewright.sanitizer.launch import LaunchState
from tilewright.sanitizer.lockstep import batch_size
from tilewright.sanitizer.repetition import Repetition
from tilewright.sanitizer.report import Related, Violation
from tilewright.sanitizer.session import Session, current_session
from tilewright.sanitizer.uninitialized import unmarked_memory

_TURN = 8  # memory operations that a spinning block makes before others run: observed ones take longer
_SHOWN_BLOCKS = 16  # blocks of a deadlock that the report lists


class SanitizedExecutable(Executable):
    """A function that reports its violations to the current session when it is launched."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._effects = AnalysisManager(function).get(argument_effects)
        self._repetition = Repetition(function)

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Run every block of ``grid`` in the order of the session's schedule.

        UndefinedBehaviorError at the first violation when the session asks for that.
        """
        with unmarked_memory():
            self._launch(current_session(), grid, arguments)

    def _launch(self, session: Session, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        session.report.launches += 1
        memory = Memory(arguments.buffers)
        state = LaunchState(session, self.function, memory, grid, self._effects.written)
        for sink in session.sinks:
            sink.launch(Launch(self.function.name, grid, memory.buffers))
        check = functools.partial(self._check, session, grid, arguments, memory, state)
        self._repetition.launch(state, grid, arguments, check)

    def _check(
        self, session: Session, grid: Index, arguments: LaunchArguments, memory: Memory, state: LaunchState
    ) -> None:
        """Run every block under observation."""
        check_arguments(state)
        values = bound_arguments(self.function, memory, arguments)
        running: dict[Index, CheckedBlock] = {}

        def checked(block: CheckedBlock) -> Running:
            running[block.index] = block
            end = yield from block.run_all(self.function.body)
            del running[block.index]
            return end

        def blocks() -> Iterator[tuple[Index, Running]]:
            size = batch_size(self.function, self._effects, memory, state)
            for block in Blocks(grid, memory, values, state).alone(session.schedule.indices(grid), size):
                yield block.index, checked(block)

        try:
            run_blocks(blocks(), memory, session.schedule, _TURN)
        except Deadlock as deadlock:
            session.add(_deadlock(state, deadlock, running))
        finally:
            for sink in session.sinks:
                sink.finished()
        check_promises(state)

    def stages(self) -> Mapping[str, str]:
        return {"Tile IR": print_function(self.function)}


def _deadlock(state: LaunchState, deadlock: Deadlock, running: dict[Index, CheckedBlock]) -> Violation:
    """What every block waits for, as a violation."""
    related = []
    for waiting in deadlock.waiting[:_SHOWN_BLOCKS]:
        if waiting.op is not None:
            what = _awaited(state, waiting, running[waiting.index])
            related.append(Related(f"waits at {what}", waiting.op.loc, waiting.index))
    count = len(deadlock.waiting)
    first = deadlock.waiting[0]
    assert first.op is not None
    message = f"{count} block{'s wait' if count > 1 else ' waits'} for memory that none of them changes"
    return Violation(
        CATEGORIES["deadlock"], message, state.function.name, first.op.loc, first.index, related=tuple(related)
    )


def _awaited(state: LaunchState, waiting: Waiting, block: CheckedBlock) -> str:
    """The element that the operation of a waiting block accesses, and what it holds."""
    assert waiting.op is not None
    target = block.values[waiting.op.address]
    if isinstance(target, PartitionView):
        return f"a tile of '{state.owner_name(target.view.base)}'"
    assert isinstance(target, Pointers)
    pointee = waiting.op.address.tile.pointee
    flat = Pointers(target.allocation.reshape(-1)[:1], target.address.reshape(-1)[:1])
    array = state.array(int(flat.allocation[0]), int(flat.address[0]))
    if array is None:
        return f"address {int(flat.address[0]):#x}"
    place = array.place(int(flat.address[0]), pointee.bytes)
    if place.outside:
        return str(place)
    value = block.memory.gather(flat, pointee)[0]
    return f"{place.argument}[{', '.join(map(str, place.index))}], which holds {value}"


class SanitizerBackend(NumpyBackend):
    """Runs the IR as the front end delivers it, on NumPy arrays."""

    name = "sanitizer"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(finds_undefined_behavior=True)

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> SanitizedExecutable:
        return SanitizedExecutable(function)


BACKEND: Backend = SanitizerBackend()
