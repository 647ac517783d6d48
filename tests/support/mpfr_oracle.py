"""Results from MPFR: correctly rounded ones in every rounding mode and format, and functions to far more digits.

Operands are lists of MPFR values (``exactly``), so that several operations can share the conversion.
"""

from __future__ import annotations

import math
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
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda c, a, b: c.add(a, b),
    "sub": lambda c, a, b: c.sub(a, b),
    "mul": lambda c, a, b: c.mul(a, b),
    "div": lambda c, a, b: c.div(a, b),
    "sqrt": lambda c, a: c.sqrt(a),
    "fma": lambda c, a, b, d: c.fma(a, b, d),
    "cast": lambda c, a: c.add(a, 0) if a else a,
}


def exactly(values: Any) -> list[Any]:
    """Numbers as MPFR values that hold them exactly."""
    flat = np.asarray(values).reshape(-1)
    if flat.dtype.kind in "iu":
        return [gmpy2.mpfr(v, 64) if v else gmpy2.mpfr(0) for v in flat.tolist()]
    with np.errstate(invalid="ignore"):
        return [gmpy2.mpfr(v, 53) for v in flat.astype(np.float64).tolist()]


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
    operation = OPERATIONS[name]
    with context as active:
        return np.array([float(operation(active, *row)) for row in zip(*operands)])


def oracle(name: str, dtype: DType, mode: RoundingMode, *operands: Any) -> np.ndarray:
    """``rounded`` on arrays of numbers."""
    return rounded(name, dtype, mode, *map(exactly, operands))


def function_values(
    function: Callable[..., Any], *operands: np.ndarray, double: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """A function of arrays of floats to 100 bits: the nearest float64, and what is missing in units of its last place.

    Nothing is missing from an infinity or a NaN, and from all results unless ``double``: other formats need not know.
    """
    with np.errstate(invalid="ignore"):
        rows = zip(*(x.astype(np.float64).tolist() for x in operands))
    with gmpy2.context(precision=100 if double else 64, emin=-(1 << 30), emax=1 << 30):
        exact = [function(*map(gmpy2.mpfr, row)) for row in rows]
        nearest = list(map(float, exact))
        if not double:
            return np.array(nearest), np.zeros(len(nearest))
        missing = []
        for value, near in zip(exact, nearest):
            if not math.isfinite(near):
                missing.append(0.0)
                continue
            places = 52 - max(math.frexp(near)[1] - 1, -1022)
            missing.append(float(gmpy2.mul_2exp(value - near, places) if places >= 0 else (value - near) / 2**-places))
    return np.array(nearest), np.array(missing)


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
