"""Tiles in parts: of views, and of counting numbers."""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.dtypes import int32
from tilewright.ir.ops.arith import Add, Cast, Max, Min, Mul
from tilewright.ir.ops.memory import MakePartitionView
from tilewright.ir.ops.shape import Iota
from tilewright.ir.types import PartitionViewType, TileType


def part_of_iota(b: Builder, t: TileType, part: Value) -> Value:
    """The numbers of that ``part``, of type ``t``, of an ``iota``."""
    first = b.emit(Mul, part, b.constant(t.size, int32))
    first = first if t.dtype is int32 else b.emit(Cast, first, dtype=t.element)
    first = b.splat(first, t.shape)
    return b.emit(Add, b.emit(Iota, type=t), first)


def part_of_view(
    b: Builder, t: PartitionViewType, view: Value, index: Value, axis: int, size: int, part: Value, *, promised: bool
) -> tuple[Value, Value]:
    """The view of ``view`` in parts of ``size`` elements along ``axis`` of the tiles of ``t``, and the index in it of
    that ``part`` of the tile at ``index``, which is ``promised`` to lie inside."""
    tile_shape, steps = (tuple(size if a == axis else n for a, n in enumerate(of)) for of in (t.tile_shape, t.steps))
    parts = b.emit(MakePartitionView, view, type=replace(t, tile_shape=tile_shape, steps=steps))
    if index.tile.element.bitwidth < t.view.index_dtype.bitwidth:
        index = b.emit(Cast, index, dtype=t.view.index_dtype)
    dtype, factor = index.tile.element, t.steps[axis] // size
    if not promised:  # far outside is to stay outside
        index = b.emit(Max, index, b.constant(-(-dtype.min // factor), dtype))
        index = b.emit(Min, index, b.constant((dtype.max - factor + 1) // factor, dtype))
    if part.tile.element is not dtype:
        part = b.emit(Cast, part, dtype=dtype)
    return parts, b.emit(Add, b.emit(Mul, index, b.constant(factor, dtype)), part)
