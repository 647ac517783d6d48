"""The pass that joins two tiles element by element where their elements alternate."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Cmp, Select
from tilewright.ir.ops.shape import Broadcast, Cat, Iota, Reshape
from tilewright.ir.rewrite import lower_ops
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass


class InterleaveCats(InPlacePass):
    """Makes selects of cats whose operands have one element each along the innermost axis.

    The loops that need the result compute it then, such as those that store complex numbers. Other cats are written to
    a buffer part by part. Before fusion.
    """

    name: ClassVar[str] = "interleave-cats"

    def change(self, function: Function) -> bool:
        """Never fails."""
        return lower_ops(function, {Cat: _interleaved})


def _interleaved(op: Cat, b: Builder) -> Value | None:
    shape = op.result.tile.shape
    if shape[-1] != 2 or op.axis != len(shape) - 1:
        return None
    line = b.emit(Reshape, b.emit(Iota, type=TileType(int32, (2,))), shape=(*(1 for _ in shape[1:]), 2))
    number = b.emit(Broadcast, line, shape=shape)
    first = b.emit(Cmp, number, b.constant(0, int32, shape), predicate=CmpPredicate.EQ)
    return b.emit(Select, first, *(b.emit(Broadcast, v, shape=shape) for v in op.operands))
