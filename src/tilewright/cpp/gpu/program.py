"""A C++ program on a GPU: memory that both sides see at the same addresses, and launches of SIMT kernels.

Launches end before they return, as on a CPU, or those that a thread of the runtime makes do: each thread has a stream,
which waits for no other. Variables of the device are kept twice, by the host's functions for them
and by the module of each file: they are copied to the GPU before a launch, and back after it, until the program asks
for the address of one, which is then on the GPU alone.
"""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tilewright.cpp.gpu import nvcc, nvrtc
from tilewright.cpp.host.build import HostUnit
from tilewright.cpp.host.stubs import VARIABLES
from tilewright.cpp.translation import Made, Request, kernel_key, through_cache
from tilewright.frontend.cpp.names import source_name
from tilewright.gpu_runtime import driver
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.system.forks import load

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_VARIABLE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_MOVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_SHOW = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t, ctypes.c_void_p
)
_ATTACH_GLOBAL, _PORTABLE_AND_MAPPED, _NON_BLOCKING = 1, 3, 1
_MAX_DYNAMIC_SHARED, _STATIC_SHARED = 8, 49152
_INVALID_FUNCTION, _NOT_FOUND, _UNKNOWN = 98, 500, 999


@dataclass(frozen=True)
class SimtFile:
    """The code of the SIMT kernels of a file of the program, the names that it has for them, by their keys, and for
    variables, the name of the table of these, and the number of the module that the code is: of files that are linked
    one, of others one each, as equal code has variables of its own."""

    kernels: Mapping[str, str]
    variables: Mapping[str, str]
    code: bytes
    table: str
    module: int


def simt_files(requests: Sequence[Request], units: Sequence[HostUnit]) -> list[SimtFile]:
    """The SIMT kernels of a program, whose files these are, for the GPU of this machine. TileError for what it cannot
    have there."""
    target = f"sm_{driver.device().capability}"
    part = len(requests) > 1 and any(map(_needs_others, requests))
    made = [_code(request, target, part=part) for request in requests]
    codes = [code for _, code in made if code]
    if part:
        try:
            codes = [nvcc.linked(codes, target)] * len(codes)
        except nvcc.Refused as e:
            raise TileUnsupportedFeatureError(f"the device code of the program cannot be linked: {e}") from None
    files = [(unit.number, json.loads(head)) for unit, (head, code) in zip(units, made) if code]
    return [
        SimtFile(
            {kernel_key(file, k): name for k, name in kernels.items()},
            variables,
            code,
            VARIABLES + file,
            0 if part else module,
        )
        for module, ((file, (kernels, variables)), code) in enumerate(zip(files, codes))
    ]


def _needs_others(request: Request) -> bool:
    """Whether the SIMT kernels of a file use something of other files."""

    def make() -> Made:
        made: Made = load("tilewright.cpp.host.units").needs_others(request)
        return made

    return bool(json.loads(through_cache(request, "what SIMT kernels use of other files", make)))


def _code(request: Request, target: str, *, part: bool) -> tuple[bytes, bytes]:
    """What ``device_code`` makes of a file: names, and code."""

    def make() -> Made:
        made: Made = load("tilewright.cpp.host.units").device_code(request, target, part=part)
        return made

    what = f"SIMT kernels for {target}, {'part' if part else 'whole'}, {nvcc.identity()}, {nvrtc.identity()}"
    head, _, code = through_cache(request, what, make).partition(b"\n")
    return head, code


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


def _move(target: int, source: int, size: int) -> None:
    """Copy memory, of which one side is on the GPU."""
    with driver.device().current():
        driver.call("cuMemcpy", ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(size))


def _show(address: int, size: int) -> None:
    """Let the GPU see memory of the host, or no longer, if there is no size. Some is there in any case."""
    with suppress(driver.CudaError), driver.device().current():
        if size:
            driver.call("cuMemHostRegister_v2", ctypes.c_void_p(address), ctypes.c_size_t(size), _PORTABLE_AND_MAPPED)
        else:
            driver.call("cuMemHostUnregister", ctypes.c_void_p(address))


