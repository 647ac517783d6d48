"""What lowering knows while it walks a function: the TTIR of every value, and the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tilewright.backends.triton.target import GpuTarget
from tilewright.backends.triton.ttir.tables import Tables
from tilewright.backends.triton.ttir.text import Shape, Val, Writer, element_bits
from tilewright.backends.triton.ttir.types import element, tile_form
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.types import PartitionViewType, PointerType, TensorViewType, TileType, Type
from tilewright.passes.integers import IntegerFacts

Extent = int | Val
MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of tensor maps
LARGEST_TENSOR = 1 << 20  # elements; Triton's limit


@dataclass(frozen=True)
class View:
    """A tensor view: static extents and strides are numbers."""

    base: Val
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]


# Of an array: the address, the extents and the strides.
Geometry = tuple[int, tuple[int, ...], tuple[int, ...]]


SMALLEST_BYTES = 128  # of a tile that the copy backend moves, which starts at a multiple of that in shared memory


@dataclass(frozen=True)
class Descriptor:
    """A kernel parameter that describes tiles of an array to the copy backend.

    ``base``, ``shape`` and ``strides`` say where the launch finds the numbers: a multiple of a function parameter
    (``"p", index, factor``) or a constant (``"c", n, 1``); ``base`` is the index of one. Axes are those of the array in
    the order ``axes``; ``block`` is the tile.
    Those of ``listed`` arrays, those of the table ``base``, are in a row of that (``"t", column, 1``).
    A ``staged`` array of rank 2 may have an address or a stride that the copy backend cannot take: the launch then
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


class Ahead(NamedTuple):
    """How the loads of a loop run ahead: with so many ``stages``, where it has more than so many ``turns``."""

    stages: int
    turns: int


@dataclass
class Plan:
    """Decisions made before lowering: see ``plan``, ``ordering`` and ``tf32``."""

    tables: Tables
    barriers_before: set[Op] = field(default_factory=set)
    waits_before: set[Op] = field(default_factory=set)  # for the stores of the copy backend
    unpipelined: set[Op] = field(default_factory=set)
    ahead: Mapping[Op, Ahead] = field(default_factory=dict)  # loops without products whose loads run ahead
    descriptors: dict[Op, Descriptor] = field(default_factory=dict)
    found_before: dict[Op, list[Op]] = field(default_factory=dict)  # ops, and those whose maps are found before them
    rounded: set[Op] = field(default_factory=set)  # conversions that a descriptor has done
    by_registers: dict[Op, int] = field(default_factory=dict)  # products, and which operand is not in shared memory
    shared: Mapping[Op, Value] = field(default_factory=dict)  # loads, and whether both blocks of a pair need the tile

    def share(self, loads: Mapping[Op, Value]) -> None:
        """Let pairs of blocks share ``loads`` where the values say so."""
        self.shared = {op: both for op, both in loads.items() if op in self.descriptors}
        for op in self.shared:
            self.descriptors[op] = replace(self.descriptors[op], pairs=True)


class State:
    """The TTIR value of each IR value, and the writer. ``dialect`` is the version of Triton that will read the text."""

    def __init__(
        self,
        function: Function,
        target: GpuTarget,
        dialect: tuple[int, int],
        facts: IntegerFacts,
        plan: Plan,
        *,
        hides: bool = False,
    ) -> None:
        self.function = function
        self.w = Writer(target, hides=hides)
        self.target = target
        self.dialect = dialect
        self.facts = facts
        self.plan = plan
        self._values: dict[Value, Val] = {}
        self._views: dict[Value, View] = {}
        self.descriptors: dict[Descriptor, Val] = {}
        self.listed: dict[Op, Val] = {}  # the descriptors of the arrays of lists
        self.tables: dict[int, TableForm] = {}  # by parameter
        self.report: Val | None = None  # the buffer of prints and asserts
        self.sites: dict[Op, int] = {}
        self.local: Val | None = None  # the buffer of local arrays
        self.local_starts: dict[Op, int] = {}
        self.local_bytes = 0

    def __getitem__(self, value: Value) -> Val:
        return self._values[value]

    def __contains__(self, value: Value) -> bool:
        return value in self._values

    def all(self, values: Sequence[Value]) -> list[Val]:
        return [self._values[v] for v in values]

    def bind(self, value: Value, to: Val) -> None:
        element_, shape = self.form(value)
        assert (to.element, to.shape) == (element_, shape), (value, to)
        self._values[value] = to

    def view(self, value: Value) -> View:
        return self._views[value]

    def bind_view(self, value: Value, to: View) -> None:
        self._views[value] = to

    def form(self, value: Value) -> tuple[str, Shape]:
        """Element type and shape in TTIR."""
        form = tile_form(value.tile, self.target)
        size = value.tile.size
        if size > LARGEST_TENSOR:
            raise TileUnsupportedFeatureError(
                f"a tile of {size} elements is too large for the GPU backend, which takes up to {LARGEST_TENSOR}; use "
                "smaller tiles and more blocks, or a loop",
                self.w.loc,
            )
        return form

    def element(self, value: Value) -> str:
        return element(value.tile.dtype, self.target)

    # -- values that cross regions: a view travels as its base and the extents that are not static

    def flat_types(self, types: Sequence[Type]) -> list[tuple[str, Shape]]:
        flat: list[tuple[str, Shape]] = []
        for t in types:
            if isinstance(t, TileType):
                flat.append(tile_form(t, self.target))
                continue
            view = t.view if isinstance(t, PartitionViewType) else t
            flat += self._view_form(view)
        return flat

    def _view_form(self, view: TensorViewType) -> list[tuple[str, Shape]]:
        from_static = [*view.shape, *view.strides]
        index = f"i{view.index_dtype.bitwidth}"
        base = tile_form(TileType(PointerType(view.dtype)), self.target)
        return [base, *((index, ()) for e in from_static if e is None)]

    def flat(self, values: Sequence[Value]) -> list[Val]:
        flat: list[Val] = []
        for v in values:
            if isinstance(v.type, TileType):
                flat.append(self._values[v])
            else:
                view = self._views[v]
                flat += [view.base, *(e for e in (*view.shape, *view.strides) if isinstance(e, Val))]
        return flat

    def bind_flat(self, values: Sequence[Value], flat: Sequence[Val]) -> None:
        items = iter(flat)
        for v in values:
            if isinstance(v.type, TileType):
                self._values[v] = next(items)
                continue
            t = v.type.view if isinstance(v.type, PartitionViewType) else v.type
            base = next(items)
            shape = tuple(next(items) if e is None else e for e in t.shape)
            strides = tuple(next(items) if e is None else e for e in t.strides)
            self._views[v] = View(base, shape, strides)


def axes_kept(shape: Shape) -> tuple[int, ...]:
    """The axes of ``shape`` that its TTIR tensor has."""
    return tuple(k for k, n in enumerate(shape) if n != 1)
