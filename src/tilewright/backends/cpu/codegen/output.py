"""print and assert."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes
from tilewright.backends.cpu.codegen.buffers import element_type
from tilewright.backends.cpu.codegen.elements import Elements
from tilewright.backends.cpu.codegen.groups import Visit, close, fuse, materialize
from tilewright.backends.cpu.codegen.position import open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.context import Field
from tilewright.backends.cpu.vector.types import I1, I8, I64
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType


def context_field(builder: ir.IRBuilder, context: ir.Value, field: Field) -> ir.Value:
    """The address of a field of the launch record."""
    return builder.gep(context, [ir.Constant(I64, int(field))], source_etype=I64)


def _site(state: State, op: Op) -> int:
    state.sites.append(op)
    return len(state.sites) - 1


def emit_assert(state: State, op: Op) -> None:
    builder, condition = state.builder, op.operands[0]
    holds = state.scalar(condition) if condition.tile.size == 1 else _all(state, op, condition)
    with builder.if_then(builder.not_(holds), likely=False):
        failed = context_field(builder, state.context, Field.FAILED)
        site = ir.Constant(I64, _site(state, op) + 1)
        found = builder.cmpxchg(failed, ir.Constant(I64, 0), site, "monotonic", "monotonic")
        with builder.if_then(builder.extract_value(found, 1)):
            builder.store(state.grid["block"], context_field(builder, state.context, Field.FAILED_BLOCK))
        total = builder.load(context_field(builder, state.context, Field.TOTAL), typ=I64)
        following = context_field(builder, state.context, Field.NEXT)
        lanes.store_atomic(builder, total, following, "monotonic", 8)  # so that no thread takes another block
        builder.branch(state.exit)
        builder.position_at_end(builder.append_basic_block("unreached"))


def _all(state: State, op: Op, condition: Value) -> ir.Value:
    """Whether every element of ``condition`` is true."""
    flag = state.slot(I1)
    state.builder.store(ir.Constant(I1, 1), flag)
    size = condition.tile.size

    def body(elements: Elements, width: int, visit: Visit) -> list[ir.Value]:
        count = min(width, size)
        position = open_chunks(elements.nest, condition.tile.shape, count)
        vector = elements.vector(elements.at(condition, position), count if count > 1 else None)
        visit(elements, position)
        builder = elements.nest.builder
        bits = ir.IntType(count)
        packed = builder.bitcast(vector, bits)
        every = builder.icmp_unsigned("==", packed, ir.Constant(bits, -1))
        builder.store(builder.and_(builder.load(flag, typ=I1), every), flag)
        close(elements.nest)
        return []

    fuse(state, [condition], op, body)
    return state.builder.load(flag, typ=I1)


def emit_print(state: State, op: Op) -> None:
    """Hands the operands, in memory, to the function that the launch provides."""
    builder = state.builder
    pointers = [_in_memory(state, v) for v in op.operands]
    table = state.slot(I64, len(pointers))
    for k, pointer in enumerate(pointers):
        slot = builder.gep(table, [ir.Constant(I64, k)], source_etype=I64)
        builder.store(builder.ptrtoint(pointer, I64), slot)
    signature = ir.FunctionType(ir.VoidType(), [I64, lanes.POINTER])
    address = builder.load(context_field(builder, state.context, Field.PRINT), typ=I64)
    function = builder.inttoptr(address, ir.PointerType(signature))
    builder.call(function, [ir.Constant(I64, _site(state, op)), table])


def _in_memory(state: State, value: Value) -> ir.Value:
    t = value.tile
    if t.size > 1:
        return materialize(state, value).pointer
    slot = state.slot(element_type(t.dtype))
    register = state.scalar(value)
    if isinstance(t.dtype, DType) and t.dtype.is_bool:
        register = state.builder.zext(register, I8)
    state.builder.store(register, slot)
    return slot
