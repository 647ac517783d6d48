"""The shared memory of a CTA, with what the interpreter knows of each byte."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.gpu_stage.faults import IN_FLIGHT, MISALIGNED, OUT_OF_RANGE, RACE, UNINITIALIZED, Fault
from support.gpu_stage.ordering import Clocks, HappensBefore
from support.gpu_stage.shadow import Array, Shadow

from tilewright.ir.core import Op
from tilewright.ir.layouts import OFFSET
from tilewright.ir.ops.gpu.memory import SharedAlloc
from tilewright.ir.ops.gpu.tma import swizzle_of
from tilewright.ir.types import SharedType

_NOBODY = 0  # allocations and ops in flight are numbered from 1 on: memory is zeros until it is touched


@dataclass(frozen=True)
class Buffer:
    """A tile in shared memory: the byte where it begins, and the allocation that it is part of."""

    type: SharedType
    offset: int
    allocation: int


@dataclass(frozen=True)
class AsyncCopyUnderWay:
    """An asynchronous copy that has been issued: what will be in the bytes ``addresses``, one row for each run."""

    op: Op
    addresses: Array
    threads: Array
    data: Array


class SharedMemory:
    """``size`` bytes; a cluster has ``clocks`` for all of them. Allocations without an offset follow each other."""

    def __init__(self, size: int, clocks: Clocks) -> None:
        self.bytes = np.zeros(size, np.uint8)
        self.shadow = Shadow(size, "shared memory")
        self._holds = np.zeros(size, np.int32)  # the allocation through which a byte was written
        self._arriving = np.zeros(size, np.int32)  # the copy that is under way to it
        self._under_way = 0  # bytes, how often copies are on their way to them
        self._assigned: dict[Op, int] = {}
        self._end = 0
        self._allocations = 0
        self._open: list[AsyncCopyUnderWay] = []
        self._groups: deque[list[AsyncCopyUnderWay]] = deque()
        self.ordering = HappensBefore(size, clocks)
        self.turn_is_free = False  # of warp groups that take turns
        self._unfenced = np.zeros(size, np.bool_)  # written by threads, and not yet seen by TMA
        self._read = np.zeros(size, np.int32)  # how many copies by the TMA unit, and MMA ops in flight, read a byte
        self._readers = 0
        self._departures: deque[tuple[Op, Array, Array]] = deque()

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

    def load(self, op: Op, buffer: Buffer, offsets: Array, threads: Array | None) -> Array:
        """The elements at ``offsets``, each read by the thread beside it, if it may meet others of its side."""
        addresses = self._byte_addresses(buffer, offsets)
        self._require_arrived(op, addresses)
        self.require_held(op, buffer, addresses)
        if threads is not None:
            self.shadow.read(op, addresses, threads)
        self.ordering.read(op, addresses)
        return self.bytes[addresses].view(buffer.type.dtype.storage)[:, 0]

    def store(self, op: Op, buffer: Buffer, offsets: Array, threads: Array | None, values: Array) -> None:
        """Store ``values`` to ``offsets``, each by the thread beside it, if it may meet others of its side."""
        addresses = self._written(op, buffer, offsets, threads)
        self._unfenced[addresses] = True
        self.bytes[addresses] = np.ascontiguousarray(values).view(np.uint8).reshape(addresses.shape)

    def add(self, op: Op, buffer: Buffer, offsets: Array, threads: Array, values: Array) -> None:
        """Add ``values`` to what is at ``offsets``, where several threads may add to one element."""
        places, first, each = np.unique(offsets, return_index=True, return_inverse=True)
        sums = self.load(op, buffer, places, threads[first]).copy()
        np.add.at(sums, each, values)
        self.store(op, buffer, places, threads[first], sums)

    def begin_copy(self, op: Op, buffer: Buffer, offsets: Array, threads: Array, values: Array) -> None:
        """Issue a copy of ``values``, which arrive when the group of the copy is waited for."""
        addresses = self._written(op, buffer, offsets, threads)
        self._set_out(op, addresses)
        data = np.ascontiguousarray(values).view(np.uint8).reshape(addresses.shape)
        self._open.append(AsyncCopyUnderWay(op, addresses, threads, data))

    def _written(self, op: Op, buffer: Buffer, offsets: Array, threads: Array | None) -> Array:
        """The addresses at ``offsets``, which ``threads`` may write now."""
        addresses = self._byte_addresses(buffer, offsets)
        self._require_arrived(op, addresses)
        self._require_read(op, addresses)
        if threads is not None:
            self.shadow.write(op, addresses, threads)
        self.ordering.write(op, addresses)
        self._holds[addresses] = buffer.allocation
        return addresses

    def commit(self) -> None:
        """What was issued since the last time is a group."""
        self._groups.append(self._open)
        self._open = []

    def wait(self, pending: int) -> None:
        """Complete all but the ``pending`` latest groups. To other threads they are writes at this time."""
        while len(self._groups) > pending:
            for copy in self._groups.popleft():
                self._land(copy.addresses)
                self.bytes[copy.addresses] = copy.data
                self.shadow.write(copy.op, copy.addresses, copy.threads)

    # -- copies by the TMA unit, and what wgmma reads; ``addresses`` are bytes, a row for each element

    def begin_arrival(self, op: Op, addresses: Array) -> None:
        """A copy to ``addresses`` begins: what they held is gone."""
        self._require_arrived(op, addresses)
        self._require_read(op, addresses)
        self.ordering.write(op, addresses)
        self._holds[addresses] = _NOBODY
        self._set_out(op, addresses)

    def _set_out(self, op: Op, addresses: Array) -> None:
        self._arriving[addresses] = 1 + self.shadow.number(op)
        self._under_way += addresses.size

    def _land(self, addresses: Array) -> None:
        self._arriving[addresses] = _NOBODY
        self._under_way -= addresses.size

    def arrive(self, op: Op, addresses: Array, data: Array, allocation: int) -> None:
        """The copy ``op`` has arrived."""
        self._land(addresses)
        self._holds[addresses] = allocation
        self._unfenced[addresses] = False
        self.bytes[addresses] = data

    def read_tile(self, op: Op, buffer: Buffer, addresses: Array) -> Array:
        """The tile in ``buffer``, as TMA and wgmma see it."""
        self._require_arrived(op, addresses)
        self.require_held(op, buffer, addresses)
        unseen = self._unfenced[addresses]
        if unseen.any():
            raise Fault(
                RACE, op, f"reads byte {addresses[unseen][0]} of shared memory, which a thread wrote without a fence"
            )
        self.ordering.read(op, addresses)
        return self.bytes[addresses].view(buffer.type.dtype.storage)[:, 0].reshape(buffer.type.shape)

    def begin_departure(self, op: Op, buffer: Buffer, addresses: Array, threads: Array) -> Array:
        """The tile that copies from ``addresses`` read, which ``threads`` begin: they are a group."""
        found = self.read_tile(op, buffer, addresses)
        self.shadow.read(op, addresses, threads)
        self.begin_reading(addresses)
        self._departures.append((op, addresses, threads))
        return found

    def end_departures(self, op: Op, pending: int) -> None:
        """Let those who began copies know that all but the ``pending`` latest groups have read what they copy."""
        while len(self._departures) > pending:
            copy, addresses, threads = self._departures.popleft()
            self.end_reading(addresses)
            self.shadow.read(copy, addresses, threads)

    def begin_reading(self, addresses: Array) -> None:
        """Something in flight reads these bytes, until ``end_reading``."""
        self._read[addresses] += 1
        self._readers += 1

    def end_reading(self, addresses: Array) -> None:
        self._read[addresses] -= 1
        self._readers -= 1

    def take(self, buffer: Buffer, size: int) -> None:
        """What the first ``size`` bytes of ``buffer`` held before is gone."""
        self._holds[buffer.offset : buffer.offset + size] = buffer.allocation

    def fence(self) -> None:
        """TMA and wgmma see what threads wrote."""
        self._unfenced[:] = False

    def _byte_addresses(self, buffer: Buffer, offsets: Array) -> Array:
        size = buffer.type.dtype.bytes
        return buffer.offset + offsets[:, None] * size + np.arange(size)

    def _require_arrived(self, op: Op, addresses: Array) -> None:
        if not self._under_way:
            return
        arriving = self._arriving[addresses]
        if (arriving != _NOBODY).any():
            found: Any = addresses[arriving != _NOBODY][0]
            copy = self.shadow.ops[int(self._arriving[found]) - 1]
            raise Fault(
                IN_FLIGHT, op, f"accesses byte {found} of shared memory, to which a copy at {copy.loc} is under way"
            )

    def require_held(self, op: Op, buffer: Buffer, addresses: Array) -> None:
        """Fault where something else than ``buffer`` was written to ``addresses``, or nothing."""
        foreign = self._holds[addresses] != buffer.allocation
        if foreign.any():
            byte = int(addresses[foreign][0])
            what = "nothing was written" if self._holds[byte] == _NOBODY else "something else was written last"
            raise Fault(UNINITIALIZED, op, f"reads byte {byte} of shared memory, where {what}")

    def _require_read(self, op: Op, addresses: Array) -> None:
        if not self._readers:
            return
        reading = self._read[addresses] > 0
        if reading.any():
            what = "which a copy or an MMA op in flight is reading"
            raise Fault(RACE, op, f"writes byte {addresses[reading][0]} of shared memory, {what}")


def byte_addresses(op: Op, buffer: Buffer) -> Array:
    """The bytes of each element of a tile in shared memory, in the order of the tile."""
    layout, size = buffer.type.layout, buffer.type.dtype.bytes
    found = swizzle_of(buffer.type)
    if found is not None and buffer.offset % (8 * found[1]):
        raise Fault(MISALIGNED, op, f"of a tile at byte {buffer.offset}, no multiple of {8 * found[1]}")
    offsets = np.empty(layout.size(OFFSET), np.int64)
    offsets[layout.table.ravel()] = np.arange(offsets.size)
    return buffer.offset + offsets[:, None] * size + np.arange(size)
