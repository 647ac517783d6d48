"""``cuda.core`` on the memory and the streams of ``cuda_bindings``, and the context in which programs get both."""

from __future__ import annotations

import importlib
import types
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright.compat import cuda_bindings as api
from tilewright.compat import torch_cpu
from tilewright.compat.torch_cpu import PROPERTIES, constantly, nothing
from tilewright.runtime.streams import stream_handle
from tilewright.system.imports import replaced

_Capability = namedtuple("_Capability", "major minor")


class Event(torch_cpu.Event):
    """A point in time."""

    is_done, is_timing_enabled = True, True
    sync = close = nothing
    handle = property(lambda self: self)

    def __sub__(self, start: Event) -> float:
        return start.elapsed_time(self)


class Stream(api.Handle):
    """A stream whose work has always ended, but for what is called while a graph is built on it."""

    is_nonblocking, is_closed = True, False
    sync = wait = close = nothing
    handle = property(lambda self: self)
    device = property(lambda self: Device())
    from_handle = classmethod(lambda cls, handle: cls(handle))

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, int(self)

    def record(self, event: Event | None = None, options: Any = None) -> Event:
        event = event or Event()
        api.submit(self, event.record)
        return event

    def create_graph_builder(self) -> GraphBuilder:
        return GraphBuilder(self)


class GraphBuilder(Stream):
    """A stream whose calls make a graph: launches, copies and fills between ``begin_building`` and ``end_building``."""

    is_building = False
    stream = property(lambda self: self)
    _graph = 0

    def begin_building(self, mode: str | None = "relaxed") -> GraphBuilder:
        api.begin_capture(self)
        self.is_building = True
        return self

    def end_building(self) -> GraphBuilder:
        self._graph = api.end_capture(self)
        self.is_building = False
        return self

    def complete(self, options: Any = None) -> Graph:
        return Graph(self._graph)


class Graph(api.Handle):
    """What a builder has recorded."""

    upload = close = nothing
    launch = api.replay


class Buffer:
    """Memory, which NumPy, PyTorch and launches see as bytes."""

    device_id, is_host_accessible, is_device_accessible = 0, True, True

    def __init__(self, handle: int, size: int, mr: Any = None, owner: Any = None) -> None:
        self.handle, self.size, self.memory_resource, self.owner = handle, size, mr, owner

    @classmethod
    def from_handle(cls, ptr: Any, size: int, mr: Any = None, owner: Any = None, *, stream: Any = None) -> Buffer:
        return cls(int(ptr), size, mr, owner)

    def close(self, stream: Any = None) -> None:
        if self.handle and self.memory_resource is not None:
            self.memory_resource.deallocate(self.handle, self.size, stream=stream)
        self.handle = 0

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def copy_to(self, dst: Buffer | None = None, *, stream: Any, options: Any = None) -> Buffer:
        dst = self.memory_resource.allocate(self.size, stream=stream) if dst is None else dst
        dst.copy_from(self, stream=stream)
        return dst

    def copy_from(self, src: Buffer, *, stream: Any, options: Any = None) -> None:
        if src.size != self.size:
            raise ValueError(f"buffer sizes mismatch between src ({src.size}) and dst ({self.size})")
        api.submit(stream, partial(api.copy, self.handle, src.handle, self.size))

    def fill(self, value: Any, *, stream: Any) -> None:
        data = bytes([value]) if isinstance(value, int) else bytes(value)
        number = int.from_bytes(data, "little")
        api.submit(stream, partial(api.fill, self.handle, number, self.size // len(data), len(data)))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.size,), "typestr": "|i1", "data": (int(self.handle), False), "version": 3}

    def __dlpack__(self, **options: Any) -> Any:
        return np.asarray(self).__dlpack__(**{n: v for n, v in options.items() if v is not None and n != "stream"})

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class MemoryResource:
    """Gives buffers."""

    device_id, is_host_accessible, is_device_accessible = 0, True, True

    def __init__(self, device_id: Any = 0, options: Any = None) -> None:
        """There is one kind of memory."""

    def allocate(self, size: int, *, stream: Any = None) -> Buffer:
        return Buffer(api.allocate(size), size, self)

    def deallocate(self, ptr: Any, size: int, *, stream: Any = None) -> None:
        api.free(ptr)


class Device:
    """The only device: the CPU."""

    device_id, name, arch, pci_bus_id, uuid = 0, PROPERTIES.name, "90", "0000:00:00.0", "0" * 32
    compute_capability = _Capability(PROPERTIES.major, PROPERTIES.minor)
    properties = SimpleNamespace(**api.ATTRIBUTES)
    memory_resource = MemoryResource()
    default_stream = Stream(0)
    set_current = sync = nothing

    def __new__(cls, device_id: Any = None) -> Device:
        return _DEVICE

    def create_stream(self, obj: Any = None, options: Any = None) -> Stream:
        return Stream(api.new_stream() if obj is None else stream_handle(obj))

    def create_event(self, options: Any = None) -> Event:
        return Event()

    def create_graph_builder(self) -> GraphBuilder:
        return GraphBuilder(self.create_stream())

    def allocate(self, size: int, stream: Any = None) -> Buffer:
        return self.memory_resource.allocate(size)

    get_all_devices = classmethod(lambda cls: (_DEVICE,))


_DEVICE: Device = object.__new__(Device)


def handle_return(result: tuple[Any, ...], handle: Any = None) -> Any:
    """What a call of ``cuda.bindings`` gave, without its error code; RuntimeError for errors."""
    error, *values = result
    if error:
        raise RuntimeError(error.name)
    return None if not values else values[0] if len(values) == 1 else tuple(values)


def _no_gpu_code(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"cuda.core.{name} is for GPU code, which --device cpu does not run: write the kernel with cuda.tile, or "
            "in a .cu file, which tilewright run takes"
        )

    return refuse


def _core() -> Iterator[types.ModuleType]:
    kinds = ("", "Device", "LegacyPinned", "Pinned", "Managed")
    refused = ("launch", "LaunchConfig", "Program", "ProgramOptions", "ObjectCode", "Linker")
    public: dict[str, Any] = {
        **{c.__name__: c for c in (Device, Stream, Event, Buffer, Graph, GraphBuilder)},
        **dict.fromkeys(("EventOptions", "StreamOptions"), SimpleNamespace),
        **{f"{kind}MemoryResource": MemoryResource for kind in kinds},
        **{name: _no_gpu_code(name) for name in refused},
        **dict.fromkeys(("LEGACY_DEFAULT_STREAM", "PER_THREAD_DEFAULT_STREAM"), Device.default_stream),
        "system": SimpleNamespace(get_num_devices=constantly(1), num_devices=1),
    }
    for name in ("cuda.core", "cuda.core.experimental"):
        core, utils = api.OfGpu(name), api.OfGpu(f"{name}._utils.cuda_utils")
        core.__dict__.update(public)
        utils.__dict__.update(handle_return=handle_return)
        yield from (core, api.OfGpu(f"{name}._utils"), utils)


@contextmanager
def cuda_python_on_cpu() -> Iterator[None]:
    """A context in which ``cuda.core`` and ``cuda.bindings`` are of the CPU: their memory is memory of the host."""
    made = {m.__name__: m for m in (api.OfGpu("cuda.bindings"), *api.modules(), *_core())}
    try:
        importlib.import_module("cuda")
    except ImportError:
        made = {"cuda": types.ModuleType("cuda"), **made}
        made["cuda"].__path__ = []
    with replaced(made):
        yield
