"""Tiles of one constant."""

from __future__ import annotations

import functools

import numpy as np

from tilewright.ir.dtypes import DType, float64, int64, uint64
from tilewright.ir.semantics.conversion import cast
from tilewright.ir.semantics.rounding import Array
from tilewright.ir.types import ElementType


def constant_array(value: bool | float, dtype: ElementType, shape: tuple[int, ...]) -> Array:
    """An array of ``shape`` filled with ``value`` in the storage form of ``dtype``.

    Integers wrap, floats are rounded to nearest; a pointer is its address as uint64.
    """
    return np.full(shape, _integer(value, dtype) if isinstance(value, int) else _element(value, dtype))


def _element(value: bool | float, dtype: ElementType) -> Array:
    if not isinstance(dtype, DType):
        return np.array(int(value) & uint64.max, np.uint64)
    if dtype.is_bool:
        return np.array(bool(value), np.bool_)
    if dtype.is_integer:
        wrapped = int(value) & ((1 << dtype.bitwidth) - 1)
        return np.array(wrapped, f"u{dtype.bytes}").view(dtype.storage)
    with np.errstate(all="ignore"):
        if dtype.is_float and isinstance(value, float) and float(stored := dtype.storage.type(value)) == value:
            return np.array(stored)  # nothing is to be rounded, as of most padding
        # A 64-bit integer is rounded once, not first to float64.
        for source in (int64, uint64):
            if isinstance(value, int) and source.min <= value <= source.max:
                return cast(np.array(value, source.storage), source, dtype)
        return cast(np.array(float(value)), float64, dtype)


# The padding of each load, for example. Floats are not looked up: -0.0 equals 0.0.
_integer = functools.lru_cache(maxsize=1024, typed=True)(_element)
