"""A loop that does nothing but run another one becomes one loop over the iterations of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32, int64, uint32
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Add, Cast, Div, Max, Min, Mul, Sub
from tilewright.ir.ops.control import Continue, For, LoopOp
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.rewrite import Rewriter, replace_ops
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass

_MOST = 1 << 30  # iterations of one loop, so that their number has 32 bits; if there are more, they are several loops


class FlattenLoops(InPlacePass):
    """Runs the iterations of two loops, of which the outer one hands on what the inner one carries, as one loop: so
    what these load runs ahead of all of them, and sums are exchanged once.

    The inner one loads, and has bounds that do not change. Not where MMA ops multiply, for which others load ahead.
    Runs on optimized Tile IR.
    """

    name: ClassVar[str] = "flatten-loops"

    def change(self, function: Function) -> bool:
        if function.ops_of(MmaOp):
            return False
        nests = {op: inner for op in function.ops_of(For) if (inner := _nested(op)) is not None}
        return replace_ops(function, nests, _flattened)


def _nested(outer: For) -> For | None:
    """The loop that is all that ``outer`` runs, if both can be one."""
    *before, end = outer.body.ops
    inner = before.pop() if before else None
    if not isinstance(inner, For) or not all(_counts(loop) for loop in (outer, inner)):
        return None
    handed_on = list(inner.inits) == list(outer.carried) and list(end.operands) == list(inner.results)
    alone = all(list(v.users) == [inner] for v in outer.carried) and all(list(v.users) == [end] for v in inner.results)
    made = {*outer.body.args, *(v for op in before for v in op.results)}
    fixed = made.isdisjoint(inner.bounds) and all(map(_is_number, before))
    loads = any(isinstance(op, (Load, LoadView)) for op in inner.body.ops)
    nested = any(isinstance(op, LoopOp) for op in inner.body.walk())
    return inner if handed_on and alone and fixed and loads and not nested else None


def _counts(loop: For) -> bool:
    """Whether ``loop`` counts by one, from a constant of 32 bits on that is not negative."""
    first = constant_of(loop.lower)
    return loop.lower.tile.element is int32 and constant_of(loop.step) == 1 and first is not None and first >= 0


def _is_number(op: Op) -> bool:
    """Whether ``op`` computes numbers or views alone, which costs little in each iteration."""
    tiles = (v.type for v in op.results if isinstance(v.type, TileType))
    return is_pure(op) and not op.regions and all(not t.rank for t in tiles)


def _flattened(rewriter: Rewriter, outer: For, inner: For, b: Builder) -> Sequence[Value]:
    zero, one = (b.constant(n, int32) for n in (0, 1))
    count, each = (_count(rewriter, loop, b) for loop in (outer, inner))
    divisor = b.emit(Max, each, one)
    most = b.emit(Max, b.emit(Div, b.constant(_MOST, int32), divisor, rounding=RoundingMode.RZ), one)
    bounds = [b.emit(Cast, v, dtype=int64) for v in (zero, count, most)]  # the last step leads beyond 32 bits
    inits, body = rewriter.all(outer.inits), Block()
    first, carried = body.add_arg(bounds[0].type), [body.add_arg(v.type) for v in inits]
    with b.at(body):
        begun = b.emit(Cast, first, dtype=int32)
        total = b.emit(Mul, b.emit(Min, most, b.emit(Sub, count, begun)), each)
        flat = _body(rewriter, outer, inner, (begun, divisor), b)
        made = b.emit_op(For, zero, total, one, carried, body=flat)
        b.emit_op(Continue, made.results)
    return b.emit_op(For, *bounds, inits, body=body).results


def _body(rewriter: Rewriter, outer: For, inner: For, numbers: tuple[Value, Value], b: Builder) -> Block:
    """An iteration of ``inner``: with the first one of ``outer``, and how many ``inner`` has in each of them."""
    body, values, (begun, each) = Block(), rewriter.values, numbers
    number = body.add_arg(begun.type)
    values.update((old, body.add_arg(old.type, old.name)) for old in inner.carried)
    with b.at(body):
        unsigned = [b.emit(Cast, v, dtype=uint32) for v in (number, each)]
        done = b.emit(Cast, b.emit(Div, *unsigned, rounding=RoundingMode.RZ), dtype=int32)
        left = b.emit(Sub, number, b.emit(Mul, done, each))
        for loop, place in ((outer, b.emit(Add, begun, done)), (inner, left)):
            values[loop.body.args[0]] = b.emit(Add, rewriter.value(loop.lower), place)
        for op in (*outer.body.ops[:-2], *inner.body.ops):
            b.loc = op.loc
            rewriter.insert(op, b)
    return body


def _count(rewriter: Rewriter, loop: For, b: Builder) -> Value:
    """How many iterations ``loop`` has."""
    lower, upper, _ = rewriter.all(loop.bounds)
    return b.emit(Sub, b.emit(Max, upper, lower), lower)
