"""Reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import (
    broadcast_together,
    constant_of,
    implicit_cast,
    numeric,
    rounded,
    to_tile,
)
from tilewright.frontend.python.ops.elementwise import IEEE, flush, rounding
from tilewright.frontend.python.values import Tile
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.dtypes import DType, int32
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.errors import TileSyntaxError
from tilewright.ir.opdef import OPS, Effect
from tilewright.ir.ops.arith import And, Cmp, Not, Or, Select
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.floats import IsNan
from tilewright.ir.ops.linear import Reduce, Scan, identity_of
from tilewright.ir.ops.shape import Broadcast, Iota, Reshape
from tilewright.ir.types import TileType
from tilewright.language import tiles as lang

Combine = Callable[[list[Value]], list[Value]]  # left and right scalars -> combined scalars, emitted at the builder


def _operand(ctx: Context, x: Any, name: str) -> Tile:
    """bool becomes int32; restricted floats are refused."""
    tile = numeric(ctx, check.tile(ctx, x, "x"))
    if tile.dtype.is_restricted:
        ctx.fail(f"{name}() is not defined for {tile.dtype}; convert with .astype(ct.float32) first")
    return to_tile(ctx, tile, int32) if tile.dtype.is_bool else tile


def _body(ctx: Context, types: Sequence[TileType], combine: Combine) -> Block:
    scalars = tuple(t.with_shape(()) for t in types)
    block = Block(scalars + scalars)
    with ctx.builder.at(block):
        ctx.builder.emit_op(Yield, combine(block.args))
    return block


def _fold(
    ctx: Context,
    cls: type[Op],
    values: list[Value],
    axis: int,
    identities: tuple[Any, ...],
    combine: Combine,
    **attributes: Any,
) -> list[Value]:
    """One ``reduce`` or ``scan``."""
    body = _body(ctx, [v.tile for v in values], combine)
    op = ctx.builder.emit_op(cls, values, axis=axis, identities=identities, body=body, **attributes)
    return list(op.results)


def _axes(ctx: Context, axis: Any, rank: int) -> tuple[int, ...]:
    """The axes to reduce, in increasing order."""
    if axis is None:
        return tuple(range(rank))
    entries = axis if isinstance(axis, tuple) else (axis,)
    found = [check.axis(ctx, a, rank) for a in entries]
    if len(set(found)) != len(found):
        check.wrong(ctx, "axis", f"{axis} names an axis twice")
    return tuple(sorted(found))


def _keep(ctx: Context, value: Value, shape: tuple[int, ...], axes: Sequence[int], keepdims: bool) -> Tile:
    """The reduced value, with axes of length 1 in place of those that disappeared when ``keepdims``."""
    if not keepdims:
        return Tile(value)
    dims = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return Tile(ctx.builder.emit(Reshape, value, shape=dims)) if dims != value.tile.shape else Tile(value)


def _reduce_with(
    ctx: Context, x: Any, axis: Any, keepdims: Any, name: str, shown: str, modes: Callable[[DType], dict[str, Any]]
) -> Tile:
    """A named reduction with the elementwise op ``name``: one ``reduce`` per axis, the innermost first."""
    tile = _operand(ctx, x, shown)
    keep = check.const_bool(ctx, keepdims, "keepdims")
    axes = _axes(ctx, axis, tile.ndim)
    attributes = modes(tile.dtype)
    value = tile.value

    def combine(args: list[Value]) -> list[Value]:
        return [ctx.builder.emit(OPS[name], *args, **attributes)]

    for a in reversed(axes):
        (value,) = _fold(ctx, Reduce, [value], a, (identity_of(OPS[name], tile.dtype),), combine, commutative=True)
    return _keep(ctx, value, tile.shape, axes, keep)


def _sum_like(name: str, shown: str) -> OpBuilder:
    def build(ctx: Context, x: Any, axis: Any = None, *, keepdims: Any, rounding_mode: Any, flush_to_zero: Any) -> Tile:
        def modes(dtype: DType) -> dict[str, Any]:
            mode = rounding(ctx, rounding_mode, dtype, IEEE, RoundingMode.RN)
            return {"rounding": mode, "flush_to_zero": flush(ctx, flush_to_zero, dtype)}

        return _reduce_with(ctx, x, axis, keepdims, name, shown, modes)

    return build


def _extremum(name: str) -> OpBuilder:
    def build(ctx: Context, x: Any, axis: Any = None, *, keepdims: Any, flush_to_zero: Any, propagate_nan: Any) -> Tile:
        def modes(dtype: DType) -> dict[str, Any]:
            propagate = check.const_bool(ctx, propagate_nan, "propagate_nan")
            return {"propagate_nan": propagate, "flush_to_zero": flush(ctx, flush_to_zero, dtype)}

        return _reduce_with(ctx, x, axis, keepdims, name, name, modes)

    return build


def _arg(name: str) -> OpBuilder:
    predicate = CmpPredicate.GT if name == "argmax" else CmpPredicate.LT
    extremum = "max" if name == "argmax" else "min"

    def build(ctx: Context, x: Any, axis: Any = None, *, keepdims: Any, propagate_nan: Any) -> Tile:
        tile = _operand(ctx, x, name)
        keep, propagate = (
            check.const_bool(ctx, keepdims, "keepdims"),
            check.const_bool(ctx, propagate_nan, "propagate_nan"),
        )
        value, shape = tile.value, tile.shape
        if isinstance(axis, tuple):
            ctx.fail(f"{name}() takes one axis or None, not a tuple", argument="axis")
        if axis is None:
            axes = tuple(range(tile.ndim))
            size = value.tile.size
            value = ctx.builder.emit(Reshape, value, shape=(size,))
            position = 0
        else:
            position = check.axis(ctx, axis, tile.ndim)
            axes = (position,)
        dims = value.tile.shape
        index = ctx.builder.emit(Iota, type=TileType(int32, (dims[position],)))
        line = tuple(n if i == position else 1 for i, n in enumerate(dims))
        index = ctx.builder.emit(Broadcast, ctx.builder.emit(Reshape, index, shape=line), shape=dims)

        def combine(args: list[Value]) -> list[Value]:
            left = _left_wins(ctx, args, predicate, propagate)
            return [ctx.builder.emit(Select, left, a, b) for a, b in zip(args[:2], args[2:])]

        identities = (identity_of(OPS[extremum], tile.dtype), 0)
        _, found = _fold(ctx, Reduce, [value, index], position, identities, combine, commutative=True)
        return _keep(ctx, found, shape, axes, keep)

    return build


def _left_wins(ctx: Context, args: list[Value], predicate: CmpPredicate, propagate: bool) -> Value:
    """Whether the left (value, index) pair is the result: the better value, or the smaller index of equals.

    A NaN loses against every number, or wins with ``propagate``.
    """
    b = ctx.builder
    x, i, y, j = args
    first = b.emit(Cmp, i, j, predicate=CmpPredicate.LT)
    better = b.emit(Cmp, x, y, predicate=predicate)
    as_good = b.emit(Cmp, x, y, predicate=CmpPredicate.GE if predicate is CmpPredicate.GT else CmpPredicate.LE)
    if x.tile.element.is_float:
        x_nan, y_nan = b.emit(IsNan, x), b.emit(IsNan, y)
        winner, loser = (x_nan, y_nan) if propagate else (y_nan, x_nan)
        better = b.emit(Or, better, b.emit(And, winner, b.emit(Not, loser)))
        as_good = b.emit(Or, as_good, winner)
    return b.emit(Select, first, as_good, better)


def _cumulative(name: str, shown: str) -> OpBuilder:
    def build(ctx: Context, x: Any, axis: Any = 0, *, reverse: Any, rounding_mode: Any, flush_to_zero: Any) -> Tile:
        tile = _operand(ctx, x, shown)
        position = check.axis(ctx, axis, tile.ndim)
        mode = rounding(ctx, rounding_mode, tile.dtype, IEEE, RoundingMode.RN)
        ftz = flush(ctx, flush_to_zero, tile.dtype)

        def combine(args: list[Value]) -> list[Value]:
            return [ctx.builder.emit(OPS[name], *args, rounding=mode, flush_to_zero=ftz)]

        backwards = check.const_bool(ctx, reverse, "reverse")
        (value,) = _fold(
            ctx, Scan, [tile.value], position, (identity_of(OPS[name], tile.dtype),), combine, reverse=backwards
        )
        return Tile(value)

    return build


# -- with a function of the program


def _tiles(ctx: Context, x: Any) -> tuple[list[Tile], bool]:
    """The operands of a custom reduction, broadcast together, and whether they came as a tuple."""
    many = isinstance(x, tuple)
    values = x if isinstance(x, tuple) else (x,)
    if not values:
        check.wrong(ctx, "x", "is an empty tuple; give at least one tile")
    return broadcast_together(ctx, *(numeric(ctx, check.tile(ctx, v, "x")) for v in values)), many


def _identities(ctx: Context, identity: Any, tiles: list[Tile], many: bool) -> tuple[bool | int | float, ...]:
    entries = identity if isinstance(identity, tuple) else (identity,)
    if len(entries) != len(tiles) or (isinstance(identity, tuple) and not many):
        check.wrong(ctx, "identity", f"needs one constant per tile: {len(tiles)}, not {len(entries)}")
    found = []
    for entry, tile in zip(entries, tiles):
        known = constant_of(entry)
        if known is None:
            check.wrong(ctx, "identity", f"must be a constant, not {describe(entry)}")
        found.append(rounded(known, tile.dtype))
    return tuple(found)


def _custom(ctx: Context, func: Any, tiles: list[Tile], many: bool) -> Combine:
    """``func`` on 0-d tiles, its results cast implicitly to the dtypes of the operands."""

    def combine(args: list[Value]) -> list[Value]:
        block = ctx.builder.block
        result = ctx.call(func, tuple(Tile(a) for a in args), {})
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(tiles) or (isinstance(result, tuple) is not many and len(tiles) > 1):
            check.wrong(ctx, "func", f"must return {len(tiles)} value{'s' * (len(tiles) > 1)}, not {len(results)}")
        values = []
        for value, tile in zip(results, tiles):
            cast = implicit_cast(ctx, value, tile.dtype, "the result of 'func'")
            if cast.ndim:
                check.wrong(ctx, "func", f"must return scalars, not {describe(cast)}")
            values.append(cast.value)
        for op in block.ops:
            if op.regions or op.spec.effect != Effect.NONE:
                ctx.fail(
                    f"'func' contains {_plain_name(op)}, which a combining function cannot have: it is pure "
                    "arithmetic on scalars. Choose between values with ct.where",
                    TileSyntaxError,
                    argument="func",
                )
        return values

    return combine


def _plain_name(op: Op) -> str:
    names = {"if": "a run-time branch", "for": "a loop", "loop": "a loop", "reduce": "a reduction", "scan": "a scan"}
    return names.get(op.name, f"a memory or output operation ({op.name})")


def _reduce(ctx: Context, x: Any, axis: Any, func: Any, identity: Any, *, keepdims: Any) -> Any:
    tiles, many = _tiles(ctx, x)
    shape = tiles[0].shape
    position = check.axis(ctx, axis, len(shape))
    identities = _identities(ctx, identity, tiles, many)
    keep = check.const_bool(ctx, keepdims, "keepdims")
    values = _fold(ctx, Reduce, [t.value for t in tiles], position, identities, _custom(ctx, func, tiles, many))
    results = tuple(_keep(ctx, v, shape, (position,), keep) for v in values)
    return results if many else results[0]


def _scan(ctx: Context, x: Any, axis: Any, func: Any, identity: Any, *, reverse: Any) -> Any:
    tiles, many = _tiles(ctx, x)
    position = check.axis(ctx, axis, len(tiles[0].shape))
    identities = _identities(ctx, identity, tiles, many)
    backwards = check.const_bool(ctx, reverse, "reverse")
    combine = _custom(ctx, func, tiles, many)
    values = _fold(ctx, Scan, [t.value for t in tiles], position, identities, combine, reverse=backwards)
    results = tuple(map(Tile, values))
    return results if many else results[0]


BUILDERS: dict[Any, OpBuilder] = {
    lang.sum: _sum_like("add", "sum"),
    lang.prod: _sum_like("mul", "prod"),
    lang.max: _extremum("max"),
    lang.min: _extremum("min"),
    lang.argmax: _arg("argmax"),
    lang.argmin: _arg("argmin"),
    lang.cumsum: _cumulative("add", "cumsum"),
    lang.cumprod: _cumulative("mul", "cumprod"),
    lang.reduce: _reduce,
    lang.scan: _scan,
}
