"""Launches that do again what an earlier one did without a violation: machine code runs them.

What the sanitizer reports depends on addresses, on the numbers that decide, and on undefined values. Where none of
these depends on what a kernel finds in memory, as in most products and in attention, a launch with the same arguments
does the same, whatever the arrays hold by then. Tuners and benchmarks launch so a thousand times.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from tilewright.backends.base import Executable, Grid
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import memory
from tilewright.ir.ops.control import CONTROL_FLOW, LoopOp, deciding_values, incoming
from tilewright.ir.ops.linear import Reduce, Scan
from tilewright.ir.printer import print_function
from tilewright.ir.rewrite import clone_function
from tilewright.ir.types import TileType
from tilewright.runtime.backend_choice import usable
from tilewright.runtime.compiling import compiled
from tilewright.sanitizer.arithmetic import CHECKS
from tilewright.sanitizer.launch import LaunchState

WORTHWHILE = 0.2  # seconds of a launch, from which on machine code is compiled for those that repeat it
_VIEWS = (memory.MakeTensorView, memory.MakePartitionView)


class Repetition:
    """A kernel, and which of its launches need not be checked again."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def launch(self, state: LaunchState, grid: Grid, arguments: LaunchArguments, check: Callable[[], None]) -> None:
        """Run ``check``, which observes the blocks, unless that would find what it found before: nothing."""
        session = state.session
        undefined = any(a.uninitialized is not None for a in state.arrays)
        if session.sinks or state.births or session.schedule.order != "in-order" or undefined or not self._repeatable:
            check()
            return
        key = self._text, grid, tuple(arguments.values), tuple(arguments.buffers)
        if key in session.known_launches and self._machine_code is not None:
            self._machine_code.launch(grid, arguments)
            return
        before, began = session.report.findings, time.perf_counter()
        check()
        if session.report.findings == before and not state.used_undefined and time.perf_counter() - began > WORTHWHILE:
            session.known_launches.add(key)

    @functools.cached_property
    def _repeatable(self) -> bool:
        data = _from_memory(self._function)
        return not any(_matters(op, data) for op in self._function.walk())

    @functools.cached_property
    def _plain(self) -> Function:
        """The kernel without hints, which the compilers for CPUs do not ask for, and tuners try."""
        function = clone_function(self._function)
        function.hints.clear()
        for op in function.walk():
            if isinstance(op, (memory.Load, memory.Store, memory.LoadView, memory.StoreView)):
                op.latency = None
                if isinstance(op, (memory.LoadView, memory.StoreView)):
                    op.allow_tma = None
        return function

    @functools.cached_property
    def _text(self) -> str:
        return print_function(self._plain)

    @functools.cached_property
    def _machine_code(self) -> Executable | None:
        backend = usable("cpu")
        return compiled(self._plain, backend, {})[0] if backend.unavailable() is None else None


def _from_memory(function: Function) -> set[Value]:
    """The values that depend on what is loaded."""
    found = set[Value]()

    def grown(values: list[Value]) -> bool:
        new = [v for v in values if v not in found]
        found.update(new)
        return bool(new)

    def step(op: Op) -> bool:
        if isinstance(op, CONTROL_FLOW):
            made = [*op.results, *(op.carried if isinstance(op, LoopOp) else ())]
            return grown([v for v in made if any(s in found for s in incoming(v) or ())])
        if not (op.spec.effect & Effect.READ or any(v in found for v in op.operands)):
            return False
        return grown([*op.results, *(argument for region in op.regions for argument in region.args)])

    while sum(map(step, function.walk())):
        pass
    return found


def _matters(op: Op, data: set[Value]) -> bool:
    """Whether what is reported of ``op``, or the order of blocks, may depend on ``data``."""
    if is_ordered(op) or op.spec.effect & Effect.OUTPUT or any(v in data for v in deciding_values(op)):
        return True
    touched = [v for v in op.operands if v in data]
    if isinstance(op, (memory.MemoryOp, *_VIEWS)):
        stored = op.value if isinstance(op, (memory.Store, memory.StoreView)) else None
        return any(v is not stored for v in touched)
    checked = type(op) in CHECKS or isinstance(op, (Reduce, Scan))
    return checked and bool(touched) and not all(map(_is_float, (*touched, *op.results)))


def _is_float(value: Value) -> bool:
    return isinstance(value.type, TileType) and not value.type.is_pointer and value.type.element.is_floating
