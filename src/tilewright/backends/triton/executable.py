"""A compiled kernel in this process, and its launch."""

from __future__ import annotations

import functools
import math
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.analysis.gpu.lowering_plan import Geometry
from tilewright.backends import native
from tilewright.backends.base import LaunchArguments, Storage
from tilewright.backends.triton import driver, realign
from tilewright.backends.triton.artifact import Artifact
from tilewright.backends.triton.device_printf import Reports
from tilewright.backends.triton.entry import Form, entry
from tilewright.backends.triton.frame import Frame
from tilewright.backends.triton.graph import launcher
from tilewright.backends.triton.resources import too_much_shared
from tilewright.backends.triton.tensormap import TensorMap, Unmapped, encode
from tilewright.ir.core import Function
from tilewright.ir.dtypes import dtype_from_short
from tilewright.ir.errors import TileError
from tilewright.ir.types import PointerType, TileType

_MOST_BLOCKS = 65535  # along the second and the third axis of a grid
_FOREIGN = (driver.INVALID_CONTEXT, driver.INVALID_HANDLE, driver.CONTEXT_DESTROYED)  # not of the current context
# How many arrays of a list are passed by value: to begin with, and for longer lists, where it is as many as fit. Lists
# that are longer still are copied to the device.
CAPACITIES = (32, 4096)
_MAX_MAPS = 1024  # tensor maps that an executable remembers; programs with more arrays than that start over

# Short name of a dtype -> how struct packs a number of it into 8 bytes.
_FORMATS = {
    "i1": "?7x", "i8": "b7x", "u8": "B7x", "i16": "h6x", "u16": "H6x", "i32": "i4x", "u32": "I4x", "i64": "q",
    "u64": "Q",
    "f16": "e6x", "bf16": "H6x", "f32": "f4x", "tf32": "f4x", "f64": "d",
    "f8e4m3fn": "B7x", "f8e5m2": "B7x", "f8e8m0fnu": "B7x",
}  # fmt: skip
_AS_BITS = ("bf16", "f8e4m3fn", "f8e5m2", "f8e8m0fnu")  # struct does not know these


_NARROW = {"f16": np.float16, "f32": np.float32, "tf32": np.float32}


def _in_range(value: Any, short: str) -> Any:
    if short not in _NARROW:
        return value
    with np.errstate(over="ignore"):
        return float(_NARROW[short](value))


