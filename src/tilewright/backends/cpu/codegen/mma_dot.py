"""MMA by instructions that add products of adjacent elements along k (AVX-512 VNNI and BF16).

That for bytes wants unsigned ones on one side and signed ones on the other. Where both operands have the same
signedness, 128 is added to (or subtracted from) the right one, which is copied anyway, and 128 times the sums of the
rows of the left one are taken away from the result: exact, as everything is modulo 2**32.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import index, lanes
from tilewright.backends.cpu.codegen.index import Index
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.loops.dot import LANES, VECTORS, DotInstruction, Product
from tilewright.backends.external import call_external
from tilewright.backends.native.text_builder import TextBuilder
from tilewright.backends.vector.types import F32, I8, I16, I32, I64

_ROWS = 4  # of accumulators: with 4 vectors each, 16 of the 32 registers, beside 4 for the panel and those for x
_UNROLL = 4  # of steps along k: within the noise of benchmarks/results/constants.md, 1 to 8 are equal
_VECTOR_BYTES = 4 * LANES
_WORDS = ir.VectorType(I32, LANES)


class DotKernel:
    """Emits the body of ``function(x, y, out, work, x_row)``, which adds x @ y to out.

    The last is the distance of the rows of x. bfloat16 is kept as float32 in y, and in x where that is ``widened``.
    Where y is ``interleaved``, a function with ``emit_interleave`` has written it.
    """

    most_vectors, most_rows = VECTORS, _ROWS

    def __init__(
        self, function: ir.Function, dot: DotInstruction, p: Product, *, widened: bool, interleaved: bool
    ) -> None:
        self.x, self.y, self.out, self.work, self.x_row = function.args
        self.function, self.dot = function, dot
        self.m, self.n, self.k = p.m, p.n, p.k
        # Where all panels lie, one behind the other; None where each takes the place of the one before.
        self.panels, self.panel_start = (self.y if interleaved else None), dot.copy_bytes(p)
        self.groups = self.k // dot.per_lane
        self.flip = dot.mixed_signs and p.x.is_signed == p.y.is_signed
        self.right_unsigned = dot.mixed_signs and p.y.is_signed == self.flip
        self.x_widened = widened
        self.element = {1: I8, 2: I16}[dot.element_bytes]
        self.integer = p.x.is_integer
        self.total = ir.VectorType(I32 if self.integer else F32, LANES)
        self.vectors = min(self.most_vectors, self.n // LANES)
        self.rows = min(self.most_rows, self.m)

    @property
    def columns(self) -> int:
        return self.vectors * LANES

    @property
    def rows_first(self) -> bool:
        """Whether some rows are multiplied with all columns, and not some columns with all rows."""
        return False

    def emit(self) -> None:
        builder = TextBuilder(self.function.append_basic_block("entry"))
        nest = Nest(builder)
        self.begin(builder)
        if self.x_widened:
            self._copy_left(nest)
        if self.flip:
            self._sum_rows(nest)
        row: Index = nest.begin(self.m, self.rows) if self.rows_first and self.m > self.rows else 0
        column = nest.begin(self.n, self.columns) if self.n > self.columns else 0
        if self.panels is None:
            self._pack_panel(nest, column)
        if not self.rows_first and self.m > self.rows:
            row = nest.begin(self.m, self.rows)
        self._rows(nest, row, column)
        nest.close()
        self.end(builder)
        builder.ret_void()

    def emit_interleave(self) -> None:
        """Instead, the body of a function that only writes y, rearranged, to work."""
        builder, self.panels = TextBuilder(self.function.append_basic_block("entry")), self.work
        nest = Nest(builder)
        self._pack_panel(nest, nest.begin(self.n, self.columns) if self.n > self.columns else 0)
        nest.close()
        builder.ret_void()

    def begin(self, builder: ir.IRBuilder) -> None:
        """Before everything."""

    def end(self, builder: ir.IRBuilder) -> None:
        """After everything."""

    def _copy_left(self, nest: Nest) -> None:
        """Copy x to the scratch memory, narrowed."""
        width = min(self.k, 64)
        row = nest.begin(self.m) if self.m > 1 else 0
        at = nest.begin(self.k, width) if self.k > width else 0
        builder = nest.builder
        source = index.add(builder, index.mul(builder, self.x_row, row), at)
        value = self._load(nest, self.x, source, width, widened=True)
        target = index.add(builder, index.mul(builder, row, self.k), at)
        builder.store(value, self._at(nest, self.work, target, self.element), align=self.dot.element_bytes)
        nest.close()

    def _sum_rows(self, nest: Nest) -> None:
        """Store what is to be subtracted from the results of each row: its sum, 128 times (signed operands) or -128."""
        width = min(self.k, _VECTOR_BYTES)
        row = nest.begin(self.m) if self.m > 1 else 0
        builder = nest.builder
        start, total = index.mul(builder, self.x_row, row), ir.Constant(_WORDS, None)
        factor = builder.bitcast(lanes.integers(I8, [0x80] * _VECTOR_BYTES), _WORDS)
        for k in range(0, self.k, width):
            part = self._load(nest, self.x, index.add(builder, start, k), width, widened=False)
            filled = [min(i, width) for i in range(_VECTOR_BYTES)]
            part = lanes.merge(builder, part, ir.Constant(part.type, None), filled)
            total = self._dot(nest, total, builder.bitcast(part, _WORDS), factor)
        found = call_external(builder, "llvm.vector.reduce.add.v16i32", I32, [total])
        builder.store(found, self._at(nest, self.work, row, I32), align=4)
        nest.close()

    def _load(self, nest: Nest, base: ir.Value, at: Index, width: int, *, widened: bool) -> ir.Value:
        """``width`` elements of an operand from ``at`` on; of a float32 that holds a bfloat16, its upper half."""
        builder = nest.builder
        if not widened:
            type_ = ir.VectorType(self.element, width)
            return builder.load(self._at(nest, base, at, self.element), align=self.dot.element_bytes, typ=type_)
        type_ = ir.VectorType(I32, width)
        words = builder.load(self._at(nest, base, at, I32), align=4, typ=type_)
        upper = builder.lshr(words, lanes.integers(I32, [16] * width))
        return builder.trunc(upper, ir.VectorType(self.element, width))

    def _pack_panel(self, nest: Nest, column: Index) -> None:
        """Copy some columns of y to the scratch memory, with the elements along k of a lane side by side."""
        looping = self.groups > 1
        group: Index = nest.begin(self.groups) if looping else 0
        builder = nest.builder
        for j in range(self.vectors):
            rows = []
            for t in range(self.dot.per_lane):
                line = index.add(builder, index.mul(builder, group, self.dot.per_lane), t)
                at = index.add(builder, index.mul(builder, line, self.n), index.add(builder, column, j * LANES))
                rows.append(self._load(nest, self.y, at, LANES, widened=not self.integer))
            packed = _interleave(builder, rows)
            if self.flip:
                packed = builder.xor(packed, lanes.integers(I8, [0x80] * _VECTOR_BYTES))
            builder.store(packed, self._panel(nest, group, column, j), align=1)
        if looping:
            nest.end()

    def _rows(self, nest: Nest, row: Index, column: Index) -> None:
        builder = nest.builder
        pointers = []
        for i in range(self.rows):
            line = index.mul(builder, index.add(builder, row, i), self.n)
            start = index.add(builder, line, column)
            pointers.append([self._at(nest, self.out, start, I32, j * LANES) for j in range(self.vectors)])
        accumulators = [[builder.load(p, align=4, typ=self.total) for p in line] for line in pointers]
        if self.flip:
            for i, line in enumerate(accumulators):
                address = self._at(nest, self.work, index.add(builder, row, i), I32)
                correction = lanes.splat(builder, builder.load(address, align=4, typ=I32), LANES)
                line[:] = [builder.sub(total, correction) for total in line]
        unroll = min(_UNROLL, self.groups)
        group = nest.begin(self.groups, unroll) if self.groups > unroll else 0
        if not isinstance(group, int):
            accumulators = [[nest.carry(v) for v in line] for line in accumulators]
        for u in range(unroll):
            accumulators = self._step(nest, (row, column), index.add(nest.builder, group, u), accumulators)
        if not isinstance(group, int):
            nest.end([v for line in accumulators for v in line])
        for line, addresses in zip(accumulators, pointers):
            for value, address in zip(line, addresses):
                nest.builder.store(value, address, align=4)

    def _step(
        self, nest: Nest, start: tuple[Index, Index], group: Index, accumulators: list[list[ir.Value]]
    ) -> list[list[ir.Value]]:
        builder, (row, column) = nest.builder, start
        right = [builder.load(self._panel(nest, group, column, j), align=1, typ=_WORDS) for j in range(self.vectors)]
        (source, length), result = (self.work, self.k) if self.x_widened else (self.x, self.x_row), []
        for i, line in enumerate(accumulators):
            at = index.mul(builder, index.add(builder, row, i), length)
            at = index.add(builder, at, index.mul(builder, group, self.dot.per_lane))
            word = builder.load(self._at(nest, source, at, self.element), align=self.dot.element_bytes, typ=I32)
            left = lanes.splat(builder, word, LANES)
            result.append([self._dot(nest, total, left, r) for total, r in zip(line, right)])
        return result

    def _dot(self, nest: Nest, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """``total`` plus the products of the elements of each lane; that of bytes takes the unsigned side first."""
        arguments = [total, right, left] if self.right_unsigned else [total, left, right]
        return call_external(nest.builder, self.dot.intrinsic, self.total, arguments, [self.total, _WORDS, _WORDS])

    def _panel(self, nest: Nest, group: Index, column: Index, j: int) -> ir.Value:
        """Where the vector ``j`` of a group is, of those of the panel that begins at ``column``."""
        builder = nest.builder
        at = index.add(builder, index.mul(builder, group, 4 * self.columns), _VECTOR_BYTES * j)
        if self.panels is None:
            return self._at(nest, self.work, index.add(builder, at, self.panel_start))
        return self._at(nest, self.panels, index.add(builder, index.mul(builder, column, 4 * self.groups), at))

    def _at(self, nest: Nest, base: ir.Value, at: Index, type_: ir.Type = I8, offset: int = 0) -> ir.Value:
        builder = nest.builder
        found = builder.gep(base, [index.as_value(at)], source_etype=type_)
        return builder.gep(found, [ir.Constant(I64, offset)], source_etype=type_) if offset else found


def _interleave(builder: ir.IRBuilder, rows: list[ir.Value]) -> ir.Value:
    """The elements of two or four vectors in turns; of the bytes of four, words between lanes of 128 bits first, which
    becomes one or two instructions."""
    count = rows[0].type.count
    if len(rows) == 2:
        return lanes.merge(builder, rows[0], rows[1], [i for lane in range(count) for i in (lane, count + lane)])
    low, high = (lanes.merge(builder, rows[t], rows[t + 1], range(2 * count)) for t in (0, 2))
    whole = lanes.merge(builder, low, high, range(4 * count))
    words = builder.bitcast(whole, _WORDS)
    words = lanes.merge(builder, words, words, [4 * row + lane for lane in range(4) for row in range(4)])
    whole = builder.bitcast(words, whole.type)
    chosen = [16 * lane + 4 * row + i for lane in range(4) for i in range(4) for row in range(4)]
    return lanes.merge(builder, whole, whole, chosen)
