"""Accumulators of an online softmax times what the maxima leave of them: one, in most steps."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.branches import choose
from tilewright.backends.gpu.lowering.assembly import F32
from tilewright.backends.gpu.lowering.context import Context, Rule
from tilewright.ir.core import Op, Value
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.arith import Mul, flushes_to_zero
from tilewright.ir.ops.floats import Exp, Exp2
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, Wgmma, WgmmaWait

_FEWEST = 64  # registers of an accumulator for which a branch pays: benchmarks/results/gpu_attention.md


def _scale(cx: Context, op: Op) -> Value | None:
    """What the rows of the accumulator that ``op`` multiplies are scaled by, if a branch around that pays: not for one
    warp group that has the next scores beside the softmax."""
    if not isinstance(op, Mul) or not isinstance(op.rhs.op, BroadcastDistributed) or flushes_to_zero(op):
        return None  # one that flushes changes subnormal numbers times one
    rotated = isinstance(op.lhs.op, WgmmaWait) and cx.tile_threads > GROUP_WARPS * LANES
    accumulated = rotated or any(isinstance(user, Wgmma) for user in op.result.users)
    large = op.lhs.tile.layout is not None and op.lhs.tile.layout.num_registers >= _FEWEST
    scale = op.rhs.op.x
    return scale if accumulated and large and scale.tile.shape[-1] == 1 else None


def _exponential(cx: Context, op: Exp | Exp2) -> None:
    """Whether a factor of some thread of the warp is another one than one is asked at once, before others wait."""
    cx.elementwise(op)
    broadcasts = [user for user in op.result.users if isinstance(user, BroadcastDistributed)]
    if not any(_scale(cx, mul) is op.result for user in broadcasts for mul in user.result.users):
        return
    factors = dict.fromkeys(cx.of(op.result))
    if all(x.type == F32 for x in factors):
        others = [cx.builder.fcmp_unordered("!=", x, ir.Constant(F32, 1)) for x in factors]
        cx.votes[op.result] = cx.any_lane(others)


def _mul(cx: Context, op: Mul) -> None:
    """Nothing is multiplied where each factor of a warp is one: that changes no bit."""
    scale = _scale(cx, op)
    some = None if scale is None else cx.votes.get(scale)
    if some is None:
        cx.elementwise(op)
        return
    values, factors, emit = cx.of(op.lhs), cx.of(op.rhs), cx.element(op)
    scaled = choose(cx.builder, some, lambda: [emit(pair) for pair in zip(values, factors)], lambda: values)
    cx.values[op.result] = scaled


RULES: dict[type[Op], Rule] = {Mul: _mul, Exp: _exponential, Exp2: _exponential}
