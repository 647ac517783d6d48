"""Warp specialization: one thread has the TMA unit copy the tiles that the other warps multiply, ahead of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.analysis.mma_graph import depends
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import float32, int32
from tilewright.ir.effects import effect_of, is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import CTAS_OF_SM, DEEPER, num_warps
from tilewright.ir.layouts import LANES
from tilewright.ir.opdef import Effect, create
from tilewright.ir.ops.arith import Cmp, Select, Xor
from tilewright.ir.ops.control import CONTROL_FLOW, Break, Continue, For, If, Loop, LoopOp, Return, Yield
from tilewright.ir.ops.gpu import barriers
from tilewright.ir.ops.gpu.cluster import ClusterBarrier
from tilewright.ir.ops.gpu.memory import Barrier, SharedLoad
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tiles import ThreadReduce
from tilewright.ir.ops.gpu.tma import Fetch, Put, TensorMap, TmaLoad, TmaStoreWait
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, StageOperand, Wgmma, WgmmaWait
from tilewright.ir.rewrite import clone_op, open_block, stand_for, with_body
from tilewright.ir.types import I32, SharedType, TileType
from tilewright.transforms.gpu.allocate_shared import MOST_SHARED_BYTES, OutOfSharedMemory, share_of_sm
from tilewright.transforms.gpu.fetch_rings import (
    BARRIERS,
    Group,
    PipelineState,
    Ring,
    allocate_ring,
    choose_stages,
    fetch_groups,
    needed_elsewhere,
    rings_of,
    staged_bytes,
)
from tilewright.transforms.gpu.overlap_mma import VECTOR_REGISTERS

_STAGES, _MOST_STAGES = 4, 8  # of rings; of those of MMA ops that wait for nothing but loads
_FEW_ACCUMULATORS = 64  # registers of a thread, with which there is room for a second CTA on an SM
# Both MMA ops of an element of the scores take as long as an exponential, with so many of k together. Turns pay for
# attention of width 64 on an H100, not for 128 and 256: benchmarks/results/gpu_attention.md.
_MOST_DEPTH = 128
_REGISTERS = (40, 232)  # with two warp groups that multiply: 65536 registers of an SM for three, in steps of 8
SM_REGISTERS, _STEP = 65536, 8  # CUDA C++ Programming Guide, technical specifications
_LEAST_REGISTERS = 24  # setmaxnreg: PTX ISA
_MOST_CTAS = 5  # on an SM, of attention: with more registers do not suffice for a softmax
_MOST_TILES = 6  # CTAs on an SM with a tile of a product each
_LARGE_STEP = 128 * 128 * 2  # bytes that a step loads: benchmarks/results/gpu_products.md
_FEW_BLOCKS = range(1, 5)  # of a grid on an SM, which are not many
_CTAS = 2  # on an SM, of one warp group that multiplies between other things
_FETCHING_WARPS = 1  # where several CTAs share the registers of an SM, which are not redistributed
_QUARTERS = 4  # of an SM: CUDA C++ Programming Guide, "Compute capability 9.0"
_WORDS_BESIDE_ATTENTION, _WORDS_BESIDE_SUMS = 32, 26  # of a thread for what is no accumulator
_LEAST_STAGES = 3  # of each of two CTAs
_MOST_WIDTH = 128  # of heads, times two warp groups, with which several CTAs pay: benchmarks/results/gpu_attention.md
# Of a thread for what is no sum or operand: 64x64 tiles of width 128 take 159 of their own choice (ptxas 13.5).
_OTHER_REGISTERS = 48


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


def _specialize(function: Function, groups: Sequence[Group], options: SpecializeWarps) -> Function:
    warps = num_warps(function)
    b, values = begun(function)
    rings = rings_of(groups)
    several = 1 if options.stages else _ctas_of_sums(function, rings, options.limit)
    tiles = 1 if options.stages or several > 1 else _ctas_of_tiles(function, rings, options.limit)
    several = max(several, _resident(rings, tiles, options.blocks))
    beside = several if several > 1 else _ctas_of_an_sm(function, rings, options.limit)
    try:
        deeper = _choose_depth(function, rings, options, beside, tiles)
    except OutOfSharedMemory:
        rings = rings_of(groups, tight=True)
        deeper = _choose_depth(function, rings, options, beside, tiles)
    for ring in rings:
        allocate_ring(b, ring, warps // GROUP_WARPS)
    pairs = any(r.by_cluster for r in rings)
    b.emit_op(ClusterBarrier if pairs else Barrier)
    consumer = Consumer(function, groups, dict(values)).partition()
    producer = _Producer(function, groups, dict(values)).partition()
    roles: dict[str, Any] = {"registers": _REGISTERS if warps > GROUP_WARPS else None}
    if several > 1 or tiles > 1:  # of all variants alike: they are launched with as many threads
        roles = {"producer_warps": _FETCHING_WARPS}
    elif warps == GROUP_WARPS and beside > 1:
        roles = {"registers": _registers(beside)}
    b.emit_op(WarpSpecialize, **roles, consumer=consumer, producer=producer)
    if pairs:
        b.emit_op(ClusterBarrier)  # the mate may still fill buffers of this CTA, and give back slots
    b.emit_op(Return)
    made = with_body(function, b.block)
    if any(deeper):
        made.hints[DEEPER] = deeper
    if several > 1:
        made.hints["occupancy"] = several
    return made


def begun(function: Function) -> tuple[Builder, dict[Value, Value]]:
    """Where the body of a function like ``function`` goes on after its tensor maps, and what is the same in it."""
    body = Block()
    values = {arg: body.add_arg(arg.type, arg.name) for arg in function.body.args}
    b = Builder(body, function.loc)
    for op in function.walk():
        if isinstance(op, TensorMap):
            b.block.append(clone_op(op, values))
    return b, values


def accumulators_beside(mmas: Sequence[Wgmma]) -> list[int]:
    """The elements of the accumulators of all MMA ops of a block, for each block."""
    return [sum(p.acc.tile.size for p in mmas if p.block is block) for block in {p.block for p in mmas}]


def _registers_beside(ctas: int, warps: int) -> int:
    """Registers of a thread, where an SM holds so many CTAs of so many warps: its quarters have registers of their
    own."""
    return SM_REGISTERS // LANES // _QUARTERS // -(-ctas * warps // _QUARTERS) // _STEP * _STEP


def ctas_of_attention(function: Function, warps: int, limit: int = MOST_SHARED_BYTES, *, staged: bool = False) -> int:
    """How many CTAs an SM is to hold, of ``warps`` that multiply and fetch: of kernels whose loops have MMA ops that
    follow from each other, with what is between in registers, or ``staged`` where that is wanted. 0 for other kernels,
    and where one has no room beside another one."""
    mmas = [op for op in function.walk() if isinstance(op, Wgmma)]
    through = [op for op in mmas if isinstance(op.y.op, StageOperand)]
    last = through if staged else [op for op in mmas if isinstance(op.x.type, TileType)]
    groups, asked = fetch_groups(function), function.hints.get("occupancy", 0)
    if asked == 1 or not last or (through and not staged):
        return 0
    if warps > GROUP_WARPS and max(op.acc.tile.shape[1] for op in last) * warps // GROUP_WARPS > _MOST_WIDTH:
        return 0
    if not all(op in last or any(q.block is op.block and depends(q, op) for q in last) for op in mmas):
        return 0
    rings = rings_of(groups)
    if not _lie_apart(function, rings):
        return 0
    stored = sum(op.value.tile.size * op.value.tile.element.bytes for op in function.walk() if isinstance(op, Put))
    needed = max(sum(r.bytes for r in rings), stored) + staged_bytes(function) + BARRIERS
    words = max(accumulators_beside(mmas)) // (LANES * warps) + _WORDS_BESIDE_ATTENTION
    fits = (
        n for n in range(_MOST_CTAS, 1, -1) if words <= _registers_beside(n, warps) and needed <= share_of_sm(limit, n)
    )
    return next(fits, 0)


def _ctas_of_sums(function: Function, rings: Sequence[Ring], limit: int) -> int:
    """How many CTAs an SM is to hold whose loops wait for their MMA op in each step, as it is scaled before it is
    added: another one multiplies meanwhile. 1 for others, and where there is no room for several stages of each."""
    mmas, warps = [op for op in function.walk() if isinstance(op, Wgmma)], num_warps(function)
    simple = all(isinstance(op.x.type, SharedType) and not isinstance(op.y.op, StageOperand) for op in mmas)
    beside = min(map(_carried_beside, mmas))
    if not (simple and beside and _lie_apart(function, rings)) or function.hints.get("occupancy") == 1:
        return 1
    words = (max(accumulators_beside(mmas)) + beside) // (LANES * warps) + _WORDS_BESIDE_SUMS
    enough = share_of_sm(limit, _CTAS) - BARRIERS >= _LEAST_STAGES * sum(r.bytes for r in rings)
    return _CTAS if enough and words <= _registers_beside(_CTAS, warps + _FETCHING_WARPS) else 1


def _ctas_of_tiles(function: Function, rings: Sequence[Ring], limit: int) -> int:
    """How many CTAs with a tile of a product each an SM has room for, where these have several stages each, if they are
    more than two, or two of two warp groups: some multiply while others begin and end."""
    mmas, warps = [op for op in function.walk() if isinstance(op, Wgmma)], num_warps(function)
    simple = all(isinstance(op.x.type, SharedType) and not isinstance(op.y.op, StageOperand) for op in mmas)
    if not (simple and _lie_apart(function, rings)) or function.hints.get("occupancy") == 1:
        return 1
    words = max(accumulators_beside(mmas)) // (LANES * warps) + _WORDS_BESIDE_SUMS
    needed = _LEAST_STAGES * sum(r.bytes for r in rings) + needed_elsewhere(function, puts=False) + BARRIERS
    for ctas in range(_MOST_TILES, _CTAS - (warps > GROUP_WARPS), -1):
        if needed <= share_of_sm(limit, ctas) and words <= _registers_beside(ctas, warps + _FETCHING_WARPS):
            return ctas
    return 1


def _resident(rings: Sequence[Ring], tiles: int, blocks: int) -> int:
    """How many CTAs an SM is to hold, of ``tiles`` that there is room for, where the grid puts so many blocks there: as
    many as are there to the end. Where these are many (0), all, but one alone of two warp groups with small steps."""
    if not blocks or (tiles == _CTAS and blocks != tiles):
        return tiles if tiles > _CTAS or sum(r.bytes for r in rings) >= _LARGE_STEP else 1
    return min(range(tiles, 0, -1), key=lambda ctas: -(-blocks // ctas) * ctas)


def _carried_beside(op: Wgmma) -> int:
    """The elements of tiles as large as the accumulator of ``op`` that the loop around it carries, but for that."""
    carried = op.parent.carried if isinstance(op.parent, For) else []
    return sum(v.tile.size for v in carried if v.tile.size == op.acc.tile.size and op.acc is not v)


def _lie_apart(function: Function, rings: Sequence[Ring]) -> bool:
    """Whether all has been multiplied that ``rings`` hold, when results are stored: they may lie there."""
    kinds = [{type(o) for o in op.walk()} for op in function.body.ops]
    fetching = max(i for i, found in enumerate(kinds) if Fetch in found)
    storing = next((i for i, found in enumerate(kinds) if Put in found), len(kinds))
    return fetching < storing and all(r.depth <= 1 and not r.by_cluster for r in rings)


def _registers(ctas: int) -> tuple[int, int]:
    """Registers of a thread that loads, and of one that multiplies, in so many CTAs of two warp groups on an SM."""
    both = SM_REGISTERS // (ctas * LANES * GROUP_WARPS) // (2 * _STEP) * 2 * _STEP
    load = _REGISTERS[0] if ctas <= _CTAS else _LEAST_REGISTERS
    return load, both - load


def _ctas_of_an_sm(function: Function, rings: Sequence[Ring], limit: int) -> int:
    """How many CTAs of one warp group an SM is to hold, where MMA ops wait for other things than loads: what one does
    meanwhile, another one multiplies beside. As many as two stages and the registers suffice for, if these are as many
    as the hint says."""
    mmas = [op for op in function.walk() if isinstance(op, Wgmma)]
    left = [op.x.type.size // 2 for op in mmas if isinstance(op.x.type, TileType)]
    asked = function.hints.get("occupancy")
    if num_warps(function) != GROUP_WARPS or not left or asked == 1:
        return 1
    threads = LANES * GROUP_WARPS
    words = (max(accumulators_beside(mmas)) + max(left)) // threads
    largest = max(op.acc.tile.size for op in mmas) // threads
    depth = max(r.depth for r in rings)
    needed = sum(r.bytes * (2 if r.depth == depth else 1) for r in rings) + needed_elsewhere(function) + BARRIERS
    for ctas in range(_MOST_CTAS, asked - 1 if isinstance(asked, int) else _CTAS - 1, -1):
        load, compute = _registers(ctas)
        fits = words + _OTHER_REGISTERS <= compute and largest < (load + compute) // 2  # with which a CTA begins
        if fits and needed <= share_of_sm(limit, ctas):
            return ctas
    return 1


def _choose_depth(
    function: Function, rings: Sequence[Ring], options: SpecializeWarps, ctas: int, tiles: int
) -> tuple[int, ...]:
    """Choose how many stages each ring has, where an SM holds so many CTAs, of ``tiles`` that there is room for. Gives
    how many there would be if the grid put few blocks on each SM, one and more; 0 where that changes nothing."""
    mmas = [op for op in function.walk() if isinstance(op, Wgmma)]
    simple = all(isinstance(op.x.type, SharedType) for op in mmas)
    most, apart = options.stages or (_MOST_STAGES if simple else _STAGES), _lie_apart(function, rings)

    def choose(ctas: int) -> int:
        for ring in rings:
            ring.stages = 1
        used = needed_elsewhere(function, puts=ctas == 1 or not apart) + BARRIERS
        choose_stages(rings, share_of_sm(options.limit, ctas) - used, most)
        return max(r.stages for r in rings)

    if tiles > 1 and not options.blocks:
        other = [_resident(rings, tiles, blocks) for blocks in _FEW_BLOCKS]
        deeper = tuple(choose(few) if few != ctas else 0 for few in other)
        choose(ctas)
        return deeper
    alone, half = choose(ctas), options.limit // 2 - needed_elsewhere(function) - BARRIERS
    threads = LANES * num_warps(function)
    accumulators = sum(p.acc.tile.size // threads for p in mmas)
    crowded = threads > LANES * GROUP_WARPS or accumulators > _FEW_ACCUMULATORS
    if options.stages or options.blocks or not simple or crowded or ctas > 1:
        return ()
    if half < _LEAST_STAGES * sum(r.bytes for r in rings):
        return ()
    for ring in rings:
        ring.stages = 1
    choose_stages(rings, half, most)
    return (alone,) if max(r.stages for r in rings) < alone else ()


class Partition:
    """The function as one side runs it; the states of rings go with the values that control flow carries."""

    def __init__(self, function: Function, groups: Sequence[Group], values: dict[Value, Value]) -> None:
        self.function = function
        self.groups = groups
        self.group_of = {f: g for g in groups for f in (*g.fetches, *g.views)}
        self.values = values
        self.states: dict[Ring, PipelineState] = {}
        self.inside: dict[Op, list[Ring]] = {
            op: self._rings_in(op) for op in function.walk() if isinstance(op, CONTROL_FLOW) and not is_pure(op)
        }
        self.b = Builder(Block(), function.loc)

    def _rings_in(self, op: Op) -> list[Ring]:
        blocks = {r for o in op.walk() for r in o.regions}
        return list(dict.fromkeys(g.ring for g in self.groups if g.block in blocks))

    def partition(self) -> Block:
        zero = self.b.constant(0, int32)
        for group in self.groups:
            self.states[group.ring] = PipelineState(zero, zero)
        self.ops(self.function.body, [])
        return self.b.block

    def ops(self, block: Block, enclosing: list[Op]) -> None:
        """Emit the ops of ``block``."""
        for op in block.ops:
            self.b.loc = op.loc
            self.before(op)
            if isinstance(op, CONTROL_FLOW) and not is_pure(op):
                self.control(op, enclosing)
            elif isinstance(op, Return):
                self.close(block)
                self.end()
            elif isinstance(op, (Yield, Continue, Break)):
                self.terminator(op, enclosing)
            elif not isinstance(op, TensorMap):
                self.op(op)

    def all(self, old: Sequence[Value]) -> list[Value]:
        return [self.values.get(v, v) for v in old]

    def op(self, op: Op) -> None:
        raise NotImplementedError

    def before(self, op: Op) -> None:
        """``op`` comes next."""

    def end(self) -> None:
        self.b.emit_op(Yield, [])

    def close(self, block: Block) -> None:
        """The end of ``block``."""

    def extra(self, op: Op) -> list[Value]:
        """What ``op`` carries besides the states: the initial values."""
        return []

    # -- control flow

    def _flat(self, rings: Sequence[Ring]) -> list[Value]:
        """The states of ``rings``: the slot, where there are several, and the parity."""
        return [v for r in rings for v in (*[self.states[r].slot] * (r.stages > 1), self.states[r].parity)]

    def _set(self, rings: Sequence[Ring], flat: Sequence[Value]) -> None:
        given = iter(flat)
        for ring in rings:
            slot = next(given) if ring.stages > 1 else self.states[ring].slot
            self.states[ring] = PipelineState(slot, next(given))

    def control(self, op: Op, enclosing: list[Op]) -> None:
        rings, inner = self.inside[op], [*enclosing, op]
        before = dict(self.states)
        count = len(self._flat(rings))
        added = (I32,) * count
        if isinstance(op, If):
            regions = []
            for region in (op.then, op.orelse):
                self.states = dict(before)
                regions.append(self._region(region, inner, Block()))
            condition: list[Any] = [self.values.get(op.condition, op.condition)]
            keywords: dict[str, Any] = {"types": (*op.types, *added), "then": regions[0], "orelse": regions[1]}
            made = create(If, condition, keywords, op.loc)
        else:
            assert isinstance(op, LoopOp)
            extra = self.extra(op)
            inits = [*self.all(op.inits), *self._flat(rings), *extra]
            body = open_block(op.body, self.values)
            args = [body.add_arg(v.type) for v in inits[len(op.inits) :]]
            self._set(rings, args)
            self.enter(op, args[count:])
            self._region(op.body, inner, body)
            bounds = self.all(op.bounds) if isinstance(op, For) else []
            keywords = {"body": body} | ({"types": (*op.types, *added)} if isinstance(op, Loop) else {})
            made = create(type(op), [*bounds, inits], keywords, op.loc)
        self.b.block.append(made)
        stand_for(op, made, self.values)
        self.states = before
        results = made.results[len(op.results) :]
        self._set(rings, results)
        if isinstance(op, LoopOp):
            self.leave(op, results[count:])

    def enter(self, op: LoopOp, extra: Sequence[Value]) -> None:
        """The body of a loop begins; ``extra`` is carried."""

    def leave(self, op: LoopOp, extra: Sequence[Value]) -> None:
        """A loop has ended, with the last values of ``extra``."""

    def carried_on(self, loop: Op) -> list[Value]:
        """The next values of what a loop carries besides states."""
        return []

    def _region(self, block: Block, enclosing: list[Op], made: Block) -> Block:
        with self.b.at(made):
            self.ops(block, enclosing)
        return made

    def terminator(self, op: Yield | Continue | Break, enclosing: list[Op]) -> None:
        target = enclosing[-1]
        if not isinstance(op, Yield):
            target = next(o for o in reversed(enclosing) if isinstance(o, LoopOp))
        assert op.block is not None
        self.close(op.block)
        more = self._flat(self.inside[target])
        if isinstance(op, Continue):
            more += self.carried_on(target)
        self.b.emit_op(type(op), [*self.all(op.values), *more])


class _Producer(Partition):
    """One thread: nothing but fetches, and what decides about them. What else was copied nobody needs."""

    def __init__(self, function: Function, groups: Sequence[Group], values: dict[Value, Value]) -> None:
        super().__init__(function, groups, values)
        self._unknown: set[Value] = set()  # what is made of fetched tiles in registers

    def op(self, op: Op) -> None:
        if isinstance(op, Fetch):
            if op not in self.group_of[op].views:
                self._fetch(op, self.group_of[op])
        elif isinstance(op, Wgmma):
            self.values[op.result] = self.values.get(op.acc, op.acc)
        elif isinstance(op, SharedLoad) or self._unknown.intersection(op.operands):
            self._unknown.update(op.results)  # on the way to an MMA op
        elif not effect_of(op) & (Effect.WRITE | Effect.OUTPUT):
            self.b.block.append(clone_op(op, self.values))

    def _fetch(self, op: Fetch, group: Group) -> None:
        b, ring, state = self.b, group.ring, self.states[group.ring]
        full = ring.barrier(b, state.slot, full=True)
        if op is group.fetches[0]:
            emptied = b.emit(Xor, state.parity, b.constant(1, int32))
            b.emit_op(barriers.MbarrierWait, ring.barrier(b, state.slot, full=False), emptied)
            b.emit_op(barriers.MbarrierExpect, full, None, bytes=group.bytes)
        buffer = group.buffer(b, op, state.slot)
        both = None if op.both is None else self.values.get(op.both, op.both)
        b.emit_op(TmaLoad, buffer, full, self.values.get(op.map, op.map), self.all(op.starts), both, None)
        if op is group.fetches[-1]:
            self.states[ring] = state.next(b, ring.stages)


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


class Consumer(Partition):
    """All other warps: they wait for the tiles, multiply, and give the buffers back."""

    def __init__(self, function: Function, groups: Sequence[Group], values: dict[Value, Value]) -> None:
        super().__init__(function, groups, values)
        self._adding: dict[Op, list[Wgmma]] = {
            op: _mmas(op.body)
            for op in function.walk()
            if isinstance(op, For) and _only_adds(op) and all(g.ring.stages > 1 for g in self._direct(op.body))
        }
        self._flying: list[_Flight] = []
        self._turns: set[Block | None] = set()
        if num_warps(function) == 2 * GROUP_WARPS:
            self._turns.update(op.body for op in function.walk() if isinstance(op, For) and _takes_turns(op))
        self._held: dict[Group, Value] = {}  # in a loop that only adds: the slot of the iteration before, or -1
        self._puts = any(isinstance(op, Put) for op in function.walk())

    def op(self, op: Op) -> None:
        if isinstance(op, Fetch):
            self._fetch(op, self.group_of[op])
        elif isinstance(op, Wgmma):
            self._mma(op)
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
        self.values[op.result] = group.buffer(b, op, state.slot)

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
            if block in self._turns and op is _mmas(block)[0]:
                b.emit_op(barriers.TakeTurn)
            made = b.emit(Wgmma, x, y, acc, pending=None)
            if block in self._turns and op is _mmas(block)[-1]:
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
        if (isinstance(op, CONTROL_FLOW) and not is_pure(op)) or op.spec.terminator:
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
        after = self.all(_computed(landed[-1].op, before))
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
        """What was fetched here for MMA ops in nested blocks is needed until here."""
        for group in self.groups:
            if group.block is block and not group.is_direct:
                self._give_back(group, self._advance(group))

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
        if op not in self._adding:
            return
        accumulators = [op.results[op.carried.index(p.acc)] for p in self._adding[op]]
        done = self.b.emit_op(WgmmaWait, self.all(accumulators), [], [])
        self.values.update(zip(accumulators, done.results))
        for group, slot in zip(self._direct(op.body), extra):
            del self._held[group]
            self._release(group, slot)


def _computed(mma: Op, end: Op) -> list[Value]:
    """What is computed last between ``mma`` and ``end``: the sums of a reduction in threads, or another vector
    of float32 that is used from there on."""
    block = end.block
    assert block is not None
    first, last = block.ops.index(mma) + 1, block.ops.index(end)
    needed = {v for op in block.ops[last:] for o in op.walk() for v in o.operands}
    vectors = [v for op in block.ops[first:last] for v in op.results if v in needed and _is_vector(v)]
    reduced = [v for v in vectors if isinstance(v.op, ThreadReduce)]
    return (reduced or vectors)[-1:]


def _is_vector(value: Value) -> bool:
    t = value.type
    if not isinstance(t, TileType) or t.is_pointer or t.layout is None or t.element is not float32:
        return False
    return t.layout.num_registers <= VECTOR_REGISTERS


def _mmas(block: Block) -> list[Wgmma]:
    return [op for op in block.ops if isinstance(op, Wgmma)]


def _takes_turns(loop: For) -> bool:
    """Whether one warp group computes while the other one multiplies: in loops whose last MMA op is that of the
    iteration before (its left operand is carried, in registers), and whose MMA ops take no longer than a softmax.
    Groups that stage an operand together wait for each other."""
    mmas = _mmas(loop.body)
    if len(mmas) < 2 or mmas[-1].x not in loop.carried:
        return False
    if any(isinstance(op, StageOperand) for op in loop.body.ops):
        return False
    first, last = mmas[0], mmas[-1]
    assert isinstance(first.y.type, SharedType)
    return first.y.type.shape[0] + last.acc.tile.shape[1] <= _MOST_DEPTH


def _only_adds(loop: For) -> bool:
    """Whether what the MMA ops of a loop give is carried to the same MMA op, and seen by nothing else.

    Then they can stay in flight: their operands are in rings alone, or put there in the place of what was fetched.
    """
    mmas = _mmas(loop.body)
    return bool(mmas) and all(
        isinstance(mma.x.type, SharedType)
        and not (isinstance(mma.y.op, StageOperand) and mma.y.op.buffer is None)
        and mma.acc in loop.carried
        and list(mma.acc.users) == [mma]
        and list(mma.result.users) == [loop.body.terminator]
        and [v is mma.result for v in loop.next_values].count(True) == 1
        and loop.next_values[loop.carried.index(mma.acc)] is mma.result
        for mma in mmas
    )
