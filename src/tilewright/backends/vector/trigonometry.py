"""sin, cos, tan and atan2.

An angle is reduced to r in [-pi/4, pi/4] and a quadrant. Up to ``_LIMIT`` multiples of pi/2 are subtracted in parts
(Cody and Waite); the rare larger angles go, lane by lane, through a product with enough bits of 2/pi (Payne and
Hanek). Coefficients are minimax polynomials, as in ``exponential``.
"""

from __future__ import annotations

import math

from llvmlite import ir

from tilewright.backends.vector.exact import fast_two_sum, scale, two_product, two_sum
from tilewright.backends.vector.exponential import nearest_integer
from tilewright.backends.vector.types import F32, F64, I32, I64
from tilewright.backends.vector.value import Val, fused, larger, magnitude, mul_add, polynomial, where, with_sign

_TWO_OVER_PI = 2 / math.pi
# pi/2 in parts: three of 24 bits; three of 33 bits and the rest, whose products with 20-bit integers are exact.
_HALF_PI_F32 = tuple(map(float.fromhex, ("0x1.921fb6p+0", "-0x1.777a5cp-25", "-0x1.ee59dap-50")))
_HALF_PI = tuple(
    map(
        float.fromhex,
        ("0x1.921fb54400000p+0", "0x1.0b4611a600000p-34", "0x1.3198a2e000000p-69", "0x1.b839a252049c1p-104"),
    )
)
_HALF_PI_HIGH, _HALF_PI_LOW = float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54")
# pi/4 with a first part of 50 bits, so that small multiples are exact
_EIGHTH_HIGH = float.fromhex("0x1.921fb54442d10p-1")
_EIGHTH_LOW = float.fromhex("0x1.08d313198a2e0p-50")
_LIMIT_F32, _LIMIT = 2.0**16, 2.0**20

# (sin(r) / r - 1) / z and (cos(r) - 1 + z/2) / z**2 in z = r**2
_SIN_F32 = (-0.16666654, 0.008332137, -0.0001951202)
_COS_F32 = (0.041666646, -0.0013887284, 2.4429442e-05)
_SIN = (
    -0.16666666666666666,
    0.008333333333333321,
    -0.00019841269841254028,
    2.7557319213660633e-06,
    -2.5052104775408243e-08,
    1.6058349460751333e-10,
    -7.577854057366091e-13,
)
_COS = (
    0.041666666666666664,
    -0.0013888888888888872,
    2.4801587301569687e-05,
    -2.7557319214629917e-07,
    2.0876754204234853e-09,
    -1.147027548199834e-11,
    4.73732989861188e-14,
)
# (atan(t) / t - 1) / z in z = t**2, for |t| <= tan(pi/8)
_ATAN = (
    -0.33333333333333326,
    0.19999999999997603,
    -0.1428571428538002,
    0.11111111087698237,
    -0.09090908127817554,
    0.07692282392764792,
    -0.06666221512358388,
    0.05876971827003388,
    -0.05218090759846078,
    0.04502303622181831,
    -0.03344607335214158,
    0.015166896912185231,
)
# 2/pi = 0.words in base 2**64, after one word of zeros
_TWO_OVER_PI_WORDS = (
    0,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)


def circular_fast_path(name: str, x: Val) -> tuple[Val, Val]:
    """``circular``, and whether the angle is too large for that."""
    size = magnitude(x)
    if x.scalar == F32:
        found, limit = _evaluate_f32(name, *_reduce_f32(x)), _LIMIT_F32
    else:
        found, limit = _evaluate(name, *_reduce(x)), _LIMIT
    return found if name == "cos" else where(x.eq(0.0), x, found), size > limit  # the sign of zero


