"""How many registers of a thread the values of a loop take."""

from __future__ import annotations

from tilewright.ir.core import Block, Value
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.gpu.memory import SharedLoad
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import TileType


def live_words(block: Block) -> int:
    """The most words of a thread that values take at an op of ``block``. What a loop loads from shared memory is loaded
    again for each use, and what repeats one element, addresses, indices and masks are computed again."""
    last = {v: i for i, op in enumerate(block.ops) for v in (*op.operands, *op.captured())}
    made = {v for op in block.ops for v in op.results}
    live = most = sum(map(_words, {*block.args, *last} - made))
    for i, op in enumerate(block.ops):
        live += sum(_words(v) for v in op.results if v in last)
        most = max(most, live + max(map(live_words, op.regions), default=0))
        live -= sum(_words(v) for v in {*op.operands, *op.captured()} & {*block.args, *made} if last[v] == i)
    return most


def _words(value: Value) -> int:
    t, op = value.type, value.op
    if not isinstance(t, TileType) or t.is_pointer or t.layout is None:
        return 0
    if isinstance(op, (Splat, BroadcastDistributed, Constant)) or (
        isinstance(op, SharedLoad) and isinstance(op.parent, LoopOp)
    ):
        return 0
    summed = op is None or isinstance(op, GpuMma)
    return max(t.layout.num_registers * t.element.bitwidth // 32, 1) if t.element.is_floating or summed else 0
