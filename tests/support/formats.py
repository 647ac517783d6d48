"""Rounding to the small floating-point formats by searching the table of their values: an oracle that shares nothing
with arithmetic on bits."""

from __future__ import annotations

import functools

import numpy as np
from support.values import all_values

from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

RN, RZ, RM, RP, RA = (getattr(RoundingMode, name) for name in ("RN", "RZ", "RM", "RP", "RA"))
# What takes the place of a number above the largest one, and of NaN; by default infinity and NaN.
_TOO_LARGE = {"f8e4m3fn": np.nan, "f8e8m0fnu": np.nan, "f8e5m3fnu": np.nan, "f4e2m1fn": 6.0}
_NAN = {"f4e2m1fn": 0.0}
_UNSIGNED = ("f8e8m0fnu", "f8e5m3fnu")


def decoded(codes: np.ndarray, dtype: DType) -> np.ndarray:
    """The values of an array in the storage form of a format of at most 16 bits, as float64."""
    if dtype.short == "f8e5m3fnu":
        exponent, mantissa = (codes >> 3).astype(int), codes & 7
        values = np.where(exponent == 0, mantissa / 8 * 2.0**-14, (1 + mantissa / 8) * 2.0 ** (exponent - 15))
        return np.where(codes == 255, np.nan, values)
    return codes.astype(np.float64)


@functools.cache
def magnitudes(dtype: DType) -> np.ndarray:
    """The finite values that are not negative, in increasing order; neighbours have neighbouring codes."""
    values = decoded(all_values(dtype), dtype)
    return np.unique(np.abs(values[np.isfinite(values)]))


def converted(x: np.ndarray, dtype: DType, mode: RoundingMode = RN) -> np.ndarray:
    """float64 values rounded to a format of at most 16 bits."""
    table, size = magnitudes(dtype), np.abs(x)
    first_code = 0 if table[0] == 0 else 1  # one format has no zero
    low = np.maximum(np.searchsorted(table, size, side="right") - 1, 0)
    above = np.append(table[1:], 2 * table[-1] - table[-2])  # the last of them is out of range
    down, up = table[low], above[low]
    size_up = _goes_up(size - down, up - size, (low + first_code) % 2 == 1, x < 0, mode) & (size > down)
    result = np.where(size_up, up, down)
    too_large = _TOO_LARGE.get(dtype.short, np.inf)
    infinite = np.isinf(x)
    result = np.where(infinite | (result > table[-1]), too_large, result)
    result = np.copysign(result, x)
    if dtype.short in _UNSIGNED:
        result = np.where(x < 0, np.nan, np.abs(result))
    return np.where(np.isnan(x), _NAN.get(dtype.short, np.nan), result)


def as_ml_dtypes(x: np.ndarray, dtype: DType) -> np.ndarray:
    """float32 values in the storage form of ``dtype``; a zero is the least value where there is none."""
    with np.errstate(all="ignore"):
        found = x.astype(np.float32).astype(dtype.storage)
        if magnitudes(dtype)[0] > 0:
            found[x == 0] = magnitudes(dtype)[0]
    return found


def _goes_up(
    below: np.ndarray, above: np.ndarray, odd: np.ndarray, negative: np.ndarray, mode: RoundingMode
) -> np.ndarray:
    """Whether a magnitude becomes its upper neighbour, given the distances to both."""
    if mode in (RZ, RM, RP):
        away = {RZ: np.zeros_like(negative), RM: negative, RP: ~negative}[mode]
        return away
    return (below > above) | ((below == above) & (odd if mode is RN else True))
