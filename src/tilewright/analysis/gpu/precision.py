"""How few bits of a number the rest of a kernel keeps."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import bfloat16, float16, int8, uint8
from tilewright.ir.ops.arith import Add, Cast, Div, Max, Min, Neg, Sub, is_plain
from tilewright.ir.ops.floats import Ceil, Floor
from tilewright.ir.ops.gpu.tiles import ThreadReduce

_MONOTONIC = (Add, Cast, Ceil, Floor, Max, Min, Neg, Sub)
_NARROW = (bfloat16, float16, int8, uint8)


def narrowed(value: Value) -> Sequence[Op]:
    """The ops that grow with ``value`` or fall, up to one that rounds what they make to few bits; none where something
    else is done with it."""
    chain: list[Op] = []
    users, block = value.users, value.block
    while len(users) == 1:
        (user,) = users
        monotonic = isinstance(user, _MONOTONIC) and len(set(user.operands)) == len(user.operands)
        if user.block is not block or not monotonic or not is_plain(user):
            break
        chain.append(user)
        if isinstance(user, Cast):
            return chain if user.dtype in _NARROW else ()
        users = user.results[0].users
    return ()


def is_summed_or_narrowed(value: Value) -> bool:
    """Whether a number is only added to others of its thread, or divided and then rounded to 16 bits: what follows from
    it would be as far from the truth if it were a few units of the last place of float32 off."""
    users = list(value.users)
    return bool(users) and all(_sums(u) or (isinstance(u, Div) and u.lhs is value and _rounds(u)) for u in users)


def _sums(op: Op) -> bool:
    return isinstance(op, ThreadReduce) and isinstance(op.body.ops[0], Add) and len(op.values) == 1


def _rounds(op: Div) -> bool:
    users = list(op.result.users)
    return is_plain(op) and len(users) == 1 and isinstance(users[0], Cast) and users[0].dtype in (bfloat16, float16)
