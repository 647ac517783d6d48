"""Makes a program that allocates torch CUDA tensors run on CPU tensors."""

from __future__ import annotations

import importlib
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock


@contextmanager
def cuda_tensors_on_cpu() -> Iterator[None]:
    """Within this context torch maps CUDA devices to ``cpu``, and ``torch.cuda`` describes one idle GPU.

    Tensors are CPU tensors that answer ``is_cuda`` with True, so that what a program asserts about its inputs holds;
    ``x.device`` tells the truth. For pytest, enter it in a fixture. Does nothing where torch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        yield
        return
    torch = importlib.import_module("torch")
    overrides = importlib.import_module("torch.overrides")
    with ExitStack() as stack:
        mode = _device_mode(torch, overrides.TorchFunctionMode)
        stack.enter_context(mode())
        stack.enter_context(mock.patch.object(threading.Thread, "run", _within(mode, threading.Thread.run)))
        for name, value in _TENSOR.items():
            stack.enter_context(mock.patch.object(torch.Tensor, name, value))
        stack.enter_context(mock.patch.object(torch, "Generator", _cpu_generators(torch)))
        for name, value in _fake_cuda(torch).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        for name, mark in _MARKS.items():
            stack.enter_context(mock.patch.object(torch.cuda.nvtx, name, mark or _constantly(None)))
        stack.enter_context(mock.patch.object(torch, "compile", _uncompiled))
        yield


# What a tensor on a GPU has and a tensor on a CPU answers otherwise.
_TENSOR = {
    "cuda": lambda self, *args, **kwargs: self,
    "is_cuda": property(lambda self: True),
    "get_device": lambda self: 0,
    "pin_memory": lambda self, *args, **kwargs: self,
    "record_stream": lambda self, stream: None,
}


def _on_cpu(torch: Any, value: Any) -> Any:
    """``value``, and the CPU instead of a CUDA device."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and value.split(":")[0] == "cuda":
        return "cpu"
    return value


def _cpu_generators(torch: Any) -> Any:
    """``torch.Generator`` for which every device is the CPU: a class still, as annotations and isinstance need it."""
    original = torch.Generator

    class Meta(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, original)

    class Generator(metaclass=Meta):
        def __new__(cls, device: Any = "cpu") -> Any:
            return original(_on_cpu(torch, device))

    return Generator


def _device_mode(torch: Any, base: Any) -> Any:
    """The class of modes that rewrite the devices in the arguments of every torch function."""

    class CpuMode(base):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            values = [_on_cpu(torch, a) for a in args]
            keywords = {k: _on_cpu(torch, v) for k, v in (kwargs or {}).items()}
            # A device may be an ordinal, such as torch.cuda.current_device() gives.
            if type(keywords.get("device")) is int:
                keywords["device"] = "cpu"
            if keywords.get("pin_memory"):
                keywords["pin_memory"] = False
            if func is torch.Tensor.to and len(values) > 1 and type(values[1]) is int:
                values[1] = "cpu"
            return func(*values, **keywords)

    return CpuMode


def _within(mode: Callable[[], Any], run: Callable[..., Any]) -> Callable[..., Any]:
    """``run`` of threads, each in a mode of its own: torch keeps them per thread."""

    def within(self: Any) -> None:
        with mode():
            run(self)

    return within


# As many as such a GPU has: programs divide the number by blocks in a cluster, and size their grids with the result.
_PROCESSORS = 132


def _fake_cuda(torch: Any) -> dict[str, Any]:
    """What ``torch.cuda`` answers: one device that has always finished."""
    properties = SimpleNamespace(
        name="cpu",
        multi_processor_count=_PROCESSORS,
        major=9,
        minor=0,
        warp_size=32,
        total_memory=1 << 34,
        L2_cache_size=1 << 25,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=227 << 10,
        shared_memory_per_multiprocessor=228 << 10,
        regs_per_multiprocessor=1 << 16,
        max_threads_per_multi_processor=2048,
    )
    answers = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "device_count": 1,
        "current_device": 0,
        "current_stream": Stream(),
        "default_stream": Stream(),
        "get_device_capability": (9, 0),
        "get_device_name": properties.name,
        "get_device_properties": properties,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "memory_summary": "",
        "mem_get_info": (properties.total_memory, properties.total_memory),
        "utilization": 0,
        "can_device_access_peer": False,
        "is_current_stream_capturing": False,
        "cudart": SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0),
    }
    actions = "init synchronize empty_cache ipc_collect set_device manual_seed manual_seed_all reset_peak_memory_stats"
    return {
        **{name: _constantly(answer) for name, answer in answers.items()},
        **{name: _constantly(None) for name in actions.split()},
        "Event": Event,
        "Stream": Stream,
        "ExternalStream": Stream,
        "CUDAGraph": _no_graphs,
        "graph": _no_graphs,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "stream": _Entered,
        "device": _Entered,
    }


# The marks of ``torch.cuda.nvtx``, for profilers that see nothing of this process.
_MARKS = {"range": lambda *args, **kwargs: nullcontext(), "range_push": None, "range_pop": None, "mark": None}


def _no_graphs(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("CUDA graphs are not there with CUDA tensors on the CPU; call the captured code directly")


def _uncompiled(model: Any = None, **options: Any) -> Any:
    """``torch.compile`` that leaves functions as they are: it would generate code for a GPU that is not there."""
    return model if model is not None else lambda function: function


def _constantly(answer: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: answer


class Stream:
    """A stream whose work has always ended."""

    cuda_stream = ptr = 0
    null: Stream

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Streams need no resources."""

    def synchronize(self) -> None:
        """Everything has finished already."""

    def wait_stream(self, stream: Any) -> None:
        """Everything has finished already."""

    def wait_event(self, event: Any) -> None:
        """Everything has finished already."""

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: Any) -> None:
        """There is no other stream to go back to."""


Stream.null = Stream()


class _Entered(nullcontext[Any]):
    """``torch.cuda.device(0)`` and ``torch.cuda.stream(s)``: there is one device with one stream."""


class Event:
    """A point in time, as ``torch.cuda.Event`` marks it."""

    def __init__(self, *args: Any, clock: Callable[[], float] = time.perf_counter, **kwargs: Any) -> None:
        self._clock = clock
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        self._time = self._clock()

    def wait(self, stream: Any = None) -> None:
        """Everything has finished already."""

    def synchronize(self) -> None:
        """Everything has finished already."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to ``end``."""
        return (end._time - self._time) * 1e3
