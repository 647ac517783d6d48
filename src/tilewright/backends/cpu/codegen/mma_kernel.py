"""The machine code of a matmul: blocks of accumulators that stay in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from llvmlite import ir

from tilewright.backends.branches import choose
from tilewright.backends.cpu.codegen import index, lanes, transpose
from tilewright.backends.cpu.codegen.buffers import Buffer, element_type
from tilewright.backends.cpu.codegen.fetch_ahead import LINE, prefetch
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.lanes import integers
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.loops.dot import Product
from tilewright.backends.external import call_external
from tilewright.backends.native.text_builder import TextBuilder
from tilewright.backends.vector import storage_type
from tilewright.backends.vector.types import F32, F64, I1, I32, I64, resized
from tilewright.ir.dtypes import DType, float64
from tilewright.records import NamedTuple

_VECTORS = 8  # of one row: some more multiply-adds than are under way at a time
_ROWS_AHEAD = 16  # that rows in arrays are fetched ahead, as by copies of them
UNROLL = 4  # steps of k per iteration of the inner loop: the fastest of 1 to 8, benchmarks/results/constants.md


# Rows and vectors of accumulators, for a number of vector registers and the bytes of each. The rest of the registers
# is for a row of the right operand and an element or two of the left one. Enough accumulators hide the latency of
# multiply-adds, and shapes near a square load the least for each.
_SHAPES = {
    (32, 64): (6, 4),  # AVX-512
    (32, 32): (8, 2),
    (32, 16): (4, 4),  # NEON
    (16, 64): (6, 2),
    (16, 32): (6, 2),  # AVX2
    (16, 16): (6, 2),  # SSE2
}


class Blocking(NamedTuple):
    """The accumulators that stay in registers: ``rows`` rows of ``vectors`` vectors of ``lanes`` elements."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def blocking(state: State, p: Product) -> Blocking:
    """The shape for the processor, or one with no more accumulators for a product that is narrower or lower.

    The vectors divide n; of m some rows may be left over.
    """
    processor, n = state.processor, p.n
    lanes = min(processor.lanes(8 if p.out is float64 else 4), n)
    rows, vectors = _SHAPES[processor.vector_registers, processor.vector_bytes]
    budget = rows * vectors
    vectors = min(vectors, n // lanes)
    rows = min(p.m, budget // vectors)
    while 2 * rows * vectors <= budget and 2 * vectors * lanes <= n:
        vectors *= 2
    return Blocking(-(-p.m // -(-p.m // rows)), vectors, lanes)


def few_rows(state: State) -> int:
    """The most rows that are multiplied together with columns that are lines in an array."""
    return state.processor.vector_registers // 4


class Accumulator(NamedTuple):
    """The buffer that products are added to: to zero, or to what it holds, times a factor where there are ``factors``.

    Each of these is for a row, or ``by_column`` for a column.
    """

    buffer: Buffer
    zero: bool = False
    factors: Buffer | None = None
    by_column: bool = False


class Kernel:
    """Emits the body of a matmul of fixed sizes but for k, where it is more than a few."""

    kind: ClassVar[str] = ""
    unroll: ClassVar[int] = UNROLL
    least_steps: ClassVar[int] = 1

    def __init__(
        self,
        state: State,
        function: ir.Function,
        p: Product,
        accumulator: Accumulator,
        *,
        packed: bool,
        fetching: bool = False,
    ) -> None:
        self.function, self.state = function, state
        self.dtypes = p.x, p.y, p.out
        self.m, self.n, self.steps = p.m, p.n, min(self.unroll, p.k)
        self.zero = accumulator.zero
        self.factors = None if accumulator.factors is None else function.args[3]
        self.by_column = accumulator.by_column
        self.height, self.depth, self.k, self.row, *others = function.args[3 if accumulator.factors is None else 4 :]
        self.stored: Sequence[ir.Value] = others[-2:] if fetching else ()
        others = others[: len(others) - len(self.stored)]
        self.column = 1 if packed else others[0]
        self.right_row = others[-1] if others else None
        self.type = element_type(p.out)
        self.block = self.blocking(state, p)
        if self.type not in (F32, F64):
            self.multiply_add = self._integer
        else:
            self.multiply_add = self._fused if state.processor.features.fma else self._separate

    def blocking(self, state: State, p: Product) -> Blocking:
        return blocking(state, p)

    def emit(self) -> None:
        builder = TextBuilder(self.function.append_basic_block("entry"))
        nest = Nest(builder)
        column = nest.begin(self.n, self.block.columns) if self.n > self.block.columns else 0
        if self.m == self.block.rows:
            self._rows(nest, 0, column, self.m)
        else:
            first, left_over = as_value(0), self.m % self.block.rows or 1
            for rows in dict.fromkeys((self.block.rows, left_over, 1)):
                rest = builder.urem(builder.sub(self.height, first), I64(rows))
                end, level = builder.sub(self.height, rest), nest.level
                self._rows(nest, nest.begin(end, rows, first, guarded=True), column, rows)
                nest.close(level)
                first = end
            self._zero_rows(nest, first, self.m, column)
        nest.close()
        builder.ret_void()

    def _zero_rows(self, nest: Nest, first: ir.Value, end: int, column: Index) -> None:
        """Rows of the left operand that are zero, from ``first`` on: what they add is the same for all of them."""
        level, builder, block = nest.level, nest.builder, self.block
        floats = self.type in (F32, F64)
        nothing = [lanes.splat(builder, ir.Constant(self.type, -0.0 if floats else 0), block.lanes)] * block.vectors

        def summed() -> list[ir.Value]:
            return [self._finished(nest, v) for v in self._sum(nest, None, column, [nothing])[0]]

        with builder.if_then(builder.icmp_unsigned("<", first, I64(end)), likely=False):
            added = nothing
            if floats:
                added = choose(builder, self._changes(nest, first, end, column), summed, lambda: nothing, likely=False)
            row = nest.begin(end, 1, first)
            pointers = self._line(nest, row, column)
            add = nest.builder.fadd if floats else nest.builder.add
            for old, new, pointer in zip(self._start(nest, row, 0, column, pointers), added, pointers):
                nest.builder.store(add(old, new), pointer, align=4)
            nest.close(level)

    def _changes(self, nest: Nest, first: ir.Value, end: int, column: Index) -> ir.Value:
        """i1: does what zeros add change the accumulators from the row ``first`` on? Where the right operand is
        infinite or NaN, as results of the row 0 are then, if there is one, or where accumulators are negative zeros."""
        builder, flags = nest.builder, ir.VectorType(I1, self.block.lanes)
        found = ir.Constant(flags, None)
        for pointer in self._line(nest, 0, column):
            value = self._load(nest, pointer, self.type)
            none = builder.fsub(value, value)
            found = builder.or_(found, builder.fcmp_unordered("uno", none, none))
        if not self.zero:
            row, bits = nest.begin(end, 1, first), I64 if self.type == F64 else I32
            seen, sign = nest.carry(found), integers(bits, [1 << bits.width - 1] * self.block.lanes)
            for old in self._start(nest, row, 0, column, self._line(nest, row, column)):
                pattern = nest.builder.bitcast(old, ir.VectorType(bits, self.block.lanes))
                seen = nest.builder.or_(seen, nest.builder.icmp_unsigned("==", pattern, sign))
            (found,) = nest.end([seen])
        word = ir.IntType(self.block.lanes)
        some = builder.icmp_unsigned("!=", builder.bitcast(found, word), word(0))
        return builder.or_(some, builder.icmp_unsigned("==", first, I64(0)))

    def _line(self, nest: Nest, row: Index, column: Index, i: int = 0) -> list[ir.Value]:
        """Where the accumulators of the row ``i`` after ``row`` are in memory."""
        starts = range(0, self.block.columns, self.block.lanes)
        return [self._pointer(nest, 2, self._flat(nest, row, i, self.n, column, at)) for at in starts]

    def _rows(self, nest: Nest, row: Index, column: Index, rows: int) -> None:
        """The products of some rows with the columns that the accumulators hold."""
        out = [self._line(nest, row, column, i) for i in range(rows)]
        start = [self._start(nest, row, i, column, line) for i, line in enumerate(out)]
        if self.stored:
            for i in range(rows):
                self._fetch_line(nest, index.add(nest.builder, row, i), column)
        accumulators = self._sum(nest, row, column, start)
        for line, pointers in zip(accumulators, out):
            for value, pointer in zip(line, pointers):
                nest.builder.store(self._finished(nest, value), pointer, align=4)

    def _fetch_line(self, nest: Nest, row: Index, column: Index) -> None:
        """Have the lines fetched that what is computed of ``row`` is going to be stored to."""
        builder, (first, distance), item = nest.builder, self.stored, 8 if self.type == F64 else 4
        start = builder.add(first, as_value(index.mul(builder, row, distance)))
        start = builder.add(start, as_value(index.mul(builder, column, item)))
        for at in range(0, self.block.columns * item, LINE):
            prefetch(builder, builder.inttoptr(builder.add(start, I64(at)), ir.PointerType()), write=True)

    def _start(self, nest: Nest, row: Index, i: int, column: Index, pointers: Sequence[ir.Value]) -> list[ir.Value]:
        """What the accumulators of a row start from."""
        width = self.block.lanes
        if self.zero:
            return [ir.Constant(ir.VectorType(self.type, width), None) for _ in pointers]
        found = [self._load(nest, p, self.type) for p in pointers]
        if self.factors is None:
            return found
        builder = nest.builder
        if self.by_column:
            columns = [index.add(builder, column, j * width) for j in range(len(found))]
            factors = [self._load(nest, self._factor_at(nest, at), self.type) for at in columns]
        else:
            at = self._factor_at(nest, index.add(builder, row, i))
            factors = [lanes.splat(builder, builder.load(at, align=4, typ=self.type), width)] * len(found)
        return [builder.fmul(v, f) for v, f in zip(found, factors)]

    def _factor_at(self, nest: Nest, at: Index) -> ir.Value:
        return nest.builder.gep(self.factors, [as_value(at)], source_etype=self.type)

    def _sum(
        self, nest: Nest, row: Index | None, column: Index, accumulators: list[list[ir.Value]]
    ) -> list[list[ir.Value]]:
        """Add the products along k to ``accumulators``, of zeros where there is no ``row``: several steps at a time,
        then what is left over. Rows that are left over go step by step: they take as long as their multiply-adds, and
        more code takes time to compile."""
        builder, first = nest.builder, as_value(0)
        lines: list[Index | None] = [None]
        if row is not None:
            lines = [index.mul(builder, index.add(builder, row, i), self.row) for i in range(len(accumulators))]
        least = min(self.steps, self.least_steps)
        for unroll in dict.fromkeys((self.steps if len(lines) == self.block.rows else least, least)):
            end = builder.and_(self.depth, I64(-unroll))
            k = nest.begin(end, unroll, first, guarded=True)
            current = [[nest.carry(v) for v in line] for line in accumulators]
            for u in range(unroll):
                current = self._step(nest, lines, column, k, u, current)
            final = iter(nest.end([v for line in current for v in line]))
            accumulators = [[next(final) for _ in line] for line in accumulators]
            first = end
        return accumulators

    def _finished(self, nest: Nest, value: ir.Value) -> ir.Value:
        """``value`` plus what was left out: positive zeros, which change negative ones."""
        if self.type not in (F32, F64):
            return value
        builder = nest.builder
        cut = nest.builders[0].icmp_unsigned("<", self.depth, self.k)
        rest = nest.builders[0].select(cut, ir.Constant(self.type, 0.0), ir.Constant(self.type, -0.0))
        return builder.fadd(value, lanes.splat(nest.builders[0], rest, self.block.lanes))

    def _step(
        self, nest: Nest, lines: list[Index | None], column: Index, k: Index, u: int, accumulators: list[list[ir.Value]]
    ) -> list[list[ir.Value]]:
        block, right = self.block, self._right(nest, k, u, column)
        along = index.mul(nest.builder, index.add(nest.builder, k, u), self.column)
        result = []
        for i, line in enumerate(accumulators):
            left = ir.Constant(self.type, 0.0 if self.type in (F32, F64) else 0)
            if (start := lines[i]) is not None:
                pointer = self._pointer(nest, 0, as_value(index.add(nest.builder, start, along)))
                left = nest.builder.load(pointer, align=1, typ=element_type(self.dtypes[0]))
                left = self._widen(nest, left, self.dtypes[0])
            left = lanes.splat(nest.builder, left, block.lanes)
            result.append([self.multiply_add(nest.builder, left, r, s) for r, s in zip(right, line)])
        return result

    def _right(self, nest: Nest, k: Index, u: int, column: Index) -> list[ir.Value]:
        """Row k + u of the right operand, as far as the accumulators need it."""
        type_, found = element_type(self.dtypes[1]), []
        for j in range(self.block.vectors):
            pointer = self._pointer(nest, 1, self._flat(nest, k, u, self.n, column, j * self.block.lanes))
            found.append(self._widen(nest, self._load(nest, pointer, type_), self.dtypes[1]))
        return found

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
        return resized(nest.builder, value, I32, signed=dtype.is_signed) if dtype.is_integer else value

    def _fused(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        name = f"llvm.fma.v{self.block.lanes}{'f64' if self.type == F64 else 'f32'}"
        return call_external(builder, name, a.type, [a, b, c])

    def _separate(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """Twice rounded, which the language allows here: without an instruction, fma is a library call."""
        return builder.fadd(builder.fmul(a, b), c)

    def _integer(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return builder.add(builder.mul(a, b), c)


class RowsKernel(Kernel):
    """As ``Kernel``, of one row and a right operand in an array, of which each element is read once."""

    kind: ClassVar[str] = "rows."

    def blocking(self, state: State, p: Product) -> Blocking:
        width = min(state.processor.lanes(8 if p.out is float64 else 4), p.n)
        return Blocking(1, min(_VECTORS, p.n // width), width)

    def _right(self, nest: Nest, k: Index, u: int, column: Index) -> list[ir.Value]:
        builder, dtype, width, found = nest.builder, self.dtypes[1], self.block.lanes, []
        line = index.mul(builder, index.add(builder, k, u), self.right_row)
        ahead = index.mul(nest.builders[0], self.right_row, _ROWS_AHEAD)
        for j in range(self.block.vectors):
            at = index.add(builder, line, index.add(builder, column, j * width))
            pointer, far = (
                builder.gep(self.function.args[1], [as_value(n)], source_etype=storage_type(dtype))
                for n in (at, index.add(builder, at, ahead))
            )
            prefetch(builder, far)
            stored = builder.load(pointer, align=1, typ=storage_type(dtype, width))
            found.append(self.state.emitter(builder, width).to_register(dtype, stored))
        return found


class TransposedKernel(Kernel):
    """As ``Kernel``, of one row or few and a right operand whose columns are lines in memory, no shorter than a vector.

    As many lines as a vector has lanes are read together, and each of them once, from its beginning to its end.
    """

    kind: ClassVar[str] = "transposed."
    unroll: ClassVar[int] = 16
    least_steps: ClassVar[int] = 16

    def blocking(self, state: State, p: Product) -> Blocking:
        rows = p.m if p.m <= few_rows(state) else 1
        return Blocking(rows, 1, state.processor.lanes(8 if p.out is float64 else 4))

    def _right(self, nest: Nest, k: Index, u: int, column: Index) -> list[ir.Value]:
        side, builder, dtype = transpose.PART_BYTES // (8 if self.type == F64 else 4), nest.builder, self.dtypes[1]
        if u % side == 0:
            stored = storage_type(dtype)
            numbers = (index.add(builder, column, i) for i in range(self.block.lanes))
            starts = [index.add(builder, index.mul(builder, n, self.right_row), k) for n in numbers]
            places = [as_value(index.add(builder, start, u)) for start in starts]
            lines = [builder.gep(self.function.args[1], [at], source_etype=stored) for at in places]
            if u == 0:
                self._fetch_ahead(nest, column, lines, stored)
            emitter = self.state.emitter(builder, self.block.lanes)
            self._columns = transpose.load_columns(
                builder, lines, ir.VectorType(stored, side), lambda row: emitter.to_register(dtype, row)
            )
        return [self._columns[u % side]]

    def _fetch_ahead(self, nest: Nest, column: Index, lines: list[ir.Value], stored: ir.Type) -> None:
        """Have the elements fetched that are next to be read as ``lines`` are: those of the next lines, or behind the
        first ones."""
        outer = nest.builders[-2]
        after = index.add(outer, column, self.block.lanes)
        more = outer.icmp_unsigned("<", as_value(after), I64(self.n))
        distance = index.mul(outer, self.block.lanes, self.right_row)
        distance = outer.select(more, distance, outer.sub(self.depth, outer.mul(as_value(column), self.right_row)))
        for line in lines:
            prefetch(nest.builder, nest.builder.gep(line, [distance], source_etype=stored))
