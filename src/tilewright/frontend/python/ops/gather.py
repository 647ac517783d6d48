"""Element-wise access: gather, scatter, advanced indexing, raw memory and atomics (fact sheet 1.5, 1.9, 1.10).

All of them become pointer arithmetic with a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import (
    broadcast,
    broadcast_together,
    cast,
    constant,
    implicit_cast,
    numeric,
    to_tile,
)
from tilewright.frontend.python.ops.load_store import order_and_scope
from tilewright.frontend.python.values import Array, RawMemory, SliceIndex, Tile, TiledView
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, int64
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope, PaddingMode
from tilewright.ir.errors import TileTypeError
from tilewright.ir.ops.arith import Add, And, Cmp, Max, Min, Mul, Not, Or, Sub
from tilewright.ir.ops.memory import (
    ATOMIC_DTYPES,
    CAS_DTYPES,
    Assume,
    AtomicCas,
    AtomicRmw,
    AtomicView,
    Load,
    Store,
    padding_value,
)
from tilewright.ir.ops.shape import Iota, PtrOffset, Reshape
from tilewright.ir.promotion import broadcast_shapes
from tilewright.ir.types import PartitionViewType, TileType, is_power_of_two
from tilewright.language import memory as lang
from tilewright.language.array import RawArrayMemory as RawStub
from tilewright.language.array import TiledView as ViewStub

STRONG = (MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)


def _indices(ctx: Context, array: Array, indices: Any) -> list[Tile]:
    """One integer tile per dimension, of a common shape."""
    entries = indices if isinstance(indices, tuple) else (indices,)
    if len(entries) != array.ndim:
        ctx.fail(
            TileTypeError,
            f"'indices' has {len(entries)} entr{'y' if len(entries) == 1 else 'ies'}, but the array has {array.ndim} "
            f"dimension{'s' * (array.ndim != 1)}: give one integer tile per dimension",
            argument="indices",
        )
    tiles = []
    for e in entries:
        if not isinstance(e, (Tile, int)) or isinstance(e, bool):
            ctx.fail(
                TileTypeError, f"an index is {describe(e)}; it must be an integer tile or scalar", argument="indices"
            )
        tile = numeric(ctx, e)
        if not tile.dtype.is_integer:
            ctx.fail(
                TileTypeError, f"an index is {describe(tile)}; convert it with .astype(ct.int32)", argument="indices"
            )
        tiles.append(tile)
    return broadcast_together(ctx, *tiles)


def _pointers(ctx: Context, array: Array, indices: list[Tile], check_bounds: bool) -> tuple[Value, Value | None]:
    """The addresses of the elements at ``indices``, and where these are inside the array."""
    b = ctx.builder
    shape = indices[0].shape if indices else ()
    offset: Value | None = None
    inside: Value | None = None
    for axis, index in enumerate(indices):
        wide = cast(ctx, index.value, int64)
        if check_bounds:
            # An unsigned index above the signed range turns negative, which is outside as well.
            extent = broadcast(ctx, cast(ctx, to_tile(ctx, array.shape[axis], array.index_dtype).value, int64), shape)
            below = b.emit(Cmp, wide, extent, predicate=CmpPredicate.LT)
            above = b.emit(Cmp, wide, constant(ctx, 0, int64, shape), predicate=CmpPredicate.GE)
            both = b.emit(And, above, below)
            inside = both if inside is None else b.emit(And, inside, both)
        stride = broadcast(ctx, cast(ctx, to_tile(ctx, array.strides[axis], array.index_dtype).value, int64), shape)
        term = b.emit(Mul, wide, stride)
        offset = term if offset is None else b.emit(Add, offset, term)
    base = broadcast(ctx, array.base, shape)
    return (base if offset is None else b.emit(PtrOffset, base, offset)), inside


def _promise_inside(ctx: Context, array: Array, indices: list[Tile], where: Value | None) -> None:
    """State what ``check_bounds=False`` promises: every index is inside of the array where the mask is true."""
    b = ctx.builder
    for axis, index in enumerate(indices):
        wide, shape = cast(ctx, index.value, int64), index.shape
        extent = cast(ctx, to_tile(ctx, array.shape[axis], array.index_dtype).value, int64)
        last = b.emit(Sub, extent, constant(ctx, 1, int64))
        below = b.emit(Cmp, wide, broadcast(ctx, extent, shape), predicate=CmpPredicate.LT)
        above = b.emit(Cmp, wide, constant(ctx, 0, int64, shape), predicate=CmpPredicate.GE)
        holds = b.emit(And, above, below)
        places = [i.value for i in indices]
        _promise(ctx, holds, where, [wide, last], f"index {{}} along axis {axis}", array, places)


def _promise(
    ctx: Context,
    inside: Value,
    where: Value | None,
    values: list[Value],
    what: str,
    array: Array,
    index: Sequence[Value] = (),
) -> None:
    b = ctx.builder
    holds = inside if where is None else b.emit(Or, inside, b.emit(Not, where))
    valid = "0 to {}" if len(values) == 2 else "{} to {}"
    message = f"{what} of '{array.name}', whose bounds are not checked; valid are {valid}"
    b.emit_op(Assume, holds, values, index, kind="unchecked-bounds", message=message, argument=array.name)


def _mask(ctx: Context, mask: Any, shape: tuple[int, ...], inside: Value | None) -> Value | None:
    """The mask argument combined with the bounds check."""
    if mask is None:
        return inside
    tile = check.tile(ctx, mask, "mask")
    if tile.value.tile.is_pointer or not tile.dtype.is_bool:
        ctx.fail(
            TileTypeError, f"'mask' must be a bool tile, not {describe(tile)}; compare to make one", argument="mask"
        )
    if broadcast_shapes(tile.shape, shape) != shape:
        ctx.fail(TileTypeError, f"'mask' of shape {tile.shape} does not broadcast to {shape}", argument="mask")
    wide = broadcast(ctx, tile.value, shape)
    return wide if inside is None else ctx.builder.emit(And, inside, wide)


def _spread(ctx: Context, value: Any, dtype: DType, shape: tuple[int, ...], what: str) -> Value:
    """An update or padding value: cast implicitly and broadcast to the shape of the indices."""
    if not isinstance(value, (Tile, bool, int, float)):
        ctx.fail(TileTypeError, f"{what} is {describe(value)}; it must be a tile or a number")
    tile = implicit_cast(ctx, value, dtype, what)
    if broadcast_shapes(tile.shape, shape) != shape:
        ctx.fail(TileTypeError, f"{what} has shape {tile.shape}, which does not broadcast to {shape}")
    return broadcast(ctx, tile.value, shape)


def _gather(
    ctx: Context,
    array: Any,
    indices: Any,
    *,
    mask: Any = None,
    padding_value: Any = 0,
    check_bounds: Any = True,
    latency: Any = None,
) -> Tile:
    source = check.array(ctx, array)
    found = _indices(ctx, source, indices)
    bounds = check.const_bool(ctx, check_bounds, "check_bounds")
    ptrs, inside = _pointers(ctx, source, found, bounds)
    shape = ptrs.tile.shape
    where = _mask(ctx, mask, shape, inside)
    if not bounds:
        _promise_inside(ctx, source, found, where)
    padding = None if where is None else _spread(ctx, padding_value, source.dtype, shape, "'padding_value'")
    return Tile(ctx.builder.emit(Load, ptrs, where, padding, latency=check.latency(ctx, latency)))


def _scatter(
    ctx: Context,
    array: Any,
    indices: Any,
    value: Any,
    *,
    mask: Any = None,
    check_bounds: Any = True,
    latency: Any = None,
) -> None:
    target = check.array(ctx, array)
    found = _indices(ctx, target, indices)
    bounds = check.const_bool(ctx, check_bounds, "check_bounds")
    ptrs, inside = _pointers(ctx, target, found, bounds)
    shape = ptrs.tile.shape
    stored = _spread(ctx, value, target.dtype, shape, "the stored value")
    where = _mask(ctx, mask, shape, inside)
    if not bounds:
        _promise_inside(ctx, target, found, where)
    ctx.builder.emit_op(Store, ptrs, stored, where, latency=check.latency(ctx, latency))


# -- advanced indexing


def _slice_index(ctx: Context, start: Any, length: Any) -> SliceIndex:
    size = check.const_int(ctx, length, "length")
    if not is_power_of_two(size):
        ctx.fail(TileTypeError, f"the length of a Slice is {size}; it must be a positive power of two")
    return SliceIndex(Tile(check.scalar_index(ctx, start, "start")), size)


def _advanced(ctx: Context, array: Any, indices: Any) -> tuple[Array, list[Tile], tuple[int, ...]]:
    """The element indices that one sparse tile and slices stand for, broadcast against each other."""
    source = check.array(ctx, array)
    if source.ndim < 2:
        ctx.fail(TileTypeError, f"advanced indexing needs an array of rank 2 or more, not {source.ndim}; use ct.gather")
    if not isinstance(indices, tuple) or len(indices) != source.ndim:
        ctx.fail(TileTypeError, f"'indices' must be a tuple of {source.ndim} entries", argument="indices")
    sparse = [i for i in indices if not isinstance(i, SliceIndex)]
    if len(sparse) != 1 or not isinstance(sparse[0], Tile) or sparse[0].ndim != 1 or not sparse[0].dtype.is_integer:
        ctx.fail(
            TileTypeError,
            "'indices' needs exactly one 1-D integer tile, and ct.Slice for every other dimension",
            argument="indices",
        )
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


def _load_advanced(
    ctx: Context,
    array: Any,
    indices: Any,
    *,
    padding_mode: Any = PaddingMode.UNDETERMINED,
    latency: Any = None,
    allow_tma: Any = None,
) -> Tile:
    source, tiles, shape = _advanced(ctx, array, indices)
    mode = check.member(ctx, PaddingMode, padding_mode, "padding_mode")
    check.allow_tma(ctx, allow_tma)
    ptrs, inside = _pointers(ctx, source, tiles, True)
    padding = None
    if mode is not PaddingMode.UNDETERMINED:
        padding = constant(ctx, padding_value(mode, source.dtype), source.dtype, shape)
    return Tile(ctx.builder.emit(Load, ptrs, inside, padding, latency=check.latency(ctx, latency)))


def _store_advanced(
    ctx: Context, array: Any, indices: Any, tile: Any, *, latency: Any = None, allow_tma: Any = None
) -> None:
    target, tiles, shape = _advanced(ctx, array, indices)
    check.allow_tma(ctx, allow_tma)
    value = check.tile(ctx, tile, "tile")
    if value.shape != shape:
        ctx.fail(TileTypeError, f"the stored tile has shape {value.shape}; the indices select {shape}", argument="tile")
    ptrs, inside = _pointers(ctx, target, tiles, True)
    stored = _spread(ctx, tile, target.dtype, shape, "the stored tile")
    ctx.builder.emit_op(Store, ptrs, stored, inside, latency=check.latency(ctx, latency))


# -- atomics


def _atomic_dtype(ctx: Context, kind: AtomicKind | None, dtype: DType) -> None:
    allowed = CAS_DTYPES if kind is None else ATOMIC_DTYPES[kind]
    if dtype.short not in allowed:
        name = "compare-and-swap" if kind is None else f"atomic {kind.value}"
        ctx.fail(TileTypeError, f"{name} is not available for arrays of {dtype}; it takes {', '.join(allowed)}")


def _update(ctx: Context, kind: AtomicKind, value: Any, dtype: DType, shape: tuple[int, ...]) -> Value:
    if kind in (AtomicKind.AND, AtomicKind.OR, AtomicKind.XOR):
        found = to_tile(ctx, value)
        if found.element_type is not dtype:
            ctx.fail(
                TileTypeError,
                f"the update is {found.element_type}, but the array is {dtype}: bitwise atomics need equal "
                f"dtypes; write ct.{dtype}(...) or astype",
            )
    return _spread(ctx, value, dtype, shape, "the update")


def _rmw(kind: AtomicKind) -> OpBuilder:
    def build(
        ctx: Context,
        array: Any,
        indices: Any,
        update: Any,
        *,
        check_bounds: Any = True,
        memory_order: Any = MemoryOrder.ACQ_REL,
        memory_scope: Any = MemoryScope.DEVICE,
    ) -> Tile:
        target = check.array(ctx, array)
        _atomic_dtype(ctx, kind, target.dtype)
        found = _indices(ctx, target, indices)
        bounds = check.const_bool(ctx, check_bounds, "check_bounds")
        ptrs, inside = _pointers(ctx, target, found, bounds)
        if not bounds:
            _promise_inside(ctx, target, found, None)
        order, scope = order_and_scope(ctx, memory_order, memory_scope, STRONG)
        value = _update(ctx, kind, update, target.dtype, ptrs.tile.shape)
        return Tile(ctx.builder.emit(AtomicRmw, ptrs, value, inside, kind=kind, memory_order=order, memory_scope=scope))

    return build


def _cas(
    ctx: Context,
    array: Any,
    indices: Any,
    expected: Any,
    desired: Any,
    *,
    check_bounds: Any = True,
    memory_order: Any = MemoryOrder.ACQ_REL,
    memory_scope: Any = MemoryScope.DEVICE,
) -> Tile:
    target = check.array(ctx, array)
    _atomic_dtype(ctx, None, target.dtype)
    found = _indices(ctx, target, indices)
    bounds = check.const_bool(ctx, check_bounds, "check_bounds")
    ptrs, inside = _pointers(ctx, target, found, bounds)
    if not bounds:
        _promise_inside(ctx, target, found, None)
    order, scope = order_and_scope(ctx, memory_order, memory_scope, STRONG)
    shape = ptrs.tile.shape
    old = _spread(ctx, expected, target.dtype, shape, "'expected'")
    new = _spread(ctx, desired, target.dtype, shape, "'desired'")
    return Tile(ctx.builder.emit(AtomicCas, ptrs, old, new, inside, memory_order=order, memory_scope=scope))


def _view_atomic(kind: AtomicKind) -> OpBuilder:
    def build(ctx: Context, view: Any, index: Any, update: Any) -> None:
        if not isinstance(view, TiledView):
            ctx.fail(TileTypeError, f"expected a tiled view, got {describe(view)}")
        _atomic_dtype(ctx, kind, view.dtype)
        type_: PartitionViewType = view.view.type  # type: ignore[assignment]
        entries = check.index(ctx, index, len(type_.tile_shape), "the view")
        value = _update(ctx, kind, update, view.dtype, type_.tile_shape)
        ctx.builder.emit_op(AtomicView, view.view, value, entries, kind=kind)

    return build


# -- raw memory


def _raw_pointers(ctx: Context, memory: Any, offset: Any, mask: Any) -> tuple[Array, Value, Value | None]:
    """The array, the addresses of the elements at ``offset``, and where ``mask`` lets them be accessed."""
    if not isinstance(memory, RawMemory):
        ctx.fail(TileTypeError, f"expected raw memory, got {describe(memory)}")
    tile = check.tile(ctx, offset, "offset")
    if not tile.dtype.is_integer:
        ctx.fail(TileTypeError, f"'offset' must be integers, not {describe(tile)}", argument="offset")
    base, wide = broadcast(ctx, memory.array.base, tile.shape), cast(ctx, tile.value, int64)
    where = _mask(ctx, mask, tile.shape, None)
    _promise_offset(ctx, memory.array, wide, where)
    return memory.array, ctx.builder.emit(PtrOffset, base, wide), where


def _promise_offset(ctx: Context, array: Array, offset: Value, where: Value | None) -> None:
    """State that the offsets stay between the lowest and the highest element of the array."""
    b, shape = ctx.builder, offset.tile.shape
    zero, one = constant(ctx, 0, int64), constant(ctx, 1, int64)
    low = high = zero
    for extent, stride in zip(array.shape, array.strides):
        steps = b.emit(Sub, cast(ctx, to_tile(ctx, extent, array.index_dtype).value, int64), one)
        reach = b.emit(Mul, steps, cast(ctx, to_tile(ctx, stride, array.index_dtype).value, int64))
        low = b.emit(Add, low, b.emit(Min, reach, zero))
        high = b.emit(Add, high, b.emit(Max, reach, zero))
    above = b.emit(Cmp, offset, broadcast(ctx, low, shape), predicate=CmpPredicate.GE)
    below = b.emit(Cmp, offset, broadcast(ctx, high, shape), predicate=CmpPredicate.LE)
    _promise(ctx, b.emit(And, above, below), where, [offset, low, high], "offset {} in the memory", array)


def _raw_load(
    ctx: Context, memory: Any, offset: Any, *, mask: Any = None, padding_value: Any = 0, latency: Any = None
) -> Tile:
    array, ptrs, where = _raw_pointers(ctx, memory, offset, mask)
    shape = ptrs.tile.shape
    padding = None
    if where is not None and padding_value is not None:
        padding = _spread(ctx, padding_value, array.dtype, shape, "'padding_value'")
    return Tile(ctx.builder.emit(Load, ptrs, where, padding, latency=check.latency(ctx, latency)))


def _raw_store(ctx: Context, memory: Any, offset: Any, value: Any, *, mask: Any = None, latency: Any = None) -> None:
    array, ptrs, where = _raw_pointers(ctx, memory, offset, mask)
    shape = ptrs.tile.shape
    stored = _spread(ctx, value, array.dtype, shape, "the stored value")
    ctx.builder.emit_op(Store, ptrs, stored, where, latency=check.latency(ctx, latency))


def _raw_rmw(kind: AtomicKind) -> OpBuilder:
    def build(
        ctx: Context,
        memory: Any,
        offset: Any,
        update: Any,
        *,
        mask: Any = None,
        memory_order: Any = MemoryOrder.ACQ_REL,
        memory_scope: Any = MemoryScope.DEVICE,
    ) -> Tile:
        array, ptrs, where = _raw_pointers(ctx, memory, offset, mask)
        _atomic_dtype(ctx, kind, array.dtype)
        order, scope = order_and_scope(ctx, memory_order, memory_scope, STRONG)
        value = _update(ctx, kind, update, array.dtype, ptrs.tile.shape)
        return Tile(ctx.builder.emit(AtomicRmw, ptrs, value, where, kind=kind, memory_order=order, memory_scope=scope))

    return build


def _raw_cas(
    ctx: Context,
    memory: Any,
    offset: Any,
    expected: Any,
    desired: Any,
    *,
    mask: Any = None,
    memory_order: Any = MemoryOrder.ACQ_REL,
    memory_scope: Any = MemoryScope.DEVICE,
) -> Tile:
    array, ptrs, where = _raw_pointers(ctx, memory, offset, mask)
    _atomic_dtype(ctx, None, array.dtype)
    order, scope = order_and_scope(ctx, memory_order, memory_scope, STRONG)
    shape = ptrs.tile.shape
    old = _spread(ctx, expected, array.dtype, shape, "'expected'")
    new = _spread(ctx, desired, array.dtype, shape, "'desired'")
    return Tile(ctx.builder.emit(AtomicCas, ptrs, old, new, where, memory_order=order, memory_scope=scope))


_KINDS = {k.value: k for k in AtomicKind}
_COMBINING = ("add", "max", "min", "and", "or", "xor")

BUILDERS: dict[Any, OpBuilder] = {
    lang.gather: _gather,
    lang.scatter: _scatter,
    lang.Slice: _slice_index,
    lang.load_advanced_indexing: _load_advanced,
    lang.store_advanced_indexing: _store_advanced,
    lang.atomic_cas: _cas,
    RawStub.load_offset: _raw_load,
    RawStub.store_offset: _raw_store,
    RawStub.atomic_cas_offset: _raw_cas,
    **{getattr(lang, f"atomic_{name}"): _rmw(kind) for name, kind in _KINDS.items()},
    **{getattr(RawStub, f"atomic_{name}_offset"): _raw_rmw(kind) for name, kind in _KINDS.items()},
    **{getattr(ViewStub, f"atomic_store_{name}"): _view_atomic(_KINDS[name]) for name in _COMBINING},
}
