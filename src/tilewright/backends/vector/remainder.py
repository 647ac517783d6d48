"""Floating-point remainder, exact for operands of any size."""

from __future__ import annotations

import math

from tilewright.backends.vector.convert import round_to_dtype
from tilewright.backends.vector.exact import scale, split_exponent
from tilewright.backends.vector.types import F64
from tilewright.backends.vector.value import Val, fused, larger, magnitude, where, with_sign
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
