"""What the blocks of one sanitized launch share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.backends.reference.memory import Memory, owner_of
from tilewright.backends.reference.values import UNKNOWN_ALLOCATION, Array, Pointers
from tilewright.ir.core import Function
from tilewright.sanitizer.arrays import ArrayState, outside_axis
from tilewright.sanitizer.races import Races
from tilewright.sanitizer.report import ElementReference
from tilewright.sanitizer.session import Session
from tilewright.sanitizer.uninitialized import uninitialized_elements


class LaunchState:
    """The arrays, the clocks and the session of a launch."""

    def __init__(
        self, session: Session, function: Function, memory: Memory, grid: tuple[int, int, int], written: frozenset[str]
    ) -> None:
        self.session = session
        self.function = function
        self.memory = memory
        self.arrays = [ArrayState(i, b, tracked=_written(b, written)) for i, b in enumerate(memory.buffers)]
        self.arguments = len(self.arrays)  # the arrays after them are local to a block
        self.races = Races(grid[0] * grid[1] * grid[2], self.arrays)
        for array, contents in zip(self.arrays, memory.bytes):
            array.uninitialized = uninitialized_elements(array.buffer, contents)
        self.births = session.categories & {"nan-generated", "inf-generated"}
        self.used_undefined = False  # whether an operation had an undefined operand
        self._order = 0

    def take_orders(self, count: int) -> int:
        """The number of the next access; ``count`` of them are taken."""
        self._order += count
        return self._order - count

    def array(self, allocation: int, address: int) -> ArrayState | None:
        """The array that a pointer belongs to; ``address`` decides for pointers of unknown origin."""
        if allocation == UNKNOWN_ALLOCATION:
            allocation = owner_of(self.memory.buffers, address, address + 1)
        if allocation == UNKNOWN_ALLOCATION:
            return None
        if allocation >= len(self.arrays) or self.arrays[allocation].buffer is not self.memory.buffers[allocation]:
            return self._local(allocation)
        return self.arrays[allocation]

    def _local(self, allocation: int) -> ArrayState | None:
        """A local array that is used for the first time, with nothing in it; None when its block has ended."""
        buffer = self.memory.buffers[allocation]
        if buffer.low == buffer.high:
            return None
        while len(self.arrays) <= allocation:
            number = len(self.arrays)
            self.arrays.append(ArrayState(number, self.memory.buffers[number], tracked=False))
        array = self.arrays[allocation] = ArrayState(allocation, buffer, tracked=False)
        array.uninitialized = np.ones(array.count, bool)
        return array

    def resolved(self, pointers: Pointers) -> Pointers:
        """Pointers of which those made from integers, such as the arrays of a list, get the buffers they point into."""
        unknown = pointers.allocation == UNKNOWN_ALLOCATION
        owners = pointers.allocation.copy()
        owners[unknown] = [owner_of(self.memory.buffers, a, a + 1) for a in pointers.address[unknown].tolist()]
        return Pointers(owners, pointers.address)

    def name(self, allocation: int) -> str:
        """What the kernel calls an allocation."""
        return "unknown memory" if allocation == UNKNOWN_ALLOCATION else f"'{self.memory.buffers[allocation].name}'"

    def owner_name(self, base: Pointers) -> str:
        """The argument that the base pointer of a view belongs to."""
        array = self.array(int(base.allocation), int(base.address))
        return array.buffer.name if array is not None else "unknown memory"

    def place(self, allocation: int, address: int, size: int) -> ElementReference | None:
        """The element of an argument at ``address``."""
        array = self.array(allocation, address)
        return None if array is None else array.place(address, size)

    def indexed(self, argument: str, index: tuple[int, ...]) -> ElementReference | None:
        """The element of an argument at an index, which may lie outside."""
        shape = next((b.shape for b in self.memory.buffers if b.name == argument), None)
        if shape is None or len(shape) != len(index):
            return None
        outside = next(filter(None, (outside_axis(i, n, k) for k, (i, n) in enumerate(zip(index, shape)))), "")
        return ElementReference(argument, index, shape, outside)

    def limits(self, pointers: Pointers) -> tuple[Array, Array]:
        """The bounds of the arrays that pointers belong to; the widest ones for pointers of unknown origin."""
        buffers: Sequence[Buffer] = self.memory.buffers
        low = np.array([*(b.low for b in buffers), np.iinfo(np.int64).min], np.int64)
        high = np.array([*(b.high for b in buffers), np.iinfo(np.int64).max], np.int64)
        return low[pointers.allocation], high[pointers.allocation]  # UNKNOWN_ALLOCATION is -1, the last entry


def _written(buffer: Buffer, written: frozenset[str]) -> bool:
    """Whether the kernel may write a buffer: arrays of a list go by the name of the list."""
    return buffer.name in written or buffer.name.partition("[")[0] in written
