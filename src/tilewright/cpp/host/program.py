"""Running a C++ program: its host part in this process, its tile kernels on a backend."""

from __future__ import annotations

import ctypes
import enum
import functools
import os
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.backends.cpu.threads import POOL, thread_count
from tilewright.backends.deadlock import OTHERS, Others
from tilewright.backends.launch_arguments import REACHABLE, Buffer
from tilewright.cpp.host import crashes
from tilewright.cpp.host.build import NO_LIBRARIES, HostUnit, Libraries, build_unit, link_units
from tilewright.cpp.host.findings import CALLBACK, Reporter, read
from tilewright.cpp.host.modules import Modules
from tilewright.cpp.host.pointers import DevicePointer, GpuPointer
from tilewright.cpp.module import Kernel
from tilewright.cpp.translation import Request, kernel_key, launched_functions
from tilewright.ir.core import Function
from tilewright.ir.dtypes import uint8
from tilewright.ir.errors import TileError, TileSyntaxError
from tilewright.ir.types import ElementType, PointerType
from tilewright.runtime.arrays import RuntimeValues
from tilewright.runtime.backend_choice import requested, usable
from tilewright.runtime.cache import disk_cache
from tilewright.runtime.launch import launch
from tilewright.system.forks import load

_AT_EXIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
_MAIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_LAUNCHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_void_p)
_ALIGNMENT = 256  # of what cudaMalloc gives
_PT_DYNAMIC = 2
_LATE = {25: 0x6AAA0019, 27: 0x6AAA001B}  # DT_INIT_ARRAY and DT_INIT_ARRAYSZ, as `state.cpp` has them
_FAILED = "assertion failed"
_ILLEGAL = ("outside", "lies in no array", "which is a null pointer")  # in what errors of accesses say


# Gives the exit status of the process where the program ends it.
AtExit = Callable[[Callable[[], int]], int]


class _Error(enum.IntEnum):
    """What a launch can end with, as the runtime numbers it."""

    SUCCESS = 0
    UNKNOWN = 999
    ILLEGAL_ADDRESS = 700
    ASSERT = 710
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILURE = 719


_CATEGORIES = {_Error.ILLEGAL_ADDRESS: b"dangling-pointer", _Error.MISALIGNED_ADDRESS: b"misaligned-access"}


class _Stop(Exception):
    """The program gets an error code."""

    def __init__(self, error: _Error, message: str) -> None:
        super().__init__(message)
        self.error = error


def run(
    requests: Sequence[Request],
    arguments: Sequence[str],
    libraries: Libraries = NO_LIBRARIES,
    backend: str | None = None,
    reporter: Reporter | None = None,
    at_exit: AtExit = lambda end: end(),
) -> int:
    """Run the ``main`` of a program, whose files are ``requests``; returns its exit status. ``backend`` names the
    backend of its kernels, which are compiled before ``main`` begins. With a ``reporter`` the accesses of SIMT kernels
    are checked. ``at_exit`` gives the status of the process that the program ends by ``exit``, or by a signal, and gets
    what returns that of the program, or raises as this function does.

    TileError, before anything runs, for what is wrong with the program. A kernel that fails while it runs is reported
    on the standard error stream, and the program gets an error code.
    """
    units = [build_unit(request if reporter is None else request.checked()) for request in requests]
    kernels = {key: kernel for request, unit in zip(requests, units) for key, kernel in _kernels(request, unit).items()}
    binary = link_units(units, libraries)
    name = requested(backend)
    on_gpu = reporter is None and name is not None and usable(name).device == "cuda"
    files = load("tilewright.cpp.gpu.program").simt_files(requests, units) if on_gpu else None
    _compile(list(kernels.values()), backend, on_gpu=on_gpu)
    return _Process(binary, kernels, backend, reporter, files).run(requests[0].name, arguments, at_exit)


def _kernels(request: Request, unit: HostUnit) -> dict[str, Kernel]:
    """The tile kernels of a file, by their keys."""
    wanted = [(kernel.symbol, kernel.pieces) for kernel in unit.kernels]
    functions = launched_functions(request, wanted) if wanted else []
    keys = [kernel_key(unit.number, kernel.symbol) for kernel in unit.kernels]

    def checked(number: int) -> Function:
        return launched_functions(request.checked(), wanted)[number]

    return {
        key: Kernel(kernel.name, function, functools.partial(checked, number), None, request)
        for number, (key, kernel, function) in enumerate(zip(keys, unit.kernels, functions))
    }


