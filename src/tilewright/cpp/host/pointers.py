"""Pointers of a C++ program into memory that it got from the runtime, as arrays that kernels take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class DevicePointer:
    """A pointer into an allocation of the CPU: everything in its bounds, before it and after."""

    def __init__(self, address: int, bounds: tuple[int, int], dtype: np.dtype[Any]) -> None:
        size = dtype.itemsize
        before, after = (address - bounds[0]) // size, (bounds[1] - address) // size
        # Two dimensions, of which one counts downwards: an array cannot say otherwise that memory lies before it.
        self.__array_interface__: Mapping[str, Any] = {
            "version": 3,
            "typestr": _typestr(dtype),
            "data": (address, False),
            "shape": (before + 1, after),
            "strides": (-size, size),
        }


class GpuPointer:
    """A pointer to memory that a GPU uses, as an array of what lies after it: nothing is checked there."""

    def __init__(self, address: int, bounds: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.__cuda_array_interface__: Mapping[str, Any] = {
            "version": 3,
            "typestr": _typestr(dtype),
            "data": (address, False),
            "shape": ((bounds[1] - address) // dtype.itemsize,),
            "strides": (dtype.itemsize,),
        }


def _typestr(dtype: np.dtype[Any]) -> str:
    """What an array interface calls ``dtype``: the protocol has no 8-bit floats, which have a name here."""
    return dtype.str if dtype.isbuiltin == 1 else dtype.name
