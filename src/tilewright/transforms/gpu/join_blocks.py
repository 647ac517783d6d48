"""Neighbouring blocks of products run as one, with the large tiles that tensor cores need to be busy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.mma_graph import operand_source
from tilewright.ir.core import Function
from tilewright.ir.gpu_stage import MOST_CTAS
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.linear import CombiningOp, Mma, MmaOp
from tilewright.ir.ops.memory import Bid, Load, LoadView, Store, StoreView
from tilewright.ir.ops.shape import Permute
from tilewright.transforms.gpu.staged_operands import is_only_added
from tilewright.transforms.gpu.tile_splitting.split import joined
from tilewright.transforms.pipelines import optimize

Blocks = tuple[int, int, int]  # of the grid, along each of its axes

_ELEMENTS = 128 * 256  # of a sum
_LONGEST = 256  # along an axis of it; half of that beside others, or what is gathered
# Elements, of which an SM holds two: joined, they pay where a CTA runs several blocks alone (gpu_products.md).
_SUFFICIENT = 128 * 128
_BYTES = 48 << 10  # of both operands of a step, of which four have room then
# Elements, and bytes, of a row of what is transposed: bfloat16 in tiles of 32x32 has 3,418 GB/s, joined 4,034, in 64x64
# 3,866 and 4,029, float32 in 32x32 3,878 and 4,031, int8 in 64x64 3,215 and 3,822, in 128x128 3,847 and 3,816 with
# 256x256 (one H200).
_ROW, _ROW_BYTES = 128, 256


@dataclass(frozen=True)
class JoinBlocks:
    """Joins the tiles of so many neighbouring ``blocks`` along each axis of the grid, which is a power of two.

    Runs on optimized Tile IR, before loops and MMA ops are divided.
    """

    blocks: Blocks
    name: ClassVar[str] = "join-blocks"

    def run(self, function: Function) -> Function:
        for axis, count in enumerate(self.blocks):
            for _ in range(count.bit_length() - 1):
                made = joined(function, axis)
                assert made is not None
                function = optimize(made)
        return function


def joinable(function: Function) -> tuple[Blocks, ...]:
    """How many neighbouring blocks of a kernel that multiplies can be joined, the fewest first: until the sums of its
    loop are as large as registers hold. An operand that is computed is shared. Of one that transposes tiles with short
    rows, as many as make them long."""
    mmas = function.ops_of(Mma)
    if not mmas:
        return _with_long_rows(function)
    alike = len({(op.block, op.acc.tile.shape, op.x.tile.shape) for op in mmas}) == 1 and all(map(is_only_added, mmas))
    asked = {name: value for name, value in function.hints.items() if name != MOST_CTAS}
    if not alike or asked not in ({}, {"occupancy": 1}):
        return ()
    gathers = any(isinstance(operand_source(v), Load) for op in mmas for v in (op.x, op.y))
    longest = _LONGEST if len(mmas) == 1 and not gathers else _LONGEST // 2
    return tuple(_growing(function, mmas[-1], _ELEMENTS // len(mmas), longest))


def _with_long_rows(function: Function) -> tuple[Blocks, ...]:
    turned = [op.x.tile for op in function.ops_of(Permute) if sum(n > 1 for n in op.x.tile.shape) > 1]
    if not turned or function.hints or function.ops_of((CombiningOp, LoopOp, MmaOp, Load, Store)):
        return ()
    blocks = [1, 1, 1]
    for op in function.ops_of((LoadView, StoreView)):
        t = op.view.partition
        for index, n, stride in zip(op.indices, t.tile_shape, t.view.strides):
            if stride == 1 and isinstance(index.op, Bid):
                longer = min(_ROW, _ROW_BYTES // t.view.dtype.bytes) // n
                blocks[index.op.axis] = max(blocks[index.op.axis], longer)
    if max(t.size for t in turned) * math.prod(blocks) > _ROW * _ROW or max(blocks) == 1:
        return ()
    alone = any(joined(function, axis) is None for axis, n in enumerate(blocks) if n > 1)
    return () if alone else ((blocks[0], blocks[1], blocks[2]),)


def is_sufficient(function: Function) -> bool:
    """Whether sums of products of tiles of arrays are so large that nothing is gained by joining blocks alone."""
    if not function.ops_of(Mma):
        return False
    op = function.ops_of(Mma)[-1]
    fetched = all(isinstance(operand_source(v), LoadView) for v in (op.x, op.y))
    return fetched and math.prod(op.acc.tile.shape[-2:]) >= _SUFFICIENT


def _growing(function: Function, mma: Mma, most: int, longest: int) -> Iterator[Blocks]:
    (*batches, rows, columns), (depth, size) = mma.acc.tile.shape, (mma.x.tile.shape[-1], mma.x.tile.element.bytes)
    computed = [not isinstance(operand_source(v), LoadView) for v in (mma.x, mma.y)]
    if batches or size > 2 or all(computed):
        return
    blocks, along = [1, 1, 1], _axes_of_grid(function, mma)
    for axis in (0, 1) if computed == [False, True] else (1, 0):
        shape = [rows, columns]
        shape[axis] *= 2
        while max(shape) <= longest and shape[0] * shape[1] <= most and sum(shape) * depth * size <= _BYTES:
            if axis not in along:
                break
            rows, columns = shape
            blocks[along[axis]] *= 2
            yield blocks[0], blocks[1], blocks[2]
            shape[axis] *= 2


def _axes_of_grid(function: Function, mma: Mma) -> dict[int, int]:
    """The axis of the grid along which blocks can be joined for each axis of the sum that is longer then."""
    found: dict[int, int] = {}
    for grid in range(3):
        made = joined(function, grid)
        shape: tuple[int, ...] = () if made is None else made.ops_of(Mma)[-1].acc.tile.shape
        found.update((axis, grid) for axis, (a, b) in enumerate(zip(mma.acc.tile.shape, shape)) if a != b)
    return found
