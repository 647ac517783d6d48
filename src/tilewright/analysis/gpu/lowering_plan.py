"""Decisions about a function that is lowered for a GPU: TMA descriptors, barriers, pipelines, operands of MMA ops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tilewright.analysis.gpu.element_types import element_bits
from tilewright.analysis.list_tables import Tables
from tilewright.ir.core import Op, Value

MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of tensor maps
Shape = tuple[int, ...]

# Of an array: the address, the extents and the strides.
Geometry = tuple[int, tuple[int, ...], tuple[int, ...]]


SMALLEST_BYTES = 128  # of a tile that the TMA unit moves, which starts at a multiple of that in shared memory


@dataclass(frozen=True)
class Descriptor:
    """A kernel parameter that describes tiles of an array to the TMA unit.

    ``base``, ``shape`` and ``strides`` say where the launch finds the numbers: a multiple of a function parameter
    (``"p", index, factor``) or a constant (``"c", n, 1``); ``base`` is the index of one. Axes are those of the array in
    the order ``axes``; ``block`` is the tile.
    Those of ``listed`` arrays, those of the table ``base``, are in a row of that (``"t", column, 1``).
    A ``staged`` array of rank 2 may have an address or a stride that the TMA unit cannot take: the launch then
    describes a copy of it. One that ``rounds`` turns float32 into tfloat32. Tiles of one in ``pairs`` may be loaded by
    two blocks together.
    """

    base: int
    shape: tuple[tuple[str, int, int], ...]
    strides: tuple[tuple[str, int, int], ...]
    axes: tuple[int, ...]
    block: Shape
    element: str
    staged: bool = False
    rounds: bool = False
    pairs: bool = False
    listed: bool = False

    def __post_init__(self) -> None:
        """Tiles of a loop lie one after the other in shared memory, so that their size is their alignment."""
        assert math.prod(self.block) * element_bits(self.element) // 8 % SMALLEST_BYTES == 0, self.block

    @property
    def tile(self) -> str:
        """As TTIR writes it."""
        return f"{'x'.join(map(str, self.block))}x{self.element}"

    def geometry(self, numbers: Sequence[Any] | Mapping[int, Any]) -> Geometry:
        """That of the array in a launch that passes ``numbers``."""
        return numbers[self.base], *self.extents(numbers)

    def extents(self, numbers: Sequence[Any] | Mapping[int, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape and the strides of the array: of ``numbers``, those that a launch passes or those in its row."""
        shape, strides = (
            tuple((n if kind == "c" else numbers[n]) * factor for kind, n, factor in sources)
            for sources in (self.shape, self.strides)
        )
        return shape, strides


@dataclass(frozen=True)
class TableForm:
    """How the kernel is told of the arrays of a list, whose table is function parameter ``parameter``.

    The entry of an array starts with tensor maps for ``descriptors``; then comes a row of ``width`` numbers of 64 bits.
    A table ``by_value`` is in the memory of the parameters; of others the address is passed.
    """

    parameter: int
    width: int
    descriptors: tuple[Descriptor, ...] = ()
    by_value: bool = False

    @property
    def row_offset(self) -> int:
        """Of the row, in bytes."""
        return MAP_BYTES * len(self.descriptors)

    @property
    def entry_bytes(self) -> int:
        unit = MAP_ALIGNMENT if self.descriptors else 8
        return -(-(self.row_offset + 8 * self.width) // unit) * unit


class PipelineDepth(NamedTuple):
    """How the loads of a loop are pipelined: with so many ``stages``, where it has more than so many ``turns``."""

    stages: int
    turns: int


@dataclass
class LoweringPlan:
    """Decisions made before lowering: see ``plan``, ``ordering`` and ``tf32``."""

    tables: Tables
    barriers_before: set[Op] = field(default_factory=set)
    waits_before: set[Op] = field(default_factory=set)  # for the stores of the TMA unit
    unpipelined: set[Op] = field(default_factory=set)
    ahead: Mapping[Op, PipelineDepth] = field(default_factory=dict)  # loops without MMA ops whose loads are pipelined
    descriptors: dict[Op, Descriptor] = field(default_factory=dict)
    found_before: dict[Op, list[Op]] = field(default_factory=dict)  # ops, and those whose maps are found before them
    rounded: set[Op] = field(default_factory=set)  # conversions that a descriptor has done
    register_operand: dict[Op, int] = field(default_factory=dict)  # MMA ops, and which operand is not in shared memory
    shared: Mapping[Op, Value] = field(default_factory=dict)  # loads, and whether both blocks of a pair need the tile

    def scheduled(self, loads: Mapping[Op, Value], ahead: Mapping[Op, PipelineDepth]) -> LoweringPlan:
        """This plan for pairs of CTAs that share ``loads`` where the values say so, and loops that run ``ahead``."""
        shared = {op: both for op, both in loads.items() if op in self.descriptors}
        multicast = {op: replace(self.descriptors[op], pairs=True) for op in shared}
        return replace(self, shared=shared, descriptors={**self.descriptors, **multicast}, ahead=ahead)


def axes_kept(shape: Shape) -> tuple[int, ...]:
    """The axes of ``shape`` that its TTIR tensor has."""
    return tuple(k for k, n in enumerate(shape) if n != 1)
