"""MMA ops without tensor cores go along k in steps, so that their operands fit into registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.ops.gpu.memory import SharedExtract, SharedLoad
from tilewright.ir.ops.gpu.mma import FMA, GpuMma, operand_layouts
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.rewrite import Rewriter, replace_ops
from tilewright.ir.structured import emit_for
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.through_shared import share


@dataclass(frozen=True)
class SplitFma(InPlacePass):
    """Makes several MMA ops of one with FMAs, or a loop where these were ``most`` instructions of a thread and more:
    each loads ``step`` of k from shared memory, and multiplies.

    Without it each thread would hold its rows and columns for all of k.
    Runs after ``pipeline-loads``, whose buffers it reads, and before conversions are lowered, in whose place it stores
    operands to shared memory.
    """

    name: ClassVar[str] = "split-fma"
    step: int = 4
    most: int = 8192

    def change(self, function: Function) -> bool:
        mmas = [op for op in function.ops_of(GpuMma) if op.instruction == FMA]
        long = [op for op in mmas if op.x.tile.shape[-1] > self.step]
        return replace_ops(function, dict.fromkeys(long, self), _split)


def _split(rewriter: Rewriter, op: GpuMma, how: SplitFma, b: Builder) -> Sequence[Value]:
    step, k = how.step, op.x.tile.shape[-1]
    acc, (left, right, total) = op.acc.tile, rewriter.all(op.operands)
    x, y, zero = _buffer(b, left), _buffer(b, right), b.constant(0, int32)
    parts = operand_layouts(FMA, op.acc.layout, step, acc.element.bitwidth)

    def add(at: Value, so_far: Value) -> list[Value]:
        outer = [zero] * (acc.rank - 2)
        part_x = _part(b, x, [*outer, zero, at], op.x.tile, parts[0])
        part_y = _part(b, y, [*outer, at, zero], op.y.tile, parts[1])
        return [b.emit(GpuMma, part_x, part_y, so_far, instruction=FMA)]

    if op.acc.layout.num_registers * k < how.most:
        for at in range(k // step):  # loads of the next one run beside the multiplications
            (total,) = add(b.constant(at, int32), total)
        return [total]
    return emit_for(b, (zero, b.constant(k // step, int32), b.constant(1, int32)), [total], add).results


def _buffer(b: Builder, operand: Value) -> Value:
    """Shared memory that holds ``operand``: where it was loaded from, or a buffer to which it is stored."""
    if isinstance(operand.op, SharedLoad):
        return operand.op.buffer
    return share(b, operand.op.x if isinstance(operand.op, ConvertLayout) else operand)


def _part(b: Builder, buffer: Value, indices: list[Value], t: TileType, layout: LinearLayout) -> Value:
    return b.emit(SharedExtract, buffer, indices, type=TileType(t.dtype, layout.shape, layout))
