"""Tiles are loaded right before what uses them, where they have no room in shared memory beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import effect_of
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For, If, Loop
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape
from tilewright.ir.rewrite import clone_function

_THROUGH = (Reshape, Permute, Cast, Broadcast)  # what goes with a load


@dataclass(frozen=True)
class SinkLoads:
    """Moves each load right before what uses it in the same block, or before a store in between."""

    name: ClassVar[str] = "sink-loads"

    def run(self, function: Function) -> Function:
        found = clone_function(function)
        _sink(found.body)
        return found


def _sink(block: Block) -> None:
    for op in list(reversed(block.ops)):
        if isinstance(op, (For, Loop, If)):
            for region in op.regions:
                _sink(region)
        elif _moves(op):
            at = block.ops.index(op)
            later = _before_first_use(op, block.ops[at + 1 :])
            block.ops[at : at + 1 + later] = [*block.ops[at + 1 : at + 1 + later], op]


def _moves(op: Op) -> bool:
    if isinstance(op, (Load, LoadView)):
        return op.memory_order is MemoryOrder.WEAK
    return isinstance(op, _THROUGH) and op.result.tile.size > 1


def _before_first_use(op: Op, rest: list[Op]) -> int:
    """How many of ``rest``, which follow ``op``, may be before it."""
    for i, other in enumerate(rest):
        if any(v in op.results for o in other.walk() for v in o.operands):
            return i
        if not isinstance(op, _THROUGH) and effect_of(other) & ~Effect.READ:
            return i
    return 0
