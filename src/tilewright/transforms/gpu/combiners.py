"""Combiners of reductions and scans, applied to whole tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.opdef import with_operands
from tilewright.ir.ops.arith import Select
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.ops.gpu.tiles import Splat
from tilewright.ir.ops.shape import Constant, Undefined
from tilewright.ir.types import TileType

Tiles = list[Value]


class TileCombiner:
    """What the combiner ``body`` computes of scalars, for each element of tiles of one shape, and one layout if any.

    A branch computes both sides and selects: scalars of a combiner have no effects.
    """

    def __init__(self, body: Block, b: Builder) -> None:
        self.body = body
        self.b = b

    def __call__(self, left: Sequence[Value], right: Sequence[Value]) -> Tiles:
        """``left`` combined with ``right``, element by element."""
        values = dict(zip(self.body.args, (*left, *right)))
        return self._block(self.body, values, left[0].tile)

    def _block(self, block: Block, values: dict[Value, Value], like: TileType) -> Tiles:
        def operand(v: Value) -> Value:
            if v not in values:  # a scalar from outside of the combiner
                values[v] = self._splat(v, like)
            return values[v]

        for op in block.ops:
            if isinstance(op, Yield):
                return [operand(v) for v in op.operands]
            values.update(zip(op.results, self._op(op, operand, values, like)))
        raise AssertionError("a combiner without an end")

    def _splat(self, scalar: Value, like: TileType) -> Value:
        if like.layout is not None:
            return self.b.emit(Splat, scalar, type=like.with_dtype(scalar.tile.dtype))
        return self.b.splat(scalar, like.shape)

    def _op(
        self, op: Op, operand: Callable[[Value], Value], values: dict[Value, Value], like: TileType
    ) -> Sequence[Value]:
        if isinstance(op, (Constant, Undefined)) and not op.type.rank:
            attributes = {**op.attributes, "type": like.with_dtype(op.type.dtype)}
            return [self.b.emit(type(op), **attributes)]
        if isinstance(op, If):
            sides = [self._block(r, dict(values), like) for r in (op.then, op.orelse)]
            condition = operand(op.condition)
            return [self.b.emit(Select, condition, x, y) for x, y in zip(*sides)]
        if not op.spec.elementwise or any(v.tile.rank for v in op.operands):
            raise TileUnsupportedFeatureError(f"the gpu backend has no {op.name} in a combiner", op.loc)
        return self.b.insert(with_operands(op, [operand(v) for v in op.operands])).results
