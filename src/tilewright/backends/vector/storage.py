"""Between the memory representation of an element and its register representation (see ``types``)."""

from __future__ import annotations

import math

from llvmlite import ir

from tilewright.backends.vector.convert import half, round_to_dtype
from tilewright.backends.vector.types import F32, I1, I16, I32, storage_type
from tilewright.backends.vector.value import Val, magnitude, where
from tilewright.ir.dtypes import bfloat16
from tilewright.ir.semantics.rounding import FloatFormat, Overflow, format_of
from tilewright.ir.types import ElementType, PointerType

_SUBNORMAL = 0x20  # a class of numbers, for the instruction that tells classes; the one that rounds takes it as zeros


def to_register(dtype: ElementType, stored: Val) -> Val:
    """The register form of a value as loaded from memory."""
    if isinstance(dtype, PointerType):
        return stored
    if dtype.is_bool:
        return stored.ne(0)
    if not dtype.is_floating or dtype.bytes >= 4:
        return stored
    at, short = stored.at, dtype.short
    if short == "f16" and at.features.half:
        return Val(at, at.builder.fpext(stored.bitcast(ir.HalfType()).value, at.type(F32)))
    bits = stored.zext(I32)
    if short == "bf16":
        return (bits << 16).as_float()
    if short == "f8e8m0fnu":
        special = where(bits.eq(0), bits.like(1 << 22), 0x7FC00000)
        return where((bits.eq(0)) | bits.eq(255), special, bits << 23).as_float()
    return _decode(bits, stored.width, format_of(dtype))


def to_bfloat(x: Val) -> Val | None:
    """float32 rounded to bfloat16, in few instructions; None where the processor lacks these. Splits the block."""
    if not x.at.wide or not x.at.features.bfloat:
        return None
    subnormal = x.at.instruction("avx512.fpclass.ps.512", I1, x, _SUBNORMAL)
    converted = x.at.unless_any(
        subnormal,
        x.at.instruction("avx512bf16.cvtneps2bf16.512", I16, x),
        lambda: round_to_dtype(x, bfloat16).bits().lshr(16).trunc(I16),
    )
    return (converted.zext(I32) << 16).as_float()


def to_storage(dtype: ElementType, x: Val) -> Val:
    """The memory form of a register value."""
    if isinstance(dtype, PointerType):
        return x
    scalar = storage_type(dtype)
    if dtype.is_bool:
        return x.zext(scalar)
    if not dtype.is_floating or dtype.bytes >= 4:
        return x
    if dtype.short == "f16" and x.at.features.half:
        return half(x).bitcast(scalar)
    if dtype.short == "bf16":
        return x.bits().lshr(16).trunc(scalar)
    if dtype.short == "f8e8m0fnu":
        return x.bits().lshr(23).trunc(scalar)
    return _encode(x, scalar.width, format_of(dtype)).trunc(scalar)


def _code_bits(width: int, target: FloatFormat) -> int:
    """Exponent and mantissa bits of one element in ``width`` bits of memory; float4 fills half a byte."""
    if target.overflow is Overflow.SATURATE:
        return 3
    return width - target.signed


def _decode(bits: Val, width: int, source: FloatFormat) -> Val:
    """A format with subnormal numbers: place the fields in a float32 and correct the exponent by a product."""
    field = _code_bits(width, source)
    shift = 23 - source.mantissa
    size = (bits & ((1 << field) - 1)) << shift
    value = (size.as_float() * math.ldexp(1.0, 126 + source.min_exponent)).bits()
    if source.overflow is Overflow.INFINITY:
        value = where(size < (_infinity_code(field, source) << shift), value, size | 0x7F800000)
    elif source.overflow is Overflow.NAN:
        value = where(size.eq(((1 << field) - 1) << shift), 0x7FC00000, value)
    if source.signed:
        value = value | ((bits & (1 << field)) << (31 - field))
    return value.as_float()


def _encode(x: Val, width: int, target: FloatFormat) -> Val:
    """The inverse of ``_decode`` for an ``x`` that is a value of the format."""
    field = _code_bits(width, target)
    size = magnitude(x)
    code = (size * math.ldexp(1.0, -126 - target.min_exponent)).bits() >> (23 - target.mantissa)
    if target.overflow is Overflow.INFINITY:
        infinity = _infinity_code(field, target)
        payload = (x.bits() >> (23 - target.mantissa)) & ((1 << target.mantissa) - 1)
        payload = where(payload.eq(0), 1 << (target.mantissa - 1), payload)
        special = where(x.is_nan(), payload | infinity, code.like(infinity))
        code = where(size <= target.largest, code, special)
    elif target.overflow is Overflow.NAN:
        code = where(x.is_nan(), (1 << field) - 1, code)
    return code | ((x.bits() >> (31 - field)) & (1 << field)) if target.signed else code


def _infinity_code(field: int, target: FloatFormat) -> int:
    return ((1 << (field - target.mantissa)) - 1) << target.mantissa
