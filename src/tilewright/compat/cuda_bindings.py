"""``cuda.bindings.driver`` and ``cuda.bindings.runtime``, with memory of the host and streams whose work has ended."""

from __future__ import annotations

import bisect
import ctypes
import itertools
import re
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from enum import IntEnum
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright.compat.cuda_graphs import traced
from tilewright.compat.torch_cpu import PROPERTIES, Event, constantly, nothing
from tilewright.runtime.launch import launch
from tilewright.runtime.streams import stream_handle

_INVALID, _NO_MEMORY = 1, 2
cudaError_t = IntEnum("cudaError_t", {"cudaSuccess": 0, "cudaErrorInvalidValue": 1, "cudaErrorMemoryAllocation": 2})
CUresult = IntEnum("CUresult", {"CUDA_SUCCESS": 0, "CUDA_ERROR_INVALID_VALUE": 1, "CUDA_ERROR_OUT_OF_MEMORY": 2})
_MESSAGES = (b"no error", b"invalid argument", b"out of memory")


class Refused(RuntimeError):
    """A call that is answered by the error ``code``, and by ``results``."""

    def __init__(self, code: int, *results: Any) -> None:
        super().__init__(_MESSAGES[code].decode())
        self.code, self.results = code, results


class Handle(int):
    """A pointer, a stream or another object of the CUDA API."""


_numbers = itertools.count(0x100)
_blocks: dict[int, tuple[int, Any]] = {}  # by address: the size, and what holds the memory
_addresses: list[int] = []  # the same addresses, sorted
_captures: dict[int, list[Callable[[], Any]]] = {}  # by stream: the calls of its capture, so far
_graphs: dict[int, list[Callable[[], Any]]] = {}


def allocate(size: int, *_: Any) -> Handle:
    """Memory for ``size`` bytes, aligned as a GPU's."""
    try:
        block = np.empty(int(size) + 256, np.uint8)
    except (MemoryError, ValueError):
        raise Refused(_NO_MEMORY, None) from None
    address = -(-block.ctypes.data // 256) * 256
    _blocks[address] = (int(size), block)
    bisect.insort(_addresses, address)
    return Handle(address)


def free(address: Any, *_: Any) -> None:
    if int(address):
        if _blocks.pop(int(address), None) is None:
            raise Refused(_INVALID)
        del _addresses[bisect.bisect_left(_addresses, int(address))]


def _range(what: Any, size: int, *, written: bool) -> int:
    """The address of ``size`` bytes at a pointer or in a buffer of the host; what does not hold them is refused."""
    if isinstance(what, ctypes.c_void_p):
        what = what.value or 0
    if not isinstance(what, int):
        try:
            buffer = what if isinstance(what, np.ndarray) else np.frombuffer(what, np.uint8)
        except TypeError:
            what = int(what)
        else:
            if buffer.nbytes < size or not buffer.flags.c_contiguous or (written and not buffer.flags.writeable):
                raise Refused(_INVALID)
            return int(buffer.ctypes.data)
    before = bisect.bisect_right(_addresses, what) - 1
    if before >= 0:
        start = _addresses[before]
        length = _blocks[start][0]
        if what < start + length < what + size:
            raise Refused(_INVALID)
    if size and not what:
        raise Refused(_INVALID)
    return int(what)


def copy(target: Any, source: Any, size: int, *_: Any) -> None:
    ctypes.memmove(_range(target, size, written=True), _range(source, size, written=False), size)


def fill(target: Any, value: int, count: int, width: int = 1) -> None:
    data = int(value).to_bytes(width, "little", signed=value < 0) * count
    ctypes.memmove(_range(target, len(data), written=True), data, len(data))


def new_stream(*_: Any) -> Handle:
    return Handle(next(_numbers))


def submit(stream: Any, call: Callable[[], Any]) -> None:
    """Call now, or with the graph that ``stream`` captures."""
    captured = _captures.get(stream_handle(stream)) if _captures else None
    captured.append(call) if captured is not None else call()


def begin_capture(stream: Any, *_: Any) -> None:
    if not _captures:
        _traced.enter_context(traced(_noted))
    _captures[stream_handle(stream)] = []


def _noted(stream: Any, grid: Any, kernel: Any, args: Any, backend: str | None) -> bool:
    """Whether the launch became part of a graph."""
    if stream_handle(stream) not in _captures:
        return False
    submit(stream, partial(launch, None, grid, kernel, args, backend=backend))
    return True


_traced = ExitStack()  # what launches are noted in, while there are captures


def end_capture(stream: Any) -> Handle:
    calls = _captures.pop(stream_handle(stream), None)
    if calls is None:
        raise Refused(_INVALID, None)
    if not _captures:
        _traced.close()
    graph = Handle(next(_numbers))
    _graphs[graph] = calls
    return graph


def replay(graph: int, stream: Any = 0) -> None:
    for call in _graphs[graph]:
        submit(stream, call)


def _queued(function: Callable[..., Any]) -> Callable[..., None]:
    """``function`` in the order of the stream that is given last."""
    return lambda *args: submit(args[-1], partial(function, *args[:-1]))


# By the number of the attribute: its name in the runtime API, and its value.
_ATTRIBUTES = {
    1: ("MaxThreadsPerBlock", PROPERTIES.max_threads_per_block),
    8: ("MaxSharedMemoryPerBlock", PROPERTIES.shared_memory_per_block),
    10: ("WarpSize", PROPERTIES.warp_size),
    13: ("ClockRate", PROPERTIES.clock_rate),
    16: ("MultiProcessorCount", PROPERTIES.multi_processor_count),
    36: ("MemoryClockRate", PROPERTIES.memory_clock_rate),
    37: ("GlobalMemoryBusWidth", PROPERTIES.memory_bus_width),
    38: ("L2CacheSize", PROPERTIES.L2_cache_size),
    39: ("MaxThreadsPerMultiProcessor", PROPERTIES.max_threads_per_multi_processor),
    75: ("ComputeCapabilityMajor", PROPERTIES.major),
    76: ("ComputeCapabilityMinor", PROPERTIES.minor),
    81: ("MaxSharedMemoryPerMultiprocessor", PROPERTIES.shared_memory_per_multiprocessor),
    97: ("MaxSharedMemoryPerBlockOptin", PROPERTIES.shared_memory_per_block_optin),
}


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("MultiP", "Multip"))


