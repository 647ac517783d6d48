"""Integers that become small floats, and are known to be small; quotients of those that are not negative."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import float32, int32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Cast, Div, Rem
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.rewrite import lower_ops
from tilewright.transforms.base import InPlacePass

_EXACT = 1 << 24  # float32 holds all integers up to it


class NarrowIntegers(InPlacePass):
    """Makes float32 of integers of 32 and 64 bits that it holds before they become narrower floats: others take float64
    on the way, so that they are rounded once, which is slow. Quotients and remainders of numbers, such as those of a
    tile of a persistent kernel, are rounded to zero, as machines do, where that is what rounding down gives."""

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

        def truncated(op: Div | Rem, b: Builder) -> Value | None:
            number = not op.result.tile.rank and op.result.tile.element.is_integer and constant_of(op.rhs) is None
            if not number or op.rounding is not RoundingMode.RM or any(ranges.range(v)[0] < 0 for v in op.operands):
                return None
            return b.emit(type(op), *op.operands, rounding=RoundingMode.RZ)

        return lower_ops(function, {Cast: narrowed, Div: truncated, Rem: truncated})
