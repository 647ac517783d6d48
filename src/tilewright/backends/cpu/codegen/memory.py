"""Plain stores, to views and through pointers."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import atomics, pointers, polls, views
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.groups import Visit, close, fuse
from tilewright.backends.cpu.codegen.position import open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.codegen.views import LaneAddresses
from tilewright.ir.core import Value
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.ops.memory import Store, StoreView


def emit_store_view(state: State, op: StoreView) -> None:
    value: Value = op.value
    tile = state.accesses[op] = views.access(state, op)
    if op.memory_order is not MemoryOrder.WEAK:
        atomics.emit_strong_store_view(state, op, tile)
        return
    polls.note_store(state, state.builder)
    size = value.tile.size

    def body(elements: Elements, width: int, visit: Visit) -> list[ir.Value]:
        position = open_chunks(elements.nest, value.tile.shape, min(width, size))
        element = elements.at(value, position)
        visit(elements, position)
        elements.store(tile, position, element)
        close(elements.nest)
        return []

    fuse(state, [value], op, body, store=tile)


def emit_store(state: State, op: Store) -> None:
    if op.memory_order is not MemoryOrder.WEAK:
        atomics.emit_strong_store(state, op)
        return
    polls.note_store(state, state.builder)
    values = list(op.operands)
    shape, size = values[0].tile.shape, values[0].tile.size

    def body(elements: Elements, width: int, visit: Visit) -> list[ir.Value]:
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
        close(elements.nest)
        return []

    fuse(state, values, op, body)
