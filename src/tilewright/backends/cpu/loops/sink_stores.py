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
    """Moves a store behind the reductions and scans that need what was loaded before it, and to the end of an iteration
    where only pure ops follow.

    A store may overwrite the memory of a tile that is needed later, which fusion therefore copies first. Behind its
    last use the tile needs no copy. The last store of an iteration is fused with what the loop carries on.
    """

    name: ClassVar[str] = "sink-stores"

    def change(self, function: Function) -> bool:
        """Never fails."""
        changed = [_sink(block) for block in list(function.blocks())]
        return any(changed)


def _sink(block: Block) -> bool:
    changed = False
    loads = {op for op in block.ops if effect_of(op) == Effect.READ}
    for store in reversed([op for op in block.ops if isinstance(op, (Store, StoreView)) and not is_ordered(op)]):
        target = _target(block.ops[block.ops.index(store) + 1 :], loads)
        if target is not None:
            block.splice([store], before=target)
            changed = True
    return changed


def _target(following: Sequence[Op], loads: set[Op]) -> Op | None:
    """The op of ``following`` that a store is to precede; None where it stays in front of all.

    It goes behind the last one of the pure ops that come next which is a reduction or scan of what ``loads`` read, all
    of them before the store: no load is pure.
    """
    last = -1
    derived: set[Op] = set()
    for k, op in enumerate(following):
        if isinstance(op, Continue) and k:
            return op
        if not is_pure(op):
            break
        if any(v.op in loads or v.op in derived for v in (*op.operands, *op.captured())):
            if isinstance(op, (Reduce, Scan)):
                last = k  # its result is in memory of its own
            else:
                derived.add(op)
    return None if last < 0 else following[last + 1]
