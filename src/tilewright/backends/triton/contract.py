"""The argument ``x * y - z`` of an approximate power of two is rounded once.

``exp2(..., flush_to_zero=True)`` is the fast instruction, and its argument in a softmax costs as much as it does. One
rounding less makes the result no worse, only different from the one of two roundings.
"""

from __future__ import annotations

from tilewright.backends.triton.target import GpuTarget
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import float32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Exp2, Fma, Neg
from tilewright.passes.base import Rewriter


def contract(function: Function, target: GpuTarget) -> Function:
    """``function`` with such arguments computed by a fused multiply-add."""
    return _Contractor().function(function) if target.is_cuda else function


class _Contractor(Rewriter):
    def rewrite(self, op: Op, builder: Builder) -> list[Value] | None:
        if op.name != "exp2" or not op.attributes["flush_to_zero"] or op.operands[0].tile.element is not float32:
            return None
        difference = op.operands[0].op
        product = difference.operands[0].op if difference is not None and _is_plain(difference, "sub") else None
        if difference is None or product is None or not _is_plain(product, "mul"):
            return None
        argument = builder.emit(Fma, *product.operands, builder.emit(Neg, difference.operands[1]))
        return [builder.emit(Exp2, argument, flush_to_zero=True)]


def _is_plain(op: Op, name: str) -> bool:
    return op.name == name and op.attributes["rounding"] is RoundingMode.RN and not op.attributes["flush_to_zero"]
