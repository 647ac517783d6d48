"""Parts of tiles written to their buffers."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import index
from tilewright.backends.cpu.codegen.elements import Elements
from tilewright.backends.cpu.codegen.groups import Visit, bind_results, emit_loops, group_of
from tilewright.backends.cpu.codegen.index import Index
from tilewright.backends.cpu.codegen.position import open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.ir.ops.loops import LoopNest, WritePart


def emit_write_part(state: State, nest: LoopNest, op: WritePart) -> None:
    """Compute the part to its offset in the buffer of the whole tile."""
    bind_results(state, nest, 0)
    value, shape, buffer = op.value, op.type.shape, state.tile_buffer(nest.results[0])
    origin: tuple[Index, ...] = op.origin
    if op.indices:
        extents = zip(shape, value.tile.shape, op.indices)
        cells = [(index.low_bits(state.builder, state.index(at), n // part), part) for n, part, at in extents]
        origin = tuple(index.mul(state.builder, cell, part) for cell, part in cells)

    def body(elements: Elements, width: int, visit: Visit) -> list[ir.Value]:
        position = open_chunks(elements.nest, value.tile.shape, min(width, value.tile.size))
        element = elements.at(value, position)
        visit(elements, position)
        moved = tuple(elements.map.shift(c, o) for c, o in zip(position, origin))
        elements.write(buffer, shape, moved, element)
        elements.nest.close()
        return []

    emit_loops(state, group_of(state, nest, 1), body)
