"""One block of a sanitized launch: the reference interpreter with every operation checked first."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from tilewright.backends.reference.interpreter import BlockInterpreter, Exit, Index, Running, grouped
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.values import Array, Pointers
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.location import Loc
from tilewright.ir.opdef import Arity
from tilewright.ir.ops import memory, shape
from tilewright.ir.ops.arith import Bitcast
from tilewright.ir.ops.control import For, If
from tilewright.ir.ops.linear import CombiningOp, Mma, MmaScaled, Reduce, Scan
from tilewright.sanitizer import pointer_accesses, view_accesses
from tilewright.sanitizer.arithmetic import CHECKS, born, can_be_undefined
from tilewright.sanitizer.categories import CATEGORIES
from tilewright.sanitizer.launch import LaunchState
from tilewright.sanitizer.observation import Outcome, first_true
from tilewright.sanitizer.out_of_bounds_pointers import OutOfBoundsPointers
from tilewright.sanitizer.races import Thread
from tilewright.sanitizer.reductions import check_reduction
from tilewright.sanitizer.report import ElementReference, Related, Violation
from tilewright.sanitizer.undefined import Marks, Undefined, propagate

_BIRTHS = (
    ("nan-generated", np.isnan, "a NaN comes from operands without one"),
    ("inf-generated", np.isinf, "an infinity comes from finite operands"),
)


# Each does one access under observation, and returns its result and the undefined elements of that. Elements whose
# access would be wrong are reported and left out, so that a launch goes on without harm.
_ACCESSES: dict[type[Op], Callable[[Any, Any, list[Any], Marks], Outcome]] = {
    memory.LoadView: view_accesses.load_view,
    memory.StoreView: view_accesses.store_view,
    memory.AtomicView: view_accesses.store_view,
    memory.Load: pointer_accesses.load,
    memory.Store: pointer_accesses.store,
    memory.AtomicRmw: pointer_accesses.atomic_rmw,
    memory.AtomicCas: pointer_accesses.atomic_cas,
}
_COMPUTE = (Reduce, Scan, Mma, MmaScaled)  # what may give birth to a NaN besides elementwise operations


class CheckedBlock(BlockInterpreter):
    """A block that reports what a correct program does not do, and goes on."""

    pause_at_weak = True

    def __init__(
        self,
        index: Index,
        grid: Index,
        memory: Memory,
        arguments: dict[Value, Any],
        launch: LaunchState,
        thread: Thread,
    ) -> None:
        super().__init__(index, grid, memory, arguments, None)
        self.launch = launch
        self.thread = thread
        self.undefined: dict[Value, Undefined] = {}
        self.unchecked: set[Loc] = set()  # where a promise about an access was broken, which is then not reported again
        self.out_of_bounds_pointers = OutOfBoundsPointers()
        self.reducing = False  # inside a reduction, whose overflow ``reductions`` has looked for

    def part(self, pointers: Pointers) -> Array:
        """Which member array of a local struct each pointer is in; 0 elsewhere."""
        part = np.zeros(pointers.shape, np.int64)
        for op, base in self.local.items():
            if op.parts:
                inside = np.searchsorted(op.parts, pointers.address - base.address, side="right")
                part = np.where(pointers.allocation == base.allocation, inside, part)
        return part

    # -- running

    def run_all(self, body: Block) -> Running:
        left = yield from super().run_all(body)
        self.out_of_bounds_pointers.end()
        return left

    def bind(self, targets: Sequence[Value], values: Sequence[Any], sources: Sequence[Value]) -> None:
        super().bind(targets, values, sources)
        self.out_of_bounds_pointers.bound(targets, sources)
        undefined = self.undefined
        if undefined:
            for target, mark in zip(targets, [undefined.get(s) for s in sources]):
                if mark is not None:
                    undefined[target] = mark
                else:
                    undefined.pop(target, None)

    def execute(self, op: Op, operands: list[Any]) -> None:
        undefined = self.undefined
        marks: Marks = ()
        if undefined:
            marks = [undefined.get(v) for v in op.operands]
            if not any(marks):
                marks = ()
            else:
                self.launch.used_undefined = True
            if any(m is not None and m.unassigned for m in marks):
                marks = self._unassigned(op, marks)
        access = _ACCESSES.get(type(op))
        if access is not None:
            result, mark = access(self, op, operands, marks)
            if op.results:
                self.values[op.results[0]] = result
            self._mark(op, mark)
            return
        check = CHECKS.get(type(op))
        if check is not None:
            check(self, op, operands, marks)
        if isinstance(op, (Reduce, Scan)):
            self._reduction(op, operands, marks)
        else:
            super().execute(op, operands)
        if isinstance(op, shape.IntToPtr):
            self.values[op.results[0]] = self.launch.resolved(self.values[op.results[0]])
        self.out_of_bounds_pointers.passed_on(op)
        if isinstance(op, shape.Undefined):
            self._mark(op, Undefined(np.ones(op.type.shape, bool), Related("made here", op.loc), True))
        elif marks or undefined:
            self._mark(op, propagate(op, operands, marks) if marks and op.results else None)
        if self.launch.births and not self.reducing and (op.spec.elementwise or isinstance(op, _COMPUTE)):
            self._births(op, operands, marks)

    def _reduction(self, op: CombiningOp, operands: list[Any], marks: Marks) -> None:
        check_reduction(self, op, operands, marks)
        before, self.reducing = self.reducing, True
        super().execute(op, operands)
        self.reducing = before

    def watches(self, body: Block) -> bool:
        """Whether an op in a combiner can be undefined, or has an operand that is."""
        return any(can_be_undefined(op) or not self.undefined.keys().isdisjoint(op.operands) for op in body.ops)

    def _mark(self, op: Op, mark: Undefined | None) -> None:
        for result in op.results:
            if mark is not None:
                self.undefined[result] = mark
            elif self.undefined:
                self.undefined.pop(result, None)

    def _unassigned(self, op: Op, marks: Marks) -> Marks:
        """Report the use of a tile without a value; from then on it counts as defined."""
        first = next(m for m in marks if m is not None and m.unassigned)
        self.report(op, "uninitialized-tile", "the tile used here was never given a value", related=(first.origin,))
        rest = [None if m is not None and m.unassigned else m for m in marks]
        return rest if any(rest) else ()

    def _births(self, op: Op, operands: list[Any], marks: Marks) -> None:
        value = op.results[0]
        types = [v.tile for v in (value, *op.operands)]
        if isinstance(op, Bitcast) or any(t.is_pointer for t in types) or not value.tile.element.is_float:
            return
        result = np.asarray(self.values[value], np.float64)
        for category, test, message in _BIRTHS:
            if category in self.launch.births:
                found = born(op, [np.asarray(x, np.float64) for x in operands], result, test)
                if found is not None:
                    names = {f.name: x for f, x in zip(op.spec.operands, operands)} if op.spec.elementwise else {}
                    self.flag(op, category, found, f"{message} ({op.name})", names, marks)

    # -- control flow

    def run_if(self, op: If, operands: list[Any]) -> Generator[memory.MemoryOp, None, Exit | None]:
        self.require_defined(op, op.condition, "a branch depends on it")
        return (yield from super().run_if(op, operands))

    def run_for(self, op: For, operands: list[Any]) -> Generator[memory.MemoryOp, None, Exit | None]:
        for bound in op.bounds:
            self.require_defined(op, bound, "a loop depends on it")
        if operands[2] <= 0:
            step = int(operands[2])
            self.report(op, "loop-step", f"the step of this loop is {step}", operands={"step": step})
            self.bind(op.results, operands[3:], op.inits)
            return None
        return (yield from super().run_for(op, operands))

    # -- reporting

    def grouped(self, op: Op, operands: list[Any]) -> list[Any]:
        """``operands`` by declared field, None for absent ones."""
        return grouped(op, operands) if any(f.arity is not Arity.ONE for f in op.spec.operands) else operands

    def require_defined(self, op: Op, value: Value, why: str) -> None:
        """Report ``value``, an operand of ``op``, if any of its elements is undefined."""
        mark = self.undefined.get(value) if self.undefined else None
        if mark is None or mark.reported or not mark.mask.any():
            return
        if mark.unassigned:
            self.report(op, "uninitialized-tile", "the tile used here was never given a value", related=(mark.origin,))
        else:
            element = first_true(mark.mask)
            message = f"a value is undefined, and {why}"
            self.report(op, "undefined-value", message, element=element, related=(mark.origin,))
        del self.undefined[value]

    def flag(
        self,
        op: Op,
        category: str,
        wrong: Any,
        message: str,
        values: dict[str, Any],
        marks: Marks,
        place: ElementReference | None = None,
    ) -> None:
        """Report the elements of an operation where ``wrong`` holds and no operand is undefined.

        ``message`` has the names of ``values`` in braces for the values at the first such element.
        """
        if not np.any(wrong):
            return
        for mark in marks:
            if mark is not None:
                wrong = wrong & ~mark.mask
        wrong = np.asarray(wrong)
        count = int(np.count_nonzero(wrong))
        if count == 0:
            return
        element = first_true(wrong)
        here = {name: _at(x, element, wrong.shape) for name, x in values.items()}
        if isinstance(op, memory.Assume):
            self.unchecked.add(op.loc)
        text = message.format(**here) if here else message
        self.report(op, category, text, element=element, operands=here, place=place, elements=count)

    def report(
        self,
        op: Op,
        category: str,
        message: str,
        *,
        element: Sequence[int] | None = None,
        operands: dict[str, Any] | None = None,
        place: ElementReference | None = None,
        related: tuple[Related, ...] = (),
        elements: int = 1,
    ) -> None:
        """Report a violation by ``op`` in this block."""
        seen = CATEGORIES[category], message, self.launch.function.name, op.loc, self.index
        at = None if element is None else tuple(element)
        self.launch.session.add(Violation(*seen, at, operands or {}, place, related, elements=elements))


def _at(x: Any, element: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The element of ``x`` at an index of an array of ``shape``, as a Python number."""
    found = np.broadcast_to(np.asarray(x), shape)[element]
    return found.item() if found.dtype.kind in "biuf" else float(found)
