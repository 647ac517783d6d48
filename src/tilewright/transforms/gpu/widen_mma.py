"""MMA ops of 8-bit floats whose right operand wgmma cannot read in shared memory are those of float16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.mma_graph import depends
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType, float16
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.rewrite import Rewriter
from tilewright.ir.types import PartitionViewType


@dataclass(frozen=True)
class WidenMma:
    """Multiplies in float16, which has all numbers of 8-bit floats, where the left operand is computed from another
    MMA op of the block and the right one is loaded along its columns.

    Warp groups read 8-bit operands along k alone. Values of attention lie across it: threads convert them on the way to
    shared memory, and weights in registers. Runs before ``choose-wgmma``, which sends operands of 16 bits that way.
    """

    name: ClassVar[str] = "widen-mma"

    def run(self, function: Function) -> Function:
        mmas = [op for op in function.walk() if isinstance(op, Mma)]
        chosen = {op for op in mmas if any(_follows(op, other) for other in mmas)}
        return _Widener(chosen).function(function) if chosen else function


def _follows(op: Mma, other: Mma) -> bool:
    """Whether the left operand of ``op``, of 8-bit floats, is computed from ``other``, and the right one is loaded."""
    if op is other or op.block is not other.block or not (_is_small(op.x) and _is_small(op.y)):
        return False
    return op.x.tile.rank == 2 and depends(op, other) and _lies_along_columns(op.y)


def _is_small(value: Value) -> bool:
    t = value.tile.element
    return isinstance(t, DType) and t.short in ("f8e4m3fn", "f8e5m2")


def _lies_along_columns(value: Value) -> bool:
    """Whether a right operand is a tile of an array whose last axis is that of its columns."""
    transposed = False
    while isinstance(value.op, (Permute, Reshape)):
        transposed ^= isinstance(value.op, Permute)
        value = value.op.x
    if not isinstance(value.op, LoadView):
        return False
    t = value.op.view.type
    assert isinstance(t, PartitionViewType)
    return transposed != (t.order[-1] == len(t.order) - 1)


class _Widener(Rewriter):
    def __init__(self, chosen: set[Mma]) -> None:
        super().__init__()
        self.chosen = chosen

    def insert(self, op: Op, builder: Builder) -> None:
        if not isinstance(op, Mma) or op not in self.chosen:
            super().insert(op, builder)
            return
        builder.loc = op.loc
        factors = [builder.emit(Cast, self.value(v), dtype=float16) for v in (op.x, op.y)]
        self.values[op.result] = builder.emit(Mma, *factors, self.value(op.acc))
