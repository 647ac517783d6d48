"""Elements of strided arrays by their row-major number."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.ir.semantics.conversion import to_float64


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """The shape of an array; memory that is no array counts as one dimension."""
    if buffer.shape is not None:
        return buffer.shape
    return ((buffer.high - buffer.low) // buffer.dtype.bytes,)


def values_of(buffer: Buffer) -> np.ndarray[Any, Any]:
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


# An axis of an array with a box in it: distance of neighbours, extent, that of the box, row-major weight, reversed.
_Axis = tuple[int, int, int, int, bool]


def box_numbers(
    buffer: Buffer, distances: np.ndarray[Any, Any], shape: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray[Any, Any] | None:
    """The row-major numbers of the first elements of strided windows, which begin ``distances`` from element 0.

    None unless each is a box of the array's own axes. Boxes of one shape differ in their first number only.
    """
    if buffer.shape is None or buffer.strides is None:
        return None
    found = _axes_of_box(tuple(buffer.shape), tuple(buffer.strides), shape, strides)
    if found is None:
        return None
    lowest, axes = found
    rest, numbers = distances - lowest, np.zeros_like(distances)
    for stride, extent, length, weight, is_reversed in axes:
        at, rest = np.divmod(rest, stride)
        if is_reversed:
            at = extent - 1 - at
        if (at < 0).any() or (at > extent - length).any():
            return None
        numbers = numbers + at * weight
    return None if rest.any() else numbers


@functools.lru_cache(maxsize=1024)
def _axes_of_box(
    extents: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[int, list[_Axis]] | None:
    """The distance of the lowest address, and the axes from the longest stride on; None for no box of this array."""
    wanted = [(step, n) for step, n in zip(steps, shape) if n > 1]
    axes: list[_Axis] = []
    weight, lowest = 1, 0
    for extent, stride in reversed(list(zip(extents, strides))):
        if extent > 1:
            found = next((w for w in wanted if w[0] == stride), None)
            if found is not None:
                wanted.remove(found)
            axes.append((abs(stride), extent, 1 if found is None else found[1], weight, stride < 0))
            lowest += min((extent - 1) * stride, 0)
        weight *= extent
    axes.sort(reverse=True)
    reach = 0  # of the axes with shorter strides: the next one must step over it, so that elements are apart
    for stride, extent, *_ in reversed(axes):
        if stride <= reach:
            return None
        reach += stride * (extent - 1)
    return None if wanted else (lowest, axes)
