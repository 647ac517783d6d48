"""Along which axes the steps of a loop are in the tiles that it loads and computes, and tiles of several steps."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tilewright.ir.builder import Builder
from tilewright.ir.core import Op, Value
from tilewright.ir.opdef import with_operands
from tilewright.ir.ops.arith import Add, Mul
from tilewright.ir.ops.control import For
from tilewright.ir.ops.memory import LoadView, MakePartitionView, StoreView
from tilewright.ir.ops.shape import Broadcast, Iota, Permute, Reshape, constant_of
from tilewright.ir.rewrite import ValueMap
from tilewright.ir.types import TileType


def times_of(op: Op, places: dict[Value, int]) -> int | None:
    """How many times the number of the step all elements of what ``op`` gives are."""
    if isinstance(op, (Reshape, Broadcast)):
        return places.get(op.x)
    for x, y in ((op.lhs, op.rhs), (op.rhs, op.lhs)) if isinstance(op, Mul) else ():
        factor = constant_of(y)
        if x in places and isinstance(factor, int):
            return places[x] * factor
    return None


def axis_of_elements(op: Op, axes: dict[Op, int], places: dict[Value, int]) -> int | None:
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
        return None if axis is None else moved(op, axis)
    longest = max(value.tile.shape, default=1)
    counts = isinstance(op, Iota) and longest == value.tile.size > 1 and value.tile.element.bytes >= 4
    return value.tile.shape.index(longest) if counts else None


def _is_alike(value: Value, axis: int) -> bool:
    """Whether the elements of ``value`` along ``axis`` are the same."""
    op = value.op
    if is_uniform(value) or op is None or not op.operands:
        return is_uniform(value)
    if isinstance(op, Broadcast):
        return op.x.tile.shape[axis] == 1
    return op.spec.elementwise and all(_is_alike(v, axis) for v in op.operands)


def axis_of_access(op: LoadView | StoreView, loop: For) -> int | None:
    """The axis of what ``op`` accesses that the number of the step decides, if that alone decides which tile it is, and
    each begins where the one before ends."""
    number, t = loop.body.args[0], op.view.partition
    steps = [k for k, index in enumerate(op.indices) if index is number]
    inside = any(v.op is not None and v.op.block is loop.body for v in (op.view, *op.indices))
    known = isinstance(op.view.op, MakePartitionView) and not inside and op.is_weak
    return steps[0] if known and len(steps) == 1 and t.steps[steps[0]] == t.tile_shape[steps[0]] else None


def is_uniform(value: Value) -> bool:
    """Whether all elements of a tile are the same, in any number of steps."""
    return constant_of(value) is not None or _scalar_of(value) is not None


def _scalar_of(value: Value) -> Value | None:
    """The number of which a tile of at least rank 1 is made."""
    if not isinstance(value.type, TileType) or not isinstance(value.op, (Reshape, Broadcast)):
        return None
    source = value.op.x
    return _scalar_of(source) if source.tile.rank else source


def moved(op: Permute | Reshape | Broadcast, axis: int) -> int | None:
    """Where the ``axis`` of the operand of ``op`` is after it."""
    if isinstance(op, Permute):
        return op.axes.index(axis)
    if isinstance(op, Broadcast):
        return axis if op.x.tile.shape[axis] == op.shape[axis] else None
    before, after = ([k for k, n in enumerate(v.tile.shape) if n != 1] for v in (op.x, op.result))
    same = [op.x.tile.shape[k] for k in before] == [op.result.tile.shape[k] for k in after]
    return after[before.index(axis)] if same and axis in before else None


def wider(shape: Sequence[int], axis: int, n: Fraction | int) -> tuple[int, ...]:
    return tuple(int(m * n) if k == axis else m for k, m in enumerate(shape))


def stretched(values: ValueMap, old: Value, shape: tuple[int, ...], b: Builder) -> Value:
    """``old``, which is alike along the axis that has another length in ``shape``, or counts along it, as a tile of
    that."""
    op, number, scalar = old.op, constant_of(old), _scalar_of(old)
    assert op is not None
    if number is not None:
        return b.constant(number, old.tile.element, shape)
    if scalar is not None:
        return b.splat(values.get(scalar, scalar), shape)
    if isinstance(op, Iota):
        return b.emit(Iota, type=TileType(old.tile.element, shape))
    if isinstance(op, Broadcast):
        before = tuple(1 if m == 1 else k for m, k in zip(op.x.tile.shape, shape))
        x = values.get(op.x, op.x) if before == op.x.tile.shape else stretched(values, op.x, before, b)
        return b.emit(Broadcast, x, shape=shape)
    if isinstance(op, Permute):
        before = tuple(shape[op.axes.index(k)] for k in range(len(shape)))
        return b.emit(Permute, stretched(values, op.x, before, b), axes=op.axes)
    if isinstance(op, Reshape):
        longer = iter(k for m, k in zip(op.shape, shape) if m != 1)
        before = tuple(m if m == 1 else next(longer) for m in op.x.tile.shape)
        return b.emit(Reshape, stretched(values, op.x, before, b), shape=shape)
    return b.insert(with_operands(op, [stretched(values, v, shape, b) for v in op.operands])).results[0]
