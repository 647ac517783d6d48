"""MMA ops with scales, in float64: a product of two scales may be far outside the range of float32."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import mma
from tilewright.backends.cpu.codegen.buffers import Buffer, element_type
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.groups import Visit, close, fuse, materialize
from tilewright.backends.cpu.codegen.mma_kernel import Accumulator
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Coord, Position, open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.vector.types import F32, F64, I64
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import float64
from tilewright.ir.ops.linear import MmaScaled


def emit_mma_scaled(state: State, op: MmaScaled) -> None:
    """The scales are applied while the operands are widened, which is exact."""
    x, y, acc = op.x, op.y, op.acc
    rank = x.tile.rank
    left, right = _widened(state, op, x, op.x_scale, rank - 1), _widened(state, op, y, op.y_scale, rank - 2)
    accumulator = _widened(state, op, acc)
    (m, n), k = op.result.tile.shape[-2:], x.tile.shape[-1]
    mma.multiply(state, op, mma.buffered(left, k), right, Accumulator(accumulator), (float64,) * 3, (m, n, k), (m, k))
    out = state.allocate(op.result.tile)
    _narrow(state, accumulator, out)
    for buffer in (left, right, accumulator):
        state.release(buffer)
    mma.bind(state, op, out)


def _widened(state: State, op: Op, x: Value, scale: Value | None = None, axis: int = 0) -> Buffer:
    """x as float64, times the scale that each run of elements along ``axis`` shares."""
    t = x.tile
    buffer = state.allocate_array(float64, t.size)
    for v in (x, scale):
        if v is not None and v.tile.size > 1:
            materialize(state, v)

    def body(elements: Elements, width: int, visit: Visit) -> list[ir.Value]:
        nest = elements.nest
        count = min(width, t.size)
        position = open_chunks(nest, t.shape, count)
        wide = count if count > 1 else None
        type_ = F64 if wide is None else ir.VectorType(F64, wide)
        value = nest.builder.fpext(elements.vector(elements.at(x, position), wide), type_)
        if scale is not None:
            place = _scale_position(nest, position, axis, t.shape[axis] // scale.tile.shape[axis])
            factor = elements.vector(elements.at(scale, place), wide)
            value = nest.builder.fmul(value, nest.builder.fpext(factor, type_))
        elements.write(buffer, t.shape, position, Element(value, wide, nest.level))
        close(nest)
        return []

    fuse(state, [x], op, body)
    return buffer


def _scale_position(nest: Nest, position: Position, axis: int, run: int) -> Position:
    """Where the scales for ``position`` are."""
    base, pattern = position[axis].base, position[axis].pattern
    high = base // run if isinstance(base, int) else nest.builder.udiv(base, ir.Constant(I64, run))
    lane_pattern = None if pattern is None else tuple(p // run for p in pattern)
    if lane_pattern is not None and len(set(lane_pattern)) == 1:
        lane_pattern = None
    coord = Coord(high, nest.level if not isinstance(high, int) else 0, lane_pattern)
    return (*position[:axis], coord, *position[axis + 1 :])


def _narrow(state: State, accumulator: Buffer, out: Buffer) -> None:
    """Round float64 accumulators to float32."""
    width = min(state.processor.lanes(4), accumulator.size)
    nest = Nest(state.builder)
    k = nest.begin(accumulator.size, width) if accumulator.size > width else 0
    at = ir.Constant(I64, 0) if isinstance(k, int) else k
    builder = nest.builder
    source = builder.gep(accumulator.pointer, [at], source_etype=element_type(accumulator.dtype))
    target = builder.gep(out.pointer, [at], source_etype=element_type(out.dtype))
    wide, narrow = (t if width == 1 else ir.VectorType(t, width) for t in (F64, F32))
    builder.store(builder.fptrunc(builder.load(source, align=8, typ=wide), narrow), target, align=4)
    close(nest)
