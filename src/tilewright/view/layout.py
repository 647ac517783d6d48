"""Elements of strided arrays by their row-major number."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.ir.semantics.conversion import to_float64


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """The shape of an array; memory that is no array counts as one dimension."""
    if buffer.shape is not None:
        return buffer.shape
    return ((buffer.high - buffer.low) // buffer.dtype.bytes,)


def elements_of(buffer: Buffer) -> np.ndarray[Any, Any]:
    """The elements in row-major order, as float64. The memory is read now."""
    assert buffer.shape is not None and buffer.strides is not None
    dtype = buffer.dtype
    if not buffer.high - buffer.low:
        return np.zeros(0)
    memory = np.ctypeslib.as_array((ctypes.c_ubyte * (buffer.high - buffer.low)).from_address(buffer.low))
    start = buffer.address - buffer.low
    strides = tuple(s * dtype.bytes for s in buffer.strides)
    view = np.ndarray(buffer.shape, dtype.storage, memory, start, strides)
    return to_float64(np.ascontiguousarray(view).reshape(-1), dtype)


def element_numbers(buffer: Buffer, distances: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The row-major numbers, sorted and each once, of the elements at ``distances`` from element 0.

    Distances that belong to no element are left out; of elements that share memory the first is named.
    """
    shape = shape_of(buffer)
    strides = buffer.strides if buffer.shape is not None and buffer.strides is not None else (1,)
    rest = _increasing(distances.reshape(-1))
    # From the lowest address on, the coordinate along the longest stride is a quotient, and so on.
    rest = rest - sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
    index = [np.zeros_like(rest) for _ in shape]
    inside = np.ones(rest.shape, bool)
    for axis in sorted(range(len(shape)), key=lambda a: -abs(strides[a])):
        n, stride = shape[axis], abs(strides[axis])
        if stride == 0 or n == 1:
            continue
        at = rest // stride
        inside &= (at >= 0) & (at < n)
        rest = rest - at * stride
        index[axis] = at if strides[axis] > 0 else n - 1 - at
    inside &= rest == 0
    number = np.zeros_like(rest)
    for n, at in zip(shape, index):
        number = number * n + at
    return _increasing(number[inside])


def _increasing(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``numbers`` sorted and each once; those of a window of an array are that already."""
    return numbers if (numbers[1:] > numbers[:-1]).all() else np.unique(numbers)
