"""Warp specialization: one thread has the TMA unit copy the tiles that the other warps multiply, ahead of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.effects import has_early_exit
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import CTAS_OF_SM, DEEPER, num_warps
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.arith import Cmp, Select
from tilewright.ir.ops.control import For, If, LoopOp, Return
from tilewright.ir.ops.gpu import barriers
from tilewright.ir.ops.gpu.cluster import ClusterBarrier
from tilewright.ir.ops.gpu.memory import CONSUMERS, Barrier, SharedAlloc
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tma import (
    SWIZZLED_ALIGNMENT,
    AsyncFence,
    Fetch,
    ParameterMap,
    Put,
    TmaLoad,
    TmaStoreWait,
)
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, StageOperand, Wgmma, WgmmaWait
from tilewright.ir.rewrite import clone_op, with_body
from tilewright.ir.types import TileType
from tilewright.transforms.gpu.allocate_shared import MOST_SHARED_BYTES, OutOfSharedMemory
from tilewright.transforms.gpu.fetch_rings import (
    Group,
    Ring,
    allocate_ring,
    barrier_of_last,
    fetch_groups,
    rings_of,
)
from tilewright.transforms.gpu.mma_loops import mmas_of, only_adds, takes_turns
from tilewright.transforms.gpu.occupancy import (
    FETCHING_WARPS,
    REGISTERS,
    choose_depth,
    ctas_of_an_sm,
    ctas_of_sums,
    ctas_of_tiles,
    registers,
    resident,
    step_bytes,
)
from tilewright.transforms.gpu.overlap_mma import computed_beside
from tilewright.transforms.gpu.warp_roles import Partition, Producer, Stager, restaged


@dataclass(frozen=True)
class SpecializeWarps:
    """Divides the function: ``producer`` fetches tiles into rings of buffers, ``consumer`` does everything else.

    Tiles that the same MMA ops multiply arrive together. Of these, a ring has ``stages`` copies, or as many as there
    is room for in ``limit`` bytes of shared memory beside what stores and conversions need; for each there is a barrier
    that says that it is full, and one that it is empty. Slot and parity go with control flow: both sides count the same
    fetches. Without ``stages`` there are as many as suit the MMA ops; where registers suffice for other CTAs on an SM,
    memory is left to them, unless the grid puts no more than so many ``blocks`` there (0: many): the hint ``DEEPER``
    says how many stages there would be with one, two and so on. Where loops wait for their MMA ops in each step, or
    more than two CTAs with a tile each fit, one warp fetches.
    MMA ops of a loop that only adds them up stay in flight during the next iteration, which is when their tiles are
    given back: where there are two of each, so that those of the next one can be there.
    Where the CTAs of a cluster fetch a tile together, into the buffers of both, a slot is empty when the consumers of
    both have given it back; neither CTA ends before the other one.
    Runs when tiles have layouts, and before conversions take shared memory.
    OutOfSharedMemory, at a fetch, where there is no room for it.
    """

    name: ClassVar[str] = "specialize-warps"
    stages: int | None = None
    limit: int = MOST_SHARED_BYTES
    blocks: int = 0

    def run(self, function: Function) -> Function:
        groups = fetch_groups(function)
        if not groups or CTAS_OF_SM in function.hints:
            return function
        return _specialize(function, groups, self)


@dataclass(frozen=True)
class _Plan:
    """The ``rings``, with their stages, and how many CTAs an SM is to hold: of which one thread fetches, with so many
    CTAs that have a tile each, or as many as multiply ``beside`` each other; see ``choose_depth`` for ``deeper``."""

    rings: Sequence[Ring]
    several: int
    tiles: int
    beside: int
    deeper: tuple[int, ...]


def _plan(function: Function, groups: Sequence[Group], options: SpecializeWarps) -> _Plan:
    rings, given = rings_of(groups), (options.limit, options.stages, options.blocks)
    several = 1 if options.stages else ctas_of_sums(function, rings, options.limit)
    tiles = 1 if options.stages or several > 1 else ctas_of_tiles(function, rings, options.limit)
    several = max(several, resident(step_bytes(function, rings), tiles, options.blocks))
    beside = several if several > 1 else ctas_of_an_sm(function, rings, options.limit)
    try:
        deeper = choose_depth(function, rings, beside, tiles, *given)
    except OutOfSharedMemory:
        rings = rings_of(groups, tight=True)
        deeper = choose_depth(function, rings, beside, tiles, *given)
    return _Plan(rings, several, tiles, beside, deeper)


def _plan_with_stager(function: Function, groups: Sequence[Group], options: SpecializeWarps) -> _Plan | None:
    """With a stager for what it can do; None where there is nothing, or no room for several stages of it."""
    if num_warps(function) == GROUP_WARPS:
        return None
    for group in groups:
        group.staged = restaged(group)
    if any(g.staged for g in groups):
        try:
            plan = _plan(function, groups, options)
        except OutOfSharedMemory:
            pass
        else:
            if all(r.stages > 1 for r in plan.rings if any(g.staged for g in r.groups)):
                return plan
    for group in groups:
        group.staged = None
    return None


def _specialize(function: Function, groups: Sequence[Group], options: SpecializeWarps) -> Function:
    warps = num_warps(function)
    b, values = begun(function)
    plan = _plan_with_stager(function, groups, options) or _plan(function, groups, options)
    rings = plan.rings
    sources = [r.source for r in rings if r.source is not None]
    for ring in rings:
        allocate_ring(b, ring, 1 if ring in sources else warps // GROUP_WARPS)
    pairs = any(r.by_cluster for r in rings)
    last = barrier_of_last(b, function)
    b.emit_op(ClusterBarrier if pairs else Barrier)
    consumer = Consumer(function, groups, dict(values), last).partition()
    producer = Producer(function, groups, dict(values)).partition()
    roles: dict[str, Any] = {"registers": REGISTERS if warps > GROUP_WARPS else None}
    if plan.several > 1 or plan.tiles > 1:  # of all variants alike: they are launched with as many threads
        roles = {"producer_warps": FETCHING_WARPS}
    elif warps == GROUP_WARPS and plan.beside > 1:
        roles = {"registers": registers(plan.beside)}
    if sources:
        roles["stager"] = Stager(function, [g for g in groups if g.staged], dict(values)).partition()
    b.emit_op(WarpSpecialize, **roles, consumer=consumer, producer=producer)
    if pairs:
        b.emit_op(ClusterBarrier)  # the mate may still fill buffers of this CTA, and give back slots
    b.emit_op(Return)
    made = with_body(function, b.block)
    if any(plan.deeper):
        made.hints[DEEPER] = plan.deeper
    if plan.several > 1:
        made.hints["occupancy"] = plan.several
    return made


def begun(function: Function) -> tuple[Builder, dict[Value, Value]]:
    """Where the body of a function like ``function`` goes on after its tensor maps, and what is the same in it."""
    body = Block()
    values = {arg: body.add_arg(arg.type, arg.name) for arg in function.body.args}
    b = Builder(body, function.loc)
    for op in function.ops_of(ParameterMap):
        b.block.append(clone_op(op, values))
    return b, values


@dataclass(eq=False)
class _Flight:
    """An MMA op in flight: ``op``, what was ``made`` of it, its left operand in registers, slots that it reads last.

    Its sum ``is_seen``, unless all that happens to it is that another MMA op adds to it.
    """

    op: Wgmma
    made: Value
    x: Value | None
    slots: Sequence[tuple[Group, Value]]
    is_seen: bool = True


def _flies(loop: For) -> bool:
    """Whether MMA ops of ``loop`` stay in flight during its next iteration, and no other CTAs multiply then."""
    return only_adds(loop) and not any(isinstance(op, StageOperand) and op.waited for op in loop.body.ops)


def _is_multiplied_alone(group: Group) -> bool:
    """Whether nothing but MMA ops reads what ``group`` fetches, and no iteration ends early around these."""
    users = {op for fetch in (*group.fetches, *group.views) for op in fetch.result.users}
    return users <= group.mmas and not any(has_early_exit(op) for op in group.block.ops if not op.spec.terminator)


def _last_readers(block: Block, group: Group) -> Iterator[Op | Block]:
    """The loop after which, or the block at whose end, ``group`` has been read, on each way through ``block``."""
    last = next((op for op in reversed(block.ops) if not group.mmas.isdisjoint(op.walk())), None)
    if isinstance(last, If):
        for region in last.regions:
            yield from _last_readers(region, group)
    else:
        yield last if isinstance(last, LoopOp) else block


class Consumer(Partition):
    """All other warps: they wait for the tiles, multiply, and give the buffers back. What comes after all MMA ops
    their first thread has copied, of which ``last`` is the barrier."""

    def __init__(
        self, function: Function, groups: Sequence[Group], values: dict[Value, Value], last: Value | None
    ) -> None:
        super().__init__(function, groups, values)
        self._arrives, self._parity = last, 0
        self._adding: dict[Op, list[Wgmma]] = {
            op: mmas_of(op.body)
            for op in function.walk()
            if isinstance(op, For) and _flies(op) and all(g.ring.stages > 1 for g in self._direct(op.body))
        }
        self._flying: list[_Flight] = []
        self._staged = {g.staged: g for g in groups if g.staged is not None}  # by a stager
        self._of_stager: set[Value] = set()  # what it has in registers
        self._turns: set[Block | None] = set()
        if num_warps(function) == 2 * GROUP_WARPS:
            self._turns.update(op.body for op in function.ops_of(For) if takes_turns(op))
        self._held: dict[Group, Value] = {}  # in a loop that only adds: the slot of the iteration before, or -1
        self._puts = bool(function.ops_of(Put))
        self._early: dict[Op | Block, list[Group]] = {}  # after which op, or at whose end, a group is read no more
        for group in groups:
            if group.depth and not group.is_direct and _is_multiplied_alone(group):
                for place in _last_readers(group.block, group):
                    self._early.setdefault(place, []).append(group)

    def op(self, op: Op) -> None:
        if isinstance(op, Fetch) and op in self.group_of:
            self._fetch(op, self.group_of[op])
        elif isinstance(op, Fetch):
            self._fetch_last(op)
        elif isinstance(op, Wgmma):
            self._mma(op)
        elif isinstance(op, StageOperand) and op in self._staged:
            ring = self._staged[op].ring
            self.values[op.result] = ring.buffer(self.b, 0, self.states[ring].slot, op.type)
        elif self._of_stager.intersection(op.operands):
            self._of_stager.update(op.results)
        else:
            self.b.block.append(clone_op(op, self.values))

    def partition(self) -> Block:
        if self._turns:
            self.b.emit_op(barriers.PassTurn, first=True)
        return super().partition()

    def end(self) -> None:
        if self._puts:
            self.b.emit_op(TmaStoreWait)  # shared memory is read until then
        super().end()

    def _fetch(self, op: Fetch, group: Group) -> None:
        b, state = self.b, self.states[group.ring]
        if op is group.fetches[0]:
            b.emit_op(barriers.MbarrierWait, group.ring.barrier(b, state.slot, full=True), state.parity)
        if group.staged is None:
            self.values[op.result] = group.buffer(b, op, state.slot)
        else:
            self._of_stager.add(op.result)

    def _fetch_last(self, op: Fetch) -> None:
        """Wait for a tile that is copied to where all have multiplied."""
        self._land(len(self._flying), op)
        b, full = self.b, self._arrives
        assert full is not None
        buffer = b.emit(SharedAlloc, type=op.type, alignment=SWIZZLED_ALIGNMENT)
        b.emit_op(AsyncFence)
        b.emit_op(Barrier, **self.beside)
        b.emit_op(barriers.MbarrierExpect, full, None, bytes=op.type.bytes)
        b.emit_op(TmaLoad, buffer, full, self.values.get(op.map, op.map), self.all(op.starts), None, None)
        b.emit_op(barriers.MbarrierWait, full, b.constant(self._parity, int32))
        self._parity ^= 1
        self.values[op.result] = buffer

    @property
    def beside(self) -> dict[str, int]:
        """The number and the threads of barriers of these warps, beside which others load."""
        return {"id": CONSUMERS, "threads": num_warps(self.function) * LANES}

    def _direct(self, block: Block) -> list[Group]:
        """The groups whose fetches and MMA ops are all in ``block``."""
        return [g for g in self.groups if g.block is block and g.is_direct]

    def _mma(self, op: Wgmma) -> None:
        """An MMA op, which stays in flight. Those that only add are waited for one iteration later, others when what
        they give is needed."""
        b, block = self.b, op.block
        assert block is not None
        x, y, acc = self.all([op.x, op.y, op.acc])
        adding = None if block.parent is None else self._adding.get(block.parent)
        if adding is None:
            if block in self._turns and op is mmas_of(block)[0]:
                b.emit_op(barriers.TakeTurn)
            made = b.emit(Wgmma, x, y, acc, pending=None)
            if block in self._turns and op is mmas_of(block)[-1]:
                b.emit_op(barriers.PassTurn)
            done = [g for g in self._direct(block) if op is g.last]
            slots = [(g, self._advance(g)) for g in done]
            if self._flying and self._flying[-1].op.result is op.acc:
                self._flying[-1].is_seen = False  # only added to
            self._flying.append(_Flight(op, made, x if isinstance(x.type, TileType) else None, slots))
            self.values[op.result] = made
            return
        last = op is adding[-1]
        self.values[op.result] = b.emit(Wgmma, x, y, acc, pending=len(adding) if last else None)
        for group in self._direct(block) if last else []:
            self._release(group, self._held[group])
            self._held[group] = self._advance(group)

    def before(self, op: Op) -> None:
        """Wait for the MMA ops that ``op`` needs, and for all before control goes elsewhere."""
        if not self._flying:
            return
        if op in self.inside or op.spec.terminator:
            self._land(len(self._flying), op)
            return
        added = op.acc if isinstance(op, Wgmma) and list(op.acc.users) == [op] else None
        used = [v for o in op.walk() for v in o.operands]
        for i, flight in reversed(list(enumerate(self._flying))):
            continued = flight.op.result is added and i == len(self._flying) - 1
            if flight.op.result in used and not continued:
                self._land(i + 1, op)
                return

    def _land(self, count: int, before: Op) -> None:
        """Wait for the first ``count`` MMA ops that are in flight, and give back what they read. What was computed
        meanwhile, and is needed after ``before``, stays before the wait: that is what the MMA ops run beside."""
        landed, self._flying = self._flying[:count], self._flying[count:]
        if not landed:
            return
        b, seen = self.b, [f for f in landed if f.is_seen]
        held = [f.x for f in landed if f.x is not None]
        after = self.all(computed_beside(landed[-1].op, before))
        done = b.emit_op(WgmmaWait, [f.made for f in seen], held, after, pending=len(self._flying))
        self.values.update((f.op.result, v) for f, v in zip(seen, done.results))
        for flight in landed:
            for group, slot in flight.slots:
                self._give_back(group, slot)

    def _advance(self, group: Group) -> Value:
        """Go on to the next slot of the ring of ``group``; the one before."""
        state = self.states[group.ring]
        self.states[group.ring] = state.next(self.b, group.ring.stages)
        return state.slot

    def _give_back(self, group: Group, slot: Value, exists: Value | None = None) -> None:
        """Give back the buffers of ``slot``, if it ``exists``: for the mate, too, where the next one may fill them."""
        b, barrier = self.b, group.ring.barrier(self.b, slot, full=False)
        b.emit_op(barriers.MbarrierArrive, barrier, exists, cluster=group.by_cluster)
        if group.ring.by_cluster and not group.by_cluster:
            b.emit_op(barriers.MbarrierArrive, barrier, exists)  # in the place of the mate

    def _release(self, group: Group, slot: Value) -> None:
        """Give back the buffers of ``slot``, if there is one."""
        b = self.b
        exists = b.emit(Cmp, slot, b.constant(0, int32), predicate=CmpPredicate.GE)
        at = b.emit(Select, exists, slot, b.constant(0, int32))
        self._give_back(group, at, exists)

    def close(self, block: Block) -> None:
        """What was fetched here for MMA ops in nested blocks is needed until here, if not given back before."""
        self._give_back_early(block)
        given = [group for groups in self._early.values() for group in groups]
        for group in self.groups:
            if group.block is block and not group.is_direct:
                slot = self._advance(group)
                if group not in given:
                    self._give_back(group, slot)

    def _give_back_early(self, place: Op | Block) -> None:
        for group in self._early.get(place, ()):
            self._give_back(group, self.states[group.ring].slot)

    def extra(self, op: Op) -> list[Value]:
        if not isinstance(op, LoopOp) or op not in self._adding:
            return []
        return [self.b.constant(-1, int32) for _ in self._direct(op.body)]

    def enter(self, op: LoopOp, extra: Sequence[Value]) -> None:
        if op in self._adding:
            self._held.update(zip(self._direct(op.body), extra))

    def carried_on(self, loop: Op) -> list[Value]:
        if not isinstance(loop, LoopOp) or loop not in self._adding:
            return []
        return [self._held[g] for g in self._direct(loop.body)]

    def leave(self, op: LoopOp, extra: Sequence[Value]) -> None:
        """The accumulators are waited for when the loop has ended."""
        if op in self._adding:
            self._land_added(op, extra)
        self._give_back_early(op)

    def _land_added(self, op: LoopOp, extra: Sequence[Value]) -> None:
        accumulators = [op.results[op.carried.index(p.acc)] for p in self._adding[op] if p.acc in op.carried]
        done = self.b.emit_op(WgmmaWait, self.all(accumulators), [], [])
        self.values.update(zip(accumulators, done.results))
        for group, slot in zip(self._direct(op.body), extra):
            del self._held[group]
            self._ended(group, slot)

    def _ended(self, group: Group, slot: Value) -> None:
        """A loop has ended, whose last iteration read ``slot``."""
        self._release(group, slot)
