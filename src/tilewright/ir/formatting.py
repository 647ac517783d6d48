"""The text of values that tile code prints."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.ir.dtypes import DType, float64
from tilewright.ir.semantics import evaluate
from tilewright.ir.types import ElementType

# A printf conversion of any kind. '^', which C does not have, centres the text in its field.
_CONVERSION = (
    r"(?s)%(?P<flags>[-+ #0^]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|L|q|j|z|t)?(?P<kind>.?)"
)
SIGNED, UNSIGNED, FLOATING = frozenset("di"), frozenset("ouxX"), frozenset("eEfFgGaA")
KINDS = SIGNED | UNSIGNED | FLOATING | frozenset("cp")


def conversions(text: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """The conversions of a printf format, each after the text before it, in which %% is a sign; at the end the text
    that is left, and None. Their ``kind`` is whatever character is there, or none."""
    before, position = "", 0
    for match in re.finditer(_CONVERSION, text):
        before += text[position : match.start()]
        position = match.end()
        if match.group() == "%%":
            before += "%"
        else:
            yield before, match
            before = ""
    yield before + text[position:], None


def joined(parts: Iterable[str | None]) -> tuple[str | None, ...]:
    """The ``parts`` of a print op, with neighbouring texts joined, and without empty ones."""
    groups = itertools.groupby(parts, lambda part: part is None)
    found = (holes if is_hole else ["".join(map(str, holes))] for is_hole, holes in groups)
    return tuple(part for group in found for part in group if part != "")


def format_print(
    parts: Sequence[str | None], formats: Sequence[str], values: Sequence[tuple[np.ndarray[Any, Any], ElementType]]
) -> str:
    """The text of one ``print`` op: ``parts`` with each None replaced by the next value in its format.

    Values come in storage form with their dtype, pointers as addresses. An empty format means ``%d`` for bool and
    integers, ``%f`` for floats, ``%p`` for pointers. ValueError for a format that is no printf conversion.
    """
    texts = iter([format_tile(array, dtype, form) for (array, dtype), form in zip(values, formats)])
    return "".join(next(texts) if part is None else part for part in parts)


def format_tile(array: np.ndarray[Any, Any], dtype: ElementType, conversion: str = "") -> str:
    """A tile as nested brackets (``[[1, 2], [3, 4]]``), a scalar as the bare number."""
    flags, width, digits, kind = parse_conversion(conversion, dtype)
    if isinstance(dtype, DType) and dtype.is_floating:
        array = evaluate("cast", dtype, {"dtype": float64}, [array])
    bits = dtype.bitwidth if isinstance(dtype, DType) else 64

    def text(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(text, value))}]"
        return _pad(_body(value, flags, digits, kind, bits), flags, width, digits, kind)

    return text(array.tolist())


def parse_conversion(conversion: str, dtype: ElementType) -> tuple[str, int, int | None, str]:
    """Flags, width, precision and kind of a conversion; an empty one is the default of ``dtype``. ValueError."""
    found = re.fullmatch(_CONVERSION, conversion or _default(dtype))  # compiled when first needed
    if found is None or found["kind"] not in KINDS or "*" in conversion:
        raise ValueError(f"{conversion!r} is not a printf conversion such as %d, %5.2f or %x")
    flags, width, precision, _, kind = found.groups()
    return flags, int(width or 0), None if precision is None else int(precision or 0), kind


def _default(dtype: ElementType) -> str:
    if not isinstance(dtype, DType):
        return "%p"
    return "%f" if dtype.is_floating else "%d"


def _body(value: Any, flags: str, digits: int | None, kind: str, bits: int) -> str:
    """The converted number with its sign and prefix, not yet padded to the width of its field."""
    if kind in "aA":
        text = _hexadecimal(float(value), digits, flags)
        return text.upper() if kind == "A" else text
    if kind in "eEfFgG":
        precision = "" if digits is None else f".{digits}"
        return f"%{''.join(f for f in '+ #' if f in flags)}{precision}{kind}" % value
    if kind == "p":
        return f"{value:#x}"
    if kind == "c":
        return chr(int(value) & 255)
    number = int(value) if kind in "di" else int(value) & ((1 << bits) - 1)
    text = format(abs(number), "d" if kind in "diu" else kind).zfill(digits or 0)
    if digits == 0 and number == 0:
        text = ""
    if kind == "o" and "#" in flags and not text.startswith("0"):
        return f"0{text}"
    if kind in "xX" and "#" in flags and number:
        return f"0{kind}{text}"
    return _sign(number < 0, flags if kind in "di" else "") + text


def _sign(negative: bool, flags: str) -> str:
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""


def _hexadecimal(value: float, digits: int | None, flags: str) -> str:
    """C's %a: the shortest exact digits, or ``digits`` of them, rounded to nearest even."""
    sign = _sign(math.copysign(1, value) < 0, flags)
    if math.isnan(value) or math.isinf(value):
        return f"{sign}{abs(value)}"
    mantissa, _, exponent = abs(value).hex()[2:].partition("p")
    whole, _, fraction = mantissa.partition(".")
    if digits is None:
        fraction = fraction.rstrip("0")
    else:
        fraction = fraction.ljust(13, "0")
        scaled = int(whole + fraction, 16)
        if digits < 13:
            unit = 16 ** (13 - digits)
            quotient, rest = divmod(scaled, unit)
            scaled = quotient + (2 * rest > unit or (2 * rest == unit and quotient % 2 == 1))
        else:
            scaled *= 16 ** (digits - 13)
        whole, fraction = f"{scaled >> 4 * digits:x}", f"{scaled % 16**digits:0{digits}x}" if digits else ""
    point = "." if fraction or "#" in flags else ""
    return f"{sign}0x{whole}{point}{fraction}p{exponent}"


def _pad(body: str, flags: str, width: int, digits: int | None, kind: str) -> str:
    if "-" in flags:
        return body.ljust(width)
    if "^" in flags:
        return body.center(width)
    zeros = "0" in flags and not (digits is not None and kind in "diuoxX") and not re.search("inf|nan", body.lower())
    if not zeros or len(body) >= width:
        return body.rjust(width)
    prefix = re.match(r"[-+ ]?(?:0[xX])?", body)
    start = prefix.end() if prefix else 0
    return body[:start] + "0" * (width - len(body)) + body[start:]


def failure(message: str, shape: tuple[int, ...], element: int, values: Sequence[int]) -> str:
    """What a failed ``assert`` op says: ``element`` is the first false one of a condition of ``shape``, row-major."""
    if not values:
        return f"assertion failed: {message}" if message else "assertion failed"
    text = message.format(*values)
    index = tuple(map(int, np.unravel_index(element, shape)))
    return f"{text}, at element {index if len(index) > 1 else index[0]} of the tile" if shape else text
