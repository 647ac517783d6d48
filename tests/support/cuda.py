"""GPU memory, streams and graphs through the driver alone: arrays of no library."""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilewright.gpu_runtime import driver

_NON_BLOCKING = 1
_CAPTURE_THIS_THREAD = 1


class DeviceArray:
    """An array on GPU ``index`` that tells its memory, but not its device."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, index: int = 0) -> None:
        self.shape, self.dtype, self.index, self.read_only = shape, np.dtype(dtype), index, False
        self.strides: tuple[int, ...] | None = None
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize
        address = ctypes.c_uint64()
        with driver.device(index).current():
            driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(self.nbytes, 1)))
            driver.call("cuMemsetD8_v2", address, 0, ctypes.c_size_t(max(self.nbytes, 1)))
        self.address = address.value
        self.owner: Any = weakref.finalize(self, driver.load().cuMemFree_v2, address)  # type: ignore[union-attr]

    @classmethod
    def of(cls, array: np.ndarray[Any, Any], index: int = 0) -> DeviceArray:
        """A copy of ``array``."""
        made, source = cls(array.shape, array.dtype, index), np.ascontiguousarray(array)
        with driver.device(index).current():
            host = ctypes.c_void_p(source.ctypes.data)
            driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(made.address), host, ctypes.c_size_t(made.nbytes))
        return made

    def view(self, like: np.ndarray[Any, Any], base: np.ndarray[Any, Any]) -> DeviceArray:
        """What ``like``, a view of ``base``, is of ``base``, is of this array."""
        made = object.__new__(DeviceArray)
        made.__dict__.update(self.__dict__)
        made.shape, made.strides, made.owner = like.shape, like.strides, self
        made.address += like.ctypes.data - base.ctypes.data
        return made

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": self.strides,
            "data": (self.address, self.read_only),
            "version": 3,
        }

    def numpy(self, first: int = 0, count: int | None = None) -> np.ndarray[Any, Any]:
        """The array; or ``count`` elements of it as it lies in memory, from ``first`` on."""
        found = np.empty(self.shape if count is None else count, self.dtype)
        with driver.device(self.index).current():
            driver.call("cuCtxSynchronize")
            source = ctypes.c_uint64(self.address + first * self.dtype.itemsize)
            driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), source, ctypes.c_size_t(found.nbytes))
        return found


@contextlib.contextmanager
def stream(index: int = 0) -> Iterator[int]:
    """The handle of a stream of GPU ``index``."""
    made = ctypes.c_void_p()
    with driver.device(index).current():
        driver.call("cuStreamCreate", ctypes.byref(made), _NON_BLOCKING)
    yield made.value or 0
    driver.call("cuStreamDestroy_v2", made)


def synchronize(handle: int) -> None:
    driver.call("cuStreamSynchronize", ctypes.c_void_p(handle))


def recorded(handle: int, work: Callable[[], None]) -> Callable[[], None]:
    """The graph of what ``work`` queues on a stream: calling it queues all that again."""
    graph, ready, on = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(handle)
    driver.call("cuStreamBeginCapture_v2", on, _CAPTURE_THIS_THREAD)
    work()
    driver.call("cuStreamEndCapture", on, ctypes.byref(graph))
    driver.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
    return lambda: driver.call("cuGraphLaunch", ready, on)


def current_device() -> int | None:
    """What other libraries call the current device of this thread; None before any is."""
    found = ctypes.c_int()
    code = driver.load().cuCtxGetDevice(ctypes.byref(found))  # type: ignore[union-attr]
    return None if code else found.value
