"""Arithmetic on integers and floats: every rounding mode, with or without flushing of subnormal numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.backends.vector import integer
from tilewright.backends.vector.convert import round_to_dtype
from tilewright.backends.vector.directed import round_directed
from tilewright.backends.vector.exact import fused_narrow, scale, split_exponent
from tilewright.backends.vector.request import ElementOp
from tilewright.backends.vector.types import F64
from tilewright.backends.vector.value import Val, fused, larger, magnitude, square_root, where, with_sign
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

_STEP = 50  # bits of the quotient that one round of the long division delivers


def float_remainder(x: Val, y: Val, dtype: DType, mode: RoundingMode) -> Val:
    """x - y * q with q = x / y rounded to an integer toward zero (C), down (Python's %) or up (RP).

    NaN when x is infinite or y zero. The last step of RM and RP, an addition of y, is rounded. A zero has the
    sign of x for RZ, of y for RM, of -y for RP.
    """
    rest = x.at.outlined("fmod", _truncated, x.to_f64(), y.to_f64())
    rest = rest if x.scalar == F64 else rest.to_f32()
    if mode is RoundingMode.RZ:
        return rest
    toward = y if mode is RoundingMode.RM else -y
    other_side = rest.ne(0.0) & ((rest.bits() ^ toward.bits()) < 0)
    moved = where(other_side, rest + toward, rest)
    result = where(rest.eq(0.0), with_sign(rest.like(0.0), toward), moved)
    return round_to_dtype(result, dtype) if dtype.bitwidth == 16 else result


def _truncated(x: Val, y: Val) -> Val:
    at = x.at
    if not at.features.fma:
        return Val(at, at.builder.frem(x.value, y.value))
    divisor = magnitude(y)
    fraction, exponent = split_exponent(divisor)
    valid = (magnitude(x) < math.inf) & (divisor > 0.0)

    def unfinished(rest: Val) -> Val:
        return valid & (rest >= divisor)

    def subtract(rest: Val) -> Val:
        # The quotient by divisor * 2**k has few enough bits to be exact, or too large by 1, and so has the rest.
        _, top = split_exponent(rest)
        multiple = scale(fraction, larger(top - _STEP, exponent))
        quotient = at.intrinsic("trunc", rest / multiple)
        less = fused(-quotient, multiple, rest)
        less = where(less < 0, less + multiple, less)
        return where(unfinished(rest), less, rest)

    rest = at.repeat_while_any(magnitude(x), unfinished, subtract)
    return where(valid & ~y.is_nan(), with_sign(rest, x), math.nan)


_SMALLEST_NORMAL_F32 = 2.0**-126
_DIRECTED = (RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP)

_NEAREST: dict[str, Callable[..., Val]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sqrt": square_root,
    "fma": fused,
}


def flush(x: Val) -> Val:
    """float32 with subnormal numbers replaced by zeros of the same sign."""
    return where(magnitude(x) < _SMALLEST_NORMAL_F32, with_sign(x.like(0.0), x), x)


def flushed(formula: Callable[..., Val], op: ElementOp, *operands: Val) -> Val:
    """``formula`` applied to the operands, with operands and result flushed where the op says so."""
    if not op.flush_to_zero:
        return formula(*operands)
    return flush(formula(*map(flush, operands)))


def arithmetic(op: ElementOp, *operands: Val) -> Val:
    """add, sub, mul and sqrt, and div and fma where these are instructions."""
    dtype = op.dtype
    if not dtype.is_floating:
        return _NEAREST[op.name](*operands)
    if op.rounding in _DIRECTED:
        return flushed(lambda *xs: round_directed(op.name, dtype, op.rounding, *xs), op, *operands)
    result = flushed(_NEAREST[op.name], op, *operands)
    return round_to_dtype(result, dtype) if dtype.bitwidth == 16 else result


def divide(op: ElementOp, a: Val, b: Val) -> Val:
    return arithmetic(op, a, b) if op.dtype.is_floating else integer.divide(a, b, op.dtype, op.rounding)


def multiply_add(op: ElementOp, a: Val, b: Val, c: Val) -> Val:
    dtype, fma = op.dtype, a.at.features.fma
    if op.rounding in _DIRECTED or not (dtype.bitwidth == 16 or (dtype.bitwidth == 32 and not fma)):
        return arithmetic(op, a, b, c)
    return flushed(lambda *xs: fused_narrow(dtype, RoundingMode.RN, *xs), op, a, b, c)


def remainder(op: ElementOp, a: Val, b: Val) -> Val:
    if op.dtype.is_floating:
        return float_remainder(a, b, op.dtype, op.rounding)
    return integer.remainder(a, b, op.dtype, op.rounding)


def absolute(op: ElementOp, x: Val) -> Val:
    return magnitude(x) if op.dtype.is_floating else integer.absolute(x, op.dtype)
