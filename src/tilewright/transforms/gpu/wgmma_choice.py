"""Which MMA ops warp groups can do (wgmma) with operands that the TMA unit copies, and why not others."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.gpu.producer_slice import slice_covers
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.gpu.tma_descriptors import LoweringPlan, has_pitch, plan_lowering
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import depends, live_sums
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType, tfloat32
from tilewright.ir.effects import has_early_exit, is_ordered
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.ir.layouts import LANES, OFFSET
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For, If, ends_of
from tilewright.ir.ops.gpu.exit import Exit
from tilewright.ir.ops.gpu.tma import LARGEST_BOX, SWIZZLED_ALIGNMENT, swizzled_layout
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, MOST_COLUMNS, ROWS, Interleave, readable, wgmma_multiplies
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import AtomicView, Load, LoadView, MakePartitionView, MemoryOp, StoreView
from tilewright.ir.ops.shape import Constant, Permute, Reshape
from tilewright.ir.reachable import reachable
from tilewright.ir.types import SharedType
from tilewright.transforms.gpu.mma_loops import LEAST_DEPTH
from tilewright.transforms.gpu.put_order import stored_again, stored_apart
from tilewright.transforms.gpu.staged_operands import (
    Staged,
    divides_columns,
    is_computed_from_tiles,
    is_of_tiles,
    is_only_added,
    path_to,
    staged_operands,
    staged_type,
    swizzle_of,
    tiles_loaded_for,
    users_as_loaded,
)

_SECTOR = 32  # bytes
MOST_ACCUMULATORS = 128  # registers of a thread for accumulators: beside them there is room for what follows a loop
MOST_GROUPS = 2  # of four warps that multiply: three would have 168 registers a thread, two have 255
_SMALL_ACCUMULATORS = 64  # registers of a thread of one warp group
# The same, where weights between MMA ops stay in registers: 128x64 tiles of width 64 have 363 TFLOP/s with one warp
# group, of which an SM holds two, and 308 with two (``benchmarks/gpu_attention.py``, causal, one H200).
_SMALL_ACCUMULATORS_OF_ATTENTION = 128
MOST_WORDS = 240  # registers of a thread for the accumulators of MMA ops beside each other, and a left operand


@dataclass(frozen=True)
class Operand:
    """A tile of shared memory that an MMA op reads: what is loaded, and the axis of the operand that is contiguous."""

    load: LoadView
    descriptor: Descriptor
    type: SharedType
    through: frozenset[Op]  # the ops between the load and the MMA op


Operands = tuple[Operand | None, Operand | None]


@dataclass(frozen=True)
class Choice:
    """MMA ops with their operands, stores that the TMA unit makes, each of which may have to wait until those before
    it are in memory, and the warps that multiply.

    An operand of None is ``staged`` into shared memory, or a left one stays in registers and a right one goes from
    there to shared memory; what is ``converted`` there is fetched first, and what is added to sums after all MMA ops.
    ``reasons`` say why other MMA ops stay as they are. ``multicast_pays`` where rows of operands do not start on
    sectors of the L2 cache: what blocks fetch from it limits MMA ops then.
    """

    mmas: dict[Mma, Operands]
    stores: Mapping[StoreView | AtomicView, bool]
    warps: int
    plan: LoweringPlan
    reasons: tuple[str, ...]
    multicast_pays: bool
    converted: dict[LoadView, Operand]
    staged: dict[Value, Staged]


@dataclass(frozen=True)
class Options:
    """What ``choose`` is to take into account: see ``ChooseWgmma``."""

    target: GpuTarget
    num_warps: int | None = None
    budget: int = 220 * 1024
    realign: bool = False


def choose(function: Function, options: Options) -> Choice:
    """What is done by wgmma in ``function``, and why other MMA ops are not."""
    plan = AnalysisManager(function).get(plan_lowering, options.target, options.realign)
    mmas = function.ops_of(Mma)
    found: dict[Mma, Operands] = {}
    reasons: list[str] = []
    warps = options.num_warps
    ends = bool(function.ops_of(Exit))
    reads, made = _reads(function), staged_operands(function)
    staged = {v: how for v, how in made.items() if not _is_kept(v, how, plan, reads, options.target)}
    if options.target.has_wgmma:
        made |= _turned_lefts(mmas, plan, reads)
    recurrent = {op: (None, None) for op in mmas if _is_carried(op)}
    wide = [op for op in mmas if not options.target.has_tensor_memory and divides_columns(op, staged)]
    for op in mmas:
        needed = _warps(op, warps, mmas, staged, wide)
        operands = _operands(op, plan, {**found, **recurrent}, made)
        if ends:
            operands = "an assertion may end the block, of which the thread that loads would not know"
        elif needed is None:
            shape = "x".join(map(str, op.acc.tile.shape))
            operands = f"an accumulator of {shape} is not for warp groups of {ROWS} rows"
        if not isinstance(operands, str):
            assert needed is not None
            why = _why_not(op, operands, staged, plan, reads, options.target) or _too_much(
                {**found, op: operands}, staged, op, needed, options.budget
            )
            operands = why or operands
        if isinstance(operands, str):
            reasons.append(f"line {op.loc.line}: mma.sync, as {operands}")
        else:
            found[op], warps = operands, needed
    _drop_shared_loads(found, made, reasons)
    puts = [op for op in plan.descriptors if isinstance(op, (StoreView, AtomicView))]
    stores = stored_apart(function, {op for op in puts if _can_put(op, plan.descriptors[op])})
    again = stored_again(function, stores)
    facts = AnalysisManager(function).get(IntegerRanges)
    multicast = any(_crosses_sectors(o, facts) for pair in found.values() for o in pair if o is not None)
    inside = _inside(found) | _paths(found, made)
    left = [(op, v) for op, (x, y) in found.items() for v, o in ((op.x, x), (op.y, y)) if o is None]
    left = [(op, v) for op, v in left if v is op.y or v in made]
    converted = dict(pair for op, v in left for pair in _converted(op, v, plan, reads, inside))
    if stores and warps is not None and warps > GROUP_WARPS:
        converted |= _added_last(function, plan, found)
    if options.target.has_tensor_memory:  # where none reads registers
        others = (op.x for op, (x, _) in found.items() if x is None and op.x not in staged)
        staged |= {v: Staged(t, copies=1) for v in others if (t := staged_type(v.tile, 1)) is not None}
    return Choice(
        found,
        {op: op in again for op in stores} if found else {},
        warps or 0,
        plan,
        tuple(reasons),
        multicast,
        converted,
        {v: staged[v] for op in found for v in (op.x, op.y) if v in staged},
    )


def staged_copies(op: Mma) -> int:
    """How many copies a right operand has that threads put into shared memory: with three the MMA op stays in flight
    while they put the next one there; with two, of what is converted for no more columns than rows, other CTAs multiply
    meanwhile."""
    if not is_only_added(op) or op.y.op is None or op.y.op.block is not op.block:
        return 1
    rows, columns = op.acc.tile.shape
    return 2 if isinstance(op.y.op, Cast) and op.y.tile.element.bytes == 2 and columns <= rows else 3


def _converted(
    op: Mma, operand: Value, plan: LoweringPlan, reads: set[Op], inside: set[Op]
) -> list[tuple[LoadView, Operand]]:
    """The tiles that are loaded for an ``operand`` of ``op``, which threads convert or compute, if the TMA unit can
    copy them all: for that alone, or ``inside`` of what goes to MMA ops."""
    found = [_copied(op, operand, load, plan, reads, inside) for load in tiles_loaded_for(operand)]
    return [(o.load, o) for o in found if o is not None] if None not in found else []


def _copied(
    op: Mma, operand: Value, load: LoadView, plan: LoweringPlan, reads: set[Op], inside: set[Op]
) -> Operand | None:
    d, ops = plan.descriptors.get(load) if load.block is op.block else None, path_to(operand, load)
    seen = {user for v in (load.result, *(o.results[0] for o in ops)) if v is not operand for user in v.users}
    others = seen - ops - inside - {op}
    if d is None or d.needs_realign or (others and not (is_of_tiles(op) and others <= users_as_loaded(load, ops))):
        return None
    element = load.result.tile.element if ops.isdisjoint(plan.rounded) else operand.tile.element
    found = _in_shared(load, d, element, transposed=False)
    if isinstance(found, str) or found.bytes % SWIZZLED_ALIGNMENT:  # of few rows, of which several are packed into one
        return None
    return Operand(load, d, found, frozenset(ops)) if slice_covers(load, plan.places(load), reads) else None


def _is_kept(operand: Value, how: Staged, plan: LoweringPlan, reads: set[Op], target: GpuTarget) -> bool:
    """Whether ``operand`` is a left one that stays in registers: computed for a loop that only adds from what the TMA
    unit loads for it, of 16 bits as well, of which ``ldmatrix`` gives each thread what it multiplies."""
    op = next(iter(operand.users))
    if how.load is not None or not isinstance(op, Mma) or op.x is not operand or target.has_tensor_memory:
        return False
    return is_only_added(op) and is_computed_from_tiles(operand) and bool(_converted(op, operand, plan, reads, set()))


def _turned_lefts(mmas: Sequence[Mma], plan: LoweringPlan, reads: set[Op]) -> dict[Value, Staged]:
    """The left operands of tfloat32 that lie across k, which threads load to registers from where they were fetched:
    wgmma reads such along k alone in shared memory, and a copy would take longer. Of the only MMA op of a loop that
    adds."""
    lefts = {}
    for op in mmas:
        alone = op.block is not None and [o for o in op.block.ops if isinstance(o, Mma)] == [op]
        size = op.x.tile.element.bytes
        if not alone or size != 4 or op.x.tile.shape[1] * size < LEAST_DEPTH or not is_only_added(op):
            continue
        fetched = [operand for _, operand in _converted(op, op.x, plan, reads, set())]
        if len(fetched) != 1 or fetched[0].type.layout.images(OFFSET)[0] != (0, 1):
            continue
        turns = [o for o in fetched[0].through if o not in plan.rounded and not isinstance(o, Reshape)]
        if len(turns) == 1 and isinstance(turns[0], Permute):
            lefts[op.x] = Staged(fetched[0].type)
    return lefts


def _paths(found: dict[Mma, Operands], staged: dict[Value, Staged]) -> set[Op]:
    """The ops that compute the ``staged`` operands of MMA ops from tiles that are loaded for them."""
    operands = [v for op in found for v in (op.x, op.y) if v in staged and staged[v].load is None]
    return {o for v in operands for load in tiles_loaded_for(v) for o in path_to(v, load)}


def _inside(found: dict[Mma, Operands]) -> set[Op]:
    """The MMA ops, and what is between them and the loads of their operands."""
    return {op for pair in found.values() for o in pair if o is not None for op in o.through} | set(found)


def _added_last(function: Function, plan: LoweringPlan, found: dict[Mma, Operands]) -> dict[LoadView, Operand]:
    """What is loaded in the shape of sums when all has been multiplied, along their rows: it has room where operands
    were, and takes no registers on the way to threads, of which one warp group has enough (gpu_products.md)."""
    ops, shapes = function.body.ops, {tuple(_kept(op.acc.tile.shape)) for op in found}
    outer = [op.ancestor_in(function.body) for op in found]
    last = max((ops.index(op) for op in outer if op is not None), default=len(ops))
    late = {}
    for load in ops[last + 1 :]:
        d = plan.descriptors.get(load) if isinstance(load, LoadView) else None
        if not isinstance(load, LoadView) or d is None or d.needs_realign or d.listed:
            continue
        t = load.view.partition
        kept = [axis for axis, n in zip(t.order, t.tile_shape) if n != 1]
        shared = _in_shared(load, d, load.result.tile.element, transposed=False)
        if isinstance(shared, SharedType) and shared.shape in shapes and kept[-1] == d.axes[-1]:
            late[load] = Operand(load, d, shared, frozenset())
    return late


def _is_carried(op: Mma) -> bool:
    """Whether the loop around ``op`` carries to the next iteration what is computed from what it gives."""
    loop = op.parent
    return isinstance(loop, For) and any(_follows(v, {op: (None, None)}) for v in loop.next_values)


def _reads(function: Function) -> set[Op]:
    """The loads that the thread that has tiles copied can do for itself: of single elements that nobody writes."""
    ops = function.ops_of(MemoryOp)
    if any(is_ordered(op) for op in ops):
        return set()
    roots = AnalysisManager(function).get(AliasAnalysis)
    _, written = roots.accessed(ops)
    return {
        op
        for op in ops
        if isinstance(op, (Load, LoadView))
        and op.result.tile.size == 1
        and not (roots.effect(op) and may_alias(roots.underlying_object(op.address), written))
    }


def _crosses_sectors(operand: Operand, facts: IntegerRanges) -> bool:
    """Whether rows of 16-bit elements are not known to start on sectors of the L2 cache. Those of copies do."""
    t, d, view = operand.load.view.partition.view, operand.descriptor, operand.load.view.op
    assert isinstance(view, MakePartitionView)
    pitch = has_pitch(view.view.op, t, d.axes[-1], facts, _SECTOR)
    return t.dtype.bytes == 2 and not d.needs_realign and not pitch


def _warps(op: Mma, given: int | None, mmas: list[Mma], staged: dict[Value, Staged], wide: list[Mma]) -> int | None:
    """How many warps multiply: two warp groups where there are rows for both, or these divide the columns of those that
    are ``wide``, as long as accumulators fit into registers.

    One, where the accumulators of all MMA ops ``beside`` it are small: it has more to multiply in a step, and leaves
    registers to another CTA; and where one of these has rows for one, or one elsewhere, if that is enough for ``op``,
    as where threads gather an operand of 16 bits: two would wait for each other in each step (gpu_products.md).
    """
    *_, m, n = op.acc.tile.shape
    beside = [other for other in mmas if other.block is op.block]
    chained = any(_follows_left(later, earlier) for later in beside for earlier in beside)
    few = _SMALL_ACCUMULATORS_OF_ATTENTION if chained else _SMALL_ACCUMULATORS
    small = sum(other.acc.tile.size for other in beside) <= few * LANES * GROUP_WARPS
    suffices = m * n <= MOST_ACCUMULATORS * LANES * GROUP_WARPS
    few_rows = any(o.acc.tile.shape[-2] == ROWS and o not in wide for o in (mmas if suffices else beside))
    loads = [staged[v].load for v in (op.x, op.y) if v in staged and v.tile.element.bytes == 2]
    gathers = suffices and len(beside) == 1 and any(load is not None for load in loads)
    most = 1 if small or few_rows or gathers else MOST_GROUPS
    for groups in range(most, 0, -1) if given is None else [given // GROUP_WARPS]:
        exact = given is None or given == groups * GROUP_WARPS
        divides = exact and groups and (m % (ROWS * groups) == 0 or op in wide)
        if divides and m * n <= MOST_ACCUMULATORS * LANES * GROUP_WARPS * groups:
            return groups * GROUP_WARPS
    return None


def _follows_left(later: Mma, earlier: Mma) -> bool:
    """Whether the left operand of ``later`` is computed from ``earlier``, in the same block."""
    if later is earlier or later.block is not earlier.block:
        return False
    return _follows(later.x, {earlier: (None, None)})


def _operands(op: Mma, plan: LoweringPlan, found: dict[Mma, Operands], made: Collection[Value]) -> Operands | str:
    """Where the operands of ``op`` are, or why it is not done by wgmma; ``found`` are the MMA ops that are."""
    x, y = (None if _is_computed(op, k, found) else _operand(op, k, plan) for k in range(2))
    x, y = (None if v in made else o for v, o in zip((op.x, op.y), (x, y)))
    if isinstance(x, str):
        return y if isinstance(y, str) else x
    follows = op.x in made and op.y.tile.element is tfloat32 and _follows(op.y, found, transposed=True)
    if op.y in made or (follows and staged_type(op.y.tile) is not None):
        return x, None
    converted = isinstance(op.y.op, Interleave) or (isinstance(op.y.op, Cast) and op.y.tile.element.bytes == 2)
    if isinstance(y, str) and not converted:
        return y
    y = None if isinstance(y, str) or (y is not None and _is_across_k(y, op)) else y
    return f"rows of {op.y.tile} are not swizzled" if y is None and staged_type(op.y.tile) is None else (x, y)


def _is_across_k(y: Operand, op: Mma) -> bool:
    """Whether threads transpose a right operand of 8 or 32 bits, as wgmma reads these along k alone."""
    size = y.type.dtype.bytes
    seen_so = any(isinstance(o, Permute if size == 1 else (Permute, Reshape)) for o in y.through)
    apart = seen_so or y.descriptor.needs_realign or readable(y.type, 0)
    return size in (1, 4) and y.load.block is op.block and not apart


def _is_computed(op: Mma, k: int, found: dict[Mma, Operands]) -> bool:
    value = (op.x, op.y)[k]
    in_registers = value.tile.element.bytes == 2 or isinstance(value.op, Interleave)
    return in_registers and value.tile.rank == 2 and _follows(value, found, transposed=k == 1)


def _follows(value: Value, found: dict[Mma, Operands], *, transposed: bool = False) -> bool:
    """Whether ``value`` is computed, element by element, from one of the MMA ops ``found``, or from its result
    ``transposed``; branches may choose, and loops give it."""
    same = (Interleave, Permute) if transposed else (Interleave,)

    def sources(after: Value) -> Sequence[Value]:
        op = after.op
        if isinstance(op, If):
            return [end.values[after.index] for end in ends_of(op)]
        if isinstance(op, For):
            return [op.next_values[after.index]]
        loop = after.block.parent if op is None and after.block is not None else None
        if isinstance(loop, For) and after in loop.carried:
            return [loop.next_values[loop.carried.index(after)]]
        return op.operands if op is not None and (op.spec.elementwise or isinstance(op, same)) else ()

    return any(isinstance(v.op, Mma) and v.op in found for v in reachable([value], sources))


def _too_much(found: dict[Mma, Operands], staged: dict[Value, Staged], op: Mma, warps: int, budget: int) -> str | None:
    """Why there is no room for ``op`` beside the MMA ops of the same block."""
    beside = {m: operands for m, operands in found.items() if m.block is op.block}
    threads = 32 * warps
    registers = [m.x.tile.size // 2 for m, (x, _) in beside.items() if x is None and m.x not in staged]
    words = sum(m.acc.tile.size for m in beside if m.acc.op not in beside) + max(registers, default=0)
    if words > MOST_WORDS * threads:
        words = live_sums(list(beside)) + max(registers, default=0)  # one is read at a time
    if words > MOST_WORDS * threads:
        return f"accumulators and operands of {words // threads} registers a thread are too many"
    # What an MMA op follows from may have given its tiles back.
    held = {m: operands for m, operands in beside.items() if m is op or not depends(op, m)}
    size = sum({o.load: o.type.bytes for operands in held.values() for o in operands if o is not None}.values())
    put = [m for m, (_, y) in held.items() if y is None and m.y not in staged]
    size += sum(staged_copies(m) * m.y.tile.bytes for m in put)
    size += sum(staged[v].copies * staged[v].type.bytes for m in held for v in (m.x, m.y) if v in staged)
    return f"tiles of {size} bytes have no room in shared memory" if size > budget else None


def _why_not(
    op: Mma, operands: Operands, staged: dict[Value, Staged], plan: LoweringPlan, reads: set[Op], target: GpuTarget
) -> str | None:
    most = MOST_COLUMNS * (1 if target.has_tensor_memory or not divides_columns(op, staged) else MOST_GROUPS)
    if op.acc.tile.rank != 2 or op.acc.tile.shape[1] % 8 or op.acc.tile.shape[1] > most:
        return f"an accumulator of {op.acc.tile} is none of wgmma"
    left, right = (v.tile.element if o is None else o.type.dtype for v, o in zip((op.x, op.y), operands))
    narrow = op.acc.tile.element.bytes == 2 and target.has_tensor_memory  # which has a word for each element
    unknown = narrow or (left.is_integer and not target.multiplies_integers)
    if unknown or not wgmma_multiplies(left, right, op.acc.tile.element):
        return f"wgmma does not add products of {left} and {right} in {op.acc.tile.element}"
    if any(o is not None and not readable(o.type, 1 - k) for k, o in enumerate(operands)):
        return f"wgmma does not read operands of {right} that are contiguous across k"
    if operands[0] is None and target.has_tensor_memory and op.x not in staged and staged_type(op.x.tile, 1) is None:
        return f"rows of {op.x.tile} are not swizzled"
    for operand in operands:
        if operand is None:
            continue
        block = operand.load.block
        assert block is not None
        if any(has_early_exit(other) for other in block.ops if not other.spec.terminator):
            return f"control may leave what is around line {operand.load.loc.line} before it multiplies"
        if not slice_covers(operand.load, plan.places(operand.load), reads):
            return f"what is loaded at line {operand.load.loc.line} depends on what one thread cannot find out"
    return None


def _operand(op: Mma, k: int, plan: LoweringPlan) -> Operand | str:
    """Operand ``k`` of ``op`` in shared memory, or why it is not a tile that the TMA unit copies."""
    value = (op.x, op.y)[k]
    through: set[Op] = set()
    dtype, transposed = value.tile.element, False
    while not isinstance(value.op, LoadView):
        source = value.op
        if isinstance(source, Permute) and len(axes := [a for a in source.axes if source.x.tile.shape[a] != 1]) == 2:
            transposed ^= axes[0] > axes[1]
        elif not (isinstance(source, Reshape) and _kept(source.x.tile.shape) == _kept(source.shape)) and not (
            isinstance(source, Cast) and source in plan.rounded
        ):
            return "an operand is not loaded as it is"
        through.add(source)
        value = source.x
    load = value.op
    descriptor = plan.descriptors.get(load)
    if descriptor is None:
        return "no tensor map describes what is loaded for an operand"
    found = _in_shared(load, descriptor, dtype, transposed=transposed)
    if isinstance(found, SharedType) and not readable(found, 1 - k) and dtype.bytes != 2 and load in plan.copyable:
        d = descriptor
        descriptor = replace(d, axes=d.axes[::-1], block=d.block[::-1], needs_realign=True, transposed=True)
        found = _in_shared(load, descriptor, dtype, transposed=transposed)
    return found if isinstance(found, str) else Operand(load, descriptor, found, frozenset(through))


def _in_shared(load: LoadView, descriptor: Descriptor, dtype: DType, *, transposed: bool) -> SharedType | str:
    """How what is loaded lies in shared memory, seen as an operand; or why it does not."""
    partition = load.view.partition
    kept = [axis for axis, n in zip(partition.order, partition.tile_shape) if n != 1]
    shape = [n for n in partition.tile_shape if n != 1]
    if len(shape) != 2:
        return "an operand has an extent of 1"
    inner, shape = kept.index(descriptor.axes[-1]) ^ transposed, shape[::-1] if transposed else shape
    swizzle = swizzle_of(shape[inner] * dtype.bytes)
    if swizzle is None or max(shape[1 - inner], swizzle // dtype.bytes) > LARGEST_BOX:
        return f"rows of {shape[inner] * dtype.bytes} bytes are not swizzled"
    return SharedType(dtype, swizzled_layout(shape, inner, swizzle, dtype.bytes))


def _drop_shared_loads(found: dict[Mma, Operands], staged: dict[Value, Staged], reasons: list[str]) -> None:
    """Leave out MMA ops of which others use an operand too, or that are outside of the block of their loads; and those
    whose left operand follows from one that is left out."""
    while True:
        inside = _inside(found) | _paths(found, staged)
        wrong = [op for op, pair in found.items() if not _stands(op, pair, found, staged, inside)]
        if not wrong:
            return
        for op in wrong:
            del found[op]
            reasons.append(f"line {op.loc.line}: mma.sync, as something else uses what is loaded for it")


def _stands(op: Mma, pair: Operands, found: dict[Mma, Operands], staged: dict[Value, Staged], inside: set[Op]) -> bool:
    source = op.y
    while isinstance(source.op, (Cast, Reshape)):
        source = source.op.x
    computed = any(v in staged or _follows(v, found, transposed=v is op.y) for v in (op.x, op.y))
    stands = None not in pair or computed or isinstance(source.op, LoadView)
    return stands and all(o is None or (_is_around(o.load, op) and _may_fetch(o.load, op, inside)) for o in pair)


def _may_fetch(load: LoadView, op: Mma, inside: set[Op]) -> bool:
    """Whether nothing else uses what is loaded; or what is loaded once for a loop may be loaded for that once more."""
    return only_used_in(load.result, inside) or load.block is not op.block


def _is_around(load: LoadView, op: Op) -> bool:
    """Whether ``op`` is in the block of ``load``, or nested in it."""
    return load.block is not None and op.ancestor_in(load.block) is not None


def only_used_in(value: Value, inside: set[Op]) -> bool:
    """Whether ``value`` goes through ``inside`` to MMA ops there, and nowhere else."""
    return all(op in inside and (isinstance(op, Mma) or only_used_in(op.results[0], inside)) for op in value.users)


def _kept(shape: tuple[int, ...]) -> list[int]:
    return [n for n in shape if n != 1]


def _can_put(op: StoreView | AtomicView, d: Descriptor) -> bool:
    """Whether a store is of a matrix that is computed, with rows that a swizzle suits."""
    t = op.view.partition
    kept = [(axis, n) for axis, n in zip(t.order, t.tile_shape) if n != 1]
    if len(kept) != 2 or op.value.tile.is_pointer or isinstance(op.value.op, Constant):
        return False
    inner = next((n for axis, n in kept if axis == d.axes[-1]), 0)
    outer = math.prod(n for _, n in kept) // max(inner, 1)
    return swizzle_of(inner * t.view.dtype.bytes) is not None and inner > 0 and outer <= LARGEST_BOX
