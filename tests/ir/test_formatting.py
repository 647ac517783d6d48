"""The text of printed values, against C's printf where it says the same."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

from tilewright.ir import dtypes
from tilewright.ir.formatting import conversions, format_print, format_tile, joined
from tilewright.ir.types import PointerType


def test_defaults() -> None:
    assert format_tile(np.array([[1, -2], [3, 4]], np.int8), dtypes.int8) == "[[1, -2], [3, 4]]"
    assert format_tile(np.array([True, False]), dtypes.bool_) == "[1, 0]"
    assert format_tile(np.array(1.5, np.float16), dtypes.float16) == "1.500000"
    assert format_tile(np.array([120], np.uint8), dtypes.float8_e5m3fnu) == "[1.000000]"
    assert format_tile(np.array([2.0]).astype(dtypes.bfloat16.storage), dtypes.bfloat16) == "[2.000000]"
    assert format_tile(np.array(255), PointerType(dtypes.int8)) == "0xff"


def c_format(conversion: str, value: float) -> str:
    buffer = ctypes.create_string_buffer(400)
    argument = ctypes.c_double(value) if isinstance(value, float) else ctypes.c_longlong(value)
    form = conversion if isinstance(value, float) else f"{conversion[:-1]}ll{conversion[-1]}"
    ctypes.CDLL(None).snprintf(buffer, 400, form.encode(), argument)
    return buffer.value.decode()


@pytest.mark.parametrize("flags", ["", "-", "+", " ", "0", "#", "+0", "#0", "-#"])
def test_as_printf(flags: str) -> None:
    for size in ("", "12", ".3", "14.2", ".0", "30.15"):
        for kind in "eEfFgGaA":
            for number in (0.0, -0.0, 1.5, -1e300, 2.0**-1074, 1 / 3, 1.99999, math.inf, -math.inf):
                form = f"%{flags}{size}{kind}"
                assert format_tile(np.array(number), dtypes.float64, form) == c_format(form, number), (form, number)
        for kind in "diuoxX":
            if kind in "uoxX" and set(flags) & set("+ "):
                continue  # undefined in C
            for value in (0, 5, -7, 2**63 - 1):
                form = f"%{flags}{size}{kind}"
                if kind == "u" and "#" in flags:
                    continue
                assert format_tile(np.array(value), dtypes.int64, form) == c_format(form, value), (form, value)


def test_widths_follow_the_dtype() -> None:
    assert format_tile(np.array([-1], np.int8), dtypes.int8, "%x") == "[ff]"
    assert format_tile(np.array([-1], np.int32), dtypes.int32, "%lu") == "[4294967295]"
    assert format_tile(np.array(7, np.int32), dtypes.int32, "%^5d") == "  7  "


def test_characters() -> None:
    assert format_tile(np.array([65, 256 + 66], np.int32), dtypes.int32, "%-2c") == "[A , B ]"


def test_parts() -> None:
    values = [(np.array(3, np.int32), dtypes.int32), (np.array([0.5], np.float32), dtypes.float32)]
    assert format_print(("i=", None, " x=", None, "\n"), ("", "%.1f"), values) == "i=3 x=[0.5]\n"


def test_no_conversion() -> None:
    with pytest.raises(ValueError, match="'%s' is not a printf conversion"):
        format_tile(np.array(1), dtypes.int64, "%s")


def test_the_conversions_of_a_format() -> None:
    """Each after its text; a doubled % is a sign, and what no conversion ends has no kind."""
    found = [
        (before, match and match["kind"], match and match.group())
        for before, match in conversions("a%%b%-5.2llf\n%*d%")
    ]
    assert found == [("a%b", "f", "%-5.2llf"), ("\n", "d", "%*d"), ("", "", "%"), ("", None, None)]


def test_texts_are_joined() -> None:
    assert joined(["", "a", "b", None, None, "", "c"]) == ("ab", None, None, "c")
    assert joined(["", ""]) == ()
