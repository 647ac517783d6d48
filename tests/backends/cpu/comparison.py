"""Runs a kernel on the CPU and on the reference backend and compares the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.irbuild import run

from tilewright.backends.cpu import BACKEND as CPU
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.core import Function

Arrays = dict[str, Any]


def owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _bytes(array: np.ndarray[Any, Any]) -> Any:
    """The memory of a contiguous array as a buffer of bytes, which not every dtype offers itself."""
    return array.reshape(-1).view(np.uint8).data


def copies(values: Arrays) -> tuple[Arrays, list[np.ndarray[Any, Any]]]:
    """The same arrays in memory of their own, and that memory."""
    copied, memory = dict(values), []
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            base = owner(value).copy()
            offset = value.ctypes.data - owner(value).ctypes.data
            copied[name] = np.ndarray(value.shape, value.dtype, _bytes(base), offset, value.strides)
            memory.append(base)
    return copied, memory


def compare(function: Function, grid: tuple[int, ...] = (1,), rtol: float = 0, **values: Any) -> Arrays:
    """``compare_on`` the CPU backend."""
    return compare_on(CPU, function, grid, rtol, **values)


def compare_on(
    backend: Any, function: Function, grid: tuple[int, ...] = (1,), rtol: float = 0, **values: Any
) -> Arrays:
    """Run on ``backend`` and the reference; every byte around the arrays must agree too. Returns the arrays as the
    backend left them.

    Floats may differ by ``rtol``; NaN equals NaN, whatever its sign and payload.
    """
    ours, memory = copies(values)
    theirs, expected = copies(values)
    run(REFERENCE, function, grid, **theirs)
    run(backend, function, grid, **ours)
    for mine, wanted in zip(memory, expected):
        if mine.dtype.kind in "biu":
            np.testing.assert_array_equal(mine, wanted)
        else:
            np.testing.assert_allclose(mine.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=rtol)
    return ours
