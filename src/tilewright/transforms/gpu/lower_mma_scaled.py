"""MMA ops of scaled operands as MMA ops of bfloat16, in which the scaled operands are exact."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import bfloat16, float32
from tilewright.ir.ops.arith import Cast, Mul
from tilewright.ir.ops.linear import Mma, MmaScaled
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.rewrite import lower_ops
from tilewright.transforms.base import InPlacePass


class LowerMmaScaled(InPlacePass):
    """Leaves no ``mma_scaled``: its operands have few bits, and the exponents of bfloat16 are those of float32.

    Runs before layouts are assigned, which then give the MMA ops theirs.
    """

    name: ClassVar[str] = "lower-mma-scaled"

    def change(self, function: Function) -> bool:
        return lower_ops(function, {MmaScaled: _lowered})


def _lowered(op: MmaScaled, b: Builder) -> Value:
    x = _scaled(b, op.x, op.x_scale, op.x.tile.rank - 1)
    y = _scaled(b, op.y, op.y_scale, op.y.tile.rank - 2)
    return b.emit(Mma, x, y, op.acc)


def _scaled(b: Builder, values: Value, scales: Value, axis: int) -> Value:
    """``values`` times their scales, of which each serves a run of elements along ``axis``."""
    shape, per_run = values.tile.shape, scales.tile.shape
    run = shape[axis] // per_run[axis]
    wide = b.emit(Cast, scales, dtype=float32)
    apart = b.emit(Reshape, wide, shape=(*per_run[: axis + 1], 1, *per_run[axis + 1 :]))
    spread = b.emit(Broadcast, apart, shape=(*per_run[: axis + 1], run, *per_run[axis + 1 :]))
    factors = b.emit(Reshape, spread, shape=shape)
    return b.emit(Cast, b.emit(Mul, b.emit(Cast, values, dtype=float32), factors), dtype=bfloat16)
