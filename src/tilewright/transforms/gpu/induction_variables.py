"""MMA loops count by one, and what else they count follows from that."""

from __future__ import annotations

from typing import Any, ClassVar

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import mma_loops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Add, Div, Mul, Sub
from tilewright.ir.ops.control import Continue, For, ends_of
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.reachable import are_alike
from tilewright.transforms.base import InPlacePass


class InductionVariables(InPlacePass):
    """Has MMA loops in steps of a constant that divides where they begin count these steps, and computes from the
    induction variable what a loop carries and each iteration adds a constant to: then it is known which tiles further
    iterations, and loops that go on, load. Runs before ``choose-wgmma``."""

    name: ClassVar[str] = "induction-variables"

    def change(self, function: Function) -> bool:
        loops, ranges = mma_loops(function), AnalysisManager(function).get(IntegerRanges)
        steps = {loop: constant_of(loop.step) or 1 for loop in loops}
        wide = [loop for loop, step in steps.items() if step > 1 and ranges.divisor(loop.lower) % step == 0]
        counts: dict[Any, Value] = {}  # of steps until the bounds of loops of a block: one may begin where another ends
        for loop in wide:
            step, bounds = steps[loop], (loop.lower, loop.upper)
            for bound in bounds:
                if (bound, step, loop.block) not in counts:
                    exact = ranges.divisor(bound) % step == 0
                    counts[bound, step, loop.block] = _steps_until(bound, loop, exact=exact)
            _count_steps(loop, [counts[bound, step, loop.block] for bound in bounds])
        derived = [_derive(loop, k) for loop in loops for k in range(len(loop.carried))]
        return bool(wide) or any(derived)


def _steps_until(bound: Value, loop: For, *, exact: bool) -> Value:
    """The number of steps of ``loop`` from zero to ``bound``, which they reach ``exact`` or pass."""
    rounding = RoundingMode.RM if exact else RoundingMode.RP
    return Builder.before(loop).emit(Div, bound, loop.step, rounding=rounding)


def _count_steps(loop: For, bounds: list[Value]) -> None:
    count = loop.body.args[0]
    value = Builder.before(loop.body.ops[0]).emit(Mul, count, loop.step)
    for k, bound in enumerate((*bounds, Builder.before(loop).constant(1, count.tile.element))):
        loop.set_operand(k, bound)
    count.replace_all_uses_with(value)
    assert value.op is not None
    value.op.set_operand(0, count)


def _derive(loop: For, k: int) -> bool:
    """Compute the carried value ``k`` of ``loop``, if that is an integer to which each iteration adds a constant and of
    which nobody needs the last one; whether it is."""
    if sum(isinstance(end, Continue) for end in ends_of(loop)) > 1:
        return False  # an iteration that ends elsewhere may add something else
    counter, following = loop.carried[k], loop.next_values[k].op
    if not isinstance(following, Add) or following.block is not loop.body or following.lhs is not counter:
        return False
    step = constant_of(following.rhs)
    if step is None or loop.results[k].users or counter.type != loop.lower.type or constant_of(loop.step) != 1:
        return False
    b, value = Builder.before(loop.body.ops[0]), loop.body.args[0]
    if step != 1 or not are_alike(loop.lower, loop.inits[k]):
        count = b.emit(Sub, value, loop.lower)
        value = b.emit(Add, loop.inits[k], b.emit(Mul, count, b.constant(step, counter.tile.element)))
    counter.replace_all_uses_with(value)
    return True
