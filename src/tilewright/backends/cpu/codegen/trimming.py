"""Loops that go only over what a store keeps."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import index
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.codegen.views import ViewAccess, fits, loaded
from tilewright.backends.cpu.loops.trimming import Axes, read_axes
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import StoreView
from tilewright.records import NamedTuple


class Trim(NamedTuple):
    """The first ``counts`` elements of a tile along each axis are all that is stored. Where the ``conditions`` (i1)
    hold, they fill a vector at least, and nothing that is loaded for them lies outside of its array."""

    counts: tuple[Index, ...]
    conditions: list[ir.Value]


def trim(state: State, nest: LoopNest, op: StoreView) -> Trim:
    """How the loops of ``nest``, which keep nothing, can end with the array."""
    store, builder = state.accesses[op], state.builder
    counts: list[Index] = list(store.shape)
    conditions = []
    for k, n in enumerate(store.shape):
        if store.checked[k]:
            counts[k] = index.minimum(builder, n, index.sub(builder, store.extents[k], store.origins[k]))
            least = nest.lanes if k == len(counts) - 1 else 1
            conditions.append(builder.icmp_signed(">=", as_value(store.origins[k]), as_value(0)))
            conditions.append(builder.icmp_signed(">=", as_value(counts[k]), as_value(least)))
    axes = read_axes(nest, op)
    for load in loaded(state, nest):
        conditions += _inside(builder, load, axes.get(load.op), counts)
    return Trim(tuple(counts), conditions)


def inside(state: State, nest: LoopNest, store: ViewAccess) -> list[ir.Value]:
    """Whether what the loops of ``nest`` read and store lies inside of its arrays."""
    return [t.inside for t in (store, *loaded(state, nest)) if t.inside is not None]


def _inside(builder: ir.IRBuilder, load: ViewAccess, axes: Axes | None, counts: list[Index]) -> list[ir.Value]:
    """Whether what loops over ``counts`` read of the tile lies inside its array."""
    if axes is None:
        return [] if load.inside is None else [load.inside]
    read = (1 if axis is None else counts[axis] for axis in axes)
    each = zip(load.checked, load.origins, load.extents, read)
    return [fits(builder, origin, extent, n) for checked, origin, extent, n in each if checked]
