"""Kernels of every front end: from described arguments to something that runs."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np

from tilewright.backends.base import Backend, Buffer, Executable, LaunchArguments
from tilewright.frontend.signature import Signature
from tilewright.ir.core import Function
from tilewright.ir.dtypes import int64
from tilewright.ir.opdef import Effect
from tilewright.ir.printer import print_function, print_loc
from tilewright.passes.effects import argument_effects
from tilewright.runtime import explain as explanation
from tilewright.runtime import manifest
from tilewright.runtime.arguments import HOLE, Explained, Region, Table, explain
from tilewright.runtime.arrays import Flat, Part
from tilewright.runtime.backend_choice import select
from tilewright.runtime.cache import cache_key, disk_cache
from tilewright.runtime.explain import Compilation
from tilewright.runtime.layout import Place
from tilewright.runtime.overlap import check_overlap
from tilewright.runtime.rules import Rule
from tilewright.runtime.timeout import within_timeout
from tilewright.version import __version__

_SOURCE_STAGE = "Tile IR"
_MAX_PREPARED = 4096  # launches that a kernel remembers; programs with more shapes than that start over
# One compilation at a time: front ends raise Python's recursion limit, which belongs to the process.
_LOCK = threading.RLock()
_Kernel = TypeVar("_Kernel", bound="Launchable")


@dataclass(frozen=True)
class Specialization:
    """A kernel compiled for one signature. ``function`` is its IR before any pass."""

    function: Function
    executable: Executable
    written: frozenset[str]  # the arguments that it stores to
    compilation: Compilation

    def stage_names(self) -> list[str]:
        """What can be shown of the compilation, in order."""
        return list(dict.fromkeys((_SOURCE_STAGE, *self.executable.stages())))

    def stage(self, name: str) -> str:
        """The text of a stage."""
        return print_function(self.function) if name == _SOURCE_STAGE else self.executable.stages()[name]


@dataclass(frozen=True)
class Inspection:
    """What ``kernel.inspect()`` tells. Printing it shows the key of every specialization, and why each was made."""

    name: str
    specializations: tuple[Specialization, ...]

    def __str__(self) -> str:
        count = len(self.specializations)
        lines = [f"kernel {self.name}: {count} specialization{'s' * (count != 1)}"]
        for number, found in enumerate(self.specializations, 1):
            head, *rest = found.compilation.lines()
            lines += [f"{number}. {head}", *(f" {line}" for line in rest)]
        return "\n".join(lines)


class Launchable:
    """A kernel. Front ends derive from it and say what its parameters are and how to trace it."""

    is_tile_kernel = True
    name: str

    def __init__(self) -> None:
        self.prepared: dict[Any, Prepared] = {}
        self._specializations: dict[tuple[str, Signature], Specialization] = {}
        self.options: dict[str, dict[str, Any]] = {}  # engine -> its options, such as the number of threads

    @property
    def parameters(self) -> Sequence[tuple[Place, Rule]]:
        """The parameters, in order."""
        raise NotImplementedError

    def trace(self, signature: Signature) -> Function:
        """The IR of the kernel for arguments that ``signature`` describes."""
        raise NotImplementedError

    def replace_options(self: _Kernel, engine: str, /, **options: Any) -> _Kernel:
        """The same kernel, with a cache of its own, compiled by ``engine`` with these ``options``.

        The engine says what its options are, and ValueError about others, when it compiles. No option changes what a
        kernel computes.
        """
        changed = copy.copy(self)
        Launchable.__init__(changed)
        changed.options = {**self.options, engine: options}
        return changed

    def inspect(self) -> Inspection:
        """What has been compiled so far: the key of each specialization, why it was made, and all its stages."""
        return Inspection(self.name, tuple(self._specializations.values()))

    def describe(self, requested: str | None, parts: Sequence[Part]) -> tuple[Signature, Backend, Explained]:
        """What a launch is keyed on, the engine that runs it, and its arguments. Nothing is compiled."""
        explained = Explained([], [], [])
        specs = [explain(rule, place, part, explained) for (place, rule), part in zip(self.parameters, parts)]
        return Signature(tuple(specs)), select(requested, self.name, explained.regions), explained

    def prepare(self, requested: str | None, parts: Sequence[Part]) -> Prepared:
        """Everything about a launch that does not change with addresses and numbers: checked, compiled, remembered."""
        signature, backend, explained = self.describe(requested, parts)
        specialization = self.specialize(signature, backend)
        for region in explained.regions:
            if not region.layout.writable and _argument_of(region, explained.tables) in specialization.written:
                raise ValueError(f"{Place(self.name, region.name)} is read-only, but the kernel stores to it")
        return Prepared(self.name, specialization, explained)

    def specialize(self, signature: Signature, backend: Backend) -> Specialization:
        """The kernel compiled for ``signature``, at most once. TileError when the kernel is wrong."""
        key = backend.name, signature
        found = self._specializations.get(key)
        if found is None:
            with _LOCK:
                found = self._specializations.get(key)
                if found is None:
                    found = self._compile(signature, backend)
                    self._specializations[key] = found
        return found

    def _compile(self, signature: Signature, backend: Backend) -> Specialization:
        start = time.perf_counter()
        function = self.trace(signature)
        executable, origin = compiled(function, backend, self.options.get(backend.name, {}))
        seconds = time.perf_counter() - start
        facts = explanation.facts([place.argument for place, _ in self.parameters], signature)
        earlier = [s.compilation for s in self._specializations.values()]
        reasons = explanation.reasons(self.name, function.loc, backend.name, facts, earlier)
        compilation = Compilation(backend.name, origin, seconds, facts, tuple(reasons))
        if explanation.wanted():
            explanation.show(self.name, len(earlier) + 1, compilation)
        return Specialization(function, executable, argument_effects(function).written, compilation)

    def remember(self, key: Any, prepared: Prepared) -> None:
        """Keep ``prepared`` for launches with the same ``key``."""
        if len(self.prepared) >= _MAX_PREPARED:
            self.prepared.clear()
        self.prepared[key] = prepared


def _argument_of(region: Region, tables: Sequence[Table]) -> str:
    """The name that the IR knows an array by: that of the list for the entries of one."""
    return next((t.name for t in tables if t.number == region.number), region.name)


def compiled(function: Function, backend: Backend, options: Mapping[str, Any]) -> tuple[Executable, str]:
    """``function`` compiled by ``backend``, or found in the disk cache; and which of the two."""
    if manifest.wanted():
        manifest.record(function, backend.name, options)
    cache = disk_cache()
    if cache is None:
        return within_timeout(lambda: backend.compile(function, options), function.name), "compiled"
    key = _key(function, backend, options)
    data = cache.get(key)
    if data is not None:
        return backend.deserialize(function, data, options), "disk cache"
    executable = within_timeout(lambda: backend.compile(function, options), function.name)
    data = backend.serialize(executable)
    if data is not None:
        cache.put(key, data)
    return executable, "compiled"


def _key(function: Function, backend: Backend, options: Mapping[str, Any]) -> str:
    text = print_function(function)
    chosen = repr(sorted(options.items()))
    return cache_key(__version__, backend.name, backend.target(), chosen, text, *_shown_places(function))


def _shown_places(function: Function) -> Iterator[str]:
    """The locations that the program may print when it runs: they are part of what was compiled."""
    return (print_loc(op.loc) for op in function.walk() if op.spec.effect & Effect.OUTPUT)


class Prepared:
    """A launch but for its addresses, numbers and grid."""

    __slots__ = ("_holes", "_kernel", "_regions", "_tables", "_template", "specialization")

    def __init__(self, kernel: str, specialization: Specialization, explained: Explained) -> None:
        self._kernel = kernel
        self.specialization = specialization
        self._template = explained.values
        self._holes = [i for i, value in enumerate(explained.values) if value is HOLE]
        self._regions = explained.regions
        self._tables = explained.tables

    def run(self, grid: tuple[int, int, int], flat: Flat, *, check: bool = False) -> None:
        """Run the kernel. With ``check``, ValueError first when an argument that it writes overlaps another one."""
        values = self._template.copy()
        for position, number in zip(self._holes, flat.numbers):
            values[position] = number
        buffers: Sequence[Buffer] = _Buffers(self._regions, flat.numbers)
        if check:
            written = self.specialization.written
            names = [_argument_of(r, self._tables) for r in self._regions]
            check_overlap(self._kernel, self._regions, flat.numbers, [name in written for name in names])
        if self._tables:
            buffers = [*buffers, *self._fill_tables(values, flat)]
        self.specialization.executable.launch(grid, LaunchArguments(values, buffers))

    def _fill_tables(self, values: list[Any], flat: Flat) -> Iterator[Buffer]:
        """Give each list argument its table in memory."""
        for table in self._tables:
            rows = table.rows.copy()
            rows[:, 0] = np.array(flat.numbers[table.number], np.uint64).view(np.int64)
            flat.owners.append(rows)
            address = rows.ctypes.data
            values[self._holes[table.number]] = address
            yield Buffer(table.name, address, address, address + rows.nbytes, int64, writable=False)


class _Buffers(Sequence[Buffer]):
    """The memory of a launch, described when asked for: engines that run native code never do."""

    __slots__ = ("_numbers", "_regions")

    def __init__(self, regions: Sequence[Region], numbers: list[Any]) -> None:
        self._regions = regions
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._regions)

    @overload
    def __getitem__(self, index: int) -> Buffer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Buffer]: ...
    def __getitem__(self, index: int | slice) -> Buffer | Sequence[Buffer]:
        if isinstance(index, slice):
            return _Buffers(self._regions[index], self._numbers)
        region = self._regions[index]
        address = region.address(self._numbers)
        low, high = region.layout.extent()
        layout = region.layout
        return Buffer(region.name, address, address + low, address + high, layout.dtype, layout.writable)
