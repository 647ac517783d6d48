"""The memory that a launch may touch. Every access is checked against the allocation of its pointer."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilewright.backends.launch_arguments import REACHABLE, Buffer
from tilewright.backends.reference.values import UNKNOWN_ALLOCATION, Array, Pointers, TensorView
from tilewright.ir.dtypes import DType
from tilewright.ir.errors import TileError

UNINITIALIZED = 0xCD  # every byte of a fresh local array
LOCAL = "the local array"  # what they are called; parameters have no such names


class Memory:
    """The buffers of one launch as byte arrays; ``changes`` counts the stores that altered a byte.

    Accesses outside every buffer, outside the buffer of the pointer, or writing to a read-only one raise TileError
    without a location, which the interpreter adds.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        reachable = REACHABLE.get()
        others = () if reachable is None else reachable()
        self.buffers = [*buffers, *(b for b in others if not any(o.low < b.high and b.low < o.high for o in buffers))]
        self.bytes = [_bytes_between(b.low, b.high) for b in self.buffers]
        self.changes = 0
        self._released: list[int] = []

    def pointer(self, name: str, address: int) -> Pointers:
        """The base pointer of argument ``name``."""
        owners = (i for i, b in enumerate(self.buffers) if b.name == name and b.address == address)
        return Pointers(np.array(next(owners, UNKNOWN_ALLOCATION), np.int64), np.array(address, np.int64))

    def add(self, buffer: Buffer) -> int:
        """Make ``buffer`` part of this memory; returns the number of its allocation."""
        self.buffers.append(buffer)
        self.bytes.append(_bytes_between(buffer.low, buffer.high))
        return len(self.buffers) - 1

    def remove(self, allocation: int) -> None:
        """Forget a buffer that is gone. Pointers to it remain outside of everything."""
        buffer = self.buffers[allocation]
        self.buffers[allocation] = replace(buffer, name=f"{buffer.name}, which is gone", low=0, high=0)
        self.bytes[allocation] = _bytes_between(0, 0)

    def allocate(self, dtype: DType, count: int) -> Pointers:
        """A pointer to fresh memory for ``count`` elements; ``release`` ends its life."""
        data = np.full(count * dtype.bytes, UNINITIALIZED, np.uint8)
        address = data.ctypes.data
        buffer = Buffer(LOCAL, address, address, address + data.nbytes, dtype, True)
        number = self._released.pop() if self._released else self.add(buffer)
        self.buffers[number], self.bytes[number] = buffer, data
        return Pointers(np.array(number, np.int64), np.array(address, np.int64))

    def release(self, pointer: Pointers) -> None:
        """End the life of what ``allocate`` gave."""
        self.remove(int(pointer.allocation))
        self._released.append(int(pointer.allocation))

    def gather(self, pointers: Pointers, dtype: DType) -> Array:
        """The elements behind a rank-1 tile of pointers."""
        result = np.empty(pointers.shape, dtype.storage)
        for owner, chosen, offsets in self._memory_bytes(pointers, dtype, "load"):
            result[chosen] = self.bytes[owner][offsets].view(dtype.storage)[:, 0]
        return result

    def scatter(self, pointers: Pointers, dtype: DType, values: Array) -> None:
        """Store through a rank-1 tile of pointers, in order."""
        for owner, chosen, offsets in self._memory_bytes(pointers, dtype, "store"):
            self._require_writable(owner)
            raw = np.ascontiguousarray(values[chosen]).view(np.uint8).reshape(offsets.shape)
            if not np.array_equal(self.bytes[owner][offsets], raw):
                self.changes += 1
                self.bytes[owner][offsets] = raw

    def window(
        self, view: TensorView, starts: Sequence[int], shape: Sequence[int], axes: Sequence[int], *, writing: bool
    ) -> Array:
        """Part of a tensor view, in place: axis k has ``shape[k]`` elements from ``starts[k]`` of axis ``axes[k]``.

        ``shape`` has no zeros.
        """
        size = view.type.dtype.bytes
        strides = tuple(view.strides[a] * size for a in axes)
        first = int(view.base.address) + sum(start * stride for start, stride in zip(starts, strides))
        reach = [(n - 1) * stride for n, stride in zip(shape, strides)]
        low = first + sum(min(r, 0) for r in reach)
        high = first + sum(max(r, 0) for r in reach) + size
        owner = self._owner(int(view.base.allocation), low, high)
        buffer = self.buffers[owner]
        if low < buffer.low or high > buffer.high:
            verb = "store" if writing else "load"
            raise _outside(verb, buffer, low if low < buffer.low else high - size, size)
        if writing:
            self._require_writable(owner)
        return np.ndarray(tuple(shape), view.type.dtype.storage, self.bytes[owner], first - buffer.low, strides)

    def write(self, window: Array, values: Array) -> None:
        """Store ``values`` into a ``window``."""
        before = window.tobytes()
        window[...] = values
        self.changes += before != window.tobytes()

    def _memory_bytes(self, pointers: Pointers, dtype: DType, verb: str) -> list[tuple[int, Array, Array]]:
        """For each allocation in ``pointers``: its number, which pointers they are, and the indices of their bytes."""
        known = pointers.allocation
        if (known == UNKNOWN_ALLOCATION).any():
            ends = pointers.address + dtype.bytes
            owners = (self._owner(int(a), int(p), int(e)) for a, p, e in zip(known, pointers.address, ends))
            known = np.array(list(owners), np.int64)
        found = []
        alike = known.size > 0 and bool((known == known[0]).all())  # as nearly always
        for owner in (known[:1] if alike else np.unique(known)).tolist():
            buffer = self.buffers[owner]
            chosen = np.flatnonzero(known == owner)
            address = pointers.address[chosen]
            wrong = (address < buffer.low) | (address + dtype.bytes > buffer.high)
            if wrong.any():
                raise _outside(verb, buffer, int(address[wrong][0]), dtype.bytes)
            found.append((owner, chosen, (address - buffer.low)[:, None] + np.arange(dtype.bytes)))
        return found

    def _owner(self, allocation: int, address: int, end: int) -> int:
        """The buffer of a pointer. One of unknown origin is in the buffer with all bytes up to ``end``: arrays of a
        list may interleave."""
        if allocation != UNKNOWN_ALLOCATION:
            return allocation
        for last in (end, address + 1):
            if (owner := owner_of(self.buffers, address, last)) != UNKNOWN_ALLOCATION:
                return owner
        raise TileError(f"access to address {address:#x}, which lies in no array argument and no local array")

    def _require_writable(self, owner: int) -> None:
        if not self.buffers[owner].writable:
            raise TileError(f"store to argument '{self.buffers[owner].name}', which is read-only")


def _bytes_between(low: int, high: int) -> Array:
    if high <= low:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))


def owner_of(buffers: Sequence[Buffer], address: int, end: int) -> int:
    """The buffer that has the bytes from ``address``, of unknown origin, to ``end``; UNKNOWN_ALLOCATION for none."""
    owners = (i for i, buffer in enumerate(buffers) if buffer.low <= address and end <= buffer.high)
    return next(owners, UNKNOWN_ALLOCATION)


def distance(buffer: Buffer, address: int, size: int) -> str:
    """How far ``size`` bytes at ``address`` lie outside of ``buffer``, in words; empty when they are inside."""
    if address < buffer.low:
        return f"{buffer.low - address} bytes before its start"
    if address + size > buffer.high:
        return f"{address + size - buffer.high} bytes past its end"
    return ""


def _outside(verb: str, buffer: Buffer, address: int, size: int) -> TileError:
    kind = buffer.name if buffer.name == LOCAL else f"argument '{buffer.name}'"
    array = f"{kind} ({buffer.high - buffer.low} bytes)"
    return TileError(f"{verb} of {size} bytes outside {array}: it reaches {distance(buffer, address, size)}")
