"""Arithmetic, comparison, bitwise and math operations.

Operations on Python numbers fold by Python's rules. With a strictly typed operand they mean what they mean for tiles,
and the result is a strictly typed constant where all operands are constants.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import (
    as_bool,
    broadcast_together,
    cast,
    converted,
    evaluated,
    folded,
    is_number,
    numeric,
    promote,
    promoted_dtype,
    strict,
    to_tile,
)
from tilewright.frontend.python.values import Tile
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType, bool_, float32, int32
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.errors import TileValueError
from tilewright.ir.opdef import OPS
from tilewright.ir.ops.arith import Select
from tilewright.language import arithmetic as lang
from tilewright.language.array import Tile as TileStub
from tilewright.language.tiles import astype, bitcast

IEEE = (RoundingMode.RN, RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP)
FULL, APPROX = RoundingMode.FULL, RoundingMode.APPROX


def rounding(
    ctx: Context, value: Any, dtype: DType, allowed: tuple[RoundingMode, ...], default: RoundingMode
) -> RoundingMode:
    """The ``rounding_mode`` argument of an operation on ``dtype``."""
    if value is None:
        return default
    mode = check.member(ctx, RoundingMode, value, "rounding_mode")
    if not dtype.is_float:
        check.wrong(ctx, "rounding_mode", f"applies to floating-point operands, not {dtype}")
    if mode in (FULL, APPROX) and dtype is not float32 and mode in allowed:
        ctx.fail(f"rounding mode {mode.name} is for float32 only, not {dtype}", argument="rounding_mode")
    if mode not in allowed:
        choices = ", ".join(m.name for m in allowed)
        ctx.fail(f"rounding mode {mode.name} is not possible here; choose {choices}", argument="rounding_mode")
    return mode


def flush(ctx: Context, value: Any, dtype: DType) -> bool:
    """The ``flush_to_zero`` argument of an operation on ``dtype``."""
    found = check.const_bool(ctx, value, "flush_to_zero")
    if found and dtype is not float32:
        check.wrong(ctx, "flush_to_zero", f"is for float32 only, not {dtype}")
    return found


def _loose(*values: Any) -> bool:
    return all(is_number(v) for v in values)


def _arithmetic_operands(ctx: Context, x: Any, y: Any, symbol: str) -> tuple[Tile, Tile]:
    """Promoted operands of an arithmetic operation: no two bools, no restricted floats."""
    for v in (x, y):
        if not isinstance(v, Tile) and not is_number(v):
            ctx.fail(f"{symbol} needs tiles or numbers, not {describe(v)}")
        if isinstance(v, Tile) and numeric(ctx, v).dtype.is_restricted:
            ctx.fail(f"{v.dtype} has no arithmetic; convert with .astype(ct.float32) first, or use ct.mma")
    a, b = promote(ctx, x, y)
    if a.dtype.is_bool:
        ctx.fail(f"{symbol} is not defined for two bool operands; convert one with .astype(ct.int32)")
    return a, b


_FOLDED = (
    *("add", "sub", "mul", "div", "rem", "neg", "abs", "min", "max", "floor", "ceil", "isnan", "cmp"),
    *("and", "or", "xor", "not", "shl", "shr"),
)


def _emit(ctx: Context, name: str, *operands: Tile, **attributes: Any) -> Tile:
    """An op, or what it gives for constants: of those, transcendental functions are left to the backends."""
    if name in _FOLDED:
        dtype = bool_ if name in ("cmp", "isnan") else operands[0].dtype
        known = evaluated(ctx, name, dtype, *operands, **attributes)
        if known is not None:
            return known
    cls: type[Op] = OPS[name]
    return Tile(ctx.builder.emit(cls, *(o.value for o in operands), **attributes))


def _binary(name: str, symbol: str, function: Callable[..., Any], modes: tuple[RoundingMode, ...] = IEEE) -> OpBuilder:
    def build(ctx: Context, x: Any, y: Any, *, rounding_mode: Any = None, flush_to_zero: Any = False) -> Any:
        if _loose(x, y):
            return folded(ctx, function, name, x, y)
        if name == "div":
            x, y = _dividend(ctx, x, y), _dividend(ctx, y, x)
        a, b = _arithmetic_operands(ctx, x, y, symbol)
        if name == "div" and not a.dtype.is_float:
            a, b = to_tile(ctx, a, float32), to_tile(ctx, b, float32)
        mode = rounding(ctx, rounding_mode, a.dtype, modes, RoundingMode.RN)
        return _emit(ctx, name, a, b, rounding=mode, flush_to_zero=flush(ctx, flush_to_zero, a.dtype))

    return build


def _dividend(ctx: Context, x: Any, other: Any) -> Any:
    """An operand of ``/``: a constant beside integers is a float32, whether or not they could hold it."""
    if type(x) is int and isinstance(other, Tile) and numeric(ctx, other).dtype.is_integer:
        return strict(ctx, x, float32)
    return x


def _floordiv(ctx: Context, x: Any, y: Any) -> Any:
    if _loose(x, y):
        return folded(ctx, operator.floordiv, "floordiv", x, y)
    a, b = _arithmetic_operands(ctx, x, y, "//")
    if a.dtype.is_float:
        return _emit(ctx, "floor", _emit(ctx, "div", a, b))
    return _emit(ctx, "div", a, b, rounding=RoundingMode.RM)


def _mod(ctx: Context, x: Any, y: Any) -> Any:
    if _loose(x, y):
        return folded(ctx, operator.mod, "mod", x, y)
    a, b = _arithmetic_operands(ctx, x, y, "%")
    return _emit(ctx, "rem", a, b, rounding=RoundingMode.RM)


def _divmod(ctx: Context, x: Any, y: Any) -> Any:
    if _loose(x, y):
        return _floordiv(ctx, x, y), _mod(ctx, x, y)
    a, b = _arithmetic_operands(ctx, x, y, "divmod()")
    if a.dtype.is_float and (a.constant is None or b.constant is None):
        ctx.fail("divmod() of tiles is for integers; write x // y and x % y")
    return _floordiv(ctx, a, b), _mod(ctx, a, b)


def _cdiv(ctx: Context, x: Any, y: Any) -> Any:
    if _loose(x, y):
        return folded(ctx, lambda a, b: -(-a // b), "cdiv", x, y)
    a, b = _arithmetic_operands(ctx, x, y, "cdiv()")
    if not a.dtype.is_integer:
        ctx.fail(f"cdiv() is for integers, not {a.dtype}; write ct.ceil(x / y)")
    return _emit(ctx, "div", a, b, rounding=RoundingMode.RP)


def _pow(ctx: Context, x: Any, y: Any) -> Any:
    if _loose(x, y):
        return folded(ctx, operator.pow, "pow", x, y)
    base, exponent = numeric(ctx, x), numeric(ctx, y)
    common = promoted_dtype(ctx, x, y)
    if base.constant is not None and exponent.constant is not None and not common.is_float:
        # Tiles of integers have no powers; constants do.
        return strict(ctx, _integer_power(ctx, int(base.constant), int(exponent.constant), common), common)
    if base.dtype.is_float and not exponent.dtype.is_floating:
        # An integer exponent never widens the base.
        a, b = broadcast_together(ctx, base, to_tile(ctx, exponent, base.dtype))
    else:
        a, b = _arithmetic_operands(ctx, x, y, "**")
    if not a.dtype.is_float:
        ctx.fail(f"** is not defined for {a.dtype}; convert the base with .astype(ct.float32), or multiply")
    return _emit(ctx, "pow", a, b)


def _integer_power(ctx: Context, base: int, exponent: int, dtype: DType) -> int:
    """A power of integers, which wraps; a fraction is truncated."""
    if exponent >= 0:
        return pow(base, exponent, 1 << dtype.bitwidth)
    if base == 0:
        ctx.fail(f"{base} ** {exponent} cannot be computed: zero to a negative power", TileValueError)
    return base ** (exponent & 1) if abs(base) == 1 else 0


def _atan2(ctx: Context, x1: Any, x2: Any) -> Any:
    if _loose(x1, x2):
        return folded(ctx, math.atan2, "atan2", x1, x2)
    a, b = _arithmetic_operands(ctx, x1, x2, "atan2()")
    if not a.dtype.is_float:
        ctx.fail(f"atan2() is for floating-point operands, not {a.dtype}; convert with .astype(ct.float32)")
    return _emit(ctx, "atan2", a, b)


def _extremum(name: str) -> OpBuilder:
    function = getattr(builtins, name)

    def build(ctx: Context, x: Any, y: Any, *, flush_to_zero: Any = False, propagate_nan: Any = False) -> Any:
        propagate = check.const_bool(ctx, propagate_nan, "propagate_nan")
        if _loose(x, y):
            return folded(ctx, lambda a, b: _choose(function, propagate, a, b), name, x, y)
        for v in (x, y):
            if not isinstance(v, Tile) and not is_number(v):
                ctx.fail(f"{name}imum() needs tiles or numbers, not {describe(v)}")
        a, b = promote(ctx, x, y)
        if a.dtype.is_restricted:
            ctx.fail(f"{a.dtype} has no arithmetic; convert with .astype(ct.float32) first")
        return _emit(ctx, name, a, b, propagate_nan=propagate, flush_to_zero=flush(ctx, flush_to_zero, a.dtype))

    return build


def _choose(function: Callable[..., Any], propagate: bool, a: Any, b: Any) -> Any:
    """``min`` or ``max`` of two numbers; a NaN is dropped, or wins with ``propagate``."""
    nans = [n for n in (a, b) if math.isnan(n)]
    numbers = [n for n in (a, b) if not math.isnan(n)]
    return function(a, b) if not nans else nans[0] if propagate or not numbers else numbers[0]


def _comparison(predicate: CmpPredicate, function: Callable[..., Any]) -> OpBuilder:
    def build(ctx: Context, x: Any, y: Any) -> Any:
        if _loose(x, y):
            return folded(ctx, function, predicate.value, x, y)
        for v in (x, y):
            if not isinstance(v, Tile) and not is_number(v):
                ctx.fail(f"cannot compare with {describe(v)}; compare tiles and numbers")
            if isinstance(v, Tile) and v.value.tile.is_pointer:
                ctx.fail("foreign pointers cannot be compared: only ct.Array.from_foreign takes them")
        a, b = promote(ctx, x, y)
        return _emit(ctx, "cmp", a, b, predicate=predicate)

    return build


def _bitwise(name: str, symbol: str, function: Callable[..., Any]) -> OpBuilder:
    def build(ctx: Context, x: Any, y: Any) -> Any:
        if _loose(x, y):
            return folded(ctx, function, symbol, x, y)
        a, b = numeric(ctx, x), numeric(ctx, y)
        if isinstance(x, Tile) and isinstance(y, Tile) and a.dtype is not b.dtype:
            ctx.fail(f"{symbol} needs operands of one dtype, not {a.dtype} and {b.dtype}; convert one with astype")
        p, q = promote(ctx, x, y)
        if not (p.dtype.is_bool or p.dtype.is_integer):
            ctx.fail(f"{symbol} is for bool and integers, not {p.dtype}; bitcast to an integer dtype first")
        return _emit(ctx, name, p, q)

    return build


def _shift(name: str, symbol: str, function: Callable[..., Any]) -> OpBuilder:
    def build(ctx: Context, x: Any, y: Any) -> Any:
        if _loose(x, y):
            return folded(ctx, function, symbol, x, y)
        for v in (x, y):
            if not numeric(ctx, v).dtype.is_integer:
                ctx.fail(f"{symbol} is for integers, not {numeric(ctx, v).dtype}")
        a, b = promote(ctx, x, y)
        return _emit(ctx, name, a, b)

    return build


def _invert(ctx: Context, x: Any) -> Any:
    if _loose(x):
        return folded(ctx, operator.invert, "~", x)
    a = numeric(ctx, x)
    if not (a.dtype.is_bool or a.dtype.is_integer):
        ctx.fail(f"~ is for bool and integers, not {a.dtype}")
    return _emit(ctx, "not", a)


def _bitwise_not(ctx: Context, x: Any) -> Any:
    return not x if isinstance(x, bool) else _invert(ctx, x)  # Python's ~ makes integers of bool


def _signed(ctx: Context, x: Any, symbol: str) -> Tile:
    a = numeric(ctx, x)
    if a.dtype.is_restricted:
        ctx.fail(f"{symbol} is not defined for {a.dtype}; convert with .astype(ct.float32) first")
    return a


def _negative(ctx: Context, x: Any) -> Any:
    if _loose(x):
        return folded(ctx, operator.neg, "-", x)
    a = _signed(ctx, x, "-")
    return _emit(ctx, "neg", to_tile(ctx, a, int32) if a.dtype.is_bool else a)


def _positive(ctx: Context, x: Any) -> Any:
    if _loose(x):
        return folded(ctx, operator.pos, "+", x)
    a = _signed(ctx, x, "+")
    return to_tile(ctx, a, int32) if a.dtype.is_bool else a


def _abs(ctx: Context, x: Any) -> Any:
    if _loose(x):
        return folded(ctx, operator.abs, "abs", x)
    a = _signed(ctx, x, "abs()")
    return a if a.dtype.is_bool or not a.dtype.is_signed else _emit(ctx, "abs", a)


def _float_operand(ctx: Context, x: Any, name: str) -> Tile:
    """bool and integers become float32; floats stay."""
    if not isinstance(x, Tile) and not is_number(x):
        ctx.fail(f"{name}() needs a tile or a number, not {describe(x)}")
    a = numeric(ctx, x)
    if a.dtype.is_restricted:
        ctx.fail(f"{name}() is not defined for {a.dtype}; convert with .astype(ct.float32) first")
    return a if a.dtype.is_float else to_tile(ctx, a, float32)


def _math(name: str) -> OpBuilder:
    return lambda ctx, x: _emit(ctx, name, _float_operand(ctx, x, name))


def _math_rounded(name: str, modes: tuple[RoundingMode, ...]) -> OpBuilder:
    def build(ctx: Context, x: Any, *, rounding_mode: Any = None) -> Tile:
        a = _float_operand(ctx, x, name)
        return _emit(ctx, name, a, rounding=rounding(ctx, rounding_mode, a.dtype, modes, FULL))

    return build


def _math_flushed(name: str) -> OpBuilder:
    def build(ctx: Context, x: Any, *, flush_to_zero: Any = False) -> Tile:
        a = _float_operand(ctx, x, name)
        return _emit(ctx, name, a, flush_to_zero=flush(ctx, flush_to_zero, a.dtype))

    return build


def _sqrt(ctx: Context, x: Any, *, rounding_mode: Any = None, flush_to_zero: Any = False) -> Tile:
    a = _float_operand(ctx, x, "sqrt")
    mode = rounding(ctx, rounding_mode, a.dtype, (*IEEE, APPROX), RoundingMode.RN)
    return _emit(ctx, "sqrt", a, rounding=mode, flush_to_zero=flush(ctx, flush_to_zero, a.dtype))


def _float_only(name: str) -> OpBuilder:
    def build(ctx: Context, x: Any) -> Tile:
        a = numeric(ctx, x)
        if not a.dtype.is_float:
            ctx.fail(f"{name}() is for floating-point tiles, not {a.dtype}")
        return _emit(ctx, name, a)

    return build


def _where(ctx: Context, cond: Any, x: Any, y: Any) -> Tile:
    dtype = None if _same_element(x, y) else _restricted_beside_number(x, y) or promoted_dtype(ctx, x, y)
    condition = as_bool(ctx, numeric(ctx, cond))
    c, a, b = broadcast_together(ctx, condition, to_tile(ctx, x, dtype), to_tile(ctx, y, dtype))
    return Tile(ctx.builder.emit(Select, c.value, a.value, b.value))


def _same_element(x: Any, y: Any) -> bool:
    return isinstance(x, Tile) and isinstance(y, Tile) and x.element_type is y.element_type


def _restricted_beside_number(x: Any, y: Any) -> DType | None:
    """The dtype of a tile that has no arithmetic, which a number beside it takes: nothing is computed with it."""
    tiles = [v for v in (x, y) if isinstance(v, Tile)]
    if len(tiles) != 1 or not all(isinstance(v, Tile) or is_number(v) for v in (x, y)):
        return None
    dtype: DType = tiles[0].dtype
    return dtype if dtype.is_restricted else None


# Which dtypes ``astype`` rounds to in each mode, beyond the default.
_NARROW_SOURCES = ("f16", "bf16", "f8e5m2", "f8e4m3fn", "f4e2m1fn")


def _rounds_to(mode: RoundingMode, source: DType, target: DType) -> bool:
    s, d = source.short, target.short
    if mode is RoundingMode.RN:
        return d != "f8e8m0fnu"
    if mode is RoundingMode.RZ:
        return d in ("f64", "f32", "tf32", "f16", "bf16", "f8e8m0fnu")
    if mode in (RoundingMode.RM, RoundingMode.RP):
        if mode is RoundingMode.RP and d == "f8e8m0fnu":
            return True
        return d == "f64" or (d == "f32" and s != "f8e8m0fnu") or (d == "f16" and s in _NARROW_SOURCES)
    if mode is RoundingMode.RA:
        single = d in ("f32", "tf32") and s not in ("f64", "f8e8m0fnu")
        return d == "f64" or single or (d == "f16" and s in _NARROW_SOURCES)
    return False


def _astype(ctx: Context, x: Any, dtype: Any, *, rounding_mode: Any = None) -> Tile:
    target = check.dtype(ctx, dtype)
    tile = numeric(ctx, x)
    source = tile.dtype
    if rounding_mode is None:
        if target.short == "f8e8m0fnu" and source.is_floating and source is not target:
            ctx.fail("a conversion to float8_e8m0fnu needs rounding_mode=RZ or RP")
        return strict(ctx, x, target) if is_number(x) else converted(ctx, tile, target)
    mode = check.member(ctx, RoundingMode, rounding_mode, "rounding_mode")
    if not (source.is_floating and target.is_floating):
        check.wrong(ctx, "rounding_mode", f"applies to float-to-float conversions, not {source} to {target}")
    if not _rounds_to(mode, source, target):
        ctx.fail(f"rounding mode {mode.name} is not possible from {source} to {target}", argument="rounding_mode")
    return Tile(cast(ctx, tile.value, target, mode))


def _bitcast(ctx: Context, x: Any, dtype: Any) -> Tile:
    target = check.dtype(ctx, dtype)
    tile = numeric(ctx, x)
    if tile.dtype.is_bool or target.is_bool:
        ctx.fail("bool_ has no bit pattern to reinterpret; use astype")
    if tile.dtype.bitwidth != target.bitwidth:
        ctx.fail(f"bitcast needs dtypes of equal width, not {tile.dtype} and {target}; use astype to convert")
    return _emit(ctx, "bitcast", tile, dtype=target)


BUILDERS: dict[Any, OpBuilder] = {
    lang.add: _binary("add", "+", operator.add),
    lang.sub: _binary("sub", "-", operator.sub),
    lang.mul: _binary("mul", "*", operator.mul),
    lang.truediv: _binary("div", "/", operator.truediv, (*IEEE, FULL, APPROX)),
    lang.floordiv: _floordiv,
    lang.mod: _mod,
    lang.pow: _pow,
    lang.divmod: _divmod,
    lang.cdiv: _cdiv,
    lang.minimum: _extremum("min"),
    lang.maximum: _extremum("max"),
    lang.atan2: _atan2,
    lang.greater: _comparison(CmpPredicate.GT, operator.gt),
    lang.greater_equal: _comparison(CmpPredicate.GE, operator.ge),
    lang.less: _comparison(CmpPredicate.LT, operator.lt),
    lang.less_equal: _comparison(CmpPredicate.LE, operator.le),
    lang.equal: _comparison(CmpPredicate.EQ, operator.eq),
    lang.not_equal: _comparison(CmpPredicate.NE, operator.ne),
    lang.bitwise_and: _bitwise("and", "&", operator.and_),
    lang.bitwise_or: _bitwise("or", "|", operator.or_),
    lang.bitwise_xor: _bitwise("xor", "^", operator.xor),
    lang.bitwise_lshift: _shift("shl", "<<", operator.lshift),
    lang.bitwise_rshift: _shift("shr", ">>", operator.rshift),
    lang.bitwise_not: _bitwise_not,
    lang.negative: _negative,
    lang.abs: _abs,
    lang.exp: _math_rounded("exp", (FULL, APPROX)),
    lang.tanh: _math_rounded("tanh", (FULL, APPROX)),
    lang.exp2: _math_flushed("exp2"),
    lang.rsqrt: _math_flushed("rsqrt"),
    lang.sqrt: _sqrt,
    **{getattr(lang, n): _math(n) for n in ("log", "log2", "sin", "cos", "tan", "sinh", "cosh")},
    **{getattr(lang, n): _float_only(n) for n in ("floor", "ceil", "isnan")},
    lang.where: _where,
    astype: _astype,
    TileStub.astype: _astype,  # whose ``dtype`` may be given by keyword
    bitcast: _bitcast,
}

OPERATORS: dict[str, OpBuilder] = {
    **{
        name: BUILDERS[getattr(lang, name)]
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod", "abs")
    },
    **{key: BUILDERS[getattr(lang, f"bitwise_{key.strip('_')}")] for key in ("and_", "or_", "xor", "lshift", "rshift")},
    "lt": BUILDERS[lang.less],
    "le": BUILDERS[lang.less_equal],
    "gt": BUILDERS[lang.greater],
    "ge": BUILDERS[lang.greater_equal],
    "eq": BUILDERS[lang.equal],
    "ne": BUILDERS[lang.not_equal],
    "neg": _negative,
    "pos": _positive,
    "invert": _invert,
    "not_": lambda ctx, x: not x if is_number(x) else _emit(ctx, "not", as_bool(ctx, numeric(ctx, x))),
    "min": BUILDERS[lang.minimum],
    "max": BUILDERS[lang.maximum],
}
