"""How few bits of a number the rest of a kernel keeps."""

from __future__ import annotations

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Add, Cast, Div, is_plain
from tilewright.ir.ops.linear import Reduce

_FEW_BITS = {bfloat16, float16, float8_e4m3fn, float8_e5m2}


def rounded_to(op: Div) -> DType | None:
    """The type of 16 or 8 bits to which all that is done with the quotients rounds them first."""
    users = list(op.result.users)
    casts = [u for u in users if isinstance(u, Cast) and u.rounding in (None, RoundingMode.RN)]
    types = {cast.dtype for cast in casts}
    return types.pop() if len(casts) == len(users) and len(types) == 1 and types <= _FEW_BITS else None


def is_summed_or_narrowed(value: Value, reduction: type[Op] = Reduce) -> bool:
    """Whether a number is only added to others by a ``reduction``, or divided and then rounded to at most 16 bits: what
    follows from it would be as far from the truth if it were a few units of the last place of float32 off."""
    users = list(value.users)
    return bool(users) and all(
        _sums(u, reduction) or (isinstance(u, Div) and u.lhs is value and _rounds(u)) for u in users
    )


def _sums(op: Op, reduction: type[Op]) -> bool:
    return isinstance(op, reduction) and isinstance(op.regions[0].ops[0], Add) and len(op.results) == 1


def _rounds(op: Div) -> bool:
    return is_plain(op) and rounded_to(op) is not None
