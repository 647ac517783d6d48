"""Tile loads and stores through views, array slices and lists of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import cast, constant, constant_of, to_tile
from tilewright.frontend.python.ops.element_refs import spread
from tilewright.frontend.python.ops.tiles import reshape
from tilewright.frontend.python.values import Array, ArrayList, RawMemory, Tile, TiledView
from tilewright.frontend.signature import ArraySpec, Extent
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.dtypes import int32, int64
from tilewright.ir.enums import CmpPredicate, MemoryOrder, MemoryScope, PaddingMode, RoundingMode
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import Add, And, Cmp, Div, Mul, Sub
from tilewright.ir.ops.shape import IntToPtr, PtrOffset
from tilewright.ir.types import PartitionViewType, PointerType, TensorViewType, TileType
from tilewright.language import memory as lang
from tilewright.language.array import Array as ArrayStub
from tilewright.language.array import TiledView as ViewStub
from tilewright.language.dtypes import foreign_pointer_dtype

LOAD_ORDERS = (MemoryOrder.WEAK, MemoryOrder.RELAXED, MemoryOrder.ACQUIRE)
STORE_ORDERS = (MemoryOrder.WEAK, MemoryOrder.RELAXED, MemoryOrder.RELEASE)


def order_and_scope(
    ctx: Context, order: Any, scope: Any, allowed: tuple[MemoryOrder, ...]
) -> tuple[MemoryOrder, MemoryScope]:
    """The ``memory_order`` and ``memory_scope`` arguments, which must suit each other."""
    found, where = (
        check.member(ctx, MemoryOrder, order, "memory_order"),
        check.member(ctx, MemoryScope, scope, "memory_scope"),
    )
    if found not in allowed:
        choices = ", ".join(o.name for o in allowed)
        check.wrong(ctx, "memory_order", f"{found.name} is not possible here; choose {choices}")
    if where is MemoryScope.CLUSTER:
        check.wrong(ctx, "memory_scope", "CLUSTER is not possible in tile code; use DEVICE")
    if (found is MemoryOrder.WEAK) is not (where is MemoryScope.NONE):
        ctx.fail(
            f"'memory_order' {found.name} with 'memory_scope' {where.name}: a WEAK operation has scope NONE, and "
            "every other order needs a scope: BLOCK, DEVICE or SYS",
            argument="memory_scope",
        )
    return found, where


def tensor_view(ctx: Context, array: Array) -> Value:
    """The array as a value of the IR."""
    index = TileType(array.index_dtype)
    type_ = TensorViewType(array.dtype, array.static_shape, array.static_strides, array.index_dtype)

    def dynamic(static: tuple[int | None, ...], visible: tuple[Any, ...]) -> list[Value]:
        return [
            cast(ctx, to_tile(ctx, v, array.index_dtype).value, index.element)
            for s, v in zip(static, visible)
            if s is None
        ]

    shape, strides = dynamic(array.static_shape, array.shape), dynamic(array.static_strides, array.strides)
    return ctx.builder.emit(memory.MakeTensorView, array.base, shape, strides, type=type_)


def partition(
    ctx: Context,
    array: Array,
    shape: tuple[int, ...],
    order: tuple[int, ...],
    padding: PaddingMode,
    steps: tuple[int, ...],
) -> Value:
    view = tensor_view(ctx, array)
    type_ = PartitionViewType(view.type, shape, order, padding, steps)  # type: ignore[arg-type]
    return ctx.builder.emit(memory.MakePartitionView, view, type=type_)


def tile_shape(ctx: Context, value: Any, rank: int, name: str = "shape") -> tuple[int, ...]:
    """The shape of a tile of an array of ``rank`` dimensions; ``()`` stands for one element."""
    shape = check.const_shape(ctx, value, name)
    if not shape:
        return (1,) * rank
    if len(shape) != rank:
        wanted = ", ".join(map(str, (1,) * (rank - len(shape)) + shape)) if len(shape) < rank else ""
        advice = f"; write {name}=({wanted})" if wanted else ""
        check.wrong(
            ctx,
            name,
            f"is {shape}, but the array has {rank} dimension{'s' * (rank != 1)}: a tile has the rank of its "
            f"array{advice}",
        )
    return shape


def _attributes(
    ctx: Context,
    rank: int,
    orders: tuple[MemoryOrder, ...],
    *,
    check_bounds: Any,
    latency: Any,
    allow_tma: Any,
    memory_order: Any = MemoryOrder.WEAK,
    memory_scope: Any = MemoryScope.NONE,
) -> dict[str, Any]:
    """Attributes of a load or store of a tile with ``rank`` axes, from the arguments that these have in common."""
    order, scope = order_and_scope(ctx, memory_order, memory_scope, orders)
    return {
        "in_bounds": (not check.const_bool(ctx, check_bounds, "check_bounds"),) * rank,
        "memory_order": order,
        "memory_scope": scope,
        "latency": check.latency(ctx, latency),
        "allow_tma": check.allow_tma(ctx, allow_tma),
    }


def _load(ctx: Context, array: Any, index: Any, shape: Any, *, order: Any, padding_mode: Any, **how: Any) -> Tile:
    source = check.array(ctx, array)
    scalar = shape == ()
    dims = tile_shape(ctx, shape, source.ndim)
    entries = check.index(ctx, index, source.ndim, "the array")
    padding = check.member(ctx, PaddingMode, padding_mode, "padding_mode")
    view = partition(ctx, source, dims, check.order(ctx, order, source.ndim), padding, dims)
    value = ctx.builder.emit(memory.LoadView, view, entries, **_attributes(ctx, len(dims), LOAD_ORDERS, **how))
    return reshape(ctx, Tile(value), ()) if scalar and dims else Tile(value)


def _store(ctx: Context, array: Any, index: Any, tile: Any, *, order: Any, **how: Any) -> None:
    target = check.array(ctx, array)
    shape = tile.shape if isinstance(tile, Tile) else ()
    if len(shape) != target.ndim and shape:
        ctx.fail(
            f"the stored tile has shape {shape}, but the array has {target.ndim} dimension{'s' * (target.ndim != 1)}: "
            "they must have one rank. Insert axes with tile[None, :], or reshape",
            argument="tile",
        )
    dims = shape or (1,) * target.ndim
    entries = check.index(ctx, index, target.ndim, "the array")
    view = partition(ctx, target, dims, check.order(ctx, order, target.ndim), PaddingMode.UNDETERMINED, dims)
    value = spread(ctx, tile, target.dtype, dims, "the stored tile", "tile")
    ctx.builder.emit_op(memory.StoreView, view, value, entries, **_attributes(ctx, len(dims), STORE_ORDERS, **how))


def _tiled_view(ctx: Context, array: Any, tile_shape_: Any, *, padding_mode: Any, traversal_steps: Any) -> TiledView:
    source = check.array(ctx, array)
    shape = check.const_shape(ctx, tile_shape_, "tile_shape")
    dims = tile_shape(ctx, shape, source.ndim, "tile_shape")
    steps = dims
    if traversal_steps is not None:
        steps = check.ints(ctx, traversal_steps, "traversal_steps")
        if len(steps) != source.ndim or any(s <= 0 for s in steps):
            check.wrong(
                ctx,
                "traversal_steps",
                f"is {steps}; it needs one positive step for each of the {source.ndim} dimensions",
            )
    padding = check.member(ctx, PaddingMode, padding_mode, "padding_mode")
    view = partition(ctx, source, dims, tuple(range(source.ndim)), padding, steps)
    return TiledView(source, view, shape, steps, padding)


def _view(ctx: Context, value: Any) -> tuple[TiledView, PartitionViewType]:
    if not isinstance(value, TiledView):
        ctx.fail(f"expected a tiled view, got {describe(value)}")
    return value, value.view.type  # type: ignore[return-value]


def _view_load(ctx: Context, view: Any, index: Any, **how: Any) -> Tile:
    found, type_ = _view(ctx, view)
    entries = check.index(ctx, index, len(type_.tile_shape), "the view")
    value = ctx.builder.emit(memory.LoadView, found.view, entries, **_attributes(ctx, len(entries), LOAD_ORDERS, **how))
    return Tile(value) if found.tile_shape == type_.tile_shape else reshape(ctx, Tile(value), ())


def _view_store(ctx: Context, view: Any, index: Any, tile: Any, **how: Any) -> None:
    found, type_ = _view(ctx, view)
    entries = check.index(ctx, index, len(type_.tile_shape), "the view")
    value = spread(ctx, tile, found.dtype, type_.tile_shape, "the stored tile", "tile")
    ctx.builder.emit_op(
        memory.StoreView, found.view, value, entries, **_attributes(ctx, len(entries), STORE_ORDERS, **how)
    )


def _tiles_along(ctx: Context, array: Array, axis: int, step: int) -> Tile:
    """The number of tiles that cover an axis of the array, as int32."""
    extent = to_tile(ctx, array.shape[axis], array.index_dtype).value
    count = ctx.builder.emit(Div, extent, constant(ctx, step, array.index_dtype), rounding=RoundingMode.RP)
    return Tile(cast(ctx, count, int32))


def _num_tiles(ctx: Context, array: Any, axis: Any, shape: Any, order: Any = "C") -> Any:
    source = check.array(ctx, array)
    dims = tile_shape(ctx, shape, source.ndim)
    position = check.axis(ctx, axis, source.ndim)
    walked = check.order(ctx, order, source.ndim)[position]
    known = source.shape[walked]
    if isinstance(known, int):
        return -(-known // dims[position])
    return _tiles_along(ctx, source, walked, dims[position])


def _view_num_tiles(ctx: Context, view: Any, axis: Any) -> Any:
    found, _ = _view(ctx, view)
    position = check.axis(ctx, axis, found.array.ndim)
    known = found.array.shape[position]
    if isinstance(known, int):
        return -(-known // found.traversal_steps[position])
    return _tiles_along(ctx, found.array, position, found.traversal_steps[position])


def _slice(ctx: Context, array: Any, axis: Any, start: Any, stop: Any) -> Array:
    source = check.array(ctx, array)
    position = check.axis(ctx, axis, source.ndim)
    first, last = constant_of(start), constant_of(stop)
    for name, known in (("start", first), ("stop", last)):
        if isinstance(known, int) and known < 0:
            check.wrong(ctx, name, f"is {known}; the bounds of a slice count from the start of the axis")
    if first is not None and last is not None and first > last:
        ctx.fail(f"the slice is reversed: start {first} is after stop {last}", argument="stop")
    begin, end = check.scalar_index(ctx, start, "start"), check.scalar_index(ctx, stop, "stop")
    wide = cast(ctx, begin, int64)
    _promise_slice(ctx, source, position, wide, cast(ctx, end, int64))
    stride = cast(ctx, to_tile(ctx, source.strides[position], source.index_dtype).value, int64)
    base = ctx.builder.emit(PtrOffset, source.base, ctx.builder.emit(Mul, wide, stride))
    shape, static = list(source.shape), list(source.static_shape)
    if isinstance(first, int) and isinstance(last, int):
        shape[position], static[position] = last - first, last - first
    else:
        index = source.index_dtype
        shape[position] = Tile(ctx.builder.emit(Sub, cast(ctx, end, index), cast(ctx, begin, index)))
        static[position] = None
    return Array(
        source.dtype,
        base,
        tuple(shape),
        source.strides,
        tuple(static),
        source.static_strides,
        source.index_dtype,
        source.name,
    )


def _promise_slice(ctx: Context, array: Array, axis: int, start: Value, stop: Value) -> None:
    """State what a slice promises: 0 <= start < extent and start <= stop <= extent."""
    b = ctx.builder
    extent = cast(ctx, to_tile(ctx, array.shape[axis], array.index_dtype).value, int64)
    from_zero = b.emit(Cmp, start, constant(ctx, 0, int64), predicate=CmpPredicate.GE)
    begins = b.emit(And, from_zero, b.emit(Cmp, start, extent, predicate=CmpPredicate.LT))
    forward = b.emit(Cmp, start, stop, predicate=CmpPredicate.LE)
    ends = b.emit(And, forward, b.emit(Cmp, stop, extent, predicate=CmpPredicate.LE))
    message = f"the slice from {{}} to {{}} of axis {axis} of '{array.name}', which has {{}} elements"
    holds = b.emit(And, begins, ends)
    b.emit_op(memory.Assume, holds, [start, stop, extent], (), kind="slice-bounds", message=message)


def list_element(t: Any, arrays: ArrayList, index: Any) -> Array:
    """``arrays[index]``: reads a row of the table."""
    ctx: Context = t
    spec: ArraySpec = arrays.element
    position = cast(ctx, check.scalar_index(ctx, index, "index", signed=False), int64)
    length = cast(ctx, arrays.length.value, int64)
    last = ctx.builder.emit(Sub, length, constant(ctx, 1, int64))
    above = ctx.builder.emit(Cmp, position, constant(ctx, 0, int64), predicate=CmpPredicate.GE)
    inside = ctx.builder.emit(And, above, ctx.builder.emit(Cmp, position, length, predicate=CmpPredicate.LT))
    message = f"index {{}} into the list '{arrays.name}'; valid are 0 to {{}}"
    ctx.builder.emit_op(memory.Assume, inside, [position, last], (), kind="out-of-bounds", message=message)
    width = 1 + 2 * spec.ndim
    row = ctx.builder.emit(Mul, position, constant(ctx, width, int64))

    def entry(i: int) -> Value:
        offset = ctx.builder.emit(Add, row, constant(ctx, i, int64)) if i else row
        return ctx.builder.emit(memory.Load, ctx.builder.emit(PtrOffset, arrays.table, offset), None, None)

    address = ctx.builder.emit(IntToPtr, entry(0), dtype=PointerType(spec.dtype))

    def number(extent: Extent) -> Value:
        first = 1 if extent.role == "shape" else 1 + spec.ndim
        value = cast(ctx, entry(first + extent.axis), spec.index_dtype)
        return ctx.builder.emit(memory.AssumeBounded, value, lower=0) if extent.role == "shape" else value

    return array_of(ctx.builder, arrays.name, spec, address, number)


def array_of(builder: Builder, name: str, spec: ArraySpec, base: Value, number: Callable[[Extent], Value]) -> Array:
    """An array over a base pointer, with what is known of it stated; ``number`` gives what is read at run time."""
    base = _known_divisible(builder, base, spec.base_divisible)
    numbers: list[Any] = []
    for extent in spec.extents():
        if extent.known is None:
            numbers.append(Tile(_known_divisible(builder, number(extent), extent.divisor)))
        elif extent.visible:
            numbers.append(extent.known)
        else:
            fits = spec.index_dtype.min <= extent.known <= spec.index_dtype.max
            numbers.append(Tile(builder.constant(extent.known, spec.index_dtype if fits else int64)))
    shape, strides = tuple(numbers[: spec.ndim]), tuple(numbers[spec.ndim :])
    return Array(spec.dtype, base, shape, strides, spec.shape, spec.strides, spec.index_dtype, name)


def _known_divisible(builder: Builder, value: Value, divisor: int) -> Value:
    """``value``, with what divides it stated."""
    return value if divisor == 1 else builder.emit(memory.AssumeDivisible, value, divisor=divisor)


def _from_foreign(ctx: Context, pointer: Any, shape: Any, strides: Any) -> Array:
    base = check.tile(ctx, pointer, "pointer")
    if not base.value.tile.is_pointer or base.ndim:
        check.wrong(ctx, "pointer", f"must be a foreign pointer scalar, not {describe(pointer)}")
    if not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides):
        ctx.fail("'shape' and 'strides' must be tuples of equal length")
    extents = []
    for name, values in (("shape", shape), ("strides", strides)):
        for v in values:
            known = constant_of(v)
            if isinstance(known, int) and known < 0:
                ctx.fail(f"an entry of {name!r} is {known}; it cannot be negative", argument=name)
        extents.append([check.scalar_index(ctx, v, name) for v in values])
    wide = any(v.tile.element.bitwidth == 64 for row in extents for v in row)
    dtype = int64 if wide else int32
    rows = [tuple(Tile(cast(ctx, v, dtype)) for v in row) for row in extents]
    rank = len(shape)
    return Array(base.value.tile.pointee, base.value, rows[0], rows[1], (None,) * rank, (None,) * rank, dtype, "array")


BUILDERS: dict[Any, OpBuilder] = {
    lang.load: _load,
    foreign_pointer_dtype: lambda ctx, pointee_dtype: PointerType(check.dtype(ctx, pointee_dtype, "pointee_dtype")),
    lang.store: _store,
    lang.num_tiles: _num_tiles,
    ArrayStub.tiled_view: _tiled_view,
    ArrayStub.slice: _slice,
    ArrayStub.get_raw_memory: lambda ctx, array: RawMemory(check.array(ctx, array)),
    ArrayStub.from_foreign: _from_foreign,
    ViewStub.load: _view_load,
    ViewStub.store: _view_store,
    ViewStub.num_tiles: _view_num_tiles,
}
