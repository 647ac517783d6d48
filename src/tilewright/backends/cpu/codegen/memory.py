"""Plain stores, to views and through pointers. Loops may go only over what a store keeps."""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from tilewright.backends.cpu.codegen import atomics, groups, index, pointers, polls, views
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.position import open_chunks, open_trimmed_chunks, side_by_side
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.codegen.views import LaneAddresses, ViewAccess, fits, loaded
from tilewright.backends.cpu.loops.trimming import Axes, read_axes
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import Store, StoreView


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


def emit_store_view(state: State, nest: LoopNest, op: StoreView) -> None:
    value = op.value
    tile = state.accesses[op] = views.access(state, op)
    if is_ordered(op):
        atomics.emit_access(state, nest, op)
        return
    groups.bind_results(state, nest, 0)
    polls.note_store(state, state.builder)
    size = value.tile.size
    streaming = views.streaming(state, nest, tile) if "streaming" in nest.versions else None
    kept = trim(state, nest, op) if {"streaming", "trimmed"} & {*nest.versions} else None

    def body(elements: Elements, width: int, visit: groups.Visit) -> list[ir.Value]:
        count = min(width, size)
        vectors = 1 if elements.masked else nest.vectors
        positions = side_by_side(open_chunks(elements.nest, value.tile.shape, count * vectors), vectors)
        found = [elements.at(value, position) for position in positions]
        for position, element in zip(positions, found):
            visit(elements, position)
            elements.store(tile, position, element)
        elements.nest.close()
        return []

    def trimmed(elements: Elements, width: int, visit: groups.Visit) -> list[ir.Value]:
        assert kept is not None
        first = (streaming.first if streaming is not None and elements.streaming else None) or 0
        position, moved = open_trimmed_chunks(elements.nest, kept.counts, width, first)
        element = elements.at(value, position)
        visit(elements, position)
        elements.store_in_row(tile, position, element, moved)
        elements.nest.close()
        return []

    versions = []
    if streaming is not None and kept is not None:
        state.stores_past_caches = True
        if streaming.first is None:
            loops, conditions = body, inside(state, nest, tile)
        else:
            loops, conditions = trimmed, kept.conditions
        versions.append(groups.Trimmed(loops, [streaming.worthwhile, *conditions], streaming=True))
    if "trimmed" in nest.versions and kept is not None:
        versions.append(groups.Trimmed(trimmed, kept.conditions))
    groups.emit_loops(state, groups.group_of(state, nest, 0, tile), body, versions)


def emit_store(state: State, nest: LoopNest, op: Store) -> None:
    if is_ordered(op):
        atomics.emit_access(state, nest, op)
        return
    groups.bind_results(state, nest, 0)
    polls.note_store(state, state.builder)
    values = op.operands
    shape, size = values[0].tile.shape, values[0].tile.size

    def body(elements: Elements, width: int, visit: groups.Visit) -> list[ir.Value]:
        lanes = min(width, size)
        position = open_chunks(elements.nest, shape, lanes)
        at = pointers.locate(elements, values[0], position)
        count = lanes if lanes > 1 else None
        found = [elements.vector(elements.at(v, position), count) for v in values[1:]]
        visit(elements, position)
        mask = found[1] if len(found) == 2 else None
        if count is not None and at.lanes is None:
            at = LaneAddresses(elements.vector(Element(at.address, None, at.level), count), count, False, at.level)
        dtype = values[1].tile.element
        views.store_elements(state, elements.nest.builder, dtype, at, mask, found[0])
        elements.nest.close()
        return []

    groups.emit_loops(state, groups.group_of(state, nest, 0), body)
