"""The CUDA runtime of a C++ program on a backend: memory, errors, devices, streams, events.

A method is the C function of its name; what its annotations say of the arguments is how C passes them. Launches and
copies end before the function returns, so that there is nothing to wait for.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import time
from collections.abc import Callable

from tilewright.cpp.host.device import MAX_SHARED, attribute_value, block_fits, fill_properties
from tilewright.cpp.host.errors import STICKY, Error, known_error
from tilewright.cpp.host.memory import Memory, MemoryKind, free_memory, total_memory
from tilewright.runtime.grid import MAX_BLOCKS, MAX_GRID

# How C passes arguments: the names that annotations use. Addresses are plain numbers here.
Address = int
Size = int
Int = int
C_TYPES = {"Address": ctypes.c_size_t, "Size": ctypes.c_size_t, "Int": ctypes.c_int}
RESULTS = {"Error": ctypes.c_int, "Address": ctypes.c_size_t}

VERSION = 13030  # of CUDA, whose Tile C++ this is
_HOST_TO_HOST, _HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE, _DEFAULT = range(5)
_DEFAULT_STREAMS = (0, 1, 2)


class _PointerAttributes(ctypes.Structure):
    """``cudaPointerAttributes`` of our header."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("devicePointer", ctypes.c_size_t),
        ("hostPointer", ctypes.c_size_t),
    )


Configuration = tuple[tuple[int, int, int], tuple[int, int, int]]  # grid and block


