"""print and assert."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import index, lanes, records
from tilewright.backends.cpu.codegen.buffers import element_type
from tilewright.backends.cpu.codegen.elements import Elements
from tilewright.backends.cpu.codegen.groups import Visit, bind_results, emit_loops, group_of
from tilewright.backends.cpu.codegen.position import open_chunks, strides_of
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.context import Field
from tilewright.backends.vector.types import I1, I8, I64, resized
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import Assert, Print

_CLOSED = 1 << 62  # as the next block: none is left


def _site(state: State, op: Op) -> int:
    state.sites.append(op)
    return len(state.sites) - 1


def emit_assert(state: State, op: Assert) -> None:
    """Emit an assert of one element."""
    found = [resized(state.builder, state.scalar(v), I64, signed=v.tile.element.is_signed) for v in op.values]
    _check(state, op, state.scalar(op.condition), ir.Constant(I64, 0), found)


def emit_assert_tile(state: State, nest: LoopNest, op: Assert) -> None:
    _check(state, op, *_first_false(state, nest, op.condition, op.values))


def _check(state: State, op: Op, holds: ir.Value, element: ir.Value, values: list[ir.Value]) -> None:
    with state.builder.if_then(state.builder.not_(holds), likely=False):
        _fail(state, op, element, values)


def _fail(state: State, op: Op, element: ir.Value, values: list[ir.Value]) -> None:
    """Ends the block. The first failure of the launch is recorded, and no thread takes another block."""
    builder = state.builder
    failed = records.at(builder, state.context, Field.FAILED)
    site = ir.Constant(I64, _site(state, op) + 1)
    found = builder.cmpxchg(failed, ir.Constant(I64, 0), site, "monotonic", "monotonic")
    with builder.if_then(builder.extract_value(found, 1)):
        builder.store(state.grid["block"], records.at(builder, state.context, Field.FAILED_BLOCK))
        for k, value in enumerate([element, *values]):
            address = records.at(builder, state.context, Field.FAILED_ELEMENT + k)
            builder.store(value, address)
    following = records.at(builder, state.context, Field.NEXT)
    builder.atomic_rmw("or", following, ir.Constant(I64, _CLOSED), "monotonic")
    builder.branch(state.exit)
    builder.position_at_end(builder.append_basic_block("unreached"))


def _first_false(
    state: State, nest: LoopNest, condition: Value, values: list[Value]
) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
    """Whether every element of ``condition`` is true; the first false one, and ``values`` there."""
    flag, size, shape = state.slot(I1), condition.tile.size, condition.tile.shape
    slots = [state.slot(I64) for _ in range(1 + len(values))]
    state.builder.store(ir.Constant(I1, 1), flag)

    def body(elements: Elements, width: int, visit: Visit) -> list[ir.Value]:
        count = min(width, size)
        position = open_chunks(elements.nest, shape, count)
        lanes_of = count if count > 1 else None
        vector = elements.vector(elements.at(condition, position), lanes_of)
        registers = [
            elements.vector(elements.at(v, position), lanes_of) if v.tile.rank else state.scalar(v) for v in values
        ]
        flat = elements.map.flatten(position, strides_of(shape))
        visit(elements, position)
        builder = elements.nest.builder
        bits = ir.IntType(count)
        packed = builder.bitcast(vector, bits)
        wrong = builder.icmp_unsigned("!=", packed, ir.Constant(bits, -1))
        with builder.if_then(builder.and_(wrong, builder.load(flag, typ=I1)), likely=False):
            builder.store(ir.Constant(I1, 0), flag)
            lane = builder.cttz(builder.not_(packed), ir.Constant(I1, 1))
            lane = resized(builder, lane, I64)
            first = index.as_value(index.add(builder, flat.base, flat.pattern[0] if flat.pattern else 0))
            builder.store(builder.add(first, lane), slots[0])
            for slot, v, x in zip(slots[1:], values, registers):
                picked = builder.extract_element(x, lane) if isinstance(x.type, ir.VectorType) else x
                builder.store(resized(builder, picked, I64, signed=v.tile.element.is_signed), slot)
        elements.nest.close()
        return []

    bind_results(state, nest, 0)
    emit_loops(state, group_of(state, nest, 0), body)
    element, *found = (state.builder.load(slot, typ=I64) for slot in slots)
    return state.builder.load(flag, typ=I1), element, found


def emit_print(state: State, op: Print) -> None:
    """Hands the operands, in memory, to the function that the launch provides."""
    builder = state.builder
    pointers = [_in_memory(state, v) for v in op.operands]
    table = state.slot(I64, len(pointers))
    for k, pointer in enumerate(pointers):
        slot = builder.gep(table, [ir.Constant(I64, k)], source_etype=I64)
        builder.store(builder.ptrtoint(pointer, I64), slot)
    signature = ir.FunctionType(ir.VoidType(), [I64, lanes.POINTER])
    address = records.load(builder, state.context, Field.PRINT)
    function = builder.inttoptr(address, ir.PointerType(signature))
    builder.call(function, [ir.Constant(I64, _site(state, op)), table])


def _in_memory(state: State, value: Value) -> ir.Value:
    t = value.tile
    if t.size > 1:
        return state.tile_buffer(value).pointer
    slot = state.slot(element_type(t.dtype))
    register = state.scalar(value)
    if isinstance(t.dtype, DType) and t.dtype.is_bool:
        register = state.builder.zext(register, I8)
    state.builder.store(register, slot)
    return slot
