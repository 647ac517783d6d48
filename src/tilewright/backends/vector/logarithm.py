"""log and log2, and a float64 logarithm in double-double for pow.

x = 2**k * m with m around 1; a polynomial (minimax, as in ``exponential``) gives the logarithm of m = 1 + f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.backends.vector.exact import Pair, fast_two_sum, two_product, two_sum
from tilewright.backends.vector.types import F32
from tilewright.backends.vector.value import Val, mul_add, polynomial, where

_LN2_HIGH_F32, _LN2_LOW_F32 = float.fromhex("0x1.62ep-1"), float.fromhex("0x1.0bfbe8p-15")
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42fefa4p-1"), float.fromhex("-0x1.8432a1b0e2634p-43")
_LOG2E_HIGH_F32, _LOG2E_LOW_F32 = float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0cp-26")
_LOG2E_HIGH, _LOG2E_LOW = float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56")
_TWO_THIRDS_HIGH, _TWO_THIRDS_LOW = float.fromhex("0x1.5555555555555p-1"), float.fromhex("0x1.5555555555555p-55")

# (log(1 + f) - f + f**2 / 2) / f**3 for |f| <= 1/3
_LOG_F32 = (
    0.33333334,
    -0.2499982,
    0.19999598,
    -0.16679579,
    0.14304438,
    -0.121957764,
    0.107544295,
    -0.1284506,
    0.120064564,
)
# (log2(1 + f) - f * log2(e)) / f**2 for |f| <= 1/3
_LOG2_F32 = (
    -0.7213475,
    0.48089653,
    -0.36066967,
    0.28869405,
    -0.2406748,
    0.20199402,
    -0.17553495,
    0.20204607,
    -0.1868142,
)
# (2 atanh(s) / s - 2) / z in z = s**2, for s = f / (2 + f) and 1 + f between the square roots of 1/2 and 2
_LOG_F64 = (
    0.6666666666666666,
    0.4000000000000719,
    0.2857142856878386,
    0.22222222692104626,
    0.181817720554305,
    0.15387247914971858,
    0.13246590303288613,
    0.1328326323208041,
)
# the same with an error of 2**-43: for results that are rounded to float32
LOG_SHORT = (0.6666666666737543, 0.3999999879688111, 0.28571754629111545, 0.2219139491351568, 0.19362768670426095)
# the first without its first term: (2 atanh(s) / s - 2 - 2z/3) / z**2
_LOG_TAIL = (
    0.4,
    0.2857142857142834,
    0.22222222222301036,
    0.18181818167617592,
    0.15384616900711867,
    0.1333323246387542,
    0.11768928691746947,
    0.10418459231420894,
    0.11045887954457692,
)


def _decompose(x: Val) -> tuple[Val, Val]:
    """k (a float) and m - 1 of a positive x, subnormal numbers included; meaningless for others."""
    single = x.scalar == F32
    mantissa, tiny, boost = (23, 2.0**-126, 24) if single else (52, 2.0**-1022, 54)
    # The least m: 2/3 balances f for the polynomials in f, the root of 1/2 balances s.
    least = x.like(2 / 3 if single else math.sqrt(0.5)).bits()
    subnormal = x < tiny
    offset = where(subnormal, x * 2.0**boost, x).bits() - least
    k = offset >> mantissa
    m = ((offset & ((1 << mantissa) - 1)) + least).as_float()
    return (k - where(subnormal, k.like(boost), 0)).to_float(x.scalar), m - 1.0


def _with_special_values(result: Val, x: Val) -> Val:
    """``result`` for positive finite x; -inf at zero, NaN below, and inf and NaN as themselves."""
    result = where(x > 0, result, where(x.eq(0.0), x.like(-math.inf), math.nan))
    return where(x.eq(math.inf), x, result)


def log(x: Val) -> Val:
    return _with_special_values(log_of_positive(x), x)


def log_of_positive(x: Val, terms: Sequence[float] = _LOG_F64) -> Val:
    """log of a positive finite x; ``terms`` are those of the polynomial for float64."""
    k, f = _decompose(x)
    if x.scalar == F32:
        square = f * f
        tail = square * mul_add(f, polynomial(f, _LOG_F32), -0.5)
        return mul_add(k, _LN2_HIGH_F32, f + mul_add(k, _LN2_LOW_F32, tail))
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    correction = mul_add(s, half_square + z * polynomial(z, terms), k * _LN2_LOW)
    return k * _LN2_HIGH - ((half_square - correction) - f)


def log2(x: Val) -> Val:
    if x.scalar == F32:
        k, f = _decompose(x)
        tail = mul_add(f, _LOG2E_LOW_F32, f * f * polynomial(f, _LOG2_F32))
        return _with_special_values(k + mul_add(f, _LOG2E_HIGH_F32, tail), x)
    k, f = _decompose(x)
    high, low = _double_log1p(f)
    product, rest = two_product(high, x.like(_LOG2E_HIGH))
    rest = rest + mul_add(high, _LOG2E_LOW, low * _LOG2E_HIGH)
    total, more = two_sum(k, product)
    return _with_special_values(total + (more + rest), x)


def double_log(x: Val) -> Pair:
    """log of a positive finite float64 as a sum of two, with a relative error of about 2**-65."""
    k, f = _decompose(x)
    high, low = _double_log1p(f)
    total, rest = two_sum(k * _LN2_HIGH, high)
    return fast_two_sum(total, rest + mul_add(k, _LN2_LOW, low))


def _double_log1p(f: Val) -> Pair:
    """log(1 + f) = 2s + (2/3) s**3 + s**5 T(s**2) with s = f / (2 + f), the first two terms in double-double."""
    divisor, divisor_low = fast_two_sum(f.like(2.0), f)
    s = f / divisor
    back, back_low = two_product(s, divisor)
    s_low = (((f - back) - back_low) - s * divisor_low) / divisor
    z, z_low = two_product(s, s)
    z_low = mul_add(s + s, s_low, z_low)
    u, u_low = two_product(z, f.like(_TWO_THIRDS_HIGH))
    u_low = u_low + mul_add(z, _TWO_THIRDS_LOW, z_low * _TWO_THIRDS_HIGH)
    v, v_low = two_product(u, s)
    v_low = v_low + mul_add(u, s_low, u_low * s)
    tail = z * z * s * polynomial(z, _LOG_TAIL)
    total, rest = fast_two_sum(s + s, v)
    return fast_two_sum(total, rest + ((v_low + (s_low + s_low)) + tail))
