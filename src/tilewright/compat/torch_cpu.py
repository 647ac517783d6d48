"""Makes a program that allocates torch CUDA tensors run on CPU tensors."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock


@contextmanager
def cuda_tensors_on_cpu() -> Iterator[None]:
    """Within this context torch maps the device ``cuda`` to ``cpu``, and ``torch.cuda`` describes one idle GPU.

    Does nothing where torch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        yield
        return
    torch = importlib.import_module("torch")
    overrides = importlib.import_module("torch.overrides")
    with ExitStack() as stack:
        stack.enter_context(_device_mode(torch, overrides.TorchFunctionMode))
        stack.enter_context(mock.patch.object(torch.Tensor, "cuda", lambda self, *args, **kwargs: self))
        for name, value in _fake_cuda(torch).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        yield


def _device_mode(torch: Any, base: Any) -> Any:
    """A mode that rewrites the devices in the arguments of every torch function."""

    def on_cpu(value: Any) -> Any:
        if isinstance(value, torch.device) and value.type == "cuda":
            return torch.device("cpu")
        if isinstance(value, str) and value.split(":")[0] == "cuda":
            return "cpu"
        return value

    class CpuMode(base):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            keywords = {k: on_cpu(v) for k, v in (kwargs or {}).items()}
            return func(*map(on_cpu, args), **keywords)

    return CpuMode()


def _fake_cuda(torch: Any) -> dict[str, Any]:
    """What ``torch.cuda`` answers: one device that has always finished."""
    properties = SimpleNamespace(name="cpu", multi_processor_count=torch.get_num_threads(), major=9, minor=0)
    stream = SimpleNamespace(cuda_stream=0, synchronize=_nothing, wait_stream=_nothing)
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "synchronize": _nothing,
        "empty_cache": _nothing,
        "set_device": _nothing,
        "manual_seed": _nothing,
        "manual_seed_all": _nothing,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
        "Event": _Event,
    }


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stands for what a CPU has no use for."""


class _Event:
    """A point in time, as ``torch.cuda.Event`` marks it."""

    def __init__(self, *args: Any, clock: Callable[[], float] = time.perf_counter, **kwargs: Any) -> None:
        self._clock = clock
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        self._time = self._clock()

    def synchronize(self) -> None:
        """Everything has finished already."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: _Event) -> float:
        """Milliseconds from this event to ``end``."""
        return (end._time - self._time) * 1e3
