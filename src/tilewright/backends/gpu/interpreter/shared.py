"""The shared memory of a CTA, with what the interpreter knows of each byte."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.gpu.interpreter.faults import IN_FLIGHT, OUT_OF_RANGE, UNINITIALIZED, Fault
from tilewright.backends.gpu.interpreter.shadow import Array, Shadow
from tilewright.ir.core import Op
from tilewright.ir.ops.gpu.memory import SharedAlloc
from tilewright.ir.types import SharedType

_NOBODY = -1


@dataclass(frozen=True)
class Buffer:
    """A tile in shared memory: the byte where it begins, and the allocation that it is part of."""

    type: SharedType
    offset: int
    allocation: int


@dataclass(frozen=True)
class Copy:
    """An asynchronous copy that has been issued: what will be in the bytes ``places``, one row for each run."""

    op: Op
    places: Array
    threads: Array
    data: Array


class SharedMemory:
    """``size`` bytes. Allocations without an offset lie behind each other."""

    def __init__(self, size: int) -> None:
        self.bytes = np.zeros(size, np.uint8)
        self.shadow = Shadow(size, "shared memory")
        self._holds = np.full(size, _NOBODY, np.int32)  # the allocation through which a byte was written
        self._arriving = np.full(size, _NOBODY, np.int32)  # the copy that is under way to it
        self._assigned: dict[Op, int] = {}
        self._end = 0
        self._allocations = 0
        self._open: list[Copy] = []
        self._groups: deque[list[Copy]] = deque()

    def allocate(self, op: SharedAlloc) -> Buffer:
        """The memory of ``op``; what it held before is gone."""
        offset = op.offset
        if offset is None:
            if op not in self._assigned:
                self._assigned[op] = -(-self._end // op.alignment) * op.alignment
                self._end = self._assigned[op] + op.type.bytes
            offset = self._assigned[op]
        if offset + op.type.bytes > len(self.bytes):
            raise Fault(
                OUT_OF_RANGE, op, f"ends at byte {offset + op.type.bytes} of {len(self.bytes)} bytes of shared memory"
            )
        self._allocations += 1
        return Buffer(op.type, offset, self._allocations)

    def load(self, op: Op, buffer: Buffer, offsets: Array, threads: Array) -> Array:
        """The elements at ``offsets``, each read by the thread beside it."""
        places = self._places(buffer, offsets)
        self._require_arrived(op, places)
        foreign = self._holds[places] != buffer.allocation
        if foreign.any():
            byte = int(places[foreign][0])
            what = "nothing was written" if self._holds[byte] < 0 else "something else was written last"
            raise Fault(UNINITIALIZED, op, f"reads byte {byte} of shared memory, where {what}")
        self.shadow.read(op, places, threads)
        found: Array = self.bytes[places].view(buffer.type.dtype.storage)[:, 0]
        return found

    def store(self, op: Op, buffer: Buffer, offsets: Array, threads: Array, values: Array) -> None:
        """Store ``values`` to ``offsets``, each by the thread beside it."""
        places = self._places(buffer, offsets)
        self._require_arrived(op, places)
        self.shadow.write(op, places, threads)
        self._holds[places] = buffer.allocation
        self.bytes[places] = np.ascontiguousarray(values).view(np.uint8).reshape(places.shape)

    def begin_copy(self, op: Op, buffer: Buffer, offsets: Array, threads: Array, values: Array) -> None:
        """Issue a copy of ``values``, which arrive when the group of the copy is waited for."""
        places = self._places(buffer, offsets)
        self._require_arrived(op, places)
        self.shadow.write(op, places, threads)
        self._holds[places] = buffer.allocation
        self._arriving[places] = self.shadow.number(op)
        data = np.ascontiguousarray(values).view(np.uint8).reshape(places.shape)
        self._open.append(Copy(op, places, threads, data))

    def commit(self) -> None:
        """What was issued since the last time is a group."""
        self._groups.append(self._open)
        self._open = []

    def wait(self, pending: int) -> None:
        """Complete all but the ``pending`` latest groups. To other threads they are writes at this time."""
        while len(self._groups) > pending:
            for copy in self._groups.popleft():
                self._arriving[copy.places] = _NOBODY
                self.bytes[copy.places] = copy.data
                self.shadow.write(copy.op, copy.places, copy.threads)

    def _places(self, buffer: Buffer, offsets: Array) -> Array:
        size = buffer.type.dtype.bytes
        return buffer.offset + offsets[:, None] * size + np.arange(size)

    def _require_arrived(self, op: Op, places: Array) -> None:
        arriving = self._arriving[places]
        if (arriving != _NOBODY).any():
            found: Any = places[arriving != _NOBODY][0]
            copy = self.shadow.ops[int(self._arriving[found])]
            raise Fault(
                IN_FLIGHT, op, f"accesses byte {found} of shared memory, to which a copy at {copy.loc} is under way"
            )
