"""What the device of C++ programs says of itself: one table for ``cudaDeviceProp`` and ``cudaDeviceGetAttribute``.

The device is this machine: a processor is a multiprocessor. What CPUs have no notion of is as on GPUs of compute
capability 9.0, so that programs choose the sizes that they choose there.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from collections.abc import Mapping

from tilewright.cpp.host.memory import total_memory
from tilewright.runtime.grid import MAX_GRID

MAX_THREADS = 1024  # of a block
SHARED_MEMORY = 48 << 10  # bytes of a block that did not ask for more
MAX_SHARED = 227 << 10

# Field of cudaDeviceProp -> the numbers of the attributes with its value.
_ATTRIBUTES: Mapping[str, tuple[int, ...]] = {
    "maxThreadsPerBlock": (1,),
    "sharedMemPerBlock": (8,),
    "totalConstMem": (9,),
    "warpSize": (10,),
    "memPitch": (11,),
    "regsPerBlock": (12,),
    "textureAlignment": (14,),
    "asyncEngineCount": (15, 40),
    "multiProcessorCount": (16,),
    "integrated": (18,),
    "canMapHostMemory": (19,),
    "concurrentKernels": (31,),
    "ECCEnabled": (32,),
    "pciBusID": (33,),
    "pciDeviceID": (34,),
    "tccDriver": (35,),
    "memoryBusWidth": (37,),
    "l2CacheSize": (38,),
    "maxThreadsPerMultiProcessor": (39,),
    "unifiedAddressing": (41,),
    "pciDomainID": (50,),
    "major": (75,),
    "minor": (76,),
    "streamPrioritiesSupported": (78,),
    "sharedMemPerMultiprocessor": (81,),
    "regsPerMultiprocessor": (82,),
    "managedMemory": (83,),
    "isMultiGpuBoard": (84,),
    "pageableMemoryAccess": (88, 100),
    "concurrentManagedAccess": (89, 101),
    "cooperativeLaunch": (95,),
    "sharedMemPerBlockOptin": (97,),
    "hostRegisterSupported": (99,),
    "maxBlocksPerMultiProcessor": (106,),
    "memoryPoolsSupported": (115,),
    "clusterLaunch": (120,),
}
# Attributes that are no field: clock rates in kHz, of the processor and of its memory; the time limit of kernels; the
# compute mode.
_OTHERS = {13: 1_000_000, 36: 1_600_000, 17: 0, 20: 0}
_SIZES = (
    *("totalGlobalMem", "sharedMemPerBlock", "memPitch", "totalConstMem", "textureAlignment"),
    *("sharedMemPerMultiprocessor", "sharedMemPerBlockOptin"),
)
_INTEGERS_BEFORE = ("major", "minor", "multiProcessorCount", "warpSize", "maxThreadsPerBlock", "regsPerBlock")
_INTEGERS_AFTER = (
    *("unifiedAddressing", "managedMemory", "concurrentKernels", "integrated", "canMapHostMemory", "ECCEnabled"),
    *("pciBusID", "pciDeviceID", "pciDomainID", "tccDriver", "asyncEngineCount", "memoryBusWidth", "l2CacheSize"),
    *("maxThreadsPerMultiProcessor", "regsPerMultiprocessor", "streamPrioritiesSupported", "isMultiGpuBoard"),
    *("pageableMemoryAccess", "concurrentManagedAccess", "cooperativeLaunch", "maxBlocksPerMultiProcessor"),
    *("hostRegisterSupported", "memoryPoolsSupported", "clusterLaunch"),
)


class _Properties(ctypes.Structure):
    """``cudaDeviceProp`` of our header."""

    _fields_ = (
        ("name", ctypes.c_char * 256),
        *((name, ctypes.c_size_t) for name in _SIZES),
        *((name, ctypes.c_int) for name in _INTEGERS_BEFORE),
        ("maxThreadsDim", ctypes.c_int * 3),
        ("maxGridSize", ctypes.c_int * 3),
        *((name, ctypes.c_int) for name in _INTEGERS_AFTER),
    )


@functools.cache
def _properties() -> dict[str, int]:
    """The fields that are numbers and not 0."""
    return {
        "totalGlobalMem": total_memory(),
        "sharedMemPerBlock": SHARED_MEMORY,
        "sharedMemPerBlockOptin": MAX_SHARED,
        "sharedMemPerMultiprocessor": MAX_SHARED,
        "memPitch": (1 << 31) - 1,
        "totalConstMem": 64 << 10,
        "textureAlignment": 512,
        "major": 9,
        "multiProcessorCount": os.cpu_count() or 1,
        "warpSize": 32,
        "maxThreadsPerBlock": MAX_THREADS,
        "maxThreadsPerMultiProcessor": 2 * MAX_THREADS,
        "maxBlocksPerMultiProcessor": 32,
        "regsPerBlock": 1 << 16,
        "regsPerMultiprocessor": 1 << 16,
        "memoryBusWidth": 128,
        "l2CacheSize": 32 << 20,
        **dict.fromkeys(("unifiedAddressing", "managedMemory", "integrated", "canMapHostMemory"), 1),
        **dict.fromkeys(("pageableMemoryAccess", "concurrentManagedAccess", "asyncEngineCount"), 1),
        **dict.fromkeys(("hostRegisterSupported", "memoryPoolsSupported"), 1),
    }


def block_fits(block: tuple[int, int, int]) -> bool:
    """Whether a block may have so many threads."""
    x, y, z = block
    return min(block) >= 1 and z <= 64 and x * y * z <= MAX_THREADS


def fill_properties(address: int) -> None:
    """Write the ``cudaDeviceProp`` at ``address``."""
    ctypes.memset(address, 0, ctypes.sizeof(_Properties))
    found = _Properties.from_address(address)
    found.name = f"tilewright on {platform.machine()}".encode()
    found.maxThreadsDim[:] = [MAX_THREADS, MAX_THREADS, 64]
    found.maxGridSize[:] = [MAX_GRID] * 3
    for name, value in _properties().items():
        setattr(found, name, value)


def attribute_value(attribute: int) -> int | None:
    """The value of a ``cudaDeviceAttr``; None for a number that is none, or that is not known here."""
    if attribute in (2, 3, 4):
        return (MAX_THREADS, MAX_THREADS, 64)[attribute - 2]
    if attribute in (5, 6, 7):
        return MAX_GRID
    if attribute in _OTHERS:
        return _OTHERS[attribute]
    field = next((field for field, numbers in _ATTRIBUTES.items() if attribute in numbers), None)
    return None if field is None else _properties().get(field, 0)
