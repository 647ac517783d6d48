"""MMA ops of one left operand with tiles that lie equally far apart in shared memory: one MMA op of all columns."""

from __future__ import annotations

from tilewright.ir.core import Block, Function, Value
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.ops.gpu.memory import SharedAlloc, SharedCopy
from tilewright.ir.ops.gpu.tma import swizzle_of
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, MOST_COLUMNS, ROWS, Wgmma, WgmmaWait
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.types import SharedType


def joined_mma(function: Function) -> dict[Wgmma, list[Wgmma]]:
    """For the first of MMA ops that are one statement, all of them, in order; those that stay alone are left out.

    Runs when shared memory is allocated. They follow each other, have the same left operand, and right operands of one
    swizzled width, across k, each as far from the one before. Whoever waits for MMA ops waits for all of a block, or
    for none of an iteration: so the numbers that they count are known.
    """
    if any(op.pending for op in function.ops_of(WgmmaWait)):
        return {}
    rows = num_warps(function) // GROUP_WARPS * ROWS
    blocks: dict[Block, list[Wgmma]] = {}
    for op in function.ops_of(Wgmma):
        assert op.block is not None
        blocks.setdefault(op.block, []).append(op)
    found: dict[Wgmma, list[Wgmma]] = {}
    for mmas in blocks.values():
        if all(op.pending in (None, 0, len(mmas)) and op.acc.tile.shape[0] == rows for op in mmas):
            found.update({group[0]: group for group in _groups(mmas) if len(group) > 1})
    return found


def pending_statements(op: Wgmma, joined: dict[Wgmma, list[Wgmma]]) -> int | None:
    """How many statements stay in flight after that with ``op`` as its last MMA op."""
    if not op.pending or op.block is None:
        return op.pending
    inside = {p for group in joined.values() for p in group[1:]}
    return op.pending - sum(1 for p in op.block.ops if isinstance(p, Wgmma) and p in inside)


def distance(first: Value, second: Value) -> int | None:
    """How many bytes ``second`` lies behind ``first`` in shared memory; None where that is not known."""
    makers = [v.op for v in (first, second)]
    if not all(isinstance(op, SharedCopy) and isinstance(op.buffer.op, SharedAlloc) for op in makers):
        return None
    one, other = makers
    assert isinstance(one, SharedCopy) and isinstance(other, SharedCopy)
    start, end = one.buffer.op, other.buffer.op
    assert isinstance(start, SharedAlloc) and isinstance(end, SharedAlloc)
    if one.index is not other.index or start.offset is None or end.offset is None or start.type != end.type:
        return None
    return end.offset - start.offset


def _groups(mmas: list[Wgmma]) -> list[list[Wgmma]]:
    groups: list[list[Wgmma]] = []
    for op in mmas:
        if groups and _joins(groups[-1], op):
            groups[-1].append(op)
        else:
            groups.append([op])
    return groups


def _joins(group: list[Wgmma], op: Wgmma) -> bool:
    first, last, y = group[0], group[-1], op.y.type
    assert isinstance(y, SharedType) and op.block is not None
    found = swizzle_of(y)
    step = distance(last.y, op.y)
    return (
        op.block.ops.index(op) == op.block.ops.index(last) + 1
        and last.pending is None
        and op.x is first.x
        and isinstance(op.x.type, SharedType)
        and y == first.y.type
        and found is not None
        and found == (1, y.shape[1] * y.dtype.bytes)
        and op.acc.tile == first.acc.tile
        and (constant_of(op.acc) == 0) == (constant_of(first.acc) == 0)
        and (len(group) + 1) * y.shape[1] <= MOST_COLUMNS
        and step is not None
        and step > 0
        and (len(group) == 1 or step == distance(group[-2].y, last.y))
    )
