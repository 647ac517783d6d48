"""Conversions between dtypes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.ir.dtypes import DType, float8_e5m3fnu
from tilewright.ir.enums import RoundingMode
from tilewright.ir.semantics.rounding import Array, format_of, round_float, round_significand

_NUMPY_FLOATS = ("f16", "f32", "f64")
_ML_DTYPES_FLOATS = ("bf16", "f8e4m3fn", "f8e5m2", "f4e2m1fn")  # which ml_dtypes rounds float32 to


def _e5m3_values() -> Array:
    codes = np.arange(256)
    exponent, mantissa = codes >> 3, codes & 7
    normal = np.ldexp(1 + mantissa / 8, exponent - 15)
    values = np.where(exponent == 0, np.ldexp(mantissa / 8, -14), normal)
    values[255] = math.nan
    return values


_E5M3_VALUES = _e5m3_values()


def to_float64(x: Array, dtype: DType) -> Array:
    """The values of ``x``; exact except for 64-bit integers."""
    if dtype is float8_e5m3fnu:
        return _E5M3_VALUES[x]
    return x.astype(np.float64)


def from_float64(x: Array, dtype: DType) -> Array:
    """The storage form of float64 values that ``dtype`` has, of infinities and NaN."""
    if dtype is float8_e5m3fnu:
        codes = np.searchsorted(_E5M3_VALUES[:255], np.where(x >= 0, x, 0.0))
        return np.where((x >= 0) & (codes < 255), codes, 255).astype(np.uint8)
    if not format_of(dtype).has_zero:  # as the hardware's conversions: a zero becomes the least value
        x = np.where((x >= 0) & (x < format_of(dtype).smallest), format_of(dtype).smallest, x)
    return x if dtype.short == "f64" else x.astype(np.float32).astype(dtype.storage)


def cast(x: Array, source: DType, target: DType, mode: RoundingMode = RoundingMode.RN) -> Array:
    """``x`` of dtype ``source`` converted to ``target``; ``mode`` counts where the target is a float."""
    if source is target:
        return x
    if target.is_bool:
        return to_float64(x, source) != 0 if source.is_floating else x != 0
    if not target.is_floating:
        return _truncate(to_float64(x, source), target) if source.is_floating else x.astype(target.storage)
    if not source.is_floating:
        return _from_integer(x, source, target, mode)
    if mode is RoundingMode.RN and target.short in _NUMPY_FLOATS:
        return to_float64(x, source).astype(target.storage)
    rounds = target.short in _ML_DTYPES_FLOATS and source.short != "f64"
    if mode is RoundingMode.RN and (rounds or target.short == "f8e8m0fnu"):
        return from_float64(to_float64(x, source), target)  # ml_dtypes' rule, of the latter also below 2**-126
    return from_float64(round_float(to_float64(x, source), target, mode), target)


def _truncate(x: Array, target: DType) -> Array:
    """float64 to integer: toward zero, saturating; NaN gives 0."""
    whole = np.trunc(np.where(np.isnan(x), 0.0, x))
    low, high = whole <= float(target.min), whole >= float(target.max + 1)
    inside = np.where(low | high, 0.0, whole).astype(target.storage)
    limits = np.where(low, np.array(target.min, target.storage), np.array(target.max, target.storage))
    return np.where(low | high, limits, inside)


def _from_integer(x: Array, source: DType, target: DType, mode: RoundingMode) -> Array:
    if mode is RoundingMode.RN and target.short in ("f32", "f64"):
        return x.astype(target.storage)
    negative = x < 0 if source.is_signed else np.zeros(np.shape(x), np.bool_)
    wide = x.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - wide, wide)
    rounded = round_significand(negative, magnitude, np.zeros(np.shape(x), np.int64), target, mode)
    return from_float64(rounded, target)


def cast_op(dtype: DType, attributes: Mapping[str, Any], x: Array) -> Array:
    mode = attributes.get("rounding", RoundingMode.RN)
    return cast(x, dtype, attributes["dtype"], RoundingMode.RN if mode is RoundingMode.RZI else mode)


def bitcast_op(dtype: DType, attributes: Mapping[str, Any], x: Array) -> Array:
    target = attributes["dtype"]
    if not isinstance(target, DType):
        return x  # pointers are addresses, whatever they point to
    if target.is_bool:
        return x.view(np.uint8) != 0
    return x.view(target.storage)
