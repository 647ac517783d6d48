"""Creating and rearranging tiles."""

from __future__ import annotations

import math
from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import broadcast, cast, constant, constant_of, numeric
from tilewright.frontend.python.values import Tile
from tilewright.ir.dtypes import int32, int64, uint8
from tilewright.ir.ops.arith import Add, Mul
from tilewright.ir.ops.shape import Cat, Extract, Insert, Iota, Pack, Permute, Reshape, Unpack
from tilewright.ir.promotion import broadcast_shapes
from tilewright.ir.types import TileType, check_tile_shape, is_power_of_two
from tilewright.language import tiles as lang
from tilewright.language.array import Tile as TileStub


def _arange(ctx: Context, size: Any, *, dtype: Any, start: Any, step: Any) -> Tile:
    (n,) = check.const_shape(ctx, check.const_int(ctx, size, "size"), "size")
    target = check.dtype(ctx, dtype)
    first, by = constant_of(start), constant_of(step)
    counter = target if target.is_integer else int64 if target.bitwidth == 64 else int32
    iota = ctx.builder.emit(Iota, type=TileType(counter, (n,)))
    result = cast(ctx, iota, target)
    if (first, by) == (0, 1):
        return Tile(result)
    if not target.is_arithmetic or target.is_bool:
        ctx.fail(f"arange with start or step needs an arithmetic dtype, not {target}")
    for name, value in (("step", step), ("start", start)):
        scalar = constant(ctx, known, target) if (known := constant_of(value)) is not None else None
        if scalar is None:
            tile = numeric(ctx, value)
            if tile.ndim:
                check.wrong(ctx, name, f"must be a scalar, not {describe(tile)}")
            scalar = cast(ctx, tile.value, target)
        spread = broadcast(ctx, scalar, (n,))
        result = ctx.builder.emit(Mul if name == "step" else Add, result, spread)
    return Tile(result)


def _full(ctx: Context, shape: Any, fill_value: Any, dtype: Any) -> Tile:
    dims, target = check.const_shape(ctx, shape), check.dtype(ctx, dtype)
    known = constant_of(fill_value)
    if known is not None:
        return Tile(constant(ctx, known, target, dims))
    value = numeric(ctx, fill_value)
    if value.ndim:
        ctx.fail(f"'fill_value' must be a scalar, not {describe(value)}; use ct.broadcast_to")
    return Tile(broadcast(ctx, cast(ctx, value.value, target), dims))


def _filled(number: int) -> OpBuilder:
    return lambda ctx, shape, dtype: _full(ctx, shape, number, dtype)


def _astile(ctx: Context, value: Any, *, dtype: Any) -> Tile:
    target = check.dtype(ctx, dtype)
    shape: list[int] = []
    probe = value
    while isinstance(probe, tuple):
        if not is_power_of_two(len(probe)):
            ctx.fail(f"a tuple of {len(probe)} values cannot become a tile: lengths must be powers of two")
        shape.append(len(probe))
        probe = probe[0]
    leaves = [_leaf(ctx, v, target) for v in _flatten(ctx, value, tuple(shape))]
    while len(leaves) > 1:
        leaves = [
            Tile(ctx.builder.emit(Cat, _as_vector(ctx, a), _as_vector(ctx, b), axis=0))
            for a, b in zip(leaves[::2], leaves[1::2])
        ]
    return Tile(ctx.builder.emit(Reshape, leaves[0].value, shape=tuple(shape)))


def _flatten(ctx: Context, value: Any, shape: tuple[int, ...]) -> list[Any]:
    if not shape:
        if isinstance(value, tuple):
            ctx.fail("a tuple becomes a tile only when it is nested uniformly")
        return [value]
    if not isinstance(value, tuple) or len(value) != shape[0]:
        ctx.fail("a tuple becomes a tile only when it is nested uniformly")
    return [leaf for item in value for leaf in _flatten(ctx, item, shape[1:])]


def _leaf(ctx: Context, value: Any, target: Any) -> Tile:
    known = constant_of(value)
    if known is not None:
        return Tile(constant(ctx, known, target))
    tile = numeric(ctx, value)
    if tile.ndim:
        ctx.fail(f"the items must be scalars, not {describe(tile)}")
    return Tile(cast(ctx, tile.value, target))


def _as_vector(ctx: Context, tile: Tile) -> Any:
    return tile.value if tile.ndim else ctx.builder.emit(Reshape, tile.value, shape=(1,))