class SimtPrograms:
    """The modules of a program on the GPU. ``say`` gets what went wrong in a launch."""

    def __init__(self, library: ctypes.CDLL, files: Sequence[SimtFile], say: Callable[[str], None]) -> None:
        self._say = say
        self._shared: set[int] = set()  # variables, by their address here, that are on the GPU alone
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._variables: dict[str, list[tuple[int, int, int]]] = {}  # address here and there, and bytes
        self._modules: dict[int, tuple[ctypes.c_void_p, list[tuple[int, int, int]]]] = {}
        self._own = threading.local()
        with driver.device().current():
            for file in files:
                self._load(library, file)
        self._callbacks = (
            *(_ALLOCATE(allocate), _RELEASE(release), _VARIABLE(self._variable), _MOVE(_move), _SHOW(_show)),
            _LAUNCH(self._guarded),
        )
        library["__tw_set_gpu"](*self._callbacks[:-1])
        library["__tw_set_simt_launcher"](self._callbacks[-1])

    def stream(self) -> int:
        """The stream of this thread."""
        if not hasattr(self._own, "stream"):
            made = ctypes.c_void_p()
            with driver.device().current():
                driver.call("cuStreamCreate", ctypes.byref(made), _NON_BLOCKING)
            self._own.stream = made.value
        stream: int = self._own.stream
        return stream

    def synchronize(self) -> None:
        """Wait for what this thread has launched. CudaError for what went wrong there."""
        with driver.device().current():
            driver.call("cuStreamSynchronize", ctypes.c_void_p(self.stream()))

    def compiled(self, request: Request, unit: HostUnit) -> list[SimtFile]:
        """What a program compiles while it runs. TileError for what the GPU cannot have."""
        return simt_files([request], [unit])

    def add(self, library: ctypes.CDLL, request: Request, unit: HostUnit) -> None:
        """Load what a program has compiled while it runs, whose part for the host is ``library``."""
        for file in self.compiled(request, unit):
            with driver.device().current():
                self._load(library, replace(file, module=len(self._modules)))

    def _load(self, library: ctypes.CDLL, file: SimtFile) -> None:
        if file.module not in self._modules:
            module = ctypes.c_void_p()
            driver.call("cuModuleLoadData", ctypes.byref(module), file.code)
            self._modules[file.module] = module, []
        module, variables = self._modules[file.module]
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
        for key, name in file.kernels.items():
            function = ctypes.c_void_p()
            driver.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            self._functions[key], self._variables[key] = function, variables

    def _variable(self, here: int) -> int:
        """The address on the GPU of a variable, which is there alone from now on; 0 where no kernel has it."""
        found = next((row for rows in self._variables.values() for row in rows if row[0] == here), None)
        if found is None:
            return 0
        with driver.device().current():
            _copied([found])
        self._shared.add(here)
        return found[1]

    def _guarded(self, key: bytes, shape: Any, shared: int, slots: int | None) -> int:
        """A launch: 0, or the error of CUDA that the program gets."""
        if key.decode() not in self._functions:
            name = source_name(key.decode().partition(" ")[2])
            self._say(
                f"{name}() is a kernel of a shared library, of which a GPU has no code; run its files as part of "
                "the program, or the program on the CPU"
            )
            return _INVALID_FUNCTION
        try:
            with driver.device().current():
                self._launch(key.decode(), shape[:6], shared, slots)
        except driver.CudaError as e:
            self._say(e.message)
            return e.code
        except Exception as e:  # noqa: BLE001 - nothing passes through C
            self._say(f"{type(e).__name__}: {e}")
            return _UNKNOWN
        return 0

    def _launch(self, key: str, shape: Sequence[int], shared: int, slots: int | None) -> None:
        function = self._functions[key]
        variables = [row for row in self._variables[key] if row[0] not in self._shared]
        _copied(variables)
        if shared > _STATIC_SHARED:
            driver.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, ctypes.c_int(shared))
        stream = ctypes.c_void_p(self.stream())
        driver.call("cuLaunchKernel", function, *shape, ctypes.c_uint(shared), stream, ctypes.c_void_p(slots), None)
        self.synchronize()
        _copied(variables, back=True)


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
