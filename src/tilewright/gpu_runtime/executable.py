"""A compiled kernel in this process, and its launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.backends import native
from tilewright.backends.base import NeedsKernel, NeedsVariant
from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.gpu_runtime import driver, launch_code, realign, words
from tilewright.gpu_runtime.abi import packer
from tilewright.gpu_runtime.artifact import APART, Artifact
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.device_printf import Reports
from tilewright.gpu_runtime.graph import launcher
from tilewright.gpu_runtime.launch_code import LAUNCH, Choice, Choices, Entry, LaunchCode, ParameterLayout
from tilewright.gpu_runtime.launch_errors import FOREIGN, refused
from tilewright.gpu_runtime.tables import Tables
from tilewright.gpu_runtime.tensormap import Unmapped
from tilewright.ir.core import Function, Op
from tilewright.ir.dtypes import int64
from tilewright.ir.errors import TileError

# How many arrays of a list are passed by value: to begin with, and for longer lists, where it is as many as fit. Lists
# that are longer still are copied to the device.
CAPACITIES = (32, 4096)
FIRST = Constraints(capacity=CAPACITIES[0])  # how kernels are compiled first
EIGHTHS = (5, 6, 7)  # of a tile, of rows that are shorter
_NO_LAUNCH = LAUNCH(lambda *_: 0)
_MOST_ENTRIES = 64  # of a kernel; a program with lists of more kinds than that starts over


def kept_steps(most: int) -> list[int]:
    """For how many steps of rows there are variants: for each number, of more than eight for eighths of a tile."""
    return [n for n in range(1, most + 1) if n % (1 << max((n - 1).bit_length() - 3, 0)) == 0]


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
        self._pack = packer(self._parameters.formats)
        self._by_value = all(t.by_value for t in artifact.tables)
        # The kernel that reads arrays where they are, with plain loads, and the one without tensor maps.
        self._without = [
            replace(constraints, descriptors=maps, realign=False) for maps in (constraints.descriptors, False)
        ]
        self._loaded: dict[int, driver.LoadedKernel] = {}
        self._choices_on: dict[int, Choices] = {}  # GPUs with so many SMs, for launches that Python makes
        self._codes: dict[int, LaunchCode] = {}
        self._entries: dict[tuple[int, ...], Entry] = {}  # by the device, and the identities of the rows of lists
        self._reports: dict[int, Reports] = {}

    # -- launching

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Queue every block of ``grid`` on the stream; a kernel that prints or asserts is also waited for.

        CudaError when the driver refuses, TileError when an assert fails.
        """
        self._run(grid, arguments)
        if self.artifact.reports:
            self._reports_of(self._kernel(arguments.device)).deliver(arguments.stream)

    def bind(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        """``launch`` with everything prepared: what it needs is compiled now."""
        self._run(grid, arguments, _NO_LAUNCH)
        run, like = functools.partial(self.launch, grid, arguments), self.artifact
        if native.available() and self._by_value and not (self._parameters.copies or like.local_bytes or like.reports):
            queue, device = functools.partial(self._run, grid, arguments), self._kernel(arguments.device).device
            return launcher(queue, arguments.stream, device, run)
        return run

    def _require(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """NeedsVariant where another one is for this launch."""
        if self.artifact.joinable:
            raise NeedsVariant(self.variant_for(grid, driver.device(arguments.device).processors))

    def variant_for(self, grid: tuple[int, int, int], processors: int) -> Constraints | None:
        """The variant for as many blocks, or as few, on each of so many SMs, whatever the parameters are; None for this
        one."""
        if processors not in self._choices_on:
            self._choices_on[processors] = self._choices(processors)
        return self._choices_on[processors].variant(grid)

    def _choices(self, processors: int) -> Choices:
        """Which variants there are for launches on so many SMs: with the most neighbouring blocks in a CTA; whose
        rows of one step, of two and so on are one tile; with the most CTAs for a block; with as many stages as suit one
        CTA on each of them, or two and so on."""
        artifact, like = self.artifact, self.constraints
        joins = reversed([*zip(artifact.joinable, artifact.busy)])
        found = [Choice(replace(like, join=joined), joined, busy) for joined, busy in joins]
        if found:  # the kernel itself has no code
            return Choices([*found, Choice(replace(like, join=APART), most=int64.max)], artifact.joined, processors)
        if artifact.kept_rows:
            length, elements, most_steps = artifact.kept_rows
            variants = (None, 0), *((replace(like, steps=n), n * elements) for n in kept_steps(most_steps))
            found = [Choice(variant, most=most, parameters=(length,)) for variant, most in variants]
        found += [Choice(replace(like, across=n, blocks=1), most=processors // n) for n in artifact.divisions]
        if artifact.short_rows:
            size, *lengths = artifact.short_rows
            shorter = [(size * n // 8, *lengths) for n in EIGHTHS]
            found += [Choice(replace(like, rows=r), most=r[0], parameters=tuple(lengths)) for r in shorter]
        for n, stages in enumerate(artifact.depths, 1):
            variant = replace(like, stages=stages, blocks=n) if stages else None
            found.append(Choice(variant, most=n * (processors // self._parameters.ctas)))
        return Choices(found, artifact.joined, processors, self._without if self._parameters.maps else ())

    def launch_stub(
        self, device: int, tables: Sequence[ListTable], variants: Mapping[Any, Any]
    ) -> native.LaunchStub | None:
        """How machine code starts a launch on ``device``; None where there is more to a launch than to queue it, or no
        variant is there that the grid of one needs. NeedsVariant where lists do."""
        like, code = self, self._code(device)
        if self.artifact.joinable:
            there = [variants[c.variant] for c in code.choices.all if c.variant in variants]
            if not there:
                return None
            like = there[-1]
        if like.artifact.reports:
            return None
        self._add_variants(device, variants, like.artifact)
        return like._entry(device, tables, code if like is not self else None).stub

    def _add_variants(self, device: int, variants: Mapping[Any, Any], like: Artifact) -> None:
        """Let machine code launch those of ``variants`` that need nothing but their numbers, and tables ``like`` those
        of an artifact."""
        code = self._code(device)
        for i, choice in enumerate(code.choices.all):
            found: GpuExecutable | None = variants.get(choice.variant)
            tables = None if found is None else (found.artifact.tables, found.artifact.capacity)
            if found is not None and found is not self and tables == (like.tables, like.capacity):
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
        return launch_code.embedded(name, [Entry(code, self._parameters.formats) for code in codes])

    def _run(self, grid: tuple[int, int, int], arguments: LaunchArguments, launch: Any = None) -> int:
        """Queue a launch, or have ``launch`` do something else, and give 0. NeedsVariant, or CudaError when the driver
        refuses."""
        self._require(grid, arguments)
        values, device, stream = arguments.values, arguments.device, arguments.stream
        entry, kernel = self._entry(device, arguments.tables), self._kernel(device)
        if self.artifact.reports:
            values = *values, self._reports_of(kernel).address
        code, queue = entry.code, functools.partial(entry.queue, self._pack(*values), grid, stream, launch)
        found = queue()
        if found % words.ENCODING in FOREIGN:
            with kernel.device.current():  # another context was current in this thread, or none
                found = queue()
        if found == words.EMPTY:
            code.add_nothing()
        elif found == words.RECORDED:
            raise RuntimeError(
                f"{self._function.name}() cannot be recorded in a CUDA graph: its lists are copied for each launch, as "
                "they are too long, the kernel chooses between them, or triton or tileiras compiles it; pass shorter "
                "lists, index each one by itself, or choose another backend"
            )
        elif found <= words.COPIER:
            self._add_copier(code, device, *divmod(words.COPIER - found, 2))
        elif found <= words.MISSING:
            raise NeedsVariant(code.choices.all[words.MISSING - found].variant)
        elif found >= words.ENCODING:
            raise driver.failure(found % words.ENCODING, "cuTensorMapEncodeTiled")
        elif found and 0 not in grid:  # nothing is to be done for a grid without blocks
            raise refused(self._function.name, found, grid, stream, kernel.device)
        else:
            return 0
        return self._run(grid, arguments, launch)

    def _entry(self, device: int, lists: Sequence[ListTable], code: LaunchCode | None = None) -> Entry:
        """How launches with such ``lists`` enter the kernel, or ``code``. NeedsVariant where another one takes them."""
        key = device, *(id(each.rows) for each in lists)
        found = self._entries.get(key) if code is None else None
        if found is not None:
            return found
        longest = max([len(x.rows) for t, x in zip(self.artifact.tables, lists) if t.by_value], default=0)
        if longest > self.artifact.capacity:
            more = (c for c in CAPACITIES if c > self.constraints.capacity and c >= longest)
            raise NeedsVariant(replace(self.constraints, capacity=next(more, 0)))
        tables = None
        try:
            if lists:
                with self._kernel(device).device.current():  # tensor maps are not made without a context
                    tables = Tables(self.artifact, lists, device)
        except Unmapped:
            raise NeedsVariant(self._without[1]) from None
        found = Entry(code or self._code(device), self._parameters.formats, tables, self._code(device))
        if code is None:
            if len(self._entries) >= _MOST_ENTRIES:
                self._entries.clear()
            self._entries[key] = found
        return found

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
            with kernel.device.current():
                self._reports[index] = Reports(self._reporting())
        return self._reports[index]

    # -- showing

    def stages(self) -> Mapping[str, str]:
        """Every stage of the kernel from Tile IR to PTX, and its sizes."""
        return self._texts()
