"""The order in which the blocks of a grid run."""

from __future__ import annotations

from tilewright.backends.cpu.context import Axes
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, AtomicView, Bid, LoadView, Store, StoreView
from tilewright.ir.reachable import operands_within, reachable

_AS_NUMBERED: Axes = (0, 1, 2)
_OTHERS = (Mma, Store, AtomicRmw, AtomicCas, AtomicView)


def block_axes(function: Function) -> Axes:
    """The axes of the grid, first that along which one block follows another.

    As they are numbered, but for kernels whose tiles lie along a row for one axis of the grid, the second, and below
    each other for the first: then that which follows in memory is next. Blocks that multiply share operands in the
    order that their program has chosen, and those that wait for others have that order, too.
    """
    views: list[tuple[bool, set[int], set[int]]] = []
    for op in function.walk():
        if isinstance(op, _OTHERS) or is_ordered(op):
            return _AS_NUMBERED
        if isinstance(op, (LoadView, StoreView)) and op.view.partition.tile.size > 1:
            views.append((isinstance(op, StoreView), *_axes_in(op)))
    stored = [1 in row and 0 not in row and 0 in others and 1 not in others for store, row, others in views if store]
    along = all(0 not in row for _, row, _ in views)
    return (1, 0, 2) if stored and all(stored) and along else _AS_NUMBERED


def _axes_in(op: LoadView | StoreView) -> tuple[set[int], set[int]]:
    """The axes of the grid that decide where a tile lies along a row, and along others."""
    *others, row = op.indices
    return _axes([row]), _axes(others)


def _axes(values: list[Value]) -> set[int]:
    ops: list[Op | None] = [v.op for v in reachable(values, operands_within)]
    return {op.axis for op in ops if isinstance(op, Bid)}
