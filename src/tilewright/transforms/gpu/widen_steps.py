"""Loops of products in short steps along k do several at once, as many as rows of an operand along k have room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.opdef import with_operands
from tilewright.ir.ops.arith import Add, And, Max, Mul, Sub
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.gpu.tma import SWIZZLES
from tilewright.ir.ops.gpu.wgmma import STEP_BYTES
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load, LoadView, MakePartitionView
from tilewright.ir.ops.shape import Broadcast, Iota, Permute, Reshape, constant_of
from tilewright.ir.rewrite import Rewriter, clone_block, open_block, replace_ops
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.allocate_shared import MOST_SHARED_BYTES
from tilewright.transforms.gpu.staged_operands import COPIES

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
        axis, times = None, _times(op, places)
        if times is not None:
            places[op.results[0]] = times
            continue
        if isinstance(op, LoadView):
            axis = _axis_of_load(op, loop)
        elif isinstance(op, (Permute, Reshape, Broadcast)) and op.x.op in axes:
            axis = _moved(op, axes[op.x.op])
        elif isinstance(op, Mma) and op.acc in loop.carried and op.acc.tile.rank == 2:
            alone = list(op.acc.users) == [op] and list(op.result.users) == [loop.body.terminator]
            along_k = [axes.get(v.op) if v.op is not None else None for v in (op.x, op.y)] == [1, 0]
            axis = 0 if alone and along_k else None
        elif isinstance(op, Continue) or (op.results and all(_is_uniform(v) for v in op.results)):
            continue
        elif op.spec.elementwise or (isinstance(op, Load) and op.is_weak):
            axis = _axis_of_elements(op, axes, places)
        if axis is None:
            return None
        axes[op] = axis
    return axes if any(isinstance(op, Mma) for op in axes) else None


def _times(op: Op, places: dict[Value, int]) -> int | None:
    """How many times the number of the step all elements of what ``op`` gives are."""
    if isinstance(op, (Reshape, Broadcast)):
        return places.get(op.x)
    for x, y in ((op.lhs, op.rhs), (op.rhs, op.lhs)) if isinstance(op, Mul) else ():
        factor = constant_of(y)
        if x in places and isinstance(factor, int):
            return places[x] * factor
    return None


def _axis_of_elements(op: Op, axes: dict[Op, int], places: dict[Value, int]) -> int | None:
    """The axis along which the steps of what ``op`` computes or gathers element by element are: those of its operands,
    where all others are alike along that; or that of numbers which go on where those of the step before end."""
    for place in (v for v in op.operands if v in places):
        other = next((v for v in op.operands if v is not place), place)
        axis = _counted(other) if isinstance(op, Add) else None
        return axis if axis is not None and other.tile.shape[axis] == places[place] else None
    found = {axes[v.op] for v in op.operands if v.op in axes}
    if len(found) != 1:
        return None
    (axis,) = found
    return axis if all(v.op in axes or _is_alike(v, axis) for v in op.operands) else None


def _counted(value: Value) -> int | None:
    """The axis along which the elements of ``value`` are 0, 1, 2 and so on."""
    op = value.op
    if isinstance(op, (Permute, Reshape, Broadcast)):
        axis = _counted(op.x)
        return None if axis is None else _moved(op, axis)
    return 0 if isinstance(op, Iota) and value.tile.rank == 1 and value.tile.element.bytes >= 4 else None


def _is_alike(value: Value, axis: int) -> bool:
    """Whether the elements of ``value`` along ``axis`` are the same."""
    op = value.op
    if _is_uniform(value) or op is None or not op.operands:
        return _is_uniform(value)
    if isinstance(op, Broadcast):
        return op.x.tile.shape[axis] == 1
    return op.spec.elementwise and all(_is_alike(v, axis) for v in op.operands)


def _axis_of_load(op: LoadView, loop: For) -> int | None:
    """The axis of what ``op`` loads that the number of the step decides, if that alone decides which tile it is."""
    number = loop.body.args[0]
    steps = [k for k, index in enumerate(op.indices) if index is number]
    inside = any(v.op is not None and v.op.block is loop.body for v in (op.view, *op.indices))
    known = isinstance(op.view.op, MakePartitionView) and not inside
    return steps[0] if known and len(steps) == 1 and op.is_weak else None


def _is_uniform(value: Value) -> bool:
    """Whether all elements of a tile are the same, in any number of steps."""
    return constant_of(value) is not None or _scalar_of(value) is not None


def _scalar_of(value: Value) -> Value | None:
    """The number of which a tile of at least rank 1 is made."""
    if not isinstance(value.type, TileType) or not isinstance(value.op, (Reshape, Broadcast)):
        return None
    source = value.op.x
    return _scalar_of(source) if source.tile.rank else source


def _moved(op: Permute | Reshape | Broadcast, axis: int) -> int | None:
    """Where the ``axis`` of the operand of ``op`` is after it."""
    if isinstance(op, Permute):
        return op.axes.index(axis)
    if isinstance(op, Broadcast):
        return axis if op.x.tile.shape[axis] == op.shape[axis] else None
    before, after = ([k for k, n in enumerate(v.tile.shape) if n != 1] for v in (op.x, op.result))
    same = [op.x.tile.shape[k] for k in before] == [op.result.tile.shape[k] for k in after]
    return after[before.index(axis)] if same and axis in before else None


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
            if v.op not in axes and not _is_uniform(v):
                wide[v, axis] = _stretched(rewriter, v, _wider(v.tile.shape, axis, n), b)
    body = open_block(op.body, rewriter.values)
    with b.at(body):
        for inner in op.body.ops:
            b.loc = inner.loc
            operands = rewriter.all(inner.operands)
            if isinstance(inner, LoadView):
                operands[0] = views[inner]
            if isinstance(inner, (Reshape, Broadcast)) and inner in axes:
                made = b.emit_op(type(inner), *operands, shape=_wider(inner.shape, axes[inner], n))
            else:
                if inner in axes and (inner.spec.elementwise or isinstance(inner, Load)):
                    axis = axes[inner]
                    shape, given = _wider(inner.results[0].tile.shape, axis, n), zip(inner.operands, operands)
                    operands = [
                        _stretched(rewriter, v, shape, b) if _is_uniform(v) else wide.get((v, axis), new)
                        for v, new in given
                    ]
                made = b.insert(with_operands(inner, operands))
            rewriter.values.update(zip(inner.results, made.results))
    first = b.emit_op(For, lower, middle, b.constant(n, number), rewriter.all(op.inits), body=body)
    rest = clone_block(op.body, outside)
    return b.emit_op(For, middle, upper, step, first.results, body=rest).results


def _wider(shape: Sequence[int], axis: int, n: int) -> tuple[int, ...]:
    return tuple(m * n if k == axis else m for k, m in enumerate(shape))


def _stretched(rewriter: Rewriter, old: Value, shape: tuple[int, ...], b: Builder) -> Value:
    """``old``, which is alike along the axis that is longer in ``shape``, or counts along it, as a tile of that."""
    op, number, scalar = old.op, constant_of(old), _scalar_of(old)
    assert op is not None
    if number is not None:
        return b.constant(number, old.tile.element, shape)
    if scalar is not None:
        return b.splat(rewriter.value(scalar), shape)
    if isinstance(op, Iota):
        return b.emit(Iota, type=TileType(old.tile.element, shape))
    if isinstance(op, Broadcast):
        before = tuple(1 if m == 1 else k for m, k in zip(op.x.tile.shape, shape))
        x = rewriter.value(op.x) if before == op.x.tile.shape else _stretched(rewriter, op.x, before, b)
        return b.emit(Broadcast, x, shape=shape)
    if isinstance(op, Permute):
        before = tuple(shape[op.axes.index(k)] for k in range(len(shape)))
        return b.emit(Permute, _stretched(rewriter, op.x, before, b), axes=op.axes)
    if isinstance(op, Reshape):
        longer = iter(m for m in shape if m != 1)
        before = tuple(m if m == 1 else next(longer) for m in op.x.tile.shape)
        return b.emit(Reshape, _stretched(rewriter, op.x, before, b), shape=shape)
    return b.insert(with_operands(op, [_stretched(rewriter, v, shape, b) for v in op.operands])).results[0]


def _wide_view(rewriter: Rewriter, load: LoadView, axis: int, n: int, b: Builder) -> Value:
    """The view of ``load`` in tiles of ``n`` steps, which still begin at every step."""
    made, t = load.view.op, load.view.partition
    assert isinstance(made, MakePartitionView)
    shape = _wider(t.tile_shape, axis, n)
    return b.emit(MakePartitionView, rewriter.value(made.view), type=replace(t, tile_shape=shape))
