"""Kernels of every front end: from described arguments to something that runs."""

from __future__ import annotations

import functools
import html
import operator
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, overload

from tilewright.analysis.argument_effects import argument_effects
from tilewright.backends.base import (
    Backend,
    Buffer,
    Counting,
    Executable,
    Formed,
    LaunchArguments,
    ListTable,
    Native,
    Work,
    watches,
)
from tilewright.frontend.signature import PointerSpec, Signature
from tilewright.ir.core import Function
from tilewright.ir.dtypes import int64
from tilewright.ir.errors import TileError
from tilewright.ir.opdef import Effect
from tilewright.ir.printer import print_function, print_loc
from tilewright.runtime import explain as explanation
from tilewright.runtime import manifest
from tilewright.runtime.arguments import HOLE, Explained, Region, Table, describer, explain, one_for_type
from tilewright.runtime.arrays import Describe, Flat, Part
from tilewright.runtime.backend_choice import compiling_for, requested, select, settings
from tilewright.runtime.cache import Compartment, cache_key, disk_cache
from tilewright.runtime.explain import Compilation
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.layout import Place
from tilewright.runtime.overlap import check_overlap
from tilewright.runtime.repeat import Again
from tilewright.runtime.rules import Rule
from tilewright.runtime.streams import stream_handle
from tilewright.runtime.timeout import within_timeout
from tilewright.runtime.versions import Path, noting_writes
from tilewright.system.environment import switch, variable
from tilewright.system.forks import KERNEL, fork_aware_lock
from tilewright.system.stack import require_stack
from tilewright.transforms.pipelines import add_checks, run_passes
from tilewright.version import __version__

