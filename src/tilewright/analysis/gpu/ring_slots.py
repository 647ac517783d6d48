"""Slots of rings of buffers, which loops count."""

from __future__ import annotations

from tilewright.ir.core import Value
from tilewright.ir.effects import has_early_exit
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, Cmp, Select
from tilewright.ir.ops.control import For
from tilewright.ir.ops.shape import constant_of


def loop_of_slot(slot: Value, copies: int) -> For | None:
    """The loop that carries ``slot``, whose every iteration has the slot after that of the one before, in a ring of
    ``copies``; None where that is not known."""
    loop = None if slot.op is not None or slot.block is None else slot.block.parent
    if not isinstance(loop, For) or slot not in loop.carried:
        return None
    if any(has_early_exit(op) for op in loop.body.ops if not op.spec.terminator):
        return None
    return loop if _is_next(loop.next_values[loop.carried.index(slot)], slot, copies) else None


def _is_next(value: Value, slot: Value, copies: int) -> bool:
    """Whether ``value`` is ``slot`` + 1, or 0 where that is ``copies``."""
    chosen = value.op
    if not isinstance(chosen, Select) or constant_of(chosen.x) != 0:
        return False
    ends, after = chosen.condition.op, chosen.y.op
    if not isinstance(ends, Cmp) or not isinstance(after, Add) or ends.predicate is not CmpPredicate.EQ:
        return False
    counts = after.lhs is slot and constant_of(after.rhs) == 1
    return counts and ends.lhs is after.result and constant_of(ends.rhs) == copies
