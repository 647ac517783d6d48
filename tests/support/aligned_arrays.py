"""Copies of arrays that the TMA unit cannot read where they are, as machine code makes them at launches, in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.gpu_runtime.realign import (
    LINE,
    READ_OFTEN,
    UNIT,
    WIDEST,
    WORTH_PER_BLOCK,
    WORTH_TRANSPOSING,
    Kind,
)
from tilewright.ir.gpu_parameters import Descriptor

# Of an array: the address, the extents and the strides.
Geometry = tuple[int, tuple[int, ...], tuple[int, ...]]


class AlignedCopy(NamedTuple):
    """One of an array of rank 2 at ``source``, with elements of ``item`` bytes, ``step`` of them from row to row.

    ``rows`` and ``columns`` are those of the array; a ``transposed`` copy has as many columns and rows.
    """

    source: int
    item: int
    rows: int
    columns: int
    step: int
    transposed: bool = False

    @property
    def pitch(self) -> int:
        """The bytes from row to row of the copy."""
        width = self.rows if self.transposed else self.columns
        return -(-width * self.item // LINE) * LINE

    @property
    def size(self) -> int:
        return max(self.pitch * (self.columns if self.transposed else self.rows), LINE)

    @property
    def kind(self) -> Kind:
        """Which ``kernel`` writes it."""
        sizes = (self.source, *(n * self.item for n in (self.rows, self.columns, self.step)))
        return Kind(self.item, self.transposed, self.transposed and all(n % UNIT == 0 for n in sizes))

    @property
    def grid(self) -> tuple[int, int, int]:
        """The grid of ``kernel``."""
        rows, columns = (-(-n // tile) for n, tile in zip((self.rows, self.columns), self.kind.tile))
        return rows, columns, 1

    def numbers(self, target: int) -> tuple[int, ...]:
        """What ``kernel`` takes to write the copy to ``target``."""
        return self.source, target, self.rows, self.columns, self.step, self.pitch // self.item

    def strides(self, d: Descriptor) -> tuple[int, ...]:
        """Strides of the copy, in the order of the axes of the array."""
        outer, _ = d.axes
        return tuple(self.pitch // self.item if axis == outer else 1 for axis in range(2))


class AlignedArrays:
    """Where the TMA unit finds the arrays that ``descriptors`` describe in a launch with ``numbers``: those that it
    cannot read where they are, in ``copies``, which lie one after the other in ``size`` bytes of memory."""

    def __init__(
        self, descriptors: Sequence[Descriptor], metas: Sequence[Mapping[str, Any]], numbers: Mapping[int, int]
    ) -> None:
        self.copies: dict[AlignedCopy, int] = {}  # where each one starts
        self.size = 0
        self._arrays: list[tuple[bool, Geometry]] = []
        self._reads: dict[AlignedCopy, int] = {}  # how often blocks read an array of which there is a transposed copy
        arrays = [(numbers[d.base], *d.extents(numbers)) for d in descriptors]
        for d, meta, array in zip(descriptors, metas, arrays):
            copy = _copy_of(d, meta["elem_size"], *array)
            if copy is not None:
                if copy not in self.copies:
                    self.copies[copy], self.size = self.size, self.size + copy.size
                    self._reads[copy] = _reads(copy, descriptors, arrays)
                array = self.copies[copy], array[1], copy.strides(d)
            self._arrays.append((copy is not None, array))

    def arrays(self, start: int) -> list[Geometry]:
        """All arrays, with the copies from ``start`` on."""
        return [(start + base if moved else base, shape, strides) for moved, (base, shape, strides) in self._arrays]

    def pays(self, blocks: int) -> bool:
        """Whether the arrays are simple enough to be copied, and read often enough by ``blocks`` blocks."""
        return all(
            copy.columns <= min(copy.step, WIDEST * copy.kind.tile[1])
            and (
                not copy.transposed
                or (self._reads[copy] >= READ_OFTEN and copy.rows * blocks >= WORTH_TRANSPOSING.get(copy.item, 0))
            )
            and copy.rows * copy.columns * copy.item <= blocks * WORTH_PER_BLOCK
            for copy in self.copies
        )


def _reads(copy: AlignedCopy, descriptors: Sequence[Descriptor], arrays: Sequence[Geometry]) -> int:
    """How often blocks read the rows of an array: once for each row of tiles of another one that is as long as it is
    high; often, where there is none."""
    others = [
        -(-shape[d.axes[0]] // d.block[0])
        for d, (base, shape, _) in zip(descriptors, arrays)
        if base != copy.source and len(d.axes) == 2 and shape[d.axes[-1]] == copy.rows
    ]
    return min(others, default=READ_OFTEN)


def _copy_of(d: Descriptor, item: int, base: int, shape: Sequence[int], strides: Sequence[int]) -> AlignedCopy | None:
    """The copy of the array that ``d`` describes; None where the TMA unit can read it where it is, or has nothing to."""
    if 0 in shape:
        return None
    if d.transposed:
        columns, rows = d.axes
        return AlignedCopy(base, item, shape[rows], shape[columns], strides[rows], True)
    if not d.needs_realign or not (base % UNIT or any(strides[axis] * item % UNIT for axis in d.axes[:-1])):
        return None
    outer, inner = d.axes
    return AlignedCopy(base, item, shape[outer], shape[inner], strides[outer])
