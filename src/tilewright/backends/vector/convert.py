"""Conversions between dtypes, and the rounding of float32 and float64 values to narrower formats."""

from __future__ import annotations

import math

from llvmlite import ir

from tilewright.backends.vector.types import F32, F64, I32, register_type
from tilewright.backends.vector.value import Val, larger, magnitude, smaller, where, with_sign
from tilewright.ir.dtypes import DType, float32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.semantics.rounding import FloatFormat, Overflow, format_of


class _BFloatType(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite does not have."""

    null = "0.0"
    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloatType)

    def __hash__(self) -> int:
        return hash(_BFloatType)


BFLOAT = _BFloatType()
_FLOAT32 = format_of(float32)
RN, RZ, RM, RP, RA = (getattr(RoundingMode, name) for name in ("RN", "RZ", "RM", "RP", "RA"))


def cast(x: Val, source: DType, target: DType, mode: RoundingMode = RN) -> Val:
    """``x`` of dtype ``source`` converted to ``target``; ``mode`` counts between floating-point types only."""
    if source is target:
        return x
    if target.is_bool:
        return x.ne(0)
    if not source.is_floating:
        return int_to_float(x, source, target) if target.is_floating else resize(x, source, target)
    if target.short == "f64":
        return x.to_f64()
    if target.is_floating:
        return x if _contains(target, source) else round_to_dtype(x, target, mode)
    return _lanes_to_int(x, target) if x.at.lanes else _to_int(x, target)


def _to_int(x: Val, target: DType) -> Val:
    name = "fptosi.sat" if target.is_signed else "fptoui.sat"
    return x.at.intrinsic(name, x, result=x.at.type(register_type(target)))


def _lanes_to_int(x: Val, target: DType) -> Val:
    """``_to_int``, which LLVM does lane by lane on x86, as it does conversions to 8 and 16 bits without limits."""
    scalar, narrow = register_type(target), target.bitwidth < 32
    surplus = max(0, target.max.bit_length() - (53 if x.scalar == F64 else 24))
    high = target.max >> surplus << surplus  # the largest float in range
    limited = smaller(larger(where(x.is_nan(), 0.0, x), float(target.min)), float(high))
    convert = limited.to_int if target.is_signed or narrow else limited.to_unsigned
    found = convert(I32 if narrow else scalar)
    if surplus:
        found = where(x > float(high), target.max, found)
    return found.trunc(scalar) if narrow else found


def resize(x: Val, source: DType, target: DType) -> Val:
    """Integer to integer: extends by the sign of the source, or wraps."""
    scalar = register_type(target)
    if target.bitwidth < x.width:
        return x.trunc(scalar)
    return x.sext(scalar) if source.is_signed else x.zext(scalar)


def int_to_float(x: Val, source: DType, target: DType) -> Val:
    """Integer or bool to the nearest floating-point number, with one rounding."""
    if target.short in ("f32", "f64"):
        return _to_float(x, source, register_type(target))
    if x.width <= 16:
        return round_to_dtype(_to_float(x, source, F32), target)
    if x.width == 64:
        x = _jam(x, source)
    return round_to_dtype(_to_float(x, source, F64), target)


def _to_float(x: Val, source: DType, scalar: ir.Type) -> Val:
    return x.to_float(scalar) if source.is_signed else x.unsigned_to_float(scalar)


def _jam(x: Val, source: DType) -> Val:
    """A 64-bit integer rounded to odd at 53 bits: float64 holds it, and it rounds onward as ``x`` itself does."""
    low = (1 << 11) - 1
    odd = where((x & low).ne(0), (x & ~low) | (low + 1), x)
    limit = 1 << 53
    exact = (x + limit).ult(2 * limit) if source.is_signed else x.ult(limit)
    return where(exact, x, odd)


def _contains(target: DType, source: DType) -> bool:
    """Is every value of ``source`` one of ``target``?"""
    t, s = format_of(target), format_of(source)
    return (
        t.mantissa >= s.mantissa
        and t.smallest <= s.smallest
        and t.largest >= s.largest
        and (t.signed or not s.signed)
        and t.overflow is Overflow.INFINITY
    )


def round_to_dtype(x: Val, target: DType, mode: RoundingMode = RN) -> Val:
    """A float32 or float64 value rounded to ``target``, in the register representation of ``target``, a float32."""
    short = target.short
    if short == "f32" and (x.scalar == F32 or mode is RN):
        return x.to_f32()
    if short == "f8e8m0fnu":
        return _round_to_power_of_two(x, mode)
    if x.scalar == F32 and mode is RN:
        if short == "f16" and x.at.features.half:
            return Val(x.at, x.at.builder.fpext(half(x).value, x.at.type(F32)))
        if short == "bf16" and x.at.features.bfloat_rounding:
            narrow = x.at.builder.fptrunc(x.value, x.at.type(BFLOAT))
            return Val(x.at, x.at.builder.fpext(narrow, x.at.type(F32)))
        if short in ("bf16", "tf32"):
            return _round_mantissa(x, 23 - format_of(target).mantissa)
    if format_of(target).min_exponent == -126:
        x = x.to_f64()  # the method below needs room above the exponents of the target
    return round_to_format(x, format_of(target), mode).to_f32()


def half(x: Val) -> Val:
    """float32 to LLVM's half, ties to even: one instruction where ``features.half``."""
    return Val(x.at, x.at.builder.fptrunc(x.value, x.at.type(ir.HalfType())))


def _round_mantissa(x: Val, dropped: int) -> Val:
    """float32 rounded to nearest even with ``dropped`` mantissa bits cleared; the exponent range stays."""
    bits = x.bits()
    bias = (bits.lshr(dropped) & 1) + ((1 << (dropped - 1)) - 1)
    return (where(x.is_nan(), bits | (1 << 22), bits + bias) & -(1 << dropped)).as_float()


def round_to_format(x: Val, target: FloatFormat, mode: RoundingMode) -> Val:
    """``x`` (float32 or float64) rounded to the narrower format ``target``, in the type of ``x``.

    Adding 1.5 * 2**p spacings, p being the mantissa bits of the type, leaves the magnitude a whole number of spacings,
    rounded to nearest even by the addition itself; directed modes then correct that by one spacing.
    """
    wide = 52 if x.scalar == F64 else 23
    size = magnitude(x)
    a = smaller(size, 4 * target.largest)
    infinity = a.like(math.inf).bits()
    power = larger((a.bits() & infinity).as_float(), math.ldexp(1.0, target.min_exponent))
    magic = power * math.ldexp(1.5, wide - target.mantissa)
    t = (a + magic) - magic
    if mode is not RN:
        t = _correct(t, a, power * math.ldexp(1.0, -target.mantissa), x < 0, mode)
    t = where(t > target.largest, _beyond(x, size, target, mode), t)
    t = with_sign(t, x)
    if target.overflow is Overflow.SATURATE:  # there is no NaN
        return where(x.is_nan(), with_sign(x.like(0.0), -x), t)
    if target.signed:
        return where(x.is_nan(), math.nan, t)  # not x: a narrower format may lack the bits that make it a NaN
    return where(x.is_nan() | (x < 0), math.nan, magnitude(t))


def _correct(t: Val, a: Val, spacing: Val, negative: Val, mode: RoundingMode) -> Val:
    """``t``, the multiple of ``spacing`` nearest to ``a``, moved to the neighbour that ``mode`` asks for."""
    if mode is RA:
        return where((a - t).eq(spacing * 0.5), t + spacing, t)
    down = where(t > a, t - spacing, t)
    if mode is RZ:
        return down
    up = where(t < a, t + spacing, t)
    return where(negative, up, down) if mode is RM else where(negative, down, up)


def _beyond(x: Val, size: Val, target: FloatFormat, mode: RoundingMode) -> Val:
    """What a magnitude above the largest finite number becomes."""
    if target.overflow is Overflow.SATURATE:
        return x.like(target.largest)
    limit = math.inf if target.overflow is Overflow.INFINITY else math.nan
    if mode in (RN, RA):
        return x.like(limit)
    infinite = size.eq(math.inf)
    if mode is not RZ:
        infinite = infinite | (x < 0 if mode is RM else x > 0)
    return where(infinite, limit, x.like(target.largest))


def _round_to_power_of_two(x: Val, mode: RoundingMode) -> Val:
    """``x`` rounded to float8_e8m0fnu: a zero to the least power; NaN, infinities and negative numbers to NaN.

    Nearest is what ml_dtypes calls so: by way of float32, a tie going up, and up from anything above 2**-127.
    """
    negative = x < 0
    if x.scalar == F64 and mode is not RN:
        least = 2.0**-127
        x = round_to_format(where((x >= 0) & (x < least), least, x), _FLOAT32, mode)
    x = x.to_f32()
    bits = x.bits()
    tiny = 1 << 22  # the bits of 2**-127, the least power
    bias = {RN: 1 << 22, RZ: 0, RP: (1 << 23) - 1}[mode]
    code = where(bits > tiny, (bits + bias).lshr(23), 0)
    value = where(code.eq(0), tiny, code << 23).as_float()
    invalid = negative | x.is_nan() | (code >= 255) | x.eq(math.inf)
    return where(invalid, math.nan, value)
