"""Loops that follow each other over adjoining ranges, of which the second does a little more, become one.

Attention under a causal mask is written as a loop over the keys that all queries see, and one over the others, which
also masks scores. As one loop, which masks where it has to, all of it is pipelined, and there is half as much code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tilewright.analysis.affine import AffineTiles
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import mma_ops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import And, Cmp, Max, Min, Not, Or, Select
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.reachable import operands_within, reachable
from tilewright.ir.rewrite import Rewriter, ValueMap, clone_op, replace_ops
from tilewright.ir.structured import emit_if
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.skip_masks import test_of

_IN_BOUNDS = "in_bounds"  # an attribute of accesses: what the ranges of one loop prove may not hold in the other


class MergeLoops(InPlacePass):
    """Merges pairs of such MMA loops: the body of the second one has the ops of the first, and pure ops besides.

    Where the first loop uses what follows from an MMA op and the second one something else, a branch decides by the
    range that an iteration is of.
    """

    name: ClassVar[str] = "merge-loops"

    def change(self, function: Function) -> bool:
        affine = AffineTiles(AnalysisManager(function).get(IntegerRanges))
        pairs: dict[For, _Pair] = {}
        for op in function.ops_of(For):
            if op not in pairs and mma_ops(op) and (pair := _pair(op)) is not None:
                pairs[pair.second] = pair
        firsts = dict.fromkeys(pair.first for pair in pairs.values())
        for pair in pairs.values():
            pair.affine = affine
        return replace_ops(function, pairs | firsts, _merged)  # the first ones when nothing uses them any more


@dataclass
class _Pair:
    """Two loops; for each op of the second one that of the first, and the operands in which these differ."""

    first: For
    second: For
    same: dict[Op, Op] = field(default_factory=dict)
    differing: dict[Op, dict[Value, Value]] = field(default_factory=dict)  # operand -> what the first loop has there
    bounds: dict[Op, tuple[bool, ...]] = field(default_factory=dict)  # what holds of an access in both loops
    affine: AffineTiles | None = None


def _pair(first: For) -> _Pair | None:
    """The pair that begins with ``first``."""
    second = _following(first)
    if second is None:
        return None
    pair = _Pair(first, second)
    values: ValueMap = dict(zip(second.body.args, first.body.args))
    pending = list(first.body.ops)
    matched: set[Value] = set(first.body.args)
    extra: set[Value] = set()
    for op in second.body.ops:
        if pending and _match(pair, op, pending[0], values, matched, extra):
            other = pending.pop(0)
            values.update(zip(op.results, other.results))
            matched.update(other.results)
        elif is_pure(op):
            extra.update(op.results)
        else:
            return None
    chosen = [v for differing in pair.differing.values() for v in differing.values()]
    return pair if not pending and chosen and all(_follows_mma(v) for v in chosen) else None


def _follows_mma(value: Value) -> bool:
    """Whether ``value`` is computed from an MMA op: operands of MMA ops are best left as they are loaded."""
    return any(isinstance(v.op, MmaOp) for v in reachable([value], operands_within))


def _following(first: For) -> For | None:
    """The loop that goes on with the range and the results of ``first``, which nothing else sees."""
    users = {op for v in first.results for op in v.users}
    if len(users) != 1 or not first.results:
        return None
    (second,) = users
    if not isinstance(second, For) or second.block is not first.block or list(second.inits) != list(first.results):
        return None
    if second.lower is not first.upper or constant_of(first.step) != 1 or constant_of(second.step) != 1:
        return None
    assert first.block is not None
    ops = first.block.ops
    between = ops[ops.index(first) + 1 : ops.index(second)]
    return second if all(map(is_pure, between)) else None


def _match(pair: _Pair, op: Op, other: Op, values: ValueMap, matched: set[Value], extra: set[Value]) -> bool:
    """Whether ``op`` does what ``other`` does in the first loop, with other operands at most where those are extra."""
    if type(op) is not type(other) or [r.type for r in op.results] != [r.type for r in other.results]:
        return False
    if op.segments != other.segments or not _same_attributes(op, other) or not _same_regions(op, other, values):
        return False
    differing: dict[Value, Value] = {}
    for mine, theirs in zip(op.operands, other.operands):
        if values.get(mine, mine) is theirs:
            continue
        if mine not in extra or theirs not in matched or mine.type != theirs.type:
            return False
        if differing.setdefault(mine, theirs) is not theirs:
            return False
    pair.same[op] = other
    if differing:
        pair.differing[op] = differing
    if _IN_BOUNDS in op.attributes:
        pair.bounds[op] = tuple(map(min, op.attributes[_IN_BOUNDS], other.attributes[_IN_BOUNDS]))
    return True


def _same_attributes(op: Op, other: Op) -> bool:
    mine, theirs = (
        {name: repr(value) for name, value in o.attributes.items() if name != _IN_BOUNDS} for o in (op, other)
    )
    return mine == theirs


def _same_regions(op: Op, other: Op, values: ValueMap) -> bool:
    """Whether the regions of both ops are equal, where ``values`` are those of the second loop in the first."""
    return all(_same_block(a, b, dict(values)) for a, b in zip(op.regions, other.regions))


def _same_block(block: Block, other: Block, values: ValueMap) -> bool:
    if len(block.ops) != len(other.ops) or [a.type for a in block.args] != [a.type for a in other.args]:
        return False
    values.update(zip(block.args, other.args))
    for a, b in zip(block.ops, other.ops):
        if type(a) is not type(b) or a.segments != b.segments or a.attributes.keys() != b.attributes.keys():
            return False
        if [values.get(v, v) for v in a.operands] != list(b.operands) or repr(a.attributes) != repr(b.attributes):
            return False
        if not all(_same_block(x, y, values) for x, y in zip(a.regions, b.regions)):
            return False
        values.update(zip(a.results, b.results))
    return True


def _merged(rewriter: Rewriter, _: For, pair: _Pair | None, b: Builder) -> Sequence[Value]:
    return () if pair is None else _Merger(rewriter, pair, b).emit()


@dataclass(frozen=True)
class _Merger:
    """Emits both loops of a pair in the place of the second one."""

    rewriter: Rewriter
    pair: _Pair
    b: Builder

    def emit(self) -> Sequence[Value]:
        rewriter, pair, b = self.rewriter, self.pair, self.b
        b.loc = pair.first.loc
        lower, limit, step = rewriter.all(pair.first.bounds)
        upper = rewriter.value(pair.second.upper)
        begin, end = b.emit(Min, lower, limit), b.emit(Max, limit, upper)  # also where one of the ranges is empty
        body = Block()
        for first, second in zip(pair.first.body.args, pair.second.body.args):
            rewriter.values[first] = rewriter.values[second] = body.add_arg(first.type, first.name)
        with b.at(body):
            is_second = b.emit(Cmp, body.args[0], limit, predicate=CmpPredicate.GE)
            self._body(is_second)
        return b.emit_op(For, begin, end, step, rewriter.all(pair.first.inits), body=body).results

    def _body(self, is_second: Value) -> None:
        pair, b, known = self.pair, self.b, self.rewriter.values
        extra = [op for op in pair.second.body.ops if op not in pair.same]
        chosen: dict[tuple[Value, Value], Value] = {}
        for op in pair.second.body.ops:
            other = pair.same.get(op)
            if other is None:
                continue
            b.loc = op.loc
            values = dict(known)
            for mine, theirs in pair.differing.get(op, {}).items():
                key = theirs, mine
                if key not in chosen:
                    chosen[key] = self._choice(*key, extra, is_second)
                values[mine] = chosen[key]
            copied = clone_op(op, values)
            if op in pair.bounds:
                copied.attributes.update({_IN_BOUNDS: pair.bounds[op]})
            b.block.append(copied)
            for results in zip(op.results, other.results, copied.results):
                known[results[0]] = known[results[1]] = results[2]

    def _choice(self, first: Value, second: Value, extra: Sequence[Op], is_second: Value) -> Value:
        """``first``, or ``second`` in an iteration of the second loop, with the ops of ``extra`` that compute it."""
        needed: set[Value] = {second}
        ops: list[Op] = []
        for op in reversed(extra):
            if needed.intersection(op.results):
                ops.insert(0, op)
                needed.update(v for o in op.walk() for v in o.operands)
        values = dict(self.rewriter.values)

        def compute() -> list[Value]:
            for op in ops:
                self.b.block.append(clone_op(op, values))
            return [values[second]]

        return emit_if(
            self.b, self._hides(first, second, ops, is_second), compute, lambda: [self.rewriter.value(first)]
        )[0]

    def _hides(self, first: Value, second: Value, ops: Sequence[Op], is_second: Value) -> Value:
        """Whether an iteration is of the second loop, and ``second``, which ``ops`` compute, not known to be ``first``,
        as in the middle of a window."""
        mask, affine = second.op, self.pair.affine
        window = isinstance(mask, Select) and isinstance(mask.condition.op, (And, Or))
        found = test_of(mask, affine) if isinstance(mask, Select) and window and affine is not None else None
        if found is None or self.rewriter.value(found[0]) is not self.rewriter.value(first):
            return is_second
        values = dict(self.rewriter.values)
        for op in ops:
            if all(isinstance(v.type, TileType) and not v.type.shape for v in (*op.operands, *op.results)):
                self.b.block.append(clone_op(op, values))
        return self.b.emit(And, is_second, self.b.emit(Not, found[1](self.b, lambda v: values.get(v, v))))
