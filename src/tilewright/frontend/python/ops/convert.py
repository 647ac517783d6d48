"""Numbers and tiles as IR values: materialisation, casts, promotion, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.python.constants import FoldError, fold
from tilewright.frontend.python.context import Context
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.values import Array, Tile
from tilewright.ir import promotion
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, bool_, float64
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.errors import TileValueError
from tilewright.ir.ops.arith import Cast, Cmp
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.semantics import constant_array, evaluate
from tilewright.ir.semantics.conversion import cast as convert
from tilewright.ir.semantics.conversion import to_float64
from tilewright.ir.types import check_tile_shape
from tilewright.language.dtypes import to_dtype

Number = (bool, int, float)


def is_number(value: Any) -> bool:
    """Whether ``value`` is a loosely typed constant."""
    return isinstance(value, Number)


def constant_of(value: Any) -> bool | int | float | None:
    """The number behind a loose or strict constant; None for run-time values."""
    if isinstance(value, Tile):
        return value.constant
    return value if is_number(value) else None


def rounded(number: bool | int | float, dtype: DType) -> bool | int | float:
    """``number`` as ``dtype`` holds it: integers wrap, floats round; as integers, floats lose their fraction and wrap
    (Python API, ``full``), infinities give the nearest limit and NaN 0; a bool says whether it is not zero."""
    if dtype.is_bool:
        return bool(number)
    if dtype.is_floating:
        if dtype.short == "f8e5m3fnu":
            return float(number)
        with np.errstate(all="ignore"):
            return float(constant_array(number, dtype, ())[()])
    if isinstance(number, float):
        number = int(number if math.isfinite(number) else convert(np.float64(number), float64, dtype))
    span = 1 << dtype.bitwidth
    return (int(number) - dtype.min) % span + dtype.min


def constant(ctx: Context, number: bool | int | float, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
    """A tile filled with ``number``, converted to ``dtype`` without range checks."""
    if dtype.is_floating and not dtype.is_signed and math.copysign(1, number) < 0:
        ctx.fail(f"{number!r} cannot be a {dtype}: the format has no sign", TileValueError)
    if dtype.short == "f4e2m1fn" and isinstance(number, float) and math.isnan(number):
        ctx.fail(f"{dtype} has no NaN", TileValueError)
    return ctx.builder.constant(rounded(number, dtype), dtype, shape)


def strict(ctx: Context, number: bool | int | float, dtype: DType) -> Tile:
    """A strictly typed constant."""
    return Tile(constant(ctx, number, dtype), rounded(number, dtype))


def evaluated(ctx: Context, name: str, result: DType, /, *operands: Tile, **attributes: Any) -> Tile | None:
    """The elementwise op ``name``, whose elements are ``result``, where all operands are constants; else None.

    Constants of a dtype mean what the op means for tiles of it: one evaluator serves both.
    """
    if any(o.constant is None for o in operands):
        return None
    if name in ("div", "rem") and operands[0].dtype.is_integer and operands[1].constant == 0:
        ctx.fail(f"{operands[0].constant} divided by the constant 0 has no value", TileValueError)
    arrays = [constant_array(o.constant, o.dtype, ()) for o in operands if o.constant is not None]
    found = evaluate(name, operands[0].dtype, attributes, arrays)
    return strict(ctx, to_float64(found, result).item() if result.is_floating else found.item(), result)


def folded(ctx: Context, function: Callable[..., Any], symbol: str, *values: Any) -> Any:
    """``function``, which the program writes as ``symbol``, on constants, by Python's rules."""
    try:
        return fold(function, *values)
    except FoldError as e:
        operands = [repr(v) for v in values]
        if symbol.replace(".", "").isidentifier():  # a function
            shown = f"{symbol}({', '.join(operands)})"
        else:
            shown = f" {symbol} ".join(operands) if len(values) > 1 else f"{symbol}{operands[0]}"
        ctx.fail(f"{shown} cannot be computed: {e}", e.error)


