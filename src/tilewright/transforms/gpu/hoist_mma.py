"""MMA ops of a block that wait for no other one begin beside the first: the tensor cores have work while what follows
from that is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.gpu.memory import GlobalStore
from tilewright.ir.ops.gpu.tma import Fetch, Put
from tilewright.ir.ops.gpu.wgmma import StageOperand, Wgmma
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass

_MOST_WORDS = 240  # registers of a thread for accumulators and a left operand: benchmarks/results/gpu_attention.md
_MOVED = (Fetch, StageOperand)


class HoistMma(InPlacePass):
    """Moves MMA ops of warp groups that need no result of others of their block, but to add to it, behind the first
    one, in their order, with what computes their operands: as in the gradients of attention the product of gradients
    and values beside the scores, or in linear attention that with the state.

    Only where registers suffice for the accumulators of all. Runs before ``defer-accumulators``.
    """

    name: ClassVar[str] = "hoist-mma"

    def change(self, function: Function) -> bool:
        blocks = {op.block for op in function.ops_of(Wgmma)}
        words = _MOST_WORDS * LANES * num_warps(function)
        moved = [_hoist(block) for block in blocks if block is not None and _words(block) <= words]
        return any(moved)


def _words(block: Block) -> int:
    """Registers of all threads for accumulators and the largest left operand of the MMA ops of ``block``."""
    mmas = [op for op in block.ops if isinstance(op, Wgmma)]
    sums = sum(op.acc.tile.size for op in mmas if not isinstance(op.acc.op, Wgmma))
    return sum([sums, *sorted(op.x.tile.size // 2 for op in mmas if isinstance(op.x.type, TileType))[-1:]])


@dataclass
class _Order:
    """The ops of a block: those ``placed``, in order, and those that are not yet."""

    placed: list[Op]
    left: list[Op]

    def needed(self, op: Wgmma) -> list[Op] | None:
        """What of the rest ``op`` needs, and what has to see its accumulators before; None where that waits for another
        MMA op, or cannot be moved."""
        made = {v: o for o in self.left for v in o.results}
        found: set[Op] = set()
        pending: list[Op] = [op]
        while pending:
            user = pending.pop()
            for other in (*self._beside(user, op), *(made[v] for v in _operands(user) if v in made)):
                if other not in found and other is not op:
                    found.add(other)
                    pending.append(other)
        results = {o.result for o in self.placed if isinstance(o, Wgmma)}
        moves = all(is_pure(o) or isinstance(o, _MOVED) for o in found) and not any(isinstance(o, Wgmma) for o in found)
        waits = not results.isdisjoint([op.x, op.y, *(v for o in found for v in _operands(o))])
        return [o for o in self.left if o in found] if moves and not waits else None

    def _beside(self, op: Op, mma: Wgmma) -> list[Op]:
        """What goes with ``op``: before ``mma``, what takes its accumulators; with a fetch, others of the same tile."""
        if op is mma:
            return [o for o in self.left[: self.left.index(op)] if mma.acc in o.operands]
        return [o for o in self.left if isinstance(op, Fetch) and isinstance(o, Fetch) and o.operands == op.operands]


def _operands(op: Op) -> Sequence[Value]:
    return [v for o in op.walk() for v in o.operands]


def _hoist(block: Block) -> bool:
    """Whether something has moved."""
    mmas = [op for op in block.ops if isinstance(op, Wgmma)]
    first = block.ops.index(mmas[0]) + 1
    order = _Order(list(block.ops[:first]), list(block.ops[first:]))
    stores = any(isinstance(op, (Put, GlobalStore)) for op in block.ops)
    for op in mmas[1:]:
        leaves = stores and all(user is block.terminator for user in op.result.users)
        needed = None if leaves else order.needed(op)
        if needed is not None:
            order.placed += [*needed, op]
            order.left = [o for o in order.left if o not in (*needed, op)]
    made = order.placed + order.left
    if made == list(block.ops):
        return False
    block.splice(made[:-1], before=block.terminator)
    return True
