"""The part of the CUDA driver that launching needs, through ctypes: no other package is required."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
from collections.abc import Iterator
from typing import Any

from tilewright.ir.errors import TileError
from tilewright.system.forks import DRIVER, fork_aware_lock

_LIBRARIES = ("libcuda.so.1", "nvcuda.dll")

# Names of the CUDA driver API.
_MAX_DYNAMIC_SHARED = 8
_NON_PORTABLE_CLUSTER = 14
_DEVICE_MAJOR, _DEVICE_MINOR, _DEVICE_SHARED, _DEVICE_SMS = 75, 76, 97, 16
_POINTER_DEVICE = 9
_PINNED, _ON_DEVICE, _RELEASE_THRESHOLD = 1, 1, 4
_POOL = struct.Struct("=I4x2I72x")  # kind of memory, kind and number of the device
# Bytes for launches to come, while none has them: an aligned copy of a matrix of 16384x16384 elements of 16 bits.
_KEPT = 1 << 29
_CAPTURING = 1
_RELAXED = 2
# CUDA C++ Programming Guide: what kernels may use without asking, bytes of shared memory and blocks of a cluster.
_STATIC_SHARED, _PORTABLE_CLUSTER = 49152, 8
_OLDEST = 12000  # the first version with tensor maps and launches with attributes
_CANNOT_LOAD = (200, 209, 218, 222)  # an image that is invalid, for no GPU here, or of a version to come
INVALID_VALUE = 1
INVALID_CONTEXT, INVALID_HANDLE, CONTEXT_DESTROYED = 201, 400, 709
# After these the process cannot use a GPU any more: an address beyond memory, a trap, a hang, hardware faults.
LOST = (214, 700, 702, 714, 715, 716, 717, 718, 719)


class CudaError(TileError):
    """A call of the CUDA driver that failed. ``code`` is its error number."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def load() -> Any | None:
    """The driver library, initialized; None where there is no driver or no GPU."""
    library = _library()
    return library if isinstance(library, ctypes.CDLL) else None


def why_not() -> str | None:
    """Why the driver cannot be used."""
    library = _library()
    return library if isinstance(library, str) else None


@functools.lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | str:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return _unusable(library) or library
    return "there is no NVIDIA driver on this machine (libcuda.so.1); use the cpu backend, or a machine with a GPU"


def _unusable(library: Any) -> str | None:
    """Why no kernel can be launched through ``library``, which this initializes; None when it works."""
    version = _version(library)
    if version < _OLDEST:
        return (
            f"the NVIDIA driver of this machine is for CUDA {_dotted(version)}, and kernels need one for CUDA "
            f"{_dotted(_OLDEST)} or later; update the driver"
        )
    code = library.cuInit(0)
    if code:
        said = _words(library, code)
        return f"the NVIDIA driver does not start: {said} (CUDA error {code}); is there a GPU in this machine?"
    count = ctypes.c_int()
    library.cuDeviceGetCount(ctypes.byref(count))
    return None if count.value else "the NVIDIA driver finds no GPU; does CUDA_VISIBLE_DEVICES hide it?"


def _version(library: Any) -> int:
    """The version of CUDA that the driver is for, as 1000 * major + 10 * minor."""
    found = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(found))
    return found.value


def version() -> int:
    """The version of CUDA that the driver is for; 0 where there is none."""
    library = load()
    return 0 if library is None else _version(library)


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def call(name: str, *arguments: Any) -> None:
    """One call of the driver. CudaError when it fails."""
    code = function(name)(*arguments)
    if code:
        raise failure(code, name)


def queried(name: str, *arguments: Any) -> int:
    """The number that a call of the driver writes to where its first argument points."""
    value = ctypes.c_int()
    call(name, ctypes.byref(value), *arguments)
    return value.value


def function(name: str) -> Any:
    """A function of the driver, whose result is an error number."""
    return getattr(load(), name)


def address(name: str) -> int:
    """Where a function of the driver is."""
    found = ctypes.cast(function(name), ctypes.c_void_p).value
    assert found is not None
    return found


def failure(code: int, doing: str) -> CudaError:
    """The error ``code`` of the driver in words."""
    return CudaError(f"{doing}: {_words(load(), code)} (CUDA error {code})", code)


def _words(library: Any | None, code: int) -> str:
    text = ctypes.c_char_p()
    if library is not None:
        library.cuGetErrorString(code, ctypes.byref(text))
    return (text.value or b"unknown error").decode()


