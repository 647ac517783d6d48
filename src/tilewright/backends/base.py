"""What a backend is, what it gives to the runtime, and which backends exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tilewright.backends.native import Embedded, Entry
from tilewright.ir.core import Function
from tilewright.ir.dtypes import DType
from tilewright.ir.types import TileType
from tilewright.system.forks import load


@dataclass(frozen=True)
class Buffer:
    """The memory behind one base-pointer parameter of a launch.

    ``address`` is what the parameter holds: the address of element 0, which is not the lowest one when a stride
    is negative. ``low`` and ``high`` delimit the bytes that the array covers. ``name`` is the kernel argument.
    ``shape`` and ``strides`` count elements; None where the memory is no array.
    """

    name: str
    address: int
    low: int
    high: int
    dtype: DType
    writable: bool
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


class ListTable(NamedTuple):
    """The table of a list argument: rows of 64-bit integers, of which the first is the address of an array.

    ``rows`` are those rows without the ``addresses``. Launches that differ by addresses share them, and nobody changes
    them.
    """

    rows: np.ndarray[Any, Any]
    addresses: Sequence[int]

    def filled(self) -> np.ndarray[Any, Any]:
        """The rows with the addresses."""
        rows = self.rows.copy()
        rows[:, 0] = np.array(self.addresses, np.uint64).view(np.int64)
        return rows


class LaunchArguments(NamedTuple):
    """The flattened arguments of one launch.

    ``values[i]`` is the number for ``function.body.args[i]``: an address, an extent, a stride or a scalar. The address
    of a table is that of rows in host memory; ``tables`` has all of them, in order, for backends that copy them.
    ``buffers`` lists the memory that the pointers among them refer to; backends that run native code ignore it.
    On a GPU, ``stream`` is the handle of the queue that the launch goes to and ``device`` the index of the GPU.
    """

    values: Sequence[int | float | bool]
    buffers: Sequence[Buffer]
    stream: int = 0
    device: int = 0
    tables: Sequence[ListTable] = ()


class Executable(Protocol):
    """A compiled kernel, safe to launch from several threads at once."""

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Run every block of ``grid``. Raises TileError when an ``assert`` fails.

        A backend of a CPU returns when all blocks have ended; one of a GPU when they are queued on the stream.
        """

    def bind(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        """``launch`` with these arguments, to be called any number of times, also from several threads at once.

        Everything that can be done once is done here; ``functools.partial`` of ``launch`` will do. What is returned
        takes attributes, as functions do.
        """

    def stages(self) -> Mapping[str, str]:
        """What ``tilewright inspect`` can show of this kernel: stage name to text, in order of compilation."""


class Work(NamedTuple):
    """What a launch does: floating-point operations, and bytes between arrays and registers."""

    flops: float
    moved: float


@runtime_checkable
class Native(Protocol):
    """An executable that needs nothing but the values of its parameters, and no list of buffers."""

    def run(self, grid: tuple[int, int, int], values: Sequence[int | float | bool], stream: int, device: int) -> None:
        """``launch`` with these ``LaunchArguments``, but for tables, which are instances of ``ListTable``."""

    def entry(self, device: int) -> Entry | None:
        """How machine code does that; None where it cannot."""


@runtime_checkable
class Embeddable(Protocol):
    """An executable that programs of other compilers can launch."""

    def embedded(self, name: str, device: int) -> Embedded:
        """How machine code does that, as a function ``name``. ValueError where it cannot, with the reason."""


class Storage(Protocol):
    """Where data are kept for later processes."""

    def get(self, key: str) -> bytes | None:
        """What was put there, or None."""

    def put(self, key: str, data: bytes) -> None:
        """Keep ``data``."""


@runtime_checkable
class Formed(Protocol):
    """An executable that compiles its kernel in other ways when launches need that, and keeps those in ``storage``."""

    storage: Storage | None


@runtime_checkable
class Counting(Protocol):
    """An executable that knows how much a launch does."""

    def work(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Work:
        """ValueError when that depends on what the kernel finds in memory."""


class Backend(Protocol):
    """A backend that compiles kernels."""

    name: str
    device: str  # the device type of the arrays it runs on: "cpu" or "cuda"

    def unavailable(self) -> str | None:
        """Why this backend cannot be used here and what to install, or None when it can."""

    def target(self) -> str:
        """Identifies the machine code: part of every cache key."""

    def compile(self, function: Function, options: Mapping[str, Any]) -> Executable:
        """Compile ``function``, which is not modified."""

    def serialize(self, executable: Executable) -> bytes | None:
        """The executable as bytes for the disk cache, or None when it is not worth storing."""

    def deserialize(self, function: Function, data: bytes, options: Mapping[str, Any]) -> Executable:
        """The executable that ``serialize`` wrote."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an exported function.

    ``position`` is that of the parameter of the IR function which it becomes, or None when the code relies on the
    number ``known`` instead. Callers promise at least ``lower``, and a multiple of ``divisor`` (bytes for addresses).
    ``argument`` is what the kernel's author calls it.
    """

    name: str
    type: TileType
    argument: str
    position: int | None
    known: int | None = None
    lower: int | None = None
    divisor: int = 1


@dataclass(frozen=True)
class Export:
    """A kernel to export: its IR, the symbol, and the parameters of the exported function."""

    function: Function
    symbol: str
    parameters: tuple[Parameter, ...]


@runtime_checkable
class Exporter(Protocol):
    """A backend that can write kernels for programs without Python."""

    def export(self, kernels: Sequence[Export], path: Path, output_format: str, target: str | None) -> None:
        """Write ``kernels`` to ``path``. TileUnsupportedFeatureError for what the format or ``target`` cannot hold."""


@runtime_checkable
class CrossCompiler(Protocol):
    """A backend that compiles for more than the device of this machine."""

    def for_target(self, target: str | None) -> Backend:
        """This backend, compiling for the architecture ``target``, or for the device of this machine (None).

        ValueError for an architecture that it does not have.
        """


@runtime_checkable
class MultiDevice(Protocol):
    """A backend for devices with memory of their own, of which a machine may have several, and not all alike."""

    def for_device(self, index: int) -> Backend:
        """This backend for the device ``index``."""

    def device_count(self) -> int:
        """How many devices there are."""

    def device_of(self, address: int) -> int | None:
        """The index of the device whose memory ``address`` is in; None when it is in that of none.

        0 where there is no driver to ask.
        """


@runtime_checkable
class SourceBackend(Backend, Protocol):
    """A backend that runs kernels as their front end has them, without IR."""

    def load(self, function: Any, signature: Any) -> Executable:
        """What runs ``function``, of the Python front end, for arguments that ``signature`` describes."""


@runtime_checkable
class Stopwatch(Protocol):
    """A backend whose launches return before they have ended, and which therefore times them itself."""

    def elapsed(self, launch: Callable[[], None], stream: int, *, flush_cache: bool) -> float:
        """The seconds that what ``launch`` queues on the stream with this handle takes, when it has ended.

        With ``flush_cache`` the data of earlier launches leave the caches of the device first.
        """


# name -> module that defines ``BACKEND``. Modules load on first use.
_MODULES = {
    "reference": "tilewright.backends.reference",
    "cpu": "tilewright.backends.cpu",
    "python": "tilewright.eager",
    "triton": "tilewright.backends.triton",
    "tileir": "tilewright.backends.tileir",
    "sanitizer": "tilewright.sanitizer.backend",
}


def watches(backend: Backend) -> bool:
    """Whether ``backend`` looks for undefined behaviour: kernels then state it even where that costs."""
    return getattr(backend, "watches", False) is True


def backend_names() -> tuple[str, ...]:
    """Every backend that exists, usable here or not."""
    return tuple(_MODULES)


def get_backend(name: str) -> Backend:
    """The backend called ``name``. ValueError when there is none."""
    if name not in _MODULES:
        raise ValueError(f"unknown backend {name!r}; choose one of {', '.join(_MODULES)}")
    backend: Backend = load(_MODULES[name]).BACKEND
    return backend
