"""CTAs of attention run several blocks of the grid one after the other: while results are stored, the next one
is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import depends, mma_loops, mma_ops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import MOST_CTAS
from tilewright.ir.ops.arith import Add, And, Cmp, Mul, Select, Sub
from tilewright.ir.ops.control import For, Return
from tilewright.ir.ops.gpu.wgmma import ROWS
from tilewright.ir.ops.memory import AssumeBounded, Bid, NumBlocks
from tilewright.ir.rewrite import clone_op, with_body
from tilewright.ir.structured import emit_for
from tilewright.transforms.gpu.split_mma import SplitMma
from tilewright.transforms.gpu.tile_splitting import cluster_size
from tilewright.transforms.gpu.tile_splitting.split import is_independent
from tilewright.transforms.pipelines import run_passes

_COUNTS = (2, 4, 8)  # of blocks of a CTA
_LAST = (1 << 24) - 2  # index of a block


@dataclass(frozen=True)
class RepeatBlocks:
    """Lets a CTA run so many neighbouring blocks along the second axis of the grid, every other one mirrored along the
    first: where the work of a block grows along that, as under a causal mask, all CTAs have as much."""

    count: int
    name: ClassVar[str] = "repeat-blocks"

    def run(self, function: Function) -> Function:
        body, values = Block(), dict[Value, Value]()
        for arg in function.body.args:
            values[arg] = body.add_arg(arg.type, arg.name)
        b, inside = Builder(body, function.loc), _of_a_block(function)
        zero, one, count = (b.constant(n, int32) for n in (0, 1, self.count))
        width = b.emit(NumBlocks, axis=0)
        known: dict[tuple[type[Op], int], Value] = {(NumBlocks, 0): width}
        known[NumBlocks, 1] = b.emit(Mul, b.emit(NumBlocks, axis=1), count)
        first, row = b.emit(Bid, axis=0), b.emit(Mul, b.emit(Bid, axis=1), count)
        mirrored = b.emit(Sub, b.emit(Sub, width, one), first)
        for op in function.body.ops[:-1]:
            if op not in inside:
                b.block.append(clone_op(op, values))

        def block(i: Value) -> list[Value]:
            odd = b.emit(Cmp, b.emit(And, i, one), one, predicate=CmpPredicate.EQ)
            numbers = b.emit(Select, odd, mirrored, first), b.emit(Add, row, i)
            for axis, number in enumerate(numbers):
                known[Bid, axis] = b.emit(AssumeBounded, number, lower=0, upper=_LAST)
            for op in function.body.ops:
                if isinstance(op, (Bid, NumBlocks)) and (type(op), op.axis) in known:
                    values[op.result] = known[type(op), op.axis]
                elif op in inside:
                    b.block.append(clone_op(op, values))
            return []

        emit_for(b, (zero, count, one), (), block)
        b.emit_op(Return)
        return with_body(function, body)


def _of_a_block(function: Function) -> set[Op]:
    """The ops, but the last, whose results may differ among blocks, or that do more than to give results."""
    found, numbered = set[Op](), set[Value]()
    for op in function.body.ops[:-1]:
        used = {v for each in op.walk() for v in each.operands}
        if isinstance(op, (Bid, NumBlocks)) or not is_pure(op) or op.regions or not numbered.isdisjoint(used):
            found.add(op)
            numbered.update(op.results)
    return found


def repeatable(function: Function, target: GpuTarget) -> tuple[tuple[int, int, int], ...]:
    """How many blocks along each axis of the grid a CTA may run, the fewest first: of kernels whose loops multiply what
    follows from another MMA op, and which have the two warp groups, and the registers, of an SM."""
    loops, hints = mma_loops(function), function.hints.keys() - {MOST_CTAS, "occupancy"}
    numbers = [*function.ops_of(Bid), *function.ops_of(NumBlocks)]
    if any(op.parent is not None for op in numbers) or {op.axis for op in numbers if isinstance(op, Bid)} != {0, 1}:
        return ()
    if hints or not loops or not all(map(_chained, loops)):
        return ()
    divided = AnalysisManager(run_passes(function, (SplitMma(target),))).get(cluster_size) > 1
    return () if divided or not is_independent(function) else tuple((1, n, 1) for n in _COUNTS)


def _chained(loop: For) -> bool:
    """Whether MMA ops of ``loop`` follow from each other, of two warp groups and operands that these multiply."""
    first, *others = mma_ops(loop)
    (rows, _), size = first.acc.tile.shape[-2:], first.x.tile.element.bytes
    return rows == 2 * ROWS and size <= 2 and any(depends(op, first) for op in others)
