"""pow and rsqrt."""

from __future__ import annotations

import math

from tilewright.backends.vector import lookup, power_pairs
from tilewright.backends.vector.exact import two_product
from tilewright.backends.vector.exponential import EXP_SHORT, clamp, exp, exp_of_sum
from tilewright.backends.vector.logarithm import LOG_SHORT, double_log, log_of_positive
from tilewright.backends.vector.types import F32
from tilewright.backends.vector.value import Val, magnitude, where

_EXPONENT_LIMIT = 2.0**70  # a larger exponent gives 0, 1 or infinity, just as this one does
_RESULT_LIMIT = 800.0  # beyond the logarithms of all float64 numbers


def power(x: Val, y: Val) -> Val:
    """x**y with the special cases of C's pow."""
    if x.scalar == F32:
        if x.at.features.wide:
            return x.at.in_vectors(lookup.LANES, _power_in_pairs, x, y)
        return _with_special_cases(x, y, _power_in_float64(x, y))
    exponent = clamp(y, -_EXPONENT_LIMIT, _EXPONENT_LIMIT)
    high, low = double_log(magnitude(x))
    product, rest = two_product(high, exponent)
    bounded = clamp(product, -_RESULT_LIMIT, _RESULT_LIMIT)
    rest = where(bounded.eq(product), rest + low * exponent, 0.0)
    return _with_special_cases(x, y, exp_of_sum(bounded, rest))


def _power_in_pairs(x: Val, y: Val) -> Val:
    """By ``power_pairs`` where that serves all lanes."""
    regular, plain = power_pairs.power_of_plain(x, y)
    return x.at.unless_any(
        ~(plain & (x > 0)),
        regular,
        lambda: x.at.outlined("math.pow.uncommon", _uncommon, x, y, regular, plain, cold=True),
    )


def _uncommon(x: Val, y: Val, regular: Val, plain: Val) -> Val:
    """x**y given |x|**y for the lanes that are ``plain``."""
    special = x.eq(0.0) | magnitude(x).eq(math.inf) | x.is_nan() | y.is_nan()
    regular = x.at.unless_any(~(plain | special), regular, lambda: where(plain, regular, _power_in_float64(x, y)))
    return _with_special_cases(x, y, regular)


def _power_in_float64(x: Val, y: Val) -> Val:
    """|x|**y of float32 for finite x other than 0."""
    exponent = clamp(y, -_EXPONENT_LIMIT, _EXPONENT_LIMIT).to_f64()
    logarithm = log_of_positive(magnitude(x).to_f64(), LOG_SHORT)
    return exp(exponent * logarithm, terms=EXP_SHORT).to_f32()


def _with_special_cases(x: Val, y: Val, regular: Val) -> Val:
    """x**y given |x|**y, which is right for finite x other than 0."""
    size = magnitude(x)
    grows = y > 0
    result = where(size.eq(0.0), where(grows, x.like(0.0), math.inf), regular)
    result = where(size.eq(math.inf), where(grows, x.like(math.inf), 0.0), result)
    floor = y.at.intrinsic("floor", y)
    half = y * 0.5
    odd = floor.eq(y) & half.ne(half.at.intrinsic("floor", half))
    result = where((x.bits() < 0) & odd, -result, result)
    undefined = (x < 0) & (size < math.inf) & floor.ne(y)
    result = where(undefined | x.is_nan() | y.is_nan(), math.nan, result)
    return where(x.eq(1.0) | y.eq(0.0), 1.0, result)
