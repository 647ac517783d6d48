"""A compiled kernel in this process, and its launch."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.backends import native
from tilewright.backends.base import NeedsKernel, NeedsVariant
from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.gpu_runtime import driver, launch_code, realign, words
from tilewright.gpu_runtime.abi import NumberPacker, can_pack
from tilewright.gpu_runtime.artifact import APART, Artifact
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.device_printf import Reports
from tilewright.gpu_runtime.graph import launcher
from tilewright.gpu_runtime.launch_code import LAUNCH, Choice, Choices, LaunchCode, ParameterLayout
from tilewright.gpu_runtime.launch_errors import FOREIGN, refused
from tilewright.gpu_runtime.tables import TableMemory, Tables
from tilewright.gpu_runtime.tensormap import Unmapped
from tilewright.ir.core import Function, Op
from tilewright.ir.dtypes import int64
from tilewright.ir.errors import TileError
from tilewright.ir.gpu_parameters import grid_extent

# How many arrays of a list are passed by value: to begin with, and for longer lists, where it is as many as fit. Lists
# that are longer still are copied to the device.
CAPACITIES = (32, 4096)
FIRST = Constraints(capacity=CAPACITIES[0])  # how kernels are compiled first
EIGHTHS = (5, 6, 7)  # of a tile, of rows that are shorter
_NO_LAUNCH = LAUNCH(lambda *_: 0)


class GpuExecutable:
    """Machine code of one kernel for one architecture, on every device of that architecture.

    ``reporting`` gives the ops that print or assert, in the order of their numbers in the machine code, where it has
    any. ``texts`` gives every stage of the compilation. Values below the ``least`` of their parameters need a variant.
    """

    least: Sequence[tuple[int, int]] = ()

    def __init__(
        self,
        function: Function,
        artifact: Artifact,
        constraints: Constraints,
        texts: Callable[[], Mapping[str, str]],
        reporting: Callable[[], Sequence[Op]] = tuple,
    ) -> None:
        self.artifact = artifact
        self.constraints = constraints  # that it was compiled under
        self.kernels: dict[realign.Kind, GpuExecutable] = {}  # ``realign.kernel`` by what it takes
        self._function = function
        self._texts = texts
        self._reporting = reporting
        self._parameters = ParameterLayout(artifact)
        self._numbers = NumberPacker(self._parameters.formats)
        self._by_value = [t.index for t in artifact.tables if t.by_value]
        # Tables to be copied for one launch, or something to do after it.
        self.may_need_more = artifact.reports or len(self._by_value) < len(artifact.tables)
        # The kernel that reads arrays where they are, with plain loads, and the one without tensor maps.
        self._without = [
            replace(constraints, descriptors=maps, realign=False) for maps in (constraints.descriptors, False)
        ]
        self._local = threading.local()
        self._loaded: dict[int, driver.LoadedKernel] = {}
        self._codes: dict[int, LaunchCode] = {}
        self._choices_on: dict[int, Choices] = {}  # GPUs with so many SMs, for launches that Python makes
        self._reports: dict[int, Reports] = {}

    # -- launching

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Queue every block of ``grid`` on the stream; a kernel that prints or asserts is also waited for. Most
        launches that repeat others are made by ``launch_stub``.

        CudaError when the driver refuses, TileError when an assert fails.
        """
        self._require(grid, arguments)
        if self.may_need_more:
            self._start(grid, arguments)
        else:
            self._prepared(grid, arguments, self._tables)()

    @property
    def _tables(self) -> Tables:
        """The memory of the tables of this thread's launches."""
        found: Tables | None = getattr(self._local, "tables", None)
        if found is None:
            found = self._local.tables = Tables(self.artifact)
        return found

    def _require(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """NeedsVariant where another one is for this launch: for as few blocks, or as many, for such rows, or for
        longer lists than this kernel takes by value."""
        if self.artifact.has_variants:
            variant = self.variant_for(grid, driver.device(arguments.device).processors, arguments.values)
            if variant is not None:
                raise NeedsVariant(variant)
        longest = max([len(arguments.values[i].addresses) for i in self._by_value]) if self._by_value else 0
        if longest > self.artifact.capacity:
            more = (c for c in CAPACITIES if c > self.constraints.capacity and c >= longest)
            raise NeedsVariant(replace(self.constraints, capacity=next(more, 0)))

    def variant_for(
        self, grid: tuple[int, int, int], processors: int, values: Sequence[Any] = ()
    ) -> Constraints | None:
        """The variant for as many blocks, or as few, on each of so many SMs, or for rows of the length that is
        one of the ``values``; None for this one."""
        if self.artifact.grid_extent and values:
            grid = grid_extent(self.artifact.grid_extent, values), *grid[1:]
        choices = self._choices_on.get(processors)
        if choices is None:
            choices = self._choices_on[processors] = self._choices(processors)
        return choices.variant(grid, values)

    def _choices(self, processors: int) -> Choices:
        """Which variants there are for launches on so many SMs: with the most neighbouring blocks in a CTA; with the
        most CTAs for a block; with as many stages as suit one CTA on each of them, or two and so on; that keep rows of
        one step, of two and so on."""
        artifact, like = self.artifact, self.constraints
        joins = reversed([*zip(artifact.joinable, artifact.busy)])
        found = [Choice(replace(like, join=joined), joined, busy) for joined, busy in joins]
        if found:  # the kernel itself has no code
            return Choices([*found, Choice(replace(like, join=APART), most=int64.max)], artifact.joined, processors)
        found = [Choice(replace(like, across=n, blocks=1), most=processors // n) for n in artifact.divisions]
        if artifact.short_rows:
            size, *lengths = artifact.short_rows
            shorter = [(size * n // 8, *lengths) for n in EIGHTHS]
            found += [Choice(replace(like, rows=r), most=r[0], parameters=tuple(lengths)) for r in shorter]
        for n, stages in enumerate(artifact.depths, 1):
            variant = replace(like, stages=stages, blocks=n) if stages else None
            found.append(Choice(variant, most=n * (processors // self._parameters.ctas)))
        if artifact.kept_rows:
            length, elements, most_steps = artifact.kept_rows
            variants = [None, *(replace(like, steps=n) for n in range(1, most_steps + 1))]
            found += [Choice(v, most=n * elements, parameters=(length,)) for n, v in enumerate(variants)]
        return Choices(found, artifact.joined, processors, self._without if self._parameters.maps else ())

    def _start(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Launch what needs more than its numbers."""
        kernel = self._kernel(arguments.device)
        with kernel.device.current(), driver.loans() as borrowed:
            reports = self._reports_of(kernel) if self.artifact.reports else None
            if reports is not None:
                arguments = arguments._replace(values=(*arguments.values, reports.address))
            self._prepared(grid, arguments, self._tables, borrowed)()
        if reports is not None:
            reports.deliver(arguments.stream)

    def bind(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        """``launch`` with everything prepared."""
        self._require(grid, arguments)
        if self.may_need_more:
            return functools.partial(self._start, grid, arguments)
        run = self._prepared(grid, arguments, Tables(self.artifact))
        run(_NO_LAUNCH)
        if native.available() and not (self._parameters.copies or self.artifact.local_bytes):
            queue = functools.partial(self._code(arguments.device).start, run.args[1], grid, arguments.stream)
            return functools.partial(launcher(queue, arguments.stream, self._kernel(arguments.device).device, run))
        return run

    def _prepared(
        self,
        grid: tuple[int, int, int],
        arguments: LaunchArguments,
        tables: Tables,
        borrowed: list[Callable[[], None]] | None = None,
    ) -> functools.partial[None]:
        """What queues a launch, with memory of its own but for ``tables``."""
        values = list(arguments.values)
        kept = self._place_tables(values, arguments, tables, [] if borrowed is None else borrowed)
        return functools.partial(
            self._run, kept, self._numbers.packed(values), grid, arguments.stream, arguments.device
        )

    def launch_stub(
        self, device: int, tables: Sequence[ListTable], variants: Mapping[Any, Any]
    ) -> native.LaunchStub | None:
        """How machine code starts a launch on ``device``; None where there is more to a launch than to queue it, or no
        variant is there that the grid of one needs."""
        choices, like = self._code(device).choices.all, self
        if self.artifact.joinable:
            there = [variants[c.variant] for c in choices if c.variant in variants]
            if not there:
                return None
            like = there[-1]
        artifact = like.artifact
        long = any(len(table.addresses) > artifact.capacity for table in tables)
        if like.may_need_more or long or not can_pack(like._parameters.formats):
            return None
        try:
            of_lists = zip(artifact.tables, tables)
            lists = {t.index: TableMemory(t, table, device, artifact.capacity) for t, table in of_lists}
        except Unmapped:
            return None
        self._add_variants(device, variants, artifact)
        return launch_code.launch_stub(self._code(device), like._parameters.formats, lists)

    def _add_variants(self, device: int, variants: Mapping[Any, Any], like: Artifact) -> None:
        """Let machine code launch those of ``variants`` that need nothing but their numbers, and tables ``like`` those
        of an artifact."""
        code = self._code(device)
        for i, choice in enumerate(code.choices.all):
            found: GpuExecutable | None = variants.get(choice.variant)
            tables = None if found is None else (found.artifact.tables, found.artifact.capacity)
            if (
                found is not None
                and found is not self
                and not found.may_need_more
                and tables == (like.tables, like.capacity)
            ):
                found._add_variants(device, variants, like)
                code.choices.add(i, found._code(device))

    def embedded(self, name: str, grid: tuple[int, int, int]) -> native.Embedded:
        """How machine code queues a launch of ``grid`` without Python, on any device of the architecture. ValueError
        where there is more to a launch than that, NeedsVariant where another variant is to be embedded."""
        if self.artifact.tables:
            raise ValueError("it takes a list of arrays")
        if self.artifact.reports:
            raise ValueError("it prints or asserts on a GPU, where Python has to read that after the launch")
        if self.artifact.local_bytes:
            raise ValueError(
                "it has arrays of its own: its launches borrow memory, which graphs cannot that are changed"
            )
        if not can_pack(self._parameters.formats):
            raise ValueError("it takes a number of 16 or 8 bits; pass a float32")
        if self._parameters.copies:
            raise NeedsVariant(replace(self.constraints, realign=False))
        processors = driver.device(0).processors if self.artifact.has_variants else 1
        variant = (
            replace(self.constraints, join=APART) if self.artifact.joinable else self.variant_for(grid, processors)
        )
        if variant is not None:
            raise NeedsVariant(variant)
        first = driver.device(0).capability
        same = [i for i in range(driver.device_count()) if driver.device(i).capability == first]
        choices = Choices((), APART, without=self._without)
        codes = [LaunchCode(self._parameters, self._kernel(i), choices, self.least) for i in same]
        return launch_code.embedded(name, self._parameters.formats, codes)

    def _run(
        self, kept: object, numbers: Any, grid: tuple[int, int, int], stream: int, device: int, launch: Any = None
    ) -> None:
        """Queue a launch, whose ``numbers`` may be addresses of what is ``kept``, or have ``launch`` do something else.
        NeedsVariant, or CudaError when the driver refuses."""
        code, kernel = self._code(device), self._kernel(device)
        queue = functools.partial(code.start, numbers, grid, stream, launch or driver.function("cuLaunchKernelEx"))
        found = queue()
        if found % words.ENCODING in FOREIGN:
            with kernel.device.current():  # another context was current in this thread, or none
                found = queue()
        if found <= words.COPIER:
            self._add_copier(code, device, *divmod(words.COPIER - found, 2))
            return self._run(kept, numbers, grid, stream, device, launch)
        if found <= words.MISSING:
            raise NeedsVariant(code.choices.all[words.MISSING - found].variant)
        if found >= words.ENCODING:
            raise driver.failure(found % words.ENCODING, "cuTensorMapEncodeTiled")
        if found and 0 not in grid:  # nothing is to be done for a grid without blocks
            raise refused(self._function.name, found, grid, stream, kernel.device)

    def _code(self, device: int) -> LaunchCode:
        code = self._codes.get(device)
        if code is None:
            kernel = None if self.artifact.joinable else self._kernel(device)
            processors = driver.device(device).processors if self.artifact.has_variants else 1
            code = self._codes[device] = LaunchCode(self._parameters, kernel, self._choices(processors), self.least)
        return code

    def _kernel(self, device: int) -> driver.LoadedKernel:
        kernel = self._loaded.get(device)
        if kernel is None:
            kernel = self._loaded[device] = self._load(device)
        return kernel

    def _load(self, index: int) -> driver.LoadedKernel:
        binary, on = self.artifact.binary, driver.device(index)
        if binary.shared_bytes > on.shared_bytes:
            raise TileError(
                f"{self._function.name}() needs {binary.shared_bytes} bytes of shared memory per block, and GPU "
                f"{index} has {on.shared_bytes}; use smaller tiles or, where a loop loads, fewer num_stages",
                self._function.loc,
            )
        return driver.LoadedKernel(binary.code, binary.symbol, binary.shared_bytes, binary.num_ctas, on)

    def _add_copier(self, code: LaunchCode, device: int, number: int, aligned: int) -> None:
        """Let launches by ``code`` copy the array of map ``number``."""
        kind = self._parameters.maps[number].kind._replace(aligned=bool(aligned))
        if kind not in self.kernels:
            raise NeedsKernel(kind, realign.kernel(kind), realign.OPTIONS)
        code.add_copier(number, bool(aligned), self.kernels[kind]._code(device))

    def _reports_of(self, kernel: driver.LoadedKernel) -> Reports:
        index = kernel.device.index
        if index not in self._reports:
            self._reports[index] = Reports(self._reporting())
        return self._reports[index]

    def _place_tables(
        self, values: list[Any], arguments: LaunchArguments, tables: Tables, borrowed: list[Callable[[], None]]
    ) -> list[TableMemory]:
        """Put the tables among ``values`` where the kernel finds them: beside the numbers, or on the device."""
        if not self.artifact.tables:
            return []
        on = self._kernel(arguments.device).device
        try:
            with on.current():  # tensor maps are not made without a context
                found = [tables.memory(t, values[t.index], arguments.device) for t in self.artifact.tables]
        except Unmapped:
            raise NeedsVariant(self._without[1]) from None
        for param, memory in zip(self.artifact.tables, found):
            if param.by_value:
                values[param.index] = memory.address
            else:
                values[param.index] = memory.copy(self._function.name, on, arguments.stream, borrowed)
        return found

    # -- showing

    def stages(self) -> Mapping[str, str]:
        """Every stage of the kernel from Tile IR to PTX, and its sizes."""
        return self._texts()
