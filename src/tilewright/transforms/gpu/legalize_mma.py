"""MMA ops of 8-bit floats whose right operand wgmma cannot read in shared memory as it is loaded."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.mma_graph import depends
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import DType, float16
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.gpu.wgmma import ROWS, STEP_BYTES, Interleave
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import LoadView
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.rewrite import Rewriter, replace_ops
from tilewright.transforms.base import InPlacePass


class LegalizeMma(InPlacePass):
    """Gives MMA ops a form that wgmma has, where the left operand is computed from another MMA op of the block and the
    right one is loaded along its columns: another order along k, in which threads have weights in registers.

    Warp groups read 8-bit operands along k alone. Values of attention lie across it: threads transpose them on the way
    to shared memory. Tiles that are not for warp groups are multiplied in float16, which has all numbers of 8 bits.
    Runs before ``choose-wgmma``, which sends such operands that way.
    """

    name: ClassVar[str] = "legalize-mma"

    def change(self, function: Function) -> bool:
        mmas = function.ops_of(Mma)
        chosen = [op for op in mmas if any(_follows(op, other) for other in mmas)]
        return replace_ops(function, dict.fromkeys(chosen), _legalized)


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
    t = value.op.view.partition
    return transposed != (t.order[-1] == len(t.order) - 1)


def _legalized(rewriter: Rewriter, op: Mma, _: None, b: Builder) -> list[Value]:
    left, right, acc = rewriter.all(op.operands)
    if op.x.tile.shape[-1] % STEP_BYTES == 0 and op.x.tile.shape[0] % ROWS == 0:
        factors = [b.emit(Interleave, left, axis=1), b.emit(Interleave, right, axis=0)]
    else:
        factors = [b.emit(Cast, v, dtype=float16) for v in (left, right)]
    return [b.emit(Mma, *factors, acc)]
