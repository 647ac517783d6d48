"""Scratch memory, handed out at compile time."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.analysis.first_fit import first_fit
from tilewright.backends.cpu.scratch import ALIGNMENT, aligned
from tilewright.ir.types import ElementType
from tilewright.records import dataclass

SPARE_BYTES = 64  # at the start of the scratch memory: what may be read and written for nothing


@dataclass(eq=False, repr=False)
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
    """Hands out ranges of the scratch memory beside those ``taken``: first fit, in units of the alignment."""

    def __init__(self, taken: Mapping[int, int] | None = None) -> None:
        """``taken`` has the bytes of each range, by offset."""
        self._taken = {0: SPARE_BYTES, **{offset: aligned(size) for offset, size in (taken or {}).items()}}
        self.high_water = SPARE_BYTES

    def allocate(self, size: int) -> int:
        """The offset of ``size`` bytes."""
        size = aligned(size)
        offset = first_fit(size, ((start, start + n) for start, n in self._taken.items()), ALIGNMENT)
        self._taken[offset] = size
        self.high_water = max(self.high_water, offset + size)
        return offset

    def free(self, offset: int) -> None:
        del self._taken[offset]
