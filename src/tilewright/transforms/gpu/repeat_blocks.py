"""CTAs of attention and products run several blocks of the grid one after the other: while results are stored, the next
one is loaded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import depends, mma_loops, mma_ops, operand_source
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32, tfloat32
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import MOST_CTAS
from tilewright.ir.ops.arith import Add, And, Cmp, Mul, Select, Sub
from tilewright.ir.ops.control import For, Return
from tilewright.ir.ops.gpu.wgmma import ROWS
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import AssumeBounded, Bid, LoadView, NumBlocks
from tilewright.ir.rewrite import clone_op, with_body
from tilewright.ir.structured import emit_for
from tilewright.transforms.gpu.join_blocks import Blocks
from tilewright.transforms.gpu.split_mma import SplitMma
from tilewright.transforms.gpu.staged_operands import is_only_added
from tilewright.transforms.gpu.tile_splitting import cluster_size
from tilewright.transforms.gpu.tile_splitting.split import is_independent
from tilewright.transforms.gpu.transpose_mma import LEAST_STEP
from tilewright.transforms.pipelines import run_passes

_COUNTS = (2, 4, 8)  # of blocks of a CTA
_LARGE = 128 * 128  # elements of a sum: benchmarks/results/gpu_products.md
_LAST = (1 << 24) - 2  # index of a block


@dataclass(frozen=True)
class RepeatBlocks:
    """Lets a CTA run so many ``blocks`` along an axis of the grid: as far apart as there are CTAs, or, ``mirrored``,
    neighbours, every other one from the other end of the first axis. Where the work of a block grows along that, as
    under a causal mask, all CTAs have as much."""

    blocks: Blocks
    mirrored: bool
    name: ClassVar[str] = "repeat-blocks"

    def run(self, function: Function) -> Function:
        body, values = Block(), dict[Value, Value]()
        for arg in function.body.args:
            values[arg] = body.add_arg(arg.type, arg.name)
        b, inside = Builder(body, function.loc), _of_a_block(function)
        axis = self.blocks.index(max(self.blocks))
        zero, one, count = (b.constant(n, int32) for n in (0, 1, max(self.blocks)))
        first, last = b.emit(Bid, axis=axis), b.emit(NumBlocks, axis=axis)
        known: dict[tuple[type[Op], int], Value] = {(NumBlocks, axis): b.emit(Mul, last, count)}
        start, step = (b.emit(Mul, first, count), one) if self.mirrored else (first, last)
        if self.mirrored:
            own, width = b.emit(Bid, axis=0), b.emit(NumBlocks, axis=0)
            known[NumBlocks, 0], mirror = width, b.emit(Sub, b.emit(Sub, width, one), own)
        for op in function.body.ops[:-1]:
            if op not in inside:
                b.block.append(clone_op(op, values))

        def block(i: Value) -> list[Value]:
            numbers = {axis: b.emit(Add, start, i if step is one else b.emit(Mul, i, step))}
            if self.mirrored:
                odd = b.emit(Cmp, b.emit(And, i, one), one, predicate=CmpPredicate.EQ)
                numbers[0] = b.emit(Select, odd, mirror, own)
            for along, number in numbers.items():
                known[Bid, along] = b.emit(AssumeBounded, number, lower=0, upper=_LAST)
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


def repetitions(function: Function, target: GpuTarget, joined: Blocks) -> tuple[RepeatBlocks, ...]:
    """How many blocks a CTA may run, the fewest first: of kernels whose loops multiply what follows from another MMA
    op, with the two warp groups, and the registers, of an SM, or only add products of tiles to large sums, if so many
    blocks are ``joined`` before."""
    loops, hints = mma_loops(function), function.hints.keys() - {MOST_CTAS, "occupancy"}
    numbers = [*function.ops_of(Bid), *function.ops_of(NumBlocks)]
    axes = {op.axis for op in numbers if isinstance(op, Bid)}
    if any(op.parent is not None for op in numbers) or hints or not loops or not axes:
        return ()
    mirrored = axes == {0, 1} and all(map(_chained, loops))
    if not mirrored and not (len(loops) == 1 and _adds_tiles(loops[0], math.prod(joined))):
        return ()
    divided = AnalysisManager(run_passes(function, (SplitMma(target),))).get(cluster_size) > 1
    if divided or not is_independent(function):
        return ()
    last = max(axes)
    each = ((*(1,) * last, n, *(1,) * (2 - last)) for n in _COUNTS)
    return tuple(RepeatBlocks((x, y, z), mirrored) for x, y, z in each)


def _chained(loop: For) -> bool:
    """Whether MMA ops of ``loop`` follow from each other, of two warp groups and operands that these multiply."""
    first, *others = mma_ops(loop)
    (rows, _), size = first.acc.tile.shape[-2:], first.x.tile.element.bytes
    return rows == 2 * ROWS and size <= 2 and any(depends(op, first) for op in others)


def _adds_tiles(loop: For, joined: int) -> bool:
    """Whether ``loop``, which is in no other, does nothing but to add products of tiles of arrays to a large sum, when
    so many blocks are ``joined``; of tfloat32, with steps with which that pays in loops over tiles."""
    op, *others = mma_ops(loop)
    (*batches, rows, columns), factor = op.acc.tile.shape, op.x.tile
    wide = factor.element is tfloat32 and rows * columns * factor.shape[-1] >= LEAST_STEP
    loaded = all(isinstance(operand_source(v), LoadView) for v in (op.x, op.y)) and (wide or factor.element.bytes <= 2)
    alone = not others and loop.parent is None and math.prod(batches) == 1
    return alone and loaded and isinstance(op, Mma) and is_only_added(op) and rows * columns * joined >= _LARGE
