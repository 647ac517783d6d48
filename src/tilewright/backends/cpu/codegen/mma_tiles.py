"""MMA by the tile registers of AMX: a square of 16 x 16 accumulators, from 64 bytes of elements along k each time.

Source: Intel's Architecture Instruction Set Extensions Reference, chapter 3.
"""

from __future__ import annotations

import struct

from llvmlite import ir

from tilewright.backends.cpu.codegen import index
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.cpu.codegen.mma_dot import DotKernel
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.loops.dot import LANES, TILE_ROWS
from tilewright.backends.external import call_external
from tilewright.backends.vector.types import I8, I32, I64
from tilewright.ir.layouts import log2

_REGISTERS, _ROW_BYTES = 8, 64
_SIDE = 2  # of a square of registers with accumulators: 4, beside 2 for each operand, each loaded once for two of them
_LEFT, _RIGHT = _SIDE * _SIDE, _SIDE * _SIDE + _SIDE  # the first registers of the operands
_POINTER = ir.PointerType()
# Palette 1, no row to restart at, 14 bytes reserved; bytes of the rows of 8 registers and of 8 that there are not, and
# how many rows these have.
_CONFIGURATION = struct.pack(
    "<BB14x16H16B", 1, 0, *[_ROW_BYTES] * _REGISTERS, *[0] * 8, *[TILE_ROWS] * _REGISTERS, *[0] * 8
)


class TileKernel(DotKernel):
    """As the kernel of dot instructions, from whose panel of the right operand it loads tile registers."""

    most_vectors, most_rows = _SIDE, _SIDE * TILE_ROWS

    @property
    def rows_first(self) -> bool:
        """Panels follow each other, the rows of x lie apart: those of bytes are few enough lines to gain by that."""
        return self.panels is not None and self.dot.element_bytes == 1

    def begin(self, builder: ir.IRBuilder) -> None:
        type_ = ir.ArrayType(I8, len(_CONFIGURATION))
        name = "tw.mma.tiles"
        known = self.function.module.globals.get(name)
        if known is None:
            known = ir.GlobalVariable(self.function.module, type_, name)
            known.global_constant, known.linkage, known.align = True, "internal", _ROW_BYTES
            known.initializer = ir.Constant(type_, bytearray(_CONFIGURATION))
        self._do(builder, "ldtilecfg", known)

    def end(self, builder: ir.IRBuilder) -> None:
        self._do(builder, "tilerelease")

    def _rows(self, nest: Nest, row: Index, column: Index) -> None:
        across, down = self.vectors, self.rows // TILE_ROWS
        builder, accumulators = nest.builder, []
        for i in range(down):
            for j in range(across):
                line = index.add(builder, row, i * TILE_ROWS)
                start = index.add(builder, index.mul(builder, line, self.n), index.add(builder, column, j * LANES))
                accumulators.append((I8(_SIDE * i + j), self._at(nest, self.out, start, I32), I64(4 * self.n)))
        for register in accumulators:
            self._do(builder, "tileloadd64", *register)
        step = self.dot.per_lane * TILE_ROWS  # elements along k
        k = nest.begin(self.k, step) if self.k > step else 0
        inner, (source, length) = nest.builder, (self.work, self.k) if self.x_widened else (self.x, self.x_row)
        distance = as_value(index.mul(inner, length, self.dot.element_bytes))
        for i in range(down):
            line = index.mul(inner, index.add(inner, row, i * TILE_ROWS), length)
            start = self._at(nest, source, index.add(inner, line, k), self.element)
            self._do(inner, "tileloadd64", I8(_LEFT + i), start, distance)
        for j in range(across):
            group = k // self.dot.per_lane if isinstance(k, int) else inner.lshr(k, I64(log2(self.dot.per_lane)))
            self._do(inner, "tileloadd64", I8(_RIGHT + j), self._panel(nest, group, column, j), I64(4 * self.columns))
        for i in range(down):
            for j in range(across):
                self._do(inner, self.dot.intrinsic, I8(_SIDE * i + j), I8(_LEFT + i), I8(_RIGHT + j))
        if not isinstance(k, int):
            nest.end()
        for register in accumulators:
            self._do(nest.builder, "tilestored64", *register)

    def _do(self, builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> None:
        """Call an intrinsic, which gives nothing back."""
        full_name = name if name.startswith("llvm.") else f"llvm.x86.{name}"
        types = [_POINTER if a.type.is_pointer else a.type for a in arguments]
        call_external(builder, full_name, ir.VoidType(), arguments, types)