def _compile(kernels: Sequence[Kernel], backend: str | None, *, on_gpu: bool = False) -> None:
    """Compile ``kernels`` for pointers from cudaMalloc, so that launches do not wait for it, which programs time."""
    if not kernels:
        return
    memory = np.empty(2 * _ALIGNMENT, np.uint8)
    address = load("tilewright.cpp.gpu.program").allocate(2 * _ALIGNMENT) if on_gpu else memory.ctypes.data
    start = -(-address // _ALIGNMENT) * _ALIGNMENT
    pointer = GpuPointer if on_gpu else DevicePointer

    def argument(declared: ElementType | None) -> Any:
        if isinstance(declared, PointerType):
            return pointer(start, (start, start + _ALIGNMENT), _storage(declared))
        assert declared is not None
        return np.zeros((), declared.storage)[()]

    def prepare(some: Sequence[Kernel]) -> None:
        for kernel in some:
            arguments = tuple(argument(rule.declared) for _, rule in kernel.parameters)
            kernel.plan_for(arguments, backend, RuntimeValues())

    prepare(kernels[:1])
    found = kernels[0].inspect().specializations if kernels else ()
    if not on_gpu and len(kernels) > 2 and found and found[0].compilation.origin == "compiled":
        _in_processes(prepare, kernels[1:])
    prepare(kernels[1:])


def _in_processes(prepare: Callable[[Sequence[Kernel]], None], kernels: Sequence[Kernel]) -> None:
    """Fill the disk cache with what ``prepare`` compiles for ``kernels``, in several processes. What goes wrong
    there is found again by who reads the cache."""
    workers = min(len(kernels), thread_count())
    if workers < 2 or disk_cache() is None or not hasattr(os, "fork"):
        return
    sys.stdout.flush()
    children = []
    for number in range(workers):
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                for stream in (1, 2):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
                prepare(kernels[number::workers])
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


class _Process:
    """A loaded program."""

    def __init__(
        self,
        binary: bytes,
        kernels: dict[str, Kernel],
        backend: str | None,
        reporter: Reporter | None,
        simt: Sequence[Any] | None,
    ) -> None:
        """``simt`` are the SIMT kernels of a program that runs on a GPU."""
        self._library, file = _loaded(binary)
        self._kernels = kernels
        self._backend = backend
        self._failure: BaseException | None = None
        self._c = ctypes.CDLL(None)
        self._bounds = self._library["__tw_memory_bounds"]
        self._bounds.argtypes = (ctypes.c_size_t, ctypes.c_void_p)
        self._allocations = self._library["__tw_memory_allocations"]
        self._allocations.argtypes, self._allocations.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_size_t
        POOL.share(self._library["__tw_take_threads"], self._library["__tw_give_threads"])
        takes_part, is_stuck = self._library["__tw_takes_part"], self._library["__tw_is_stuck"]
        takes_part.argtypes = is_stuck.argtypes = (ctypes.c_size_t, ctypes.c_int)
        self._others = Others(takes_part, is_stuck)
        self._launcher = _LAUNCHER(self._guarded)
        self._library["__tw_set_launcher"](self._launcher)
        self._pointer = DevicePointer if simt is None else GpuPointer
        self._simt: Any = None
        if simt is not None:
            self._simt = load("tilewright.cpp.gpu.program").SimtPrograms(self._library, simt, _say)
        prepare = functools.partial(_compile, backend=backend, on_gpu=simt is not None)
        images = {"": file}
        self._modules = Modules(self._library, kernels, prepare, images, self._simt, checked=reporter is not None)
        words = [word.encode() for word in crashes.command(file)]
        self._locator = crashes.locator(images)
        self._library["__tw_set_crash_command"]((ctypes.c_char_p * len(words))(*words), len(words), self._locator)
        self._tile_teller = crashes.tile_teller(kernels.values())
        self._library["__tw_set_tile_teller"](self._tile_teller)
        if reporter is not None:
            self._reporter = CALLBACK(functools.partial(self._report, reporter))
            self._library["__tw_set_reporter"](self._reporter)

    def run(self, name: str, arguments: Sequence[str], at_exit: AtExit) -> int:
        """Call constructors of global objects, and ``main``. What went wrong in this process meanwhile is raised."""
        if not hasattr(self._library, "main"):
            raise TileSyntaxError(f"{name} has no function main; kernels alone are launched from Python, by ct.launch")
        words = [os.fsencode(word) for word in (name, *arguments)]
        argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        sys.stdout.flush()
        ends = _AT_EXIT(lambda status: at_exit(functools.partial(self._ended, status)))
        self._library["__tw_set_at_exit"](ends)
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a handler of Python would wait for the end of main
        try:
            self._library["__tw_begin"](len(words), argv)
            status = _MAIN(("main", self._library))(len(words), ctypes.addressof(argv), None)
            self._library["__tw_finish"]()
        finally:
            self._library["__tw_set_at_exit"](None)
            signal.signal(signal.SIGINT, before)
            self._c.fflush(None)
        return self._ended(status & 255)

    def _ended(self, status: int) -> int:
        """The exit status of the program, which has said ``status``. What went wrong in this process is raised."""
        if self._failure is not None:
            raise self._failure
        return status

    def _report(self, reporter: Reporter, rows: Any, count: int) -> int:
        """What a launch of a SIMT kernel found; an exception is raised after ``main``, as of launches."""
        try:
            reporter(read(rows, count))
        except BaseException as e:  # noqa: BLE001 - it is raised again when main has returned
            self._failure = self._failure or e
            return _Error.UNKNOWN
        return _Error.SUCCESS

    def _guarded(self, key: bytes, grid: Any, slots: int) -> int:
        """A launch. An exception that the program cannot get, as it cannot pass through C, is raised after ``main``."""
        try:
            return self._launch(self._kernels[key.decode()], tuple(grid[:3]), slots or 0)
        except BaseException as e:  # noqa: BLE001 - it is raised again when main has returned
            self._failure = self._failure or e
            return _Error.UNKNOWN

    def _launch(self, kernel: Kernel, grid: tuple[int, int, int], slots: int) -> _Error:
        token, others = REACHABLE.set(self._reachable), OTHERS.set(self._others)
        try:
            stream = None if self._simt is None else self._simt.stream()
            launch(stream, grid, kernel, self._arguments(kernel, slots), backend=self._backend)
            if self._simt is not None:
                self._simt.synchronize()
        except _Stop as e:
            self._library["__tw_refuse"](_CATEGORIES[e.error], str(e).encode())
            return e.error
        except (TileError, TypeError, ValueError, OverflowError, RuntimeError) as e:
            _say(str(e))
            message = e.message if isinstance(e, TileError) else ""
            illegal = any(words in message for words in _ILLEGAL)
            return _Error.ILLEGAL_ADDRESS if illegal else _Error.ASSERT if _FAILED in message else _Error.LAUNCH_FAILURE
        finally:
            REACHABLE.reset(token)
            OTHERS.reset(others)
            sys.stdout.flush()
        return _Error.SUCCESS

    def _reachable(self) -> list[Buffer]:
        """All memory of the device: kernels may find pointers to it in memory."""
        room = self._allocations(None, 0)
        bounds = (ctypes.c_size_t * (2 * room))()
        count = min(self._allocations(bounds, room), room)
        pairs = zip(bounds[: 2 * count : 2], bounds[1 : 2 * count : 2])
        return [Buffer("device memory", low, low, high, uint8, writable=True) for low, high in pairs]

    def _arguments(self, kernel: Kernel, slots: int) -> tuple[Any, ...]:
        """The arguments whose addresses are in the table at ``slots``."""
        found = []
        for i, (parameter, rule) in enumerate(kernel.parameters):
            address = ctypes.c_size_t.from_address(slots + 8 * i).value
            assert rule.declared is not None
            found.append(self._argument(str(parameter), rule.declared, address))
        return tuple(found)

    def _argument(self, parameter: str, declared: ElementType, address: int) -> Any:
        if not isinstance(declared, PointerType):
            data = ctypes.string_at(address, declared.storage.itemsize)
            return np.frombuffer(data, declared.storage)[0]
        pointer = ctypes.c_size_t.from_address(address).value
        if not pointer:
            return None
        bounds = (ctypes.c_size_t * 2)()
        if not self._bounds(pointer, bounds):
            message = f"{parameter} points to no memory of the device: get it from cudaMalloc or cudaMallocManaged"
            raise _Stop(_Error.ILLEGAL_ADDRESS, message)
        storage = _storage(declared)
        if pointer % storage.itemsize:
            message = f"{parameter} is no multiple of its element size, {storage.itemsize}"
            raise _Stop(_Error.MISALIGNED_ADDRESS, message)
        return self._pointer(pointer, (bounds[0], bounds[1]), storage)


def _storage(declared: PointerType) -> np.dtype[Any]:
    return np.dtype(np.uint8) if declared.pointee is None else declared.pointee.storage


def _loaded(binary: bytes) -> tuple[ctypes.CDLL, Path]:
    """A shared object in this process, and a name of its file that other processes may open. Its own name is gone once
    it is mapped, so that nothing is left behind however the program ends."""
    handle, path = tempfile.mkstemp(suffix=".so", prefix="tilewright-")
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(_without_constructors(binary))
        return ctypes.CDLL(path), Path(f"/proc/{os.getpid()}/fd/{handle}")
    finally:
        Path(path).unlink()


def _without_constructors(binary: bytes) -> bytes:
    """A shared object whose constructors ``__tw_begin`` finds, by tags of its own in the dynamic section, and the
    loader does not: they may launch kernels, and threads that wait for the loader would wait for them."""
    edited = bytearray(binary)
    (headers,), (size, count) = struct.unpack_from("<Q", binary, 32), struct.unpack_from("<HH", binary, 54)
    segments = [struct.unpack_from("<IIQQQQ", binary, headers + i * size) for i in range(count)]
    _, _, start, _, _, length = next(segment for segment in segments if segment[0] == _PT_DYNAMIC)
    for at in range(start, start + length, 16):
        (tag,) = struct.unpack_from("<Q", binary, at)
        if tag in _LATE:
            struct.pack_into("<Q", edited, at, _LATE[tag])
    return bytes(edited)


def _say(text: str) -> None:
    print(f"tilewright: {text}", file=sys.stderr, flush=True)
