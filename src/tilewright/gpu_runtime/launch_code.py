"""Launches of a kernel, made of one description of its parameters: those from Python, from machine code and from other
programs enter one function with it, and graphs are made by it."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Iterable, Sequence
from ctypes import addressof
from typing import Any, NamedTuple

from tilewright.backends.native import Embedded, LaunchStub, embedded_function
from tilewright.backends.native.body import Body, c_function
from tilewright.backends.native.values import Word
from tilewright.gpu_runtime import driver, words
from tilewright.gpu_runtime.abi import floats
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.launch_functions import function, functions
from tilewright.gpu_runtime.tables import Tables
from tilewright.gpu_runtime.tensormap import MapEncoder, memory_for_nothing
from tilewright.gpu_runtime.words import table
from tilewright.ir.gpu_parameters import MAP_BYTES

# CUlaunchConfig: grid, block, shared bytes, stream, attributes, their number. CUlaunchAttribute: id, value.
CONFIG, ATTRIBUTE = struct.Struct("=7I4xQQI4x"), struct.Struct("=I4x64s")
_CLUSTER_DIMENSION, _CLUSTER_SPREAD, PROGRAMMATIC_SERIALIZATION = 4, 5, 6
_PROGRAMMATIC_IN_GRAPHS = 12030  # the first version of CUDA whose graphs have programmatic dependent launches
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)  # cuLaunchKernelEx, and what stands for it
_MOVE = ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0
Blocks = tuple[int, int, int]  # along each axis of a grid


class Choice(NamedTuple):
    """Where another variant of a kernel is launched: with as many blocks as are ``joined``, if that keeps so many per
    cent of SMs ``busy``, or else where the number of blocks, or each of ``parameters``, is at most ``most``. None
    for the kernel itself."""

    variant: Constraints | None
    joined: Blocks | None = None
    busy: int = 0
    most: int = 0
    parameters: tuple[int, ...] = ()

    def row(self, number: int, parameters: int) -> list[int]:
        """A ``CHOICE`` of this number, whose parameters are in the table at an address."""
        number = words.OWN if self.variant is None else number
        if self.joined is None:
            return [number, 0, 0, 1, 1, 1, self.most, parameters]
        return [number, 0, math.prod(self.joined), *self.joined, self.busy, parameters]


class Choices:
    """The variants of a kernel that launches choose from, by their grid and parameters, on a GPU with so many SMs, and
    those ``without`` copies, and without maps, which arrays ask for. A CTA of the kernel itself runs ``joined``
    blocks."""

    def __init__(
        self, choices: Sequence[Choice], joined: Blocks, processors: int = 1, without: Sequence[Constraints] = ()
    ) -> None:
        self.all = [*choices, *map(Choice, without)]
        self._parameters = [table((8 * i,) for i in choice.parameters) for choice in self.all]
        at = map(addressof, self._parameters)
        self._rows = table(choice.row(i, place) for i, (choice, place) in enumerate(zip(self.all, at)))
        self._rows[0] = len(choices)
        self._others: dict[int, LaunchCode] = {}
        self.words = words.CHOICES.packed(rows=addressof(self._rows), processors=processors, joined=math.prod(joined))

    def variant(self, grid: Blocks) -> Constraints | None:
        """The one for a launch whose parameters are not known; None for the kernel itself."""
        found = function("choose")(self.words, None, *grid)
        return None if found == words.OWN else self.all[found].variant

    def add(self, i: int, variant: LaunchCode) -> None:
        """Let launches that need it take the ``variant`` of choice ``i``."""
        self._others[i], self._rows[words.CHOICE.place_in_table(i, "kernel")] = variant, variant.address


class ParameterLayout:
    """The parameters of a kernel in their order, and its configuration but for grid and stream."""

    def __init__(self, artifact: Artifact) -> None:
        binary = artifact.binary
        self.artifact = artifact
        self.added = [words.ROOM_AT] * bool(artifact.local_bytes) + [words.WIDTH_AT] * (artifact.blocks_of_cta > 1)
        self.formats = artifact.formats[: len(artifact.formats) - len(self.added)]  # of what launches give
        self.maps = [MapEncoder(d, box) for d, box in zip(artifact.descriptors, binary.descriptors)]
        self.copies = any(encoder.copied != words.NEVER for encoder in self.maps)
        self.pairs = any(d.pairs for d in artifact.descriptors)  # clusters of 2, where the grid's width is even
        self.ctas = binary.num_ctas * artifact.ctas_of_block  # of a block of the grid
        beside = binary.dependent_launch and driver.version() >= _PROGRAMMATIC_IN_GRAPHS
        apart = [ATTRIBUTE.pack(PROGRAMMATIC_SERIALIZATION, struct.pack("=i", 1))] if beside else []
        attributes = [*apart, *_attributes(2 if self.pairs else binary.num_ctas)]
        self.attribute_count, self.attributes = len(attributes), ctypes.create_string_buffer(b"".join(attributes))
        self.attributes_apart = len(apart)  # how many a grid without clusters has

    def sources(self) -> Iterable[int]:
        """Where a launch finds each parameter."""
        tables = {table.index for table in self.artifact.tables if table.by_value}
        places = [(8 * i, words.TABLE if i in tables else words.NUMBER) for i in range(len(self.formats))]
        places += [(at, words.MEMORY) for at in self.added]
        places += [(MAP_BYTES * (i + 1), words.MEMORY) for i in range(len(self.maps))]
        places += [(words.NULL_AT, words.MEMORY)] * self.artifact.hidden
        return [offset << 2 | where for offset, where in places]

    def configuration(self) -> Sequence[int]:
        """The words of one without a grid and a stream."""
        threads, shared, attributes = self.artifact.binary.threads, self.artifact.binary.shared_bytes, self.attributes
        known = CONFIG.pack(0, 0, 0, threads, 1, 1, shared, 0, addressof(attributes), self.attribute_count)
        return struct.unpack("=7Q", known)


class LaunchCode:
    """A loaded kernel as the function ``start`` of machine code launches it. It calls nothing of Python. Where arrays
    or lists are copied first, or blocks need memory, it borrows that of the device meanwhile."""

    def __init__(
        self,
        layout: ParameterLayout,
        kernel: driver.LoadedKernel | None,
        choices: Choices,
        least: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.device = None if kernel is None else kernel.device
        self.choices, artifact = choices, layout.artifact
        tables = {
            "bounds": table((8 * i, bound) for i, bound in least),
            "maps": table(encoder.words for encoder in layout.maps),
            "parameters": table((source,) for source in layout.sources()),
            "extent": table((8 * parameter, *others) for parameter, *others in filter(None, [artifact.grid_extent])),
        }
        copied = any(not t.by_value for t in artifact.tables)
        borrows = kernel is not None and (layout.copies or copied or artifact.local_bytes)
        known = words.KERNEL.packed(
            handle=0 if kernel is None else kernel.handle.value or 0,
            encode=driver.address("cuTensorMapEncodeTiled") if layout.maps else 0,
            nothing=0,
            choices=addressof(choices.words) if choices.all else 0,
            **{name: addressof(there) for name, there in tables.items()},
            **dict(zip("xyz", artifact.joined)),
            ctas=layout.ctas,
            blocks=artifact.blocks_of_cta,
            odd=layout.attributes_apart if layout.pairs else layout.attribute_count,
            room=artifact.local_bytes,
            **(_lender(kernel.device) if borrows and kernel is not None else dict.fromkeys(_LENDER, 0)),
        )
        self._words = (ctypes.c_uint64 * (len(known) + words.CONFIG_BYTES // 8))(*known, *layout.configuration())
        self.address = addressof(self._words)
        self._maps, self._kept = tables["maps"], [tables, layout, kernel]

    def add_copier(self, i: int, aligned: bool, copier: LaunchCode) -> None:
        """Let launches copy the array of map ``i``, ``aligned`` or not, by a kernel."""
        self._maps[words.MAP.place_in_table(i, "aligned" if aligned else "copier", words.BEHIND_MAP)] = copier.address
        self._kept.append(copier)

    def add_nothing(self) -> None:
        """Let launches have arrays without elements."""
        assert self.device is not None
        self._words[words.KERNEL.index("nothing")] = memory_for_nothing(self.device.index)


_LENDER = "pool", "context", "current", "borrow", "free"


def _lender(device: driver.Device) -> dict[str, int]:
    """What launches borrow memory of a device by."""
    calls = "cuCtxGetCurrent", "cuMemAllocFromPoolAsync", "cuMemFreeAsync"
    return dict(zip(_LENDER, (device.pool.value or 0, device.context, *map(driver.address, calls))))


class Entry:
    """How launches enter ``code``, a kernel with parameters of these ``formats`` and lists like those of ``tables``:
    the ``stub``."""

    def __init__(
        self, code: LaunchCode, formats: Sequence[str], tables: Tables | None = None, lender: LaunchCode | None = None
    ) -> None:
        self.code, rounded = code, table(floats(formats))
        lists, lent = (table([]), 0) if tables is None else (tables.rows, tables.lent)
        self._record = words.ENTRY.packed(
            launch=driver.address("cuLaunchKernelEx"),
            kernel=code.address,
            floats=addressof(rounded),
            lists=addressof(lists),
            lent=lent,
            lender=(lender or code).address,
            replace=driver.address("cuTensorMapReplaceAddress") if len(lists) > 1 else 0,
            copy=_MOVE,
            send=driver.address("cuMemcpyHtoDAsync_v2") if lent else 0,
            capturing=driver.address("cuStreamIsCapturing") if lent else 0,
            allocate=c_function("PyMem_RawMalloc"),
            release=c_function("PyMem_RawFree"),
            save=c_function("PyEval_SaveThread"),
            restore=c_function("PyEval_RestoreThread"),
        )
        self.stub = LaunchStub(functions(), self._record, (code, lender, rounded, lists, tables))

    def queue(self, values: bytes, grid: Blocks, stream: int, launch: Any = None) -> int:
        """What machine code gives, from Python, which may have what is given to cuLaunchKernelEx given to ``launch``.
        Packed ``values`` are those of the parameters, the address of its rows for a list."""
        record = self._record
        if launch is not None:
            record = type(record)(*record)
            record[words.ENTRY.index("launch")] = ctypes.cast(launch, ctypes.c_void_p).value
        memory = ctypes.create_string_buffer(values)
        return int(function("queue")(record, memory, *grid, stream))


def embedded(name: str, entries: Sequence[Entry]) -> Embedded:
    """The function ``i64 @name(ptr values, i64 x, i64 y, i64 z, i64 stream, i64 threads, ptr schedule, ptr pool)``,
    which queues a launch on a stream of any device that has one of ``entries``, and calls nothing of Python."""
    body = Body()
    context = body.stack("ptr")
    body.unless((Word(body, "%x") * "%y" * "%z").equals(0), "done")
    body.require(_call(body, "cuStreamGetCtx", f"i64 %stream, ptr {context}").equals(0))
    current, entry = body.load("ptr", context), "null"
    for each in entries:
        here = body.external(each.code.device.context if each.code.device is not None else 0)
        here = body.let(f"icmp eq ptr {current}, {here}")
        entry = body.let(f"select i1 {here}, ptr {body.memory(each.stub.record)}, ptr {entry}")
        body.kept.append(each)
    body.require_object(entry)
    body.require(_call(body, "cuCtxPushCurrent_v2", f"ptr {current}").equals(0))
    queue = body.external(functions().address("queue"))
    given = f"ptr {entry}, ptr %values, i64 %x, i64 %y, i64 %z, i64 %stream"
    failed = body.let(f"call i64 {queue}({given})")
    _call(body, "cuCtxPopCurrent_v2", f"ptr {context}")
    body.require_equal("i64", failed, 0)
    body.jump("done")
    text = embedded_function(name, body, "no:\nret i64 1\ndone:\nret i64 0")
    return Embedded(text, "", (), (*body.kept, functions()))


def _call(body: Body, name: str, given: str) -> Word:
    return words.error_of(body, body.external(driver.address(name)), given)


@functools.cache
def _attributes(num_ctas: int) -> list[bytes]:
    if num_ctas == 1:
        return []
    return [
        ATTRIBUTE.pack(_CLUSTER_DIMENSION, struct.pack("=3I", num_ctas, 1, 1)),
        ATTRIBUTE.pack(_CLUSTER_SPREAD, struct.pack("=I", 1)),
    ]
