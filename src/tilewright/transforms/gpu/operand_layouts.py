"""How threads have what they compute the left operands of MMA ops from, in registers."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import Op, Value
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape
from tilewright.ir.reachable import reachable


def multiplied_by(factor: Value) -> Wgmma | None:
    """The MMA op whose left operand is computed from ``factor``, element by element, in registers, if there is one."""
    made = reachable([factor], lambda v: [r for op in v.users if op.spec.elementwise for r in op.results])
    return next((op for v in made for op in v.users if isinstance(op, Wgmma) and op.x is v), None)


def layout_before(value: Value, layout: LinearLayout, source: Op) -> LinearLayout | None:
    """How threads have what ``source`` gives where they have ``value``, which is computed from it, in ``layout``."""
    op = value.op
    if op is source:
        return layout
    if isinstance(op, Reshape):
        return layout_before(op.x, layout.reshape(op.x.tile.shape), source)
    if isinstance(op, Permute):
        return layout_before(op.x, layout.permute([op.axes.index(k) for k in range(len(op.axes))]), source)
    if isinstance(op, Broadcast):
        return layout_before(op.x, shrunk(layout, op.x.tile.shape), source)
    found = (layout_before(v, layout, source) for v in op.operands) if op is not None and op.spec.elementwise else ()
    return next((of for of in found if of is not None), None)


def shrunk(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """How threads have a tile of ``shape`` that they have in ``layout`` once it is broadcast."""
    for axis, (a, b) in enumerate(zip(shape, layout.shape)):
        if a != b:
            layout = layout.shrink(axis)
    return layout
