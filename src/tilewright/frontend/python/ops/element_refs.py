"""Which elements an element-wise access touches: their addresses, and where the access may happen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.python.context import Context
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
from tilewright.frontend.python.values import Array, RawMemory, Tile
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, int64
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, And, Cmp, Max, Min, Mul, Not, Or, Sub
from tilewright.ir.ops.memory import Assume
from tilewright.ir.ops.shape import PtrOffset
from tilewright.ir.promotion import broadcast_shapes
from tilewright.records import dataclass


@dataclass(frozen=True)
class ElementRefs:
    """Elements of an array: their addresses, and where these may be accessed (None: everywhere)."""

    array: Array
    pointers: Value
    where: Value | None

    @property
    def dtype(self) -> DType:
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pointers.tile.shape


def elements(ctx: Context, array: Any, indices: Any, check_bounds: Any, mask: Any = None) -> ElementRefs:
    """The elements of ``array`` at ``indices``."""
    source = check.array(ctx, array)
    found = _indices(ctx, source, indices)
    bounds = check.const_bool(ctx, check_bounds, "check_bounds")
    pointers, inside = addresses(ctx, source, found, bounds)
    where = _mask(ctx, mask, pointers.tile.shape, inside)
    if not bounds:
        _promise_inside(ctx, source, found, where)
    return ElementRefs(source, pointers, where)


def raw_elements(ctx: Context, memory: Any, offset: Any, mask: Any) -> ElementRefs:
    """The elements of raw memory at ``offset`` from its base."""
    if not isinstance(memory, RawMemory):
        ctx.fail(f"expected raw memory, got {describe(memory)}")
    tile = check.tile(ctx, offset, "offset")
    if not tile.dtype.is_integer:
        check.wrong(ctx, "offset", f"must be integers, not {describe(tile)}")
    base, wide = broadcast(ctx, memory.array.base, tile.shape), cast(ctx, tile.value, int64)
    where = _mask(ctx, mask, tile.shape, None)
    _promise_offset(ctx, memory.array, wide, where)
    return ElementRefs(memory.array, ctx.builder.emit(PtrOffset, base, wide), where)


def _indices(ctx: Context, array: Array, indices: Any) -> list[Tile]:
    """One integer tile per dimension, of a common shape."""
    entries = indices if isinstance(indices, tuple) else (indices,)
    if len(entries) != array.ndim:
        check.wrong(
            ctx,
            "indices",
            f"has {len(entries)} entr{'y' if len(entries) == 1 else 'ies'}, but the array has {array.ndim} "
            f"dimension{'s' * (array.ndim != 1)}: give one integer tile per dimension",
        )
    tiles = []
    for e in entries:
        if not isinstance(e, (Tile, int)) or isinstance(e, bool):
            ctx.fail(f"an index is {describe(e)}; it must be an integer tile or scalar", argument="indices")
        tile = numeric(ctx, e)
        if not tile.dtype.is_integer:
            ctx.fail(f"an index is {describe(tile)}; convert it with .astype(ct.int32)", argument="indices")
        tiles.append(tile)
    return broadcast_together(ctx, *tiles)


def addresses(ctx: Context, array: Array, indices: list[Tile], check_bounds: bool) -> tuple[Value, Value | None]:
    """The addresses of the elements at ``indices``, and where these are inside the array."""
    b = ctx.builder
    shape = indices[0].shape if indices else ()
    offset: Value | None = None
    inside: Value | None = None
    for axis, index in enumerate(indices):
        wide = cast(ctx, index.value, int64)
        if check_bounds:
            # An unsigned index above the signed range turns negative, which is outside as well.
            both = _between_ends(ctx, wide, _wide(ctx, array, array.shape[axis]))
            inside = both if inside is None else b.emit(And, inside, both)
        term = b.emit(Mul, wide, broadcast(ctx, _wide(ctx, array, array.strides[axis]), shape))
        offset = term if offset is None else b.emit(Add, offset, term)
    base = broadcast(ctx, array.base, shape)
    return (base if offset is None else b.emit(PtrOffset, base, offset)), inside


def _wide(ctx: Context, array: Array, extent: Any) -> Value:
    """An extent or a stride of ``array`` in 64 bits."""
    return cast(ctx, to_tile(ctx, extent, array.index_dtype).value, int64)


def _between_ends(ctx: Context, index: Value, extent: Value) -> Value:
    """Where ``index`` lies in an axis of ``extent``."""
    b, shape = ctx.builder, index.tile.shape
    below = b.emit(Cmp, index, broadcast(ctx, extent, shape), predicate=CmpPredicate.LT)
    above = b.emit(Cmp, index, constant(ctx, 0, int64, shape), predicate=CmpPredicate.GE)
    return b.emit(And, above, below)


def _promise_inside(ctx: Context, array: Array, indices: list[Tile], where: Value | None) -> None:
    """State what ``check_bounds=False`` promises: every index is inside of the array where the mask is true."""
    b = ctx.builder
    for axis, index in enumerate(indices):
        wide, extent = cast(ctx, index.value, int64), _wide(ctx, array, array.shape[axis])
        last = b.emit(Sub, extent, constant(ctx, 1, int64))
        holds = _between_ends(ctx, wide, extent)
        shown = [i.value for i in indices]
        _promise(ctx, holds, where, [wide, last], f"index {{}} along axis {axis}", array, shown)


def _promise_offset(ctx: Context, array: Array, offset: Value, where: Value | None) -> None:
    """State that the offsets stay between the lowest and the highest element of the array."""
    b, shape = ctx.builder, offset.tile.shape
    zero, one = constant(ctx, 0, int64), constant(ctx, 1, int64)
    low = high = zero
    for extent, stride in zip(array.shape, array.strides):
        reach = b.emit(Mul, b.emit(Sub, _wide(ctx, array, extent), one), _wide(ctx, array, stride))
        low = b.emit(Add, low, b.emit(Min, reach, zero))
        high = b.emit(Add, high, b.emit(Max, reach, zero))
    above = b.emit(Cmp, offset, broadcast(ctx, low, shape), predicate=CmpPredicate.GE)
    below = b.emit(Cmp, offset, broadcast(ctx, high, shape), predicate=CmpPredicate.LE)
    _promise(ctx, b.emit(And, above, below), where, [offset, low, high], "offset {} in the memory", array)


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
        check.wrong(ctx, "mask", f"must be a bool tile, not {describe(tile)}; compare to make one")
    if broadcast_shapes(tile.shape, shape) != shape:
        check.wrong(ctx, "mask", f"of shape {tile.shape} does not broadcast to {shape}")
    wide = broadcast(ctx, tile.value, shape)
    return wide if inside is None else ctx.builder.emit(And, inside, wide)


def spread(
    ctx: Context, value: Any, dtype: DType, shape: tuple[int, ...], what: str, argument: str | None = None
) -> Value:
    """A stored, update or padding value: cast implicitly and broadcast to ``shape``."""
    if not isinstance(value, (Tile, bool, int, float)):
        ctx.fail(f"{what} is {describe(value)}; it must be a tile or a number", argument=argument)
    tile = implicit_cast(ctx, value, dtype, what)
    if broadcast_shapes(tile.shape, shape) != shape:
        message = f"{what} has shape {tile.shape}, which does not broadcast to {shape}"
        ctx.fail(message, argument=argument)
    return broadcast(ctx, tile.value, shape)
