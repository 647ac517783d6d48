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
from tilewright.ir.ops.memory import LoadView, MakePartitionView
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape, constant_of
from tilewright.ir.rewrite import Rewriter, clone_block, open_block, replace_ops
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass

_LINE = max(SWIZZLES)  # bytes of a row in shared memory, which the TMA unit copies in one request


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
    for op in loop.body.ops:
        axis = None
        if isinstance(op, LoadView):
            axis = _axis_of_load(op, loop)
        elif isinstance(op, (Permute, Reshape, Broadcast)) and op.x.op in axes:
            axis = _moved(op, axes)
        elif isinstance(op, Mma) and op.acc in loop.carried and op.acc.tile.rank == 2:
            alone = list(op.acc.users) == [op] and list(op.result.users) == [loop.body.terminator]
            along_k = [axes.get(v.op) if v.op is not None else None for v in (op.x, op.y)] == [1, 0]
            axis = 0 if alone and along_k else None
        elif isinstance(op, Continue) or (op.results and all(_is_uniform(v) for v in op.results)):
            continue
        elif op.spec.elementwise:
            found = {None if v.op is None else axes.get(v.op) for v in op.operands if not _is_uniform(v)}
            numbered = any(_scalar_of(v) is loop.body.args[0] for v in op.operands)
            axis = found.pop() if len(found) == 1 and not numbered else None
        if axis is None:
            return None
        axes[op] = axis
    return axes


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


def _moved(op: Permute | Reshape | Broadcast, axes: dict[Op, int]) -> int | None:
    """Where the axis of the operand of ``op`` is after it."""
    assert op.x.op is not None
    axis = axes[op.x.op]
    if isinstance(op, Permute):
        return op.axes.index(axis)
    if isinstance(op, Broadcast):
        return axis if op.x.tile.shape[axis] == op.shape[axis] else None
    before, after = ([k for k, n in enumerate(v.tile.shape) if n != 1] for v in (op.x, op.result))
    same = [op.x.tile.shape[k] for k in before] == [op.result.tile.shape[k] for k in after]
    return after[before.index(axis)] if same and axis in before else None


def _steps(axes: dict[Op, int]) -> int:
    """How many steps rows of tiles along k have room for; where threads transpose bytes, what one instruction needs."""
    found = []
    for op, axis in axes.items():
        if isinstance(op, LoadView) and max(op.result.tile.shape) < op.result.tile.size:
            t, size = op.view.partition, op.result.tile.element.bytes
            transposed = size == 1 and t.view.strides[t.order[axis]] != 1
            found.append(max((STEP_BYTES if transposed else _LINE) // (t.tile_shape[axis] * size), 1))
    return min(found, default=1)


def _widened(rewriter: Rewriter, op: For, how: tuple[dict[Op, int], int], b: Builder) -> Sequence[Value]:
    axes, n = how
    lower, upper, step = rewriter.all(op.bounds)
    number = lower.tile.element
    left = b.emit(And, b.emit(Sub, upper, lower), b.constant(n - 1, number))
    middle = b.emit(Max, b.emit(Sub, upper, left), lower)
    views = {load: _wide_view(rewriter, load, axis, n, b) for load, axis in axes.items() if isinstance(load, LoadView)}
    outside = dict(rewriter.values)
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
                if inner in axes and inner.spec.elementwise:
                    shape = _wider(inner.result.tile.shape, axes[inner], n)
                    given = zip(inner.operands, operands)
                    operands = [_repeated(rewriter, v, shape, b) if _is_uniform(v) else new for v, new in given]
                made = b.insert(with_operands(inner, operands))
            rewriter.values.update(zip(inner.results, made.results))
    wide = b.emit_op(For, lower, middle, b.constant(n, number), rewriter.all(op.inits), body=body)
    rest = clone_block(op.body, outside)
    return b.emit_op(For, middle, upper, step, wide.results, body=rest).results


def _wider(shape: Sequence[int], axis: int, n: int) -> tuple[int, ...]:
    return tuple(m * n if k == axis else m for k, m in enumerate(shape))


def _repeated(rewriter: Rewriter, old: Value, shape: tuple[int, ...], b: Builder) -> Value:
    """A tile of ``shape`` with the only element of ``old``."""
    number = constant_of(old)
    if number is not None:
        return b.constant(number, old.tile.element, shape)
    scalar = _scalar_of(old)
    assert scalar is not None
    return b.splat(rewriter.value(scalar), shape)


def _wide_view(rewriter: Rewriter, load: LoadView, axis: int, n: int, b: Builder) -> Value:
    """The view of ``load`` in tiles of ``n`` steps, which still begin at every step."""
    made, t = load.view.op, load.view.partition
    assert isinstance(made, MakePartitionView)
    shape = _wider(t.tile_shape, axis, n)
    return b.emit(MakePartitionView, rewriter.value(made.view), type=replace(t, tile_shape=shape))
