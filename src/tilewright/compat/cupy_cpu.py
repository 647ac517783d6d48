"""Makes a program that allocates CuPy arrays run on NumPy arrays."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright.compat.torch_cpu import PROCESSORS, Event, Stream, nothing
from tilewright.runtime.arrays import CUDA_INTERFACE, INTERFACE_DEVICES
from tilewright.system.imports import replaced


@contextmanager
def cupy_arrays_on_cpu() -> Iterator[None]:
    """A context in which ``import cupy`` gives NumPy under that name, with one device that has always finished.

    What other objects have as ``__cuda_array_interface__`` is memory of the host there, too.
    Arrays are NumPy arrays that have ``get()`` too. What NumPy does not have, such as raw CUDA kernels, is an
    AttributeError. An installed ``cupy`` is there again afterwards.
    """
    device = INTERFACE_DEVICES[CUDA_INTERFACE]
    INTERFACE_DEVICES[CUDA_INTERFACE] = "cpu"
    try:
        with replaced(_modules()):
            yield
    finally:
        INTERFACE_DEVICES[CUDA_INTERFACE] = device


class Array(np.ndarray[Any, Any]):
    """A NumPy array with what only CuPy arrays have."""

    def get(self, stream: Any = None, order: str = "C", out: Any = None) -> Any:
        return asnumpy(self, stream, order, out)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.view(np.ndarray).__array_interface__

    device = property(lambda self: _Device())
    data = property(lambda self: SimpleNamespace(ptr=self.ctypes.data))


def asnumpy(a: Any, stream: Any = None, order: Any = "C", out: Any = None, *, blocking: bool = True) -> Any:
    """``cupy.asnumpy``: a copy, as it is from a device."""
    if out is None:
        return np.array(a, order=order, subok=False)
    out[...] = a
    return out


class _Numpy(types.ModuleType):
    """A module whose functions are those of a module of NumPy, and make ``Array``."""

    def __init__(self, name: str, source: Any) -> None:
        super().__init__(name)
        self._source = source
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._source, name)
        if isinstance(found, (type, np.ufunc)) or not callable(found):
            return found
        return _making_arrays(found)


def _making_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result.view(Array) if type(result) is np.ndarray else result

    return made


def _drawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of random numbers that takes the dtype of what it gives, as all of CuPy's do."""

    def drawn(*args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result if dtype is None else np.asarray(result).astype(dtype)

    return _making_arrays(drawn)


def _modules() -> dict[str, types.ModuleType]:
    cupy = _Numpy("cupy", np)
    cuda = types.ModuleType("cupy.cuda")
    found: dict[str, types.ModuleType] = {"cupy": cupy, "cupy.cuda": cuda}
    for name in ("random", "linalg", "fft", "testing"):
        found[f"cupy.{name}"] = _Numpy(f"cupy.{name}", getattr(np, name))
    draws = "chisquare exponential gumbel normal poisson rand randn random random_sample standard_normal uniform"
    found["cupy.random"].__dict__.update(
        {name: _drawn(getattr(np.random, name)) for name in draws.split()},
        default_rng=lambda *seed: _Numpy("cupy.random.Generator", np.random.default_rng(*seed)),
    )
    pool = SimpleNamespace(free_all_blocks=lambda: None, used_bytes=lambda: 0, total_bytes=lambda: 0)
    cupy.__dict__.update(
        ndarray=Array,
        asnumpy=asnumpy,
        is_available=lambda: True,
        get_array_module=lambda *arrays: cupy,
        get_default_memory_pool=lambda: pool,
        get_default_pinned_memory_pool=lambda: pool,
    )
    current = Stream()
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        runtimeGetVersion=lambda: 13000,
        driverGetVersion=lambda: 13000,
        deviceSynchronize=lambda: None,
        is_hip=False,
        getDeviceProperties=lambda device: {"name": b"cpu", "major": 9, "minor": 0, "multiProcessorCount": PROCESSORS},
    )
    stream = SimpleNamespace(get_current_stream=lambda *device: current, Stream=Stream)
    cuda.__dict__.update(
        Stream=Stream,
        Event=Event,
        Device=_Device,
        stream=stream,
        get_current_stream=stream.get_current_stream,
        get_elapsed_time=lambda start, end: start.elapsed_time(end),
        is_available=lambda: True,
        get_device_id=lambda: 0,
        nvtx=SimpleNamespace(RangePush=nothing, RangePop=nothing, Mark=nothing),
        runtime=runtime,
    )
    return found


class _Device(nullcontext[None]):
    """The only device: the CPU."""

    id = 0
    compute_capability = "90"
    attributes: Mapping[str, int] = {"MultiProcessorCount": PROCESSORS, "WarpSize": 32}
    mem_info = (1 << 34, 1 << 34)
    use = synchronize = nothing

    def __init__(self, device: Any = None) -> None:
        """There is nothing to choose."""