_SOURCE_STAGE = "Tile IR"
_MAX_LESSONS = 4  # ways in which launches of one key may differ otherwise, such as in tensors that require a gradient
_MAX_PREPARED = 4096  # launches that a kernel remembers; programs with more shapes than that start over
# One compilation at a time: front ends raise Python's recursion limit, which belongs to the process.
_LOCK = fork_aware_lock(KERNEL)
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
    hints: Mapping[str, Any]
    options: Mapping[str, Mapping[str, Any]]
    specializations: tuple[Specialization, ...]

    def __str__(self) -> str:
        count = len(self.specializations)
        lines = [f"kernel {self.name}: {count} specialization{'s' * (count != 1)}"]
        if self.hints:
            lines.append("hints: " + ", ".join(f"{name} = {value!r}" for name, value in self.hints.items()))
        for backend, options in self.options.items():
            lines.append(
                f"options of {backend}: " + ", ".join(f"{name} = {value!r}" for name, value in options.items())
            )
        for number, found in enumerate(self.specializations, 1):
            head, *rest = found.compilation.lines()
            lines += [f"{number}. {head}", *(f" {line}" for line in rest)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What notebooks show: the text, then every stage of each specialization, folded."""
        shown = [f"<pre>{html.escape(str(self))}</pre>"]
        for number, found in enumerate(self.specializations, 1):
            for name in found.stage_names():
                text = html.escape(found.stage(name))
                shown.append(f"<details><summary>{number}. {html.escape(name)}</summary><pre>{text}</pre></details>")
        return "".join(shown)


class SourceSpecialization(Specialization):
    """A kernel that runs from its source, which may hold what only Python can run, such as ``breakpoint()``."""

    def __init__(self, trace: Callable[[], Function], executable: Executable, compilation: Compilation) -> None:
        vars(self).update(_trace=trace, executable=executable, compilation=compilation)

    @functools.cached_property
    def function(self) -> Function:
        """The IR. TileError when the source cannot be compiled."""
        found: Function = vars(self)["_trace"]()
        return found

    @functools.cached_property
    def written(self) -> frozenset[str]:
        """Nothing where the IR cannot be made: then the backend checks each store as it happens."""
        try:
            return argument_effects(self.function).written
        except TileError:
            return frozenset()

    def stage_names(self) -> list[str]:
        return list(self.executable.stages())


class Launchable:
    """A kernel. Front ends derive from it and say what its parameters are and how to trace it."""

    is_tile_kernel = True
    name: str
    hints: Mapping[str, Any] = MappingProxyType({})  # of the language, for the compiler

    def __init__(self) -> None:
        self.prepared: dict[Any, Prepared] = {}
        self._last: tuple[Any, Any] = (None, None)  # the key of the latest launch, and what it prepared
        self._describers: dict[tuple[type, ...], list[Describe]] = {}  # by the types of the arguments
        self.again: Again | None = None  # how to recognize that launch sooner, if it was repeated before
        self._specializations: dict[tuple[str, str, bool, Signature], Specialization] = {}
        self.variants: dict[Any, Any] = {}  # hints -> the same kernel with them, and what its source named then
        self.options: dict[str, dict[str, Any]] = {}  # backend -> its options, such as the number of threads

    def __copy__(self: _Kernel) -> _Kernel:
        return self

    def __deepcopy__(self: _Kernel, memo: Any) -> _Kernel:
        """The same kernel, as of functions: what it knows is what it has compiled."""
        return self

    @property
    def parameters(self) -> Sequence[tuple[Place, Rule]]:
        """The parameters, in order."""
        raise NotImplementedError

    @property
    def has_defaults(self) -> bool:
        """Whether the source gives parameters defaults, which launches do not use."""
        return False

    def trace(self, signature: Signature) -> Function:
        """The IR of the kernel for arguments that ``signature`` describes."""
        raise NotImplementedError

    def trace_checked(self, signature: Signature) -> Function:
        """The IR that also states what the language leaves undefined where ``trace`` may drop it."""
        return self.trace(signature)

    def bind(
        self,
        grid: tuple[int, ...],
        kernel_args: tuple[Any, ...],
        /,
        *,
        stream: Any = None,
        backend: str | None = None,
        check_overlap: bool = False,
    ) -> Callable[[], None]:
        """A launch of this kernel with everything checked and compiled once: calling it runs the grid.

        Takes what ``ct.launch`` takes, and raises what it raises. On a GPU each call queues the grid on ``stream``.
        Arrays are bound by address, which must not change (as ``ndarray.resize`` would change it); numbers keep the
        values that they have now.
        """
        flat = Flat()
        blocks = checked_grid(grid)
        prepared = self.prepared_for(kernel_args, backend, flat)
        run = noting_writes(prepared.bind(blocks, flat, stream, check=check_overlap), kernel_args, prepared.written)
        vars(run)["owners"] = kernel_args, flat.owners  # so that the memory lives as long
        return run

    def work(self, grid: tuple[int, ...], kernel_args: tuple[Any, ...], backend: str | None = None) -> Work:
        """What a launch would compute and move. ValueError where the backend, or the kernel, does not tell that."""
        flat = Flat()
        blocks = checked_grid(grid)
        return self.prepared_for(kernel_args, backend, flat).work(blocks, flat)

    def prepared_for(self, args: Any, backend: str | None, flat: Flat) -> Prepared:
        """The launch with the arguments ``args``, whose run-time numbers go to ``flat``."""
        name, parts = requested(backend), self._parts(args, flat)
        key = name, variable("TILEWRIGHT_CHECK"), *parts
        last, prepared = self._last
        if key != last:  # cheaper than hashing it
            prepared = self.prepared.get(key)
        if prepared is None:
            prepared = self.prepare(name, parts)
            self.remember(key, prepared)
        else:
            prepared.learn(settings(backend), [rule for _, rule in self.parameters], args)
        self._last, self.again = (key, prepared), prepared.again
        return prepared

    def described(self, args: Any, backend: str | None) -> tuple[Signature, Backend]:
        """What a launch with these arguments is keyed on, and the backend that would run it. Nothing is compiled."""
        signature, chosen, _ = self._explained(requested(backend), self._parts(args, Flat()))
        return signature, chosen

    def regions(self, args: Any) -> tuple[Signature, list[Region]]:
        """What a launch with these arguments is keyed on, and all arrays among them."""
        signature, explained = self._signature(self._parts(args, Flat()))
        return signature, explained.regions

    def _parts(self, args: Any, flat: Flat) -> list[Part]:
        if type(args) is not tuple:
            raise TypeError(_wrong_arguments(self, args))
        types = tuple(map(type, args))
        describers = self._describers.get(types)
        if describers is None:
            if len(args) != len(self.parameters):
                raise TypeError(_wrong_arguments(self, args))
            describers = [describer(rule, argument) for (_, rule), argument in zip(self.parameters, args)]
            if all(map(one_for_type, args)):
                self._describers[types] = describers
        return [describe(argument, flat) for describe, argument in zip(describers, args)]

    def replace_options(self: _Kernel, backend: str, /, **options: Any) -> _Kernel:
        """The same kernel, with a cache of its own, compiled by ``backend`` with these ``options``.

        The backend says what its options are, and ValueError about others, when it compiles. No option changes what a
        kernel computes.
        """
        changed: _Kernel = object.__new__(type(self))
        changed.__dict__.update(self.__dict__)
        Launchable.__init__(changed)
        changed.options = {**self.options, backend: options}
        return changed

    def inspect(self) -> Inspection:
        """What has been compiled so far: the key of each specialization, why it was made, and all its stages."""
        return Inspection(self.name, self.hints, self.options, tuple(self._specializations.values()))

    def compile_for(self, target: str | None, kernel_args: tuple[Any, ...], /) -> Specialization:
        """The kernel compiled for the GPU architecture ``target`` (``"sm_90"``, ``"gfx942"``), to be looked at.

        It is what a launch with such arguments would run there; the arrays may be in any memory. No GPU is needed,
        but for None, which stands for the GPU of this machine. ValueError for an unknown architecture; RuntimeError
        where the compiler is not installed; TileError when the kernel is wrong.
        """
        signature, _ = self._signature(self._parts(kernel_args, Flat()))
        backend = compiling_for(target)
        with _LOCK:
            return self._compile(signature, backend)

    def _signature(self, parts: Sequence[Part]) -> tuple[Signature, Explained]:
        explained = Explained([], [], [])
        specs = [explain(rule, place, part, explained) for (place, rule), part in zip(self.parameters, parts)]
        return Signature(tuple(specs)), explained

    def _explained(self, requested: str | None, parts: Sequence[Part]) -> tuple[Signature, Backend, Explained]:
        signature, explained = self._signature(parts)
        return signature, select(requested, self.name, explained.regions), explained

    def prepare(self, requested: str | None, parts: Sequence[Part]) -> Prepared:
        """Everything about a launch that does not change with addresses and numbers: checked, compiled, remembered."""
        signature, backend, explained = self._explained(requested, parts)
        specialization = self.specialize(signature, backend)
        for region in explained.regions:
            if not region.layout.writable and _argument_of(region, explained.tables) in specialization.written:
                raise ValueError(f"{Place(self.name, region.name)} is read-only, but the kernel stores to it")
        if checked(backend):
            extents = {r.name: r.layout.extent() for r in explained.regions}
            explained.values += [limit for name in self._pointers(signature) for limit in extents.get(name, (0, 0))]
        entries = zip(self.parameters, parts)
        paths = ((i, place, part) for i, ((place, _), part) in enumerate(entries))
        found = [w for i, place, part in paths for w in _written_tensors(place, part, specialization, (i,))]
        return Prepared(self.name, specialization, explained, tuple(found))

    def _pointers(self, signature: Signature) -> tuple[str, ...]:
        """The arguments that the kernel knows by their address only."""
        arguments = zip(self.parameters, signature.arguments)
        return tuple(place.argument for (place, _), spec in arguments if isinstance(spec, PointerSpec))

    def specialize(self, signature: Signature, backend: Backend) -> Specialization:
        """The kernel compiled for ``signature``, at most once. TileError when the kernel is wrong."""
        key = backend.name, backend.target(), checked(backend), signature
        found = self._specializations.get(key)
        if found is None:
            with _LOCK:
                found = self._specializations.get(key)
                if found is None:
                    found = self._compile(signature, backend)
                    self._specializations[key] = found
        return found

    def _compile(self, signature: Signature, backend: Backend) -> Specialization:
        require_stack()
        start = time.perf_counter()
        function = self.trace_checked(signature) if watches(backend) else self.trace(signature)
        wanted = run_passes(function, add_checks(self._pointers(signature))) if checked(backend) else function
        executable, origin = compiled(wanted, backend, self.options.get(backend.name, {}))
        seconds = time.perf_counter() - start
        facts = explanation.facts([place.argument for place, _ in self.parameters], signature)
        earlier = [s.compilation for s in self._specializations.values()]
        name = f"{backend.name} with checks" if checked(backend) else backend.name
        reasons = explanation.reasons(self.name, function.loc, name, facts, earlier)
        compilation = Compilation(name, origin, seconds, facts, tuple(reasons))
        if explanation.ir_wanted():
            explanation.show_ir(function)
        if explanation.wanted():
            explanation.show(self.name, len(earlier) + 1, compilation)
        return Specialization(function, executable, argument_effects(function).written, compilation)

    def remember(self, key: Any, prepared: Prepared) -> None:
        """Keep ``prepared`` for launches with the same ``key``."""
        if len(self.prepared) >= _MAX_PREPARED:
            self.prepared.clear()
        self.prepared[key] = prepared


def _wrong_arguments(kernel: Launchable, args: Any) -> str:
    names = [place.argument for place, _ in kernel.parameters]
    if type(args) is not tuple:
        one = "; for one argument write (x,)" if len(names) == 1 else ""
        return f"the arguments of {kernel.name}() must be a tuple, not {type(args).__name__}{one}"
    return (
        f"{kernel.name}() takes {len(names)} argument{'s' * (len(names) != 1)} ({', '.join(names)}), but {len(args)} "
        f"{'was' if len(args) == 1 else 'were'} given"
        f"{'; parameters with defaults must be given too' if kernel.has_defaults else ''}"
    )


def _written_tensors(place: Place, part: Part, compiled: Specialization, path: Path) -> Iterator[Path]:
    """Where an argument, or the entries of a tuple, are tensors of PyTorch, or lists, that ``compiled`` stores to."""
    if part[0] == "tuple":
        for i, entry in enumerate(part[1:]):
            yield from _written_tensors(place.item(i), entry, compiled, (*path, i))
    elif part[0] in ("torch", "list") and place.argument in compiled.written:
        yield path


def _argument_of(region: Region, tables: Sequence[Table]) -> str:
    """The name that the IR knows an array by: that of the list for the entries of one."""
    return next((t.name for t in tables if t.number == region.number), region.name)


def checked(backend: Backend) -> bool:
    """Whether kernels that ``backend`` compiles are to check what they do: TILEWRIGHT_CHECK=1, on a CPU.

    Backends that look for undefined behaviour themselves need no such help.
    """
    return switch("TILEWRIGHT_CHECK") and backend.device == "cpu" and not watches(backend)


def compiled(function: Function, backend: Backend, options: Mapping[str, Any]) -> tuple[Executable, str]:
    """``function`` compiled by ``backend``, or found in the disk cache; and which of the two."""
    cache = disk_cache()
    key = "" if cache is None else _key(function, backend, options)
    stored = None if cache is None else cache.get(key)
    found = None if stored is None else _loaded(function, backend, stored, options)
    if found is not None:
        executable, data = found, None
    else:
        stored = None
        executable = within_timeout(lambda: backend.compile(function, options), function.name)
        data = backend.serialize(executable) if cache is not None or manifest.wanted() else None
    if cache is not None and data is not None:
        cache.put(key, data)
    if cache is not None and isinstance(executable, Formed):
        executable.storage = Compartment(cache, key)
    if manifest.wanted() and (stored or data) is not None:  # backends that store nothing need no manifest
        manifest.record(function, backend.name, options)
    return executable, "compiled" if stored is None else "disk cache"


def _loaded(function: Function, backend: Backend, stored: bytes, options: Mapping[str, Any]) -> Executable | None:
    """What a file of the cache holds; None where that is no executable of this kernel."""
    try:
        return backend.deserialize(function, stored, options)
    except (ValueError, TypeError, LookupError, AttributeError, struct.error):
        return None


def _key(function: Function, backend: Backend, options: Mapping[str, Any]) -> str:
    text = print_function(function)
    chosen = repr(sorted(options.items()))
    return cache_key(__version__, backend.name, backend.target(), chosen, text, *_shown_places(function))


def _shown_places(function: Function) -> Iterator[str]:
    """The locations that the program may print when it runs: they are part of what was compiled."""
    return (print_loc(op.loc) for op in function.walk() if op.spec.effect & Effect.OUTPUT)


class Prepared:
    """A launch but for its addresses, numbers and grid."""

    __slots__ = (
        "_constants", "_device", "_kernel", "_lessons", "_native", "_pick", "_regions", "_tables", "_values", "again",
        "specialization", "written",
    )  # fmt: skip

    def __init__(
        self, kernel: str, specialization: Specialization, explained: Explained, written: Sequence[Path] = ()
    ) -> None:
        """``written`` lead to the arguments whose version the launch increments."""
        self.written = written
        self._kernel = kernel
        self.specialization = specialization
        self._regions = explained.regions
        place = explained.regions[0].layout if explained.regions else None
        self._device = place.device_index if place is not None and place.device != "cpu" else None
        self._tables = explained.tables
        self._values = explained.values
        self._constants = [value for value in explained.values if value is not HOLE]
        self._pick = _picker(explained.values)
        executable = specialization.executable
        self.again: Again | None = None
        self._lessons = 0
        self._native = executable if isinstance(executable, Native) else None

    def run(self, grid: tuple[int, int, int], flat: Flat, stream: Any = None, *, check: bool = False) -> None:
        """Run the kernel. With ``check``, ValueError first when an argument that it writes overlaps another one."""
        if self._native is None or check:
            self.specialization.executable.launch(grid, self._arguments(flat, stream, check))
            return
        values = self.values(flat) if self._tables else self._pick(flat.numbers + self._constants)
        device = self._device
        if device is None:
            self._native.run(grid, values, 0, 0)
        else:
            self._native.run(grid, values, stream_handle(stream), device)

    def bind(
        self, grid: tuple[int, int, int], flat: Flat, stream: Any = None, *, check: bool = False
    ) -> Callable[[], None]:
        """``run``, to be called later and more than once. The objects in ``flat`` have to live as long."""
        return self.specialization.executable.bind(grid, self._arguments(flat, stream, check))

    def learn(self, given: tuple[Any, ...], rules: Sequence[Rule], args: Sequence[Any]) -> None:
        """Let ``again`` recognize launches with the settings ``given`` that differ from that with ``args`` by addresses
        and numbers only. Called for repeated launches, and does nothing for one that it recognizes."""
        if self._native is None or self._lessons == _MAX_LESSONS or switch("TILEWRIGHT_CHECK_OVERLAP"):
            return
        if self.again is not None and self.again.settings == given and self.again.recognizes(args):
            return
        self._lessons += 1
        tables = [table.rows for table in self._tables]
        self.again = Again(given, rules, args, self._values, self._native, self._device, tables, self.written)

    def values(self, flat: Flat) -> Sequence[Any]:
        """The values of the parameters of the compiled function; a ``ListTable`` for each list."""
        numbers = flat.numbers.copy()
        for table in self._tables:
            numbers[table.number] = ListTable(table.rows, numbers[table.number])
        return self._pick(numbers + self._constants)

    def work(self, grid: tuple[int, int, int], flat: Flat) -> Work:
        """What a run would compute and move."""
        executable = self.specialization.executable
        if not isinstance(executable, Counting):
            raise ValueError("the backend does not tell how much a kernel computes; the backend cpu does")
        return executable.work(grid, self._arguments(flat, None, False))

    def _arguments(self, flat: Flat, stream: Any, check: bool) -> LaunchArguments:
        numbers = flat.numbers
        buffers: Sequence[Buffer] = _Buffers(self._regions, numbers)
        if check:
            written = self.specialization.written
            names = [_argument_of(r, self._tables) for r in self._regions]
            check_overlap(self._kernel, self._regions, numbers, [name in written for name in names])
        tables = [ListTable(table.rows, numbers[table.number]) for table in self._tables]
        if tables:
            numbers = numbers.copy()
            buffers = [*buffers, *self._fill_tables(tables, numbers, flat)]
        values = self._pick(numbers + self._constants)
        if self._device is None:
            return LaunchArguments(values, buffers, tables=tables)
        return LaunchArguments(values, buffers, stream_handle(stream), self._device, tables)

    def _fill_tables(self, tables: Sequence[ListTable], numbers: list[Any], flat: Flat) -> Iterator[Buffer]:
        """Give each list argument its table in memory."""
        for table, found in zip(self._tables, tables):
            rows = found.filled()
            flat.owners.append(rows)
            address = rows.ctypes.data
            numbers[table.number] = address
            yield Buffer(table.name, address, address, address + rows.nbytes, int64, writable=False)


def _picker(values: Sequence[Any]) -> Callable[[list[Any]], Sequence[Any]]:
    """Puts a launch's numbers, followed by the constants among ``values``, in the order of ``values``."""
    holes, constants = 0, sum(value is HOLE for value in values)
    order = []
    for value in values:
        order.append(holes if value is HOLE else constants)
        holes, constants = (holes + 1, constants) if value is HOLE else (holes, constants + 1)
    # For one item ``itemgetter`` returns that item, not a tuple.
    return operator.itemgetter(*order) if len(order) > 1 else lambda numbers: numbers


class _Buffers(Sequence[Buffer]):
    """The memory of a launch, described when asked for: backends that run native code never do."""

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
        return Buffer(
            region.name,
            address,
            address + low,
            address + high,
            layout.dtype,
            layout.writable,
            layout.shape,
            layout.strides,
        )
