"""Loop-invariant code motion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.control import LoopOp
from tilewright.transforms.base import InPlacePass


@dataclass(frozen=True)
class LoopInvariantCodeMotion(InPlacePass):
    """Moves pure ops out of loops when their operands come from outside.

    Ops do not trap, so running one that the loop would have skipped is harmless.
    """

    name: ClassVar[str] = "licm"

    preserves = frozenset({IntegerRanges, AliasAnalysis})

    def change(self, function: Function) -> bool:
        return hoist(function.body, is_pure)


def hoist(block: Block, movable: Callable[[Op], bool]) -> bool:
    """Move ``movable`` ops that depend on nothing inside out of the loops in ``block``; whether there are any.

    Inner loops first, so that ops can travel several levels.
    """
    moved = False
    for op in list(block.ops):
        for region in op.regions:
            moved |= hoist(region, movable)
        if isinstance(op, LoopOp) and (found := _invariant(op, movable)):
            block.splice(found, before=op)
            moved = True
    return moved


def _invariant(loop: LoopOp, movable: Callable[[Op], bool]) -> list[Op]:
    inside: set[Value] = set(loop.body.args)
    found: list[Op] = []
    for op in loop.body.ops:
        if movable(op) and not _reads(op, inside):
            found.append(op)
        else:
            inside.update(op.results)
    return found


def _reads(op: Op, values: set[Value]) -> bool:
    return any(v in values for nested in op.walk() for v in nested.operands)
