"""Rings of buffers for tiles that the TMA unit copies ahead: which tiles arrive together, and how many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.analysis.mma_graph import gathered_for
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, Cmp, Select, Xor
from tilewright.ir.ops.control import LoopOp, block_of
from tilewright.ir.ops.gpu.barriers import MbarrierInit, barriers_type
from tilewright.ir.ops.gpu.memory import SharedAlloc, SharedCopy
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.ops.gpu.tma import SWIZZLED_ALIGNMENT, Fetch, Put
from tilewright.ir.ops.gpu.wgmma import StageOperand, Wgmma
from tilewright.ir.types import SharedType
from tilewright.transforms.gpu.allocate_shared import OutOfSharedMemory
from tilewright.transforms.gpu.mma_loops import readers
from tilewright.transforms.gpu.stage_stores import group_buffers, put_buffers, put_groups

BARRIERS = 1024  # bytes for barriers, and what alignment takes


@dataclass(eq=False)
class Ring:
    """``stages`` copies of tiles that arrive together, and for each copy who says full and empty.

    ``types`` are those of its buffers, the largest first: of groups with smaller tiles only a part is used. Where a
    stager fills it, tiles arrive in ``source``.
    """

    types: list[SharedType]
    groups: list[Group] = field(default_factory=list)
    stages: int = 1
    buffers: list[Value] = field(default_factory=list)
    full: Value | None = None
    empty: Value | None = None
    source: Ring | None = None

    @property
    def depth(self) -> int:
        """So many loops are around the fetches, at most."""
        return max(g.depth for g in self.groups)

    @property
    def bytes(self) -> int:
        """Bytes of one stage."""
        return sum(t.bytes for t in self.types)

    @property
    def by_cluster(self) -> bool:
        """Whether the CTAs of a cluster fill the slots of each other."""
        return any(g.by_cluster for g in self.groups)

    def barrier(self, b: Builder, slot: Value, *, full: bool) -> Value:
        """The barrier of ``slot``."""
        return b.emit(SharedCopy, self.full if full else self.empty, slot)

    def buffer(self, b: Builder, k: int, slot: Value, of: SharedType) -> Value:
        """Buffer number ``k`` of ``slot``, as one of type ``of``."""
        return b.emit(SharedCopy, self.buffers[k], slot, type=None if self.types[k] == of else of)


@dataclass(eq=False)
class Group:
    """Fetches of one block that share ``mmas``: they arrive together. ``depth`` loops are around them. ``views`` are
    what others of them have fetched, seen in another layout. A stager makes what is ``staged`` of the only one."""

    block: Block
    depth: int
    fetches: list[Fetch] = field(default_factory=list)
    mmas: set[Wgmma] = field(default_factory=set)
    views: dict[Fetch, Fetch] = field(default_factory=dict)
    ring: Ring = field(default_factory=lambda: Ring([]))
    staged: StageOperand | None = None

    @property
    def is_direct(self) -> bool:
        """Whether all MMA ops are in the block of the fetches, not nested in it."""
        return all(p.block is self.block for p in self.mmas)

    @property
    def by_cluster(self) -> bool:
        """Whether the CTAs of a cluster fill the slots of each other."""
        return any(f.both is not None for f in self.fetches)

    @property
    def last(self) -> Wgmma:
        """The last MMA op, of a direct group."""
        return max(self.mmas, key=self.block.ops.index)

    def buffer(self, b: Builder, fetch: Fetch, slot: Value) -> Value:
        """What is fetched to ``slot``."""
        k = self.by_size.index(self.views.get(fetch, fetch))
        return (self.ring.source or self.ring).buffer(b, k, slot, fetch.type)

    @property
    def by_size(self) -> list[Fetch]:
        """The fetches, that of the largest tile first."""
        return sorted(self.fetches, key=lambda f: -f.type.bytes)

    @property
    def bytes(self) -> int:
        """What arrives together."""
        return sum(f.type.bytes for f in self.fetches)

    def lands_before(self, other: Group) -> bool:
        """Whether both are of one block, and the MMA ops are waited for there before ``other`` fetches."""
        if self.block is not other.block:
            return False
        result = self.last.result
        while len(users := list(result.users)) == 1 and isinstance(users[0], Wgmma) and users[0].acc is result:
            result = users[0].result  # added to, in flight
        ops = self.block.ops
        seen = [outer for op in result.users if (outer := op.ancestor_in(self.block)) is not None]
        waits = [ops.index(op) for op in seen if op is not self.block.terminator]
        return min(waits, default=len(ops)) < ops.index(other.fetches[0])

    def leaves_cluster_to(self, other: Group) -> bool:
        """Whether this group is over, in both CTAs of a cluster, when ``other``, of each for itself, begins: from then
        on a CTA fills slots of its own, whose numbers the mate does not know."""
        return self.by_cluster and not other.by_cluster and not set(_loops(self.block)) & set(_loops(other.block))

    def is_around(self, other: Group) -> bool:
        """Whether ``other`` fetches in a loop that is nested in that of this group."""
        return self.block is not other.block and any(self.block in loop.regions for loop in _loops(other.block))

    def holds_during(self, other: Group) -> bool:
        """Whether tiles of this group are held while ``other`` fetches: then they cannot share a ring."""
        first, last = (self.block.ops.index(op) for op in (self.fetches[0], self.last))
        between = self.block.ops[first : last + 1]
        return self.block is other.block or any(
            other.block in (r for o in op.walk() for r in o.regions) for op in between
        )


def next_slot(b: Builder, slot: Value, stages: int) -> tuple[Value, Value]:
    """The slot after ``slot``, and whether it is the first one again."""
    after = b.emit(Add, slot, b.constant(1, int32))
    ends = b.emit(Cmp, after, b.constant(stages, int32), predicate=CmpPredicate.EQ)
    return b.emit(Select, ends, b.constant(0, int32), after), ends


@dataclass(frozen=True)
class PipelineState:
    """Where in its ring a group is: the slot, and the parity of the phase in which that is filled."""

    slot: Value
    parity: Value

    def next(self, b: Builder, stages: int) -> PipelineState:
        """The state after this one."""
        if stages == 1:
            return PipelineState(self.slot, b.emit(Xor, self.parity, b.constant(1, int32)))
        slot, ends = next_slot(b, self.slot, stages)
        flipped = b.emit(Xor, self.parity, b.constant(1, int32))
        return PipelineState(slot, b.emit(Select, ends, flipped, self.parity))


def fetch_groups(function: Function) -> list[Group]:
    found: list[Group] = []
    for op in function.ops_of(Fetch):
        assert op.block is not None
        mmas, beside = readers(op.result), [g for g in found if g.block is op.block]
        if not mmas:
            continue  # it is fetched when all has been multiplied
        same = next((f for g in beside for f in g.fetches if _are_one(f, op)), None)
        group = next((g for g in beside if (g.mmas & mmas if same is None else same in g.fetches)), None)
        if group is None:
            group = Group(op.block, len(list(_loops(op.block))))
            found.append(group)
        if same is None:
            group.fetches.append(op)
        else:
            group.views[op] = same
        group.mmas |= mmas
    return found


def _are_one(first: Fetch, other: Fetch) -> bool:
    """Whether ``other`` fetches the same bytes as ``first``, with nothing but fetches between them."""
    assert first.block is not None
    ops = first.block.ops
    between = ops[ops.index(first) : ops.index(other)]
    overwritten = any(isinstance(user, StageOperand) for f in (first, other) for user in f.result.users)
    return first.operands == other.operands and not overwritten and all(isinstance(op, Fetch) for op in between)


def _loops(block: Block | None) -> Iterator[Op]:
    """The loops around the ops of ``block``."""
    while block is not None and (around := block.parent) is not None:
        if isinstance(around, LoopOp):
            yield around
        block = around.block


def rings_of(groups: Sequence[Group], *, tight: bool = False, ahead: bool = False) -> list[Ring]:
    """The rings of all groups: those that fetch as many tiles one after the other share one. Where memory is ``tight``,
    also those of one block, of which the first ones are multiplied before the other ones are fetched. What a loop needs
    next is fetched before loops nested in it run, if it is fetched ``ahead`` by who multiplies."""
    rings: list[Ring] = []
    for group in groups:
        types = [f.type for f in group.by_size] if group.staged is None else [group.staged.type]
        group.ring = next(
            (r for r in rings if len(r.types) == len(types) and _may_share(r, group, tight, ahead)), Ring(types)
        )
        group.ring.types = [max(pair, key=lambda t: t.bytes) for pair in zip(group.ring.types, types)]
        group.ring.groups.append(group)
        if group.ring not in rings:
            rings.append(group.ring)
        if group.staged is not None and group.ring.source is None:
            group.ring.source = Ring([f.type for f in group.fetches], group.ring.groups)
    return [*rings, *(r.source for r in rings if r.source is not None)]


def _may_share(ring: Ring, group: Group, tight: bool, ahead: bool) -> bool:
    """Whether the tiles of ``group`` and those of ``ring`` are given back before the other ones are fetched."""
    of = group.staged and group.fetches[0].type
    if any((g.staged and g.fetches[0].type) != of for g in ring.groups):
        return False
    return group.is_direct and all(
        g.is_direct
        and (g.by_cluster == group.by_cluster or g.leaves_cluster_to(group))
        and (not (g.holds_during(group) or group.holds_during(g)) or (tight and g.lands_before(group)))
        and not (ahead and (g.is_around(group) or group.is_around(g)))
        for g in ring.groups
    )


def choose_stages(rings: Sequence[Ring], room: int, most: int) -> None:
    """Copies of the tiles of each ring: one; more for those in the innermost loops, as far as there is room."""
    left = room - sum(r.bytes for r in rings)
    if left < 0:
        needed = sum(r.bytes for r in rings)
        raise OutOfSharedMemory(
            f"the tiles that are loaded for MMA ops need {needed} bytes of shared memory, and there are {room} for "
            "them; use smaller tiles",
            rings[0].groups[0].fetches[0].loc,
        )
    for depth in sorted({r.depth for r in rings if r.depth}, reverse=True):
        for stages in range(2, most + 1):
            for ring in rings:
                if ring.depth == depth and ring.stages == stages - 1 and ring.bytes <= left:
                    ring.stages = stages
                    left -= ring.bytes


def needed_elsewhere(function: Function, *, after: bool = True) -> int:
    """Shared memory that stores of results and conversions of layouts need, at most; only before all is multiplied
    unless ``after`` counts, too."""
    groups = [group for group in put_groups(function) if after and not group[0].adds]
    stores = sum(t.bytes * count for t, count in map(group_buffers, groups))
    conversions, later = 0, set[Op]()
    if not after:
        loads: list[Op] = [op for op in function.ops_of(Fetch) if readers(op.result)] or function.ops_of(StageOperand)
        found = [list(op.walk()) for op in block_of(function.body, type(loads[0])).ops]
        fetching = max(i for i, ops in enumerate(found) if any(op in loads for op in ops))
        later.update(op for ops in found[fetching + 1 :] for op in ops)
    for op in function.ops_of(ConvertLayout):
        if op not in later:
            conversions = max(conversions, op.type.bytes)
    late = [op.type.bytes for op in function.ops_of(Fetch) if not readers(op.result)] if after else []
    return max(stores, *late, 0) + staged_bytes(function) + conversions


def staged_bytes(function: Function) -> int:
    """Shared memory of operands that threads compute or gather, and of what is added to memory beside MMA ops."""
    staged = (op for op in staged_at_once(function) if op.buffer is None)
    added = [(op, op.value.tile) for op in function.ops_of(Put) if op.adds]
    buffers = ((t.bytes, 1) if t.layout is None else _buffers(op) for op, t in added)
    return sum(op.copies * _copy_bytes(op) for op in staged) + sum(size * count for size, count in buffers)


def staged_at_once(function: Function) -> list[StageOperand]:
    """What threads put into shared memory: of loops that follow each other, each with copies of its own, what takes the
    most."""
    staged, loops = function.ops_of(StageOperand), dict[Block | None, list[StageOperand]]()
    for op in staged:
        if op.copies > 1:
            loops.setdefault(op.block, []).append(op)
    if len({None if block is None or block.parent is None else block.parent.block for block in loops}) > 1:
        return staged
    most = max(loops.values(), key=lambda ops: sum(op.copies * _copy_bytes(op) for op in ops), default=[])
    return [op for op in staged if op.copies == 1 or op in most]


def _copy_bytes(op: StageOperand) -> int:
    """The shared memory of one of several copies of what ``op`` puts there, with what threads gather for it."""
    loads = gathered_for(op) if op.copies > 1 else []
    return op.type.bytes + sum(load.results[0].tile.bytes for load in loads)


def _buffers(op: Put) -> tuple[int, int]:
    """The bytes of a piece of what ``op`` puts, and how many of these have a buffer."""
    t, count = put_buffers(op)
    return t.bytes, count


def barrier_of_last(b: Builder, function: Function) -> Value | None:
    """The barrier of what is fetched when all has been multiplied, one tile after the other; None without any."""
    if all(readers(op.result) for op in function.ops_of(Fetch)):
        return None
    full = b.emit(SharedAlloc, type=barriers_type(1))
    b.emit_op(MbarrierInit, full, count=1)
    return full


def allocate_ring(b: Builder, ring: Ring, arrivals: int) -> None:
    """Shared memory of a ring, and its barriers: the consumers' warp groups say that a slot is empty, by so many
    ``arrivals``; by none, where they fill it themselves."""
    b.loc = ring.groups[0].fetches[0].loc
    for of in ring.types:
        t = SharedType(of.dtype, of.layout, ring.stages)
        ring.buffers.append(b.emit(SharedAlloc, type=t, alignment=SWIZZLED_ALIGNMENT))
    t = barriers_type(ring.stages)
    ring.full, ring.empty = b.emit(SharedAlloc, type=t), b.emit(SharedAlloc, type=t) if arrivals else None
    b.emit_op(MbarrierInit, ring.full, count=1)
    if arrivals:
        b.emit_op(MbarrierInit, ring.empty, count=2 * arrivals if ring.by_cluster else arrivals)
