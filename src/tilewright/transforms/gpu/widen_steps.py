"""Loops of products in short steps along k do several at once, as many as rows of an operand along k have room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.opdef import with_operands
from tilewright.ir.ops.arith import And, Max, Sub
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.gpu.tma import SWIZZLES
from tilewright.ir.ops.gpu.wgmma import STEP_BYTES
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load, LoadView, MakePartitionView
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape, constant_of
from tilewright.ir.rewrite import Rewriter, clone_block, open_block, replace_ops
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.allocate_shared import MOST_SHARED_BYTES
from tilewright.transforms.gpu.staged_operands import COPIES
from tilewright.transforms.gpu.step_axes import (
    axis_of_access,
    axis_of_elements,
    is_uniform,
    moved,
    stretched,
    times_of,
    wider,
)

_LINE = max(SWIZZLES)  # bytes of a row in shared memory, which the TMA unit copies in one request
# Elements of a sum up to which two CTAs share an SM: right float32 that is gathered, 128x64x32, 284 TFLOP/s, and 226
# with twice the depth and one CTA (one H200).
_SHARED_SM = 128 * 64


class WidenSteps(InPlacePass):
    """Puts two loops in the place of one that adds products of what it loads, or computes of that, element by element:
    of so many steps at once that rows along k are as long as the TMA unit copies, and of what is left. Sums are those
    of the loop, in its order.

    Runs before ``choose-wgmma``.
    """

    name: ClassVar[str] = "widen-steps"

    def change(self, function: Function) -> bool:
        found = {op: axes for op in function.ops_of(For) if (axes := _axes_of_k(op)) is not None}
        widened = {op: (axes, n) for op, axes in found.items() if (n := _steps(axes)) > 1}
        return replace_ops(function, widened, _widened)


def _axes_of_k(loop: For) -> dict[Op, int] | None:
    """For each op of ``loop`` that loads, moves or computes a tile, the axis along which its steps are; None for a loop
    that does other things than to add products of these."""
    if constant_of(loop.step) != 1 or not loop.carried:
        return None
    axes: dict[Op, int] = {}
    places = {loop.body.args[0]: 1}  # what is so many times the number of the step
    for op in loop.body.ops:
        axis, times = None, times_of(op, places)
        if times is not None:
            places[op.results[0]] = times
            continue
        if isinstance(op, LoadView):
            axis = axis_of_access(op, loop)
        elif isinstance(op, (Permute, Reshape, Broadcast)) and op.x.op in axes:
            axis = moved(op, axes[op.x.op])
        elif isinstance(op, Mma) and op.acc in loop.carried and op.acc.tile.rank == 2:
            alone = list(op.acc.users) == [op] and list(op.result.users) == [loop.body.terminator]
            along_k = [axes.get(v.op) if v.op is not None else None for v in (op.x, op.y)] == [1, 0]
            axis = 0 if alone and along_k else None
        elif isinstance(op, Continue) or (op.results and all(is_uniform(v) for v in op.results)):
            continue
        elif op.spec.elementwise or (isinstance(op, Load) and op.is_weak):
            axis = axis_of_elements(op, axes, places)
        if axis is None:
            return None
        axes[op] = axis
    return axes if any(isinstance(op, Mma) for op in axes) else None


def _steps(axes: dict[Op, int]) -> int:
    """How many steps rows of tiles along k have room for; where threads transpose bytes, what one instruction needs.
    Of what is gathered, and what is made of it, as many as there is room for with several copies."""
    loads = [op for op in axes if isinstance(op, (Load, LoadView)) and max(op.result.tile.shape) < op.result.tile.size]
    product = next(op for op in axes if isinstance(op, Mma))
    made, found = product.x.tile.element.bytes, []
    for op in loads:
        if isinstance(op, LoadView):
            t, size = op.view.partition, op.result.tile.element.bytes
            transposed = size == 1 and t.view.strides[t.order[axes[op]]] != 1
            found.append(max((STEP_BYTES if transposed else _LINE) // (t.tile_shape[axes[op]] * size), 1))
    if any(isinstance(op, Load) for op in axes):
        n, tiles = max(_LINE // (product.x.tile.shape[1] * made), 1), [op.result.tile for op in loads]
        step = sum(t.bytes + t.size * made * (t.element.bytes != made) for t in tiles)
        room = MOST_SHARED_BYTES // COPIES // (2 if product.acc.tile.size <= _SHARED_SM else 1)
        while n > 1 and n * step > room:
            n //= 2
        found.append(n)
    return min(found, default=1)


def _widened(rewriter: Rewriter, op: For, how: tuple[dict[Op, int], int], b: Builder) -> Sequence[Value]:
    axes, n = how
    lower, upper, step = rewriter.all(op.bounds)
    number = lower.tile.element
    left = b.emit(And, b.emit(Sub, upper, lower), b.constant(n - 1, number))
    middle = b.emit(Max, b.emit(Sub, upper, left), lower)
    views = {load: _wide_view(rewriter, load, axis, n, b) for load, axis in axes.items() if isinstance(load, LoadView)}
    outside = dict(rewriter.values)
    wide: dict[tuple[Value, int], Value] = {}
    for inner, axis in axes.items():
        for v in inner.operands if inner.spec.elementwise or isinstance(inner, Load) else ():
            if v.op not in axes and not is_uniform(v):
                wide[v, axis] = stretched(rewriter.values, v, wider(v.tile.shape, axis, n), b)
    body = open_block(op.body, rewriter.values)
    with b.at(body):
        for inner in op.body.ops:
            b.loc = inner.loc
            operands = rewriter.all(inner.operands)
            if isinstance(inner, LoadView):
                operands[0] = views[inner]
            if isinstance(inner, (Reshape, Broadcast)) and inner in axes:
                made = b.emit_op(type(inner), *operands, shape=wider(inner.shape, axes[inner], n))
            else:
                if inner in axes and (inner.spec.elementwise or isinstance(inner, Load)):
                    axis = axes[inner]
                    shape, given = wider(inner.results[0].tile.shape, axis, n), zip(inner.operands, operands)
                    operands = [
                        stretched(rewriter.values, v, shape, b) if is_uniform(v) else wide.get((v, axis), new)
                        for v, new in given
                    ]
                made = b.insert(with_operands(inner, operands))
            rewriter.values.update(zip(inner.results, made.results))
    first = b.emit_op(For, lower, middle, b.constant(n, number), rewriter.all(op.inits), body=body)
    rest = clone_block(op.body, outside)
    return b.emit_op(For, middle, upper, step, first.results, body=rest).results


def _wide_view(rewriter: Rewriter, load: LoadView, axis: int, n: int, b: Builder) -> Value:
    """The view of ``load`` in tiles of ``n`` steps, which still begin at every step."""
    made, t = load.view.op, load.view.partition
    assert isinstance(made, MakePartitionView)
    shape = wider(t.tile_shape, axis, n)
    return b.emit(MakePartitionView, rewriter.value(made.view), type=replace(t, tile_shape=shape))