def _each(names: str, value: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), value)


ATTRIBUTES = {_words(name).lower(): value for name, value in _ATTRIBUTES.values()}

_of_both: dict[str, Callable[..., Any]] = {
    **_each("StreamCreate StreamCreateWithFlags StreamCreateWithPriority", new_stream),
    **_each("EventCreate EventCreateWithFlags", Event),
    "EventRecord": lambda event, stream=0: submit(stream, event.record),
    "EventElapsedTime": Event.elapsed_time,
    "StreamBeginCapture": begin_capture,
    "StreamEndCapture": end_capture,
    "GraphInstantiate": lambda graph, *_: graph,
    "GraphLaunch": replay,
    "MemGetInfo": constantly((PROPERTIES.total_memory, PROPERTIES.total_memory)),
    "DriverGetVersion": constantly(13000),
    "DeviceGetAttribute": lambda attribute, device: _ATTRIBUTES[attribute][1],
    "GetErrorName": lambda error: error.name.encode(),
    "GetErrorString": lambda error: _MESSAGES[error],
    **_each(
        "StreamDestroy StreamSynchronize StreamQuery StreamWaitEvent EventSynchronize EventQuery EventDestroy "
        "GraphUpload GraphDestroy GraphExecDestroy ProfilerStart ProfilerStop",
        nothing,
    ),
}
_of_driver: dict[str, Callable[..., Any]] = {
    **_each("MemAlloc MemAllocAsync MemAllocManaged MemAllocHost MemHostAlloc", allocate),
    **_each("MemFree MemFreeAsync MemFreeHost", free),
    **_each("Memcpy MemcpyHtoD MemcpyDtoH MemcpyDtoD", copy),
    **_each("MemcpyAsync MemcpyHtoDAsync MemcpyDtoHAsync MemcpyDtoDAsync", _queued(copy)),
    **{f"MemsetD{8 * n}": partial(fill, width=n) for n in (1, 2, 4)},
    **{f"MemsetD{8 * n}Async": _queued(partial(fill, width=n)) for n in (1, 2, 4)},
    "DeviceGetCount": constantly(1),
    "DeviceGetName": constantly(PROPERTIES.name.encode()),
    "DeviceTotalMem": constantly(PROPERTIES.total_memory),
    **_each("DeviceGet CtxGetDevice", constantly(Handle(0))),
    **_each("DevicePrimaryCtxRetain CtxCreate CtxGetCurrent CtxPopCurrent", constantly(Handle(1))),
    **_each("Init DevicePrimaryCtxRelease CtxDestroy CtxSetCurrent CtxPushCurrent CtxSynchronize", nothing),
}
_of_runtime: dict[str, Callable[..., Any]] = {
    **_each("Malloc MallocAsync MallocManaged MallocHost HostAlloc", allocate),
    **_each("Free FreeAsync FreeHost", free),
    "Memcpy": copy,
    "MemcpyAsync": _queued(copy),
    "Memset": fill,
    "MemsetAsync": _queued(fill),
    "GetDeviceCount": constantly(1),
    "GetDevice": constantly(0),
    "RuntimeGetVersion": constantly(13000),
    "GetDeviceProperties": constantly(
        SimpleNamespace(
            name=PROPERTIES.name.encode(),
            totalGlobalMem=PROPERTIES.total_memory,
            **{name[0].lower() + name[1:]: value for name, value in _ATTRIBUTES.values()},
            **{name: ATTRIBUTES[f"compute_capability_{name}"] for name in ("major", "minor")},
        )
    ),
    **_each("SetDevice DeviceSynchronize GetLastError PeekAtLastError", nothing),
}


