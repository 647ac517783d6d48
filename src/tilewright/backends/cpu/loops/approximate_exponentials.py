"""The pass that takes shorter formulas where no one can tell."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.precision import is_summed_or_narrowed
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import float32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.floats import Exp
from tilewright.ir.rewrite import lower_ops
from tilewright.transforms.base import InPlacePass


class ApproximateExponentials(InPlacePass):
    """Rounds exponentials of float32 by APPROX that are only added up, or divided and then rounded to 16 bits."""

    name: ClassVar[str] = "approximate-exponentials"

    def change(self, function: Function) -> bool:
        """Never fails."""
        return lower_ops(function, {Exp: _approximate})


def _approximate(op: Exp, b: Builder) -> Value | None:
    if op.x.tile.dtype is not float32 or op.rounding is RoundingMode.APPROX or not is_summed_or_narrowed(op.result):
        return None
    return b.emit(Exp, op.x, rounding=RoundingMode.APPROX)
