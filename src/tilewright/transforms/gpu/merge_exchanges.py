"""Small tiles that warps exchange, stored together: one barrier does for all."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.gpu.memory import SharedAlloc, SharedExtract, SharedLoad, SharedStore
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.allocate_shared import SMALL_BYTES

_WORD = 4  # bytes of a register
_SHAPING = (Reshape, Permute, Splat, BroadcastDistributed)


class MergeExchanges(InPlacePass):
    """Moves each store of a small tile to shared memory, with the arithmetic for it, in front of the first load of
    another one from there that it can be before: threads meet once, before that load. What lanes exchange for it, which
    takes longer, stays, and so do MMA ops, beside which threads may meet.

    Runs when conversions and reductions are stores and loads, and before shared memory is laid out.
    """

    name: ClassVar[str] = "merge-exchanges"

    def change(self, function: Function) -> bool:
        moved = [_move(op) for op in function.ops_of(SharedStore)]
        return any(moved)


def _move(store: SharedStore) -> bool:
    """Move ``store``, if it is of a small tile and a load of another one is before it; whether that is so."""
    block, alloc = store.block, store.buffer.op
    if block is None or not isinstance(alloc, SharedAlloc) or alloc.block is not block or not _is_small(alloc):
        return False
    ops = block.ops
    at = {op: i for i, op in enumerate(ops[: ops.index(store)])}
    needed: list[Op] = [alloc]
    behind = max((i for op, i in at.items() if isinstance(op, (GpuMma, Wgmma))), default=-1)
    pending = [store.value]
    while pending:
        op = pending.pop().op
        if op is None or op not in at or op in needed:
            continue
        if is_pure(op) and (op.spec.elementwise or isinstance(op, _SHAPING)) and _few(op.results[0].tile):
            needed.append(op)
            pending += op.operands
        else:
            behind = max(behind, at[op])
    load = next((op for op in ops[behind + 1 : len(at)] if _is_exchanged(op, block)), None)
    if load is None:
        return False
    block.splice([*sorted((op for op in needed if at[op] > at[load]), key=lambda op: at[op]), store], before=load)
    return True


def _few(t: TileType) -> bool:
    return t.size * _WORD <= SMALL_BYTES


def _is_small(alloc: SharedAlloc) -> bool:
    return alloc.type.bytes <= SMALL_BYTES and len(list(alloc.result.users)) == 2  # stored and loaded once


def _is_exchanged(op: Op, block: Block) -> bool:
    """Whether ``op`` loads a small tile that is stored in the same ``block``."""
    alloc = op.buffer.op if isinstance(op, (SharedLoad, SharedExtract)) else None
    return isinstance(alloc, SharedAlloc) and alloc.block is block and _is_small(alloc)
