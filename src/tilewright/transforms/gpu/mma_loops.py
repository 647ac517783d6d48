"""Loops with MMA ops of warp groups: what may go on while these are under way."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import SharedInsert, SharedLoad
from tilewright.ir.ops.gpu.tiles import Splat
from tilewright.ir.ops.gpu.wgmma import ROWS, StageOperand, Wgmma
from tilewright.ir.ops.shape import Constant, Permute, Reshape
from tilewright.ir.reachable import operands_within, reachable
from tilewright.ir.types import SharedType, TileType

# Both MMA ops of an element of the scores take as long as an exponential, with so many of k together. Turns pay for
# attention of width 64 on an H100, not for 128 and 256: benchmarks/results/gpu_attention.md.
_MOST_DEPTH = 128
# Where threads compute the right operand, too, halves of the left one give 363 TFLOP/s for tiles of 128x128x64, where
# the whole one gives 343, and 338 and 415 with 256 columns, 241 and 326 with 64 rows: ``benchmarks/gpu_operands.py``.
_MOST_COLUMNS = 128
LEAST_DEPTH = 64  # bytes along k, of which threads load one half while the other one is multiplied


def mmas_of(block: Block) -> list[Wgmma]:
    """The MMA ops of a block, but for those of its loops and branches."""
    return [op for op in block.ops if isinstance(op, Wgmma)]


def takes_turns(loop: For) -> bool:
    """Whether one warp group computes while the other one multiplies: in loops whose last MMA op is that of the
    iteration before (its left operand is carried, in registers), and whose MMA ops take no longer than a softmax.
    Groups that stage an operand together wait for each other."""
    mmas = mmas_of(loop.body)
    if len(mmas) < 2 or mmas[-1].x not in loop.carried:
        return False
    if any(isinstance(op, StageOperand) for op in loop.body.ops):
        return False
    first, last = mmas[0], mmas[-1]
    assert isinstance(first.y.type, SharedType)
    return first.y.type.shape[0] + last.acc.tile.shape[1] <= _MOST_DEPTH


def loaded_left(mma: Wgmma) -> tuple[SharedLoad, list[Op]] | None:
    """What loads the left operand of ``mma`` from where it was fetched, and what makes it of that for ``mma`` alone, in
    order: it computes each element, and sees transposed those of 32 bits, which warp groups read in shared memory along
    k alone. There are two halves of it along k; the right one is fetched, too, and may be put back where that was, or,
    for several warp groups and few columns, elsewhere."""
    if not isinstance(mma.x.type, TileType):
        return None
    rows, columns = mma.acc.tile.shape
    elsewhere = isinstance(mma.y.op, StageOperand) and mma.y.op.buffer is None
    if elsewhere and (rows <= ROWS or columns > _MOST_COLUMNS):
        return None
    if mma.x.tile.shape[1] * mma.x.tile.element.bytes < LEAST_DEPTH:
        return None
    made, between = [v.op for v in reachable([mma.x], operands_within) if v.op is not None], []
    loads = [op for op in made if isinstance(op, SharedLoad)]
    if len(loads) != 1 or loads[0].block is not mma.block or loads[0].result.tile.size != mma.x.tile.size:
        return None
    after = [loads[0].result]
    for v in after:
        between += [op for op in v.users if op is not mma and op not in between]
        after += [r for op in v.users if op is not mma for r in op.results if r not in after]
    moved = all(op.spec.elementwise or (isinstance(op, Permute) and op.axes == (1, 0)) for op in between)
    if not moved or not all(op in made and op.block is mma.block for op in between):
        return None
    others = [v for op in between for v in op.operands if v not in after and not isinstance(v.op, (Constant, Splat))]
    if others and not elsewhere and mma.x.tile.shape[1] * mma.x.tile.element.bytes > LEAST_DEPTH:
        return None  # no gain: benchmarks/gpu_operands.py
    assert mma.block is not None
    return loads[0], sorted(between, key=mma.block.ops.index)


def only_adds(loop: For) -> bool:
    """Whether what the MMA ops of a loop give is carried to the same MMA op, perhaps through others that add to it, and
    seen by nothing else.

    Then they can stay in flight: their operands are in rings alone, or put there in the place of what was fetched; of
    one MMA op the left one may also be loaded from there.
    """
    mmas = mmas_of(loop.body)
    return bool(mmas) and all(
        (isinstance(mma.x.type, SharedType) or (len(mmas) == 1 and loaded_left(mma) is not None))
        and not any(_is_overwritten(v) for v in (mma.x, mma.y))
        and list(mma.acc.users) == [mma]
        and (_adds_to_one(mma) or _is_carried_to(mma, loop))
        for mma in mmas
    )


def _adds_to_one(mma: Wgmma) -> bool:
    """Whether ``mma`` adds to another one of its block, by instructions of the same shape: these keep their order."""
    before = mma.acc.op
    if not isinstance(before, Wgmma) or before.block is not mma.block:
        return False
    assert isinstance(before.y.type, SharedType) and isinstance(mma.y.type, SharedType)
    return before.y.type.dtype.bytes == mma.y.type.dtype.bytes


def _is_carried_to(first: Wgmma, loop: For) -> bool:
    """Whether ``loop`` carries to ``first`` its sum with those that are added to it one after another, alone."""
    last = first
    while isinstance(after := next(iter(last.result.users), None), Wgmma) and after.acc is last.result:
        last = after
    if first.acc not in loop.carried or list(last.result.users) != [loop.body.terminator]:
        return False
    return [i for i, v in enumerate(loop.next_values) if v is last.result] == [loop.carried.index(first.acc)]


def _is_overwritten(operand: Value) -> bool:
    """Whether the next iteration puts another operand where this one is."""
    op = operand.op
    return isinstance(op, StageOperand) and op.buffer is None and op.copies == 1


def turns_from(source: Value, value: Value) -> set[bool]:
    """Whether ``value`` is made of the transpose of ``source``, of each way on which it is computed from it in
    registers, element by element; none for what is not."""

    def before(at: tuple[Value, bool]) -> Iterable[tuple[Value, bool]]:
        turned, op = at[1], at[0].op
        if isinstance(op, Permute):
            return [(op.x, turned ^ (op.axes[-1] != len(op.axes) - 1))]
        return [(x, turned) for x in op.operands] if op is not None and is_by_element(op) else []

    found = reachable([(value, False)], before) if isinstance(value.type, TileType) else ()
    return {turned for v, turned in found if v is source}


def is_by_element(op: Op) -> bool:
    return op.spec.elementwise or isinstance(op, Reshape)


def readers(value: Value) -> set[Wgmma]:
    """The MMA ops that read what was fetched, or what threads make of it, also where they put that into shared memory
    first, as halves that they join."""

    def made(v: Value) -> list[Value]:
        ops = [op for op in v.users if not isinstance(op, Wgmma)]
        return [r for op in ops for r in ([op.buffer] if isinstance(op, SharedInsert) else op.results)]

    return {op for v in reachable([value], made) for op in v.users if isinstance(op, Wgmma)}