class Device:
    """One GPU: its context, and its limits."""

    def __init__(self, index: int) -> None:
        self.index = index
        handle = ctypes.c_int(queried("cuDeviceGet", index))
        attributes = (_DEVICE_MAJOR, _DEVICE_MINOR, _DEVICE_SHARED, _DEVICE_SMS)
        major, minor, self.shared_bytes, self.processors = (
            queried("cuDeviceGetAttribute", which, handle) for which in attributes
        )
        self.capability = major * 10 + minor
        self._context = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), handle)

    @property
    def context(self) -> int:
        return self._context.value or 0

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """A context in which calls of this thread are for this device.

        The context that was current is so again afterwards: it is what other libraries call the current device. For
        them a thread without a context is on the first device, so that a context of that one may stay.
        """
        before = ctypes.c_void_p()
        call("cuCtxGetCurrent", ctypes.byref(before))
        if before.value == self._context.value:
            yield
            return
        call("cuCtxSetCurrent", self._context)
        try:
            yield
        finally:
            if before or self.index:
                call("cuCtxSetCurrent", before)

    def owns(self, stream: int) -> bool:
        """Whether ``stream`` is one of this device; False also for one that does not exist any more."""
        context = ctypes.c_void_p()
        library = load()
        code = library.cuStreamGetCtx(ctypes.c_void_p(stream), ctypes.byref(context)) if library is not None else 1
        return code == 0 and context.value == self._context.value

    @functools.cached_property
    def pool(self) -> ctypes.c_void_p:
        """Where the memory of launches comes from. That of the driver gives all back to the system whenever the program
        waits for the device, which makes the next launch slow."""
        pool, kept = ctypes.c_void_p(), ctypes.c_uint64(_KEPT)
        with beside_captures():
            call("cuMemPoolCreate", ctypes.byref(pool), _POOL.pack(_PINNED, _ON_DEVICE, self.index))
            call("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, ctypes.byref(kept))
        return pool


_devices: dict[int, Device] = {}
_lock = fork_aware_lock(DRIVER)


def device(index: int = 0) -> Device:
    with _lock:
        if index not in _devices:
            _devices[index] = Device(index)
        return _devices[index]


def device_count() -> int:
    """How many GPUs the driver shows."""
    count, library = ctypes.c_int(), load()
    if library is not None:
        library.cuDeviceGetCount(ctypes.byref(count))
    return count.value


def device_of(address: int) -> int | None:
    """The index of the device whose memory ``address`` is in; None where it is in that of none. 0 without a driver."""
    value, library = ctypes.c_int(), load()
    if library is None:
        return 0
    code = library.cuPointerGetAttribute(ctypes.byref(value), _POINTER_DEVICE, ctypes.c_uint64(address))
    return None if code else value.value


def memory(index: int) -> tuple[int, int]:
    """The bytes of device ``index`` that are free, and all of them."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with device(index).current():
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


class LoadedKernel:
    """A kernel's machine code on one device."""

    def __init__(self, code: bytes, symbol: str, shared_bytes: int, num_ctas: int, on: Device) -> None:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.device = on
        self.handle = function
        with on.current(), beside_captures():  # a graph that is being recorded may be what launches it first
            _load_module(module, code)
            call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
            if shared_bytes > _STATIC_SHARED:
                call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared_bytes)
            if num_ctas > _PORTABLE_CLUSTER:
                call("cuFuncSetAttribute", function, _NON_PORTABLE_CLUSTER, 1)


def _load_module(module: ctypes.c_void_p, code: bytes) -> None:
    try:
        call("cuModuleLoadData", ctypes.byref(module), code)
    except CudaError as e:
        if e.code not in _CANNOT_LOAD:
            raise
        raise CudaError(
            f"{e.message}: the driver of this machine, for CUDA {_dotted(_version(load()))}, does not take the machine "
            "code of this kernel's compiler; update the driver, or install an older compiler",
            e.code,
        ) from e


def is_capturing(stream: int) -> bool:
    """Whether a graph records what is queued on ``stream``."""
    state = ctypes.c_int()
    call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(state))
    return state.value == _CAPTURING


@contextlib.contextmanager
def beside_captures() -> Iterator[None]:
    """A context in which this thread may make and free memory, which else ends a graph that is being recorded."""
    mode = ctypes.c_int(_RELAXED)
    call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    try:
        yield
    finally:
        call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
