"""Parts of tiles written to their buffers; pack and unpack."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import index
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.groups import Visit, bind_results, emit_loops, group_of
from tilewright.backends.cpu.codegen.index import Index
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Coord, open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.vector.types import I8
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.loops import LoopNest, WritePart
from tilewright.ir.ops.shape import Pack, Unpack


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


def emit_pack(state: State, nest: LoopNest, op: Pack) -> None:
    """The memory form of each element, cut into bytes."""
    x = op.x
    dtype, size = x.tile.element, x.tile.size
    bits = dtype.bitwidth
    result = _result(state, nest)

    def stored(elements: Elements, k: Index, level: int) -> ir.Value:
        position = elements.map.unflatten(Coord(k, level), x.tile.shape)
        builder = elements.nest.builder
        value = state.emitter(builder).to_storage(dtype, elements.at(x, position).value)
        return builder.bitcast(value, ir.IntType(8 * dtype.bytes))

    loops = Nest(state.builder)
    elements = Elements(state, loops)
    step = 2 if bits == 4 else 1
    k: Index = loops.begin(size, step) if size > step else 0
    value = stored(elements, k, loops.level)
    if bits == 4:
        high = stored(elements, index.add(loops.builder, k, 1), loops.level)
        value = loops.builder.or_(value, loops.builder.shl(high, ir.Constant(I8, 4)))
    if result is None:
        state.bind(nest.results[0], value)
        return
    slot = loops.builder.gep(
        result.pointer, [index.as_value(index.shift_right(loops.builder, k, step - 1))], source_etype=value.type
    )
    loops.builder.store(value, slot, align=1)
    loops.close()


def emit_unpack(state: State, nest: LoopNest, op: Unpack) -> None:
    """Bytes read as elements in memory form."""
    x, t = op.x, op.result.tile
    dtype = t.element
    single = state.scalar(x) if x.tile.size == 1 else None
    source = None if single is not None else state.tile_buffer(x)
    result = _result(state, nest)
    loops = Nest(state.builder)
    elements = Elements(state, loops)
    k: Index = loops.begin(t.size) if t.size > 1 else 0
    builder, half = loops.builder, dtype.bitwidth == 4
    stored_type = ir.IntType(8 * dtype.bytes)
    if source is None:
        value = single
    else:
        at = index.as_value(index.shift_right(builder, k, int(half)))
        value = builder.load(builder.gep(source.pointer, [at], source_etype=stored_type), align=1, typ=stored_type)
    if half:
        shift = builder.trunc(index.as_value(index.mul(builder, index.low_bits(builder, k, 2), 4)), I8)
        value = builder.and_(builder.lshr(value, shift), ir.Constant(I8, 15))
    register = _from_memory(state, builder, dtype, value)
    if result is None:
        state.bind(nest.results[0], register)
        return
    elements.write(result, t.shape, (Coord(k, loops.level),), Element(register, None, loops.level))
    loops.close()


def _result(state: State, nest: LoopNest) -> Buffer | None:
    """The buffer of the only result, None for one element."""
    bind_results(state, nest, 0)
    return state.tile_buffer(nest.results[0]) if nest.buffers[0] is not None else None


def _from_memory(state: State, builder: ir.IRBuilder, dtype: DType, bits: ir.Value) -> ir.Value:
    emitter = state.emitter(builder)
    return emitter.to_register(dtype, builder.bitcast(bits, emitter.storage_type(dtype)))
