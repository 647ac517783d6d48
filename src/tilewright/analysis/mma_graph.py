"""Facts about MMA loops, from which warps, stages and variants of them are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For, LoopOp
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.ir.ops.shape import Permute, Reshape


def mma_loops(function: Function) -> list[For]:
    return [op for op in function.walk() if isinstance(op, For) and mma_ops(op)]


def mma_ops(loop: LoopOp) -> list[MmaOp]:
    """The MMA ops of an iteration, in order."""
    return [op for op in loop.body.ops if isinstance(op, MmaOp)]


def depends(later: MmaOp, earlier: Op) -> bool:
    """Whether a factor of ``later`` is computed from the result of ``earlier`` in the same iteration."""
    seen: set[Op] = set()
    pending = [v.op for v in (later.x, later.y) if v.op is not None]
    while pending:
        op = pending.pop()
        if op is earlier:
            return True
        if op not in seen:
            seen.add(op)
            pending += [v.op for o in op.walk() for v in o.operands if v.op is not None]
    return False


def operand_source(value: Value) -> Op | None:
    """The op whose result ``value`` is but for its element type, the order of its axes and its shape."""
    while isinstance(value.op, (Cast, Permute, Reshape)):
        value = value.op.x
    return value.op


def are_independent(groups: Sequence[Sequence[MmaOp]]) -> bool:
    """Whether no MMA op waits for another one of its group, which are those of an iteration, in order."""
    return not any(depends(later, op) for group in groups for op, later in combinations(group, 2))


def live_accumulators(loop: For) -> int:
    """The elements of all results of the MMA ops of ``loop``, but those that others add to."""
    found = mma_ops(loop)
    added = {op.acc for op in found}
    return sum(op.results[0].tile.size for op in found if op.results[0] not in added)


def is_recurrent(loop: For) -> bool:
    """Whether MMA ops read accumulators that ``loop`` carries: its iterations are the steps of a long way, for few
    blocks."""
    found = mma_ops(loop)
    accumulators = {arg for arg, value in zip(loop.carried, loop.next_values) if value.op in found}
    seen: set[Value] = set()
    pending = [v for op in found for v in (op.x, op.y)]
    while pending:
        value = pending.pop()
        if value in accumulators:
            return True
        if value not in seen and value.op is not None:
            seen.add(value)
            pending += value.op.operands
    return False


def loaded_bytes(loop: For) -> int:
    """What one iteration of ``loop`` loads."""
    return _bytes(loop.body.ops)


def loaded_before(function: Function) -> int:
    """What is loaded outside of loops, and stays in shared memory where MMA ops read it."""
    return _bytes(function.body.ops)


def _bytes(ops: Sequence[Op]) -> int:
    tiles = [op.results[0].tile for op in ops if isinstance(op, (Load, LoadView))]
    return sum(t.size * t.element.bytes for t in tiles)
