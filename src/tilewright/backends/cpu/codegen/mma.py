"""MMA ops: where the operands lie, where the accumulators start, and a function for each shape."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from llvmlite import ir

from tilewright.backends.cpu.codegen import index, mma_bytes
from tilewright.backends.cpu.codegen.buffers import Buffer, element_type
from tilewright.backends.cpu.codegen.groups import close, materialize, write
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.loop_nests import LoopNest
from tilewright.backends.cpu.codegen.mma_bytes import ByteKernel
from tilewright.backends.cpu.codegen.mma_kernel import UNROLL, Accumulator, Kernel, blocking
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.cpu.vector.types import F32, I1, I64
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, float32, float64, int8
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Mul
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import LoadView, padding_value
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape


@dataclass(frozen=True)
class Left:
    """The left operand: a matrix in memory, the distances of its rows and columns in elements, and its buffer.

    There is no buffer when it is read where it lies in an array.
    """

    pointer: ir.Value
    row: Index
    column: Index
    buffer: Buffer | None


def emit_mma(state: State, op: Mma) -> None:
    x, y, acc = op.x, op.y, op.acc
    t, depth = op.result.tile, x.tile.shape[-1]
    types, sizes = (x.tile.element, y.tile.element, t.element), (t.shape[-2], t.shape[-1], depth)
    left = _in_array(state, op, x) or buffered(_operand(state, x), depth)
    right = _operand(state, y)
    accumulator = _accumulator_of(state, op, acc, plain=mma_bytes.applies(state, types[0], types[2], sizes))
    valid = _valid_elements(state, x, -2)
    rows = sizes[0] if valid is None else valid
    multiply(state, op, left, right, accumulator, types, sizes, (rows, _depth(state, x, y)))
    for buffer in (left.buffer, right, accumulator.factors):
        if buffer is not None:
            state.release(buffer)
    if t.element.short == "f16":
        _round(state, accumulator.buffer)
    bind(state, op, accumulator.buffer)


def buffered(buffer: Buffer, depth: int) -> Left:
    """A matrix with ``depth`` columns."""
    return Left(buffer.pointer, depth, 1, buffer)


def _operand(state: State, x: Value) -> Buffer:
    """``x`` as a whole in memory, even when it has one element; to be released."""
    if x.tile.size > 1:
        buffer = materialize(state, x)
        buffer.users += 1
        return buffer
    buffer = state.allocate(x.tile)
    write(state, x, buffer)
    return buffer


def _depth(state: State, x: Value, y: Value) -> Index:
    """The number of columns of ``x`` and rows of ``y`` behind which both are padded with zeros."""
    depth = x.tile.shape[-1]
    valid = _valid_elements(state, x, -1), _valid_elements(state, y, -2)
    if valid[0] is None or valid[1] is None:
        return depth
    unroll, builder = min(UNROLL, depth), state.builder
    most = index.maximum(builder, valid[0], valid[1])
    steps = index.shift_right(builder, index.add(builder, most, unroll - 1), index.log2(unroll))
    return index.minimum(builder, index.mul(builder, index.maximum(builder, steps, 1), unroll), depth)


def _valid_elements(state: State, x: Value, axis: int) -> Index | None:
    """How many elements along ``axis`` come from an array, with zeros behind them. None when that is not known."""
    load = _loaded(x).op
    if load is None or load not in state.accesses:
        return None
    tile = state.accesses[load]
    n, long = x.tile.shape[axis], [k for k, length in enumerate(tile.shape) if length > 1]
    if [tile.shape[k] for k in long] != [length for length in x.tile.shape if length > 1] or n == 1 or len(long) < 2:
        return None
    before = sum(length > 1 for length in x.tile.shape[:axis])
    along, padding = long[before], padding_value(tile.view.type.padding, tile.dtype)  # type: ignore[union-attr]
    if not tile.checked[along]:
        return n
    if str(float(padding)) != "0.0":
        return None
    builder = state.builder
    left = index.sub(builder, tile.extents[along], tile.origins[along])
    valid = index.maximum(builder, index.minimum(builder, left, n), 0)
    if isinstance(tile.origins[along], int):
        return valid if tile.origins[along] >= 0 else n
    outside = builder.icmp_signed("<", as_value(tile.origins[along]), as_value(0))
    return builder.select(outside, as_value(n), as_value(valid))


def _loaded(x: Value) -> Value:
    """What ``x`` is a reshape of."""
    while isinstance(x.op, Reshape):
        x = x.op.x
    return x


def _in_array(state: State, op: Op, x: Value) -> Left | None:
    """``x`` where it was loaded from, if that can be read as it is and nothing but ``op`` needs it.

    Each element is read once for every vector of columns, so that a copy of a tile would cost more than it saves.
    """
    value = _loaded(x)
    load, dying = value.op, state.uses.would_die(op, state.deferred)
    if not isinstance(load, LoadView) or load not in state.deferred or not {x, value} <= dying:
        return None
    tile = state.accesses[load]
    axes = [k for k, n in enumerate(tile.shape) if n > 1]
    if [tile.shape[k] for k in axes] != list(x.tile.shape[-2:]) or tile.dtype not in (float32, float64):
        return None
    strides = [tile.strides[k] for k in axes]
    if not any(isinstance(stride, int) and stride == 1 for stride in strides):
        return None
    direct = Left(state.builder.inttoptr(tile.address, ir.PointerType()), strides[0], strides[1], None)
    return direct if tile.inside is None else _or_padded(state, load, tile.inside, direct, x)


def _or_padded(state: State, load: Op, inside: ir.Value, direct: Left, x: Value) -> Left:
    """``direct`` where ``inside`` holds; else a buffer with ``x``, the result of ``load``, as it is padded."""
    builder, tile = state.builder, state.accesses[load]
    buffer = state.allocate(x.tile)
    with builder.if_else(inside, likely=True) as (then, orelse):
        with then:
            first = builder.block
        with orelse:
            state.accesses[load] = replace(tile, inside=ir.Constant(I1, 0))
            write(state, x, buffer)
            state.accesses[load] = tile
            second = builder.block
    copied = buffered(buffer, x.tile.shape[-1])

    def either(a: Index, b: Index) -> Index:
        if isinstance(a, int) and a == b:
            return a
        phi = builder.phi(as_value(a).type)
        phi.add_incoming(as_value(a), first)
        phi.add_incoming(as_value(b), second)
        return phi

    pointer = as_value(either(direct.pointer, copied.pointer))
    return Left(pointer, either(direct.row, copied.row), either(direct.column, copied.column), buffer)


def multiply(
    state: State,
    op: Op,
    left: Left,
    right: Buffer,
    accumulator: Accumulator,
    types: tuple[DType, DType, DType],
    sizes: tuple[int, int, int],
    valid: tuple[Index, Index],
) -> None:
    """For ``op``, add the products of the matrices ``left`` and ``right`` to ``accumulator``.

    ``sizes`` are m, n and k. ``valid`` says from which row on the left matrix is zero, and from where on along k both.
    """
    m, n, k = sizes
    by_bytes = mma_bytes.applies(state, types[0], types[2], sizes)
    packed = isinstance(left.column, int)
    function = _kernel(state, types, sizes, accumulator, packed=packed)
    work = state.allocate_array(int8, ByteKernel.work_bytes(sizes)) if by_bytes else None
    nest = Nest(state.builder)
    batches = math.prod(op.result.tile.shape[:-2])
    lanes, bits = (64, 8) if by_bytes else (blocking(state, m, n, element_type(types[2])).lanes, types[2].bitwidth)
    flops = 2 * m * n * k * batches
    state.nests.append(LoopNest(function.name, op, state.block, (op,), m * n * batches, lanes, lanes * bits, flops, 0))
    batch = nest.begin(batches) if batches > 1 else 0
    parts = [
        (left.pointer, types[0], m * k),
        (right.pointer, types[1], k * n),
        (accumulator.buffer.pointer, types[2], m * n),
    ]
    if accumulator.factors is not None:
        parts.append((accumulator.factors.pointer, types[2], n if accumulator.by_column else m))
    arguments = []
    for pointer, dtype, size in parts:
        if not isinstance(batch, int):
            offset = nest.builder.mul(batch, ir.Constant(I64, size))
            pointer = nest.builder.gep(pointer, [offset], source_etype=element_type(dtype))
        arguments.append(pointer)
    if work is not None:
        arguments.append(work.pointer)
    else:
        arguments += map(as_value, (*valid, left.row) if packed else (*valid, left.row, left.column))
    nest.builder.call(function, arguments)
    close(nest)
    if work is not None:
        state.release(work)


def bind(state: State, op: Op, out: Buffer) -> None:
    """Make ``out`` the result of ``op``."""
    t = op.result.tile
    if t.size == 1:
        value = state.builder.load(out.pointer, align=element_bytes(t.dtype), typ=element_type(t.dtype))
        state.release(out)
        state.bind(op.result, value)
    else:
        state.bind(op.result, out)


def _accumulator_of(state: State, op: Op, acc: Value, *, plain: bool) -> Accumulator:
    """What ``op`` adds products to; ``plain``: to what the buffer holds."""
    if not plain and _is_zero(acc):
        return Accumulator(state.allocate(acc.tile), zero=True)
    scaled = None if plain else _scaled(state, op, acc)
    if scaled is None:
        return Accumulator(_accumulator(state, op, acc))
    base, factor = scaled
    factors = materialize(state, factor)
    factors.users += 1
    return Accumulator(_accumulator(state, op, base), factors=factors, by_column=factor.tile.shape[-1] > 1)


def _is_zero(acc: Value) -> bool:
    if not isinstance(acc.op, Constant):
        return False
    return str(float(acc.op.value)) == "0.0"  # and not -0.0


def _scaled(state: State, op: Op, acc: Value) -> tuple[Value, Value] | None:
    """A tile, and a factor for each of its rows or columns, whose product is ``acc`` and needed only by ``op``."""
    product = acc.op
    if (
        product is None
        or not isinstance(product, Mul)
        or product not in state.deferred
        or acc.tile.element.bitwidth < 32
    ):
        return None
    if not acc.tile.element.is_floating or acc not in state.uses.would_die(op, state.deferred):
        return None
    if product.rounding is not RoundingMode.RN or product.flush_to_zero:
        return None
    for base, factor in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        spread = factor.op
        if not isinstance(spread, Broadcast) or factor in state.bindings:
            continue
        line, (*batches, m, n) = spread.x, acc.tile.shape
        if line.tile.size > 1 and line.tile.shape in ((*batches, m, 1), (*batches, 1, n)) and base is not factor:
            return base, line
    return None


def _accumulator(state: State, op: Op, acc: Value) -> Buffer:
    """A buffer that holds ``acc`` and may be overwritten: that of ``acc`` itself when nothing else needs it."""
    if acc.tile.size > 1 and acc in state.uses.would_die(op, state.deferred):
        old = materialize(state, acc)
        if old.users == 1:
            old.users += 1
            return old
    buffer = state.allocate(acc.tile)
    write(state, acc, buffer)
    return buffer


def _round(state: State, buffer: Buffer) -> None:
    """Round float32 accumulators to float16."""
    size = buffer.size
    width = min(state.processor.lanes(4), size)
    nest = Nest(state.builder)
    k = nest.begin(size, width) if size > width else 0
    builder = nest.builder
    count = width if width > 1 else None
    emitter = state.emitter(builder, count)
    at = builder.gep(buffer.pointer, [ir.Constant(I64, 0) if isinstance(k, int) else k], source_etype=F32)
    type_ = F32 if count is None else ir.VectorType(F32, count)
    wide = builder.load(at, align=4, typ=type_)
    from_f32 = emitter.emit("cast", float32, [wide], {}, buffer.dtype)
    builder.store(from_f32, at, align=4)
    close(nest)


def _kernel(
    state: State,
    types: tuple[DType, DType, DType],
    sizes: tuple[int, int, int],
    accumulator: Accumulator,
    *,
    packed: bool,
) -> ir.Function:
    """The function that adds the product of row-major [m, k] and [k, n] to [m, n].

    Its parameters are x, y and out, the factors of ``accumulator`` if it has any, how far along m and k to go, and the
    distances of the rows of x and, unless ``packed``, of its columns. That for bytes has scratch memory as its fourth
    parameter.
    """
    x, y, out = types
    m, n, k = sizes
    scaled = "" if accumulator.factors is None else "columns." if accumulator.by_column else "rows."
    start = "zero." if accumulator.zero else scaled
    name = f"tw.mma.{start}{'' if packed else 'strided.'}{x.short}.{y.short}.{out.short}.{m}x{n}x{k}"
    known = state.module.globals.get(name)
    if known is not None:
        return known
    by_bytes = mma_bytes.applies(state, x, out, sizes)
    parameters: list[ir.Type] = [ir.PointerType()] * (4 if by_bytes or accumulator.factors is not None else 3)
    if not by_bytes:
        parameters += [I64] * (3 if packed else 4)
    function = ir.Function(state.module, ir.FunctionType(ir.VoidType(), parameters), name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    for a in function.args:
        if a.type != I64:
            a.add_attribute("noalias")
    if by_bytes:
        ByteKernel(function, x, y, sizes).emit()
    else:
        Kernel(state, function, types, sizes, accumulator, packed=packed).emit()
    return function
