"""How many iterations counted loops have."""

from __future__ import annotations

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.ir.ops.control import For
from tilewright.ir.ops.shape import Constant


def constant_trip_count(op: For) -> int | None:
    """How many iterations of the ``for`` there are, where its bounds and step are constants."""
    numbers = [v.op.value for v in op.bounds if isinstance(v.op, Constant)]
    if len(numbers) < len(op.bounds):
        return None
    lower, upper, step = map(int, numbers)
    return max(0, -(-(upper - lower) // step))


def max_trip_count(facts: IntegerRanges, op: For) -> int:
    """How many iterations of the ``for`` there are at most."""
    lower, upper, step = (facts.range(v) for v in op.bounds)
    return max(0, upper[1] - lower[0] - 1) // max(1, step[0]) + 1
