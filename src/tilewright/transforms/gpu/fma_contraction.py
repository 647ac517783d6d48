"""The argument ``x * y - z`` of an approximate power of two is rounded once.

``exp2(..., flush_to_zero=True)`` is the fast instruction, and its argument in a softmax costs as much as it does. One
rounding less makes the result no worse, only different from the one of two roundings, unless the product is huge: then
the difference of a product and its own rounded value is huge as well, where it should be zero. So it is in a softmax of
nothing but a large negative number that stands for a mask. Products of scores are contracted where the scores are sums
of the tensor cores; infinities stay what they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import float32
from tilewright.ir.ops.arith import Abs, Add, Fma, Max, Min, Mul, Neg, Select, Sub, is_plain
from tilewright.ir.ops.control import If, ends_of
from tilewright.ir.ops.floats import Exp2, Tanh
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape, constant_of
from tilewright.ir.reachable import reachable
from tilewright.transforms.base import InPlacePass

_MODERATE = float(1 << 20)  # times a scale of about one: rounding it changes a power of two by a few percent
_BOUNDED = (MmaOp, Tanh)
_COMPUTED = (Add, Sub, Mul, Neg, Abs, Max, Min, Reshape, Broadcast, Permute)


@dataclass(frozen=True)
class ContractFma(InPlacePass):
    """Computes such arguments by a fused multiply-add, on GPUs of NVIDIA."""

    target: GpuTarget
    name: ClassVar[str] = "contract-fma"

    preserves = frozenset({IntegerRanges, AliasAnalysis})

    def change(self, function: Function) -> bool:
        if not self.target.is_cuda:
            return False
        contracted = [_contract(op) for op in list(function.walk()) if isinstance(op, Exp2)]
        return any(contracted)


def _contract(op: Exp2) -> bool:
    """Compute the argument of ``op`` by a fused multiply-add, where that may be; whether it may."""
    difference = op.x.op
    if not op.flush_to_zero or op.x.tile.element is not float32:
        return False
    if not isinstance(difference, Sub) or not is_plain(difference):
        return False
    product = difference.lhs.op
    if not isinstance(product, Mul) or not is_plain(product) or not all(map(_is_moderate, product.operands)):
        return False
    builder = Builder.before(op)
    op.set_operand(0, builder.emit(Fma, *product.operands, builder.emit(Neg, difference.rhs)))
    return True


def _is_moderate(value: Value) -> bool:
    """Whether ``value`` is computed from sums of products, single numbers, infinities and small constants."""
    return all(_sources(v) is not None for v in reachable([value], lambda v: _sources(v) or ()))


def _sources(value: Value) -> list[Value] | None:
    """The values that have to be moderate for ``value`` to be so; None when it may be huge all the same."""
    op, number = value.op, constant_of(value)
    if number is not None:
        return [] if math.isinf(number) or abs(number) <= _MODERATE else None
    if not value.tile.shape:
        return []
    if op is None:
        return None
    if isinstance(op, If):
        return [end.values[value.index] for end in ends_of(op)]
    if isinstance(op, Select):
        return [op.x, op.y]
    return [] if isinstance(op, _BOUNDED) else list(op.operands) if isinstance(op, _COMPUTED) else None
