"""Matrix products: operands packed in scratch memory, and a register-blocked kernel per shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.backends.cpu.codegen import index, lanes, mma_bytes
from tilewright.backends.cpu.codegen.buffers import Buffer, element_type
from tilewright.backends.cpu.codegen.groups import close, materialize, write
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.loop_nests import LoopNest
from tilewright.backends.cpu.codegen.mma_bytes import ByteKernel
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.cpu.vector.types import F32, F64, I32, I64
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, float32, float64, int8
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.memory import padding_value

_UNROLL = 4  # steps of k per iteration of the inner loop


# Rows and vectors of accumulators, for a number of vector registers and the bytes of each. The rest of the registers
# is for a row of the right operand and an element or two of the left one. Enough accumulators hide the latency of
# multiply-adds, and shapes near a square load the least for each.
_SHAPES = {
    (32, 64): (8, 2),  # AVX-512
    (32, 32): (8, 2),
    (32, 16): (4, 4),  # NEON
    (16, 64): (6, 2),
    (16, 32): (6, 2),  # AVX2
    (16, 16): (6, 2),  # SSE2
}


@dataclass(frozen=True)
class _Blocking:
    """The accumulators that stay in registers: ``rows`` rows of ``vectors`` vectors of ``lanes`` elements."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def _blocking(state: State, m: int, n: int, accumulator: ir.Type) -> _Blocking:
    """The shape for the processor, or one with no more accumulators for a product that is narrower or lower.

    The vectors divide ``n``; of ``m`` some rows may be left over.
    """
    processor = state.processor
    lanes = min(processor.lanes(8 if accumulator == F64 else 4), n)
    rows, vectors = _SHAPES[processor.vector_registers, processor.vector_bytes]
    budget = rows * vectors
    vectors = min(vectors, n // lanes)
    rows = min(m, budget // vectors)
    while 2 * rows * vectors <= budget and 2 * vectors * lanes <= n:
        vectors *= 2
    return _Blocking(-(-m // -(-m // rows)), vectors, lanes)


@dataclass(frozen=True)
class Sums:
    """The buffer that products are added to: to zero, or to what it holds, times a factor where there are ``factors``.

    Each of these is for a row, or ``by_column`` for a column.
    """

    buffer: Buffer
    zero: bool = False
    factors: Buffer | None = None
    by_column: bool = False


@dataclass(frozen=True)
class Left:
    """The left operand: a matrix in memory, the distances of its rows and columns in elements, and its buffer.

    There is no buffer when it is read where it lies in an array.
    """

    pointer: ir.Value
    row: Index
    column: Index
    buffer: Buffer | None


def emit_mma(state: State, op: Op) -> None:
    x, y, acc = op.operands
    t, depth = op.result.tile, x.tile.shape[-1]
    types, sizes = (x.tile.element, y.tile.element, t.element), (t.shape[-2], t.shape[-1], depth)
    left = _in_array(state, op, x) or buffered(_operand(state, x), depth)
    right = _operand(state, y)
    sums = _sums(state, op, acc, plain=mma_bytes.applies(state, types[0], types[2], sizes))
    multiply(state, op, left, right, sums, types, sizes, _depth(state, x, y))
    for buffer in (left.buffer, right, sums.factors):
        if buffer is not None:
            state.release(buffer)
    if t.element.short == "f16":
        _round(state, sums.buffer)
    bind(state, op, sums.buffer)


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
    held = _held(state, x, -1), _held(state, y, -2)
    if held[0] is None or held[1] is None:
        return depth
    unroll, builder = min(_UNROLL, depth), state.builder
    most = index.maximum(builder, held[0], held[1])
    steps = index.shift_right(builder, index.add(builder, most, unroll - 1), index.log2(unroll))
    return index.minimum(builder, index.mul(builder, index.maximum(builder, steps, 1), unroll), depth)


def _held(state: State, x: Value, axis: int) -> Index | None:
    """How many elements along ``axis`` come from an array, with zeros behind them. None when that is not known."""
    load = _loaded(x).op
    if load is None or load not in state.accesses:
        return None
    tile = state.accesses[load]
    n, long = x.tile.shape[axis], [k for k, length in enumerate(tile.shape) if length > 1]
    if [tile.shape[k] for k in long] != [length for length in x.tile.shape if length > 1] or n == 1 or len(long) < 2:
        return None
    along, padding = long[axis], padding_value(tile.view.type.padding, tile.dtype)  # type: ignore[union-attr]
    if not tile.checked[along]:
        return n
    if str(float(padding)) not in ("0.0", "0"):
        return None
    builder = state.builder
    before = index.sub(builder, tile.extents[along], tile.origins[along])
    held = index.maximum(builder, index.minimum(builder, before, n), 0)
    if isinstance(tile.origins[along], int):
        return held if tile.origins[along] >= 0 else n
    outside = builder.icmp_signed("<", as_value(tile.origins[along]), as_value(0))
    return builder.select(outside, as_value(n), as_value(held))


def _loaded(x: Value) -> Value:
    """What ``x`` is a reshape of."""
    while x.op is not None and x.op.name == "reshape":
        x = x.op.operands[0]
    return x


def _in_array(state: State, op: Op, x: Value) -> Left | None:
    """``x`` where it was loaded from, if that can be read as it is and nothing but ``op`` needs it.

    Each element is read once for every vector of columns, so that a copy of a tile would cost more than it saves.
    """
    value = _loaded(x)
    load, dying = value.op, state.uses.would_die(op, state.deferred)
    if load is None or load.name != "load_view" or load not in state.deferred or not {x, value} <= dying:
        return None
    tile = state.accesses[load]
    axes = [k for k, n in enumerate(tile.shape) if n > 1]
    if [tile.shape[k] for k in axes] != list(x.tile.shape[-2:]) or tile.dtype not in (float32, float64):
        return None
    strides = [tile.strides[k] for k in axes]
    if not any(isinstance(stride, int) and stride == 1 for stride in strides):
        return None
    direct = Left(state.builder.inttoptr(tile.address, ir.PointerType()), strides[0], strides[1], None)
    return direct if tile.inside is None else _or_padded(state, tile.inside, direct, x)


def _or_padded(state: State, inside: ir.Value, direct: Left, x: Value) -> Left:
    """``direct`` where ``inside`` holds, else a buffer with what ``x`` is padded with."""
    builder = state.builder
    buffer = state.allocate(x.tile)
    with builder.if_else(inside, likely=True) as (then, orelse):
        with then:
            first = builder.block
        with orelse:
            write(state, x, buffer)
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
    sums: Sums,
    types: tuple[DType, DType, DType],
    sizes: tuple[int, int, int],
    depth: Index,
) -> None:
    """For ``op``, add the products of the matrices ``left`` and ``right`` to ``sums``.

    ``sizes`` are m, n and k; from ``depth`` on along k, both matrices are zero.
    """
    m, n, k = sizes
    by_bytes = mma_bytes.applies(state, types[0], types[2], sizes)
    packed = isinstance(left.column, int)
    function = _kernel(state, types, sizes, sums, packed=packed)
    work = state.allocate_array(int8, ByteKernel.work_bytes(sizes)) if by_bytes else None
    nest = Nest(state.builder)
    batches = math.prod(op.result.tile.shape[:-2])
    lanes, bits = (64, 8) if by_bytes else (_blocking(state, m, n, element_type(types[2])).lanes, types[2].bitwidth)
    flops = 2 * m * n * k * batches
    state.nests.append(LoopNest(function.name, op, state.block, (op,), m * n * batches, lanes, lanes * bits, flops, 0))
    batch = nest.begin(batches) if batches > 1 else 0
    parts = [(left.pointer, types[0], m * k), (right.pointer, types[1], k * n), (sums.buffer.pointer, types[2], m * n)]
    if sums.factors is not None:
        parts.append((sums.factors.pointer, types[2], n if sums.by_column else m))
    arguments = []
    for pointer, dtype, size in parts:
        if not isinstance(batch, int):
            offset = nest.builder.mul(batch, ir.Constant(I64, size))
            pointer = nest.builder.gep(pointer, [offset], source_etype=element_type(dtype))
        arguments.append(pointer)
    if work is not None:
        arguments.append(work.pointer)
    else:
        arguments += map(as_value, (depth, left.row) if packed else (depth, left.row, left.column))
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


def _sums(state: State, op: Op, acc: Value, *, plain: bool) -> Sums:
    """What ``op`` adds products to; ``plain``: to what the buffer holds."""
    if not plain and _is_zero(acc):
        return Sums(state.allocate(acc.tile), zero=True)
    scaled = None if plain else _scaled(state, op, acc)
    if scaled is None:
        return Sums(_accumulator(state, op, acc))
    base, factor = scaled
    factors = materialize(state, factor)
    factors.users += 1
    return Sums(_accumulator(state, op, base), factors=factors, by_column=factor.tile.shape[-1] > 1)


def _is_zero(acc: Value) -> bool:
    if acc.op is None or acc.op.name != "constant":
        return False
    return str(float(acc.op.attributes["value"])) == "0.0"  # and not -0.0


def _scaled(state: State, op: Op, acc: Value) -> tuple[Value, Value] | None:
    """A tile, and a factor for each of its rows or columns, whose product is ``acc`` and needed only by ``op``."""
    product = acc.op
    if product is None or product.name != "mul" or product not in state.deferred or acc.tile.element.bitwidth < 32:
        return None
    if not acc.tile.element.is_floating or acc not in state.uses.would_die(op, state.deferred):
        return None
    if product.attributes["rounding"] is not RoundingMode.RN or product.attributes["flush_to_zero"]:
        return None
    for base, factor in (product.operands, product.operands[::-1]):
        spread = factor.op
        if spread is None or spread.name != "broadcast" or factor in state.bindings:
            continue
        line, (*batches, m, n) = spread.operands[0], acc.tile.shape
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
    """Round float32 sums to float16."""
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
    state: State, types: tuple[DType, DType, DType], sizes: tuple[int, int, int], sums: Sums, *, packed: bool
) -> ir.Function:
    """The function that adds the product of row-major [m, k] and [k, n] to [m, n].

    Its parameters are x, y and out, then the factors of ``sums`` if there are any, how far along k to go, and the
    distances of the rows of x and, unless ``packed``, of its columns. That for bytes has scratch memory as its fourth
    parameter.
    """
    x, y, out = types
    m, n, k = sizes
    scaled = "" if sums.factors is None else "columns." if sums.by_column else "rows."
    start = "zero." if sums.zero else scaled
    name = f"tw.mma.{start}{'' if packed else 'strided.'}{x.short}.{y.short}.{out.short}.{m}x{n}x{k}"
    known = state.module.globals.get(name)
    if known is not None:
        return known
    by_bytes = mma_bytes.applies(state, x, out, sizes)
    parameters: list[ir.Type] = [ir.PointerType()] * (4 if by_bytes or sums.factors is not None else 3)
    if not by_bytes:
        parameters += [I64] * (2 if packed else 3)
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
        _Kernel(state, function, types, sizes, sums, packed=packed).emit()
    return function


class _Kernel:
    """Emits the body of a product of fixed sizes."""

    def __init__(
        self,
        state: State,
        function: ir.Function,
        types: tuple[DType, DType, DType],
        sizes: tuple[int, int, int],
        sums: Sums,
        *,
        packed: bool,
    ) -> None:
        self.function = function
        self.dtypes = types
        self.m, self.n, self.k = sizes
        self.zero = sums.zero
        self.factors = None if sums.factors is None else function.args[3]
        self.by_column = sums.by_column
        self.depth, self.row, self.column = [*function.args[-2:], 1] if packed else function.args[-3:]
        self.type = element_type(types[2])
        self.block = _blocking(state, self.m, self.n, self.type)
        if self.type not in (F32, F64):
            self.multiply_add = self._integer
        else:
            self.multiply_add = self._fused if state.processor.features.fma else self._separate

    def emit(self) -> None:
        builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        nest = Nest(builder)
        column = nest.begin(self.n, self.block.columns) if self.n > self.block.columns else 0
        left_over = self.m % self.block.rows
        for first, end, rows in ((0, self.m - left_over, self.block.rows), (self.m - left_over, self.m, left_over)):
            level = nest.level
            row = nest.begin(end, rows, first) if end - first > rows else first
            if first < end:
                self._rows(nest, row, column, rows)
            close(nest, level)
        close(nest)
        builder.ret_void()

    def _rows(self, nest: Nest, row: Index, column: Index, rows: int) -> None:
        """The products of some rows with the columns that the accumulators hold."""
        block = self.block
        out = [
            [
                self._pointer(nest, 2, self._flat(nest, row, i, self.n, column, j * block.lanes))
                for j in range(block.vectors)
            ]
            for i in range(rows)
        ]
        sums = self._sum(nest, row, column, [self._start(nest, row, i, column, line) for i, line in enumerate(out)])
        for line, pointers in zip(sums, out):
            for value, pointer in zip(line, pointers):
                nest.builder.store(self._finished(nest, value), pointer, align=4)

    def _start(self, nest: Nest, row: Index, i: int, column: Index, pointers: Sequence[ir.Value]) -> list[ir.Value]:
        """What the sums of a row of accumulators start from."""
        width = self.block.lanes
        if self.zero:
            return [ir.Constant(ir.VectorType(self.type, width), None) for _ in pointers]
        found = [self._load(nest, p, self.type) for p in pointers]
        if self.factors is None:
            return found
        builder = nest.builder
        if self.by_column:
            places = [index.add(builder, column, j * width) for j in range(len(found))]
            factors = [self._load(nest, self._factor_at(nest, at), self.type) for at in places]
        else:
            at = self._factor_at(nest, index.add(builder, row, i))
            factors = [lanes.splat(builder, builder.load(at, align=4, typ=self.type), width)] * len(found)
        return [builder.fmul(v, f) for v, f in zip(found, factors)]

    def _factor_at(self, nest: Nest, at: Index) -> ir.Value:
        return nest.builder.gep(self.factors, [as_value(at)], source_etype=self.type)

    def _sum(self, nest: Nest, row: Index, column: Index, sums: list[list[ir.Value]]) -> list[list[ir.Value]]:
        """Add the products along k to ``sums``."""
        builder, unroll = nest.builder, min(_UNROLL, self.k)
        lines = [index.mul(builder, index.add(builder, row, i), self.row) for i in range(len(sums))]
        k = nest.begin(self.depth, unroll) if self.k > unroll else 0
        current = sums if isinstance(k, int) else [[nest.carry(v) for v in line] for line in sums]
        for u in range(unroll):
            current = self._step(nest, lines, column, k, u, current)
        if not isinstance(k, int):
            nest.end([v for line in current for v in line])
        return current

    def _finished(self, nest: Nest, value: ir.Value) -> ir.Value:
        """``value`` plus what was left out: positive zeros, which change negative ones."""
        if self.type not in (F32, F64):
            return value
        builder = nest.builder
        cut = nest.builders[0].icmp_unsigned("<", self.depth, ir.Constant(I64, self.k))
        rest = nest.builders[0].select(cut, ir.Constant(self.type, 0.0), ir.Constant(self.type, -0.0))
        return builder.fadd(value, lanes.splat(nest.builders[0], rest, self.block.lanes))

    def _step(
        self, nest: Nest, lines: list[Index], column: Index, k: Index, u: int, sums: list[list[ir.Value]]
    ) -> list[list[ir.Value]]:
        block, y_type = self.block, element_type(self.dtypes[1])
        right = []
        for j in range(block.vectors):
            pointer = self._pointer(nest, 1, self._flat(nest, k, u, self.n, column, j * block.lanes))
            right.append(self._widen(nest, self._load(nest, pointer, y_type), self.dtypes[1]))
        along = index.mul(nest.builder, index.add(nest.builder, k, u), self.column)
        result = []
        for i, line in enumerate(sums):
            at = index.add(nest.builder, lines[i], along)
            pointer = self._pointer(nest, 0, as_value(at))
            left = nest.builder.load(pointer, align=1, typ=element_type(self.dtypes[0]))
            left = lanes.splat(nest.builder, self._widen_scalar(nest, left, self.dtypes[0]), block.lanes)
            result.append([self.multiply_add(nest.builder, left, r, s) for r, s in zip(right, line)])
        return result

    def _flat(self, nest: Nest, major: Index, i: int, length: int, minor: Index, j: int) -> ir.Value:
        """(major + i) * length + minor + j."""
        builder = nest.builder
        start = index.mul(builder, index.add(builder, major, i), length)
        return as_value(index.add(builder, start, index.add(builder, minor, j)))

    def _pointer(self, nest: Nest, argument: int, flat: ir.Value) -> ir.Value:
        type_ = element_type(self.dtypes[argument])
        return nest.builder.gep(self.function.args[argument], [flat], source_etype=type_)

    def _load(self, nest: Nest, pointer: ir.Value, scalar: ir.Type) -> ir.Value:
        return nest.builder.load(pointer, align=1, typ=ir.VectorType(scalar, self.block.lanes))

    def _widen(self, nest: Nest, value: ir.Value, dtype: DType) -> ir.Value:
        return self._extend(nest, value, dtype, ir.VectorType(I32, self.block.lanes))

    def _widen_scalar(self, nest: Nest, value: ir.Value, dtype: DType) -> ir.Value:
        return self._extend(nest, value, dtype, I32)

    def _extend(self, nest: Nest, value: ir.Value, dtype: DType, type_: ir.Type) -> ir.Value:
        if not dtype.is_integer:
            return value
        return nest.builder.sext(value, type_) if dtype.is_signed else nest.builder.zext(value, type_)

    def _fused(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        name = f"llvm.fma.v{self.block.lanes}{'f64' if self.type == F64 else 'f32'}"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(a.type, [a.type] * 3), name)
        return builder.call(function, [a, b, c])

    def _separate(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """Twice rounded, which the language allows here: without an instruction, fma is a library call."""
        return builder.fadd(builder.fmul(a, b), c)

    def _integer(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return builder.add(builder.mul(a, b), c)