def circular(name: str, x: Val) -> Val:
    """``sin``, ``cos`` or, in float64 only, ``tan``. Splits the block: for outlined bodies."""
    at = x.at
    common, large = circular_fast_path(name, x)

    def one_lane(lane: Val) -> Val:
        return lane.at.outlined(f"{name}.large", lambda a: _large(name, a), lane, cold=True)

    return at.unless_any(large, common, lambda: where(large, at.lane_by_lane(one_lane, x), common))


def _reduce_f32(x: Val) -> tuple[Val, Val]:
    """r and the quadrant for float32 up to ``_LIMIT_F32``."""
    if x.at.features.fma:
        n, quadrant = nearest_integer(x, _TWO_OVER_PI, 1.5 * 2**23)
        r = x
        for part in _HALF_PI_F32:
            r = fused(n, -part, r)
        return r, quadrant
    r, _, quadrant = _reduce(x.to_f64())
    return r.to_f32(), quadrant.trunc(I32)


def _reduce(x: Val) -> tuple[Val, Val, Val]:
    """r, what r lacks of the exact remainder, and the quadrant for float64 up to ``_LIMIT``."""
    n, quadrant = nearest_integer(x, _TWO_OVER_PI, 1.5 * 2**52)
    r, error1 = two_sum(x - n * _HALF_PI[0], n * -_HALF_PI[1])
    r, error2 = two_sum(r, n * -_HALF_PI[2])
    r, low = fast_two_sum(r, (error1 + error2) - n * _HALF_PI[3])
    return r, low, quadrant


def _evaluate_f32(name: str, r: Val, quadrant: Val) -> Val:
    z = r * r
    sine = mul_add(r * z, polynomial(z, _SIN_F32), r)
    cosine = mul_add(z, mul_add(z, polynomial(z, _COS_F32), -0.5), 1.0)
    return _by_quadrant(name, sine, cosine, quadrant)


def _evaluate(name: str, r: Val, low: Val, quadrant: Val) -> Val:
    z = r * r
    half = z * 0.5
    rest = 1.0 - half
    sine = r + mul_add(r * z, polynomial(z, _SIN), low * rest)
    cosine = rest + (((1.0 - rest) - half) + mul_add(z * z, polynomial(z, _COS), -(r * low)))
    return _by_quadrant(name, sine, cosine, quadrant)


def _by_quadrant(name: str, sine: Val, cosine: Val, quadrant: Val) -> Val:
    if name == "tan":
        odd = (quadrant & 1).ne(0)
        return where(odd, -cosine, sine) / where(odd, sine, cosine)
    if name == "cos":
        quadrant = quadrant + 1
    value = where((quadrant & 1).ne(0), cosine, sine)
    return (value.bits() ^ ((quadrant & 2) << (value.width - 2))).as_float()


def _large(name: str, x: Val) -> Val:
    """One scalar of any size above 1."""
    wide = x.to_f64()
    result = where(magnitude(wide) < math.inf, _evaluate(name, *_reduce_large(wide)), math.nan)
    return result.to_f32() if x.scalar == F32 else result


