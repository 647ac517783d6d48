"""MMA ops with scales, in float64: a product of two scales may be far outside the range of float32."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import mma
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.groups import Group, Visit, emit_loops, lanes_for
from tilewright.backends.cpu.codegen.mma_kernel import Accumulator
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Coord, Position, open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.loops.dot import Product
from tilewright.backends.cpu.loops.fused import root_of
from tilewright.backends.vector.types import F32, F64, I64, with_lanes
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, float64
from tilewright.ir.ops.linear import MmaScaled
from tilewright.ir.ops.loops import LoopNest


def emit_mma_scaled(state: State, nest: LoopNest, op: MmaScaled) -> None:
    """The scales are applied while the operands are widened, which is exact."""
    x, y, acc = op.x, op.y, op.acc
    rank = x.tile.rank
    t = op.result.tile
    left = _widened(state, nest, 0, x, op.x_scale, rank - 1)
    right = _widened(state, nest, 1, y, op.y_scale, rank - 2)
    accumulator = _widened(state, nest, 2, acc)
    product = Product.of(op)._replace(x=float64, y=float64, out=float64)
    operands = mma.buffered(left, product.k), mma.buffered(right, product.n)
    mma.multiply(state, op, product, operands, Accumulator(accumulator), (product.m, product.k))
    out = _scratch(state, nest, 3, t.element, t.size)
    mma.rewrite(state, accumulator, F64, F32, lambda b, x, count: b.fptrunc(x, with_lanes(F32, count)), out)
    mma.bind(state, nest, out)


def _scratch(state: State, nest: LoopNest, which: int, dtype: DType, size: int) -> Buffer:
    offset = nest.scratch[which]
    assert offset is not None
    return state.buffer(offset, dtype, size)


def _widened(state: State, nest: LoopNest, which: int, x: Value, scale: Value | None = None, axis: int = 0) -> Buffer:
    """x as float64, times the scale that each run of elements along ``axis`` shares."""
    t = x.tile
    buffer = _scratch(state, nest, which, float64, t.size)

    def body(elements: Elements, width: int, visit: Visit) -> list[ir.Value]:
        loops = elements.nest
        count = min(width, t.size)
        position = open_chunks(loops, t.shape, count)
        wide = count if count > 1 else None
        type_ = with_lanes(F64, wide)
        value = loops.builder.fpext(elements.vector(elements.at(x, position), wide), type_)
        if scale is not None:
            at = _scale_position(loops, position, axis, t.shape[axis] // scale.tile.shape[axis])
            factor = elements.vector(elements.at(scale, at), wide)
            value = loops.builder.fmul(value, loops.builder.fpext(factor, type_))
        elements.write(buffer, t.shape, position, Element(value, wide, loops.level))
        loops.close()
        return []

    emit_loops(state, Group(nest, [x], root_of(nest) or nest, lanes_for(state, x)), body)
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
