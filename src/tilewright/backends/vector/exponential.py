"""exp, exp2, sinh, cosh and tanh.

exp(x) = 2**n * exp(r) with n = rint(x / ln 2) and |r| <= ln(2) / 2; ln 2 is subtracted in two parts, the first
short enough that its product with n is exact. The coefficients are minimax polynomials for the relative error of
the whole function on that interval (Remez exchange in 400-bit arithmetic, then rounded to the working format).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.backends.vector import lookup, tanh_table
from tilewright.backends.vector.types import F32, I32, I64
from tilewright.backends.vector.value import CURRENT_ROUNDING, Val, magnitude, mul_add, polynomial, where, with_sign
from tilewright.records import NamedTuple


class _Tables(NamedTuple):
    """Constants of one format; the polynomials are (e**r - 1 - r) / r**2 and (2**r - 1) / r."""

    mantissa: int
    magic: float  # adding it rounds to an integer, found in the low bits
    ln2_high: float
    ln2_low: float
    exp: tuple[float, ...]
    exp2: tuple[float, ...]
    exp_range: tuple[float, float]  # beyond it exp is 0 or infinite
    exp2_range: tuple[float, float]
    tanh_limit: float  # from here on tanh is 1


_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_F32 = _Tables(
    mantissa=23,
    magic=1.5 * 2**23,
    ln2_high=float.fromhex("0x1.62ep-1"),
    ln2_low=float.fromhex("0x1.0bfbe8p-15"),
    exp=(0.49999994, 0.1666652, 0.0416684, 0.008368851, 0.0013814333),
    exp2=(0.6931472, 0.24022648, 0.05550332, 0.00961844, 0.0013399132, 0.00015353152),
    exp_range=(-105.0, 89.0),
    exp2_range=(-152.0, 129.0),
    tanh_limit=10.0,
)
_F64 = _Tables(
    mantissa=52,
    magic=1.5 * 2**52,
    ln2_high=float.fromhex("0x1.62e42fefa4p-1"),
    ln2_low=float.fromhex("-0x1.8432a1b0e2634p-43"),
    exp=(
        0.5,
        0.16666666666666682,
        0.04166666666666609,
        0.00833333333331677,
        0.0013888888889117509,
        0.0001984126989704474,
        2.480158692470172e-05,
        2.7557234193674243e-06,
        2.7557582193980245e-07,
        2.511227256716586e-08,
        2.0826877846696534e-09,
    ),
    exp2=(
        0.6931471805599453,
        0.24022650695910072,
        0.05550410866482169,
        0.009618129107628326,
        0.001333355814639212,
        0.00015403530393644956,
        1.5252733854919101e-05,
        1.3215486592507404e-06,
        1.017805167051786e-07,
        7.054975001172314e-09,
        4.4566144390022224e-10,
        2.5625183431577437e-11,
    ),
    exp_range=(-746.0, 710.0),
    exp2_range=(-1077.0, 1025.0),
    tanh_limit=23.0,
)
# e**r with an error of 2**-23, float32
_EXP_APPROX = (1.0, 1.0, 0.4999923, 0.16667116, 0.04189033, 0.008312501)
# (e**r - 1 - r) / r**2 in float64 with an error of 2**-32: for results that are rounded to float32
EXP_SHORT = (
    0.5000000013475551,
    0.16666666681634051,
    0.04166646482796766,
    0.008333310914673446,
    0.0013933660796991896,
    0.00019891002818882262,
)
# (e**r - 1 - r) / r**2 again, for the relative error of e**r - 1, float64
_EXPM1 = (
    0.5,
    0.16666666666666677,
    0.041666666666666505,
    0.008333333333321513,
    0.0013888888888963465,
    0.0001984126988647785,
    2.4801587171108137e-05,
    2.7557243803676594e-06,
    2.755740324514825e-07,
    2.510919528691133e-08,
    2.087533319367178e-09,
)
# sinh(x) / x - 1, divided by x**2, in x**2, for |x| <= 1 in float64
_SINH = (
    0.16666666666666669,
    0.008333333333333146,
    0.00019841269841432686,
    2.7557319156803504e-06,
    2.5052123181115114e-08,
    1.6057256186497353e-10,
    7.758861042008396e-13,
)
# tanh(x) / x - 1, divided by x**2, in x**2, for |x| < _TANH_SMALL in float32
_TANH_SMALL = 0.625
_TANH_F32 = (-0.3333328, 0.13331428, -0.053738512, 0.020634979, -0.005700212)


def _tables(x: Val) -> _Tables:
    return _F32 if x.scalar == F32 else _F64


def clamp(x: Val, low: float, high: float) -> Val:
    """``x`` limited to [low, high]; NaN stays."""
    x = where(x > high, high, x)
    return where(x < low, low, x)


def nearest_integer(x: Val, factor: float, magic: float) -> tuple[Val, Val]:
    """An integer nearest to x * factor (or next to that, near ties), as a float and as an integer."""
    shifted = x + magic if factor == 1.0 else mul_add(x, factor, magic)
    return shifted - magic, shifted.bits() - x.like(magic).bits()


def _power_of_two(exponent: Val, t: _Tables) -> Val:
    scalar = I32 if t.mantissa == 23 else I64
    bias = (1 << (exponent.width - 2 - t.mantissa)) - 1
    return ((exponent + exponent.at.const(scalar, bias)) << t.mantissa).as_float()


def _limited(x: Val, low: float, high: float) -> tuple[Val, Val | None]:
    """``x`` limited to [low, high], NaN stays; or what is not above ``high``, and a mask of what is not below ``low``.

    The mask is for an instruction that takes Intel's processors many times as long where its result is subnormal or
    underflows (benchmarks/results/cpu_notes.md), as it would at ``low``: attention masks its scores by -inf.
    """
    if x.at.wide and x.scalar == F32:
        return where(x > high, high, x), ~(x < low)
    return clamp(x, low, high), None


def _scale(x: Val, n: Val, exponent: Val, t: _Tables, mask: Val | None = None) -> Val:
    """x * 2**n, rounded once where the result is subnormal, and infinite where it is too large; ``exponent`` is n.

    0 where there is a ``mask`` that does not hold.
    """
    if x.at.wide and x.scalar == F32:
        lanes = x.at.full_mask() if mask is None else x.at.mask_operand(mask)
        return x.at.instruction("avx512.mask.scalef.ps.512", F32, x, n, x.like(0.0), lanes, CURRENT_ROUNDING)
    if x.at.features.scale:
        return x.at.intrinsic("ldexp", x, exponent.trunc(I32), overloads=2)
    half = exponent >> 1  # the first of two products stays in the normal range
    return x * _power_of_two(half, t) * _power_of_two(exponent - half, t)


def _reduce(x: Val, t: _Tables) -> tuple[Val, Val, Val]:
    """r and the integer n, as a float and as an integer, with x = n * ln 2 + r."""
    n, exponent = nearest_integer(x, _LOG2_E, t.magic)
    r = mul_add(n, -t.ln2_high, x)
    return mul_add(n, -t.ln2_low, r), n, exponent


def exp(x: Val, halvings: int = 0, terms: Sequence[float] | None = None) -> Val:
    """e**x / 2**halvings; ``terms`` replace those of the polynomial."""
    t = _tables(x)
    low, high = t.exp_range
    y, mask = _limited(x, low, high + halvings)
    r, n, exponent = _reduce(y, t)
    terms = t.exp if terms is None else terms
    if x.scalar == F32 and x.at.features.fma:  # of two instructions less, and nearer
        value = polynomial(r, (1.0, 1.0, *terms))
    else:
        value = mul_add(r * r, polynomial(r, terms), r) + 1.0
    if halvings:
        n, exponent = n - halvings, exponent - halvings
    return _scale(value, n, exponent, t, mask)


def approximate_exp(x: Val) -> Val:
    """e**x within 6 units of the last place of float32: with a shorter polynomial, and ln 2 as one number."""
    t = _F32
    y, mask = _limited(x, *t.exp_range)
    n, exponent = nearest_integer(y, _LOG2_E, t.magic)
    return _scale(polynomial(mul_add(n, -math.log(2), y), _EXP_APPROX), n, exponent, t, mask)


def exp2(x: Val) -> Val:
    t = _tables(x)
    x, mask = _limited(x, *t.exp2_range)
    n, exponent = nearest_integer(x, 1.0, t.magic)
    r = x - n
    return _scale(mul_add(r, polynomial(r, t.exp2), 1.0), n, exponent, t, mask)


def exp_of_sum(high: Val, low: Val) -> Val:
    """e**(high + low) for a ``low`` that is small beside ``high``, float64 within its exponent range."""
    t = _tables(high)
    n, exponent = nearest_integer(high, _LOG2_E, t.magic)
    r = mul_add(n, -t.ln2_high, high)  # exact
    low = mul_add(n, -t.ln2_low, low)
    total = r + low
    rest = low - (total - r)
    value = (mul_add(total * total, polynomial(total, t.exp), rest) + total) + 1.0
    return _scale(value, n, exponent, t)


def tanh(x: Val) -> Val:
    if x.scalar == F32 and x.at.features.wide:
        return x.at.in_vectors(lookup.LANES, tanh_table.tanh, x)
    t = _tables(x)
    size = magnitude(x)
    y = where(size > t.tanh_limit, t.tanh_limit, size)
    r, _, exponent = _reduce(y + y, t)
    power = _power_of_two(exponent, t)
    if x.scalar == F32:
        e = power * (mul_add(r * r, polynomial(r, t.exp), r) + 1.0)
        square = size * size
        small = mul_add(size * square, polynomial(square, _TANH_F32), size)
        return with_sign(where(size < _TANH_SMALL, small, 1.0 - 2.0 / (e + 1.0)), x)
    # m / (m + 2) with m = e**(2|x|) - 1 keeps its relative accuracy near zero.
    m = mul_add(r * r, polynomial(r, _EXPM1), r)
    m = mul_add(power, m, power - 1.0)
    return with_sign(m / (m + 2.0), x)


def cosh(x: Val) -> Val:
    half = exp(magnitude(x), halvings=1)
    return half + 0.25 / half


def sinh(x: Val) -> Val:
    """float64 only: the polynomial for small arguments has its precision."""
    size = magnitude(x)
    half = exp(size, halvings=1)
    square = x * x
    small = mul_add(x * square, polynomial(square, _SINH), x)
    return where(size < 1.0, small, with_sign(half - 0.25 / half, x))
