"""Blocks of large tiles, of which an SM holds few, are run by several CTAs."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.gpu.warps import has_long_lines, is_aligned
from tilewright.ir.core import Function
from tilewright.ir.gpu_stage import CTAS_OF_BLOCK, GRID_EXTENT, SHORT_ROWS
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.linear import CombiningOp, MmaOp, Reduce
from tilewright.ir.ops.memory import Load, LoadView, Store, StoreView
from tilewright.transforms.gpu.tile_splitting import divide

_BYTES = 4 << 10  # of the longest line that a CTA moves
_ELEMENTS = 8 << 10  # of several rows that a CTA reduces
_MOST = 8  # CTAs of a block
_SECTOR = 32  # bytes, of which memory gives no part
_MOVES = (Load, LoadView, Store, StoreView)


class SplitBlocks:
    """Halves the tiles of blocks until a CTA moves a short line, or reduces few rows, as far as no half needs what the
    other one computes, nor a part of a sector of memory; the hint ``CTAS_OF_BLOCK`` says how many CTAs run a block.
    Runs on optimized Tile IR."""

    name: ClassVar[str] = "split-blocks"

    def run(self, function: Function) -> Function:
        wanted = min(_ctas(function), _MOST)
        if wanted <= 1 or function.hints.keys() - {GRID_EXTENT, SHORT_ROWS} or function.ops_of((MmaOp, LoopOp)):
            return function
        blocks, row = 1, min(_row(function), _SECTOR)
        while blocks < wanted and (part := divide(function, 2)).blocks > 1 and _row(part.function) >= row:
            function, blocks = part.function, 2 * blocks
        if blocks > 1:
            function.hints[CTAS_OF_BLOCK] = blocks
        return function


def _row(function: Function) -> int:
    """The bytes that lie side by side of what the largest tiles of arrays have."""
    tiles = [op.view.partition for op in function.ops_of((LoadView, StoreView))]
    size = max((t.tile.size for t in tiles), default=0)
    largest = (t for t in tiles if t.tile.size == size)
    rows = (t.tile_shape[t.order.index(len(t.order) - 1)] * t.view.dtype.bytes for t in largest)
    return min(rows, default=_SECTOR)


def _ctas(function: Function) -> int:
    """How many CTAs suit a block."""
    combined = function.ops_of(CombiningOp)
    if combined:
        rows = (op.values[0].tile.size for op in combined if isinstance(op, Reduce) and has_long_lines(op))
        return max(rows, default=0) // _ELEMENTS
    moves = function.ops_of(_MOVES)
    moved = [op.value if isinstance(op, (Store, StoreView)) else op.result for op in moves]
    tiles = [v.tile for v in moved if not v.tile.is_pointer]
    if any(is_aligned(op) is False for op in moves) or any(max(t.shape, default=1) < t.size for t in tiles):
        return 1  # blocks would not follow each other along rows any more
    return max((t.bytes for t in tiles), default=0) // _BYTES
