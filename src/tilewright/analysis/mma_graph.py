"""Facts about MMA loops, from which warps, stages and variants of them are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tilewright.analysis.live_ranges import max_live
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import Continue, For, LoopOp
from tilewright.ir.ops.gpu.memory import GlobalLoad, SharedAlloc, SharedLoad, SharedStore
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.ops.gpu.wgmma import Interleave, StageOperand, Wgmma, WgmmaWait
from tilewright.ir.ops.linear import Mma, MmaOp
from tilewright.ir.ops.memory import Load
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.reachable import operands_within, reachable

_MOST_OF_COPY = 48 << 10  # bytes of what is gathered and what is made of it: of these three have room beside others


def mma_loops(function: Function) -> list[For]:
    return [op for op in function.ops_of(For) if mma_ops(op)]


def mma_ops(loop: LoopOp) -> list[MmaOp]:
    """The MMA ops of an iteration, in order."""
    return [op for op in loop.body.ops if isinstance(op, MmaOp)]


def depends(later: MmaOp, earlier: Op) -> bool:
    """Whether a factor of ``later`` is computed from the result of ``earlier`` in the same iteration."""
    return any(v.op is earlier for v in reachable((later.x, later.y), operands_within))


def chained_mmas(block: Block) -> set[Op | None]:
    """The MMA ops of ``block`` whose left operand, or that of one that adds to them or the other way round, is computed
    from the result of one in ``block``, and those that it is computed from: warps that have whole rows of both exchange
    none."""
    mmas = dict.fromkeys(op for op in block.ops if isinstance(op, Mma))
    products: set[Value] = set()  # what is computed from results of MMA ops
    found: set[Op | None] = {v.op for v in reachable((op.x for op in mmas), operands_within) if v.op in mmas}
    for op in block.ops:
        if op in mmas or any(v in products for inner in op.walk() for v in inner.operands):
            products.update(op.results)
    found.update(op for op in mmas if op.x in products)
    for op in reversed(mmas):
        if op in found and op.acc.op in mmas:
            found.add(op.acc.op)
    for op in mmas:
        if op.acc.op in found:
            found.add(op)
    return found


def is_only_multiplied(value: Value) -> bool:
    """Whether ``value``, in the gpu stage, goes to operands of MMA ops alone: converted, carried, in another shape,
    through shared memory."""
    pending, seen = [value], {value}
    while pending:
        v = pending.pop()
        for op in v.users:
            if isinstance(op, (GpuMma, Wgmma)) and v is not op.acc:
                continue
            if isinstance(op, SharedStore) and v is op.buffer:
                continue
            if isinstance(op, WgmmaWait) and v not in op.accs and v not in op.after:
                continue
            if isinstance(op, (Cast, ConvertLayout, Permute, Reshape, SharedLoad)):
                found = op.results
            elif isinstance(op, SharedStore) and isinstance(op.buffer.op, SharedAlloc):
                found = [op.buffer]
            elif isinstance(op, LoopOp) and v in op.inits:
                found = _carried(op, op.inits, v)
            elif isinstance(op, Continue):
                loop: Op | None = op.parent
                while not isinstance(loop, LoopOp):
                    assert loop is not None
                    loop = loop.parent
                found = _carried(loop, op.values, v)
            else:
                return False
            pending += [x for x in found if x not in seen]
            seen.update(found)
    return True


def _carried(loop: LoopOp, given: Sequence[Value], value: Value) -> list[Value]:
    """What ``loop`` carries, and gives, where it is given ``value``."""
    positions = [i for i, v in enumerate(given) if v is value]
    return [v for i in positions for v in (loop.carried[i], *loop.results[i : i + 1])]


def operand_source(value: Value) -> Op | None:
    """The op whose result ``value`` is but for its element type, the order of its elements and its shape."""
    while isinstance(value.op, (Cast, Permute, Reshape, Interleave)):
        value = value.op.x
    return value.op


def gathered_for(op: StageOperand) -> list[Op]:
    """The loads by pointers of as many elements as ``op`` puts into shared memory, in its block, from which threads
    compute it, and which have room there beside it."""

    def sources(v: Value) -> Sequence[Value]:
        made = v.op
        inside = made is not None and made.block is op.block and not isinstance(made, (Load, GlobalLoad, MmaOp))
        return made.operands if made is not None and inside else ()

    found = [v for v in reachable([op.value], sources) if v is not op.value and isinstance(v.op, (Load, GlobalLoad))]
    tiles = {v.op: v.tile for v in found if v.op is not None and v.op.block is op.block}
    loads = [load for load, t in tiles.items() if t.size == op.value.tile.size]
    size = op.type.bytes + sum(tiles[load].bytes for load in loads)
    return loads if size <= _MOST_OF_COPY else []


def are_independent(groups: Sequence[Sequence[MmaOp]]) -> bool:
    """Whether no MMA op waits for another one of its group, which are those of an iteration, in order."""
    return not any(depends(later, op) for group in groups for op, later in combinations(group, 2))


def live_sums(mmas: Sequence[MmaOp], ops: Sequence[Op] = ()) -> int:
    """The elements of what the MMA ops of a block give, and of what is computed from that element by element, up to the
    next MMA op, as far as it is needed at the same time; with the ``ops`` of the block in another order, in that."""
    (block,) = {op.block for op in mmas}
    assert block is not None
    at = {op: i for i, op in enumerate(ops or block.ops)}
    lives = []
    for op in mmas:
        made = reachable([op.result], lambda v: [r for o in v.users if o.spec.elementwise for r in o.results])
        ends = [at[outer] for v in made for o in v.users if (outer := o.ancestor_in(block)) is not None]
        begins = 0 if op.acc in block.args else at[op]
        lives.append((begins, max(ends, default=begins), op.acc.tile.size))
    return int(max_live(lives))


def is_factor(value: Value, through: tuple[type[Op], ...] = (Permute, Reshape)) -> bool:
    """Whether ``value`` only goes to MMA ops, as one of their factors, and ``through`` these ops at most."""
    return bool(value.users) and all(
        isinstance(op, StageOperand)
        or (isinstance(op, Mma) and value is not op.acc)
        or (isinstance(op, through) and is_factor(op.result, through))
        for op in value.users
    )
