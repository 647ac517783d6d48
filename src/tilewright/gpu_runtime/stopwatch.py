"""Timing launches on a GPU, by events on their stream."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from tilewright.gpu_runtime import driver

_L2_BYTES = 38  # a device attribute of the CUDA driver API
_DEFAULT_L2 = 64 << 20  # where the driver does not say


def elapsed(launch: Callable[[], None], stream: int, device: driver.Device, *, flush_cache: bool) -> float:
    """The seconds that what ``launch`` queues on ``stream`` takes on ``device``; returns when it has ended.

    With ``flush_cache`` memory of twice the size of the L2 cache is overwritten first. CudaError when the driver
    refuses something, or the launch has failed.
    """
    with device.current():
        return _elapsed(launch, stream, device.index if flush_cache else None)


def _elapsed(launch: Callable[[], None], stream: int, to_flush: int | None) -> float:
    handle = ctypes.c_void_p(stream)
    start, end = ctypes.c_void_p(), ctypes.c_void_p()
    for event in (start, end):
        driver.call("cuEventCreate", ctypes.byref(event), 0)
    try:
        if to_flush is not None:
            address, size = _scratch(to_flush)
            driver.call("cuMemsetD8Async", ctypes.c_uint64(address), 0, ctypes.c_size_t(size), handle)
        driver.call("cuEventRecord", start, handle)
        launch()
        driver.call("cuEventRecord", end, handle)
        driver.call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
    finally:
        for event in (start, end):
            driver.call("cuEventDestroy_v2", event)
    return milliseconds.value * 1e-3


@functools.cache
def _scratch(device: int) -> tuple[int, int]:
    """Memory on ``device`` that is kept for flushing its cache: address and bytes."""
    cache = ctypes.c_int()
    driver.call("cuDeviceGetAttribute", ctypes.byref(cache), _L2_BYTES, device)
    size = 2 * (cache.value or _DEFAULT_L2)
    address = ctypes.c_uint64()
    driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    return address.value, size
