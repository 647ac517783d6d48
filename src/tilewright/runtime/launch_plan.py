"""A launch but for its addresses, numbers and grid: what launches with one key have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends import native
from tilewright.backends.base import Capabilities, Work
from tilewright.backends.launch_arguments import Buffer, LaunchArguments, ListTable
from tilewright.frontend.signature import ArraySpec, PointerSpec
from tilewright.ir.dtypes import int64
from tilewright.runtime.arguments import RUNTIME_SLOT, BoundArguments, Region, Table
from tilewright.runtime.arrays import RuntimeValues
from tilewright.runtime.cached_launch import CachedLaunch, cached_launch
from tilewright.runtime.overlap import check_overlap
from tilewright.runtime.rules import Rule
from tilewright.runtime.specialization import Specialization
from tilewright.runtime.streams import stream_handle
from tilewright.runtime.versions import Path
from tilewright.system.environment import switch

_MAX_ATTEMPTS = 4  # ways in which launches of one key may differ otherwise, such as in classes of arrays
_EXTENTS_ARE_READ = ("numpy", "torch", "dlpack")  # by machine code, of arrays of these kinds
# Launches after which machine code is made, which takes as long as many of them: on GPUs, and where LLVM is loaded.
# Where it is not, as for kernels from the disk cache, launches after which the code is loaded from there, and LLVM.
_SOON, _STORED, _LATER = 5, 50, 300


class Repeated:
    """What launches have in common that differ by addresses, numbers and the extents of arrays: ``cached`` runs them,
    after some."""

    def __init__(self) -> None:
        self.cached: CachedLaunch | None = None
        self.plan: LaunchPlan | None = None  # one of them
        self.launches = self.attempts = 0
        self.following: LaunchPlan | None = None  # of others that the kernel launched next, and most likely will again


class LaunchPlan:
    """A launch but for its addresses, numbers and grid."""

    def __init__(
        self,
        kernel: str,
        specialization: Specialization,
        bound: BoundArguments,
        capabilities: Capabilities,
        written: Sequence[Path] = (),
    ) -> None:
        """``written`` lead to the arguments whose version the launch increments."""
        self.written = written
        self._bound = bound
        self._kernel = kernel
        self.specialization = specialization
        first = bound.regions[0].layout if bound.regions else None
        self._device = first.device_index if first is not None and first.device != "cpu" else None
        self._slots = [i for i, value in enumerate(bound.values) if value is RUNTIME_SLOT]
        self.key: Any = None  # of the arguments, where a kernel remembers it
        self.repeated = Repeated()
        self._launcher: Any = specialization.launcher
        self._direct = capabilities.direct_launch
        self.capabilities = capabilities

    def run(
        self, grid: tuple[int, int, int], runtime: RuntimeValues, stream: Any = None, *, check: bool = False
    ) -> None:
        """Run the kernel. With ``check``, ValueError first when an argument that it writes overlaps another one."""
        self._launcher.launch(grid, self.arguments(runtime, stream, check=check))

    def bind(
        self, grid: tuple[int, int, int], runtime: RuntimeValues, stream: Any = None, *, check: bool = False
    ) -> Callable[[], None]:
        """``run``, to be called later and more than once. The objects in ``runtime`` have to live as long."""
        return self._launcher.bind(grid, self.arguments(runtime, stream, check=check))

    def key_without_extents(self) -> tuple[Any, ...]:
        """What the keys of launches have in common that ``cached`` runs: those of arrays are without shape and strides,
        where machine code reads these."""
        name, check, *keys = self.key
        arrays = [isinstance(spec, (ArraySpec, PointerSpec)) for spec in self._bound.specs]
        read = [a and kind in _EXTENTS_ARE_READ for a, (kind, *_) in zip(arrays, keys)]
        parts = [k[:2] + k[4:] if is_read and 0 not in k[2] else k for is_read, k in zip(read, keys)]
        return id(self.specialization), name, check, *parts

    def is_repeated(self) -> bool:
        """Whether this is a launch after which ``cache`` pays. Asked after each that ``cached`` has not run."""
        like = self.repeated
        if not self._direct or like.attempts == _MAX_ATTEMPTS:
            return False
        like.launches += 1
        if self._device is not None or native.loaded():
            return like.launches >= _SOON
        return like.launches in (_STORED, _LATER)

    def cache(self, backend: str | None, rules: Sequence[Rule], args: Sequence[Any], runtime: RuntimeValues) -> None:
        """Let ``cached`` run launches that ask for ``backend`` and differ from that with ``args`` by addresses, numbers
        and extents only."""
        if switch("TILEWRIGHT_CHECK_OVERLAP"):
            return
        like, bound, tables = self.repeated, self._bound, self._list_tables(runtime.numbers)
        how = bound.values, self._launcher, self._device, tables, self.written, bound.specs
        try:
            like.cached, like.plan = cached_launch(backend, rules, args, *how) or like.cached, self
            like.launches, like.attempts = 0, like.attempts + 1
        except native.NotCompiled:
            if self._device is not None or like.launches >= _LATER:
                native.compiler()  # loads LLVM
                self.cache(backend, rules, args, runtime)

    @property
    def cached(self) -> CachedLaunch | None:
        """What runs launches like this one, if they were repeated before."""
        return self.repeated.cached

    def stream_for(self, stream: Any) -> Any:
        """The stream to launch on: a CPU accepts any, and uses none."""
        return None if self._device is None else stream

    def _list_tables(self, numbers: Sequence[Any]) -> list[ListTable]:
        return [ListTable(table.rows, numbers[table.number]) for table in self._bound.tables]

    def work(self, grid: tuple[int, int, int], runtime: RuntimeValues) -> Work:
        """What a run would compute and move."""
        if self.capabilities.work is None:
            raise ValueError("the backend does not tell how much a kernel computes; the backend cpu does")
        return self.capabilities.work(self.specialization.executable, grid, self.arguments(runtime))

    @property
    def takes_lists(self) -> bool:
        """Whether lists are among the arguments."""
        return bool(self._bound.tables)

    def arguments(self, runtime: RuntimeValues, stream: Any = None, *, check: bool = False) -> LaunchArguments:
        """What the executable gets; ``check`` as for ``run``."""
        numbers, device = runtime.numbers, self._device
        if check:
            written = self.specialization.written
            names = [argument_of(r, self._bound.tables) for r in self._bound.regions]
            check_overlap(self._kernel, self._bound.regions, numbers, [name in written for name in names])
        buffers = [] if self._direct else [region.buffer(numbers) for region in self._bound.regions]
        tables = self._list_tables(numbers) if self._bound.tables else ()
        if tables:
            numbers = self._with_tables(tables, runtime, buffers)
        values = self._bound.values.copy()
        for slot, number in zip(self._slots, numbers):
            values[slot] = number
        handle = 0 if device is None else stream_handle(stream)
        return LaunchArguments(values, buffers, handle, device or 0, tables)

    def _with_tables(self, tables: Sequence[ListTable], runtime: RuntimeValues, buffers: list[Buffer]) -> list[Any]:
        """The numbers of a launch with the addresses of its tables, whose memory ``buffers`` get as well."""
        numbers = runtime.numbers.copy()
        for table, found in zip(self._bound.tables, tables):
            rows = found.filled()
            runtime.owners.append(rows)
            address = numbers[table.number] = rows.ctypes.data
            buffers.append(Buffer(table.name, address, address, address + rows.nbytes, int64, writable=False))
        return numbers


def argument_of(region: Region, tables: Sequence[Table]) -> str:
    """The name that the IR knows an array by: that of the list for the entries of one."""
    return next((t.name for t in tables if t.number == region.number), region.name)
