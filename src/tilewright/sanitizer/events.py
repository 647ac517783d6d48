"""What a sanitized launch did to memory, for tools that show it.

A sink passed to ``sanitize(sinks=...)`` gets each launch, then each access in the order of execution. Without sinks
nothing of this is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.ir.location import Loc
from tilewright.records import dataclass
from tilewright.sanitizer.report import Index, Violation
from tilewright.sanitizer.windows import Box, Touched, Window

Elements = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Launch:
    """A launch begins. ``arrays`` are its memory: name, dtype, shape and strides of each argument."""

    kernel: str
    grid: tuple[int, int, int]
    arrays: Sequence[Buffer]


@dataclass(frozen=True)
class Access:
    """One memory operation of one block.

    ``order`` counts the accesses of the launch. ``kind`` is ``"read"``, ``"write"`` or ``"atomic"``. ``array`` indexes
    ``Launch.arrays``; what was ``touched`` is counted in elements from its lowest address, of which ``origin`` lie
    before its element 0. ``padding`` elements of the tile lay outside the array or were masked off.
    """

    order: int
    kind: str
    block: Index
    loc: Loc
    array: int
    touched: Touched
    origin: int
    padding: int

    @property
    def elements(self) -> Elements:
        """Distances from element 0 of the array, so that the element with index i has the distance sum(i * strides)."""
        return self.touched.elements().reshape(-1).astype(np.int64) - self.origin

    @property
    def box(self) -> Box | None:
        """The distance of the first element, extents and strides, where the elements are a strided window."""
        found = self.touched.box()
        return found and (found[0] - self.origin, *found[1:])


@dataclass(frozen=True)
class AccessColumn:
    """One memory operation of several blocks, to a window of the same extents and strides in each.

    ``first`` holds the distance of its first element from element 0 of the array, block by block. The rest is as in
    ``Access``.
    """

    kind: str
    loc: Loc
    array: int
    origin: int
    padding: int
    first: Elements
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class AccessTable:
    """The accesses of ``blocks`` that made the same memory operations: all of the first block, then of the next one."""

    order: int
    blocks: Sequence[Index]
    columns: Sequence[AccessColumn]

    def accesses(self, start: int = 0) -> Iterator[Access]:
        """The accesses, one by one, of the blocks from position ``start`` on."""
        order = self.order + start * len(self.columns)
        for i, block in enumerate(self.blocks[start:], start):
            for c in self.columns:
                window = Window(int(c.first[i]) + c.origin, c.shape, c.strides)
                yield Access(order, c.kind, block, c.loc, c.array, window, c.origin, c.padding)
                order += 1


class EventSink(Protocol):
    """Receives the events of sanitized launches."""

    def launch(self, event: Launch) -> None:
        """A launch begins; what follows belongs to it."""

    def access(self, event: Access) -> None:
        """A block touched memory."""

    def finished(self) -> None:
        """All blocks of the launch have ended; its memory is still there."""

    def violation(self, violation: Violation) -> None:
        """A violation was found by the operation whose access comes next, if it has one."""


@runtime_checkable
class TableSink(EventSink, Protocol):
    """A sink that takes many accesses at a time; other sinks get them one by one.

    Violations of a table's accesses come before it.
    """

    def accesses(self, table: AccessTable) -> None:
        """Several blocks touched memory."""


def tell(sinks: Sequence[EventSink], table: AccessTable) -> None:
    """Give ``table`` to each of the ``sinks``."""
    for sink in sinks:
        if isinstance(sink, TableSink):
            sink.accesses(table)
        else:
            for access in table.accesses():
                sink.access(access)
