"""Rows of numbers that scale tiles in several ways are loaded once for each."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.core import Function, Op
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.memory import Load
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.rewrite import clone_op
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.used_beside import combined_with, used_beside


class DuplicateLoads(InPlacePass):
    """Loads what is used beside several tiles, along one axis of each, once for each of these uses, in loops with MMA
    ops: each thread then loads what it needs of it, where threads would exchange it through shared memory.

    The second load finds in the first-level cache what the first one brought there. Runs before ``AssignLayouts``,
    which has what is loaded as it is used.
    """

    name: ClassVar[str] = "duplicate-loads"

    def change(self, function: Function) -> bool:
        loops = [op for op in function.ops_of(LoopOp) if any(isinstance(o, MmaOp) for o in op.body.ops)]
        loads = [op for loop in loops for op in loop.body.ops if isinstance(op, Load) and op.is_weak]
        duplicated = [_duplicate(op) for op in loads if op.result.tile.rank]
        return any(duplicated)


def _duplicate(load: Load) -> bool:
    """Whether there are several loads now."""
    users = list(load.result.users)
    uses = [_use_of(user) for user in users]
    if None in uses or len(set(uses)) < 2:
        return False
    made = {uses[0]: load.result}
    for user, use in zip(users, uses):
        if use not in made:
            again = clone_op(load, {})
            assert load.block is not None
            load.block.insert(again, before=load)
            made[use] = again.result
        user.set_operand(user.operands.index(load.result), made[use])
    return True


def _use_of(user: Op) -> object:
    """See ``used_beside``, where ``user`` takes what is loaded."""
    if isinstance(user, Broadcast):
        return combined_with(user)
    return used_beside(user.results[0]) if user.spec.elementwise or isinstance(user, Reshape) else None
