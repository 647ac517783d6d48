"""Sums along an axis that a loop carries are those of each thread until it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.effects import has_early_exit
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.layouts import REGISTER
from tilewright.ir.ops.arith import Add, And, Cmp, Mul, Select
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.cluster import ClusterGather
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat, ThreadReduce, broadcast_sources
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.ops.shape import Constant, Iota, Reshape, constant_of
from tilewright.ir.rewrite import Rewriter, clone_block, replace_ops
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass


class PartialSums(InPlacePass):
    """Lets loops carry a sum of reductions, such as that of the weights of attention, in as many parts as threads have
    of a row: these exchange them when the loop has ended, and not in each iteration.

    The sum so far may be scaled by a number for each row before it is added to. Where CTAs of a cluster have parts of
    rows, they exchange their sums when the loop has ended, too. Runs when tiles have layouts, before
    reductions are lowered.
    """

    name: ClassVar[str] = "partial-sums"

    def change(self, function: Function) -> bool:
        loops = {op: sums for op in function.ops_of(For) if (sums := sums_of(op))}
        return replace_ops(function, loops, _rebuilt)


@dataclass(frozen=True)
class PartialSum:
    """The op that adds what is ``reduced`` to carried value ``index`` of a loop, which may be ``scaled`` before, and
    the ops in whose place this is. So many ``ctas`` have parts of what is reduced."""

    index: int
    add: Add
    scaled: Mul | None
    reduced: Reduce
    ops: frozenset[Op]
    ctas: int

    @property
    def parts(self) -> TileType:
        """What the loop carries: an element for each thread that has some of a row."""
        (value,), axis = self.reduced.values, self.reduced.axis
        layout = value.layout
        return value.tile.with_layout(layout.drop_bits(axis, layout.axis_bits(REGISTER, axis)))


def sums_of(loop: For) -> list[PartialSum]:
    if any(has_early_exit(op) for op in loop.body.ops if not op.spec.terminator):
        return []
    found = (_sum_of(loop, index) for index in range(len(loop.carried)))
    return [s for s in found if s is not None and _pays(s, loop)]


def _sum_of(loop: For, index: int) -> PartialSum | None:
    before, add = loop.carried[index], loop.next_values[index].op
    if not isinstance(add, Add) or list(add.result.users) != [loop.body.terminator]:
        return None
    for so_far, added in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
        scaled = so_far.op if isinstance(so_far.op, Mul) and before in so_far.op.operands else None
        reduced, between = reduction(added, Add)
        if reduced is None or (scaled is None and so_far is not before):
            continue
        ops = [add, *between, *([] if scaled is None else [scaled])]
        used_once = list(before.users) == [scaled or add] and (scaled is None or list(so_far.users) == [add])
        if used_once and all(op.block is loop.body for op in ops):
            return PartialSum(index, add, scaled, reduced, frozenset(ops), ctas_of(between))
    return None


def reduction(value: Value, combiner: type[Op]) -> tuple[Reduce | None, list[Op]]:
    """The reduction along an axis by a ``combiner`` that ``value`` is, maybe in another shape, or combined with those
    of other CTAs, which nothing else sees, and the ops for it."""
    between: list[Op] = []
    found: Reduce | None = None
    while value.op is not None and len(value.users) == 1:
        op = value.op
        if found is not None and not isinstance(op, (Reshape, ClusterGather)):
            break
        between.append(op)
        if isinstance(op, Reduce):
            first, *_, end = op.body.ops
            combines = isinstance(first, combiner) and end.operands == first.results and len(op.values) == 1
            if not combines or not op.commutative:
                return None, between
            found, value = op, op.values[0]
        elif isinstance(op, ClusterGather) and len(op.values) == 1 and found is not None:
            found, value = None, op.values[0]
        elif isinstance(op, Reshape) or (isinstance(op, Splat) and ctas_of(between) > 1):
            value = op.x
        else:
            return None, between
    if found is not None:
        del between[between.index(found) + 1 :]  # how what is reduced is shaped
    return found, between


def ctas_of(between: Sequence[Op]) -> int:
    """How many CTAs gather what one of them has reduced."""
    return next((op.ctas for op in between if isinstance(op, ClusterGather)), 1)


def whole(reduced: Reduce, parts: Value, shape: tuple[int, ...], ctas: int, b: Builder) -> Value:
    """What the ``parts`` of all threads, and ``ctas``, are together, combined as by ``reduced``, in this ``shape``."""
    axis = reduced.axis
    if ctas > 1:
        parts, axis = b.emit(Reshape, parts, shape=(1, *parts.tile.shape)), axis + 1
    how = {**reduced.attributes, "axis": axis}
    made = b.emit_op(Reduce, [parts], body=clone_block(reduced.body, {}), **how).results
    if ctas > 1:
        of_all = b.emit_op(ClusterGather, made, ctas=ctas).results
        made = b.emit_op(Reduce, of_all, body=clone_block(reduced.body, {}), **{**how, "axis": 0}).results
    return b.emit(Reshape, made[0], shape=shape)


def _pays(s: PartialSum, loop: For) -> bool:
    """Whether several threads have parts of a row, and the loop can carry these: each thread has its part of the rows
    of which it had the sum. A sum that does not begin with 0 is a part beside others along the last axis."""
    (value,), axis = s.reduced.values, s.reduced.axis
    t = loop.carried[s.index].tile
    if not value.layout.is_permutation or (t.layout is None and value.tile.size > value.tile.shape[axis]):
        return False
    parts = s.parts
    assert parts.layout is not None
    if s.ctas > 1 and constant_of(loop.inits[s.index]) != 0:
        return False
    if t.layout is None:
        return parts.shape[axis] > 1
    if t.rank != value.tile.rank or t.rank == 1:
        return False
    placed = axis == t.rank - 1 or constant_of(loop.inits[s.index]) == 0
    same = parts.layout.slice(axis).reshape(t.shape) == t.layout if t.shape[axis] == 1 else False
    return placed and same and parts.shape[axis] > 1 and broadcast_sources(t.layout, parts.layout) is not None


def of_all_threads(value: Value, t: TileType, b: Builder) -> Value:
    """``value``, a scalar or what is the same along an axis, as a tile of type ``t``."""
    return b.emit(BroadcastDistributed if value.tile.rank else Splat, value, type=t)


def _rebuilt(rewriter: Rewriter, loop: For, sums: Sequence[PartialSum], b: Builder) -> Sequence[Value]:
    of_op = {op: s for s in sums for op in s.ops}
    inits = rewriter.all(loop.inits)
    for s in sums:
        inits[s.index] = _first(inits[s.index], s.parts, s.reduced.axis, b)
    body = Block()
    for old, t in zip(loop.body.args, [loop.body.args[0].type, *(v.type for v in inits)]):
        rewriter.values[old] = body.add_arg(t, old.name)
    with b.at(body):
        for op in loop.body.ops:
            b.loc = op.loc
            if op not in of_op:
                rewriter.insert(op, b)
            elif op is of_op[op].add:
                rewriter.values[of_op[op].add.result] = _next(rewriter, loop, of_op[op], b)
    made = b.emit_op(For, *rewriter.all(loop.bounds), inits, body=body)
    results = list(made.results)
    for s in sums:
        shape = loop.carried[s.index].tile.shape
        results[s.index] = whole(s.reduced, results[s.index], shape, s.ctas, b)
    return results


def _next(rewriter: Rewriter, loop: For, s: PartialSum, b: Builder) -> Value:
    """The parts after an iteration."""
    before, axis = loop.carried[s.index], s.reduced.axis
    so_far = rewriter.value(before)
    if s.scaled is not None:
        (scale,) = (v for v in s.scaled.operands if v is not before)
        wide = of_all_threads(rewriter.value(scale), s.parts, b)
        so_far = b.emit(Mul, so_far, wide, **s.scaled.attributes)
    values = rewriter.all(s.reduced.values)
    if values[0].type != s.parts:
        values = b.emit_op(ThreadReduce, values, axis=axis, body=clone_block(s.reduced.body, {})).results
    return b.emit(Add, so_far, values[0], **s.add.attributes)


def _first(init: Value, t: TileType, axis: int, b: Builder) -> Value:
    """The parts before the loop: ``init``, and zeros."""
    zero = b.emit(Constant, value=0.0 if t.element.is_floating else 0, type=t)
    if constant_of(init) == 0:
        return zero
    index = TileType(int32, t.shape, t.layout)
    mask, none = (b.emit(Constant, value=n, type=index) for n in (t.shape[axis] - 1, 0))
    place = b.emit(And, b.emit(Iota, type=index), mask)
    is_first = b.emit(Cmp, place, none, predicate=CmpPredicate.EQ)
    return b.emit(Select, is_first, of_all_threads(init, t, b), zero)
