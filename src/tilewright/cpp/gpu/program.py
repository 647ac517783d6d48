"""A C++ program on a GPU: memory that both sides see at the same addresses, and launches of SIMT kernels.

Launches end before they return, as on a CPU. Variables of the device are kept twice, by the host's functions for them
and by the module of each file: they are copied to the GPU before a launch, and what it has changed back after it.
"""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.cpp.gpu import nvcc, nvrtc
from tilewright.cpp.host.stubs import VARIABLES
from tilewright.cpp.translation import Made, Request, file_number, through_cache
from tilewright.gpu_runtime import driver
from tilewright.system.forks import load

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t, ctypes.c_void_p
)
_ATTACH_GLOBAL = 1
_MAX_DYNAMIC_SHARED, _STATIC_SHARED = 8, 49152
_NOT_FOUND, _UNKNOWN = 500, 999


@dataclass(frozen=True)
class SimtFile:
    """The code of the SIMT kernels of a file of the program, the names that it has for them and for variables, and the
    name of the table of these."""

    kernels: Mapping[str, str]
    variables: Mapping[str, str]
    code: bytes
    table: str


def simt_files(requests: Sequence[Request]) -> list[SimtFile]:
    """The SIMT kernels of a program, for the GPU of this machine. TileError for what it cannot have there."""
    target, found = f"sm_{driver.device().capability}", []

    def device_code(request: Request) -> Made:
        made: Made = load("tilewright.cpp.host.units").device_code(request, target)
        return made

    for request in requests:
        make = functools.partial(device_code, request)
        made = through_cache(request, f"SIMT kernels for {target}, {nvcc.identity()}, {nvrtc.identity()}", make)
        head, _, code = made.partition(b"\n")
        if code:
            kernels, variables = json.loads(head)
            found.append(SimtFile(kernels, variables, code, VARIABLES + file_number(request)))
    return found


def allocate(size: int) -> int:
    """The address of managed memory; 0 where there is not as much."""
    address = ctypes.c_uint64()
    try:
        with driver.device().current():
            driver.call("cuMemAllocManaged", ctypes.byref(address), ctypes.c_size_t(size), _ATTACH_GLOBAL)
    except driver.CudaError:
        return 0
    return address.value


def release(address: int | None) -> None:
    """Free what ``allocate`` gave."""
    with driver.device().current():
        driver.call("cuMemFree_v2", ctypes.c_uint64(address or 0))


class SimtPrograms:
    """The modules of a program on the GPU. ``say`` gets what went wrong in a launch."""

    def __init__(self, library: ctypes.CDLL, files: Sequence[SimtFile], say: Callable[[str], None]) -> None:
        self._say = say
        self._symbol = library["__tw_symbol"]
        self._symbol.argtypes, self._symbol.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_void_p
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._variables: dict[str, list[tuple[int, int, int]]] = {}  # address here and there, and bytes
        with driver.device().current():
            for file in files:
                self._load(library, file)
        self._callbacks = _ALLOCATE(allocate), _RELEASE(release), _LAUNCH(self._guarded)
        library["__tw_set_allocator"](*self._callbacks[:2])
        library["__tw_set_simt_launcher"](self._callbacks[2])

    def synchronize(self) -> None:
        """Wait for what has been launched. CudaError for what went wrong there."""
        with driver.device().current():
            driver.call("cuCtxSynchronize")

    def _load(self, library: ctypes.CDLL, file: SimtFile) -> None:
        module = ctypes.c_void_p()
        driver.call("cuModuleLoadData", ctypes.byref(module), file.code)
        variables = []
        for known, here in _rows(ctypes.addressof(ctypes.c_char.in_dll(library, file.table))):
            name = file.variables.get(known.decode())
            if name is None:  # nor does nvcc have it, where no kernel uses it
                continue
            there, size = ctypes.c_uint64(), ctypes.c_size_t()
            find = driver.function("cuModuleGetGlobal_v2")
            code = find(ctypes.byref(there), ctypes.byref(size), module, name.encode())
            if code == _NOT_FOUND:  # no kernel uses it after all
                continue
            if code:
                raise driver.failure(code, "cuModuleGetGlobal")
            variables.append((here, there.value, size.value))
        _copied(variables, back=True)  # addresses of functions are those of the GPU
        for symbol, name in file.kernels.items():
            function = ctypes.c_void_p()
            driver.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            self._functions[symbol], self._variables[symbol] = function, variables

    def _guarded(self, symbol: bytes, shape: Any, shared: int, slots: int | None) -> int:
        """A launch: 0, or the error of CUDA that the program gets."""
        try:
            with driver.device().current():
                self._launch(symbol.decode(), shape[:6], shared, slots)
        except driver.CudaError as e:
            self._say(e.message)
            return e.code
        except Exception as e:  # noqa: BLE001 - nothing passes through C
            self._say(f"{type(e).__name__}: {e}")
            return _UNKNOWN
        return 0

    def _launch(self, symbol: str, shape: Sequence[int], shared: int, slots: int | None) -> None:
        function = self._functions[symbol]
        variables = [(self._symbol(here, 0), there, size) for here, there, size in self._variables[symbol]]
        _copied(variables)
        given = [(*each, ctypes.string_at(each[0], each[2])) for each in variables]
        if shared > _STATIC_SHARED:
            driver.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, ctypes.c_int(shared))
        driver.call("cuLaunchKernel", function, *shape, ctypes.c_uint(shared), None, ctypes.c_void_p(slots), None)
        self.synchronize()
        for home, there, size, before in given:
            found = np.empty(size, np.uint8)
            _copied([(found.ctypes.data, there, size)], back=True)
            changed = found != np.frombuffer(before, np.uint8)
            np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(home))[changed] = found[changed]


def _copied(variables: Sequence[tuple[int, int, int]], *, back: bool = False) -> None:
    """Copy variables, given by their addresses here and there and sizes, to the GPU or ``back``."""
    for here, there, size in variables:
        host, device, count = ctypes.c_void_p(here), ctypes.c_uint64(there), ctypes.c_size_t(size)
        if back:
            driver.call("cuMemcpyDtoH_v2", host, device, count)
        else:
            driver.call("cuMemcpyHtoD_v2", device, host, count)


def _rows(table: int) -> list[tuple[bytes, int]]:
    """The names and addresses in the table at ``table``."""
    found = []
    while name := ctypes.c_void_p.from_address(table).value:
        found.append((ctypes.string_at(name), ctypes.c_size_t.from_address(table + 8).value))
        table += 16
    return found
