"""How the operands of MMA ops lie in memory."""

from __future__ import annotations

from tilewright.analysis.gpu.lowering_plan import LoweringPlan, axes_kept
from tilewright.ir.core import Value
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.shape import Permute, Reshape


def has_major_axis(value: Value, axis: int, plan: LoweringPlan) -> bool:
    """Whether the TMA unit loads the tile ``value`` with ``axis`` as its innermost."""
    while (op := value.op) is not None and op not in plan.descriptors:
        shape = value.tile.shape
        if isinstance(op, Permute):
            axis = op.axes[axis]
        elif isinstance(op, Reshape):
            kept, before = axes_kept(shape), axes_kept(op.x.tile.shape)
            if axis not in kept or [shape[k] for k in kept] != [op.x.tile.shape[k] for k in before]:
                return False
            axis = before[kept.index(axis)]
        elif not isinstance(op, Cast) or op not in plan.rounded:
            return False
        value = op.x
    if not isinstance(op, LoadView):
        return False
    return op.view.partition.order[axis] == plan.descriptors[op].axes[-1]
