"""A compiled kernel in this process, and its launch."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.backends import native
from tilewright.backends.base import NeedsKernel, NeedsVariant
from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.gpu_runtime import driver, realign
from tilewright.gpu_runtime.abi import NumberPacker, can_pack
from tilewright.gpu_runtime.artifact import APART, Artifact
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.device_printf import Reports
from tilewright.gpu_runtime.graph import launcher
from tilewright.gpu_runtime.launch_errors import FOREIGN, refused
from tilewright.gpu_runtime.launch_parameters import LaunchParameters, ParameterLayout
from tilewright.gpu_runtime.launch_stub import Joined, Loaded, embedded, keep_busy, launch_stub
from tilewright.gpu_runtime.tables import TableMemory
from tilewright.gpu_runtime.tensormap import TensorMap, Unmapped
from tilewright.ir.core import Function, Op
from tilewright.ir.errors import TileError
from tilewright.ir.gpu_parameters import Geometry

# How many arrays of a list are passed by value: to begin with, and for longer lists, where it is as many as fit. Lists
# that are longer still are copied to the device.
CAPACITIES = (32, 4096)
FIRST = Constraints(capacity=CAPACITIES[0])  # how kernels are compiled first
# Of a row that is kept; and its bytes, of which two blocks of an SM have room for as many each.
_STEPS, _MOST_KEPT = (4, 8, 16, 32, 64), 104 << 10
_MAX_MAPS = 1024  # tensor maps that an executable remembers; programs with more arrays than that start over


def _variants_of_rows(
    constraints: Constraints, index: int, elements: int, size: int
) -> Iterator[tuple[int, int, Constraints | None]]:
    """The variants that keep rows whose length is parameter ``index``, in steps of so many elements and bytes, each
    with the longest of them; a row of two steps needs none."""
    yield index, 2 * elements, None
    for steps in _STEPS:
        if steps * size <= _MOST_KEPT:
            yield index, steps * elements, replace(constraints, steps=steps)


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
        self._numbers = NumberPacker(artifact.formats)
        self._layout = realign.layouts(artifact.descriptors, artifact.binary.descriptors)
        self._tables = artifact.tables
        self._by_value = [t.index for t in artifact.tables if t.by_value]
        self._realigns = any(d.needs_realign for d in artifact.descriptors)
        copied = any(not t.by_value for t in artifact.tables)
        self._temporary = bool(copied or self._realigns or artifact.local_bytes)
        self._plain_launch = not (self._temporary or artifact.reports)  # nothing to do before or after it
        self._only_copies = self._realigns and not (  # before it, and numbers to write
            artifact.tables or artifact.local_bytes or artifact.reports or self._numbers.converts
        )
        self._has_variants = any(artifact.depths) or bool(artifact.kept_rows)
        depths = enumerate(artifact.depths, 1)
        self._deeper = [(n, replace(constraints, stages=stages, blocks=n) if stages else None) for n, stages in depths]
        self._longer = list(_variants_of_rows(constraints, *artifact.kept_rows)) if artifact.kept_rows else []
        self.may_need_more = self._temporary or artifact.reports  # memory for one launch, or something to do after it
        self._local = threading.local()
        self._loaded: dict[int, driver.LoadedKernel] = {}
        self._reports: dict[int, Reports] = {}
        self._maps: dict[Any, TensorMap] = {}

    # -- launching

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Queue every block of ``grid`` on the stream; a kernel that prints or asserts is also waited for. Most
        launches that repeat others are made by ``launch_stub``.

        CudaError when the driver refuses, TileError when an assert fails.
        """
        self._require(grid, arguments)
        if not self._plain_launch:
            self._start(grid, arguments)
            return
        params, kernel = self._memory(), self._kernel(arguments.device)
        params.configure(grid, arguments.stream)
        self._fill(params, arguments, [])
        self._run(params, kernel)

    def _memory(self) -> LaunchParameters:
        """The memory of this thread's launches."""
        found: LaunchParameters | None = getattr(self._local, "params", None)
        if found is None:
            found = self._local.params = LaunchParameters(self._parameters)
        return found

    def _require(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """NeedsVariant where another one is for this launch: for as few blocks, or as many, for such rows, or for
        longer lists than this kernel takes by value."""
        if self.artifact.joinable:
            raise NeedsVariant(self._joining(grid, driver.device(arguments.device).processors))
        self._require_depth(grid, arguments.device, arguments.values)
        longest = max([len(arguments.values[i].addresses) for i in self._by_value]) if self._by_value else 0
        if longest > self.artifact.capacity:
            more = (c for c in CAPACITIES if c > self.constraints.capacity and c >= longest)
            raise NeedsVariant(replace(self.constraints, capacity=next(more, 0)))

    def _require_depth(self, grid: tuple[int, int, int], device: int, values: Sequence[Any] = ()) -> None:
        """NeedsVariant where a pipeline of another depth is for as few blocks on an SM as ``grid`` puts there, or rows
        are kept whose length is among the ``values``."""
        variant = self._of_depth(grid, driver.device(device).processors, values) if self._has_variants else None
        if variant is not None:
            raise NeedsVariant(variant)

    def variant_for(self, grid: tuple[int, int, int], processors: int) -> Constraints | None:
        """The variant for as many blocks, or as few, on each of so many SMs; None for this one."""
        return self._joining(grid, processors) or self._of_depth(grid, processors)

    def _joining(self, grid: tuple[int, int, int], processors: int) -> Constraints | None:
        """The variant whose CTAs run the most neighbouring blocks of ``grid`` as one, and keep SMs busy; that of single
        ones; None where there is no choice."""
        if not self.artifact.joinable:
            return None
        fits = (joined for joined in reversed(self.artifact.joinable) if keep_busy(grid, joined, processors))
        return replace(self.constraints, join=next(fits, APART))

    def _joined(self, device: int, variants: Mapping[Any, Any]) -> Joined:
        """How many blocks are joined along each axis, the most first, and the variant; None for one that has not been
        needed yet, or whose launch takes more than to queue it."""
        found = []
        for joined in reversed(self.artifact.joinable):
            variant: GpuExecutable | None = variants.get(replace(self.constraints, join=joined))
            if variant is not None and (not variant._plain_launch or variant._has_variants or self._tables):
                variant = None
            found.append((joined, None if variant is None else (variant._parameters, variant._kernel(device))))
        return found

    def _of_depth(self, grid: tuple[int, int, int], processors: int, values: Sequence[Any] = ()) -> Constraints | None:
        """The variant whose pipeline is for as few CTAs on each of so many SMs, or that keeps rows of the length that
        is among the ``values``."""
        blocks = math.prod(grid) // math.prod(self.artifact.joined)
        for index, most, variant in self._limits(processors):
            if (values[index] if values else most + 1) <= most if index is not None else blocks <= most:
                return variant
        return None

    def _limits(self, processors: int) -> list[tuple[int | None, int, Constraints | None]]:
        """The most blocks with one on each SM, with two and so on, and the variant for so many; the number of a
        parameter, its largest value, and the variant for that. None for this one."""
        clusters = processors // self._parameters.ctas
        return [*((None, n * clusters, variant) for n, variant in self._deeper), *self._longer]

    def _start(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Launch what needs more than its numbers."""
        params = self._memory()
        if self._only_copies and self._repeated(params, grid, arguments):
            return
        if self._realigns and not self._layout(arguments.values).pays(math.prod(grid)):
            # the kernel that reads such arrays where they are, with plain loads
            raise NeedsVariant(replace(self.constraints, realign=False))
        kernel = self._loaded.get(arguments.device) or self._kernel(arguments.device)
        with kernel.device.current():
            self._launch_with_memory(params, kernel, grid, arguments)

    def _launch_with_memory(
        self,
        params: LaunchParameters,
        kernel: driver.LoadedKernel,
        grid: tuple[int, int, int],
        arguments: LaunchArguments,
    ) -> None:
        reports = self._reports_of(kernel) if self.artifact.reports else None
        if reports is not None:
            arguments = arguments._replace(values=(*arguments.values, reports.address))
        params.held = None
        with driver.loans() as borrowed:
            if self.artifact.local_bytes:
                address = self._room(self.artifact.local_bytes * math.prod(grid), arguments, borrowed)
                arguments = arguments._replace(values=(*arguments.values, address))
            params.configure(grid, arguments.stream)
            self._fill(params, arguments, borrowed)
            self._run(params, kernel)
            params.held = grid, arguments
        if reports is not None:
            reports.deliver(arguments.stream)

    def _repeated(self, params: LaunchParameters, grid: tuple[int, int, int], arguments: LaunchArguments) -> bool:
        """Launch what ``params`` holds once more, if it is the same and the copies can be where they were; False, and
        nothing has happened, if not."""
        if params.held != (grid, arguments):
            return False
        kernel = self._kernel(arguments.device)
        with kernel.device.current(), driver.loans() as borrowed:
            if self._room(params.copies_size, arguments, borrowed) != params.copies_start:
                return False
            for copy in params.copies:
                copy()
            self._numbers.write(params.numbers, arguments.values)  # equal floats may be zeros of either sign
            self._run(params, kernel)
        return True

    def _room(self, size: int, arguments: LaunchArguments, borrowed: list[Callable[[], None]]) -> int:
        """The address of as much memory for a launch; what frees it goes to ``borrowed``."""
        return self._kernel(arguments.device).device.borrow(size, arguments.stream, borrowed) if size else 0

    def bind(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        """``launch`` with everything prepared."""
        self._require(grid, arguments)
        if self.may_need_more:
            return functools.partial(self._start, grid, arguments)
        params, run = self.prepared(grid, arguments)
        return functools.partial(launcher(params, self._kernel(arguments.device), run)) if native.available() else run

    def prepared(
        self, grid: tuple[int, int, int], arguments: LaunchArguments
    ) -> tuple[LaunchParameters, Callable[[], None]]:
        """The memory of a launch that has nothing to do before or after it, and what queues it."""
        params, kernel = LaunchParameters(self._parameters), self._kernel(arguments.device)
        params.configure(grid, arguments.stream)
        self._fill(params, arguments, [])
        return params, functools.partial(self._run, params, kernel)

    def launch_stub(
        self, device: int, tables: Sequence[ListTable], variants: Mapping[Any, Any], joined: Joined = ()
    ) -> native.LaunchStub | None:
        """How machine code starts a launch on ``device``, or those of variants whose blocks are ``joined``; None where
        there is more to a launch than to queue it."""
        if self.artifact.joinable:
            apart, joined = variants.get(replace(self.constraints, join=APART)), self._joined(device, variants)
            if apart is None:
                return launch_stub(None, joined=joined, processors=driver.device(device).processors)
            made: native.LaunchStub | None = apart.launch_stub(device, tables, variants, joined)
            return made
        long = any(len(table.addresses) > self.artifact.capacity for table in tables)
        if not self._plain_launch or long:
            return None
        others: list[tuple[int | None, int, Loaded | None]] = []
        for index, most, variant in self._limits(driver.device(device).processors) if self._has_variants else []:
            found = self if variant is None else variants.get(variant)
            others.append((index, most, None if found is None else (found._parameters, found._kernel(device))))
        try:
            capacity = self.artifact.capacity
            lists = {t.index: TableMemory(t, table, device, capacity) for t, table in zip(self._tables, tables)}
        except Unmapped:
            return None
        processors = driver.device(device).processors if joined else 1
        kernel = self._parameters, self._kernel(device)
        return launch_stub(kernel, others, self.least, lists, joined, processors)

    def embedded(self, name: str, grid: tuple[int, int, int]) -> native.Embedded:
        """How machine code queues a launch of ``grid`` without Python, on any device of the architecture. ValueError
        where there is more to a launch than that, NeedsVariant where another variant is to be embedded."""
        if self._tables:
            raise ValueError("it takes a list of arrays")
        if self.artifact.reports:
            raise ValueError("it prints or asserts on a GPU, where Python has to read that after the launch")
        if self.artifact.local_bytes:
            raise ValueError("it has arrays of its own, for which Python makes memory at each launch")
        if not can_pack(self.artifact.formats):
            raise ValueError("it takes a number of 16 or 8 bits; pass a float32")
        if self.artifact.joinable:
            raise NeedsVariant(replace(self.constraints, join=APART))
        if self._realigns:
            raise NeedsVariant(replace(self.constraints, realign=False))
        self._require_depth(grid, 0)
        first = driver.device(0).capability
        same = [i for i in range(driver.device_count()) if driver.device(i).capability == first]
        return embedded(name, self._parameters, [self._kernel(i) for i in same])

    def _run(self, params: LaunchParameters, kernel: driver.LoadedKernel) -> None:
        code = params.launch(params.config_pointer, kernel.handle, params.pointer_pointer, None)
        if code in FOREIGN:
            with kernel.device.current():  # another context was current in this thread, or none
                code = params.launch(params.config_pointer, kernel.handle, params.pointer_pointer, None)
        if code and 0 not in (params.grid or ()):  # nothing is to be done for a grid without blocks
            raise refused(self._function.name, code, params.grid or (1, 1, 1), params.stream, kernel.device)

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

    def _fill(self, params: LaunchParameters, arguments: LaunchArguments, borrowed: list[Callable[[], None]]) -> None:
        """Write the arguments into ``params``. What frees the memory that was borrowed for it goes to ``borrowed``."""
        try:
            self._put(params, arguments, borrowed)
        except driver.CudaError as e:
            if e.code not in FOREIGN:
                raise
            with self._kernel(arguments.device).device.current():  # tensor maps are not made without a context
                self._put(params, arguments, borrowed)

    def _put(self, params: LaunchParameters, arguments: LaunchArguments, borrowed: list[Callable[[], None]]) -> None:
        values, binary = arguments.values, self.artifact.binary
        if self.artifact.blocks_of_cta > 1:
            assert params.grid is not None
            values = (*values, params.grid[0])
        if self._tables:
            values = list(values)
            self._place_tables(params, values, arguments, borrowed)
        self._numbers.write(params.numbers, values)
        if binary.descriptors:
            if self._realigns:
                arrays = self._aligned(params, arguments, borrowed)
            else:
                arrays = [d.geometry(values) for d in self.artifact.descriptors]
            try:
                params.maps = [self._map(i, *array, arguments.device) for i, array in enumerate(arrays)]
            except Unmapped:
                raise self._without_maps() from None
            first = len(self.artifact.formats)
            for i, found in enumerate(params.maps):
                params.pointers[first + i] = found.address

    def _without_maps(self) -> NeedsVariant:
        """The need of the kernel without tensor maps, for arrays of which there are none."""
        return NeedsVariant(replace(self.constraints, descriptors=False, realign=False))

    def _aligned(
        self, params: LaunchParameters, arguments: LaunchArguments, borrowed: list[Callable[[], None]]
    ) -> list[Geometry]:
        """The arrays of the descriptors, those that the TMA unit cannot read where they are copied."""
        layout = self._layout(arguments.values)
        for copy in layout.copies:
            if copy.rows and copy.columns and copy.kind not in self.kernels:
                raise NeedsKernel(copy.kind, realign.kernel(copy.kind), realign.OPTIONS)
        start = self._room(layout.size, arguments, borrowed)
        params.copies, params.copies_start, params.copies_size = [], start, layout.size
        for copy, offset in layout.copies.items():
            if copy.rows and copy.columns:
                numbers = LaunchArguments(copy.numbers(start + offset), (), arguments.stream, arguments.device)
                params.copies.append(self.kernels[copy.kind].prepared(copy.grid, numbers)[1])
                params.copies[-1]()
        return layout.arrays(start)

    def _map(self, i: int, base: int, shape: tuple[int, ...], strides: tuple[int, ...], device: int) -> TensorMap:
        """The tensor map of descriptor ``i``."""
        key = i, base, shape, strides, device  # what describes an array without elements is of the device
        known = self._maps.get(key)
        if known is None:
            if len(self._maps) >= _MAX_MAPS:
                self._maps.clear()
            known = TensorMap()
            self._parameters.maps[i].encode(known.address, base, shape, strides, device)
            self._maps[key] = known
        return known

    def _reports_of(self, kernel: driver.LoadedKernel) -> Reports:
        index = kernel.device.index
        if index not in self._reports:
            self._reports[index] = Reports(self._reporting())
        return self._reports[index]

    def _place_tables(
        self,
        params: LaunchParameters,
        values: list[Any],
        arguments: LaunchArguments,
        borrowed: list[Callable[[], None]],
    ) -> None:
        """Put the tables among ``values`` where the kernel finds them: beside the numbers, or on the device."""
        on = self._kernel(arguments.device).device
        try:
            params.lists = [params.table(t, values[t.index], self.artifact, arguments.device) for t in self._tables]
        except Unmapped:
            raise self._without_maps() from None
        for param, memory in zip(self._tables, params.lists):
            if param.by_value:
                params.pointers[param.index], values[param.index] = memory.address, 0
            else:
                values[param.index] = memory.copy(self._function.name, on, arguments.stream, borrowed)

    # -- showing

    def stages(self) -> Mapping[str, str]:
        """Every stage of the kernel from Tile IR to PTX, and its sizes."""
        return self._texts()
