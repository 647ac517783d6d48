"""Plain stores, to views and through pointers."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import atomics, groups, pointers, polls, trimming, views
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.position import open_chunks, open_trimmed_chunks, side_by_side
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.codegen.views import LaneAddresses
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import Store, StoreView


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
    trim = trimming.trim(state, nest, op) if {"streaming", "trimmed"} & {*nest.versions} else None

    def body(elements: Elements, width: int, visit: groups.Visit) -> list[ir.Value]:
        count = min(width, size)
        vectors = 1 if elements.masked else nest.vectors
        positions = side_by_side(open_chunks(elements.nest, value.tile.shape, count * vectors), vectors)
        found = [elements.at(value, position) for position in positions]
        for position, element in zip(positions, found):
            visit(elements, position)
            elements.store(state.accesses[op], position, element)
        elements.nest.close()
        return []

    def trimmed(elements: Elements, width: int, visit: groups.Visit) -> list[ir.Value]:
        assert trim is not None
        first = (streaming.first if streaming is not None and elements.streaming else None) or 0
        position, moved = open_trimmed_chunks(elements.nest, trim.counts, width, first)
        element = elements.at(value, position)
        visit(elements, position)
        elements.store_in_row(tile, position, element, moved)
        elements.nest.close()
        return []

    versions = []
    if streaming is not None and trim is not None:
        state.stores_past_caches = True
        if streaming.first is None:
            loops, conditions = body, trimming.inside(state, nest, tile)
        else:
            loops, conditions = trimmed, trim.conditions
        versions.append(groups.Trimmed(loops, [streaming.worthwhile, *conditions], streaming=True))
    if "trimmed" in nest.versions and trim is not None:
        versions.append(groups.Trimmed(trimmed, trim.conditions))
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
        stored = values[1:2] if op in elements.unmasked else values[1:]
        found = [elements.vector(elements.at(v, position), count) for v in stored]
        visit(elements, position)
        mask = found[1] if len(found) == 2 else None
        if count is not None and at.lanes is None:
            at = LaneAddresses(elements.vector(Element(at.address, None, at.level), count), count, 0, at.level)
        dtype = values[1].tile.element
        views.store_elements(state, elements.nest.builder, dtype, at, mask, found[0])
        elements.nest.close()
        return []

    groups.emit_loops(state, groups.group_of(state, nest, 0), body)
