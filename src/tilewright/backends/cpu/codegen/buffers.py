"""Scratch memory of a block: where tiles live that are needed as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.backends.cpu.vector import register_type
from tilewright.backends.cpu.vector.types import I8
from tilewright.ir.dtypes import DType
from tilewright.ir.types import ElementType

ALIGNMENT = 64
SPARE_BYTES = 64  # at the start of the scratch memory: a place that may be read and written for nothing


def element_type(dtype: ElementType) -> ir.Type:
    """The LLVM type of an element in a buffer: its register type, so that a narrow float is converted only once."""
    return I8 if isinstance(dtype, DType) and dtype.is_bool else register_type(dtype)


@dataclass
class Buffer:
    """A tile in scratch memory, in row-major order.

    ``users`` counts the values that are bound to it. A ``borrowed`` buffer is another one's memory: that of a loop,
    lent to the body.
    """

    pointer: ir.Value
    offset: int
    size: int
    dtype: ElementType
    users: int = 1
    borrowed: bool = False


class Arena:
    """Hands out ranges of the scratch memory at compile time: first fit, in units of the alignment."""

    def __init__(self) -> None:
        self.high_water = SPARE_BYTES
        self._taken: dict[int, int] = {0: SPARE_BYTES}  # offset -> bytes

    def allocate(self, size: int) -> int:
        size = -(-size // ALIGNMENT) * ALIGNMENT
        offset = 0
        for start in sorted(self._taken):
            if start - offset >= size:
                break
            offset = start + self._taken[start]
        self._taken[offset] = size
        self.high_water = max(self.high_water, offset + size)
        return offset

    def free(self, offset: int) -> None:
        del self._taken[offset]
