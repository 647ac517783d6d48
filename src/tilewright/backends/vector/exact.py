"""Error-free transformations: the rounding error of a sum or product as a number of its own.

Names follow the literature (Knuth's TwoSum, Dekker's Fast2Sum and product). A pair is (rounded value, error).
"""

from __future__ import annotations

from tilewright.backends.vector.convert import round_to_dtype
from tilewright.backends.vector.value import Val, fused, larger, magnitude, smaller, where
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

Pair = tuple[Val, Val]


def two_sum(a: Val, b: Val) -> Pair:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_two_sum(a: Val, b: Val) -> Pair:
    """``two_sum`` for |a| >= |b|."""
    s = a + b
    return s, b - (s - a)


def two_product(a: Val, b: Val) -> Pair:
    """Exact while neither the error underflows nor a factor exceeds 2**995 (float64)."""
    p = a * b
    if a.at.features.fma:
        return p, fused(a, b, -p)
    (a1, a2), (b1, b2) = _split(a), _split(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _split(x: Val) -> Pair:
    """float64 as two numbers of 26 bits."""
    scaled = x * (2.0**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


def odd_sum(a: Val, b: Val) -> Val:
    """a + b rounded to odd: when inexact, the neighbour with an odd last bit.

    Rounding that once more to at least two bits less, in any mode, gives the rounding of the exact sum.
    """
    s, error = two_sum(a, b)
    bits = s.bits()
    inexact = (error < 0) | (error > 0)  # false for the NaN that an infinite sum leaves here
    toward_zero = (bits ^ error.bits()) < 0
    odd = where(toward_zero, bits - 1, bits + 1)
    return where(inexact & (bits & 1).eq(0), odd, bits).as_float()


def zero_sum_sign(s: Val, a: Val, b: Val) -> Val:
    """The sum ``s`` of a and b as RM delivers it: an exact zero is negative unless both addends are +0."""
    return where(s.eq(0.0), (a.bits() | b.bits()) & (-1 << (s.width - 1)), s.bits()).as_float()


def fused_narrow(dtype: DType, mode: RoundingMode, a: Val, b: Val, c: Val) -> Val:
    """a*b + c with one rounding, for float32 and narrower: the product is exact in a wider type."""
    if dtype.short != "f16":  # whose products float32 holds
        a, b, c = a.to_f64(), b.to_f64(), c.to_f64()
    product, addend = a * b, c
    total = odd_sum(product, addend)
    if mode is RoundingMode.RM:
        total = zero_sum_sign(total, product, addend)
    return round_to_dtype(total, dtype, mode)


def split_exponent(x: Val) -> tuple[Val, Val]:
    """float64 ``x`` as (m, e) with x = m * 2**e and 1 <= |m| < 2; a zero stays, with an e below all others."""
    size = magnitude(x)
    subnormal, zero = size < 2.0**-1022, size.eq(0.0)
    bits = where(subnormal, x * 2.0**54, x).bits()
    exponent = ((bits >> 52) & 0x7FF) - where(subnormal, bits.like(1023 + 54), 1023)
    mantissa = ((bits & -0x7FF0000000000001) | (1023 << 52)).as_float()
    return where(zero, x, mantissa), where(zero, -10000, exponent)


def scale(x: Val, exponent: Val) -> Val:
    """x * 2**exponent (float64) for |exponent| <= 2000, larger ones cut off; exact unless the result is subnormal."""
    exponent = larger(smaller(exponent, 2000), -2000)
    low = exponent >> 1
    return x * power_of_two(low) * power_of_two(exponent - low)


def power_of_two(exponent: Val) -> Val:
    """2.0**exponent for an i64 in the range of normal float64 exponents."""
    return ((exponent + 1023) << 52).as_float()
