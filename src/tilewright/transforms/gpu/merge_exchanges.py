"""Small tiles that warps exchange, stored together: one barrier does for all."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.gpu.memory import (
    AsyncCopy,
    GlobalStore,
    SharedAlloc,
    SharedCopy,
    SharedExtract,
    SharedLoad,
    SharedMemoryOp,
    SharedStore,
)
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.types import SharedType, TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.allocate_shared import SMALL_BYTES
from tilewright.transforms.gpu.pipeline_loads import after

_WORD = 4  # bytes of a register
_SHAPING = (Reshape, Permute, Splat, BroadcastDistributed)


class MergeExchanges(InPlacePass):
    """Moves each store of a small tile to shared memory, with the arithmetic for it, in front of the first load of
    another one from there that it can be before: threads meet once, before that load. What lanes exchange for it, which
    takes longer, stays, and so do MMA ops, beside which threads may meet. Parts of what was copied ahead are read where
    it was copied to, and nothing is stored for them.

    Runs when conversions and reductions are stores and loads, and before shared memory is laid out.
    """

    name: ClassVar[str] = "merge-exchanges"

    def change(self, function: Function) -> bool:
        read = [_read_copy(op) for op in function.ops_of(SharedStore)]
        read += [_sink(op) for op in function.ops_of(GlobalStore)]
        moved = [_move(op) for op in function.ops_of(SharedStore)]
        return any((*read, *moved))


def _read_copy(store: SharedStore) -> bool:
    """Have the parts of what was stored read where that was loaded from, if it was copied there; whether it was."""
    alloc, value, path = store.buffer.op, store.value, list[Op]()
    while isinstance(value.op, (Permute, Reshape)):
        path.append(value.op)
        value = value.op.x
    load = value.op
    slot = load.buffer.op if isinstance(load, SharedLoad) and load.block is store.block else None
    if not isinstance(slot, SharedCopy) or not isinstance(alloc, SharedAlloc):
        return False
    views = [op for op in slot.buffer.users if isinstance(op, SharedCopy)]
    accesses = [op for view in views for op in view.result.users]
    parts = [op for op in alloc.result.users if op is not store]
    copied = len(views) == len(list(slot.buffer.users)) and any(isinstance(op, AsyncCopy) for op in accesses)
    known = all(isinstance(op, (AsyncCopy, SharedLoad, SharedExtract)) for op in accesses)
    if not (copied and known and all(isinstance(op, SharedExtract) and op.block is store.block for op in parts)):
        return False
    assert isinstance(slot.result.type, SharedType)
    t = SharedType(alloc.type.dtype, after(path[::-1], slot.result.type.layout))
    seen = Builder.before(store).emit(SharedCopy, slot.buffer, slot.index, type=t)
    store.erase()
    alloc.replace_by([seen])
    return True


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


def _sink(store: GlobalStore) -> bool:
    """Move ``store``, and the load of what was exchanged for it, behind the store of the next tile that is exchanged;
    whether there is one, and nothing else between that accesses global memory."""
    load, block = store.value.op, store.block
    if not isinstance(load, SharedLoad) or block is None or load.block is not block or not store.is_weak:
        return False
    if list(load.result.users) != [store]:
        return False
    following = block.ops[block.ops.index(load) + 1 :]
    between: list[SharedAlloc] = []
    for op in following:
        alloc = op.buffer.op if isinstance(op, SharedMemoryOp) else None
        if isinstance(op, SharedLoad) and alloc in between:
            if store in following[following.index(op) :]:
                return False  # what it needs may be computed from that
            block.splice([load, store], before=op)
            return True
        if isinstance(op, SharedStore) and isinstance(alloc, SharedAlloc) and op.buffer is not load.buffer:
            between.append(alloc)
        elif op is not store and not is_pure(op) and not isinstance(op, (SharedLoad, SharedExtract, SharedAlloc)):
            return False
    return False


def _few(t: TileType) -> bool:
    return t.size * _WORD <= SMALL_BYTES


def _is_small(alloc: SharedAlloc) -> bool:
    return alloc.type.bytes <= SMALL_BYTES and len(list(alloc.result.users)) == 2  # stored and loaded once


def _is_exchanged(op: Op, block: Block) -> bool:
    """Whether ``op`` loads a small tile that is stored in the same ``block``."""
    alloc = op.buffer.op if isinstance(op, (SharedLoad, SharedExtract)) else None
    return isinstance(alloc, SharedAlloc) and alloc.block is block and _is_small(alloc)
