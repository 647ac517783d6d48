"""The memory of one launch as the driver reads it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.binary import GpuBinary
from tilewright.gpu_runtime.tables import TableMemory
from tilewright.gpu_runtime.tensormap import TensorMap
from tilewright.ir.gpu_parameters import TableForm

_CONFIG = struct.Struct("=7I4xQQI4x")  # grid, block, shared bytes, stream, attributes, their number
_ATTRIBUTE = struct.Struct("=I4x64s")  # id, value
_MAX_TABLES = 64  # that one of them remembers; a program with lists of more kinds than that starts over
_CLUSTER_DIMENSION, _CLUSTER_SPREAD = 4, 5


class LaunchParameters:
    """The numbers, pointers to them, and the configuration."""

    SHARED, STREAM, ATTRIBUTES = 24, 32, 48  # the places in the configuration; of attributes that of their number

    def __init__(self, artifact: Artifact) -> None:
        binary = artifact.binary
        count = len(artifact.formats)
        slots = count + artifact.hidden
        self.numbers = ctypes.create_string_buffer(8 * max(slots, 1))
        start = ctypes.addressof(self.numbers)
        maps = len(binary.descriptors)
        # The order of the parameters: the numbers, the tensor maps, then pointers that the compiler added, all null.
        pointers = [start + 8 * i for i in range(count)] + [0] * maps + [start + 8 * i for i in range(count, slots)]
        self.pointers = (ctypes.c_uint64 * max(len(pointers), 1))(*pointers)
        self.pairs = any(d.pairs for d in artifact.descriptors)
        attributes = b"".join(_attributes(2 if self.pairs else binary.num_ctas))
        self.attributes = ctypes.create_string_buffer(attributes, max(len(attributes), 1))
        self.attribute_count = len(attributes) // _ATTRIBUTE.size
        self.config = ctypes.create_string_buffer(_CONFIG.size)
        self.grid: tuple[int, int, int] | None = None  # of the configuration, as is the stream
        self.stream = 0
        self.filled: tuple[Sequence[Any], int] | None = None  # values and device that the memory holds now
        self.held: tuple[Any, LaunchArguments] | None = None  # grid and arguments, where ``copies`` come first
        self.copies: list[Callable[[], None]] = []  # what queues them: into so many bytes of memory, from the start on
        self.copies_start = self.copies_size = 0
        self.maps: list[TensorMap] = []
        self.lists: list[TableMemory] = []  # what the pointers of tables point to
        self._tables: dict[tuple[int, int, int], TableMemory] = {}
        self.launch = driver.load().cuLaunchKernelEx  # type: ignore[union-attr]
        self.config_pointer = ctypes.c_void_p(ctypes.addressof(self.config))
        self.pointer_pointer = ctypes.c_void_p(ctypes.addressof(self.pointers))

    def configure(self, binary: GpuBinary, grid: tuple[int, int, int], stream: int) -> None:
        x, y, z = grid
        alone = self.pairs and x % 2 != 0
        threads, attributes = binary.block_threads, ctypes.addressof(self.attributes)
        _CONFIG.pack_into(
            self.config, 0, x * binary.num_ctas, y, z, threads, 1, 1, binary.shared_bytes, stream, attributes,
            0 if alone else self.attribute_count,
        )  # fmt: skip
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

    def table(self, form: TableForm, table: ListTable, artifact: Artifact, device: int) -> TableMemory:
        """The memory of ``table``. That of the launches before this is used again for the same rows."""
        key = form.parameter, id(table.rows), device
        known = self._tables.get(key)
        if known is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            known = TableMemory(form, table, artifact.binary.boxes, device, artifact.capacity)
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
