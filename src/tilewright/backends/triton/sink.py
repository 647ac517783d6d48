"""Tiles are loaded right before what uses them, where they have no room in shared memory beside each other."""

from __future__ import annotations

from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import effect_of
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.opdef import Effect
from tilewright.ir.rewrite import clone_function

_THROUGH = ("reshape", "permute", "cast", "broadcast")  # what goes with a load


def sink(function: Function) -> Function:
    """``function`` with each load right before what uses it in the same block, or before a store in between."""
    found = clone_function(function)
    _sink(found.body)
    return found


def _sink(block: Block) -> None:
    for op in list(reversed(block.ops)):
        if op.name in ("for", "loop", "if"):
            for region in op.regions:
                _sink(region)
        elif _moves(op):
            at = block.ops.index(op)
            later = _before_first_use(op, block.ops[at + 1 :])
            block.ops[at : at + 1 + later] = [*block.ops[at + 1 : at + 1 + later], op]


def _moves(op: Op) -> bool:
    if op.name in ("load", "load_view"):
        return op.attributes["memory_order"] is MemoryOrder.WEAK
    return op.name in _THROUGH and op.result.tile.size > 1


def _before_first_use(op: Op, rest: list[Op]) -> int:
    """How many of ``rest``, which follow ``op``, may be before it."""
    for i, other in enumerate(rest):
        if any(v in op.results for o in other.walk() for v in o.operands):
            return i
        if op.name not in _THROUGH and effect_of(other) & ~Effect.READ:
            return i
    return 0
