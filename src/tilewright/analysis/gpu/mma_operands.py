"""MMA ops of tfloat32 on Hopper, whose tensor cores read float32 words from shared memory along K only.

The TMA unit can round float32 to tfloat32 on the way into shared memory: a conversion then costs nothing, and the
tile need not pass through registers. An operand that lies along M or N in memory must pass through them, and only the
left one can stay there: with such an operand on the right, the MMA op of the transposed operands is computed.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.analysis.gpu.lowering_plan import LoweringPlan
from tilewright.analysis.gpu.major_axis import has_major_axis
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For, If
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.shape import Permute, Reshape

_MOVES = (Reshape, Permute)
_SMALLEST_M = 64  # PTX ISA, shapes of wgmma.mma_async


def plan_mma(plan: LoweringPlan, function: Function) -> None:
    """Find the loads of ``plan`` that round, and the MMA ops that take an operand by registers."""
    for op, descriptor in plan.descriptors.items():
        casts = _casts(op.results[0]) if isinstance(op, LoadView) and descriptor.element == "f32" else None
        if casts:
            plan.descriptors[op] = replace(descriptor, rounds=True)
            plan.rounded |= casts
    for loop in (op for op in function.walk() if isinstance(op, For)):
        for op in loop.body.ops:
            if isinstance(op, Mma) and op.x.tile.element.short == "tf32" and op.x.tile.rank == 2:
                operand = _register_operand(op, plan)
                if operand is not None and _only_accumulators(op, loop, transposed=operand == 1):
                    plan.register_operand[op] = operand


def _register_operand(op: Mma, plan: LoweringPlan) -> int | None:
    """The operand of the MMA op ``op`` that has to pass through registers."""
    x, y = op.x, op.y
    if has_major_axis(x, 0, plan):
        return 0
    if has_major_axis(y, 1, plan) and has_major_axis(x, 1, plan) and y.tile.shape[1] >= _SMALLEST_M:
        return 1
    return None


def _only_accumulators(op: Mma, loop: For, *, transposed: bool) -> bool:
    """Whether nothing in ``loop`` but the MMA op ``op`` sees the sum, nor what is done in some iterations only where
    it is not turned around: Triton waits nowhere else for it."""
    body = loop.body
    seen = {body.terminator}
    if not transposed:
        seen |= {nested for o in body.ops if isinstance(o, If) for nested in o.walk()}
    return op.acc in body.args and list(op.acc.users) == [op] and seen.issuperset(op.result.users)


def _casts(value: Value) -> set[Op] | None:
    """The conversions to tfloat32 for MMA ops that are all uses of ``value``; None when it has others."""
    found: set[Op] = set()
    for op in value.users:
        inner: set[Op] | None = None
        if isinstance(op, _MOVES):
            inner = _casts(op.results[0])
        elif isinstance(op, Cast) and op.dtype.short == "tf32" and _only_multiplied(op.results[0]):
            inner = {op} if op.rounding is RoundingMode.RN else None
        if inner is None:
            return None
        found |= inner
    return found


def _only_multiplied(value: Value) -> bool:
    """Whether nothing but MMA ops sees ``value``: the TMA unit rounds as a conversion does, but NaN to one NaN."""
    return all(
        isinstance(op, Mma) or (isinstance(op, _MOVES) and _only_multiplied(op.results[0])) for op in value.users
    )
