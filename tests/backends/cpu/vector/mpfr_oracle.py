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
# precision with the hidden bit, exponents of the smallest and of the largest normal number
_FORMATS = {
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "tf32": (11, -126, 127),
    "f32": (24, -126, 127),
    "f64": (53, -1022, 1023),
    "f8e5m2": (3, -14, 15),
    "f8e4m3fn": (4, -6, 8),
}

OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda c, a, b: c.add(a, b),
    "sub": lambda c, a, b: c.sub(a, b),
    "mul": lambda c, a, b: c.mul(a, b),
    "div": lambda c, a, b: c.div(a, b),
    "sqrt": lambda c, a: c.sqrt(a),
    "fma": lambda c, a, b, d: c.fma(a, b, d),
    "convert": lambda c, a: c.add(a, 0) if a else a,
}


def context(dtype: DType, mode: RoundingMode) -> Any:
    precision, low, high = _FORMATS[dtype.short]
    return gmpy2.context(
        precision=precision, emin=low - precision + 2, emax=high + 1, subnormalize=True, round=MODES[mode]
    )


def exactly(values: Any) -> list[Any]:
    """Numbers as MPFR values that hold them exactly."""
    if np.asarray(values).dtype.kind in "iu":
        return [gmpy2.mpfr(int(v), 64) if v else gmpy2.mpfr(0) for v in values]
    return [gmpy2.mpfr(v, 53) for v in np.asarray(values).astype(np.float64).tolist()]


def rounded(name: str, dtype: DType, mode: RoundingMode, *operands: list[Any]) -> np.ndarray:
    """The operation on MPFR values, rounded to ``dtype``."""
    operation = OPERATIONS[name]
    with gmpy2.context(context(dtype, mode)) as active:
        return np.array([float(operation(active, *values)) for values in zip(*operands)])


def same(got: Any, expected: np.ndarray) -> np.ndarray:
    """Equal in value and sign of zero, or both NaN."""
    wide = np.asarray(got).astype(np.float64)
    equal = (wide == expected) & (np.signbit(wide) == np.signbit(expected))
    return equal | (np.isnan(wide) & np.isnan(expected))


def assert_same(got: Any, expected: np.ndarray, *operands: np.ndarray) -> None:
    wrong = np.flatnonzero(~same(got, expected))
    shown = [(*(x[i] for x in operands), "gives", got[i], "not", expected[i]) for i in wrong[:5]]
    assert not wrong.size, f"{wrong.size} of {len(expected)} wrong: {shown}"
