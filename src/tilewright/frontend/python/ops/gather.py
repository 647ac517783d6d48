"""Element-wise loads and stores: gather, scatter, advanced indexing and raw memory.

All of them become pointer arithmetic with a mask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import broadcast, cast, constant
from tilewright.frontend.python.ops.element_refs import ElementRefs, addresses, elements, raw_elements, spread
from tilewright.frontend.python.values import Array, SliceIndex, Tile
from tilewright.ir.dtypes import int64
from tilewright.ir.enums import PaddingMode
from tilewright.ir.ops.arith import Add
from tilewright.ir.ops.memory import Load, Store, padding_value
from tilewright.ir.ops.shape import Iota, Reshape
from tilewright.ir.types import TileType, is_power_of_two
from tilewright.language import memory as lang
from tilewright.language.array import RawArrayMemory as RawStub


def _gather(
    ctx: Context, array: Any, indices: Any, *, mask: Any, padding_value: Any, check_bounds: Any, latency: Any
) -> Tile:
    at = elements(ctx, array, indices, check_bounds, mask)
    padding = None if at.where is None else spread(ctx, padding_value, at.dtype, at.shape, "'padding_value'")
    return Tile(ctx.builder.emit(Load, at.pointers, at.where, padding, latency=check.latency(ctx, latency)))


def _storing(refs: Callable[..., ElementRefs]) -> OpBuilder:
    def build(ctx: Context, memory: Any, indices: Any, value: Any, *, latency: Any, **how: Any) -> None:
        at = refs(ctx, memory, indices, **how)
        stored = spread(ctx, value, at.dtype, at.shape, "the stored value")
        ctx.builder.emit_op(Store, at.pointers, stored, at.where, latency=check.latency(ctx, latency))

    return build


def _raw_load(ctx: Context, memory: Any, offset: Any, *, mask: Any, padding_value: Any, latency: Any) -> Tile:
    at = raw_elements(ctx, memory, offset, mask)
    padding = None
    if at.where is not None and padding_value is not None:
        padding = spread(ctx, padding_value, at.dtype, at.shape, "'padding_value'")
    return Tile(ctx.builder.emit(Load, at.pointers, at.where, padding, latency=check.latency(ctx, latency)))


# -- advanced indexing


def _slice_index(ctx: Context, start: Any, length: Any) -> SliceIndex:
    size = check.const_int(ctx, length, "length")
    if not is_power_of_two(size):
        ctx.fail(f"the length of a Slice is {size}; it must be a positive power of two")
    return SliceIndex(Tile(check.scalar_index(ctx, start, "start")), size)


def _advanced(ctx: Context, array: Any, indices: Any) -> tuple[Array, list[Tile], tuple[int, ...]]:
    """The element indices that one sparse tile and slices stand for, broadcast against each other."""
    source = check.array(ctx, array)
    if source.ndim < 2:
        ctx.fail(f"advanced indexing needs an array of rank 2 or more, not {source.ndim}; use ct.gather")
    if not isinstance(indices, tuple) or len(indices) != source.ndim:
        check.wrong(ctx, "indices", f"must be a tuple of {source.ndim} entries")
    sparse = [i for i in indices if not isinstance(i, SliceIndex)]
    if len(sparse) != 1 or not isinstance(sparse[0], Tile) or sparse[0].ndim != 1 or not sparse[0].dtype.is_integer:
        check.wrong(ctx, "indices", "needs exactly one 1-D integer tile, and ct.Slice for every other dimension")
    rank = source.ndim
    shape = tuple(i.length if isinstance(i, SliceIndex) else i.shape[0] for i in indices)
    tiles = []
    for axis, entry in enumerate(indices):
        if isinstance(entry, SliceIndex):
            iota = ctx.builder.emit(Iota, type=TileType(int64, (entry.length,)))
            start = broadcast(ctx, cast(ctx, entry.start.value, int64), (entry.length,))
            line = ctx.builder.emit(Add, iota, start)
        else:
            line = cast(ctx, entry.value, int64)
        dims = tuple(shape[axis] if k == axis else 1 for k in range(rank))
        tiles.append(Tile(broadcast(ctx, ctx.builder.emit(Reshape, line, shape=dims), shape)))
    return source, tiles, shape


def _load_advanced(ctx: Context, array: Any, indices: Any, *, padding_mode: Any, latency: Any, allow_tma: Any) -> Tile:
    source, tiles, shape = _advanced(ctx, array, indices)
    mode = check.member(ctx, PaddingMode, padding_mode, "padding_mode")
    check.allow_tma(ctx, allow_tma)
    ptrs, inside = addresses(ctx, source, tiles, True)
    padding = None
    if mode is not PaddingMode.UNDETERMINED:
        padding = constant(ctx, padding_value(mode, source.dtype), source.dtype, shape)
    return Tile(ctx.builder.emit(Load, ptrs, inside, padding, latency=check.latency(ctx, latency)))


def _store_advanced(ctx: Context, array: Any, indices: Any, tile: Any, *, latency: Any, allow_tma: Any) -> None:
    target, tiles, shape = _advanced(ctx, array, indices)
    check.allow_tma(ctx, allow_tma)
    value = check.tile(ctx, tile, "tile")
    if value.shape != shape:
        ctx.fail(f"the stored tile has shape {value.shape}; the indices select {shape}", argument="tile")
    ptrs, inside = addresses(ctx, target, tiles, True)
    stored = spread(ctx, tile, target.dtype, shape, "the stored tile")
    ctx.builder.emit_op(Store, ptrs, stored, inside, latency=check.latency(ctx, latency))


BUILDERS: dict[Any, OpBuilder] = {
    lang.gather: _gather,
    lang.scatter: _storing(elements),
    lang.Slice: _slice_index,
    lang.load_advanced_indexing: _load_advanced,
    lang.store_advanced_indexing: _store_advanced,
    RawStub.load_offset: _raw_load,
    RawStub.store_offset: _storing(raw_elements),
}
