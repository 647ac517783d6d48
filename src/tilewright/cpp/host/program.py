"""Running a C++ program: its host part in this process, its tile kernels on a backend."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.backends.cpu.threads import thread_count
from tilewright.cpp.host.build import HostProgram, build
from tilewright.cpp.host.cuda_runtime import C_TYPES, NAMES, QUERIES, RESULTS, Configuration, Runtime
from tilewright.cpp.host.errors import Error
from tilewright.cpp.host.memory import DevicePointer
from tilewright.cpp.host.stubs import COLUMNS, KERNELS, POINTER
from tilewright.cpp.module import Kernel
from tilewright.cpp.translation import Request, launched_functions
from tilewright.ir.core import Function
from tilewright.ir.errors import TileError, TileSyntaxError
from tilewright.ir.types import ElementType, PointerType
from tilewright.runtime.launch import launch

_MAIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


_FAILED = "assertion failed"


class SimtKernel:
    """A SIMT kernel of a loaded program: the addresses of what runs a block and a thread of it."""

    def __init__(self, library: ctypes.CDLL, block: int, thread: int, waits: bool) -> None:
        self._run = library["__tw_simt_run"]
        self._run.argtypes = (*[ctypes.c_void_p] * 4, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
        self._block, self._thread, self._waits = block, thread, waits

    def launch(self, grid: tuple[int, int, int], block: tuple[int, int, int], arguments: int) -> str:
        """Run all blocks; what went wrong, or nothing."""
        shape, message = (ctypes.c_uint * 6)(*grid, *block), ctypes.create_string_buffer(512)
        self._run(self._block, self._thread, arguments, shape, self._waits, thread_count(), message, len(message))
        return message.value.decode(errors="replace")


class _Stop(Exception):
    """The program gets an error code."""

    def __init__(self, error: Error, message: str) -> None:
        super().__init__(message)
        self.error = error


def run(request: Request, arguments: Sequence[str], backend: str | None = None) -> int:
    """Run the ``main`` of a program; returns its exit status. ``backend`` names the backend of its kernels.

    TileError, before anything runs, for what is wrong with the program. A kernel that fails while it runs is reported
    on the standard error stream, and the program gets an error code.
    """
    host = build(request)
    wanted = [(kernel.symbol, kernel.codes) for kernel in host.kernels]
    functions = launched_functions(request, wanted) if wanted else []

    def checked(number: int) -> Function:
        return launched_functions(request.checked(), wanted)[number]

    kernels = {
        kernel.symbol: Kernel(kernel.name, function, functools.partial(checked, number), None, request)
        for number, (kernel, function) in enumerate(zip(host.kernels, functions))
    }
    return _Process(host, kernels, backend).run(request.name, arguments)


class _Process:
    """A loaded program."""

    def __init__(self, host: HostProgram, kernels: dict[str, Kernel], backend: str | None) -> None:
        self._library = _loaded(host.binary)
        self._backend = backend
        self._failure: BaseException | None = None
        self._c = ctypes.CDLL(None)
        self._kernels: dict[int, Kernel | SimtKernel] = {}  # by the address of the stub
        simt = {kernel.symbol: kernel for kernel in host.simt}
        table = (ctypes.c_void_p * (COLUMNS * len(host.kernels + host.simt))).in_dll(self._library, KERNELS)
        for i in range(0, len(table), COLUMNS):
            symbol = ctypes.string_at(table[i + 1] or 0).decode()
            known = simt.get(symbol)
            self._kernels[table[i] or 0] = (
                kernels[symbol]
                if known is None
                else SimtKernel(self._library, table[i + 2] or 0, table[i + 3] or 0, known.waits)
            )
        runtime = Runtime(self._launch)
        self._callbacks = [self._provide(runtime, name) for name in NAMES if self._asks_for(name)]

    def run(self, name: str, arguments: Sequence[str]) -> int:
        """Call ``main``. What went wrong in this process meanwhile is raised."""
        if not hasattr(self._library, "main"):
            raise TileSyntaxError(f"{name} has no function main; kernels alone are launched from Python, by ct.launch")
        words = [os.fsencode(word) for word in (name, *arguments)]
        argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        sys.stdout.flush()
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a handler of Python would wait for the end of main
        try:
            status = _MAIN(("main", self._library))(len(words), ctypes.addressof(argv), None)
        finally:
            signal.signal(signal.SIGINT, before)
            self._c.fflush(None)
        if self._failure is not None:
            raise self._failure
        return status & 255

    def _asks_for(self, name: str) -> bool:
        return hasattr(self._library, POINTER + name)

    def _provide(self, runtime: Runtime, name: str) -> Any:
        """Make the function ``name`` of the program call ours; returns what must live as long as the program."""
        method = getattr(runtime, NAMES[name])
        types = dict(method.__annotations__)
        result = RESULTS[types.pop("return")]
        guarded = self._guarded(runtime, name, method)
        callback = ctypes.CFUNCTYPE(result, *(C_TYPES[t] for t in types.values()))(guarded)
        ctypes.c_void_p.in_dll(self._library, POINTER + name).value = ctypes.cast(callback, ctypes.c_void_p).value
        return callback

    def _guarded(self, runtime: Runtime, name: str, method: Callable[..., int]) -> Callable[..., int]:
        """``method`` with its outcome noted; an exception, which cannot pass through C, is raised after ``main``."""

        def call(*arguments: int) -> int:
            try:
                found = method(*arguments)
            except BaseException as e:  # noqa: BLE001 - it is raised again when main has returned
                self._failure = self._failure or e
                found = Error.ErrorUnknown
            return int(found if name in QUERIES or not isinstance(found, Error) else runtime.report(found))

        return call

    def _launch(self, runtime: Runtime, stub: int, configuration: Configuration | None, arguments: int) -> Error:
        if stub not in self._kernels:
            return Error.ErrorInvalidDeviceFunction
        kernel = self._kernels[stub]
        if configuration is None:
            return Error.ErrorInvalidConfiguration
        grid, block = configuration
        if isinstance(kernel, SimtKernel):
            message = kernel.launch(grid, block, arguments)
            if message:
                _say(message)
            return (
                Error.Success if not message else Error.ErrorAssert if _FAILED in message else Error.ErrorLaunchFailure
            )
        if block != (1, 1, 1):
            return Error.ErrorInvalidConfiguration
        self._c.fflush(None)  # what the program has printed comes before what the kernel prints
        try:
            launch(None, grid, kernel, _arguments(runtime, kernel, arguments), backend=self._backend)
        except _Stop as e:
            _say(str(e))
            return e.error
        except (TileError, TypeError, ValueError, OverflowError, RuntimeError) as e:
            _say(str(e))
            failed = isinstance(e, TileError) and _FAILED in e.message
            outside = isinstance(e, TileError) and ("outside" in e.message or "lies in no array" in e.message)
            return Error.ErrorAssert if failed else Error.ErrorIllegalAddress if outside else Error.ErrorLaunchFailure
        finally:
            sys.stdout.flush()
        return Error.Success


def _arguments(runtime: Runtime, kernel: Kernel, slots: int) -> tuple[Any, ...]:
    """The arguments whose addresses are in the table at ``slots``."""
    found = []
    for i, (place, rule) in enumerate(kernel.parameters):
        address = ctypes.c_size_t.from_address(slots + 8 * i).value if slots else 0
        if not address:
            raise _Stop(Error.ErrorInvalidValue, f"{place} is missing in the table of arguments")
        assert rule.declared is not None
        found.append(_argument(runtime, str(place), rule.declared, address))
    return tuple(found)


def _argument(runtime: Runtime, place: str, declared: ElementType, address: int) -> Any:
    if not isinstance(declared, PointerType):
        data = ctypes.string_at(address, declared.storage.itemsize)
        return np.frombuffer(data, declared.storage)[0]
    pointer = ctypes.c_size_t.from_address(address).value
    if not pointer:
        return None
    bounds = runtime.memory.bounds(pointer)
    if bounds is None:
        message = f"{place} points to no memory of the device: get it from cudaMalloc or cudaMallocManaged"
        raise _Stop(Error.ErrorIllegalAddress, message)
    storage = np.dtype(np.uint8) if declared.pointee is None else declared.pointee.storage
    if pointer % storage.itemsize:
        raise _Stop(Error.ErrorMisalignedAddress, f"{place} is no multiple of its element size, {storage.itemsize}")
    return DevicePointer(pointer, bounds, storage)


def _loaded(binary: bytes) -> ctypes.CDLL:
    """A shared object in this process, whose file is gone once it is mapped."""
    handle, path = tempfile.mkstemp(suffix=".so", prefix="tilewright-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(binary)
        return ctypes.CDLL(path)
    finally:
        Path(path).unlink()


def _say(text: str) -> None:
    print(f"tilewright: {text}", file=sys.stderr, flush=True)