class Runtime:
    """The state of the runtime, and its functions. ``launch`` runs a kernel: address of its stub, configuration (None
    for one that was refused), addresses of its arguments."""

    def __init__(self, launch: Callable[[Runtime, int, Configuration | None, int], Error]) -> None:
        self.memory = Memory()
        self._launch = launch
        self._last = Error.Success
        self._broken: Error | None = None
        self._streams = set(_DEFAULT_STREAMS)
        self._events: dict[int, float | None] = {}  # handle -> when it was recorded
        self._handles = itertools.count(1024)
        # Per thread of the program. A thread of C is a new one to Python in every call, so that it has no locals.
        self._configurations: dict[int, Configuration] = {}
        self._said: set[str] = set()  # the entries that were said to be unsupported
        self._texts: dict[str, ctypes.Array[ctypes.c_char]] = {}

    def report(self, error: Error) -> Error:
        """Note the outcome of a function; after a failure of the device every outcome is that failure."""
        if error in STICKY:
            self._broken = error
        error = self._broken or error
        if error is not Error.Success:
            self._last = error
        return error

    # -- memory

    def cudaMalloc(self, address: Address, size: Size) -> Error:
        return self._allocated(address, size, MemoryKind.DEVICE)

    def _allocated(self, address: int, size: int, kind: MemoryKind) -> Error:
        if not address:
            return Error.ErrorInvalidValue
        found = self.memory.allocate(size, kind) if size else 0
        if found is None:
            return Error.ErrorMemoryAllocation
        _write(address, ctypes.c_size_t, found)
        return Error.Success

    def cudaMallocAsync(self, address: Address, size: Size, stream: Address) -> Error:
        return self._on(stream) or self.cudaMalloc(address, size)

    def cudaMallocManaged(self, address: Address, size: Size, flags: Int) -> Error:
        valid = size and flags in (1, 2)
        return self._allocated(address, size, MemoryKind.MANAGED) if valid else Error.ErrorInvalidValue

    def cudaMallocHost(self, address: Address, size: Size) -> Error:
        return self._allocated(address, size, MemoryKind.HOST)

    def cudaHostAlloc(self, address: Address, size: Size, flags: Int) -> Error:
        return self._allocated(address, size, MemoryKind.HOST) if 0 <= flags < 8 else Error.ErrorInvalidValue

    def cudaFree(self, address: Address) -> Error:
        return Error.Success if not address or self.memory.free(address) else Error.ErrorInvalidValue

    def cudaFreeAsync(self, address: Address, stream: Address) -> Error:
        return self._on(stream) or self.cudaFree(address)

    def cudaFreeHost(self, address: Address) -> Error:
        return self.cudaFree(address)

    def cudaMemcpy(self, target: Address, source: Address, size: Size, kind: Int) -> Error:
        if not _HOST_TO_HOST <= kind <= _DEFAULT:
            return Error.ErrorInvalidMemcpyDirection
        if size == 0:
            return Error.Success
        sides = ((target, (_HOST_TO_DEVICE, _DEVICE_TO_DEVICE)), (source, (_DEVICE_TO_HOST, _DEVICE_TO_DEVICE)))
        for address, kinds in sides:
            # Of host memory nothing is known, unless it is memory that the runtime gave out.
            checked = kind in kinds or self.memory.bounds(address) is not None
            if not address or (checked and not self.memory.holds(address, size)):
                return Error.ErrorInvalidValue
        ctypes.memmove(target, source, size)
        return Error.Success

    def cudaMemcpyAsync(self, target: Address, source: Address, size: Size, kind: Int, stream: Address) -> Error:
        return self._on(stream) or self.cudaMemcpy(target, source, size, kind)

    def cudaMemset(self, address: Address, value: Int, size: Size) -> Error:
        if size and not self.memory.holds(address, size):
            return Error.ErrorInvalidValue
        ctypes.memset(address, value & 255, size)
        return Error.Success

    def cudaMemsetAsync(self, address: Address, value: Int, size: Size, stream: Address) -> Error:
        return self._on(stream) or self.cudaMemset(address, value, size)

    def cudaPointerGetAttributes(self, attributes: Address, address: Address) -> Error:
        if not attributes:
            return Error.ErrorInvalidValue
        found = _PointerAttributes.from_address(attributes)
        kind = self.memory.kind(address)
        found.type, found.device = kind, -2 if kind is MemoryKind.UNREGISTERED else 0
        found.devicePointer = 0 if kind is MemoryKind.UNREGISTERED else address
        found.hostPointer = 0 if kind is MemoryKind.DEVICE else address
        return Error.Success

    def cudaMemGetInfo(self, free: Address, total: Address) -> Error:
        if not free or not total:
            return Error.ErrorInvalidValue
        _write(free, ctypes.c_size_t, free_memory())
        _write(total, ctypes.c_size_t, total_memory())
        return Error.Success

    # -- errors

    def cudaGetLastError(self) -> Error:
        last, self._last = self._last, self._broken or Error.Success
        return last

    def cudaPeekAtLastError(self) -> Error:
        return self._last

    def cudaGetErrorString(self, error: Int) -> Address:
        known = known_error(error)
        return self._text(known.text if known is not None else "unrecognized error code")

    def cudaGetErrorName(self, error: Int) -> Address:
        known = known_error(error)
        return self._text(f"cuda{known.name}" if known is not None else "unrecognized error code")

    def _text(self, text: str) -> int:
        """The address of a C string, which stays valid."""
        return ctypes.addressof(self._texts.setdefault(text, ctypes.create_string_buffer(text.encode())))

    # -- devices

    def cudaGetDevice(self, device: Address) -> Error:
        return _answer(device, 0)

    def cudaSetDevice(self, device: Int) -> Error:
        return Error.Success if device == 0 else Error.ErrorInvalidDevice

    def cudaGetDeviceCount(self, count: Address) -> Error:
        return _answer(count, 1)

    def cudaGetDeviceProperties(self, properties: Address, device: Int) -> Error:
        if device != 0 or not properties:
            return Error.ErrorInvalidValue if device == 0 else Error.ErrorInvalidDevice
        fill_properties(properties)
        return Error.Success

    def cudaDeviceGetAttribute(self, value: Address, attribute: Int, device: Int) -> Error:
        if device != 0:
            return Error.ErrorInvalidDevice
        found = attribute_value(attribute)
        return Error.ErrorInvalidValue if found is None else _answer(value, found)

    def cudaDeviceSynchronize(self) -> Error:
        return Error.Success

    def cudaDeviceReset(self) -> Error:
        self.memory.clear()
        self._broken, self._last = None, Error.Success
        return Error.Success

    def cudaDriverGetVersion(self, version: Address) -> Error:
        return _answer(version, VERSION)

    def cudaRuntimeGetVersion(self, version: Address) -> Error:
        return _answer(version, VERSION)

    # -- streams and events

    def cudaStreamCreate(self, stream: Address) -> Error:
        return self.cudaStreamCreateWithFlags(stream, 0)

    def cudaStreamCreateWithFlags(self, stream: Address, flags: Int) -> Error:
        if not stream or flags not in (0, 1):
            return Error.ErrorInvalidValue
        handle = next(self._handles)
        self._streams.add(handle)
        _write(stream, ctypes.c_size_t, handle)
        return Error.Success

    def cudaStreamDestroy(self, stream: Address) -> Error:
        if stream in _DEFAULT_STREAMS or stream not in self._streams:
            return Error.ErrorInvalidResourceHandle
        self._streams.remove(stream)
        return Error.Success

    def cudaStreamSynchronize(self, stream: Address) -> Error:
        return self._on(stream)

    def cudaStreamQuery(self, stream: Address) -> Error:
        return self._on(stream)

    def cudaStreamWaitEvent(self, stream: Address, event: Address, flags: Int) -> Error:
        return self._on(stream) or self._known(event)

    def cudaEventCreate(self, event: Address) -> Error:
        return self.cudaEventCreateWithFlags(event, 0)

    def cudaEventCreateWithFlags(self, event: Address, flags: Int) -> Error:
        if not event or flags not in range(4):
            return Error.ErrorInvalidValue
        handle = next(self._handles)
        self._events[handle] = None
        _write(event, ctypes.c_size_t, handle)
        return Error.Success

    def cudaEventRecord(self, event: Address, stream: Address) -> Error:
        error = self._on(stream) or self._known(event)
        if not error:
            self._events[event] = time.perf_counter()
        return error

    def cudaEventSynchronize(self, event: Address) -> Error:
        return self._known(event)

    def cudaEventQuery(self, event: Address) -> Error:
        return self._known(event)

    def cudaEventElapsedTime(self, milliseconds: Address, begin: Address, end: Address) -> Error:
        if not milliseconds:
            return Error.ErrorInvalidValue
        times = [self._events.get(event) for event in (begin, end)]
        if times[0] is None or times[1] is None:
            return Error.ErrorInvalidResourceHandle
        _write(milliseconds, ctypes.c_float, (times[1] - times[0]) * 1e3)
        return Error.Success

    def cudaEventDestroy(self, event: Address) -> Error:
        error = self._known(event)
        self._events.pop(event, None)
        return error

    def _on(self, stream: int) -> Error:
        return Error.Success if stream in self._streams else Error.ErrorInvalidResourceHandle

    def _known(self, event: int) -> Error:
        return Error.Success if event in self._events else Error.ErrorInvalidResourceHandle

    # -- launches

    def __tw_host_report(self, error: Int) -> Error:
        return known_error(error) or Error.ErrorUnknown

    def __tw_host_unsupported(self, name: Address) -> Error:
        entry = ctypes.string_at(name).decode()
        if entry not in self._said:
            self._said.add(entry)
            print(
                f"tilewright: {entry} is not supported; it returns cudaErrorNotSupported", file=sys.stderr, flush=True
            )
        return Error.ErrorNotSupported

    def __tw_host_configure(
        self, gx: Int, gy: Int, gz: Int, bx: Int, by: Int, bz: Int, shared: Size, stream: Address
    ) -> Error:
        self._configurations.pop(threading.get_ident(), None)
        grid = gx, gy, gz
        if self._on(stream):
            return Error.ErrorInvalidResourceHandle
        # The launch itself runs into a configuration that is refused here: nothing is there then.
        block = bx, by, bz
        if not all(1 <= n <= MAX_GRID for n in grid) or gx * gy * gz > MAX_BLOCKS:
            return Error.ErrorInvalidConfiguration
        if not block_fits(block) or shared > MAX_SHARED:
            return Error.ErrorInvalidConfiguration
        self._configurations[threading.get_ident()] = grid, block
        return Error.Success

    def __tw_host_launch(self, function: Address, arguments: Address) -> Error:
        configuration = self._configurations.pop(threading.get_ident(), None)
        if self._broken is not None:
            return self._broken
        return self._launch(self, function, configuration, arguments)


NAMES = {name.removeprefix("_Runtime"): name for name in vars(Runtime) if name.startswith(("cuda", "_Runtime__tw_"))}
QUERIES = frozenset({"cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorString", "cudaGetErrorName"})


def _write(address: int, c_type: type[ctypes.c_size_t | ctypes.c_int | ctypes.c_float], value: float) -> None:
    c_type.from_address(address).value = value


def _answer(address: int, value: int) -> Error:
    """Write an ``int`` where a function was asked to."""
    if not address:
        return Error.ErrorInvalidValue
    _write(address, ctypes.c_int, value)
    return Error.Success