def _reduce_large(x: Val) -> tuple[Val, Val, Val]:
    """As ``_reduce``, for one scalar above 1: x * 2/pi modulo 4 to 192 bits.

    x = m * 2**e. Bits of 2/pi that m * 2**e turns into multiples of 4 are left out, and of the rest three words kept:
    float64 numbers come no closer than about 2**-61 to a multiple of pi/2, which leaves more than 60 good bits.
    """
    at, bits = x.at, magnitude(x).bits()
    start = larger((bits >> 52) - (1075 - 62), 0)  # position of the highest bit that matters in the table
    words = [_table_word(start, i) for i in range(4)]
    high, middle, low = (at.intrinsic("fshl", words[i], words[i + 1], start & 63) for i in range(3))
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    i128 = ir.IntType(128)
    product = mantissa.zext(i128) * middle.zext(i128) + (mantissa.zext(i128) * low.zext(i128)).lshr(64)
    top = mantissa * high + product.lshr(64).trunc(I64)
    rest = product.trunc(I64)
    # top:rest is the angle in units of 2**-126 quarter turns; its fraction, taken as signed, is r.
    fraction, below = at.intrinsic("fshl", top, rest, top.like(2)), rest << 2
    negative = fraction < 0
    quadrant = top.lshr(62) + where(negative, top.like(1), 0)
    fraction, below = where(negative, ~fraction, fraction), where(negative, ~below, below)
    zeros = at.intrinsic("ctlz", fraction, flags=(False,))
    fraction, below = at.intrinsic("fshl", fraction, below, zeros), below << (zeros & 63)
    leading = scale(fraction.lshr(11).to_float(F64), -53 - zeros)
    following = scale(at.intrinsic("fshl", fraction, below, top.like(53)).lshr(1).to_float(F64), -116 - zeros)
    r, r_low = two_product(leading, leading.like(_HALF_PI_HIGH))
    r, r_low = fast_two_sum(r, r_low + mul_add(leading, _HALF_PI_LOW, following * _HALF_PI_HIGH))
    flip = negative ^ (x < 0)
    return where(flip, -r, r), where(flip, -r_low, r_low), where(x < 0, -quadrant, quadrant)


def _table_word(start: Val, i: int) -> Val:
    """Word start / 64 + i of the table of 2/pi."""
    builder = start.at.builder
    module, name = builder.module, "tw.two_over_pi"
    table = module.globals.get(name)
    if table is None:
        type_ = ir.ArrayType(I64, len(_TWO_OVER_PI_WORDS))
        table = ir.GlobalVariable(module, type_, name)
        table.initializer = ir.Constant(type_, list(_TWO_OVER_PI_WORDS))
        table.global_constant = True
        table.linkage = "internal"
    index = start.lshr(6) + i
    return Val(start.at, builder.load(builder.gep(table, [ir.Constant(I64, 0), index.value], inbounds=True)))


def atan2(y: Val, x: Val) -> Val:
    """The angle of (x, y), float64, with the special cases of C's atan2."""
    size_x, size_y = magnitude(x), magnitude(y)
    steep = size_y > size_x
    low, high = where(steep, size_x, size_y), where(steep, size_y, size_x)
    both_infinite = low.eq(math.inf)
    low, high = where(both_infinite, 1.0, low), where(both_infinite, 1.0, high)
    factor = where(high > 2.0**700, high.like(2.0**-100), where(low < 2.0**-900, low.like(2.0**200), 1.0))
    t, t_low, reduced = _ratio(low * factor, high * factor)
    t = where(high > 0, t, 0.0)
    t_low = where((high > 0) & (high < math.inf), t_low, 0.0)
    z = t * t
    t_low = mul_add(t * z, polynomial(z, _ATAN), t_low)
    # The angle is eighths * pi/4 + or - atan(t).
    left = x.bits() < 0
    eighths = where(reduced, t.like(1.0), 0.0)
    eighths = where(steep, 2.0 - eighths, eighths)
    eighths = where(left, 4.0 - eighths, eighths)
    flip = steep ^ left
    angle, rest = two_sum(eighths * _EIGHTH_HIGH, where(flip, -t, t))
    angle = angle + (rest + mul_add(eighths, _EIGHTH_LOW, where(flip, -t_low, t_low)))
    return with_sign(where(x.is_nan() | y.is_nan(), math.nan, angle), y)


def _ratio(low: Val, high: Val) -> tuple[Val, Val, Val]:
    """t with its error, and whether t = (low - high) / (low + high) replaces low / high to stay below tan(pi/8)."""
    reduced = low > high * math.tan(math.pi / 8)
    numerator, numerator_low = two_sum(low, where(reduced, -high, 0.0))
    divisor, divisor_low = fast_two_sum(high, where(reduced, low, 0.0))
    t = numerator / divisor
    back, back_low = two_product(t, divisor)
    return t, (((numerator - back) - back_low) + (numerator_low - t * divisor_low)) / divisor, reduced
