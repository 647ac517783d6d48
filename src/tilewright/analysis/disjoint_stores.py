"""Stores that cannot meet: to different tiles of one partition of an array."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Op, Value
from tilewright.ir.ops.arith import Add, Sub
from tilewright.ir.ops.memory import MakePartitionView, MakeTensorView, StoreView
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.types import PartitionViewType

_VIEWS = (MakeTensorView, MakePartitionView)


def are_disjoint(x: Op, y: Op) -> bool:
    """Whether the stores ``x`` and ``y``, at the values that there are in one iteration, are to different tiles."""
    if not isinstance(x, StoreView) or not isinstance(y, StoreView):
        return False
    view, other = x.view, y.view
    type_ = view.type
    if not isinstance(type_, PartitionViewType) or type_ != other.type or type_.steps != type_.tile_shape:
        return False
    return _same(view, other) and any(_differ(a, b) for a, b in zip(x.indices, y.indices))


def _same(x: Value, y: Value) -> bool:
    """Whether two views are one, or made in one way of the same values."""
    if x is y:
        return True
    a, b = x.op, y.op
    if a is None or b is None or a.name != b.name or not isinstance(a, _VIEWS) or a.attributes != b.attributes:
        return False
    return len(a.operands) == len(b.operands) and all(map(_same, a.operands, b.operands))


def _differ(x: Value, y: Value) -> bool:
    """Whether two numbers differ by a constant, which they may have wrapped around."""
    (source, offset), (other, distance) = _without_constants(x), _without_constants(y)
    return x.type == y.type and source is other and (offset - distance) % (1 << x.tile.element.bitwidth) != 0


def _without_constants(number: Value) -> tuple[Value | None, int]:
    """What a constant is added to, if anything, and the sum of all constants."""
    total = 0
    while True:
        own: Any = constant_of(number)
        if own is not None:
            return None, total + int(own)
        op = number.op
        if not isinstance(op, (Add, Sub)):
            return number, total
        left, right = op.lhs, op.rhs
        added: Any = constant_of(right)
        if added is not None:
            total += int(added) if isinstance(op, Add) else -int(added)
            number = left
        elif isinstance(op, Add) and (added := constant_of(left)) is not None:
            total += int(added)
            number = right
        else:
            return number, total
