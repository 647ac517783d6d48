"""What a launch hands to a kernel, and the memory of one launch as the driver reads it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.tables import TableMemory
from tilewright.gpu_runtime.tensormap import MapEncoder, TensorMap
from tilewright.ir.gpu_parameters import TableParameter

_CONFIG = struct.Struct("=7I4xQQI4x")  # grid, block, shared bytes, stream, attributes, their number
_ATTRIBUTE = struct.Struct("=I4x64s")  # id, value
_MAX_TABLES = 64  # that one of them remembers; a program with lists of more kinds than that starts over
MANY_BLOCKS = 2048  # of a grid whose CTAs run several each
_CLUSTER_DIMENSION, _CLUSTER_SPREAD = 4, 5

T = TypeVar("T")


class ParameterLayout:
    """The parameters of a kernel in their order, and its configuration but for grid and stream. Launches from Python,
    from machine code and as graphs are made from it."""

    def __init__(self, artifact: Artifact) -> None:
        binary = artifact.binary
        self.formats, self.added = artifact.formats, artifact.hidden
        self.maps = [MapEncoder(d, box) for d, box in zip(artifact.descriptors, binary.descriptors)]
        self.pairs = any(d.pairs for d in artifact.descriptors)  # clusters of 2, where the grid's width is even
        self.ctas = binary.num_ctas * artifact.ctas_of_block  # of a block of the grid
        self.blocks = artifact.blocks_of_cta
        self.joined = artifact.joined
        self.threads, self.shared_bytes = binary.threads, binary.shared_bytes  # of a CTA
        self.attributes = b"".join(_attributes(2 if self.pairs else binary.num_ctas))
        tables = artifact.tables, artifact.capacity
        self._described = (self.formats, self.added, artifact.descriptors, binary.descriptors, *tables, self.blocks)

    @property
    def attribute_count(self) -> int:
        return len(self.attributes) // _ATTRIBUTE.size

    def ordered(self, numbers: Sequence[T], maps: Sequence[T], added: Sequence[T]) -> list[T]:
        """All parameters: the numbers, the tensor maps, then the pointers that the compiler added, which are null."""
        return [*numbers, *maps, *added]

    def configuration(self, grid: tuple[int, int, int], stream: int, attributes: int) -> tuple[int, ...]:
        """What ``_CONFIG`` packs. The launch attributes are at the address ``attributes``."""
        x, y, z = (n // joined for n, joined in zip(grid, self.joined))
        if 1 < self.blocks <= x and x * y * z > MANY_BLOCKS:
            x = -(-x // self.blocks)
        count = 0 if self.pairs and x % 2 != 0 else self.attribute_count
        return x * self.ctas, y, z, self.threads, 1, 1, self.shared_bytes, stream, attributes, count

    def launched_like(self, other: ParameterLayout) -> bool:
        """Whether both take the same parameters and attributes."""
        mine, others = ((x._described, x.attributes, x.ctas) for x in (self, other))
        return mine == others


class LaunchParameters:
    """The numbers, pointers to them, and the configuration."""

    # Offsets in the configuration; of attributes that of their number.
    THREADS, SHARED, STREAM, ATTRIBUTES = 12, 24, 32, 48

    def __init__(self, layout: ParameterLayout) -> None:
        self.layout = layout
        count = len(layout.formats)
        self.numbers = ctypes.create_string_buffer(8 * max(count + layout.added, 1))
        start = ctypes.addressof(self.numbers)
        slots = range(start, start + 8 * (count + layout.added), 8)
        pointers = layout.ordered(slots[:count], [0] * len(layout.maps), slots[count:])
        self.pointers = (ctypes.c_uint64 * max(len(pointers), 1))(*pointers)
        self.attributes = ctypes.create_string_buffer(layout.attributes, max(len(layout.attributes), 1))
        self.config = ctypes.create_string_buffer(_CONFIG.size)
        self.grid: tuple[int, int, int] | None = None  # of the configuration, as is the stream
        self.stream = 0
        self.held: tuple[Any, LaunchArguments] | None = None  # grid and arguments, where ``copies`` come first
        self.copies: list[Callable[[], None]] = []  # what queues them: into so many bytes of memory, from the start on
        self.copies_start = self.copies_size = 0
        self.maps: list[TensorMap] = []
        self.lists: list[TableMemory] = []  # what the pointers of tables point to
        self._tables: dict[tuple[int, int, int], TableMemory] = {}
        self.launch = driver.load().cuLaunchKernelEx  # type: ignore[union-attr]
        self.config_pointer = ctypes.c_void_p(ctypes.addressof(self.config))
        self.pointer_pointer = ctypes.c_void_p(ctypes.addressof(self.pointers))

    def configure(self, grid: tuple[int, int, int], stream: int) -> None:
        _CONFIG.pack_into(self.config, 0, *self.layout.configuration(grid, stream, ctypes.addressof(self.attributes)))
        self.grid, self.stream = grid, stream

    @property
    def sizes(self) -> bytes:
        """Grid, block and shared bytes, as they are in the configuration."""
        return self.config.raw[: 7 * 4]

    def launch_attributes(self) -> Iterator[tuple[int, bytes]]:
        """The attributes of the configuration: numbers and values."""
        (count,) = struct.unpack_from("=I", self.config, self.ATTRIBUTES)
        for i in range(count):
            yield _ATTRIBUTE.unpack_from(self.attributes, i * _ATTRIBUTE.size)

    def table(self, param: TableParameter, table: ListTable, artifact: Artifact, device: int) -> TableMemory:
        """The memory of ``table``. That of the launches before this is used again for the same rows."""
        key = param.index, id(table.rows), device
        known = self._tables.get(key)
        if known is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            known = TableMemory(param, table, device, artifact.capacity)
            self._tables[key] = known  # which keeps the rows, so that no others get their identity
        else:
            known.update(table.addresses)
        return known


def _attributes(num_ctas: int) -> list[bytes]:
    if num_ctas == 1:
        return []
    return [
        _ATTRIBUTE.pack(_CLUSTER_DIMENSION, struct.pack("=3I", num_ctas, 1, 1)),
        _ATTRIBUTE.pack(_CLUSTER_SPREAD, struct.pack("=I", 1)),
    ]
