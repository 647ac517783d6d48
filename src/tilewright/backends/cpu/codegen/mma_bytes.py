"""Products of 8-bit integers by instructions that multiply and add four pairs of bytes at a time (AVX-512 VNNI).

The instruction wants unsigned bytes on one side and signed ones on the other. Where both operands have the same
signedness, 128 is added to (or subtracted from) the left one, and 128 times the sums of the columns of the right one
are taken away from the result: exact, as everything is modulo 2**32.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.cpu.codegen import index, lanes
from tilewright.backends.cpu.codegen.index import Index
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.loops.linear import BYTE_LANES, BYTES_PER_LANE
from tilewright.backends.vector.types import I8, I32, I64
from tilewright.ir.dtypes import DType

_ROWS, _VECTORS = 4, 4  # of accumulators: 16 of the 32 registers, beside 4 for the panel and those for bytes of rows
_UNROLL = 4  # of steps along k; chosen, no measurement on record
_VECTOR = ir.VectorType(I32, BYTE_LANES)
_DOT = "llvm.x86.avx512.vpdpbusd.512"


class ByteKernel:
    """Emits the body of ``function(x, y, out, work, x_row, y_row)``, which adds x @ y to out.

    The last two are the distances of the rows of x and y.
    """

    def __init__(self, function: ir.Function, x: DType, y: DType, sizes: tuple[int, int, int]) -> None:
        self.x, self.y, self.out, self.work, self.x_row, self.y_row = function.args
        self.function = function
        self.m, self.n, self.k = sizes
        self.groups = self.k // BYTES_PER_LANE
        self.flip = x.is_signed == y.is_signed
        self.right_unsigned = not y.is_signed
        self.vectors = min(_VECTORS, self.n // BYTE_LANES)
        self.rows = min(_ROWS, self.m)

    @property
    def columns(self) -> int:
        return self.vectors * BYTE_LANES

    def emit(self) -> None:
        builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        nest = Nest(builder)
        if self.flip:
            self._flip_left(nest)
        column = nest.begin(self.n, self.columns) if self.n > self.columns else 0
        sums = self._pack_panel(nest, column)
        row = nest.begin(self.m, self.rows) if self.m > self.rows else 0
        self._rows(nest, row, column, sums)
        while nest.level:
            nest.end()
        builder.ret_void()

    def _flip_left(self, nest: Nest) -> None:
        """Copy x to the scratch memory with the highest bit of each byte inverted."""
        width = min(self.k, 64)
        type_ = ir.VectorType(I8, width)
        row = nest.begin(self.m) if self.m > 1 else 0
        at = nest.begin(self.k, width) if self.k > width else 0
        builder = nest.builder
        source = index.add(builder, index.mul(builder, self.x_row, row), at)
        value = builder.load(self._at(nest, self.x, source), align=1, typ=type_)
        flipped = builder.xor(value, lanes.integers(I8, [0x80] * width))
        target = index.add(builder, index.mul(builder, row, self.k), at)
        builder.store(flipped, self._at(nest, self.work, target), align=1)
        while nest.level:
            nest.end()

    def _pack_panel(self, nest: Nest, column: Index) -> list[ir.Value]:
        """Copy some columns of y to the scratch memory, four elements along k side by side.

        Returns what is to be subtracted from the results of each column.
        """
        zero = ir.Constant(_VECTOR, None)
        looping = self.groups > 1
        group: Index = nest.begin(self.groups) if looping else 0
        totals = [nest.carry(zero) if looping and self.flip else zero for _ in range(self.vectors)]
        builder, following = nest.builder, []
        for j, total in enumerate(totals):
            rows = []
            for t in range(BYTES_PER_LANE):
                line = index.add(builder, index.mul(builder, group, BYTES_PER_LANE), t)
                at = index.add(
                    builder, index.mul(builder, self.y_row, line), index.add(builder, column, j * BYTE_LANES)
                )
                rows.append(builder.load(self._at(nest, self.y, at), align=1, typ=ir.VectorType(I8, BYTE_LANES)))
            packed = builder.bitcast(_interleave(builder, rows), _VECTOR)
            builder.store(packed, self._panel(nest, group, j), align=1)
            following.append(self._sum_column(nest, total, packed) if self.flip else zero)
        if looping:
            nest.end(following if self.flip else [])
        return following

    def _sum_column(self, nest: Nest, total: ir.Value, packed: ir.Value) -> ir.Value:
        """Add 128 times (right operand signed) or -128 times (unsigned) the elements of each column to ``total``."""
        factor = nest.builder.bitcast(lanes.integers(I8, [0x80] * 64), _VECTOR)
        return self._dot(nest, total, factor, packed)

    def _rows(self, nest: Nest, row: Index, column: Index, corrections: list[ir.Value]) -> None:
        builder = nest.builder
        pointers = []
        for i in range(self.rows):
            line = index.mul(builder, index.add(builder, row, i), self.n)
            start = index.add(builder, line, column)
            pointers.append([self._at(nest, self.out, start, I32, j * BYTE_LANES) for j in range(self.vectors)])
        sums = [
            [builder.sub(builder.load(p, align=4, typ=_VECTOR), c) for p, c in zip(line, corrections)]
            for line in pointers
        ]
        unroll = min(_UNROLL, self.groups)
        group = nest.begin(self.groups, unroll) if self.groups > unroll else 0
        if not isinstance(group, int):
            sums = [[nest.carry(v) for v in line] for line in sums]
        for u in range(unroll):
            sums = self._step(nest, row, index.add(nest.builder, group, u), sums)
        if not isinstance(group, int):
            nest.end([v for line in sums for v in line])
        for line, places in zip(sums, pointers):
            for value, place in zip(line, places):
                nest.builder.store(value, place, align=4)

    def _step(self, nest: Nest, row: Index, group: Index, sums: list[list[ir.Value]]) -> list[list[ir.Value]]:
        builder = nest.builder
        right = [builder.load(self._panel(nest, group, j), align=1, typ=_VECTOR) for j in range(self.vectors)]
        (source, length), result = (self.work, self.k) if self.flip else (self.x, self.x_row), []
        for i, line in enumerate(sums):
            at = index.mul(builder, index.add(builder, row, i), length)
            at = index.add(builder, at, index.mul(builder, group, BYTES_PER_LANE))
            word = builder.load(self._at(nest, source, at), align=1, typ=I32)
            left = lanes.splat(builder, word, BYTE_LANES)
            result.append([self._dot(nest, total, left, r) for total, r in zip(line, right)])
        return result

    def _dot(self, nest: Nest, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """``total`` plus the products of bytes, four to a lane; the instruction takes the unsigned side first."""
        builder = nest.builder
        function = builder.module.globals.get(_DOT)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), _DOT)
        return builder.call(function, [total, right, left] if self.right_unsigned else [total, left, right])

    def _panel(self, nest: Nest, group: Index, j: int) -> ir.Value:
        builder = nest.builder
        at = index.add(builder, index.mul(builder, group, BYTES_PER_LANE * self.columns), self.m * self.k + 64 * j)
        return self._at(nest, self.work, at)

    def _at(self, nest: Nest, base: ir.Value, at: Index, type_: ir.Type = I8, offset: int = 0) -> ir.Value:
        builder = nest.builder
        found = builder.gep(base, [index.as_value(at)], source_etype=type_)
        return builder.gep(found, [ir.Constant(I64, offset)], source_etype=type_) if offset else found


def _interleave(builder: ir.IRBuilder, rows: list[ir.Value]) -> ir.Value:
    """The elements of four vectors in turns."""
    count = rows[0].type.count
    pairs = [i for lane in range(count) for i in (lane, count + lane)]
    low, high = (lanes.merge(builder, rows[t], rows[t + 1], pairs) for t in (0, 2))
    quads = [i for lane in range(count) for i in (2 * lane, 2 * lane + 1, 2 * (count + lane), 2 * (count + lane) + 1)]
    return lanes.merge(builder, low, high, quads)
