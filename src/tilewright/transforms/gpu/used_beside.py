"""What vectors are combined with: tiles whose rows they scale, or that are found by them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.ir.core import Op, Value
from tilewright.ir.ops.arith import Cast, Neg
from tilewright.ir.ops.gpu.wgmma import LoadFetched, Wgmma
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.reachable import reachable
from tilewright.transforms.gpu.operand_layouts import multiplied_by

Shape = tuple[int, ...]
_BESIDE = Mma, Wgmma, Load, LoadFetched


def longer_axes(shape: Shape) -> Shape:
    return tuple(n for n in shape if n > 1)


def used_beside(value: Value, states: Collection[Shape] = ()) -> tuple[Op, Shape, int] | None:
    """What makes the tile whose rows or columns, along the other axis, are combined with ``value``, such as scales of
    an accumulator or what changes one of ``states``, or are found by it, and its shape there; None for other uses."""
    pending = [value]
    while len(pending) == 1:
        for user in pending.pop().users:
            if isinstance(user, Broadcast):
                return combined_with(user, states)
            if user.spec.elementwise or isinstance(user, Reshape):
                pending.append(user.results[0])
    return None


def combined_with(user: Broadcast, states: Collection[Shape] = ()) -> tuple[Op, Shape, int] | None:
    """See ``used_beside``, where ``user`` is what repeats a value."""
    negated = [after.result for after in user.result.users if isinstance(after, Neg)]
    users = [after for v in (user.result, *negated) for after in v.users if after.spec.elementwise]
    others = [_loaded_as(v.op) for after in users for v in after.operands if v.op not in (None, user)]
    multiplied = multiplied_by(user.result)
    products = (v.op for v in reachable([v for after in users for v in after.operands], _computed_from))
    found: list[Op | None] = [
        *others,
        _found_by(user.result),
        multiplied,
        *(o for o in products if isinstance(o, Wgmma)),
    ]
    other: Op | None = next((o for o in found if isinstance(o, _BESIDE)), None)
    if other is None and user.shape in states:
        other = next((o for o in user.result.users if o.spec.elementwise), None)
    axes = [k for k, (a, b) in enumerate(zip(user.x.tile.shape, user.shape)) if a != b]
    if other is None or len(axes) != 1:
        return None
    made = multiplied.x if other is multiplied and multiplied is not None else other.results[0]
    alike = longer_axes(made.tile.shape) == longer_axes(user.shape)
    return (other, user.shape, axes[0]) if alike else None


def _computed_from(value: Value) -> Sequence[Value]:
    """The operands of which ``value`` is computed element by element."""
    return value.op.operands if value.op is not None and value.op.spec.elementwise else ()


def _found_by(index: Value) -> Load | None:
    """The load whose addresses are computed from ``index``, element by element; None if there is none."""
    made = reachable([index], lambda v: [r for op in v.users if op.spec.elementwise for r in op.results])
    loads = [op for v in made for op in v.users if isinstance(op, Load) and v is op.ptrs]
    return loads[0] if loads else None


def _loaded_as(op: Op) -> Op:
    """What makes the tile that ``op`` converts, or gives another shape."""
    return _loaded_as(op.x.op) if isinstance(op, (Cast, Reshape)) and op.x.op is not None else op
