"""Floating-point formats as bits: exact values, rounding to the nearest, and the notation of the text form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache


@dataclass(frozen=True)
class Format:
    """``specials``: ieee has infinities and NaNs; fn has NaN only where all bits are ones; finite has neither."""

    exponent: int
    mantissa: int
    specials: str
    signed: bool = True

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def bits(self) -> int:
        return self.exponent + self.mantissa + self.signed


FORMATS: dict[str, Format] = {
    "f16": Format(5, 10, "ieee"),
    "bf16": Format(8, 7, "ieee"),
    "f32": Format(8, 23, "ieee"),
    "tf32": Format(8, 10, "ieee"),
    "f64": Format(11, 52, "ieee"),
    "f8E4M3FN": Format(4, 3, "fn"),
    "f8E5M2": Format(5, 2, "ieee"),
    "f8E8M0FNU": Format(8, 0, "e8m0", signed=False),
    "f4E2M1FN": Format(2, 1, "finite"),
    "fnv8E5M3FNU": Format(5, 3, "fn", signed=False),
}


def value(name: str, bits: int) -> Fraction | None:
    """The number that ``bits`` of a format stand for, without the sign of zero; None for NaN and infinities."""
    f = FORMATS[name]
    exponent = bits >> f.mantissa & (1 << f.exponent) - 1
    mantissa = bits & (1 << f.mantissa) - 1
    highest = exponent == (1 << f.exponent) - 1
    special = {"ieee": highest, "fn": highest and mantissa == (1 << f.mantissa) - 1, "e8m0": highest, "finite": False}
    if special[f.specials]:
        return None
    if f.specials == "e8m0":
        return Fraction(2) ** (exponent - f.bias)
    if exponent:
        mantissa += 1 << f.mantissa
    number = mantissa * Fraction(2) ** (max(exponent, 1) - f.bias - f.mantissa)
    return -number if is_negative(name, bits) else number


def is_negative(name: str, bits: int) -> bool:
    """Whether the sign bit is set."""
    f = FORMATS[name]
    return f.signed and bool(bits >> (f.bits - 1))


def encode(name: str, number: Fraction, negative: bool = False) -> int:
    """The bits of the value of a format nearest to ``number``, ties to even. What rounds beyond the largest becomes
    infinite, or NaN where there is no infinity, or the largest where there is neither."""
    f = FORMATS[name]
    magnitude = abs(number)
    largest = _largest(name)
    low, high = 0, largest
    while low < high:  # the values of a format ascend with their bits
        middle = (low + high + 1) // 2
        found = value(name, middle)
        if found is not None and found <= magnitude:
            low = middle
        else:
            high = middle - 1
    below = value(name, low)
    above = value(name, low + 1) if low < largest else None
    assert below is not None
    if low == largest and f.specials != "finite":
        previous = value(name, low - 1)
        assert previous is not None
        low += 2 * (magnitude - below) >= (below - previous if f.mantissa else below)
    if above is not None and (magnitude - below, low & 1) > (above - magnitude, low + 1 & 1):
        low += 1
    sign = f.signed and (negative or number < 0)
    return low | sign << (f.bits - 1)


@cache
def _largest(name: str) -> int:
    f = FORMATS[name]
    above = {"ieee": 1 << f.mantissa, "fn": 1, "e8m0": 1, "finite": 0}[f.specials]  # special values at the top
    return (1 << (f.exponent + f.mantissa)) - 1 - above


@lru_cache(maxsize=4096)
def show(name: str, bits: int) -> str:
    """``bits`` in the notation of the text form: decimal where that reads back, hexadecimal elsewhere."""
    number = value(name, bits)
    if number is None:
        return _hexadecimal(name, bits)
    sign = "-" if is_negative(name, bits) else ""
    if number == 0:
        return f"{sign}0.000000e+00"
    number = abs(number)
    magnitude = bits & ~(1 << (FORMATS[name].bits - 1)) if FORMATS[name].signed else bits
    digits, exponent = _digits(number, 6)
    short = f"{digits[0]}.{digits[1:].ljust(6, '0')}e{exponent:+03d}"
    if encode(name, Fraction(short)) == magnitude:
        return sign + short
    precision = 2 + (FORMATS[name].mantissa + 1) * 59 // 196
    text = _natural(*_digits(number, precision), precision)
    return sign + text if "." in text else _hexadecimal(name, bits)


def _hexadecimal(name: str, bits: int) -> str:
    return f"0x{bits:0{-(-FORMATS[name].bits // 4)}X}"


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
    if text.startswith("0x"):
        bits = int(text, 16)
        return bits if bits < 1 << FORMATS[name].bits else None
    if _NUMBER.fullmatch(text) is None:
        return None
    return encode(name, Fraction(Decimal(text)), text.startswith("-"))
