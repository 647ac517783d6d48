"""MMA ops of scaled operands as plain ones, of a dtype in which the scaled operands are exact."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import DType, bfloat16, float32, float64
from tilewright.ir.ops.arith import Cast, Mul
from tilewright.ir.ops.linear import Mma, MmaScaled
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.rewrite import lower_ops
from tilewright.records import dataclass
from tilewright.transforms.base import InPlacePass


@dataclass(frozen=True)
class LowerMmaScaled(InPlacePass):
    """Leaves no ``mma_scaled``. Its operands have few bits, and the exponents of bfloat16 are those of float32; in
    float64 products of two scales fit, too, which may be far outside the range of float32.

    Runs before layouts are assigned, or loops fused, which then treat what is multiplied as any other.
    """

    dtype: DType = bfloat16
    name: ClassVar[str] = "lower-mma-scaled"

    def change(self, function: Function) -> bool:
        return lower_ops(function, {MmaScaled: self._lowered})

    def _lowered(self, op: MmaScaled, b: Builder) -> Value:
        x = self._scaled(b, op.x, op.x_scale, op.x.tile.rank - 1)
        y = self._scaled(b, op.y, op.y_scale, op.y.tile.rank - 2)
        if self.dtype is not float64:
            return b.emit(Mma, x, y, op.acc)
        product = b.emit(Mma, x, y, b.emit(Cast, op.acc, dtype=float64))
        return b.emit(Cast, product, dtype=op.acc.tile.element)

    def _scaled(self, b: Builder, values: Value, scales: Value, axis: int) -> Value:
        """``values`` times their scales, of which each serves a run of elements along ``axis``."""
        shape, per_run = values.tile.shape, scales.tile.shape
        run, wide = shape[axis] // per_run[axis], float64 if self.dtype is float64 else float32
        apart = b.emit(Cast, scales, dtype=wide)
        apart = b.emit(Reshape, apart, shape=(*per_run[: axis + 1], 1, *per_run[axis + 1 :]))
        spread = b.emit(Broadcast, apart, shape=(*per_run[: axis + 1], run, *per_run[axis + 1 :]))
        factors = b.emit(Reshape, spread, shape=shape)
        product = b.emit(Mul, b.emit(Cast, values, dtype=wide), factors)
        return product if self.dtype is wide else b.emit(Cast, product, dtype=self.dtype)
