"""Rearrangements of tiles that go through shared memory: parts, joins, and results that one thread has."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.gpu.layout_conversion import shared_layout
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.dtypes import int32, int64
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.ops.arith import And, Cast
from tilewright.ir.ops.gpu.memory import SharedAlloc, SharedExtract, SharedInsert, SharedLoad, SharedStore
from tilewright.ir.ops.shape import IntToPtr, PtrToInt
from tilewright.ir.types import PointerType, SharedType, TileType


def share(b: Builder, x: Value) -> Value:
    """A buffer that has the distributed tile ``x``."""
    buffer = empty(b, x.tile, x.layout)
    b.emit_op(SharedStore, buffer, x)
    return buffer


def empty(b: Builder, t: TileType, layout: LinearLayout) -> Value:
    """A buffer for tiles of ``t`` that are stored or loaded in ``layout``, and hold numbers."""
    swizzled, _ = shared_layout(layout, layout, t.element.bytes)
    return b.emit(SharedAlloc, type=SharedType(t.element, swizzled))


def extract(b: Builder, x: Value, indices: Sequence[Value], layout: LinearLayout) -> Value:
    """The part of ``x`` at grid index ``indices``, which wraps around, in ``layout``."""
    number, dtype = _number(b, x), x.tile.dtype
    wrapped = _wrapped(b, indices, x.tile.shape, layout.shape)
    part = TileType(number.tile.element, layout.shape, layout)
    return _restore(b, b.emit(SharedExtract, share(b, number), wrapped, type=part), dtype)


def insert(b: Builder, x: Value, value: Value, indices: Sequence[Value], layout: LinearLayout) -> Value:
    """``x`` with ``value`` at grid index ``indices``, which wraps around, in ``layout``."""
    number, dtype = _number(b, x), x.tile.dtype
    buffer = share(b, number)
    wrapped = _wrapped(b, indices, x.tile.shape, value.tile.shape)
    b.emit_op(SharedInsert, buffer, _number(b, value), wrapped)
    whole = TileType(number.tile.element, layout.shape, layout)
    return _restore(b, b.emit(SharedLoad, buffer, type=whole), dtype)


def cat(b: Builder, lhs: Value, rhs: Value, axis: int, layout: LinearLayout) -> Value:
    """``lhs`` followed by ``rhs`` along ``axis``, in ``layout``."""
    dtype, numbers = lhs.tile.dtype, [_number(b, v) for v in (lhs, rhs)]
    whole = TileType(numbers[0].tile.element, layout.shape, layout)
    buffer = empty(b, whole, layout)
    for position, number in enumerate(numbers):
        indices = [b.constant(position if k == axis else 0, int32) for k in range(layout.rank)]
        b.emit_op(SharedInsert, buffer, number, indices)
    return _restore(b, b.emit(SharedLoad, buffer, type=whole), dtype)


def from_owners(b: Builder, x: Value) -> Value:
    """``x``, of which only the owners of elements have the value, for all threads."""
    return b.emit(SharedLoad, share(b, x), type=x.tile)


def _number(b: Builder, x: Value) -> Value:
    return b.emit(PtrToInt, x, dtype=int64) if x.tile.is_pointer else x


def _restore(b: Builder, x: Value, dtype: object) -> Value:
    return b.emit(IntToPtr, x, dtype=dtype) if isinstance(dtype, PointerType) else x


def _wrapped(b: Builder, indices: Sequence[Value], whole: Sequence[int], part: Sequence[int]) -> list[Value]:
    """Grid indices modulo the extents of the grid, which are powers of two."""
    found = []
    for index, n, m in zip(indices, whole, part):
        wide = index if index.tile.element is int32 else b.emit(Cast, index, dtype=int32)
        found.append(b.emit(And, wide, b.constant(n // m - 1, int32)))
    return found
