"""Registers in which a row that is shorter than its tile has no element: nothing is loaded, stored or chosen for them,
and what is computed of them is computed once."""

from __future__ import annotations

from llvmlite import ir

from tilewright.analysis.gpu.short_rows import never_true
from tilewright.backends.gpu.lowering.assembly import I1
from tilewright.backends.gpu.lowering.context import Context, Rule
from tilewright.ir.core import Op
from tilewright.ir.ops.arith import And, Cmp, Select

_FALSE = ir.Constant(I1, 0)


def is_false(condition: ir.Value | None) -> bool:
    """Whether ``condition`` was found not to hold."""
    return condition is _FALSE


def _compare(cx: Context, op: Cmp) -> None:
    cx.elementwise(op)
    if op.result.tile.layout is not None:
        found = cx.values[op.result]
        cx.values[op.result] = [_FALSE if never else x for never, x in zip(never_true(op), found)]


def _and(cx: Context, op: And) -> None:
    cx.elementwise(op)
    given = zip(cx.values[op.result], cx.values[op.lhs], cx.values[op.rhs])
    cx.values[op.result] = [_FALSE if is_false(a) or is_false(b) else x for x, a, b in given]


def _select(cx: Context, op: Select) -> None:
    n = cx.equal_conditions.get(op, 1)
    cx.elementwise(op)
    conditions, others = cx.values[op.condition], cx.values[op.y]
    found = enumerate(cx.values[op.result])
    cx.values[op.result] = [others[r] if is_false(conditions[r // n * n]) else x for r, x in found]


RULES: dict[type[Op], Rule] = {Cmp: _compare, And: _and, Select: _select}
