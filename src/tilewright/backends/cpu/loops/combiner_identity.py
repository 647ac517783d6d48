"""Combiners that have a identity: combined with it, every value stays as it is, to the last bit."""

from __future__ import annotations

import math

from tilewright.ir.core import Block, Op
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Add, And, Max, Min, Mul, Or, Xor, flushes_to_zero, rounding_of

_FLOATS: dict[type[Op], float] = {Add: -0.0, Mul: 1.0, Max: -math.inf, Min: math.inf}
_BOOLS: dict[type[Op], int] = {Or: 0, Xor: 0, And: 1}
_INTEGERS: dict[type[Op], int] = {Add: 0, Mul: 1, Or: 0, Xor: 0, And: -1}


def identity_element(body: Block) -> int | float | None:
    """The identity of a ``body`` that does one operation on its two arguments; None where there is none."""
    if len(body.args) != 2 or len(body.ops) != 2:
        return None
    op, end = body.ops
    if set(op.operands) != set(body.args) or tuple(end.operands) != tuple(op.results):
        return None
    if flushes_to_zero(op):
        return None  # what is subnormal does not stay
    dtype = op.result.tile.dtype
    if not isinstance(dtype, DType):
        return None
    return _of_floats(op) if dtype.is_floating else _of_integers(op, dtype)


def _of_floats(op: Op) -> float | None:
    if rounding_of(op) is not RoundingMode.RN:
        return None
    if isinstance(op, (Max, Min)) and not op.propagate_nan:
        return math.nan  # a NaN operand is dropped
    return _FLOATS.get(type(op))


def _of_integers(op: Op, dtype: DType) -> int | None:
    if dtype.is_bool:
        return _BOOLS.get(type(op))
    if isinstance(op, (Max, Min)):
        return dtype.min if isinstance(op, Max) else dtype.max
    return _INTEGERS.get(type(op))
