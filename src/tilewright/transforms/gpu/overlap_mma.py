"""MMA ops of warp groups run beside the arithmetic between them: that of the next scores beside this softmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.mma_graph import depends, mma_ops
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import float32
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.tiles import ConvertLayout, ThreadReduce
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.rotated_loops import rotate

_VECTOR_REGISTERS = 8  # at most, of a thread for a value that is one of a row
_MOST_WORDS = 184  # registers of a thread for accumulators and left operands that are in flight at the same time


@dataclass(frozen=True)
class RotateMma(InPlacePass):
    """Runs the last MMA op of an iteration beside the first one of the next, in loops of two; the first one may also
    be several that add to each other, such as those of scores and of positions.

    The left operand of the last is computed from the first, in registers, which suffice for both. Runs after
    ``ChooseWgmma``.
    """

    name: ClassVar[str] = "rotate-mma"
    num_warps: int

    def change(self, function: Function) -> bool:
        return rotate(function, [op for op in function.ops_of(For) if self._gains(op)])

    def _gains(self, loop: For) -> bool:
        mmas = mma_ops(loop)
        if len(mmas) < 2 or not all(isinstance(p, Wgmma) for p in mmas):
            return False
        *before, first, last = mmas
        adds = all(list(p.result.users) == [q] and q.acc is p.result for p, q in zip(before, [*before[1:], first]))
        return adds and isinstance(last.x.type, TileType) and mmas_overlap(first, last, self.num_warps)


def mmas_overlap(first: MmaOp, last: MmaOp, num_warps: int) -> bool:
    """Whether ``last``, of a left operand in registers, waits for ``first``, and these suffice for both at a time."""
    words = first.acc.tile.size + last.acc.tile.size + last.x.tile.size // 2
    return depends(last, first) and words <= _MOST_WORDS * 32 * num_warps


class DeferAccumulators(InPlacePass):
    """Moves to the end of a block what needs its last MMA op of several, and what only leaves it: conversions, and the
    exchange between threads in its last reduction.

    Until then that MMA op runs beside the rest; what it reads is kept in registers, and the next operand only takes
    registers when that is over. The exchange takes time, but no work: other things fill it.
    """

    name: ClassVar[str] = "defer-accumulators"

    def change(self, function: Function) -> bool:
        blocks = {op.block for op in function.ops_of(Wgmma)}
        moved = [_defer(block) for block in blocks if block is not None]
        return any(moved)


def _defer(block: Block) -> bool:
    """Whether something has moved."""
    *others, last = [op for op in block.ops if isinstance(op, Wgmma)]
    if not others:
        return False
    after = block.ops[block.ops.index(last) + 1 : -1]
    late: set[Op] = set()
    accumulators: set[Value] = {last.result}
    for op in after:
        if any(v in accumulators for o in op.walk() for v in o.operands):
            if not is_pure(op):
                return False
            late.add(op)
            accumulators.update(op.results)
    exchange = [op for op in _exchange(after, block) if op not in late]
    casts = [step for op in after for step in _leaving(op, block) if step not in late]
    moved = [*(op for op in after if op in late), *exchange, *casts]
    if not moved or after[-len(moved) :] == moved:
        return False
    block.splice(moved, before=block.terminator)
    return True


def _exchange(ops: Sequence[Op], block: Block) -> list[Op]:
    """What follows from the last reduction in threads of ``ops``, if it is of vectors and only leaves ``block``."""
    reductions = [op for op in ops if isinstance(op, ThreadReduce)]
    if not reductions:
        return []
    found: list[Op] = []
    values: set[Value] = set(reductions[-1].results)
    for op in ops[ops.index(reductions[-1]) + 1 :]:
        if values.intersection(op.operands):
            if op.regions or not is_pure(op) or not all(_is_vector(v) for v in op.results):
                return []
            found.append(op)
            values.update(op.results)
    return found


def _is_vector(value: Value) -> bool:
    """Whether a thread has few elements of ``value``."""
    layout = value.type.layout if isinstance(value.type, TileType) else None
    return layout is not None and layout.num_registers <= _VECTOR_REGISTERS


def _leaving(op: Op, block: Block) -> list[Op]:
    """If ``op`` makes a tile smaller that only what ends the block takes, that, and what gives it another order."""
    if not isinstance(op, Cast) or not op.result.tile.shape:
        return []
    found: list[Op] = [op]
    while list(found[-1].results[0].users) != [block.terminator]:
        users = list(found[-1].results[0].users)
        if len(users) != 1 or not isinstance(users[0], (ConvertLayout, Permute, Reshape)):
            return []
        found.append(users[0])
    return found if op.result.tile.element.bytes < op.x.tile.element.bytes else []


def computed_beside(mma: Op, end: Op) -> list[Value]:
    """What is computed last between ``mma`` and ``end``: the sums of a reduction in threads, or another vector
    of float32 that is used from there on."""
    block = end.block
    assert block is not None
    first, last = block.ops.index(mma) + 1, block.ops.index(end)
    needed = {v for op in block.ops[last:] for o in op.walk() for v in o.operands}
    found = [v for op in block.ops[first:last] for v in op.results if v in needed and _is_vector(v)]
    vectors = [v for v in found if not v.tile.is_pointer and v.tile.element is float32]
    reduced = [v for v in vectors if isinstance(v.op, ThreadReduce)]
    return (reduced or vectors)[-1:]
