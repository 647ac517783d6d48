"""Tiles whose innermost axis is not the one along which memory runs: transposed in registers, a square at a time."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.position import Coord, Position
from tilewright.backends.cpu.loops.kinds import LARGEST_SQUARE, innermost
from tilewright.ir.core import Value
from tilewright.ir.layouts import log2

PART_BYTES = 16  # of a vector: within such parts, instructions interleave two vectors


def write_squares(elements: Elements, value: Value, buffer: Buffer, axis: int, width: int) -> list[Position]:
    """Open loops over squares of ``value``, read each along ``axis`` and write it along the innermost axis.

    Returns the positions that were read.
    """
    nest, shape = elements.nest, value.tile.shape
    last = innermost(value.tile)
    side = min(width, LARGEST_SQUARE, shape[axis], shape[last])
    corner = [Coord(0, 0)] * len(shape)
    for k in sorted(range(len(shape)), key=axis.__eq__):  # memory is read in its order: it may be far away
        n, step = shape[k], side if k in (axis, last) else 1
        if n > step:
            corner[k] = Coord(nest.begin(n, step), nest.level)
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


def load_columns(
    builder: ir.IRBuilder, lines: list[ir.Value], part: ir.VectorType, widened: Callable[[ir.Value], ir.Value]
) -> list[ir.Value]:
    """The columns of what ``lines`` point to, of which a ``part`` each is loaded: into the parts of vectors, whose
    elements are ``widened`` and interleaved then. That takes fewer instructions than ``transpose``, and registers for
    few columns."""
    side = part.count
    rows: list[ir.Value] = []
    for i in range(side):
        parts = [builder.load(p, align=1, typ=part) for p in lines[i::side]]
        while len(parts) > 1:
            parts = [lanes.merge(builder, a, b, range(2 * a.type.count)) for a, b in zip(parts[::2], parts[1::2])]
        rows += map(widened, parts)
    width, half = len(lines), side // 2
    starts = range(0, width, side)
    low, high = (
        [lane for start in starts for i in range(half) for lane in (start + at + i, width + start + at + i)]
        for at in (0, half)
    )
    for _ in range(log2(side)):
        pairs = list(zip(rows[:half], rows[half:]))
        rows = [lanes.merge(builder, a, b, chosen) for a, b in pairs for chosen in (low, high)]
    return rows
