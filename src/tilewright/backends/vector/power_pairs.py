"""pow of float32 in pairs of float32, for processors that look numbers up in tables held by registers.

x**y = 2**(y * log2 x). With x = 2**k * m, m around 1, and r a number of 7 bits near 1 / m from a table, f = m*r - 1 is
exact and below 2**-5, and log2 x = k - log2 r + log2(1 + f). 2**z = 2**(n / 32) * 2**s, the first factor from a table
too, |s| about 2**-6. The sums are pairs (rounded value, error), so that only the last addition rounds at the precision
of the result: the logarithm has a relative error of about 2**-37, and the power one of 0.52 ulp.
"""

from __future__ import annotations

import math
import struct

from tilewright.backends.vector.exact import fast_two_sum, two_product
from tilewright.backends.vector.lookup import INDEX_BITS, SIZE, lookup
from tilewright.backends.vector.types import F32
from tilewright.backends.vector.value import Val, fused, magnitude, polynomial

SMALLEST, LARGEST = 2.0**-126, float.fromhex("0x1.fffffep+127")  # of the bases
LIMIT = 125.5  # of the magnitude of the logarithms

_INTERVAL = 23 - INDEX_BITS  # bits of the mantissa within an interval of m
_ONE = 0x3F800000  # the bits of 1.0
_LEAST = _ONE - (SIZE + 1) * (1 << (_INTERVAL - 1))  # of the least m: 1 lies in the middle of an interval
_MAGIC = 1.5 * 2.0 ** (23 - INDEX_BITS)  # adding it rounds to a multiple of 1 / SIZE, found in the low bits
_LOG2_E, _LOG2_E_LOW = float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0cp-26")
# (log2(1 + f) - f * log2(e) + f**2 / 2 * log2(e)) / f**3 and (2**s - 1) / s, minimax
_LOG_TAIL = (0.48089835047721863, -0.3606737554073334, 0.2886461913585663, -0.2405429482460022)
_EXP2 = (0.6931471824645996, 0.24022650718688965, 0.055505044758319855, 0.009618237614631653)


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _reciprocal(interval: int) -> float:
    """A multiple of 1/64 near the reciprocal of the middle of an interval of m."""
    bits = _LEAST + interval * (1 << _INTERVAL) + (1 << (_INTERVAL - 1))
    (middle,) = struct.unpack("f", struct.pack("I", bits))
    return round(64 / middle) / 64


_RECIPROCALS = tuple(_reciprocal(i) for i in range(SIZE))
# In units of 2**-16, so that the sum with the exponent of x is exact, and what that leaves.
_LOGS = tuple(round(-math.log2(r) * 2**16) / 2**16 for r in _RECIPROCALS)
_LOGS_LOW = tuple(-math.log2(r) - high for r, high in zip(_RECIPROCALS, _LOGS))
_ROOTS = tuple(_float32(2.0 ** (i / SIZE)) for i in range(SIZE))
_ROOTS_LOW = tuple(2.0 ** (i / SIZE) - high for i, high in enumerate(_ROOTS))


def power_of_plain(x: Val, y: Val) -> tuple[Val, Val]:
    """|x|**y and a mask: it is right in the lanes where the mask holds, those of ordinary operands and results."""
    size = magnitude(x)
    high, low = _log2(size)
    z, z_low = two_product(y, high)
    plain = (size >= SMALLEST) & (size <= LARGEST) & (magnitude(z) < LIMIT)
    return _exp2(z, fused(y, low, z_low)), plain


def _log2(x: Val) -> tuple[Val, Val]:
    """log2 of a positive normal number as a sum."""
    offset = x.bits() - _LEAST
    m = (x.bits() - (offset & (-1 << 23))).as_float()
    index = offset >> _INTERVAL
    f = fused(m, lookup(index, _RECIPROCALS), -1.0)
    start = (offset >> 23).to_float(F32) + lookup(index, _LOGS)
    linear = f * _LOG2_E
    linear_low = fused(f, _LOG2_E_LOW, fused(f, _LOG2_E, -linear))
    half = f * -0.5
    square, square_low = two_product(linear, half)
    tail = fused(f * f * f, polynomial(f, _LOG_TAIL), fused(linear_low, half, linear_low + square_low))
    series, rest = fast_two_sum(linear, square)
    total, more = fast_two_sum(start, series)
    return total, ((lookup(index, _LOGS_LOW) + rest) + more) + tail


def _exp2(z: Val, low: Val) -> Val:
    """2**(z + low) for a normal result."""
    shifted = z + _MAGIC
    s = (z - (shifted - _MAGIC)) + low
    index = shifted.bits()
    root = lookup(index, _ROOTS)
    power = root + fused(root, s * polynomial(s, _EXP2), lookup(index, _ROOTS_LOW))
    exponent = (index - z.like(_MAGIC).bits()) >> INDEX_BITS
    return (power.bits() + (exponent << 23)).as_float()