def reshape(ctx: Context, x: Any, shape: Any) -> Tile:
    tile = check.tile(ctx, x, "x")
    if not isinstance(shape, tuple):
        check.wrong(ctx, "shape", f"must be a tuple, not {describe(shape)}: write (n,)")
    dims = check.ints(ctx, shape, "shape")
    size = math.prod(tile.shape)
    if dims.count(-1) > 1:
        check.wrong(ctx, "shape", f"{dims} has more than one -1")
    if -1 in dims:
        known = math.prod(n for n in dims if n != -1)
        if known <= 0 or size % known:
            ctx.fail(f"{size} elements do not divide into shape {dims}", argument="shape")
        dims = tuple(size // known if n == -1 else n for n in dims)
    dims = check.const_shape(ctx, dims)
    if math.prod(dims) != size:
        ctx.fail(f"a tile of shape {tile.shape} has {size} elements; shape {dims} needs {math.prod(dims)}")
    return Tile(ctx.builder.emit(Reshape, tile.value, shape=dims))


def _broadcast_to(ctx: Context, x: Any, shape: Any) -> Tile:
    tile = check.tile(ctx, x, "x")
    if not isinstance(shape, tuple):
        check.wrong(ctx, "shape", f"must be a tuple, not {describe(shape)}: write (n,)")
    dims = check.const_shape(ctx, shape)
    if broadcast_shapes(tile.shape, dims) != dims:
        ctx.fail(
            f"a tile of shape {tile.shape} does not broadcast to {dims}; new axes come from x[:, None]",
            argument="shape",
        )
    return Tile(broadcast(ctx, tile.value, dims))


def _expand_dims(ctx: Context, x: Any, axis: Any) -> Tile:
    tile = check.tile(ctx, x, "x")
    position = check.axis(ctx, axis, tile.ndim + 1)
    return reshape(ctx, tile, (*tile.shape[:position], 1, *tile.shape[position:]))


def permute(ctx: Context, x: Any, axes: Any) -> Tile:
    tile = check.tile(ctx, x, "x")
    if not isinstance(axes, tuple):
        check.wrong(ctx, "axes", f"must be a tuple, not {describe(axes)}")
    found = tuple(check.axis(ctx, a, tile.ndim, "axes") for a in axes)
    if sorted(found) != list(range(tile.ndim)):
        check.wrong(ctx, "axes", f"{axes} is no permutation of the {tile.ndim} axes")
    return Tile(ctx.builder.emit(Permute, tile.value, axes=found))


def _transpose(ctx: Context, x: Any, axis0: Any = None, axis1: Any = None) -> Tile:
    tile = check.tile(ctx, x, "x")
    if tile.ndim < 2:
        ctx.fail(f"transpose needs a tile of rank 2 or more, not {describe(tile)}; x[None, :] is a row")
    if axis0 is None and axis1 is None:
        if tile.ndim > 2:
            ctx.fail(f"transpose of a tile of rank {tile.ndim} needs axis0 and axis1")
        axis0, axis1 = 0, 1
    if axis0 is None or axis1 is None:
        ctx.fail("transpose needs both axis0 and axis1, or neither")
    a, b = check.axis(ctx, axis0, tile.ndim, "axis0"), check.axis(ctx, axis1, tile.ndim, "axis1")
    axes = list(range(tile.ndim))
    axes[a], axes[b] = axes[b], axes[a]
    return Tile(ctx.builder.emit(Permute, tile.value, axes=tuple(axes)))


def _cat(ctx: Context, tiles: Any, axis: Any) -> Tile:
    if not isinstance(tiles, tuple) or not 1 <= len(tiles) <= 2:
        given = f"a tuple of {len(tiles)}" if isinstance(tiles, tuple) else describe(tiles)
        check.wrong(ctx, "tiles", f"must be a tuple of one or two tiles, not {given}")
    found = [check.tile(ctx, t, "tiles") for t in tiles]
    position = check.axis(ctx, axis, found[0].ndim)
    if len(found) == 1:
        return found[0]
    a, b = found
    if a.element_type != b.element_type:
        ctx.fail(f"cat needs tiles of one dtype, not {a.element_type} and {b.element_type}")
    rest = [tuple(n for i, n in enumerate(t.shape) if i != position) for t in found]
    if a.ndim != b.ndim or rest[0] != rest[1]:
        ctx.fail(f"tiles of shapes {a.shape} and {b.shape} cannot be joined along axis {position}")
    joined = a.shape[position] + b.shape[position]
    if not is_power_of_two(joined):
        ctx.fail(f"the joined axis would have {joined} elements, which is not a power of two")
    return Tile(ctx.builder.emit(Cat, a.value, b.value, axis=position))


def _grid_index(ctx: Context, index: Any, whole: tuple[int, ...], part: tuple[int, ...]) -> list[Any]:
    """The index of a subtile; constants are checked."""
    if len(part) != len(whole):
        check.wrong(ctx, "shape", f"{part} and the tile of shape {whole} differ in rank")
    for n, m in zip(whole, part):
        if n % m:
            ctx.fail(f"a subtile of shape {part} does not divide a tile of shape {whole}", argument="shape")
    entries = index if isinstance(index, tuple) else (index,)
    found = check.index(ctx, index, len(whole), "the tile")
    for entry, n, m in zip(entries, whole, part):
        known = constant_of(entry)
        if known is not None and not 0 <= known < n // m:
            ctx.fail(
                f"index {known} is out of range: a tile of shape {whole} has {n // m} subtile{'s' * (n // m > 1)} of "
                f"shape {part} along that axis",
                argument="index",
            )
    return [cast(ctx, v, int64) if v.tile.element.bitwidth == 64 else cast(ctx, v, int32) for v in found]


def _extract(ctx: Context, x: Any, index: Any, shape: Any) -> Tile:
    tile = check.tile(ctx, x, "x")
    part = check.const_shape(ctx, shape)
    unit = part or (1,) * tile.ndim  # () asks for one element, as a scalar
    found = Tile(ctx.builder.emit(Extract, tile.value, _grid_index(ctx, index, tile.shape, unit), shape=unit))
    return found if part == unit else reshape(ctx, found, part)


def _insert(ctx: Context, x: Any, index: Any, value: Any) -> Tile:
    tile, part = check.tile(ctx, x, "x"), check.tile(ctx, value, "value")
    if tile.element_type != part.element_type:
        check.wrong(ctx, "value", f"is {part.element_type}, but the tile is {tile.element_type}")
    if not part.ndim and tile.ndim:
        part = reshape(ctx, part, (1,) * tile.ndim)
    return Tile(ctx.builder.emit(Insert, tile.value, part.value, _grid_index(ctx, index, tile.shape, part.shape)))


def _pack(ctx: Context, x: Any) -> Tile:
    tile = numeric(ctx, check.tile(ctx, x, "x"))
    bits = math.prod(tile.shape) * tile.dtype.bitwidth
    if tile.dtype.is_bool or bits % 8:
        ctx.fail(f"{describe(tile)} cannot be packed into bytes")
    return Tile(ctx.builder.emit(Pack, tile.value))


def _unpack(ctx: Context, x: Any, dtype: Any) -> Tile:
    tile, target = numeric(ctx, check.tile(ctx, x, "x")), check.dtype(ctx, dtype)
    if tile.dtype is not uint8 or tile.ndim != 1:
        ctx.fail(f"unpack_from_bytes needs a 1-D uint8 tile, not {describe(tile)}")
    if target.is_bool or tile.shape[0] * 8 % target.bitwidth:
        ctx.fail(f"{tile.shape[0]} bytes cannot be unpacked as {target}")
    return Tile(ctx.builder.emit(Unpack, tile.value, dtype=target))


def _item(ctx: Context, x: Any) -> Tile:
    tile = check.tile(ctx, x, "x")
    if math.prod(tile.shape) != 1:
        ctx.fail(f"item() needs a tile of one element, not {describe(tile)}")
    return Tile(ctx.builder.emit(Reshape, tile.value, shape=())) if tile.ndim else tile


def getitem(ctx: Context, x: Tile, index: Any) -> Tile:
    """``x[...]``: only inserts axes."""
    entries = index if isinstance(index, tuple) else (index,)
    whole = slice(None, None, None)
    supported = all(e is None or e is Ellipsis or (isinstance(e, slice) and e == whole) for e in entries)
    bare = index is None
    if not supported or not (isinstance(index, tuple) or bare) or sum(e is Ellipsis for e in entries) > 1:
        ctx.fail(
            "[] on a tile only inserts axes, as in x[:, None]. To pick a part write ct.extract(x, index, shape); to "
            "read single elements of an array write ct.gather(array, indices)"
        )
    named = sum(isinstance(e, slice) for e in entries)
    if named > x.ndim:
        ctx.fail(f"too many axes: the tile has {x.ndim}, the subscript names {named}")
    rest = x.ndim - named
    dims, axis, expanded = [], 0, False
    for e in (*entries, *((Ellipsis,) if Ellipsis not in entries else ())):
        if e is None:
            dims.append(1)
        elif e is Ellipsis and not expanded:
            dims.extend(x.shape[axis : axis + rest])
            axis, expanded = axis + rest, True
        else:
            dims.append(x.shape[axis])
            axis += 1
    problem = check_tile_shape(tuple(dims))
    assert problem is None
    return Tile(ctx.builder.emit(Reshape, x.value, shape=tuple(dims)))


BUILDERS: dict[Any, OpBuilder] = {
    lang.arange: _arange,
    lang.full: _full,
    lang.ones: _filled(1),
    lang.zeros: _filled(0),
    lang.astile: _astile,
    lang.reshape: reshape,
    lang.broadcast_to: _broadcast_to,
    lang.expand_dims: _expand_dims,
    lang.permute: permute,
    lang.transpose: _transpose,
    lang.cat: _cat,
    lang.extract: _extract,
    lang.insert: _insert,
    lang.pack_to_bytes: _pack,
    lang.unpack_from_bytes: _unpack,
    TileStub.item: _item,
}
