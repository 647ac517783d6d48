"""MMA ops without tensor cores go along k in steps, so that their operands fit into registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.ops.gpu.memory import SharedExtract, SharedLoad
from tilewright.ir.ops.gpu.mma import FMA, GpuMma, operand_layouts
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.rewrite import Rewriter
from tilewright.ir.structured import emit_for
from tilewright.ir.types import TileType
from tilewright.transforms.gpu.through_shared import share


@dataclass(frozen=True)
class SplitFma:
    """Makes a loop of an MMA op with FMAs: each iteration loads ``step`` of k from shared memory, and multiplies.

    Without it each thread would hold its rows and columns for all of k.
    Runs after ``pipeline-loads``, whose buffers it reads, and before conversions are lowered, in whose place it stores
    operands to shared memory.
    """

    name: ClassVar[str] = "split-fma"
    step: int = 8

    def run(self, function: Function) -> Function:
        if not any(isinstance(op, GpuMma) and self.splits(op) for op in function.walk()):
            return function
        return _Splitter(self).function(function)

    def splits(self, op: GpuMma) -> bool:
        """Whether ``op`` multiplies with FMAs, and more than one step."""
        return op.instruction == FMA and op.x.tile.shape[-1] > self.step


class _Splitter(Rewriter):
    def __init__(self, options: SplitFma) -> None:
        super().__init__()
        self.options = options

    def rewrite(self, op: Op, builder: Builder) -> list[Value] | None:
        if not isinstance(op, GpuMma) or not self.options.splits(op):
            return None
        step, acc = self.options.step, op.acc.tile
        x, y = (_buffer(builder, v) for v in (op.x, op.y))
        parts = operand_layouts(FMA, op.acc.layout, step, acc.element.bitwidth)
        zero = builder.constant(0, int32)

        def add(at: Value, so_far: Value) -> list[Value]:
            outer = [zero] * (acc.rank - 2)
            a = _part(builder, x, [*outer, zero, at], op.x.tile, parts[0])
            b = _part(builder, y, [*outer, at, zero], op.y.tile, parts[1])
            return [builder.emit(GpuMma, a, b, so_far, instruction=FMA)]

        count, one = builder.constant(op.x.tile.shape[-1] // step, int32), builder.constant(1, int32)
        return emit_for(builder, (zero, count, one), [op.acc], add).results


def _buffer(b: Builder, operand: Value) -> Value:
    """Shared memory that holds ``operand``: where it was loaded from, or a buffer to which it is stored."""
    if isinstance(operand.op, SharedLoad):
        return operand.op.buffer
    return share(b, operand.op.x if isinstance(operand.op, ConvertLayout) else operand)


def _part(b: Builder, buffer: Value, indices: list[Value], t: TileType, layout: LinearLayout) -> Value:
    return b.emit(SharedExtract, buffer, indices, type=TileType(t.dtype, layout.shape, layout))