class TritonExecutable:
    """Machine code of one kernel for one architecture, on every device of that architecture."""

    def __init__(
        self,
        function: Function,
        artifact: Artifact,
        texts: Callable[[], Mapping[str, str]],
        compile_variant: Callable[[Mapping[str, Any]], TritonExecutable],
        copier: Callable[[int], TritonExecutable],
    ) -> None:
        self.artifact = artifact
        self.storage: Storage | None = None
        self._compile_variant = compile_variant  # the same kernel, compiled in another way
        self._variants: dict[Any, TritonExecutable] = {}
        self._copier = copier  # ``realign.kernel`` for elements of so many bytes
        self._function = function
        self._texts = texts
        self._pack = struct.Struct("=" + "".join(_FORMATS[f] for f in artifact.formats)).pack_into
        self._converted = [(i, dtype_from_short(f)) for i, f in enumerate(artifact.formats) if f in _AS_BITS]
        self._numbers_only = not (self._converted or artifact.descriptors)  # what a plain launch has to write
        self._floats = any(not f.startswith(("i", "u")) for f in artifact.formats)
        self._layout = realign.layouts(artifact.descriptors, artifact.binary.descriptors)
        self._tables = artifact.tables
        self._by_value = [t.parameter for t in artifact.tables if t.by_value]
        self._staged = any(d.staged for d in artifact.descriptors)
        copied = any(not t.by_value for t in artifact.tables)
        self._temporary = bool(copied or self._staged or artifact.local_bytes)
        self._plain_launch = not (self._temporary or artifact.reports)  # nothing to do before or after it
        self._only_copies = self._staged and not (  # before it, and numbers to write
            artifact.tables or artifact.local_bytes or artifact.reports or self._converted
        )
        self._has_forms = any(artifact.depths)
        self._local = threading.local()
        self._loaded: dict[int, driver.LoadedKernel] = {}
        self._reports: dict[int, Reports] = {}
        self._maps: dict[Any, TensorMap] = {}

    # -- launching

    def run(self, grid: tuple[int, int, int], values: Sequence[Any], stream: int, device: int) -> None:
        """``launch`` with tables among the ``values``."""
        if self._has_forms and (form := self._form(grid, device)) is not self:
            form.run(grid, values, stream, device)
            return
        if self._tables or not self._plain_launch:
            self._with_room(values)._start(grid, LaunchArguments(values, (), stream, device))
            return
        try:
            frame = self._local.frame
        except AttributeError:
            frame = self._local.frame = Frame(self.artifact)
        kernel = self._loaded.get(device) or self._kernel(device)
        if frame.grid != grid or frame.stream != stream:
            frame.configure(self.artifact.binary, grid, stream)
        if self._numbers_only:
            self._write(frame, values)
        elif self._floats or frame.filled != (values, device):  # equal floats may be zeros of either sign
            frame.filled = None
            try:
                self._fill(frame, LaunchArguments(values, (), stream, device), [])
            except Unmapped:
                self._without_maps().run(grid, values, stream, device)
                return
            frame.filled = values, device
        if frame.launch(frame.config_pointer, kernel.handle, frame.pointer_pointer, None):
            self._run(frame, kernel)

    def _form(self, grid: tuple[int, int, int], device: int) -> TritonExecutable:
        """That for as many blocks on a multiprocessor as ``grid`` puts there."""
        for most, stages in self._limits(device):
            if math.prod(grid) <= most:
                return self._variant(stages=stages) if stages else self
        return self

    def _limits(self, device: int) -> list[tuple[int, int]]:
        """The most blocks with one on each multiprocessor, and with two, and the stages of the form for so many."""
        processors = driver.device(device).processors // self.artifact.binary.num_ctas
        return [((i + 1) * processors, stages) for i, stages in enumerate(self.artifact.depths)]

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Queue every block of ``grid`` on the stream; a kernel that prints or asserts is also waited for.

        CudaError when the driver refuses, TileError when an assert fails.
        """
        self.run(grid, self._with_tables(arguments).values, arguments.stream, arguments.device)

    def _with_tables(self, arguments: LaunchArguments) -> LaunchArguments:
        """The same with tables among the values, in the place of their addresses."""
        if not self._tables:
            return arguments
        values: list[Any] = list(arguments.values)
        for form, table in zip(self._tables, arguments.tables):
            values[form.parameter] = table
        return arguments._replace(values=values)

    def _with_room(self, values: Sequence[Any]) -> TritonExecutable:
        """The kernel that takes lists as long as those among ``values``."""
        longest = max([len(values[i].addresses) for i in self._by_value], default=0)
        if longest <= self.artifact.capacity:
            return self
        for capacity in CAPACITIES:
            if longest <= capacity:
                found = self._variant(capacity=capacity)
                if longest <= found.artifact.capacity:
                    return found
        return self._variant(capacity=0)

    def _variant(self, **how: Any) -> TritonExecutable:
        """The same kernel, compiled in another way."""
        key = tuple(how.items())
        if key not in self._variants:
            self._variants[key] = self._compile_variant(how)
        return self._variants[key]

    def _without_maps(self) -> TritonExecutable:
        """The kernel that needs no tensor maps, for arrays of which there are none."""
        return self._variant(descriptors=False, staging=False)

    def _start(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        """Launch what needs more than its numbers."""
        try:
            self._start_with_maps(grid, arguments)
        except Unmapped:
            self._without_maps()._start(grid, arguments)

    def _start_with_maps(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        frame = getattr(self._local, "frame", None)
        if frame is None:
            frame = self._local.frame = Frame(self.artifact)
        if self._only_copies and self._repeated(frame, grid, arguments):
            return
        if self._staged and not self._layout(arguments.values).pays(math.prod(grid)):
            # the kernel that reads such arrays where they are, with plain loads
            self._variant(staging=False)._start(grid, arguments)
            return
        kernel = self._loaded.get(arguments.device) or self._kernel(arguments.device)
        if self._plain_launch:
            if frame.grid != grid or frame.stream != arguments.stream:
                frame.configure(self.artifact.binary, grid, arguments.stream)
            self._fill(frame, arguments, [])
            self._run(frame, kernel)
            return
        with kernel.device.current():
            self._launch_with_memory(frame, kernel, grid, arguments)

    def _launch_with_memory(
        self, frame: Frame, kernel: driver.LoadedKernel, grid: tuple[int, int, int], arguments: LaunchArguments
    ) -> None:
        reports = self._reports_of(kernel) if self.artifact.reports else None
        if reports is not None:
            arguments = arguments._replace(values=(*arguments.values, reports.address))
        frame.held = None
        with driver.loans() as borrowed:
            if self.artifact.local_bytes:
                address = self._room(self.artifact.local_bytes * math.prod(grid), arguments, borrowed)
                arguments = arguments._replace(values=(*arguments.values, address))
            frame.configure(self.artifact.binary, grid, arguments.stream)
            self._fill(frame, arguments, borrowed)
            self._run(frame, kernel)
            frame.held = grid, arguments
        if reports is not None:
            reports.deliver(arguments.stream)

    def _repeated(self, frame: Frame, grid: tuple[int, int, int], arguments: LaunchArguments) -> bool:
        """Launch what ``frame`` holds once more, if it is the same and the copies can be where they were; False, and
        nothing has happened, if not."""
        if frame.held != (grid, arguments):
            return False
        kernel = self._kernel(arguments.device)
        with kernel.device.current(), driver.loans() as borrowed:
            if self._room(frame.copies_size, arguments, borrowed) != frame.copies_start:
                return False
            for copy in frame.copies:
                copy()
            self._write(frame, arguments.values)  # equal floats may be zeros of either sign
            self._run(frame, kernel)
        return True

    def _room(self, size: int, arguments: LaunchArguments, borrowed: list[Callable[[], None]]) -> int:
        """The address of as much memory for a launch; what frees it goes to ``borrowed``."""
        return self._kernel(arguments.device).device.borrow(size, arguments.stream, borrowed) if size else 0

    def bind(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        """``launch`` with everything prepared."""
        form = self._form(grid, arguments.device) if self._has_forms else self
        arguments = form._with_tables(arguments)
        return form._with_room(arguments.values)._bound(grid, arguments)

    def _bound(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        if self._temporary or self.artifact.reports:  # memory that lives for one launch, or something to do after it
            return functools.partial(self._start, grid, arguments)
        try:
            frame, run = self.prepared(grid, arguments)
        except Unmapped:
            return self._without_maps()._bound(grid, arguments)
        return functools.partial(launcher(frame, self._kernel(arguments.device), run)) if native.available() else run

    def prepared(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> tuple[Frame, Callable[[], None]]:
        """The memory of a launch that has nothing to do before or after it, and what queues it."""
        frame, kernel = Frame(self.artifact), self._kernel(arguments.device)
        frame.configure(self.artifact.binary, grid, arguments.stream)
        self._fill(frame, arguments, [])
        return frame, functools.partial(self._run, frame, kernel)

    def entry(self, device: int) -> native.Entry | None:
        """How machine code starts a launch on ``device``; None where there is more to a launch than to queue it."""
        if not self._plain_launch or self._tables:
            return None
        others: list[tuple[int, Form | None]] = []
        for most, stages in self._limits(device) if self._has_forms else []:
            form = self._variants.get((("stages", stages),)) if stages else self
            others.append((most, None if form is None else (form.artifact, form._kernel(device))))
        return entry(self.artifact, self._kernel(device), others)

    def _run(self, frame: Frame, kernel: driver.LoadedKernel) -> None:
        code = frame.launch(frame.config_pointer, kernel.handle, frame.pointer_pointer, None)
        if code in _FOREIGN:
            with kernel.device.current():  # another context was current in this thread, or none
                code = frame.launch(frame.config_pointer, kernel.handle, frame.pointer_pointer, None)
        if code and 0 not in (frame.grid or ()):  # nothing is to be done for a grid without blocks
            raise self._failure(code, frame, kernel)

    def _failure(self, code: int, frame: Frame, kernel: driver.LoadedKernel) -> driver.CudaError:
        """What the driver says of a launch that it refuses, in the terms of who launched."""
        doing, on, grid = f"the launch of {self._function.name}()", kernel.device, frame.grid or (1, 1, 1)
        said = driver.failure(code, doing)
        if code in driver.LOST:
            return driver.CudaError(
                f"{said}. A kernel that this process launched before has failed, after which the driver ends all work "
                "of the process on this GPU: start it again. To find the kernel, run tilewright check on the program",
                code,
            )
        if code in _FOREIGN and frame.stream and not on.owns(frame.stream):
            return driver.CudaError(
                f"{doing}: its arrays are on cuda:{on.index}, and the stream {frame.stream:#x} is none of that device, "
                "or was destroyed; pass a stream of the device of the arrays",
                code,
            )
        if code == driver.INVALID_VALUE and max(grid[1:]) > _MOST_BLOCKS:
            return driver.CudaError(
                f"{doing}: the grid {grid} has more than {_MOST_BLOCKS} blocks along its second or third axis, which "
                "no GPU runs; let the first axis be the longest",
                code,
            )
        return said

    def _kernel(self, device: int) -> driver.LoadedKernel:
        kernel = self._loaded.get(device)
        if kernel is None:
            kernel = self._loaded[device] = self._load(device)
        return kernel

    def _load(self, index: int) -> driver.LoadedKernel:
        binary, on = self.artifact.binary, driver.device(index)
        if binary.shared_bytes > on.shared_bytes:
            raise too_much_shared(self._function, binary.shared_bytes, on.shared_bytes)
        return driver.LoadedKernel(binary.code, binary.symbol, binary.shared_bytes, binary.num_ctas, on)

    def _fill(self, frame: Frame, arguments: LaunchArguments, borrowed: list[Callable[[], None]]) -> None:
        """Write the arguments into ``frame``. What frees the memory that was borrowed for it goes to ``borrowed``."""
        try:
            self._put(frame, arguments, borrowed)
        except driver.CudaError as e:
            if e.code not in _FOREIGN:
                raise
            with self._kernel(arguments.device).device.current():  # tensor maps are not made without a context
                self._put(frame, arguments, borrowed)

    def _put(self, frame: Frame, arguments: LaunchArguments, borrowed: list[Callable[[], None]]) -> None:
        values, binary = arguments.values, self.artifact.binary
        if self._tables:
            values = list(values)
            self._place_tables(frame, values, arguments, borrowed)
        if self._converted:
            values = list(values)
            for i, dtype in self._converted:
                values[i] = int(np.float32(values[i]).astype(dtype.storage).view(f"u{dtype.bytes}"))
        self._write(frame, values)
        if binary.descriptors:
            if self._staged:
                arrays = self._aligned(frame, arguments, borrowed)
            else:
                arrays = [d.geometry(values) for d in self.artifact.descriptors]
            frame.maps = [self._map(i, *array, arguments.device) for i, array in enumerate(arrays)]
            first = len(self.artifact.formats)
            for i, found in enumerate(frame.maps):
                frame.pointers[first + i] = found.address

    def _write(self, frame: Frame, values: Sequence[Any]) -> None:
        """The numbers of a launch. Floats beyond the range of their type are infinite."""
        try:
            self._pack(frame.numbers, 0, *values)
        except OverflowError:
            self._pack(frame.numbers, 0, *map(_in_range, values, self.artifact.formats))

    def _aligned(self, frame: Frame, arguments: LaunchArguments, borrowed: list[Callable[[], None]]) -> list[Geometry]:
        """The arrays of the descriptors, those that the TMA unit cannot read where they are copied."""
        layout = self._layout(arguments.values)
        start = self._room(layout.size, arguments, borrowed)
        frame.copies, frame.copies_start, frame.copies_size = [], start, layout.size
        for copy, offset in layout.copies.items():
            if copy.rows and copy.columns:
                numbers = LaunchArguments(copy.numbers(start + offset), (), arguments.stream, arguments.device)
                frame.copies.append(self._copier(copy.item).prepared(copy.grid, numbers)[1])
                frame.copies[-1]()
        return layout.arrays(start)

    def _map(self, i: int, base: int, shape: tuple[int, ...], strides: tuple[int, ...], device: int) -> TensorMap:
        """The tensor map of descriptor ``i``."""
        key = i, base, shape, strides
        known = self._maps.get(key)
        if known is None:
            if len(self._maps) >= _MAX_MAPS:
                self._maps.clear()
            known = TensorMap()
            d, meta = self.artifact.descriptors[i], self.artifact.binary.descriptors[i]
            encode(known.address, d, meta, base, shape, strides, device)
            self._maps[key] = known
        return known

    def _reports_of(self, kernel: driver.LoadedKernel) -> Reports:
        index = kernel.device.index
        if index not in self._reports:
            self._reports[index] = Reports(self._function)
        return self._reports[index]

    def _place_tables(
        self,
        frame: Frame,
        values: list[Any],
        arguments: LaunchArguments,
        borrowed: list[Callable[[], None]],
    ) -> None:
        """Put the tables among ``values`` where the kernel finds them: beside the numbers, or on the device."""
        on = self._kernel(arguments.device).device
        frame.lists = [frame.table(t, values[t.parameter], self.artifact, arguments.device) for t in self._tables]
        for form, memory in zip(self._tables, frame.lists):
            if form.by_value:
                frame.pointers[form.parameter], values[form.parameter] = memory.address, 0
            else:
                values[form.parameter] = memory.copy(self._function.name, on, arguments.stream, borrowed)

    # -- showing

    def stages(self) -> Mapping[str, str]:
        """Every form of the kernel from Tile IR to PTX, and its sizes."""
        return self._texts()


def formats_of(function: Function) -> tuple[str, ...]:
    """How each parameter is passed: the short name of its dtype, ``u64`` for pointers."""
    return tuple(_format(value.type) for value in function.body.args)


def _format(t: Any) -> str:
    assert isinstance(t, TileType)
    if isinstance(t.dtype, PointerType):
        return "u64"
    if t.dtype.short not in _FORMATS:
        raise TileError(f"the GPU backend cannot pass a {t.dtype} number to a kernel; pass an array of one element")
    return t.dtype.short
