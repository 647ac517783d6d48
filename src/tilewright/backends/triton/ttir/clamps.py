"""Clamps between 0 and 1 of numbers that may be NaN.

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
    if _is_identity(op):
        return is_never_nan(op.operands[0], far - 1)
    if isinstance(op, _MOVES) or (isinstance(op, Cast) and op.x.tile.element.is_float):
        return is_never_nan(op.x, far - 1)
    if isinstance(op, (Min, Max)):
        known = [is_never_nan(v, far // 2) for v in op.operands]
        return all(known) if op.propagate_nan else any(known)
    if isinstance(op, Select):
        return _is_never_nan_where_selected(op, far)
    return False


def _is_identity(op: Op) -> bool:
    """Whether ``op`` gives its first operand, as LLVM finds out: x * 1, x / 1, x - 0."""
    neutral = _NEUTRAL.get(type(op))
    return neutral is not None and constant_of(op.operands[1]) == neutral


_NEUTRAL: dict[type[Op], int] = {Mul: 1, Div: 1, Sub: 0}


def _is_never_nan_where_selected(op: Op, far: int) -> bool:
    """A ``select`` may give only numbers as it compares what it gives."""
    condition, x, y = op.operands
    compares, negated = _comparison(condition)
    kept, other = (y, x) if negated else (x, y)
    if compares is not None and compares.attributes["predicate"] in _ORDERED and kept in compares.operands:
        return is_never_nan(other, far // 2)
    return is_never_nan(x, far // 2) and is_never_nan(y, far // 2)


def _comparison(condition: Value) -> tuple[Op | None, bool]:
    """What ``condition`` compares, and whether it is the contrary."""
    op, negated = condition.op, False
    while isinstance(op, Not):
        op, negated = op.x.op, not negated
    return (op, negated) if isinstance(op, Cmp) else (None, False)


def is_maximum_of_numbers(op: Op) -> bool:
    """Whether ``op``, a ``max`` of floats, is one of a number and a constant."""
    return any(
        constant_of(op.operands[at]) is not None and is_never_nan(op.operands[at]) and is_never_nan(op.operands[1 - at])
        for at in range(2)
    )


def selected_maximum(op: Op) -> tuple[int, int] | None:
    """Which operands of ``op``, a ``select``, it gives the maximum of: a number and the constant 0; None for others."""
    compares, negated = _comparison(op.operands[0])
    if compares is None:
        return None
    kept, bound = (2, 1) if negated else (1, 2)
    zero = constant_of(op.operands[bound])
    if zero != 0 or not op.operands[bound].tile.element.is_float or math.copysign(1, zero) < 0:
        return None
    lhs, rhs = compares.operands
    predicate = compares.attributes["predicate"]
    above = (predicate is CmpPredicate.GT and lhs is op.operands[kept] and constant_of(rhs) == 0) or (
        predicate is CmpPredicate.LT and rhs is op.operands[kept] and constant_of(lhs) == 0
    )
    return (kept, bound) if above and is_never_nan(op.operands[kept]) else None