def _returning(errors: Any, function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """``function`` as these modules have it: its error code comes first, then what it gives."""

    def call(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        try:
            result = function(*args, **kwargs)
        except Refused as error:
            return errors(error.code), *error.results
        return errors(0), *(result if type(result) is tuple else [] if result is None else [result])

    return call


class OfGpu(types.ModuleType):
    """A module that names what it lacks."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.__name__}.{name} is not there with --device cpu, where no GPU code runs")


def _module(name: str, functions: dict[str, Any], **more: Any) -> types.ModuleType:
    module = OfGpu(name)
    errors, prefix = (CUresult, "cu") if name.endswith((".driver", ".cuda")) else (cudaError_t, "cuda")
    module.__dict__.update({prefix + n: _returning(errors, f) for n, f in (_of_both | functions).items()}, **more)
    return module


def modules() -> Iterator[types.ModuleType]:
    """``cuda.bindings.driver`` and ``cuda.bindings.runtime``, also by the names that they had before."""
    handles = _each("CUstream CUdeviceptr CUcontext CUdevice CUgraph CUgraphExec", Handle)
    attributes = {f"CU_DEVICE_ATTRIBUTE_{_words(name).upper()}": n for n, (name, _) in _ATTRIBUTES.items()}
    driver = handles | {
        "CUevent": Event,
        "CUresult": CUresult,
        "CUdevice_attribute": IntEnum("CUdevice_attribute", attributes),
        "CUstream_flags": IntEnum("CUstream_flags", {"CU_STREAM_DEFAULT": 0, "CU_STREAM_NON_BLOCKING": 1}),
        "CUevent_flags": IntEnum("CUevent_flags", {"CU_EVENT_DEFAULT": 0, "CU_EVENT_DISABLE_TIMING": 2}),
        "CUstreamCaptureMode": IntEnum(
            "CUstreamCaptureMode", {f"CU_STREAM_CAPTURE_MODE_{_words(m).upper()}": i for i, m in _MODES}
        ),
    }
    kinds = ("HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice", "Default")
    runtime = {
        "cudaError_t": cudaError_t,
        "cudaMemcpyKind": IntEnum("cudaMemcpyKind", {f"cudaMemcpy{kind}": i for i, kind in enumerate(kinds)}),
        "cudaDeviceAttr": IntEnum("cudaDeviceAttr", {f"cudaDevAttr{name}": n for n, (name, _) in _ATTRIBUTES.items()}),
        "cudaStreamCaptureMode": IntEnum("cudaStreamCaptureMode", {f"cudaStreamCaptureMode{m}": i for i, m in _MODES}),
        **_each("cudaStreamDefault cudaEventDefault", 0),
        "cudaStreamNonBlocking": 1,
        "cudaEventDisableTiming": 2,
        "cudaStream_t": Handle,
        "cudaEvent_t": Event,
    }
    for name in ("cuda.bindings.driver", "cuda.cuda"):
        yield _module(name, _of_driver, **driver)
    for name in ("cuda.bindings.runtime", "cuda.cudart"):
        yield _module(name, _of_runtime, **runtime)


_MODES = ((0, "Global"), (1, "ThreadLocal"), (2, "Relaxed"))
