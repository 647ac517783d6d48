"""Ops that put tiles together in buffers: cat, insert, pack and unpack."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import index
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.groups import Visit, close, fuse, materialize, write
from tilewright.backends.cpu.codegen.index import Index
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Coord, open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.vector.types import I8
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.shape import Cat, Insert, Pack, Unpack


def _write_part(
    state: State, value: Value, consumer: Op, buffer: Buffer, shape: tuple[int, ...], origin: tuple[Index, ...]
) -> None:
    """Compute ``value`` into the part at ``origin`` of the tile of ``shape`` in ``buffer``."""

    def body(elements: Elements, width: int, visit: Visit) -> list[ir.Value]:
        position = open_chunks(elements.nest, value.tile.shape, min(width, value.tile.size))
        element = elements.at(value, position)
        visit(elements, position)
        moved = tuple(elements.map.shift(c, o) for c, o in zip(position, origin))
        elements.write(buffer, shape, moved, element)
        close(elements.nest)
        return []

    fuse(state, [value], consumer, body)


def emit_cat(state: State, op: Cat) -> None:
    t, axis = op.result.tile, op.axis
    buffer = state.allocate(t)
    start = 0
    for value in op.operands:
        origin = tuple(start if k == axis else 0 for k in range(t.rank))
        _write_part(state, value, op, buffer, t.shape, origin)
        start += value.tile.shape[axis]
    state.bind(op.result, buffer)


def emit_insert(state: State, op: Insert) -> None:
    """In place when nothing else needs the old tile."""
    x, value, t = op.x, op.value, op.result.tile
    if t.size == 1:
        state.bind(op.result, state.scalar(value))
        return
    if value.tile.size > 1:
        materialize(state, value)  # it may be computed from x
    old = materialize(state, x)
    if x in state.uses.would_die(op, state.deferred) and old.users == 1:
        buffer = old
        buffer.users += 1
    else:
        buffer = state.allocate(t)
        write(state, x, buffer)
    origin = []
    for n, part, at in zip(t.shape, value.tile.shape, op.indices):
        cell = index.low_bits(state.builder, state.index(at), n // part)
        origin.append(index.mul(state.builder, cell, part))
    _write_part(state, value, op, buffer, t.shape, tuple(origin))
    state.bind(op.result, buffer)


def emit_pack(state: State, op: Pack) -> None:
    """The memory form of each element, cut into bytes."""
    x = op.x
    dtype, size = x.tile.element, x.tile.size
    bits = dtype.bitwidth
    result = state.allocate(op.result.tile) if op.result.tile.size > 1 else None

    def stored(elements: Elements, k: Index, level: int) -> ir.Value:
        position = elements.map.unflatten(Coord(k, level), x.tile.shape)
        builder = elements.nest.builder
        value = state.emitter(builder).to_storage(dtype, elements.at(x, position).value)
        return builder.bitcast(value, ir.IntType(8 * dtype.bytes))

    if size > 1:
        materialize(state, x)
    nest = Nest(state.builder)
    elements = Elements(state, nest, state.accesses, True)
    step = 2 if bits == 4 else 1
    k: Index = nest.begin(size, step) if size > step else 0
    value = stored(elements, k, nest.level)
    if bits == 4:
        high = stored(elements, index.add(nest.builder, k, 1), nest.level)
        value = nest.builder.or_(value, nest.builder.shl(high, ir.Constant(I8, 4)))
    if result is None:
        state.bind(op.result, value)
        return
    slot = nest.builder.gep(
        result.pointer, [index.as_value(index.shift_right(nest.builder, k, step - 1))], source_etype=value.type
    )
    nest.builder.store(value, slot, align=1)
    close(nest)
    state.bind(op.result, result)


def emit_unpack(state: State, op: Unpack) -> None:
    """Bytes read as elements in memory form."""
    x, t = op.x, op.result.tile
    dtype = t.element
    single = state.scalar(x) if x.tile.size == 1 else None
    source = None if single is not None else materialize(state, x)
    result = state.allocate(t) if t.size > 1 else None
    nest = Nest(state.builder)
    elements = Elements(state, nest, state.accesses, True)
    k: Index = nest.begin(t.size) if t.size > 1 else 0
    builder, half = nest.builder, dtype.bitwidth == 4
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
        state.bind(op.result, register)
        return
    elements.write(result, t.shape, (Coord(k, nest.level),), Element(register, None, nest.level))
    close(nest)
    state.bind(op.result, result)


def _from_memory(state: State, builder: ir.IRBuilder, dtype: DType, bits: ir.Value) -> ir.Value:
    emitter = state.emitter(builder)
    return emitter.to_register(dtype, builder.bitcast(bits, emitter.storage_type(dtype)))
