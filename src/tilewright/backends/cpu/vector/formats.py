"""The parameters of the floating-point formats, as the conversion code needs them."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from tilewright.ir.dtypes import DType


class Overflow(enum.Enum):
    """What a finite value above the largest finite one becomes when rounded to nearest."""

    INFINITY = "infinity"
    NAN = "nan"
    SATURATE = "saturate"


@dataclass(frozen=True)
class FloatFormat:
    """A binary format: ``mantissa`` stored bits, normal exponents from ``min_exponent``, ``largest`` finite value."""

    mantissa: int
    min_exponent: int
    largest: float
    overflow: Overflow = Overflow.INFINITY
    signed: bool = True

    @property
    def smallest(self) -> float:
        """The least positive value, also the spacing of the subnormal numbers."""
        return math.ldexp(1.0, self.min_exponent - self.mantissa)

    def nearest(self, value: float) -> float:
        """``value`` rounded to this format, ties to even."""
        if math.isnan(value) or (value < 0 and not self.signed):
            return math.nan if self.overflow is not Overflow.SATURATE else math.copysign(0.0, -value)
        if value == 0:
            return value
        rounded = value
        if not math.isinf(value):
            exponent = max(math.frexp(value)[1] - 1, self.min_exponent)
            spacing = exponent - self.mantissa
            rounded = math.copysign(math.ldexp(round(math.ldexp(value, -spacing)), spacing), value)
        if abs(rounded) <= self.largest:
            return rounded
        limits = {Overflow.INFINITY: math.inf, Overflow.NAN: math.nan, Overflow.SATURATE: self.largest}
        return math.copysign(limits[self.overflow], value)


_FORMATS = {
    "f16": FloatFormat(10, -14, 65504.0),
    "bf16": FloatFormat(7, -126, math.ldexp(255.0, 120)),
    "f32": FloatFormat(23, -126, math.ldexp(2.0**24 - 1, 104)),
    "f64": FloatFormat(52, -1022, math.ldexp(2.0**53 - 1, 971)),
    "tf32": FloatFormat(10, -126, math.ldexp(2047.0, 117)),
    "f8e4m3fn": FloatFormat(3, -6, 448.0, Overflow.NAN),
    "f8e5m2": FloatFormat(2, -14, 57344.0),
    "f4e2m1fn": FloatFormat(1, 0, 6.0, Overflow.SATURATE),
    "f8e5m3fnu": FloatFormat(3, -14, 114688.0, Overflow.NAN, signed=False),
    # Powers of two only: no zero, no sign. Its rounding is a special case everywhere.
    "f8e8m0fnu": FloatFormat(0, -127, math.ldexp(1.0, 127), Overflow.NAN, signed=False),
}


def format_of(dtype: DType) -> FloatFormat:
    """The format of a floating-point dtype."""
    return _FORMATS[dtype.short]


def nearest(dtype: DType, value: float) -> float:
    """``value`` rounded to ``dtype``, ties to even, as a Python float."""
    if dtype.short == "f8e8m0fnu":
        return _nearest_power_of_two(value)
    return format_of(dtype).nearest(value)


def _nearest_power_of_two(value: float) -> float:
    if not value > 0 or math.isinf(value):
        return math.nan
    mantissa, exponent = math.frexp(value)  # in [0.5, 1)
    exponent = max(exponent - (mantissa < 0.75), -127)
    return math.ldexp(1.0, exponent) if exponent <= 127 else math.nan
