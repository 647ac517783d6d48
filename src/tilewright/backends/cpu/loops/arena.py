"""Scratch memory, handed out at compile time."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.types import ElementType

ALIGNMENT = 64  # a cache line, and the widest vector register
SPARE_BYTES = 64  # at the start of the scratch memory: what may be read and written for nothing


@dataclass(eq=False)
class Buffer:
    """A tile in scratch memory, in row-major order.

    ``users`` counts the values that are bound to it. A ``borrowed`` buffer is another one's memory: that of a loop,
    lent to the body.
    """

    offset: int
    size: int
    dtype: ElementType
    users: int = 1
    borrowed: bool = False


class Arena:
    """Hands out ranges of the scratch memory: first fit, in units of the alignment."""

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
