"""Integer arithmetic: division that never traps, shifts of any count, the high half of a product."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.vector.types import F32, F64, I32, Splat
from tilewright.backends.vector.value import Val, where
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode


def divide(a: Val, b: Val, dtype: DType, mode: RoundingMode) -> Val:
    """a / b rounded toward zero, down (RM) or up (RP). Division by zero gives 0; MIN / -1 wraps."""
    quotient = _quotient(a, b, dtype)
    if mode is RoundingMode.RZ:
        return quotient
    rest = a - quotient * b
    return quotient + _adjustment(rest, b, dtype, mode).sext(quotient.scalar) * (1 if mode is RoundingMode.RM else -1)


def remainder(a: Val, b: Val, dtype: DType, mode: RoundingMode) -> Val:
    """a - b * divide(a, b). The remainder by zero is 0."""
    rest = where(b.eq(0), 0, a - _quotient(a, b, dtype) * b)
    if mode is RoundingMode.RZ:
        return rest
    correction = where(_adjustment(rest, b, dtype, mode), b, 0)
    return rest + correction if mode is RoundingMode.RM else rest - correction


def _adjustment(rest: Val, b: Val, dtype: DType, mode: RoundingMode) -> Val:
    """Lanes whose truncated quotient lies on the wrong side, given the remainder ``rest``."""
    inexact = rest.ne(0) & b.ne(0)
    if not dtype.is_signed:
        return inexact & inexact.like(mode is RoundingMode.RP)
    opposite = (rest ^ b) < 0
    return inexact & (opposite if mode is RoundingMode.RM else ~opposite)


def _quotient(a: Val, b: Val, dtype: DType) -> Val:
    """The quotient truncated toward zero, 0 where b is 0."""
    if isinstance(b.value, Splat) and int(b.value.value) not in (0, -1):
        return _hardware_quotient(a, b, dtype)  # LLVM turns this into a multiplication
    if a.at.features.total_division:
        return where(b.eq(0), 0, _hardware_quotient(a, b, dtype))
    special = b.eq(0) | b.eq(-1) if dtype.is_signed else b.eq(0)
    safe = where(special, 1, b)
    if a.at.lanes is None:
        quotient = _hardware_quotient(a, safe, dtype)
    elif a.width == 64:  # one division per lane: long
        quotient = a.at.outlined(f"quotient.{dtype.short}", lambda x, y: _hardware_quotient(x, y, dtype), a, safe)
    else:
        quotient = _float_quotient(a, safe, dtype)
    if dtype.is_signed:
        quotient = where(b.eq(-1), -a, quotient)
    return where(b.eq(0), 0, quotient)


def _hardware_quotient(a: Val, b: Val, dtype: DType) -> Val:
    builder = a.at.builder
    return Val(a.at, (builder.sdiv if dtype.is_signed else builder.udiv)(a.value, b.value))


def _float_quotient(a: Val, b: Val, dtype: DType) -> Val:
    """Division in floats, which vectorizes.

    With n-bit operands a quotient that is no integer lies at least 2**-n, relatively, below the next one, so that
    rounding cannot reach it: float32 is enough for 16 bits and float64 for 32.
    """
    narrow = a.width <= 16
    scalar: ir.Type = F32 if narrow else F64
    if narrow or dtype.is_signed:
        extend = Val.sext if dtype.is_signed else Val.zext
        x, y = (extend(v, I32).to_float(scalar) for v in (a, b))
        return (x / y).to_int(I32).trunc(a.scalar)
    x, y = (v.unsigned_to_float(scalar) for v in (a, b))
    return Val(a.at, a.at.builder.fptoui((x / y).value, a.value.type))


def shift_left(a: Val, b: Val) -> Val:
    """a << b, the count read as unsigned; 0 for counts of the width or more."""
    return where(b.ult(a.width), a << (b & (a.width - 1)), 0)


def shift_right(a: Val, b: Val, dtype: DType) -> Val:
    """a >> b, the count read as unsigned; over-wide counts leave only copies of the sign."""
    if dtype.is_signed:
        return a >> where(b.ult(a.width), b, a.width - 1)
    return where(b.ult(a.width), a.lshr(b & (a.width - 1)), 0)


def multiply_high(a: Val, b: Val) -> Val:
    """The high half of the product of ``a`` and ``b`` read as unsigned integers."""
    if a.width < 64:
        wide = ir.IntType(2 * a.width)
        return (a.zext(wide) * b.zext(wide)).lshr(a.width).trunc(a.scalar)
    mask = (1 << 32) - 1
    a0, a1, b0, b1 = a & mask, a.lshr(32), b & mask, b.lshr(32)
    low, cross = a0 * b0, a1 * b0
    middle = a0 * b1 + low.lshr(32)  # at most (2**32 - 1)**2 + 2**32 - 1: no overflow
    carry = (cross & mask) + (middle & mask)
    return a1 * b1 + cross.lshr(32) + middle.lshr(32) + carry.lshr(32)


def absolute(a: Val, dtype: DType) -> Val:
    """|a|; the most negative integer stays itself."""
    return a.at.intrinsic("abs", a, flags=(False,)) if dtype.is_signed else a
