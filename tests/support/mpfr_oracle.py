"""Results from MPFR: correctly rounded ones in every rounding mode and format, and functions to far more digits.

Operands are lists of MPFR values (``exactly``), so that several operations can share the conversion.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import gmpy2
import numpy as np

from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

MODES = {
    RoundingMode.RN: gmpy2.RoundToNearest,
    RoundingMode.RZ: gmpy2.RoundToZero,
    RoundingMode.RM: gmpy2.RoundDown,
    RoundingMode.RP: gmpy2.RoundUp,
}
METHODS = {"cast": "plus"}  # of a context, where they have another name than the operation
_EXACT = gmpy2.context(precision=64)
_ONE = gmpy2.mpfr(1)
_LARGEST_PLACE = 1023 - 52


def exactly(values: Any) -> list[Any]:
    """Numbers as MPFR values that hold them exactly."""
    flat = np.asarray(values).reshape(-1)
    if flat.dtype.kind not in "iu":
        with np.errstate(invalid="ignore"):
            flat = flat.astype(np.float64)
    return list(map(_EXACT.mul, itertools.repeat(_ONE), flat.tolist()))  # several times faster than the constructor


def rounded(name: str, dtype: DType, mode: RoundingMode, *operands: list[Any]) -> np.ndarray:
    """The operation on MPFR values, rounded once to ``dtype``, a format laid out as IEEE 754 says.

    The largest exponent of float8_e4m3fn holds numbers as well; what lies above 448 is for the caller to judge.
    """
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    precision = dtype.mantissa_bits + 1
    context = gmpy2.context(
        precision=precision,
        emin=1 - bias - precision + 2,
        emax=bias + (2 if dtype.short == "f8e4m3fn" else 1),
        subnormalize=True,
        round=MODES[mode],
    )
    operation = getattr(context, METHODS.get(name, name))
    return np.fromiter(map(float, map(operation, *operands)), np.float64)


def oracle(name: str, dtype: DType, mode: RoundingMode, *operands: Any) -> np.ndarray:
    """``rounded`` on arrays of numbers."""
    return rounded(name, dtype, mode, *map(exactly, operands))


def function_values(
    function: Callable[..., Any], *operands: np.ndarray, double: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """A function of arrays of floats to 100 bits: the nearest float64, and what is missing in units of its last place.

    Nothing is missing from an infinity or a NaN, and from all results unless ``double``: other formats need not know.
    """
    with gmpy2.context(precision=100 if double else 64, emin=-(1 << 30), emax=1 << 30):
        exact = list(map(function, *map(exactly, operands)))
        nearest = np.fromiter(map(float, exact), np.float64)
        if not double:
            return nearest, np.zeros(nearest.size)
        missing = map(gmpy2.sub, exact, nearest.tolist())
        places = np.maximum(np.frexp(nearest)[1] - 1, -1022) - 52  # the exponent of the last place
        scaled = map(gmpy2.mul_2exp, missing, (_LARGEST_PLACE - places).tolist())
        in_last_places = np.ldexp(np.fromiter(map(float, scaled), np.float64), -_LARGEST_PLACE)
    return nearest, np.where(np.isfinite(nearest), in_last_places, 0.0)


def same(got: Any, expected: np.ndarray) -> np.ndarray:
    """Equal in value and sign of zero, or both NaN."""
    with np.errstate(invalid="ignore"):
        wide = np.asarray(got).astype(np.float64)
    equal = (wide == expected) & (np.signbit(wide) == np.signbit(expected))
    return equal | (np.isnan(wide) & np.isnan(expected))


def assert_same(got: Any, expected: np.ndarray, *operands: np.ndarray) -> None:
    """``same`` everywhere, else the first operands for which it is not."""
    wrong = np.flatnonzero(~same(got, expected))
    shown = [(*_at(operands, i), "gives", np.reshape(got, -1)[i], "not", expected[i]) for i in wrong[:5]]
    assert not wrong.size, f"{wrong.size} of {np.size(got)} wrong: {shown}"


def _at(operands: Sequence[np.ndarray], i: int) -> list[Any]:
    return [x.reshape(-1)[i] for x in operands]
