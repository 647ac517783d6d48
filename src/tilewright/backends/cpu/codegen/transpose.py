"""Tiles whose innermost axis is not the one along which memory runs: transposed in registers, a square at a time."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.position import Coord, Position
from tilewright.backends.cpu.codegen.scalars import ELEMENTWISE
from tilewright.backends.cpu.codegen.state import State
from tilewright.ir.core import Value
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.shape import Permute
from tilewright.ir.types import TileType

SIDE = 16  # of the largest square
WORTHWHILE = 4  # of the smallest


def memory_axis(state: State, value: Value) -> int | None:
    """The axis along which neighbours of ``value`` are computed from neighbours in memory; None when unknown."""
    bound, op = state.bindings.get(value), value.op
    if isinstance(bound, Buffer):
        return _innermost(value.tile)
    if bound is not None or op is None:
        return None
    if isinstance(op, LoadView):
        tile = state.accesses[op]
        axes = [k for k, stride in enumerate(tile.strides) if isinstance(stride, int) and stride == 1]
        return next((k for k in axes if tile.shape[k] > 1), None)
    if isinstance(op, Permute):
        axis = memory_axis(state, op.x)
        return None if axis is None else op.axes.index(axis)
    if type(op) in ELEMENTWISE:
        return next((a for a in (memory_axis(state, v) for v in op.operands) if a is not None), None)
    return None


def transposed_axis(state: State, value: Value) -> int | None:
    """``memory_axis`` of a deferred permute or load_view where that is not the innermost axis; else None."""
    op, t = value.op, value.tile
    if op is None or value in state.bindings or not isinstance(op, (Permute, LoadView)):
        return None
    axis, last = memory_axis(state, value), _innermost(t)
    if axis is None or axis == last or min(t.shape[axis], t.shape[last]) < WORTHWHILE:
        return None
    return None if t.is_pointer or t.element.is_bool else axis


def _innermost(t: TileType) -> int:
    return max((k for k, n in enumerate(t.shape) if n > 1), default=0)


def write_squares(elements: Elements, value: Value, buffer: Buffer, axis: int, width: int) -> list[Position]:
    """Open loops over squares of ``value``, read each along ``axis`` and write it along the innermost axis.

    Returns the positions that were read.
    """
    nest, shape = elements.nest, value.tile.shape
    last = _innermost(value.tile)
    side = min(width, SIDE, shape[axis], shape[last])
    corner = []
    for k, n in enumerate(shape):
        step = side if k in (axis, last) else 1
        base = nest.begin(n, step) if n > step else 0
        corner.append(Coord(base, nest.level if n > step else 0))
    read = [along(elements, corner, axis, last, i, side) for i in range(side)]
    rows = [elements.vector(elements.at(value, p), side) for p in read]
    for i, column in enumerate(transpose(nest.builder, rows)):
        target = along(elements, corner, last, axis, i, side)
        elements.write(buffer, shape, target, Element(column, side, nest.level))
    return read


def along(elements: Elements, corner: list[Coord], vector: int, fixed: int, offset: int, side: int) -> Position:
    """Row ``offset`` along axis ``fixed`` of a square, its lanes along axis ``vector``."""
    position = list(corner)
    position[vector] = Coord(corner[vector].base, corner[vector].level, tuple(range(side)))
    position[fixed] = elements.map.shift(corner[fixed], offset)
    return tuple(position)


def transpose(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors: blocks of growing size are exchanged across the diagonal."""
    side, step = len(rows), 1
    while step < side:
        following = list(rows)
        for i in range(side):
            if i & step:
                continue
            a, b = rows[i], rows[i + step]
            low = [j if not j & step else side + j - step for j in range(side)]
            high = [j + step if not j & step else side + j for j in range(side)]
            following[i], following[i + step] = lanes.merge(builder, a, b, low), lanes.merge(builder, a, b, high)
        rows, step = following, 2 * step
    return rows
