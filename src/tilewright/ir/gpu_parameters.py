"""Kernel parameters that only GPUs know: TMA descriptors, and tables of the arrays of a list.

What lowering decides of them and what a launch writes are these records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir.core import Function
from tilewright.records import dataclass

MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of tensor maps: CUtensorMap of the CUDA driver API

# A slice of an array whose start and extent only the kernel knows is described as one of SLICE_EXTENT elements that end
# where it ends. Two axes more go there: one of its stride, for where it ends, and one that takes SLICE_EXTENT strides
# back, as addresses of 64 bits wrap around: SLICE_EXTENT steps of WRAP are none. Both are longer than any coordinate.
SLICE_EXTENT, WRAP, LONGEST = 1 << 30, 1 << 34, (1 << 31) - (1 << 16)

SMALLEST_BYTES = 128  # of a tile that the TMA unit moves, which starts at a multiple of that in shared memory


@dataclass(frozen=True)
class Descriptor:
    """A kernel parameter that describes tiles of an array to the TMA unit.

    ``base``, ``shape`` and ``strides`` say where the launch finds the numbers: a multiple of a function parameter
    (``"p", index, factor``), also one added to ``WRAP`` (``"w"``), or a constant (``"c", n, 1``); ``base`` is the index
    of one. Axes are those of the array in the order ``axes``; ``block`` is the tile.
    Those of ``listed`` arrays, those of the table ``base``, are in a row of that (``"t", column, 1``).
    A ``needs_realign`` array of rank 2 may have an address or a stride that the TMA unit cannot take: the launch then
    describes a copy of it; of one to be ``transposed`` always a copy, in which the last of ``axes`` is contiguous. One
    that ``rounds`` turns float32 into tfloat32. Tiles of one in ``pairs`` may be loaded by
    two blocks together.
    """

    base: int
    shape: tuple[tuple[str, int, int], ...]
    strides: tuple[tuple[str, int, int], ...]
    axes: tuple[int, ...]
    block: tuple[int, ...]
    element: str
    needs_realign: bool = False
    rounds: bool = False
    pairs: bool = False
    listed: bool = False
    transposed: bool = False

    def __post_init__(self) -> None:
        """Tiles of a loop lie one after the other in shared memory, so that their size is their alignment."""
        assert math.prod(self.block) * element_bits(self.element) // 8 % SMALLEST_BYTES == 0, self.block

    def extents(self, numbers: Sequence[Any] | Mapping[int, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape and the strides of the array: of ``numbers``, those that a launch passes or those in its row."""
        shape, strides = (
            tuple((n if kind == "c" else numbers[n]) * factor + WRAP * (kind == "w") for kind, n, factor in sources)
            for sources in (self.shape, self.strides)
        )
        return shape, strides


@dataclass(frozen=True)
class TableParameter:
    """A kernel parameter that is the table of the arrays of a list: the function parameter ``index``.

    It has a row of ``width`` numbers of 64 bits for each array. In front of all rows are tensor maps for
    ``descriptors`` with these ``boxes``: that of array i for number k begins i * len(descriptors) + k + 1 maps before
    the first row. A table ``by_value`` is in the memory of the parameters; of others the address of the first row is
    passed.
    """

    index: int
    width: int
    descriptors: tuple[Descriptor, ...] = ()
    boxes: tuple[dict[str, Any], ...] = ()
    by_value: bool = False

    @property
    def map_bytes(self) -> int:
        """The size of the tensor maps of an array."""
        return MAP_BYTES * len(self.descriptors)

    @property
    def entry_bytes(self) -> int:
        """The size of all that there is of an array."""
        return self.map_bytes + 8 * self.width


def row_width(rank: int) -> int:
    """How many numbers a table has for an array of this rank."""
    return 1 + 2 * rank


def table_parameters(function: Function) -> list[TableParameter]:
    """The tables of ``function``, in memory."""
    tables = ((i, param) for i, param in enumerate(function.params) if param.role == "table")
    return [TableParameter(i, row_width(param.axis or 0)) for i, param in tables]


def element_bits(element: str) -> int:
    """The width of an element; 64 for pointers."""
    if element.startswith("!"):
        return 64
    return int(re.match(r"[a-z]+(\d+)", element)[1])  # type: ignore[index]


def grid_extent(numbers: Sequence[int], values: Sequence[int]) -> int:
    """How many blocks a grid has along its first axis, whose kernel has the hint ``GRID_EXTENT``: which of the
    ``values`` of parameters, a factor and what is added in 32 bits, what to round up, and a divisor."""
    parameter, factor, addend, up, divisor = numbers
    number = (values[parameter] * factor + addend + (1 << 31)) % (1 << 32) - (1 << 31)
    return max((number + up) // divisor, 0)
