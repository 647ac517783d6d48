"""What the CTAs of a cluster gather goes through shared memory of all of them."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.effects import has_early_exit
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.gpu.barriers import MbarrierExpect, MbarrierInit, MbarrierWait, barriers_type
from tilewright.ir.ops.gpu.cluster import ClusterArrive, ClusterBarrier, ClusterGather, ClusterStore, ClusterWait
from tilewright.ir.ops.gpu.memory import SharedAlloc, SharedLoad, shared_vector
from tilewright.ir.types import SharedType
from tilewright.transforms.base import InPlacePass

_WORD = 4  # bytes, of the shortest store that completes at an mbarrier: PTX ISA, "st.async"


class LowerGathers(InPlacePass):
    """Has each CTA store what it has to memory of all CTAs of the cluster, and load what all have stored, when all have
    met.

    Each gather has memory of its own, and an mbarrier. One that a loop repeats writes it again: all meet then at a
    barrier of the cluster, and at the next one of the same block, or, where there is no other one, once more. All have
    begun when they meet for the first time. Runs when all gathers are there, and before shared memory is laid out.
    """

    name: ClassVar[str] = "lower-gathers"

    def change(self, function: Function) -> bool:
        gathers = function.ops_of(ClusterGather)
        if not gathers:
            return False
        first = gathers[0].ancestor_in(function.body)
        assert first is not None
        start = Builder.before(function.body.ops[0])
        ready = {op: _barrier(op, start) for op in gathers if not is_in_loop(op) and _has_words(op)}
        start.emit_op(ClusterArrive)
        Builder.before(first).emit_op(ClusterWait)
        blocks = [op.block for op in gathers]
        for op in gathers:
            again = blocks.count(op.block) == 1 or _may_be_left(op.block)
            _lower(op, start, ready.get(op), again=again and is_in_loop(op))
        return True


def _may_be_left(block: Block | None) -> bool:
    """Whether the next op of ``block`` need not run where one has."""
    return block is None or any(has_early_exit(op) for op in block.ops if not op.spec.terminator)


def is_in_loop(op: Op) -> bool:
    """Whether ``op`` is in a loop, at whichever depth."""
    parent = op.parent
    while parent is not None and not isinstance(parent, LoopOp):
        parent = parent.parent
    return parent is not None


def exchange_in_loops(function: Function) -> bool:
    """Whether CTAs of ``function`` wait for each other in loops."""
    return any(map(is_in_loop, function.ops_of(ClusterStore)))


def _has_words(op: ClusterGather) -> bool:
    return all(v.tile.element.bytes >= _WORD for v in op.values)


def _barrier(op: ClusterGather, start: Builder) -> Value:
    """An mbarrier for what ``op`` gathers."""
    found = start.emit(SharedAlloc, type=barriers_type(1))
    start.emit_op(MbarrierInit, found, count=1)
    return found


def _lower(op: ClusterGather, start: Builder, barrier: Value | None, *, again: bool) -> None:
    """With ``barrier`` those who gather wait for what they gather alone, and not for what others have stored to global
    memory."""
    b = Builder.before(op)
    types = [SharedType(v.tile.element, LinearLayout.row_major(v.tile.shape)) for v in op.results]
    buffers = [start.emit(SharedAlloc, type=t) for t in types]
    if barrier is not None:
        b.emit_op(MbarrierExpect, barrier, None, bytes=sum(t.bytes for t in types))
    for buffer, value in zip(buffers, op.values):
        b.emit_op(ClusterStore, buffer, value, barrier)
    if barrier is None:
        b.emit_op(ClusterBarrier)
    else:
        b.emit_op(MbarrierWait, barrier, b.constant(0, int32))
    found = [
        b.emit(SharedLoad, buffer, type=v.tile, vector=shared_vector(t, v.layout))
        for buffer, t, v in zip(buffers, types, op.results)
    ]
    if again:
        b.emit_op(ClusterBarrier)
    op.replace_by(found)
