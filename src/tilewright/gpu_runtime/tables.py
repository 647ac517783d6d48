"""The memory of the tables of lists: what ``TableParameter`` says that a kernel reads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.launch_arguments import ListTable
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.tensormap import MapEncoder
from tilewright.gpu_runtime.words import table
from tilewright.ir.gpu_parameters import MAP_ALIGNMENT, MAP_BYTES, TableParameter

_MAX_TABLES = 64  # that launches of a thread remember; a program with lists of more kinds than that starts over
_REPLACE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Tables:
    """The memory of tables that launches share: that of the launches before is used again for the same rows."""

    def __init__(self, artifact: Artifact) -> None:
        self._capacity = artifact.capacity
        self._known: dict[tuple[int, int, int], TableMemory] = {}

    def memory(self, param: TableParameter, table: ListTable, device: int) -> TableMemory:
        """The memory of ``table``."""
        key = param.index, id(table.rows), device
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MAX_TABLES:
                self._known.clear()
            known = TableMemory(param, table, device, self._capacity)
            self._known[key] = known  # which keeps the rows, so that no others get their identity
        else:
            known.update(table.addresses)
        return known


class TableMemory:
    """The table of a list in host memory at ``address``, with room for ``capacity`` arrays if there are less: ``size``
    bytes from byte ``begin`` on are those of the arrays."""

    def __init__(self, param: TableParameter, table: ListTable, device: int, capacity: int = 0) -> None:
        self.rows = table.rows
        count, room = len(table.rows), max(len(table.rows), capacity)
        self.size, self.room = count * param.entry_bytes, room * param.entry_bytes
        self.begin, self.maps_size = (room - count) * param.map_bytes, count * param.map_bytes
        self._memory = (ctypes.c_uint8 * (self.room + MAP_ALIGNMENT))()
        start = ctypes.addressof(self._memory)
        self.address = start + -start % MAP_ALIGNMENT
        first = self.address + room * param.map_bytes
        self.addresses = list(table.addresses)
        self.words: list[ctypes.c_uint64] = []  # the addresses in memory
        self.maps: list[list[int]] = []  # where those with the address are, for each array
        encoders = [MapEncoder(*described) for described in zip(param.descriptors, param.boxes)]
        self._replace = _REPLACE(driver.address("cuTensorMapReplaceAddress"))
        for i, row in enumerate(table.filled()):
            at = first + i * row.nbytes
            ctypes.memmove(at, row.tobytes(), row.nbytes)
            self.words.append(ctypes.c_uint64.from_address(at))
            self.maps.append([])
            for k, d in enumerate(param.descriptors):
                to = first - i * param.map_bytes - MAP_BYTES * (k + 1)
                encoders[k].encode(to, at, device)
                if 0 not in d.extents(row.tolist())[0]:
                    self.maps[-1].append(to)

    def update(self, addresses: Sequence[int]) -> None:
        """Let the arrays be at ``addresses``."""
        known, replace = self.addresses, self._replace
        if known == addresses:
            return
        for i, address in enumerate(addresses):
            if address != known[i]:
                for at in self.maps[i]:
                    if code := replace(at, address):
                        raise driver.failure(code, "cuTensorMapReplaceAddress")
                self.words[i].value = known[i] = address

    def described(self, offset: int) -> tuple[list[int], tuple[Any, ...]]:
        """How machine code copies it, with the addresses that the rows at an ``offset`` of its values begin with; and
        what that needs to live."""
        width = 8 * self.rows.shape[1]
        targets = ([ctypes.addressof(word)] for word in self.words)
        words, maps = (
            table((width * i, at - self.address) for i, places in enumerate(of) for at in places)
            for of in (targets, self.maps)
        )
        places = self.address, ctypes.addressof(words), ctypes.addressof(maps)
        return [offset, self.room, self.begin, self.size, *places], (self, words, maps)

    def copy(self, kernel: str, on: driver.Device, stream: int, borrowed: list[Callable[[], None]]) -> int:
        """The address of the rows of a copy in memory of the device ``on``, for one launch of ``kernel``; what frees it
        goes to ``borrowed``. RuntimeError where a graph would record the copying, and read this memory when it is
        launched."""
        if driver.is_capturing(stream):
            raise RuntimeError(
                f"{kernel}() cannot be recorded in a CUDA graph: its lists are copied for each launch, as they are too "
                "long, the kernel chooses between them, or triton or tileiras compiles it; pass shorter lists, index "
                "each one by itself, or choose another backend"
            )
        address = on.borrow(self.size, stream, borrowed)
        there, here = ctypes.c_uint64(address), ctypes.c_void_p(self.address + self.begin)
        driver.call("cuMemcpyHtoDAsync_v2", there, here, ctypes.c_size_t(self.size), ctypes.c_void_p(stream))
        return address + self.maps_size
