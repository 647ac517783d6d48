"""Elementwise ops on registers, and the combiners of reductions and scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes
from tilewright.backends.cpu.codegen.state import State, storage_bytes, unsupported
from tilewright.backends.cpu.loops.kinds import ASSUMPTIONS, ELEMENTWISE, POINTER_OPS
from tilewright.backends.vector import VectorEmitter, register_type
from tilewright.backends.vector.request import LEFT_IS_RESULT
from tilewright.backends.vector.types import I64, resized
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops import shape
from tilewright.ir.ops.arith import Bitcast, operand_tile
from tilewright.ir.types import ElementType, PointerType


def emit(
    emitter: VectorEmitter,
    builder: ir.IRBuilder,
    op: Op,
    operands: Sequence[ir.Value],
    attributes: Mapping[str, Any] | None = None,
) -> ir.Value:
    """The result of the elementwise ``op`` on registers; ``attributes`` replace its own."""
    dtype = operand_tile(op).dtype
    if isinstance(op, ASSUMPTIONS):
        return operands[0]
    if type(op) in POINTER_OPS or (isinstance(dtype, PointerType) and isinstance(op, Bitcast)):
        return _pointer(emitter, builder, op, operands)
    attributes = op.attributes if attributes is None else attributes
    return emitter.emit(op.name, dtype, operands, attributes, op.result.tile.dtype)


def _is_left(op: Op, value: Value) -> bool:
    """Whether ``value`` is the first operand of ``op``."""
    return next(iter(op.operands)) is value


def _pointee_bytes(dtype: ElementType) -> int:
    assert isinstance(dtype, PointerType)
    return 1 if dtype.pointee is None else storage_bytes(dtype.pointee)


def _pointer(emitter: VectorEmitter, builder: ir.IRBuilder, op: Op, operands: Sequence[ir.Value]) -> ir.Value:
    if isinstance(op, shape.PtrOffset):
        offset = op.offset.tile.element
        distance = resized(builder, operands[1], I64, signed=offset.is_signed)
        item = ir.Constant(I64, _pointee_bytes(op.ptr.tile.dtype))
        return builder.add(operands[0], builder.mul(distance, lanes.splat(builder, item, emitter.lanes)))
    if isinstance(op, shape.PtrDiff):
        distance = builder.sub(operands[0], operands[1])
        item = ir.Constant(I64, _pointee_bytes(op.lhs.tile.dtype))
        distance = builder.sdiv(distance, lanes.splat(builder, item, emitter.lanes))
        return resized(builder, distance, ir.IntType(op.dtype.bitwidth))
    return operands[0]


def combine(
    state: State,
    builder: ir.IRBuilder,
    count: int | None,
    body: Block,
    operands: Sequence[ir.Value],
    facts: Mapping[Op, bool],
    *,
    running: bool = False,
) -> list[ir.Value]:
    """What the combiner ``body`` yields for ``operands``, vectors of ``count`` lanes or scalars.

    ``facts`` are comparisons in it whose outcome is known; ``running`` says that the left operands are its results, or
    its identity.
    """
    emitter = state.emitter(builder, count)
    known: dict[Value, ir.Value] = dict(zip(body.args, operands))

    def register(v: Value) -> ir.Value:
        if v not in known:
            known[v] = lanes.splat(builder, state.scalar(v), count)
        return known[v]

    for op in body.ops[:-1]:
        if op in facts:
            known[op.result] = emitter.constant(op.result.tile.dtype, facts[op])
        elif isinstance(op, (shape.Constant, shape.Undefined)):
            known[op.result] = emitter.constant(op.result.tile.dtype, op.value if isinstance(op, shape.Constant) else 0)
        elif type(op) in ELEMENTWISE:
            attributes = {**op.attributes, LEFT_IS_RESULT: running and _is_left(op, body.args[0])}
            known[op.result] = emit(emitter, builder, op, [register(v) for v in op.operands], attributes)
        elif isinstance(op, (shape.Reshape, shape.Broadcast, shape.Permute)):
            known[op.result] = register(op.x)
        else:
            raise unsupported(op, "a combiner of reduce or scan holds elementwise operations only")
    return [register(v) for v in body.terminator.operands]


def blank(dtype: ElementType, count: int | None) -> ir.Constant:
    """A register whose content does not matter."""
    return ir.Constant(register_type(dtype, count), None)