def strict_constant(ctx: Context, value: np.generic) -> Tile:
    """A NumPy scalar as a strictly typed constant."""
    dtype = to_dtype(value.dtype)
    if dtype is None:
        ctx.fail(f"a NumPy scalar of dtype {value.dtype} cannot be used in tile code")
    number: Any = value.item() if not dtype.is_floating else float(value)
    return strict(ctx, number, dtype)


def cast_call(ctx: Context, dtype: DType, *arguments: Any) -> Tile:
    """``ct.int32(x)``: a strictly typed scalar, which is zero for ``ct.int32()``."""
    if len(arguments) > 1:
        ctx.fail(f"{dtype}() takes one value, {len(arguments)} given")
    if dtype.bitwidth % 8:
        ctx.fail(f"{dtype} cannot be called; use ct.full or astype")
    (value,) = arguments or (0,)
    if isinstance(value, str):
        value = _number_in(ctx, value, dtype)
    if is_number(value):
        return strict(ctx, value, dtype)
    tile = numeric(ctx, value)
    if tile.ndim:
        ctx.fail(f"{dtype}() makes a scalar, not {describe(tile)}; use .astype(ct.{dtype})")
    return converted(ctx, tile, dtype)


def _number_in(ctx: Context, text: str, dtype: DType) -> int | float:
    """The number that ``text`` spells, as Python's own constructors read it: ``"-inf"``, ``"12"``."""
    try:
        return float(text) if dtype.is_float else int(text)
    except ValueError as e:
        ctx.fail(f"{dtype}(): {e}")


def to_tile(ctx: Context, value: Any, dtype: DType | None = None) -> Tile:
    """``value`` as a tile; a constant takes ``dtype``, or else its own. Anything else than tiles and numbers fails."""
    if isinstance(value, Tile):
        return value if dtype is None else converted(ctx, value, dtype)
    if is_number(value):
        return strict(ctx, value, dtype or promotion.loose_dtype(value))
    if isinstance(value, Array):
        ctx.fail(f"{describe(value)} cannot be used as a tile; load one with ct.load({value.name}, ...)")
    ctx.fail(f"expected a tile or a number, got {describe(value)}")


def cast(ctx: Context, value: Value, dtype: DType, rounding: RoundingMode = RoundingMode.RN) -> Value:
    if value.tile.dtype is dtype:
        return value
    return ctx.builder.emit(Cast, value, dtype=dtype, rounding=rounding)


def converted(ctx: Context, tile: Tile, dtype: DType) -> Tile:
    """``tile`` as ``dtype``, rounded to nearest; a constant stays one."""
    if tile.element_type is dtype:
        return tile
    if tile.constant is not None and dtype.is_restricted:
        return strict(ctx, tile.constant, dtype)
    known = evaluated(ctx, "cast", dtype, tile, dtype=dtype, rounding=RoundingMode.RN)
    return known if known is not None else Tile(cast(ctx, tile.value, dtype))


def to_condition(ctx: Context, value: Any) -> bool | Value:
    """A scalar as a condition: a bool when it is a constant, else a bool scalar in the IR."""
    known = constant_of(value)
    if known is not None:
        return bool(known)
    tile = to_tile(ctx, value)
    if tile.ndim:
        ctx.fail(
            f"a condition must be a scalar, but this is {describe(tile)}. To choose element by element write "
            "ct.where(condition, x, y); to test all or any of them, reduce first: ct.min(c.astype(ct.int32)) != 0"
        )
    return as_bool(ctx, tile).value


def as_bool(ctx: Context, tile: Tile) -> Tile:
    """Where a numeric tile is not zero."""
    if tile.value.tile.is_pointer:
        ctx.fail("a pointer cannot be a condition")
    if tile.dtype is bool_:
        return tile
    if tile.constant is not None:
        return strict(ctx, tile.constant != 0, bool_)
    zero = constant(ctx, 0, tile.dtype, tile.shape)
    return Tile(ctx.builder.emit(Cmp, tile.value, zero, predicate=CmpPredicate.NE))


def numeric(ctx: Context, value: Any) -> Tile:
    """A numeric tile; pointers fail."""
    tile = to_tile(ctx, value)
    if tile.value.tile.is_pointer:
        ctx.fail("foreign pointers have no arithmetic")
    return tile


