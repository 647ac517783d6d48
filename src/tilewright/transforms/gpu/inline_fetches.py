"""Loads by the warps that multiply: without others that load, an SM has registers for more CTAs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import CTAS_OF_SM, num_warps
from tilewright.ir.ops.arith import Add, Cmp
from tilewright.ir.ops.control import For, Return
from tilewright.ir.ops.gpu.barriers import MbarrierExpect, MbarrierWait
from tilewright.ir.ops.gpu.memory import Barrier
from tilewright.ir.ops.gpu.tma import Fetch, TmaLoad, TmaStoreWait
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, Wgmma
from tilewright.ir.rewrite import clone_op, with_body
from tilewright.ir.structured import emit_if
from tilewright.transforms.gpu.allocate_shared import MOST_SHARED_BYTES, share_of_sm
from tilewright.transforms.gpu.fetch_rings import (
    BARRIERS,
    Group,
    allocate_ring,
    choose_stages,
    fetch_groups,
    rings_of,
)
from tilewright.transforms.gpu.specialize_warps import Consumer, begun, ctas_of_attention

_STAGES = 2  # of each ring, at most: one is fetched while the other one is multiplied


def ctas_with_inline_fetches(function: Function, warps: int, limit: int = MOST_SHARED_BYTES) -> int:
    """How many CTAs an SM holds where the warps that multiply load for themselves, if these are all that it has; 0
    where others do."""
    if any(g.depth and not _follows_number(g) for g in fetch_groups(function)):
        return 0
    return ctas_of_attention(function, warps, limit, others=0)


def _follows_number(group: Group) -> bool:
    """Whether what is fetched in an iteration of a loop follows from its number."""
    loop = group.block.parent
    return group.is_direct and isinstance(loop, For) and _starts(group, loop) is not None


def _starts(group: Group, loop: For) -> list[Op] | None:
    """The ops of an iteration of ``loop`` that say where the fetches begin; None where the iteration before decides."""
    found: set[Op] = set()
    pending = [v for f in group.fetches for v in f.starts]
    while pending:
        value = pending.pop()
        if value in loop.carried:
            return None
        op = value.op
        if op is not None and op.block is loop.body and op not in found:
            if op.regions or not is_pure(op):
                return None
            found.add(op)
            pending += op.operands
    return sorted(found, key=loop.body.ops.index)


@dataclass(frozen=True)
class InlineFetches:
    """Has the first thread copy tiles into rings of buffers: those of the next iterations as soon as the MMA ops that
    read a slot have ended. So many CTAs as the hint says share an SM. Runs in the place of ``specialize-warps``."""

    name: ClassVar[str] = "inline-fetches"
    limit: int = MOST_SHARED_BYTES

    def run(self, function: Function) -> Function:
        ctas = function.hints.get(CTAS_OF_SM)
        if not isinstance(ctas, int):
            return function
        groups = fetch_groups(function)
        rings = rings_of(groups)
        choose_stages(rings, share_of_sm(self.limit, ctas) - BARRIERS, _STAGES)  # results come later
        b, values = begun(function)
        for ring in rings:
            allocate_ring(b, ring, num_warps(function) // GROUP_WARPS)
        b.emit_op(Barrier)
        inline = _Inline(function, groups, values)
        inline.b = b
        inline.partition()
        made = with_body(function, b.block)
        made.hints["occupancy"] = ctas
        return made


class _Inline(Consumer):
    """All warps: what they wait for, the first thread of them copies."""

    def __init__(self, function: Function, groups: Sequence[Group], values: dict[Value, Value]) -> None:
        super().__init__(function, groups, values)
        self._coming: list[Group] = []  # fetched once, and not waited for yet

    def end(self) -> None:
        if self._puts:
            self.b.emit_op(TmaStoreWait)
        self.b.emit_op(Return)

    def _fetch(self, op: Fetch, group: Group) -> None:
        slot = self.states[group.ring].slot
        if op is group.fetches[0]:
            if group.depth:
                self._wait_for([group])
            else:
                self._copy(group, self.values, slot)
                self._coming.append(group)
        self.values[op.result] = group.buffer(self.b, op, slot)

    def _wait_for(self, groups: Sequence[Group]) -> None:
        for group in groups:
            state = self.states[group.ring]
            self.b.emit_op(MbarrierWait, group.ring.barrier(self.b, state.slot, full=True), state.parity)

    def _mma(self, op: Wgmma) -> None:
        self._wait_for(self._coming)
        self._coming = []
        super()._mma(op)

    def control(self, op: Op, enclosing: list[Op]) -> None:
        if isinstance(op, For):
            for group in self.groups:
                if group.block is op.body:
                    self._begin(group, op)
        self._wait_for(self._coming)
        self._coming = []
        super().control(op, enclosing)

    def _begin(self, group: Group, loop: For) -> None:
        """Copy what the first iterations need."""
        state, index = self.states[group.ring], self.values.get(loop.lower, loop.lower)
        for _ in range(group.ring.stages):
            self._copy_of(group, loop, index, state.slot)
            index = self.b.emit(Add, index, self.values.get(loop.step, loop.step))
            state = state.next(self.b, group.ring.stages)

    def _give_back(self, group: Group, slot: Value, exists: Value | None = None) -> None:
        """Copy to ``slot`` what an iteration needs that is as far away as the ring has slots."""
        assert exists is None, "MMA ops that fetch for themselves end in the iteration that begins them"
        loop = group.block.parent
        if not isinstance(loop, For):
            return
        if num_warps(self.function) > GROUP_WARPS:
            self.b.emit_op(Barrier)  # each group knows of its own MMA ops only
        index = self.values.get(loop.body.args[0], loop.body.args[0])
        for _ in range(group.ring.stages):
            index = self.b.emit(Add, index, self.values.get(loop.step, loop.step))
        self._copy_of(group, loop, index, slot)

    def _copy_of(self, group: Group, loop: For, index: Value, slot: Value) -> None:
        """Copy what the iteration ``index`` of ``loop`` needs, if there is one."""
        b, values = self.b, {**self.values, loop.body.args[0]: index}

        def copy() -> list[Value]:
            for op in _starts(group, loop) or ():
                b.insert(clone_op(op, values))
            self._copy(group, values, slot)
            return []

        emit_if(b, b.emit(Cmp, index, self.values.get(loop.upper, loop.upper), predicate=CmpPredicate.LT), copy)

    def _copy(self, group: Group, values: Mapping[Value, Value], slot: Value) -> None:
        b, full = self.b, group.ring.barrier(self.b, slot, full=True)
        b.emit_op(MbarrierExpect, full, bytes=group.bytes)
        for f in group.fetches:
            starts = [values.get(v, v) for v in f.starts]
            b.emit_op(TmaLoad, group.buffer(b, f, slot), full, values.get(f.map, f.map), starts, None)
