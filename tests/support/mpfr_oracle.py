"""Correctly rounded results from MPFR, in every rounding mode and format, as float64 arrays."""

from __future__ import annotations

from collections.abc import Callable
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


def oracle(name: str, dtype: DType, mode: RoundingMode, *operands: Any) -> np.ndarray:
    """The op on arrays of numbers, rounded once to ``dtype``, a format laid out as IEEE 754 says."""
    largest_exponent = (1 << (dtype.exponent_bits - 1)) - 1
    precision = dtype.mantissa_bits + 1
    context = gmpy2.context(
        precision=precision,
        emin=1 - largest_exponent - precision + 2,
        emax=largest_exponent + 1,
        subnormalize=True,
        round=MODES[mode],
    )
    operation = OPERATIONS[name]
    rows = list(zip(*(map(_exact, np.asarray(x).reshape(-1)) for x in operands)))  # before the context can round them
    with context as active:
        return np.array([float(operation(active, *row)) for row in rows])


def _exact(number: Any) -> Any:
    """A number as an MPFR value that holds it exactly."""
    if isinstance(number, np.integer):
        return gmpy2.mpfr(int(number), 64) if number else gmpy2.mpfr(0)
    return gmpy2.mpfr(float(number), 53)


def assert_same(got: np.ndarray, expected: np.ndarray, *operands: np.ndarray) -> None:
    """Equal in value and sign of zero, or both NaN."""
    with np.errstate(invalid="ignore"):
        wide = np.asarray(got).astype(np.float64)
    equal = (wide == expected) & (np.signbit(wide) == np.signbit(expected)) | (np.isnan(wide) & np.isnan(expected))
    wrong = np.flatnonzero(~equal)
    shown = [(*(x.reshape(-1)[i] for x in operands), "gives", wide[i], "not", expected[i]) for i in wrong[:5]]
    assert not wrong.size, f"{wrong.size} of {wide.size} wrong: {shown}"
