"""Combiners that have a neutral element: combined with it, every value stays as it is, to the last bit."""

from __future__ import annotations

import math

from tilewright.ir.core import Block, Op
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

_INTEGERS = {"add": 0, "mul": 1, "or": 0, "xor": 0, "and": -1}


def neutral_element(body: Block) -> int | float | None:
    """The neutral element of a ``body`` that does one operation on its two arguments; None where there is none."""
    if len(body.args) != 2 or len(body.ops) != 2:
        return None
    op, end = body.ops
    if set(op.operands) != set(body.args) or tuple(end.operands) != tuple(op.results):
        return None
    if op.attributes.get("flush_to_zero"):
        return None  # what is subnormal does not stay
    dtype = op.result.tile.dtype
    if not isinstance(dtype, DType):
        return None
    return _of_floats(op) if dtype.is_floating else _of_integers(op, dtype)


def _of_floats(op: Op) -> float | None:
    if op.attributes.get("rounding", RoundingMode.RN) is not RoundingMode.RN:
        return None
    if op.name in ("max", "min") and not op.attributes["propagate_nan"]:
        return math.nan  # a NaN operand is dropped
    return {"add": -0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}.get(op.name)


def _of_integers(op: Op, dtype: DType) -> int | None:
    if dtype.is_bool:
        return {"or": 0, "xor": 0, "and": 1}.get(op.name)
    return {"max": dtype.min, "min": dtype.max}.get(op.name, _INTEGERS.get(op.name))
