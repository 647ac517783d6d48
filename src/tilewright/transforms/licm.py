"""Loop-invariant code motion."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.linear import Reduce, Scan
from tilewright.ir.ops.shape import Constant
from tilewright.transforms.base import InPlacePass


class LoopInvariantCodeMotion(InPlacePass):
    """Moves pure ops out of loops, and out of what reductions and scans combine by, when their operands come from
    outside.

    Ops do not trap, so running one that the loop would have skipped is harmless.
    """

    name: ClassVar[str] = "licm"

    preserves = frozenset({IntegerRanges, AliasAnalysis})

    def change(self, function: Function) -> bool:
        return hoist(function.body, is_pure)


def hoist(block: Block, movable: Callable[[Op], bool]) -> bool:
    """Move ``movable`` ops that depend on nothing inside out of loops and combiners in ``block``; whether any did.

    Inner loops first, so that ops can travel several levels.
    """
    moved = False
    for op in list(block.ops):
        for region in op.regions:
            moved |= hoist(region, movable)
        found: list[Op] = []
        if isinstance(op, LoopOp):
            found = _invariant(op.body, movable)
        elif isinstance(op, (Reduce, Scan)):  # backends know combiners by what they compute, constants included
            found = _invariant(op.body, lambda inner: movable(inner) and not isinstance(inner, Constant))
        if found:
            block.splice(found, before=op)
            moved = True
    return moved


def _invariant(body: Block, movable: Callable[[Op], bool]) -> list[Op]:
    inside: set[Value] = set(body.args)
    found: list[Op] = []
    for op in body.ops:
        if movable(op) and not _reads(op, inside):
            found.append(op)
        else:
            inside.update(op.results)
    return found


def _reads(op: Op, values: set[Value]) -> bool:
    return not values.isdisjoint(op.operands) or any(_reads(nested, values) for r in op.regions for nested in r.ops)
