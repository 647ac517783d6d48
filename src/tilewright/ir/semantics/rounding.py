"""Rounding of exact results to a floating-point format, in every mode.

An exact result is ``significand * 2**exponent`` with a sign. When it has more than 62 bits, the lowest bit of the
significand stands for everything below it (a sticky bit): it says "a little more" and never decides a tie.
"""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np

from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode
from tilewright.records import dataclass

Array = np.ndarray[Any, Any]

SIGNIFICAND_BITS = 62


class Overflow(enum.Enum):
    """What rounding to nearest makes of a finite value above the largest finite one."""

    INFINITY = "infinity"
    NAN = "nan"
    SATURATE = "saturate"


@dataclass(frozen=True)
class FloatFormat:
    """A binary format: stored ``mantissa`` bits, least normal exponent, largest finite value."""

    mantissa: int
    min_exponent: int
    largest: float
    overflow: Overflow = Overflow.INFINITY
    signed: bool = True
    has_zero: bool = True

    @property
    def smallest(self) -> float:
        """The least positive value, also the spacing of the subnormal numbers."""
        return math.ldexp(1.0, self.min_exponent - self.mantissa)


# Formats whose codes are not laid out as IEEE 754 does: the largest exponent holds finite values.
_FORMATS = {
    "f8e4m3fn": FloatFormat(3, -6, 448.0, Overflow.NAN),
    "f4e2m1fn": FloatFormat(1, 0, 6.0, Overflow.SATURATE),
    "f8e5m3fnu": FloatFormat(3, -14, 114688.0, Overflow.NAN, signed=False),
    "f8e8m0fnu": FloatFormat(0, -127, 2.0**127, Overflow.NAN, signed=False, has_zero=False),
}


def format_of(dtype: DType) -> FloatFormat:
    """The format of a floating-point dtype."""
    found = _FORMATS.get(dtype.short)
    if found is None:
        max_exponent = (1 << (dtype.exponent_bits - 1)) - 1
        largest = math.ldexp(2.0 - math.ldexp(1.0, -dtype.mantissa_bits), max_exponent)
        found = _FORMATS[dtype.short] = FloatFormat(dtype.mantissa_bits, 1 - max_exponent, largest)
    return found


def round_significand(negative: Array, significand: Array, exponent: Array, dtype: DType, mode: RoundingMode) -> Array:
    """``+-significand * 2**exponent`` rounded to ``dtype``, as the float64 array of the values.

    ``significand`` is uint64. A zero stays a zero of its sign.
    """
    target = format_of(dtype)
    top = np.frexp(significand.astype(np.float64))[1].astype(np.int64)  # one too large where the conversion rounds up
    top -= (significand >> np.maximum(top - 1, 0).astype(np.uint64)) == 0
    # Shift to 62 bits, so that the cases below need no shift by a whole word.
    left = np.maximum(SIGNIFICAND_BITS - top, 0).astype(np.uint64)
    right = np.maximum(top - SIGNIFICAND_BITS, 0).astype(np.uint64)
    sticky = (significand & ((np.uint64(1) << right) - np.uint64(1))) != 0
    bits = ((significand << left) >> right) | sticky
    leading = exponent + top - 1  # the exponent of the leading bit
    spacing = np.maximum(leading, target.min_exponent) - target.mantissa
    drop = np.minimum(spacing - (leading - (SIGNIFICAND_BITS - 1)), SIGNIFICAND_BITS + 1).astype(np.uint64)
    kept = bits >> drop
    rest = bits & ((np.uint64(1) << drop) - np.uint64(1))
    kept = kept + _away_from_zero(kept, rest, np.uint64(1) << (drop - np.uint64(1)), negative, mode)
    if not target.has_zero:
        kept = np.maximum(kept, significand != 0)
    # The clip keeps the exponent of a result that overflows or vanishes anyway within a C int.
    value = np.ldexp(kept.astype(np.float64), np.clip(spacing, -5000, 5000).astype(np.intc))
    value = np.where(value > target.largest, _beyond(negative, target, mode), value)
    value = np.where(negative, -value, value)
    return value if target.signed else np.where(negative & (significand != 0), np.nan, value)


def _away_from_zero(kept: Array, rest: Array, half: Array, negative: Array, mode: RoundingMode) -> Array:
    """Where the magnitude ``kept`` must go up by one, given the bits below it."""
    if mode is RoundingMode.RZ:
        return np.zeros(np.shape(kept), np.bool_)
    if mode is RoundingMode.RM:
        return (rest != 0) & negative
    if mode is RoundingMode.RP:
        return (rest != 0) & ~negative
    if mode is RoundingMode.RA:
        return rest >= half
    return (rest > half) | ((rest == half) & (kept & np.uint64(1) != 0))


def _beyond(negative: Array, target: FloatFormat, mode: RoundingMode) -> Array:
    """The magnitude that stands for a finite one above the largest."""
    limit = {Overflow.INFINITY: math.inf, Overflow.NAN: math.nan, Overflow.SATURATE: target.largest}[target.overflow]
    if mode is RoundingMode.RZ:
        return np.full(np.shape(negative), target.largest)
    if mode is RoundingMode.RM:
        return np.where(negative, limit, target.largest)
    if mode is RoundingMode.RP:
        return np.where(negative, target.largest, limit)
    return np.full(np.shape(negative), limit)


def round_float(x: Array, dtype: DType, mode: RoundingMode, residual: Array | None = None) -> Array:
    """float64 values rounded to ``dtype``, as float64; infinities and NaN stay.

    Where ``residual`` is not zero, the exact value lies just beside x, by less than half its last place, on the side
    that the sign of the residual tells.
    """
    finite = np.isfinite(x)
    mantissa, exponent = np.frexp(np.abs(np.where(finite, x, 0.0)))
    significand = np.ldexp(mantissa, SIGNIFICAND_BITS).astype(np.uint64)
    if residual is not None:
        beyond = np.where(finite, residual * np.copysign(1.0, x), 0.0)
        significand = significand + (beyond > 0) - (beyond < 0).astype(np.uint64)
    negative = np.signbit(x)
    rounded = round_significand(negative, significand, exponent.astype(np.int64) - SIGNIFICAND_BITS, dtype, mode)
    return np.where(finite, rounded, x)
