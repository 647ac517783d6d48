"""Loads by the warps that multiply: without others that load, an SM has registers for more CTAs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import CTAS_OF_SM, DEEPER, num_warps
from tilewright.ir.ops.arith import Add, And, Cmp, Min
from tilewright.ir.ops.control import For, Return, block_of
from tilewright.ir.ops.gpu.barriers import MbarrierExpect, MbarrierWait
from tilewright.ir.ops.gpu.memory import Barrier
from tilewright.ir.ops.gpu.tma import Fetch, Put, TmaLoad, TmaStoreWait
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, StageOperand, Wgmma
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.reachable import are_alike, reachable
from tilewright.ir.rewrite import clone_op, with_body
from tilewright.transforms.gpu.allocate_shared import MOST_SHARED_BYTES, share_of_sm
from tilewright.transforms.gpu.fetch_rings import (
    BARRIERS,
    Group,
    allocate_ring,
    barrier_of_last,
    choose_stages,
    fetch_groups,
    rings_of,
    staged_bytes,
)
from tilewright.transforms.gpu.mma_loops import readers, turns_from
from tilewright.transforms.gpu.occupancy import (
    MOST_WIDTH,
    all_gathered,
    choose_copies,
    ctas_of_attention,
    ctas_of_gathers,
)
from tilewright.transforms.gpu.specialize_warps import Consumer, begun

# Of each ring: descriptors do not change, and MMA ops of other tiles take as long as a fetch. More are no faster:
# benchmarks/results/gpu_constants.md.
_STAGES = 1
_STAGES_ALONE = 2  # where a grid puts one CTA on an SM, beside whose MMA ops no other one fetches
_PAIR = 2  # MMA ops of a step of attention; with more there is a second buffer for each tile: the same
# Of tiles in a step, with which what the rotated MMA op reads has two places, and both MMA ops are waited for at once.
_LARGE_STEP = 1 << 16  # bytes: benchmarks/results/gpu_attention.md


def ctas_with_inline_fetches(
    function: Function, warps: int, limit: int = MOST_SHARED_BYTES, *, staged: bool = False, blocks: int = 0
) -> int:
    """How many CTAs an SM holds where the warps that multiply load for themselves, if these are all that it has; 0
    where others do, as where right operands are ``staged``, if that is not wanted. A grid puts so many ``blocks`` on an
    SM (0: many)."""
    if any(g.depth and not _follows_number(g) for g in fetch_groups(function)):
        return 0
    if all_gathered(function):
        return ctas_of_gathers(function, warps, limit, blocks)
    return ctas_of_attention(function, warps, limit, staged=staged)


def _follows_number(group: Group) -> bool:
    """Whether what is fetched in an iteration of a loop follows from its number."""
    loop = group.block.parent
    return group.is_direct and isinstance(loop, For) and _starts(group, loop) is not None


def _starts(group: Group, loop: For) -> list[Op] | None:
    """The ops of an iteration of ``loop`` that say of what and where the fetches are; None where the iteration before
    decides."""
    found: set[Op] = set()
    pending = [v for f in group.fetches for v in (f.map, *f.starts)]
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


def _is_rotated(function: Function) -> bool:
    """Whether an MMA op multiplies what a loop has computed in the iteration before."""
    mmas = iter(function.ops_of(Wgmma))
    return any(op.block is not None and op.x in op.block.args for op in mmas)


def is_wide(function: Function) -> bool:
    """Whether sums of the MMA ops are wider than those of heads with which a warp group has them twice."""
    return max(op.acc.tile.shape[1] for op in function.ops_of(Wgmma)) > MOST_WIDTH


def _waits_often(function: Function) -> bool:
    """Whether an iteration has three MMA ops or more, as in the backward pass: so few CTAs of that share an SM that
    they do not multiply all the time while one fetches."""
    blocks = [op.block for op in function.ops_of(Wgmma)]
    return max(map(blocks.count, blocks)) > _PAIR


def _goes_on(first: For, second: For, groups: Sequence[Group]) -> bool:
    """Whether ``second`` is the loop after ``first``, over the range that adjoins, and fetches to the same rings what
    further iterations of that would: what its first ones need can be fetched there."""
    steps = [constant_of(loop.step) for loop in (first, second)]
    pairs = list(zip(*([g for g in groups if g.block is loop.body] for loop in (first, second)), strict=False))
    adjoin = first.block is second.block and second.lower is first.upper and steps == [1, 1]
    count = sum(g.block in (first.body, second.body) for g in groups)
    return adjoin and 2 * len(pairs) == count and all(a.ring is b.ring and _fetch_alike(a, b) for a, b in pairs)


def _fetch_alike(group: Group, other: Group) -> bool:
    """Whether an iteration of one loop fetches what one of the same number of the other loop would."""
    same = dict(zip(group.block.args[:1], other.block.args[:1]))
    fetches = list(zip(group.fetches, other.fetches))
    return len(group.fetches) == len(other.fetches) and all(
        a.type == b.type and all(are_alike(x, y, same) for x, y in zip(a.operands, b.operands)) for a, b in fetches
    )


def _is_left_to_registers(fetch: Fetch) -> bool:
    """Whether threads load what was fetched, and multiply what they compute of it."""
    return any(turns_from(v, mma.x) for op in fetch.result.users for v in op.results for mma in readers(v))


@dataclass(frozen=True)
class InlineFetches:
    """Has the first thread copy tiles into rings of buffers: those of the next iterations as soon as the MMA ops that
    read a slot have ended, also when these are of a loop that goes on where one ends. So many CTAs as the hint says
    share an SM. Runs in the place of ``specialize-warps``, also where nothing is fetched."""

    name: ClassVar[str] = "inline-fetches"
    limit: int = MOST_SHARED_BYTES
    blocks: int = 0

    def run(self, function: Function) -> Function:
        ctas, groups = function.hints.get(CTAS_OF_SM), fetch_groups(function)
        if not isinstance(ctas, int):
            if groups or not function.ops_of(Wgmma):
                return function
            ctas = 1
        rings, copies, deeper = rings_of(groups, ahead=True), 0, tuple[int, ...]()
        if all_gathered(function):
            copies, deeper = choose_copies(function, rings, self.limit, ctas, self.blocks)
        elif rings:
            given = BARRIERS + staged_bytes(function)  # results come later
            step = sum(r.bytes for r in rings if r.depth)
            if ctas > 1 and not self.blocks and _STAGES_ALONE * step <= share_of_sm(self.limit, 1) - given:
                deeper = (_STAGES_ALONE,)
            alone = 0 < self.blocks < ctas
            ctas = self.blocks if alone else ctas
            large = _is_rotated(function) and (step >= _LARGE_STEP or is_wide(function))
            most = _STAGES_ALONE if alone else 2 if large or _waits_often(function) else _STAGES
            choose_stages(rings[::-1] if large else rings, share_of_sm(self.limit, ctas) - given, most)
        b, values = begun(function)
        before = len(b.block.ops)
        for ring in rings:
            allocate_ring(b, ring, 0)
        last = barrier_of_last(b, function)
        if rings:
            b.emit_op(Barrier)
        begins = b.block.ops[before:]
        inline = _Inline(function, groups, values, last, copies)
        inline.b = b
        inline.partition()
        needed = block_of(b.block, TmaLoad) if begins else b.block
        if needed is not b.block:
            needed.splice(begins, before=needed.ops[0])  # memory is only that of the ways on which tiles are loaded
        made = with_body(function, b.block)
        made.hints["occupancy"] = ctas
        if any(deeper):
            made.hints[DEEPER] = deeper
        return made


class _Inline(Consumer):
    """All warps: what they wait for, the first thread of them copies, and so many ``copies`` of a tile there are of
    what all gather."""

    def __init__(
        self, function: Function, groups: Sequence[Group], values: dict[Value, Value], last: Value | None, copies: int
    ) -> None:
        super().__init__(function, groups, values, last)
        self._copies = copies
        # Of several MMA ops each is waited for where it is needed: gradients of keys in 64x64 have 664 TFLOP/s
        # otherwise, 707 so, but those of one kernel, which adds what a step gives, 491 and 462 (D128, one H200).
        adds = any(op.adds for op in function.ops_of(Put))
        self._at_once = any(g.ring.stages > 1 for g in groups) and (adds or not _waits_often(function))
        self._coming: list[Group] = []  # fetched once, and not waited for yet
        loops = [op for op in function.ops_of(For) if any(g.block is op.body for g in groups)]
        self._after = {a: b for a, b in pairwise(loops) if _goes_on(a, b, groups)}

    beside: ClassVar[dict[str, int]] = {}

    def op(self, op: Op) -> None:
        if isinstance(op, StageOperand) and self._copies:
            staged = self.b.emit(StageOperand, *self.all([op.value]), None, type=op.type, copies=self._copies)
            self.values[op.result] = staged
        else:
            super().op(op)

    def before(self, op: Op) -> None:
        super().before(op)
        if any(self.group_of.get(v.op) in self._coming for v in op.operands if isinstance(v.op, Fetch)):
            self._await_coming()  # threads load from there, before an MMA op does

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
                self._compute_here([v for f in group.fetches for v in f.operands], op, group.fetches[-1])
                self._copy(group, self.values, slot)
                self._coming.append(group)
        self.values[op.result] = group.buffer(self.b, op, slot)

    def _land(self, count: int, before: Op) -> None:
        """Where MMA ops are waited for at once, the next tiles of all are fetched during the softmax."""
        super()._land(count, before)
        if count and self._at_once:
            super()._land(len(self._flying), before)

    def _wait_for(self, groups: Sequence[Group]) -> None:
        for group in groups:
            state = self.states[group.ring]
            self.b.emit_op(MbarrierWait, group.ring.barrier(self.b, state.slot, full=True), state.parity)

    def _await_coming(self) -> None:
        self._wait_for(self._coming)
        self._coming = []

    def _mma(self, op: Wgmma) -> None:
        self._await_coming()
        super()._mma(op)

    def control(self, op: Op, enclosing: list[Op]) -> None:
        if isinstance(op, For) and op not in self._after.values():
            self._ends(op)
            for group in self.groups:
                if group.block is op.body:
                    self._begin(group, op)
        self._await_coming()
        super().control(op, enclosing)

    def _last(self, loop: For) -> For:
        """The last of the loops that go on from ``loop``."""
        return self._last(self._after[loop]) if loop in self._after else loop

    def _ends(self, loop: For) -> None:
        """Compute where the last of the loops that go on from ``loop`` ends, before that begins."""
        last = self._last(loop)
        self._compute_here([last.upper], loop, last)

    def _compute_here(self, needed: Sequence[Value], here: Op, end: Op) -> None:
        """Compute ``here`` what is ``needed`` of the ops up to ``end``."""
        assert here.block is not None
        wanted = {v.op for v in reachable(needed, lambda v: () if v.op is None else v.op.operands)}
        ops = here.block.ops
        for op in ops[ops.index(here) + 1 : ops.index(end)]:
            if op in wanted:
                self.b.insert(clone_op(op, self.values))

    def _begin(self, group: Group, loop: For) -> None:
        """Copy what the first iterations need."""
        state, index = self.states[group.ring], self.values.get(loop.lower, loop.lower)
        if loop in self._after:  # none of its own, if it ends before it begins
            index = self.b.emit(Min, index, self.values.get(loop.upper, loop.upper))
        for _ in range(group.ring.stages):
            self._copy_of(group, loop, index, state.slot)
            index = self.b.emit(Add, index, self.values.get(loop.step, loop.step))
            state = state.next(self.b, group.ring.stages)

    def _give_back(self, group: Group, slot: Value, exists: Value | None = None) -> None:
        """Copy to ``slot`` what an iteration needs that is as far away as the ring has slots, from the one before where
        it ``exists``."""
        loop = group.block.parent
        if not isinstance(loop, For):
            return
        if num_warps(self.function) > GROUP_WARPS or any(map(_is_left_to_registers, group.fetches)):
            self.b.emit_op(Barrier)  # each group knows of its own MMA ops only, and each warp of what it has loaded
        index = self.values.get(loop.body.args[0], loop.body.args[0])
        for _ in range(group.ring.stages - (exists is not None)):
            index = self.b.emit(Add, index, self.values.get(loop.step, loop.step))
        self._copy_of(group, loop, index, slot, exists)

    def _ended(self, group: Group, slot: Value) -> None:
        """The other warp groups may still read what another loop fetches to."""
        if num_warps(self.function) > GROUP_WARPS:
            self.b.emit_op(Barrier)

    def _copy_of(self, group: Group, loop: For, index: Value, slot: Value, also: Value | None = None) -> None:
        """Copy what the iteration ``index`` of ``loop`` needs, if there is one, and ``also`` is true."""
        b, values = self.b, {**self.values, loop.body.args[0]: index}
        end = self._last(loop).upper
        exists = b.emit(Cmp, index, self.values.get(end, end), predicate=CmpPredicate.LT)
        exists = exists if also is None else b.emit(And, exists, also)
        for op in _starts(group, loop) or ():
            b.insert(clone_op(op, values))
        self._copy(group, values, slot, exists)  # no branch, around which nothing would be moved

    def _copy(self, group: Group, values: Mapping[Value, Value], slot: Value, exists: Value | None = None) -> None:
        b, full = self.b, group.ring.barrier(self.b, slot, full=True)
        b.emit_op(MbarrierExpect, full, exists, bytes=group.bytes)
        for f in group.fetches:
            starts = [values.get(v, v) for v in f.starts]
            b.emit_op(TmaLoad, group.buffer(b, f, slot), full, values.get(f.map, f.map), starts, None, exists)
