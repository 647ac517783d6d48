"""The pass that moves stores behind the uses of what they might overwrite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import effect_of, is_ordered, is_pure
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import Continue
from tilewright.ir.ops.linear import Reduce, Scan
from tilewright.ir.ops.memory import Store, StoreView
from tilewright.transforms.base import InPlacePass


class SinkStores(InPlacePass):
    """Moves a store behind the pure ops that need what was loaded before it, and to the end of an iteration where only
    pure ops follow.

    A store may overwrite the memory of a tile that is needed later, which fusion therefore copies first. Behind a
    reduction or scan that is its last use the tile needs no copy. What other ops compute of it the loops of the store
    can keep, and the last store of an iteration is fused with what the loop carries on.
    """

    name: ClassVar[str] = "sink-stores"

    def change(self, function: Function) -> bool:
        """Never fails."""
        changed = [_sink(block) for block in list(function.blocks())]
        return any(changed)


def _sink(block: Block) -> bool:
    changed = False
    derived = _derived(block)
    for store in reversed([op for op in block.ops if isinstance(op, (Store, StoreView)) and not is_ordered(op)]):
        target = _target(block.ops[block.ops.index(store) + 1 :], derived)
        if target is not None:
            block.splice([store], before=target)
            changed = True
    return changed


def _derived(block: Block) -> set[Op]:
    """The pure ops of ``block`` that need what it loads, apart from results of reductions and scans, which are in
    memory of their own."""
    derived: set[Op] = set()
    kept: set[Op] = set()  # loads, and what is computed of them element by element
    for op in block.ops:
        if effect_of(op) == Effect.READ:
            kept.add(op)
        elif is_pure(op) and any(v.op in kept for v in (*op.operands, *op.captured())):
            derived.add(op)
            if not isinstance(op, (Reduce, Scan)):
                kept.add(op)
    return derived


def _target(following: Sequence[Op], derived: set[Op]) -> Op | None:
    """The op of ``following`` that a store is to precede, the last one of the pure ops that come next and are
    ``derived`` being in front of it; None where there is none. No load is pure."""
    last = -1
    for k, op in enumerate(following):
        if isinstance(op, Continue) and k:
            return op
        if not is_pure(op):
            break
        if op in derived:
            last = k
    return None if last < 0 else following[last + 1]
