"""Bitwise operations, comparisons, selection, minimum and maximum, tests and reinterpretation."""

from __future__ import annotations

from tilewright.backends.vector.arith import flushed
from tilewright.backends.vector.request import LEFT_IS_RESULT, ElementOp
from tilewright.backends.vector.storage import to_register, to_storage
from tilewright.backends.vector.types import F32, storage_type
from tilewright.backends.vector.value import CURRENT_ROUNDING, Val
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.types import PointerType

SYMBOLS = {
    CmpPredicate.EQ: "==",
    CmpPredicate.NE: "!=",
    CmpPredicate.LT: "<",
    CmpPredicate.LE: "<=",
    CmpPredicate.GT: ">",
    CmpPredicate.GE: ">=",
}


_RANGE_LANES = 4, 8, 16
_MINIMUM, _MAXIMUM, _SIGN_OF_RESULT = 0, 1, 4  # what the instruction for ranges is told


def compare(op: ElementOp, a: Val, b: Val) -> Val:
    """Numbers by value, pointers by address. With a NaN only NE is true."""
    signed = not isinstance(op.element, PointerType) and op.element.is_signed
    return a.compare(b, SYMBOLS[op.attrs["predicate"]], signed)


def extremum(op: ElementOp, a: Val, b: Val) -> Val:
    """min and max. For floats -0 < +0, and a NaN operand is dropped, or wins when ``propagate_nan``."""
    dtype = op.dtype
    if not dtype.is_floating:
        prefix = "s" if dtype.is_signed else "u"
        return a.at.intrinsic(prefix + op.name, a, b)
    name = {"min": "minimum", "max": "maximum"}[op.name]
    if not op.attrs.get("propagate_nan", False):
        if a.at.features.wide and a.at.lanes in _RANGE_LANES and a.scalar == F32:
            # The result of an extremum is no signaling NaN.
            first = (lambda x: x) if op.attrs.get(LEFT_IS_RESULT) else _quiet
            return flushed(lambda x, y: _in_range(op.name, first(x), _quiet(y)), op, a, b)
        name += "num"
    return flushed(lambda x, y: x.at.intrinsic(name, x, y), op, a, b)


def _in_range(name: str, a: Val, b: Val) -> Val:
    """min or max of float32 in the instruction that orders zeros by sign and drops NaN, but for signaling ones."""
    at = a.at
    choice = _SIGN_OF_RESULT | (_MAXIMUM if name == "max" else _MINIMUM)
    rounding = [CURRENT_ROUNDING] if at.wide else []
    instruction = f"avx512.mask.range.ps.{32 * (at.lanes or 1)}"
    return at.instruction(instruction, F32, a, b, choice, a, at.full_mask(), *rounding)


def _quiet(x: Val) -> Val:
    """``x`` with signaling NaN made quiet."""
    return _in_range("max", x, x)


def bitcast(op: ElementOp, x: Val) -> Val:
    """The bits of the memory representation, read as another dtype of the same width."""
    stored = to_storage(op.element, x)
    return to_register(op.result, stored.bitcast(storage_type(op.result)))
