"""Writes the kernel of pairs of blocks, with tiles that are twice as long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops import memory
from tilewright.ir.ops.shape import Iota
from tilewright.transforms.gpu.tile_splitting.demand import Axis, CannotSplit
from tilewright.transforms.gpu.tile_splitting.splitter import TileSplitter


class TileJoiner(TileSplitter):
    """Writes the kernel of two blocks that follow each other along an axis of the ``grid``: the number of the block is
    nothing but the index of tiles, along the axis along which these are joined."""

    def __init__(self, function: Function, grid: int) -> None:
        if function.ops_of(memory.Store):  # of which nothing says whose tiles they are
            raise CannotSplit
        axes = {op: _axis_of(op, grid) for op in function.ops_of(memory.StoreView)}
        super().__init__(function, axes)
        self._grid = grid
        numbers = [op for op in function.ops_of((memory.Bid, memory.NumBlocks)) if op.axis == grid]
        for number in numbers:
            for user in number.result.users:
                if isinstance(number, memory.NumBlocks) or not self._joins(user, grid):
                    raise CannotSplit

    def _joins(self, op: Op, grid: int) -> bool:
        needed = self.needs.of(op.results[0]) if isinstance(op, memory.LoadView) else (self._axes.get(op),)
        return isinstance(op, memory.ViewMemoryOp) and needed == (_axis_of(op, grid),)

    def _resized(self, n: int) -> int:
        return 2 * n

    def _replaced(self, op: Op, axis: Axis, operands: Sequence[Value]) -> list[Value] | None:
        if isinstance(op, Iota) and axis is not None:
            raise CannotSplit
        return None if isinstance(op, (memory.Bid, memory.NumBlocks)) else super()._replaced(op, axis, operands)

    def _narrow(self, op: memory.ViewMemoryOp, axis: int, operands: list[Value]) -> None:
        view = op.view.op
        assert isinstance(view, memory.MakePartitionView)
        t, index = view.type, op.indices[axis]
        if t.steps != t.tile_shape or not isinstance(index.op, memory.Bid) or index.op.axis != self._grid:
            raise CannotSplit
        shape = tuple(self._resized(n) if k == axis else n for k, n in enumerate(t.tile_shape))
        joined = replace(t, tile_shape=shape, steps=shape)
        operands[0] = self._b.emit(memory.MakePartitionView, self._get(view.view, None), type=joined)


def _axis_of(op: memory.ViewMemoryOp, grid: int) -> int:
    """The axis along which blocks of the ``grid`` access tiles one after another; CannotSplit if there is none."""
    found = [k for k, v in enumerate(op.indices) if isinstance(v.op, memory.Bid) and v.op.axis == grid]
    if len(found) != 1 or op.view.partition.tile_shape[found[0]] == 1:
        raise CannotSplit
    return found[0]
