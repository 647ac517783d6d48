"""The order in which the blocks of a grid run."""

from __future__ import annotations

from tilewright.backends.cpu.context import Axes
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, AtomicView, Bid, LoadView, Store, StoreView
from tilewright.ir.reachable import operands_within, reachable

_AS_NUMBERED: Axes = (0, 1, 2)
_Places = list[set[int]]  # for each axis of an array the axes of the grid that decide where in it a tile lies
_OTHERS = (Mma, Store, AtomicRmw, AtomicCas, AtomicView)


def block_axes(function: Function) -> Axes:
    """The axes of the grid, first that along which one block follows another.

    As they are numbered, but for kernels that store tiles whose place depends on a later axis of the grid in a later
    axis of the array: then that which follows in memory is next, unless tiles that are loaded lie otherwise. Blocks
    that multiply share operands in the order that their program has chosen, and those that wait for others have that
    order, too.
    """
    stored: set[Axes] = set()
    loaded: list[_Places] = []
    for op in function.walk():
        if isinstance(op, _OTHERS) or is_ordered(op):
            return _AS_NUMBERED
        if isinstance(op, (LoadView, StoreView)) and op.view.partition.tile.size > 1:
            indices = dict(zip(op.view.partition.order, op.indices))
            places = [_axes_in(indices[axis]) for axis in sorted(indices)]
            if isinstance(op, StoreView):
                stored.add(_order(places))
            else:
                loaded.append(places)
    order = stored.pop() if len(stored) == 1 else _AS_NUMBERED
    return order if all(_lies_in(order, places) for places in loaded) else _AS_NUMBERED


def _order(places: _Places) -> Axes:
    """The axes of the grid, first that along which tiles follow each other in memory."""
    axes = [axis for found in reversed(places) for axis in sorted(found)]
    if sorted(axes) != [*_AS_NUMBERED][: len(axes)]:  # an axis has no place, or several
        return _AS_NUMBERED
    first, second, third = *axes, *_AS_NUMBERED[len(axes) :]
    return first, second, third


def _lies_in(order: Axes, places: _Places) -> bool:
    """Whether tiles at ``places`` follow each other in ``order``, too, as far as they depend on its axes."""
    ranks = [rank for found in reversed(places) for rank in sorted(map(order.index, found))]
    return ranks == sorted(ranks) and places[-1] <= {order[0]}


def _axes_in(index: Value) -> set[int]:
    """The axes of the grid that ``index`` depends on."""
    ops: list[Op | None] = [v.op for v in reachable([index], operands_within)]
    return {op.axis for op in ops if isinstance(op, Bid)}
