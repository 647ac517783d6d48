"""Clamps: how large numbers are behind them, and those between 0 and 1 of numbers that may be NaN.

Of a minimum with 1 and then a maximum with 0, however they are written, ptxas (12.8 to 13.0) makes a saturation, which
gives 0 for NaN; the minimum is 1. It leaves alone a maximum that propagates NaN, which is the same where no operand is
NaN, such as after a minimum with a number. There is none for float64, of which a comparison the other way round does.
"""

from __future__ import annotations

import math

from tilewright.ir.core import Op, Value
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Cast, Cmp, Div, Max, Min, Mul, Not, Select, Sub
from tilewright.ir.ops.shape import Broadcast, Constant, Extract, Permute, Reshape, constant_of

_MOVES = (Reshape, Broadcast, Permute, Extract)
_ORDERED = (CmpPredicate.LT, CmpPredicate.LE, CmpPredicate.GT, CmpPredicate.GE, CmpPredicate.EQ)
_FAR = 16  # ops that are looked through


def is_never_nan(value: Value, far: int = _FAR) -> bool:
    """Whether the floats in ``value`` are known to be numbers."""
    op = value.op
    if op is None or not far:
        return False
    if isinstance(op, Constant):
        return not math.isnan(op.value)
    if isinstance(op, (Mul, Div, Sub)) and constant_of(op.rhs) == _NEUTRAL[type(op)]:  # as LLVM finds out
        return is_never_nan(op.lhs, far - 1)
    if isinstance(op, _MOVES) or (isinstance(op, Cast) and op.x.tile.element.is_float):
        return is_never_nan(op.x, far - 1)
    if isinstance(op, (Min, Max)):
        known = [is_never_nan(v, far // 2) for v in op.operands]
        return all(known) if op.propagate_nan else any(known)
    if isinstance(op, Select):
        return _is_never_nan_where_selected(op, far)
    return False


def largest(value: Value) -> float:
    """What no number in ``value``, nor its negative, is larger than; NaN may be among them."""
    low, high = _bounds(value, _FAR)
    return max(-low, high)


def _bounds(value: Value, far: int) -> tuple[float, float]:
    op, number = value.op, constant_of(value)
    if number is not None and not math.isnan(number):
        return number, number
    if isinstance(op, _MOVES) and far:
        return _bounds(op.x, far - 1)
    if isinstance(op, (Min, Max)) and far:
        pick = min if isinstance(op, Min) else max
        low, high = zip(*(_bounds(v, far // 2) for v in op.operands))
        return pick(low), pick(high)
    return -math.inf, math.inf


_NEUTRAL: dict[type[Op], int] = {Mul: 1, Div: 1, Sub: 0}  # on the right


def _is_never_nan_where_selected(op: Select, far: int) -> bool:
    """A ``select`` may give only numbers as it compares what it gives."""
    x, y = op.x, op.y
    compares, negated = _comparison(op.condition)
    kept, other = (y, x) if negated else (x, y)
    if compares is not None and compares.predicate in _ORDERED and kept in (compares.lhs, compares.rhs):
        return is_never_nan(other, far // 2)
    return is_never_nan(x, far // 2) and is_never_nan(y, far // 2)


def _comparison(condition: Value) -> tuple[Cmp | None, bool]:
    """What ``condition`` compares, and whether it is the contrary."""
    op, negated = condition.op, False
    while isinstance(op, Not):
        op, negated = op.x.op, not negated
    return (op, negated) if isinstance(op, Cmp) else (None, False)


def is_maximum_of_numbers(op: Max | Min) -> bool:
    """Whether ``op``, a ``max`` of floats, is one of a number and a constant."""
    return any(
        constant_of(bound) is not None and is_never_nan(bound) and is_never_nan(number)
        for bound, number in ((op.lhs, op.rhs), (op.rhs, op.lhs))
    )


def selected_maximum(op: Select) -> tuple[Value, Value] | None:
    """The number and the constant 0 that ``op`` gives the maximum of; None for others."""
    compares, negated = _comparison(op.condition)
    if compares is None:
        return None
    kept, bound = (op.y, op.x) if negated else (op.x, op.y)
    zero = constant_of(bound)
    if zero != 0 or not bound.tile.element.is_float or math.copysign(1, zero) < 0:
        return None
    lhs, rhs, predicate = compares.lhs, compares.rhs, compares.predicate
    above = (predicate is CmpPredicate.GT and lhs is kept and constant_of(rhs) == 0) or (
        predicate is CmpPredicate.LT and rhs is kept and constant_of(lhs) == 0
    )
    return (kept, bound) if above and is_never_nan(kept) else None
