"""Makes a program that allocates torch CUDA tensors run on CPU tensors."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

from tilewright.compat.cuda_graphs import Capturing, CUDAGraph


@contextmanager
def cuda_tensors_on_cpu() -> Iterator[None]:
    """A context in which torch maps CUDA devices to ``cpu``, and ``torch.cuda`` describes one idle GPU.

    Tensors are CPU tensors that answer ``is_cuda`` with True, so that what a program asserts about its inputs holds;
    ``x.device`` tells the truth. For pytest, enter it in a fixture. Does nothing where torch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        yield
        return
    torch = importlib.import_module("torch")
    mock = importlib.import_module("unittest.mock")  # it loads asyncio, which takes longer than NumPy
    contexts = importlib.import_module("torch.utils._device")
    contexts._device_constructors()  # remembers the constructors themselves, for default devices
    with ExitStack() as stack:

        def patch(owner: Any, replacements: Mapping[str, Any]) -> None:
            for name, value in replacements.items():
                stack.enter_context(mock.patch.object(owner, name, value))

        scripted = importlib.import_module("torch.jit._builtins")._get_builtin_table()  # by the addresses of functions
        for path in _TAKE_A_DEVICE:
            owner, names = _resolved(torch, path)
            for name in [n for n in names if hasattr(owner, n)]:
                original = getattr(owner, name)
                found = _without_cuda(torch, original)
                patch(owner, {name: found})
                if id(original) in scripted:
                    scripted[id(found)] = scripted[id(original)]
                    stack.callback(scripted.pop, id(found))
        profiler = torch.autograd.profiler.profile
        patch(profiler, {"__init__": _without_gpu_events(profiler.__init__)})
        patch(torch.autograd.profiler, {"emit_nvtx": _MARKS["range"]})
        patch(torch, {"Generator": _cpu_generators(torch), "compile": _uncompiled})
        patch(torch.Tensor, {**_TENSOR, "to": _to_cpu(torch, torch.Tensor.to)})
        patch(contexts.DeviceContext, {"__init__": _default_cpu(torch, contexts.DeviceContext.__init__)})
        cuda = _fake_cuda(torch)
        patch(torch.cuda, cuda)
        patch(torch.accelerator, {n: constantly(cuda[n]()) for n in _OF_ANY_DEVICE if hasattr(torch.accelerator, n)})
        patch(torch.version, {"cuda": "13.0"})
        patch(torch.cuda.profiler, {"start": constantly(None), "stop": constantly(None)})
        patch(torch.cuda.nvtx, {name: mark or constantly(None) for name, mark in _MARKS.items()})
        yield


# The functions of torch that take a device, or the name of its kind, by the module or class that has them.
_TAKE_A_DEVICE = {
    "": "arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_permuted empty_quantized "
    "empty_strided eye from_dlpack full full_like hamming_window hann_window kaiser_window linspace load logspace "
    "normal ones ones_like rand rand_like randint randint_like randn randn_like randperm range scalar_tensor "
    "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor "
    "sparse_csr_tensor tensor tril_indices triu_indices zeros zeros_like",
    "Tensor": "new new_empty new_empty_strided new_full new_ones new_tensor new_zeros",
    "amp": "custom_bwd custom_fwd",
    "autocast": "__init__",
    "fft": "fftfreq rfftfreq",
    "library": "custom_op impl register_kernel",
    "library.CustomOpDef": "register_kernel",
    "library.Library": "__init__ impl",
    "nested": "nested_tensor",
}


