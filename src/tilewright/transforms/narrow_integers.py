"""Integers that become floats of 16 bits or fewer, and are known to be small."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import float32, int32
from tilewright.ir.ops.arith import Cast
from tilewright.ir.rewrite import lower_ops
from tilewright.transforms.base import InPlacePass

_EXACT = 1 << 24  # float32 holds all integers up to it


class NarrowIntegers(InPlacePass):
    """Makes float32 of integers of 32 and 64 bits that it holds before they become narrower floats: others take float64
    on the way, so that they are rounded once, which is slow."""

    name: ClassVar[str] = "narrow-integers"

    def change(self, function: Function) -> bool:
        ranges = AnalysisManager(function).get(IntegerRanges)

        def narrowed(op: Cast, b: Builder) -> Value | None:
            x, source = op.x, op.x.tile.element
            if not source.is_integer or source.bitwidth < 32 or not op.dtype.is_floating or op.dtype.bitwidth >= 32:
                return None
            low, high = ranges.range(x)
            if low < -_EXACT or high > _EXACT:
                return None
            x = b.emit(Cast, x, dtype=int32) if source.bitwidth > 32 else x
            return b.emit(Cast, b.emit(Cast, x, dtype=float32), dtype=op.dtype, rounding=op.rounding)

        return lower_ops(function, {Cast: narrowed})
