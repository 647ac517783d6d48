"""MMA ops: where the operands lie, where the accumulators start, and a function for each shape."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from llvmlite import ir

from tilewright.backends.branches import phi_of
from tilewright.backends.cpu.codegen import index, views
from tilewright.backends.cpu.codegen.buffers import Buffer, element_type
from tilewright.backends.cpu.codegen.groups import Group, emit_elements, lanes_for
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.lanes import integers
from tilewright.backends.cpu.codegen.loop_nests import NestWork
from tilewright.backends.cpu.codegen.mma_dot import DotKernel
from tilewright.backends.cpu.codegen.mma_in_place import InPlace, valid_elements
from tilewright.backends.cpu.codegen.mma_kernel import Accumulator, Kernel, RowsKernel, TransposedKernel, blocking
from tilewright.backends.cpu.codegen.mma_stored import Stored, stored
from tilewright.backends.cpu.codegen.mma_tiles import TileKernel
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.panels import Rearrangement
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.loops.dot import LANES, DotInstruction, Product, dot_instruction, reader
from tilewright.backends.cpu.loops.kinds import is_array_tile
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.external import defined_once
from tilewright.backends.vector.types import F32, I1, I16, I32, I64, with_lanes
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import bfloat16, float32, int8
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.shape import Broadcast, Constant, Permute, Reshape
from tilewright.records import NamedTuple

_ALIGNMENT = {I16: 2}  # 4 of the other types of elements in buffers


class Matrix(NamedTuple):
    """An operand: a matrix in memory, and the distances of its rows and columns in elements.

    ``buffered``: in scratch memory, where elements have their register type. ``transposed``: what is in memory is the
    transpose of the operand.
    """

    pointer: ir.Value
    row: Index
    column: Index
    buffered: bool = True
    transposed: bool = False


def emit_mma(state: State, nest: LoopNest, op: Mma) -> None:
    x, y = op.x, op.y
    product = Product.of(op)
    padded, work, _ = nest.scratch
    dot = None if work is None else dot_instruction(state.processor, product)
    columns_of = x.op.x if isinstance(x.op, Permute) and x.op in nest.body.ops else None
    of_left = ((x, -2), (x, -1)) if columns_of is None else ((columns_of, -1), (columns_of, -2))
    rows, *along = (valid_elements(state, *of) for of in (*of_left, (y, -2)))
    depth = product.k if None in along else index.maximum(state.builder, *along)
    source, needed = _reshaped(y).op, None
    place = state.in_place.get(source) if isinstance(source, LoopNest) else None
    if dot is None and rows is not None and along[0] is not None:
        together = place is not None and place.together
        needed = product.m if together or blocking(state, product).rows == product.m else rows, depth
    valid = product.m if rows is None else rows, depth
    narrow = dot is not None and product.x is bfloat16
    if columns_of is not None:
        left = Matrix(state.tile_buffer(columns_of).pointer, 1, product.m)
    else:
        left = _operand(state, nest, x, padded, nest.transposed, needed=needed, narrow=narrow)
    right = _buffered(state.tile_buffer(y), product.n)
    accumulator = _accumulator(state, nest, op.acc)
    interleaved = isinstance(source, LoopNest) and _reader(state, source) is not None
    goal = stored(state, op, nest.results[0]) if dot is None else None
    work_buffer = None if work is None or dot is None else state.buffer(work, int8, dot.scratch_bytes(product))

    def multiply() -> NestWork:
        return _multiply(state, op, product, (left, right), accumulator, valid, dot, work_buffer, interleaved, goal)

    if place is None:
        done = multiply()
    else:
        with state.builder.if_else(place.chosen) as (then, orelse):
            with then:
                height = product.m if place.together else 1
                _multiply(state, op, product, (left, _matrix(state, place)), accumulator, (height, depth))
            with orelse:
                done = multiply()
    state.nests.append(done)
    if product.out.short == "f16":
        _round(state, accumulator.buffer)
    _bind(state, nest, accumulator.buffer)


def rearrangement(state: State, nest: LoopNest) -> Rearrangement | None:
    """How the panels of ``nest`` are kept, if it is a product by dot instructions alone that reads them."""
    found = _reader(state, nest)
    if found is None:
        return None
    dot, p = found
    copied, null = state.tile_buffer(nest.results[0]), ir.PointerType()(None)

    def emit(target: ir.Value) -> None:
        kernel = _dot_kernel(state, dot, p, "interleave.")
        state.builder.call(kernel, [null, copied.pointer, null, target, I64(0)])

    return Rearrangement(p.k * p.n * dot.element_bytes, emit)


def _reader(state: State, nest: LoopNest) -> tuple[DotInstruction, Product] | None:
    """The instruction and the product by it which alone reads the panel of ``nest``, as its right operand."""
    op = reader(nest)
    if op is None or not nest.panels:
        return None
    product = Product.of(op)
    dot = dot_instruction(state.processor, product) if op.y.tile.size == product.k * product.n else None
    return None if dot is None else (dot, product)


def _buffered(buffer: Buffer, depth: int) -> Matrix:
    """A matrix with ``depth`` columns."""
    return Matrix(buffer.pointer, depth, 1)


def _matrix(state: State, place: InPlace) -> Matrix:
    """A right operand where it lies."""
    row, column = (stride for n, stride in zip(place.tile.shape, place.tile.strides) if n > 1)
    return Matrix(state.builder.inttoptr(place.tile.address, ir.PointerType()), row, column, False, place.transposed)


def _operand(
    state: State,
    nest: LoopNest,
    x: Value,
    padded: int | None,
    axis: int | None = None,
    *,
    needed: tuple[Index, Index] | None = None,
    narrow: bool = False,
) -> Matrix:
    """An operand: in a buffer, or where it was loaded from if that can be read as it is.

    Where the tile may leave its array, the buffer at ``padded`` takes it, padded, if it does, read along ``axis`` if
    that is not the last one; ``narrow`` asks for elements as they are in the array there. It may leave it beyond the
    rows and columns that are ``needed``.
    """
    load, depth = _reshaped(x), x.tile.shape[-1]
    if not is_array_tile(load):
        return _buffered(state.tile_buffer(x), depth)
    assert load.op is not None
    tile, builder = state.accesses[load.op], state.builder
    row, column = (stride for n, stride in zip(tile.shape, tile.strides) if n > 1)
    direct = Matrix(builder.inttoptr(tile.address, ir.PointerType()), row, column, buffered=False)
    if padded is None:
        return direct
    buffer = state.buffer(padded, x.tile.dtype, x.tile.size)
    inside = tile.inside
    if needed is not None:
        lengths = iter(needed)
        counts = [next(lengths) if n > 1 else 1 for n in tile.shape]
        ends = [views.fits(builder, *end) for *end, c in zip(tile.origins, tile.extents, counts, tile.checked) if c]
        inside = functools.reduce(builder.and_, ends)
    assert inside is not None
    with builder.if_else(inside, likely=True) as (then, orelse):
        with then:
            first = builder.block
        with orelse:
            state.accesses[load.op] = tile._replace(inside=ir.Constant(I1, 0))
            emit_elements(state, Group(nest, [x], x.op or nest, lanes_for(state, x)), buffer, axis)
            state.accesses[load.op] = tile
            if narrow:
                _narrow(state, buffer)
            second = builder.block
    copied = _buffered(buffer, depth)

    def either(a: Index, b: Index) -> Index:
        if isinstance(a, int) and a == b:
            return a
        return phi_of(builder, (as_value(a), first), (as_value(b), second))

    pointer = as_value(either(direct.pointer, copied.pointer))
    return Matrix(pointer, either(direct.row, copied.row), either(direct.column, copied.column), buffered=not narrow)


def _reshaped(x: Value) -> Value:
    while isinstance(x.op, Reshape):
        x = x.op.x
    return x


def _multiply(
    state: State,
    op: Op,
    p: Product,
    operands: tuple[Matrix, Matrix],
    accumulator: Accumulator,
    valid: tuple[Index, Index],
    dot: DotInstruction | None = None,
    work: Buffer | None = None,
    interleaved: bool = False,
    goal: Stored | None = None,
) -> NestWork:
    """For ``op``, add the products of the matrices ``operands`` to ``accumulator``; how much work that is.

    ``work`` is memory for the function that uses ``dot`` instructions, if one does, for which the right matrix may be
    ``interleaved``. ``valid`` says from which row on the left matrix is zero, and from where on along k both.
    """
    (left, right), (m, n, k) = operands, (p.m, p.n, p.k)
    packed = isinstance(left.column, int) and left.column == 1
    if dot is None:
        kernel = Kernel if right.buffered else TransposedKernel if right.transposed else RowsKernel
        function = _kernel(state, kernel, p, accumulator, packed=packed, fetching=goal is not None)
    else:
        start = "interleaved." * interleaved + "wide." * (left.buffered and p.x.is_floating)
        function = _dot_kernel(state, dot, p, start)
    nest = Nest(state.builder)
    batches = math.prod(op.result.tile.shape[:-2])
    lanes, bits = blocking(state, p).lanes, p.out.bitwidth
    if dot is not None:
        lanes, bits = dot.per_lane * LANES, 8 * dot.element_bytes
    flops = 2 * m * n * k * batches
    assert state.block is not None
    done = NestWork(function.name, op, state.block, (op,), m * n * batches, lanes, lanes * bits, flops, 0)
    batch = nest.begin(batches) if batches > 1 else 0
    parts = [(left.pointer, p.x, m * k), (right.pointer, p.y, k * n), (accumulator.buffer.pointer, p.out, m * n)]
    if accumulator.factors is not None:
        parts.append((accumulator.factors.pointer, p.out, n if accumulator.by_column else m))
    arguments = []
    for pointer, dtype, size in parts:
        if not isinstance(batch, int):
            offset = nest.builder.mul(batch, ir.Constant(I64, size))
            pointer = nest.builder.gep(pointer, [offset], source_etype=element_type(dtype))
        arguments.append(pointer)
    if work is not None:
        arguments += [work.pointer, as_value(left.row)]
    else:
        distances = [left.row, *[left.column] * (not packed), *[right.row] * (not right.buffered)]
        arguments += map(as_value, (*valid, k, *distances, *(goal or ())))
    nest.builder.call(function, arguments)
    nest.close()
    return done


def _bind(state: State, nest: LoopNest, out: Buffer) -> None:
    """Make ``out`` the result of ``nest``."""
    (result,) = nest.results
    t = result.tile
    if nest.buffers[0] is None:
        state.bind(result, state.builder.load(out.pointer, align=element_bytes(t.dtype), typ=element_type(t.dtype)))
    else:
        state.bind(result, out)


def _accumulator(state: State, nest: LoopNest, acc: Value) -> Accumulator:
    """Where the products are added to, and what was there: a zero or a product with factors that the body computes."""
    offset, op = nest.scratch[2], acc.op
    assert offset is not None
    out = state.buffer(offset, acc.tile.dtype, acc.tile.size)
    if op not in nest.body.ops:
        return Accumulator(out)
    if isinstance(op, Constant):
        return Accumulator(out, zero=True)
    assert op is not None
    (factor,) = (v.op.x for v in op.operands if isinstance(v.op, Broadcast) and v.op in nest.body.ops)
    return Accumulator(out, factors=state.tile_buffer(factor), by_column=factor.tile.shape[-1] > 1)


def _round(state: State, buffer: Buffer) -> None:
    """Round float32 accumulators to float16."""

    def rounded(builder: ir.IRBuilder, wide: ir.Value, count: int | None) -> ir.Value:
        return state.emitter(builder, count).emit("cast", float32, [wide], {}, buffer.dtype)

    _rewrite(state, buffer, F32, F32, rounded)


def _narrow(state: State, buffer: Buffer) -> None:
    """Make bfloat16 of what is kept as float32, in the same place: the upper halves, side by side."""

    def upper(builder: ir.IRBuilder, wide: ir.Value, count: int | None) -> ir.Value:
        sixteen = I32(16) if count is None else integers(I32, [16] * count)
        return builder.trunc(builder.lshr(wide, sixteen), with_lanes(I16, count))

    _rewrite(state, buffer, I32, I16, upper)


def _rewrite(
    state: State,
    buffer: Buffer,
    old: ir.Type,
    new: ir.Type,
    convert: Callable[[ir.IRBuilder, ir.Value, int | None], ir.Value],
) -> None:
    """Write what ``convert`` makes of the elements of ``buffer`` in their place, where they are no wider."""
    size = buffer.size
    width = min(state.processor.lanes(4), size)
    nest = Nest(state.builder)
    k = as_value(nest.begin(size, width) if size > width else 0)
    builder, count = nest.builder, width if width > 1 else None
    source, target = (builder.gep(b.pointer, [k], source_etype=t) for b, t in ((buffer, old), (buffer, new)))
    value = builder.load(source, align=_ALIGNMENT.get(old, 4), typ=with_lanes(old, count))
    builder.store(convert(builder, value, count), target, align=_ALIGNMENT.get(new, 4))
    nest.close()


def _kernel(
    state: State, kernel: type[Kernel], p: Product, accumulator: Accumulator, *, packed: bool, fetching: bool
) -> ir.Function:
    """The function that adds the product of row-major [m, k] and [k, n] to [m, n] as ``kernel`` does.

    Its parameters are x, y and out, the factors of ``accumulator`` if it has any, how far along m and k to go, k, and
    the distances of the rows of x, unless ``packed`` of its columns, and of the rows of y where that is in an array,
    and if it is ``fetching``, the two numbers of ``Stored``. It serves every k of more than a few steps.
    """
    scaled = "" if accumulator.factors is None else "columns." if accumulator.by_column else "rows."
    start = "zero." if accumulator.zero else scaled
    start += "" if packed else "strided."
    start += "fetching." if fetching else ""
    name = f"tw.mma.{start}{kernel.kind}{p._replace(k=min(p.k, kernel.unroll))}"
    pointers, numbers = (
        3 if accumulator.factors is None else 4,
        4 + (not packed) + (kernel is not Kernel) + 2 * fetching,
    )

    def emit(function: ir.Function) -> None:
        kernel(state, function, p, accumulator, packed=packed, fetching=fetching).emit()

    return _function(state, name, pointers, numbers, emit)


def _dot_kernel(state: State, dot: DotInstruction, p: Product, start: str) -> ir.Function:
    """The micro-kernel with ``dot`` instructions: its parameters are x, y, out, scratch memory, and the distance of the
    rows of x. Its name begins with ``start``: ``wide.``: that is bfloat16 in scratch memory, kept as float32 there;
    ``interleaved.``: y is; ``interleave.``: it does that to y, and nothing else."""
    options = {"widened": "wide." in start, "interleaved": "interleaved." in start}

    def emit(function: ir.Function) -> None:
        kernel = (TileKernel if dot.tiles else DotKernel)(function, dot, p, **options)
        (kernel.emit_interleave if start == "interleave." else kernel.emit)()

    return _function(state, f"tw.mma.{start}{p}", 4, 1, emit)


def _function(
    state: State, name: str, pointers: int, numbers: int, emit_body: Callable[[ir.Function], None]
) -> ir.Function:
    """The function ``name``, whose body ``emit_body`` emits the first time that it is asked for."""

    def emit(function: ir.Function) -> None:
        for a in function.args[:pointers]:
            a.add_attribute("noalias")
        emit_body(function)

    type_ = ir.FunctionType(ir.VoidType(), [*[ir.PointerType()] * pointers, *[I64] * numbers])
    return defined_once(state.module, name, type_, ("nounwind", "noinline"), emit)