# What a tensor on a GPU has and a tensor on a CPU answers otherwise.
_TENSOR: dict[str, Any] = {
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
    if isinstance(value, str) and value.split(":")[0] in ("cuda", "CUDA"):
        return "cpu" if value[0] == "c" else "CPU"
    if type(value) in (list, tuple) and any(type(v) is str and v == "cuda" for v in value):
        return ["cpu"]
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


def _resolved(torch: Any, path: str) -> tuple[Any, list[str]]:
    """The module or class at ``path`` below torch, and the names of its functions that take a device."""
    return functools.reduce(getattr, filter(None, path.split(".")), torch), _TAKE_A_DEVICE[path].split()


def _without_cuda(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with the CPU in the place of CUDA devices, which may be ordinals, and without pinned memory."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1:
            args = tuple([_on_cpu(torch, a) for a in args])
        if kwargs:
            for name in _DEVICES:
                if name in kwargs:
                    kwargs[name] = "cpu" if type(kwargs[name]) is int else _on_cpu(torch, kwargs[name])
            if kwargs.get("pin_memory"):
                kwargs["pin_memory"] = False
        return function(*args, **kwargs)

    return wrapper


_DEVICES = ("device", "map_location", "device_type", "device_types", "types", "dispatch_key")


def _to_cpu(torch: Any, to: Callable[..., Any]) -> Callable[..., Any]:
    """``Tensor.to``, whose device may come first."""
    to = _without_cuda(torch, to)

    def wrapper(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = ("cpu" if type(args[0]) is int else _on_cpu(torch, args[0]), *args[1:])
        return to(tensor, *args, **kwargs)

    return functools.wraps(to)(wrapper)


def _without_gpu_events(start: Callable[..., Any]) -> Callable[..., Any]:
    """What starts a profiler, which there is no GPU to record events of: it records those of the processor."""

    def wrapper(profiler: Any, *args: Any, use_device: Any = None, use_cuda: bool = False, **options: Any) -> None:
        start(profiler, *args, **{**options, "use_cpu": True})

    return functools.wraps(start)(wrapper)


def _default_cpu(torch: Any, enter: Callable[..., Any]) -> Callable[..., Any]:
    """What starts ``with torch.device(...)`` and ``torch.set_default_device``."""

    def wrapper(context: Any, device: Any) -> None:
        enter(context, _on_cpu(torch, torch.device(device)))

    return wrapper


# As many as such a GPU has: programs divide the number by blocks in a cluster, and size their grids with the result.
PROCESSORS = 132

PROPERTIES = SimpleNamespace(
    name="cpu",
    multi_processor_count=PROCESSORS,
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
    max_threads_per_block=1024,
    clock_rate=1 << 21,
    memory_clock_rate=1 << 21,
    memory_bus_width=512,
    is_integrated=0,
    is_multi_gpu_board=0,
)


def _fake_cuda(torch: Any) -> dict[str, Any]:
    """What ``torch.cuda`` answers: one device that has always finished."""
    answers = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "device_count": 1,
        "current_device": 0,
        "current_stream": Stream(),
        "default_stream": Stream(),
        "get_device_capability": (9, 0),
        "get_device_name": PROPERTIES.name,
        "get_device_properties": PROPERTIES,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "memory_summary": "",
        "mem_get_info": (PROPERTIES.total_memory, PROPERTIES.total_memory),
        "utilization": 0,
        "can_device_access_peer": False,
        "cudart": SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0),
    }
    actions = (
        "init synchronize empty_cache ipc_collect set_device manual_seed manual_seed_all reset_peak_memory_stats "
        "reset_accumulated_memory_stats set_per_process_memory_fraction set_stream _sleep"
    )
    return {
        **{name: constantly(answer) for name, answer in answers.items()},
        **{name: constantly(None) for name in actions.split()},
        "Event": Event,
        "Stream": Stream,
        "ExternalStream": Stream,
        "CUDAGraph": CUDAGraph,
        "graph": Capturing,
        "make_graphed_callables": lambda callables, *args, **kwargs: callables,
        "is_current_stream_capturing": lambda: CUDAGraph.capturing,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "stream": _Entered,
        "StreamContext": _Entered,
        "device": _Entered,
        "device_of": _Entered,
    }


_OF_ANY_DEVICE = ("synchronize", "current_stream", "set_stream", "empty_cache")

# The marks of ``torch.cuda.nvtx``, for profilers that see nothing of this process.
_MARKS = {"range": lambda *args, **kwargs: nullcontext(), "range_push": None, "range_pop": None, "mark": None}


def _uncompiled(model: Any = None, **options: Any) -> Any:
    """``torch.compile`` that leaves functions as they are: it would generate code for a GPU that is not there."""
    return model if model is not None else lambda function: function


def constantly(answer: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: answer


def nothing(*args: Any, **kwargs: Any) -> None:
    """Everything has finished already, and there is one device, with one stream."""


class Stream(nullcontext[Any]):
    """A stream whose work has always ended."""

    cuda_stream = ptr = priority = 0
    null: Stream
    ptds: Stream
    synchronize = wait_stream = wait_event = nothing
    query = constantly(True)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(self)

    def is_capturing(self) -> bool:
        return CUDAGraph.capturing

    def record_event(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event


Stream.null = Stream.ptds = Stream()


class _Entered(nullcontext[Any]):
    """``torch.cuda.device(0)`` and ``torch.cuda.stream(s)``."""


class Event:
    """A point in time, as ``torch.cuda.Event`` marks it."""

    wait = synchronize = nothing
    query = constantly(True)

    def __init__(self, *args: Any, clock: Callable[[], float] = time.perf_counter, **kwargs: Any) -> None:
        self._clock = clock
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        self._time = self._clock()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to ``end``."""
        return (end._time - self._time) * 1e3
