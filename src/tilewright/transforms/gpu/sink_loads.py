"""Tiles are loaded right before what uses them, where they have no room in shared memory beside each other."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import effect_of
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For, If, Loop
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape
from tilewright.transforms.base import InPlacePass

_THROUGH = (Reshape, Permute, Cast, Broadcast)  # what goes with a load


class SinkLoads(InPlacePass):
    """Moves each load right before what uses it in the same block, or before a store in between."""

    name: ClassVar[str] = "sink-loads"

    preserves = frozenset({IntegerRanges, AliasAnalysis})

    def change(self, function: Function) -> bool:
        return _sink(function.body)


def _sink(block: Block) -> bool:
    """Sink the loads in ``block``; whether one has moved."""
    before = list(block.ops)
    moved = False
    for op in reversed(before):
        if isinstance(op, (For, Loop, If)):
            for region in op.regions:
                moved |= _sink(region)
        elif _moves(op) and (first := _must_follow(op, block)) is not None:
            block.splice([op], before=first)
    return moved or block.ops != before


def _moves(op: Op) -> bool:
    if isinstance(op, (Load, LoadView)):
        return op.memory_order is MemoryOrder.WEAK
    return isinstance(op, _THROUGH) and op.result.tile.size > 1


def _must_follow(op: Op, block: Block) -> Op | None:
    """The first op of ``block`` after ``op`` that cannot be before it."""
    users = {user.ancestor_in(block) for user in op.result.users}
    for other in block.ops[block.ops.index(op) + 1 :]:
        if other in users or (not isinstance(op, _THROUGH) and effect_of(other) & ~Effect.READ):
            return other
    return None