def broadcast(ctx: Context, value: Value, shape: tuple[int, ...]) -> Value:
    """``value`` broadcast to ``shape``, which it fits."""
    have = value.tile.shape
    if have == shape:
        return value
    if len(have) < len(shape):
        have = (1,) * (len(shape) - len(have)) + have
        value = ctx.builder.emit(Reshape, value, shape=have)
    return value if have == shape else ctx.builder.emit(Broadcast, value, shape=shape)


def common_shape(ctx: Context, *tiles: Tile) -> tuple[int, ...]:
    shape: tuple[int, ...] = ()
    for tile in tiles:
        found = promotion.broadcast_shapes(shape, tile.shape)
        if found is None:
            shapes = " and ".join(str(t.shape) for t in tiles)
            ctx.fail(
                f"the shapes {shapes} cannot be broadcast together: from the last axis on, extents must be equal or 1. "
                "Insert axes with x[:, None], or reshape"
            )
        shape = found
    problem = check_tile_shape(shape)
    if problem is not None:
        ctx.fail(f"the result of broadcasting is too large: {problem}")
    return shape


def broadcast_together(ctx: Context, *tiles: Tile) -> list[Tile]:
    shape = common_shape(ctx, *tiles)
    return [t if t.shape == shape else Tile(broadcast(ctx, t.value, shape)) for t in tiles]


def promoted_dtype(ctx: Context, x: Any, y: Any) -> DType:
    """The common dtype of two operands, each a tile or a number."""
    if is_number(x) and is_number(y):
        a, b = promotion.loose_dtype(x), promotion.loose_dtype(y)
        found = promotion.common_dtype(a, b)
        return found if found is not None else (a if a.bitwidth >= b.bitwidth else b)
    if is_number(x) or is_number(y):
        number, typed = (x, y) if is_number(x) else (y, x)
        dtype = numeric(ctx, typed).dtype
        found = promotion.common_with_number(dtype, number)
        if found is None:
            ctx.fail(
                f"the constant {number!r} is out of range for {dtype}; convert the tile with astype", TileValueError
            )
        return found
    a, b = numeric(ctx, x).dtype, numeric(ctx, y).dtype
    found = promotion.common_dtype(a, b)
    if found is None:
        ctx.fail(_no_promotion(a, b))
    return found


def _no_promotion(a: DType, b: DType) -> str:
    if a.is_integer and b.is_integer:
        unsigned = a if not a.is_signed else b
        signed = b if unsigned is a else a
        return (
            f"{a} and {b} have no common dtype: signed and unsigned integers do not mix implicitly. Convert one "
            f"of them, for example .astype(ct.{signed if signed.bitwidth > unsigned.bitwidth else 'int64'})"
        )
    return f"{a} and {b} have no common dtype; convert one of them with astype, for example .astype(ct.float32)"


def promote(ctx: Context, x: Any, y: Any) -> tuple[Tile, Tile]:
    """Two operands with a common dtype and shape."""
    dtype = promoted_dtype(ctx, x, y)
    a, b = broadcast_together(ctx, to_tile(ctx, x, dtype), to_tile(ctx, y, dtype))
    return a, b


def implicit_cast(ctx: Context, value: Any, dtype: DType, what: str) -> Tile:
    """``value`` converted to ``dtype`` as stores, paddings and updates do."""
    if is_number(value):
        if not promotion.number_casts_implicitly(value, dtype):
            loose = promotion.loose_dtype(value)
            if promotion.fits(value, dtype) or not (loose.is_integer and dtype.is_integer):
                ctx.fail(f"{what} is the constant {value!r}, which does not become {dtype} implicitly")
            ctx.fail(f"{what} is the constant {value!r}, which is out of range for {dtype}", TileValueError)
        return Tile(constant(ctx, value, dtype))
    tile = numeric(ctx, value)
    if tile.dtype is dtype:
        return tile
    if not promotion.casts_implicitly(tile.dtype, dtype):
        ctx.fail(
            f"{what} is {tile.dtype}, which does not become {dtype} implicitly; convert it with .astype(ct.{dtype})"
        )
    return converted(ctx, tile, dtype)
