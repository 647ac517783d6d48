"""The device memory of a C++ program: host memory of which the bounds are known."""

from __future__ import annotations

import bisect
import enum
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

ALIGNMENT = 256


class MemoryKind(enum.IntEnum):
    """Who has memory, as ``cudaMemoryType`` numbers it; all of it is host memory here."""

    UNREGISTERED = 0
    HOST = 1
    DEVICE = 2
    MANAGED = 3


class Memory:
    """What a program has allocated."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._blocks: dict[int, tuple[int, Any, MemoryKind]] = {}  # start -> end, owner, kind

    def allocate(self, size: int, kind: MemoryKind = MemoryKind.DEVICE) -> int | None:
        """The address of ``size`` bytes; None when there is not so much memory."""
        if size > total_memory():
            return None
        try:
            owner = np.empty(max(size, 1) + ALIGNMENT, np.uint8)
        except MemoryError:
            return None
        start = -(-owner.ctypes.data // ALIGNMENT) * ALIGNMENT
        bisect.insort(self._starts, start)
        self._blocks[start] = start + size, owner, kind
        return start

    def free(self, address: int) -> bool:
        """Give back what ``allocate`` returned; False when ``address`` is nothing such."""
        if self._blocks.pop(address, None) is None:
            return False
        self._starts.remove(address)
        return True

    def clear(self) -> None:
        """Give back everything."""
        self._starts.clear()
        self._blocks.clear()

    def bounds(self, address: int) -> tuple[int, int] | None:
        """The allocation that ``address`` is in, or at the end of; None when it is in none."""
        i = bisect.bisect_right(self._starts, address) - 1
        if i < 0:
            return None
        start = self._starts[i]
        end = self._blocks[start][0]
        return (start, end) if address <= end else None

    def kind(self, address: int) -> MemoryKind:
        """Which memory the byte at ``address`` is."""
        found = self.bounds(address)
        return self._blocks[found[0]][2] if found is not None and address < found[1] else MemoryKind.UNREGISTERED

    def holds(self, address: int, size: int) -> bool:
        """Whether ``size`` bytes from ``address`` lie in one allocation."""
        found = self.bounds(address)
        return found is not None and address + size <= found[1]


class DevicePointer:
    """A pointer into an allocation, as an array that kernels take: everything in its bounds, before it and after."""

    def __init__(self, address: int, bounds: tuple[int, int], dtype: np.dtype[Any]) -> None:
        size = dtype.itemsize
        before, after = (address - bounds[0]) // size, (bounds[1] - address) // size
        # Two dimensions, of which one counts downwards: an array cannot say otherwise that memory lies before it.
        self.__array_interface__: Mapping[str, Any] = {
            "version": 3,
            "typestr": dtype.str,
            "data": (address, False),
            "shape": (before + 1, after),
            "strides": (-size, size),
        }


def total_memory() -> int:
    """The bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory() -> int:
    """The bytes of memory that nothing uses now."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
