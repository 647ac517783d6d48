"""Masks that leave a tile as it is are not computed: MMA loops branch by the bounds of what they compare.

Attention under a causal mask or in a window is often written as one loop that masks the scores of each step, while only
those of tiles at the edges need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.affine import Affine, AffineTiles
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import mma_loops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import int64
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Mul, Not, Or, Select, Sub
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape, constant_of
from tilewright.ir.reachable import operands_within, reachable
from tilewright.ir.rewrite import Rewriter, clone_op, replace_ops
from tilewright.ir.structured import emit_if
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass

_LEAST = 1024  # elements of a mask that is worth a branch
_MOVING = (Broadcast, Permute, Reshape)
_NEGATED = {
    CmpPredicate.LT: CmpPredicate.GE,
    CmpPredicate.GE: CmpPredicate.LT,
    CmpPredicate.LE: CmpPredicate.GT,
    CmpPredicate.GT: CmpPredicate.LE,
}
Test = Callable[[Builder, Callable[[Value], Value]], Value]  # emits a truth value, of what stands for others


class SkipMasks(InPlacePass):
    """Branches around masks of what MMA loops compute from their products, where the bounds of the numbers that these
    compare say that they leave all of a tile. Loops that go on where another MMA loop ends mask because they have to.
    Runs before ``merge-loops``.
    """

    name: ClassVar[str] = "skip-masks"

    def change(self, function: Function) -> bool:
        affine = AffineTiles(AnalysisManager(function).get(IntegerRanges))
        masks: dict[Op, _Mask] = {}
        for loop in mma_loops(function):
            if not any(isinstance(v.op, For) and v.op in mma_loops(function) for v in loop.inits):
                found = (_mask_of(op, loop, affine) for op in loop.body.ops if isinstance(op, Select))
                masks.update((mask.op, mask) for mask in found if mask is not None)
        return replace_ops(function, masks, lambda rewriter, _, mask, b: mask.emit(rewriter, b))


@dataclass(frozen=True)
class _Mask:
    """A ``select`` of ``loop``, and the op that takes its result, which may be the same; ``plain`` is the side whose
    elements it has all if ``test`` holds."""

    loop: For
    select: Select
    op: Op
    plain: Value
    test: Test

    def emit(self, rewriter: Rewriter, b: Builder) -> Sequence[Value]:
        values = {v for v in reachable([self.select.condition], operands_within) if _is_tile(v)}
        needed = [op for op in self.loop.body.ops if not values.isdisjoint(op.results)]

        def masked() -> list[Value]:
            copied = dict(rewriter.values)
            for op in (*needed, self.select, *([self.op] if self.op is not self.select else [])):
                b.insert(clone_op(op, copied))
            return [copied[v] for v in self.op.results]

        def as_it_is() -> list[Value]:
            if self.op is self.select:
                return [rewriter.value(self.plain)]
            copied = {**rewriter.values, self.select.result: rewriter.value(self.plain)}
            b.insert(clone_op(self.op, copied))
            return [copied[v] for v in self.op.results]

        return emit_if(b, self.test(b, rewriter.value), as_it_is, masked)


def _is_tile(value: Value) -> bool:
    return isinstance(value.type, TileType) and bool(value.type.shape)


def test_of(select: Select, affine: AffineTiles) -> tuple[Value, Test] | None:
    """The side of ``select`` that is no constant, and whether it is known to be all of the result; None where that is
    not the only one, or nothing is known of the mask."""
    constants = [constant_of(v) is not None for v in (select.x, select.y)]
    if constants.count(False) != 1 or select.result.tile.size < _LEAST:
        return None
    test = _all(select.condition, constants[1], affine)
    return None if test is None else (select.y if constants[0] else select.x, test)


def _mask_of(select: Select, loop: For, affine: AffineTiles) -> _Mask | None:
    """What ``select``, in ``loop``, masks; None where it is no mask of what follows from MMA ops."""
    if select.result.tile.size < _LEAST:
        return None
    op: Op = select
    sides = [constant_of(v) for v in (select.x, select.y)]
    if None not in sides:  # a bias
        users = list(select.result.users)
        if len(users) != 1 or not isinstance(users[0], Add) or users[0].block is not loop.body or 0 not in sides:
            return None
        op, kept = users[0], sides.index(0)
    elif sides.count(None) == 1:
        kept = sides.index(None)
    else:
        return None
    within = list(reachable(op.operands, operands_within))
    computed = [v.op for v in reachable([select.condition], operands_within) if v.op is not None]
    inside = [o for o in computed if o.block is loop.body]
    if not any(isinstance(v.op, MmaOp) for v in within) or not inside or not all(is_pure(o) for o in inside):
        return None
    test = _all(select.condition, kept == 0, affine)
    return None if test is None else _Mask(loop, select, op, (select.x, select.y)[kept], test)


def _all(mask: Value, truth: bool, affine: AffineTiles) -> Test | None:
    """A test of whether all elements of ``mask`` are known to be equal to ``truth``; None where nothing is known."""
    op = mask.op
    if isinstance(op, _MOVING):
        return _all(op.x, truth, affine)
    if isinstance(op, Not):
        return _all(op.x, not truth, affine)
    if isinstance(op, (And, Or)):
        found = [_all(v, truth, affine) for v in op.operands]
        tests = [test for test in found if test is not None]
        if isinstance(op, And) == truth:
            return _joined(tests, And) if len(tests) == len(found) else None
        return _joined(tests, Or) if tests else None
    if not isinstance(op, Cmp) or op.predicate not in _NEGATED:
        return None
    bounds = [_bounds(v, affine) for v in op.operands]
    if bounds[0] is None or bounds[1] is None:
        return None
    predicate = op.predicate if truth else _NEGATED[op.predicate]
    return _compared(bounds[0].minus(bounds[1]), predicate)


def _joined(tests: Sequence[Test], kind: type[And] | type[Or]) -> Test:
    def emit(b: Builder, value: Callable[[Value], Value]) -> Value:
        found, *others = (test(b, value) for test in tests)
        for other in others:
            found = b.emit(kind, found, other)
        return found

    return emit


@dataclass(frozen=True)
class _Bounds:
    """Numbers from ``start`` + ``low`` to ``start`` + ``high``."""

    start: Affine
    low: int
    high: int

    def plus(self, other: _Bounds) -> _Bounds:
        return _Bounds(self.start.plus(other.start), self.low + other.low, self.high + other.high)

    def minus(self, other: _Bounds) -> _Bounds:
        return _Bounds(self.start.plus(other.start, -1), self.low - other.high, self.high - other.low)


def _bounds(value: Value, affine: AffineTiles) -> _Bounds | None:
    """The bounds of the elements of ``value``, sums of which are taken not to wrap around within a tile."""
    index, op = affine.index(value), value.op
    if index is not None:
        return _Bounds(index.first, 0, index.length - 1)
    if isinstance(op, _MOVING):
        return _bounds(op.x, affine)
    if not isinstance(op, (Add, Sub)) or not value.tile.element.is_signed:
        return None
    left, right = (_bounds(v, affine) for v in op.operands)
    if left is None or right is None:
        return None
    return left.plus(right) if isinstance(op, Add) else left.minus(right)


def _compared(bounds: _Bounds, predicate: CmpPredicate) -> Test | None:
    """Whether all numbers between ``bounds`` compare so to zero."""
    if not bounds.start.scalars:
        return None
    less = predicate in (CmpPredicate.LT, CmpPredicate.LE)

    def emit(b: Builder, value: Callable[[Value], Value]) -> Value:
        total = b.constant(bounds.start.constant + (bounds.high if less else bounds.low), int64)
        for scalar, factor in bounds.start.scalars:
            number = value(scalar)
            number = b.emit(Reshape, number, shape=()) if number.tile.shape else number
            wide = number if number.tile.element is int64 else b.emit(Cast, number, dtype=int64)
            total = b.emit(Add, total, wide if factor == 1 else b.emit(Mul, wide, b.constant(factor, int64)))
        return b.emit(Cmp, total, b.constant(0, int64), predicate=predicate)

    return emit
