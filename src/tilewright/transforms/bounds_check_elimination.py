"""Proves that tile loads and stores stay inside their arrays."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.liveness import Liveness
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function, Value
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Cast, Div
from tilewright.ir.ops.memory import LoadView, StoreView, array_view
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.types import PartitionViewType
from tilewright.transforms.base import InPlacePass


class BoundsCheckElimination(InPlacePass):
    """Sets the ``in_bounds`` flag of each axis along which a view access provably stays inside.

    Two arguments are known: the range of the index against a static extent, and an index that counts up to the
    number of tiles along an extent which the tile divides.
    """

    name: ClassVar[str] = "eliminate-bounds-checks"
    preserves = frozenset({IntegerRanges, AliasAnalysis, Liveness, argument_effects})

    def change(self, function: Function) -> bool:
        ranges = AnalysisManager(function).get(IntegerRanges)
        accesses = [op for op in function.walk() if isinstance(op, (LoadView, StoreView))]
        proven = [_proven(ranges, op) for op in accesses]
        changed = proven != [op.in_bounds for op in accesses]
        for op, in_bounds in zip(accesses, proven):
            op.in_bounds = in_bounds
        return changed


def _proven(ranges: IntegerRanges, op: LoadView | StoreView) -> tuple[bool, ...]:
    return tuple(known or _inside(ranges, op, op.view.partition, k) for k, known in enumerate(op.in_bounds))


def _inside(facts: IntegerRanges, op: LoadView | StoreView, view: PartitionViewType, k: int) -> bool:
    index = _unwiden(op.indices[k])
    low, high = facts.range(index)
    if low < 0:
        return False
    tile, step, axis = view.tile_shape[k], view.steps[k], view.order[k]
    array, static, loop = array_view(op.view), view.view.shape[axis], facts.induction(index)
    extent = array.extent(axis) if static is None and array is not None else static
    if isinstance(extent, int):
        return high * step + tile <= extent
    if extent is None or loop is None or step != tile or facts.divisor(_unwiden(extent)) % tile:
        return False
    return _counts_tiles(loop.upper, _unwiden(extent), tile)


def _unwiden(value: Value) -> Value:
    """The value before conversions to a wider integer of the same signedness."""
    while isinstance(op := value.op, Cast):
        source, dtype = op.x.tile.element, op.result.tile.element
        if source.kind is not dtype.kind or source.bitwidth > dtype.bitwidth:
            break
        value = op.x
    return value


def _counts_tiles(value: Value, extent: Value, tile: int) -> bool:
    """Whether ``value`` is ``extent`` divided by ``tile``, which divides it: the rounding does not matter."""
    op = _unwiden(value).op
    if not isinstance(op, Div) or op.rounding is RoundingMode.RN:
        return False
    return _unwiden(op.lhs) is extent and constant_of(op.rhs) == tile
