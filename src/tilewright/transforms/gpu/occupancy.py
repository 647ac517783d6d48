"""How many CTAs an SM is to hold, and how deep the rings of fetched tiles are: registers and shared memory decide."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.gpu.target import SM_REGISTERS
from tilewright.analysis.live_ranges import LiveRanges, max_live
from tilewright.analysis.mma_graph import depends, live_sums
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.gpu_stage import MOST_CTAS, num_warps
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.control import For, LoopOp, block_of
from tilewright.ir.ops.gpu.memory import GlobalLoad, SharedLoad
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat
from tilewright.ir.ops.gpu.tma import Fetch, Put
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, StageOperand, Wgmma
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import SharedType, TileType
from tilewright.transforms.gpu.allocate_shared import MOST_SHARED_BYTES, share_of_sm, shared_bytes
from tilewright.transforms.gpu.fetch_rings import (
    BARRIERS,
    Ring,
    choose_stages,
    fetch_groups,
    needed_elsewhere,
    rings_of,
    staged_at_once,
    staged_bytes,
)
from tilewright.transforms.gpu.mma_loops import loaded_left

_STAGES, _MOST_STAGES = 4, 8  # of rings; of those of MMA ops that wait for nothing but loads
_FEW_ACCUMULATORS = 64  # registers of a thread, with which there is room for a second CTA on an SM
REGISTERS = (40, 232)  # with two warp groups that multiply: 65536 registers of an SM for three, in steps of 8
_STEP = 8  # of registers of a thread
_LEAST_REGISTERS = 24  # setmaxnreg: PTX ISA
_MOST_CTAS = 5  # on an SM, of attention: with more registers do not suffice for a softmax
_MOST_TILES = 6  # CTAs on an SM with a tile of a product each
_LARGE_STEP = 128 * 128 * 2  # bytes that a step loads: benchmarks/results/gpu_products.md
_FEW_BLOCKS = range(1, 5)  # of a grid on an SM, which are not many
_CTAS = 2  # on an SM, of one warp group that multiplies between other things
FETCHING_WARPS = 1  # where several CTAs share the registers of an SM, which are not redistributed
_QUARTERS = 4  # of an SM: CUDA C++ Programming Guide, "Compute capability 9.0"
_WORDS_BESIDE_ATTENTION, _WORDS_BESIDE_SUMS = 32, 26  # of a thread for what is no accumulator
# For addresses of what it loads, and as many for conversions: by ptxas 13.0, which gives 64x64 tiles beside masks of 16
# bits 125 registers of 128, and beside those of 32 bits 153 of 168.
_WORDS_BESIDE_LOADS = 8
_LEAST_STAGES = 3  # of each of two CTAs
_MOST_COPIES = 6  # of what threads gather
_WORDS_BESIDE_GATHERS = 38  # of a thread, with the addresses of what it copies: 64x64 and 128x128 (ptxas 13.5)
MOST_WIDTH = 128  # of heads, times two warp groups, with which several CTAs pay: benchmarks/results/gpu_attention.md
# Of a thread for what is no sum or operand: 64x64 tiles of width 128 take 159 of their own choice (ptxas 13.5).
_OTHER_REGISTERS = 48


def ctas_of_mma(function: Function, limit: int) -> int:
    """How many CTAs an SM has room for, of a kernel in the gpu stage whose warps multiply for themselves: with these
    registers of a thread, of which the assembler otherwise takes what it likes. 0 for other kernels."""
    if not function.ops_of(GpuMma):
        return 0
    ranges = LiveRanges(function)
    results = [(ranges.last[op], v) for op in ranges.first for v in op.results]
    carried = [(at, v) for op, at in ranges.first.items() for region in op.regions for v in region.args]
    lives = [(at, ranges.end(v.users, v.block), _words(v)) for at, v in (*results, *carried)]
    words = int(max_live(lives)) + _WORDS_BESIDE_ATTENTION + max(op.words_beside for op in function.ops_of(GpuMma))
    ctas = range(SM_REGISTERS // (words * num_warps(function) * LANES), 1, -1)
    return next((n for n in ctas if shared_bytes(function) <= share_of_sm(limit, n)), 0)


def _words(value: Value) -> int:
    """The registers of a thread for ``value``. What a loop loads from shared memory is loaded again for each use; what
    repeats one element, addresses, indices and masks are computed again."""
    t, op = value.type, value.op
    again = isinstance(op, (Splat, BroadcastDistributed, Constant))
    again |= isinstance(op, SharedLoad) and isinstance(op.parent, LoopOp)
    if not isinstance(t, TileType) or t.is_pointer or t.layout is None or again:
        return 0
    summed = op is None or isinstance(op, GpuMma)
    return max(t.layout.num_registers * t.element.bitwidth // 32, 1) if t.element.is_floating or summed else 0


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
    mmas = function.ops_of(Wgmma)
    through = [op for op in mmas if isinstance(op.y.op, StageOperand)]
    last = through if staged else [op for op in mmas if isinstance(op.x.type, TileType) and op.x.tile.element.bytes < 4]
    turned = [op for op in mmas if last and isinstance(op.x.op, StageOperand)]
    groups, asked = fetch_groups(function), function.hints.get("occupancy", 0)
    if asked == 1 or not groups or not last or (through and not staged):
        return 0
    if warps > GROUP_WARPS and max(op.acc.tile.shape[1] for op in last) * warps // GROUP_WARPS > MOST_WIDTH:
        return 0
    if not all(op in (*last, *turned) or any(q.block is op.block and depends(q, op) for q in last) for op in mmas):
        return 0
    rings = rings_of(groups, ahead=True)
    if not _come_after(function, rings):
        return 0
    puts = [op for op in function.ops_of(Put) if not op.adds]
    stored = sum(op.value.tile.bytes for op in puts)
    needed = max(sum(r.bytes for r in rings), stored) + staged_bytes(function) + BARRIERS
    loaded = _loaded_beside(function, after=False)
    words = _words_with(mmas, loaded, warps) + _WORDS_BESIDE_ATTENTION
    if turned:  # of which the sums are needed when those of others are not
        beside = live_sums([op for op in mmas if op.block is turned[0].block])
        beside += max((op.x.tile.size // 2 for op in last if isinstance(op.x.type, TileType)), default=0)
        words = beside // (LANES * warps) + _WORDS_BESIDE_ATTENTION
    words += _WORDS_BESIDE_LOADS * (bool(loaded) + any(t.element.bytes < 4 for t in loaded))
    ctas = range(function.hints.get(MOST_CTAS, _MOST_CTAS), 1, -1)
    fits = (n for n in ctas if words <= _registers_beside(n, warps) and needed <= share_of_sm(limit, n))
    return next(fits, 0)


def _loaded_beside(function: Function, *, after: bool) -> list[TileType]:
    """The tiles that threads load for each element of an accumulator: in loops, such as masks of scores, or ``after``
    them, such as residuals, too. What is gathered for MMA ops goes past registers."""
    past = {op.value for op in function.ops_of(StageOperand) if _is_gathered(op)}
    loads = [op for op in function.ops_of((Load, LoadView, GlobalLoad)) if op.result not in past]
    tiles = [op.result.tile for op in loads if after or isinstance(op.parent, LoopOp)]
    return [t for t in tiles if t.size not in (1, *t.shape)]


def _is_gathered(op: StageOperand) -> bool:
    """Whether threads load what ``op`` puts into shared memory as it is."""
    return isinstance(op.value.op, (Load, GlobalLoad))


def _words_with(mmas: Sequence[Wgmma], loaded: Sequence[TileType], warps: int) -> int:
    """The registers of a thread for the accumulators of a block, and what is ``loaded`` beside them."""
    return (max(accumulators_beside(mmas)) + sum(t.bytes // 4 for t in loaded)) // (LANES * warps)


def all_gathered(function: Function) -> bool:
    """Whether threads gather an operand of each MMA op, and nothing else is staged."""
    mmas, staged = function.ops_of(Wgmma), function.ops_of(StageOperand)
    gathered = [op.result for op in staged if op.copies > 1 and not op.waited and _is_gathered(op)]
    return len(gathered) == len(staged) > 0 and all(op.x in gathered or op.y in gathered for op in mmas)


def ctas_of_gathers(function: Function, warps: int, limit: int, blocks: int) -> int:
    """How many CTAs an SM is to hold whose threads gather operands, of which it has room for several copies."""
    step = _gathered_step(function, rings_of(fetch_groups(function), ahead=True))
    words = _words_with(function.ops_of(Wgmma), _loaded_beside(function, after=True), warps) + _WORDS_BESIDE_GATHERS
    fits = (n for n in range(_MOST_TILES, 1, -1) if words <= _registers_beside(n, warps))
    tiles = next((n for n in fits if _LEAST_STAGES * step + BARRIERS <= share_of_sm(limit, n)), 1)
    return 1 if function.hints.get("occupancy") == 1 else resident(_LEAST_STAGES * step, tiles, blocks)


def choose_copies(
    function: Function, rings: Sequence[Ring], limit: int, ctas: int, blocks: int
) -> tuple[int, tuple[int, ...]]:
    """How many copies there are of what threads gather, where an SM holds so many CTAs; ``rings`` get as many stages.
    And what that would be with few blocks on each SM, as ``choose_depth`` says."""
    step, other = _gathered_step(function, rings), needed_elsewhere(function, after=False) - staged_bytes(function)

    def copies(ctas: int) -> int:
        return max(min((share_of_sm(limit, ctas) - BARRIERS - other) // step, _MOST_COPIES), _LEAST_STAGES)

    made = copies(ctas)
    choose_stages(
        rings, share_of_sm(limit, ctas) - BARRIERS - other - made * (step - sum(r.bytes for r in rings)), made
    )
    if blocks or ctas == 1:
        return made, ()
    return made, tuple(copies(n) if (n := resident(step, ctas, few)) != ctas else 0 for few in _FEW_BLOCKS)


def _gathered_step(function: Function, rings: Sequence[Ring]) -> int:
    """What a step loads, where there are as many copies of what is gathered as of what is fetched."""
    return sum(r.bytes for r in rings) + sum(op.type.bytes for op in staged_at_once(function))


def ctas_of_sums(function: Function, rings: Sequence[Ring], limit: int) -> int:
    """How many CTAs an SM is to hold whose loops wait for their MMA op in each step, as it is scaled before it is
    added: another one multiplies meanwhile. 1 for others, and where there is no room for several stages of each."""
    mmas, warps = function.ops_of(Wgmma), num_warps(function)
    simple = all(isinstance(op.x.type, SharedType) and not isinstance(op.y.op, StageOperand) for op in mmas)
    beside = min(_carried_beside(op, {other.acc for other in mmas}) for op in mmas)
    if not (simple and beside and _lie_apart(function, rings)) or function.hints.get("occupancy") == 1:
        return 1
    words = (max(accumulators_beside(mmas)) + beside) // (LANES * warps) + _WORDS_BESIDE_SUMS
    enough = share_of_sm(limit, _CTAS) - BARRIERS >= _LEAST_STAGES * sum(r.bytes for r in rings)
    return _CTAS if enough and words <= _registers_beside(_CTAS, warps + FETCHING_WARPS) else 1


def ctas_of_tiles(function: Function, rings: Sequence[Ring], limit: int) -> int:
    """How many CTAs with a tile of a product each an SM has room for, where these have several stages each: some
    multiply while others begin and end."""
    mmas, warps = function.ops_of(Wgmma), num_warps(function)
    simple = all(isinstance(op.x.type, SharedType) or (loaded_left(op) and op.x.tile.element.bytes == 4) for op in mmas)
    simple &= all(not isinstance(op.y.op, StageOperand) or op.y.op.waited or _is_gathered(op.y.op) for op in mmas)
    if not (simple and _lie_apart(function, rings)) or function.hints.get("occupancy") == 1:
        return 1
    # What is computed of several sums takes more: pairs of 64x64 spill with 96 registers, not with 128 (ptxas 13.0).
    other = _WORDS_BESIDE_SUMS if len({op.block for op in mmas}) == len(mmas) else _OTHER_REGISTERS
    lefts = [op.x.tile for op in mmas if isinstance(op.x.type, TileType)]
    words = _words_with(mmas, [*_loaded_beside(function, after=True), *lefts], warps) + other
    words += max(_carried_beside(op, {o.acc for o in mmas}) for op in mmas) // (LANES * warps)
    needed = _LEAST_STAGES * sum(r.bytes for r in rings) + needed_elsewhere(function, after=False) + BARRIERS
    for ctas in range(_MOST_TILES, 1, -1):
        if needed <= share_of_sm(limit, ctas) and words <= _registers_beside(ctas, warps + FETCHING_WARPS):
            return ctas
    return 1


def step_bytes(function: Function, rings: Sequence[Ring]) -> int:
    """What a step loads; all copies of what threads gather, for which other CTAs had better not wait, or convert while
    others multiply."""
    staged = (op for op in staged_at_once(function) if op.waited or _is_gathered(op))
    return sum(r.bytes for r in rings) + sum(op.copies * op.type.bytes for op in staged)


def resident(step: int, tiles: int, blocks: int) -> int:
    """How many CTAs an SM is to hold, of ``tiles`` that there is room for, where the grid puts so many blocks there: as
    many as are there to the end. Where these are many (0), all, but one alone in place of two with small steps, of so
    many bytes."""
    if not blocks or (tiles == _CTAS and blocks > tiles):
        return tiles if tiles > _CTAS or step >= _LARGE_STEP else 1
    return min(range(tiles, 0, -1), key=lambda ctas: -(-blocks // ctas) * ctas)


def _carried_beside(op: Wgmma, accumulators: set[Value]) -> int:
    """The elements of tiles as large as the accumulator of ``op`` that the loop around it carries, but for those."""
    carried = op.parent.carried if isinstance(op.parent, For) else []
    return sum(v.tile.size for v in carried if v.tile.size == op.acc.tile.size and v not in accumulators)


def _lie_apart(function: Function, rings: Sequence[Ring]) -> bool:
    """Whether results may lie where ``rings`` of loops are, in which no others are."""
    return _come_after(function, rings) and all(r.depth <= 1 for r in rings)


def _come_after(function: Function, rings: Sequence[Ring]) -> bool:
    """Whether all has been multiplied that ``rings`` hold, when results are stored: they may lie there."""
    kinds = [{type(o) for o in op.walk() if not _adds(o)} for op in block_of(function.body, Fetch).ops]
    fetching = max(i for i, found in enumerate(kinds) if Fetch in found)
    storing = next((i for i, found in enumerate(kinds) if Put in found), len(kinds))
    return fetching < storing and not any(r.by_cluster for r in rings)


def _adds(op: Op) -> bool:
    """Whether ``op`` adds to memory what shared memory has beside what is multiplied."""
    return isinstance(op, Put) and op.adds


def registers(ctas: int) -> tuple[int, int]:
    """Registers of a thread that loads, and of one that multiplies, in so many CTAs of two warp groups on an SM."""
    both = SM_REGISTERS // (ctas * LANES * GROUP_WARPS) // (2 * _STEP) * 2 * _STEP
    load = REGISTERS[0] if ctas <= _CTAS else _LEAST_REGISTERS
    return load, both - load


def ctas_of_an_sm(function: Function, rings: Sequence[Ring], limit: int) -> int:
    """How many CTAs of one warp group an SM is to hold, where MMA ops wait for other things than loads: what one does
    meanwhile, another one multiplies beside. As many as two stages and the registers suffice for, if these are as many
    as the hint says; without a left operand in registers only where there is one."""
    mmas = function.ops_of(Wgmma)
    left = [op.x.type.size // 2 for op in mmas if isinstance(op.x.type, TileType)]
    asked = function.hints.get("occupancy")
    computes = isinstance(asked, int) and any(not _is_gathered(op) for op in function.ops_of(StageOperand))
    if num_warps(function) != GROUP_WARPS or not (left or computes) or asked == 1:
        return 1
    threads = LANES * GROUP_WARPS
    words = (max(accumulators_beside(mmas)) + max(left, default=0)) // threads
    largest = max(op.acc.tile.size for op in mmas) // threads
    depth = max(r.depth for r in rings)
    needed = sum(r.bytes * (2 if r.depth == depth else 1) for r in rings) + needed_elsewhere(function) + BARRIERS
    for ctas in range(_MOST_CTAS, asked - 1 if isinstance(asked, int) else _CTAS - 1, -1):
        load, compute = registers(ctas)
        fits = words + _OTHER_REGISTERS <= compute and largest < (load + compute) // 2  # with which a CTA begins
        if fits and needed <= share_of_sm(limit, ctas):
            return ctas
    return 1


def choose_depth(
    function: Function, rings: Sequence[Ring], ctas: int, tiles: int, limit: int, stages: int | None, blocks: int
) -> tuple[int, ...]:
    """Choose how many stages each ring has, where an SM holds so many CTAs, of ``tiles`` that there is room for:
    ``stages``, or as many as suit ``limit`` bytes of shared memory and a grid with so many ``blocks`` on an SM (0:
    many). Gives how many there would be if the grid put few blocks on each SM, one and more; 0 where that changes
    nothing."""
    mmas = function.ops_of(Wgmma)
    simple = all(isinstance(op.x.type, SharedType) or loaded_left(op) for op in mmas)
    most, apart = stages or (_MOST_STAGES if simple else _STAGES), _lie_apart(function, rings)
    adds = any(map(_adds, function.walk()))

    def choose(ctas: int) -> int:
        for ring in rings:
            ring.stages = 1
        used = needed_elsewhere(function, after=not apart or (ctas == 1 and not simple and not adds)) + BARRIERS
        choose_stages(rings, share_of_sm(limit, ctas) - used, most)
        return max(r.stages for r in rings)

    if tiles > 1 and not blocks:
        other = [resident(step_bytes(function, rings), tiles, few) for few in _FEW_BLOCKS]
        deeper = tuple(choose(few) if few != ctas else 0 for few in other)
        choose(ctas)
        return deeper
    alone, half = choose(ctas), limit // 2 - needed_elsewhere(function) - BARRIERS
    threads = LANES * num_warps(function)
    accumulators = max(accumulators_beside(mmas)) // threads
    crowded = threads > LANES * GROUP_WARPS or accumulators > _FEW_ACCUMULATORS
    if stages or blocks or not simple or crowded or ctas > 1:
        return ()
    if half < _LEAST_STAGES * sum(r.bytes for r in rings):
        return ()
    for ring in rings:
        ring.stages = 1
    choose_stages(rings, half, most)
    return (alone,) if max(r.stages for r in rings) < alone else ()
