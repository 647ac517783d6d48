"""Floating-point numbers as bits, and in the notation of the text form."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType, tfloat32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.semantics.constants import constant_array
from tilewright.ir.semantics.conversion import to_float64
from tilewright.ir.semantics.rounding import SIGNIFICAND_BITS, round_significand
from tilewright.tileir.types import SCALARS

FORMATS: dict[str, DType] = {
    "f16": dtypes.float16,
    "bf16": dtypes.bfloat16,
    "f32": dtypes.float32,
    "tf32": dtypes.tfloat32,
    "f64": dtypes.float64,
    "f8E4M3FN": dtypes.float8_e4m3fn,
    "f8E5M2": dtypes.float8_e5m2,
    "f8E8M0FNU": dtypes.float8_e8m0fnu,
    "f4E2M1FN": dtypes.float4_e2m1fn,
    "fnv8E5M3FNU": dtypes.float8_e5m3fnu,
}
_CONTAINER_BITS = 13  # of our tf32 that are always zero, and not there in files


def decode(dtype: DType, bits: int) -> float:
    """The number that ``bits`` stand for."""
    if dtype is tfloat32:
        bits <<= _CONTAINER_BITS
    raw = np.frombuffer(bits.to_bytes(dtype.bytes, "little"), dtype.storage)
    with np.errstate(invalid="ignore"):
        return float(to_float64(raw, dtype)[0])


def encode(dtype: DType, number: float) -> int:
    """The bits of a constant."""
    raw = int.from_bytes(constant_array(number, dtype, ()).tobytes(), "little")
    return raw >> _CONTAINER_BITS if dtype is tfloat32 else raw & (1 << dtype.bitwidth) - 1


def nearest(name: str, number: Fraction, negative: bool = False) -> int:
    """The bits of the value of a format nearest to ``number``, ties to even. What rounds beyond the largest becomes
    infinite, or NaN where there is no infinity, or the largest where there is neither."""
    dtype = FORMATS[name]
    negative = dtype.is_signed and (negative or number < 0)
    size = number.numerator.bit_length() - number.denominator.bit_length()
    exponent = size - SIGNIFICAND_BITS
    scaled = abs(number) / Fraction(2) ** exponent
    significand = math.floor(scaled) | (scaled.denominator != 1)
    parts = np.array(negative), np.array(significand, np.uint64), np.array(exponent)
    with np.errstate(all="ignore"):
        return encode(dtype, float(round_significand(*parts, dtype, RoundingMode.RN)))


@lru_cache(maxsize=4096)
def show(name: str, bits: int) -> str:
    """``bits`` in the notation of the text form: decimal where that reads back, hexadecimal elsewhere."""
    found = decode(FORMATS[name], bits)
    if not math.isfinite(found):
        return _hexadecimal(name, bits)
    sign = "-" if math.copysign(1.0, found) < 0 else ""
    if found == 0:
        return f"{sign}0.000000e+00"
    number = Fraction(abs(found))
    digits, exponent = _digits(number, 6)
    short = f"{digits[0]}.{digits[1:].ljust(6, '0')}e{exponent:+03d}"
    if nearest(name, Fraction(sign + short)) == bits:
        return sign + short
    precision = 2 + (FORMATS[name].mantissa_bits + 1) * 59 // 196
    text = _natural(*_digits(number, precision), precision)
    return sign + text if "." in text else _hexadecimal(name, bits)


def _hexadecimal(name: str, bits: int) -> str:
    return f"0x{bits:0{-(-SCALARS[name].bits // 4)}X}"


def _digits(number: Fraction, precision: int) -> tuple[str, int]:
    """The first significant decimal digits of a binary ``number``, and the exponent of the first of them.

    As LLVM does it: first digits are cut off while enough bits remain, then the rest is rounded half up.
    """
    power = number.denominator.bit_length() - 1
    digits, exponent = number.numerator * 5**power, -power
    needed = (precision * 196 + 58) // 59  # 196/59 is a little over the bits of a decimal digit
    removable = max(digits.bit_length() - needed, 0) * 59 // 196
    digits, exponent = digits // 10**removable, exponent + removable
    over = len(str(digits)) - precision
    if over > 0:
        digits = (digits // 10 ** (over - 1) + 5) // 10
        exponent += over
    text = str(digits)
    return text.rstrip("0") or "0", exponent + len(text) - 1


_MAX_PADDING = 3  # zeros that a number is filled up with before its exponent is written instead


def _natural(digits: str, exponent: int, precision: int) -> str:
    """Digits with or without an exponent, as LLVM prints numbers in full."""
    last = exponent - len(digits) + 1  # the exponent of the last digit
    if last >= 0:
        scientific = last > _MAX_PADDING or len(digits) + last > precision
    else:
        scientific = exponent < 0 and -exponent > _MAX_PADDING
    if scientific:
        return f"{digits[0]}.{digits[1:] or '0'}E{exponent:+d}"
    if last >= 0:
        return digits + "0" * last
    if exponent >= 0:
        return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
    return f"0.{'0' * (-exponent - 1)}{digits}"


_NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d{1,4})?")


def parse(name: str, text: str) -> int | None:
    """The bits of a number in the notation of the text form; None for what is none."""
    if text.lstrip("-")[0] in "IiN":  # as other producers than NVIDIA's write them
        bits = encode(FORMATS[name], float(text))
        return bits if str(decode(FORMATS[name], bits)) == str(float(text)) else None
    if text.startswith("0x"):
        bits = int(text, 16)
        return bits if bits < 1 << SCALARS[name].bits else None
    if _NUMBER.fullmatch(text) is None:
        return None
    return nearest(name, Fraction(Decimal(text)), text.startswith("-"))
