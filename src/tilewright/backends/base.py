"""What a backend is: the protocol that the runtime knows it by, and the record of what else it can do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from tilewright.backends.export import Export
from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.backends.native import Embedded, LaunchStub
from tilewright.ir.core import Function
from tilewright.records import NamedTuple, dataclass

Grid = tuple[int, int, int]
Exporter = Callable[[Sequence[Export], Path, str, "str | None"], None]  # kernels, path, format, target


class Executable(Protocol):
    """A compiled kernel, safe to launch from several threads at once."""

    def launch(self, grid: Grid, arguments: LaunchArguments) -> None:
        """Run every block of ``grid``. Raises TileError when an ``assert`` fails. A ``DirectLaunch`` gets no buffers.

        A backend of a CPU returns when all blocks have ended; one of a GPU when they are queued on the stream.
        """

    def bind(self, grid: Grid, arguments: LaunchArguments) -> Callable[[], None]:
        """``launch`` with these arguments, to be called any number of times, also from several threads at once.

        Everything that can be done once is done here.
        """
        return functools.partial(self.launch, grid, arguments)

    def stages(self) -> Mapping[str, str]:
        """What ``tilewright inspect`` can show of this kernel: stage name to text, in order of compilation."""


class LazyTexts(Mapping[str, str]):
    """Texts that are made each time they are looked at: printing IR takes as long as some passes over it."""

    def __init__(self, makers: Mapping[str, Callable[[], str]]) -> None:
        self._makers = makers

    def __getitem__(self, title: str) -> str:
        return self._makers[title]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class DirectLaunch(Executable, Protocol):
    """An executable that needs nothing but the values of its parameters."""

    def launch_stub(self, device: int, tables: Sequence[ListTable], variants: Mapping[Any, Any]) -> LaunchStub | None:
        """How machine code launches it with tables that are like ``tables``, of which it has the addresses of filled
        rows, or runs one of ``variants``, which launches have needed; None where it cannot."""


class NeedsVariant(Exception):
    """A launch needs its kernel compiled in another way, and nothing has happened. ``variant``, which is hashable, says
    in which; its ``repr`` is part of a key of the disk cache."""

    def __init__(self, variant: Any) -> None:
        super().__init__(variant)
        self.variant = variant


class NeedsKernel(Exception):
    """A launch runs another kernel, too, and nothing has happened: ``function``, compiled with ``options``, is to
    become ``executable.kernels[key]``. It is one for all executables of a device."""

    def __init__(self, key: Any, function: Function, options: Mapping[str, Any]) -> None:
        super().__init__(key)
        self.key, self.function, self.options = key, function, options


class Versioned(DirectLaunch, Protocol):
    """An executable whose ``launch``, ``bind``, ``launch_stub`` and ``embedded`` may raise ``NeedsVariant`` and
    ``NeedsKernel``; what ``bind`` gives does not."""

    kernels: dict[Any, Any]  # other kernels that launches run

    def embedded(self, name: str, grid: Grid) -> Embedded:
        """How machine code launches it as a function ``name``. ValueError where it cannot, with the reason."""

    def variant_for(self, grid: Grid, processors: int) -> Any:
        """The variant that a launch of ``grid`` needs on a device with so many processors; None for this one."""


class Work(NamedTuple):
    """What a launch does: floating-point operations, and bytes between arrays and registers."""

    flops: float
    moved: float


class Serialization(NamedTuple):
    """Executables as bytes, for the disk cache."""

    to_bytes: Callable[[Any], bytes]
    """The executable as bytes."""
    from_bytes: Callable[[Function, bytes, Mapping[str, Any], Any], Executable]
    """The executable of a function that ``to_bytes`` wrote, compiled with these options and as this variant. ValueError
    for other bytes."""


class Machine(NamedTuple):
    """What has to be known of a device to compile for it where it is not."""

    target: str
    """What ``Capabilities.for_target`` takes."""
    processors: int
    """How many it has: on an NVIDIA GPU, SMs."""


@dataclass(frozen=True)
class Devices:
    """Devices with memory of their own, of which a machine may have several, and not all alike."""

    backend_of: Callable[[int], Backend]
    """The backend for the device of this index."""
    count: Callable[[], int]
    """How many devices there are."""
    index_of: Callable[[int], int | None]
    """The index of the device whose memory an address is in; None when it is in that of none. 0 where there is no
    driver to ask."""


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do besides compiling kernels and launching them: this record says it, never its name.

    ``direct_launch``: its executables are instances of ``DirectLaunch``; ``variants``: of ``Versioned``.
    ``finds_undefined_behavior``: it looks for that itself, and kernels state what the language leaves undefined even
    where that costs. ``serialization``: executables are worth keeping in the disk cache. ``work``: what a launch of an
    executable does; ValueError when that depends on what the kernel finds in memory. ``run_source``: the executable of
    a function of the Python front end, without IR, for arguments that a signature describes. ``for_target``: the
    backend for an architecture that need not be in this machine (None: the one that is); ValueError for an unknown
    one; ``machine``: what another process compiles for instead of the device that this backend launches on.
    ``elapsed(launch, stream, flush_cache)``: the seconds that what ``launch`` queues on a stream takes, after the
    caches were flushed or not, where launches return before they have ended. ``embed(executable, name, grid)``: how
    programs of other compilers launch it, as a function ``name``; ValueError where they cannot, with the reason.
    ``exports``: format -> what writes kernels to a path, in this format, for a target; TileUnsupportedFeatureError for
    what the format or the target cannot hold.
    """

    direct_launch: bool = False
    variants: bool = False
    finds_undefined_behavior: bool = False
    serialization: Serialization | None = None
    work: Callable[[Any, Grid, LaunchArguments], Work] | None = None
    run_source: Callable[[Any, Any], Executable] | None = None
    for_target: Callable[[str | None], Backend] | None = None
    machine: Callable[[], Machine] | None = None
    devices: Devices | None = None
    elapsed: Callable[[Callable[[], None], int, bool], float] | None = None
    embed: Callable[[Any, str, Grid], Embedded] | None = None
    exports: Mapping[str, Exporter] = field(default_factory=dict)


class Backend(Protocol):
    """What compiles kernels."""

    name: str
    device: str  # the device type of the arrays it runs on: "cpu" or "cuda"

    @property
    def capabilities(self) -> Capabilities:
        """What else it can do."""
        return Capabilities()

    def unavailable(self) -> str | None:
        """Why this backend cannot be used here and what to install, or None when it can."""
        return None

    def target(self) -> str:
        """Identifies the machine code: part of every cache key."""

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> Executable:
        """Compile ``function``, which is not modified; as the ``variant`` that a launch needs, or as is tried first."""
