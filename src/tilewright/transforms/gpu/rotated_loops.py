"""MMA loops that follow each other run the last MMA op one iteration late.

In attention the second MMA op of an iteration waits for the softmax, which waits for the first MMA op. When it runs
beside the first MMA op of the next iteration instead, the tensor cores work while the softmax is computed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.analysis.mma_graph import mma_ops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import has_effect
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import Add, Cmp, Sub
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.reachable import reachable
from tilewright.ir.rewrite import ValueMap, clone_op, replace_ops
from tilewright.ir.structured import emit_for, emit_if
from tilewright.ir.types import TileType


@dataclass(frozen=True)
class Rotation:
    """How a loop is rotated: ``late`` are the ops of the last MMA op and of its right operand, ``accumulators`` the
    position of its result among the carried values, ``first`` the MMA op that it will follow."""

    late: Sequence[Op]
    mma: MmaOp
    accumulators: int
    first: Op

    @functools.cached_property
    def numbers(self) -> set[Op]:
        """The ops of ``late`` that compute numbers, such as of a tile of keys, which others may need in time."""
        made = {v: op for op in self.late for v in op.results}
        needed = reachable(filter(_is_number, made), lambda v: made[v].operands if v in made else ())
        return {made[v] for v in needed if v in made}


def rotate(function: Function, loops: Sequence[For]) -> bool:
    """Let the last of the two MMA ops in each of ``loops`` run one iteration late, if it can; whether any does."""
    rotations = {op: rotation for op in loops if (rotation := rotation_of(op)) is not None}
    return replace_ops(function, rotations, lambda rewriter, op, how, b: _Rotator(rewriter.values, op, how, b).emit())


def rotation_of(loop: For) -> Rotation | None:
    """How ``loop`` is rotated, which has two MMA ops, or more, all of which but the last add to each other; None where
    the last one cannot run late."""
    body = loop.body
    *_, first, last = mma_ops(loop)
    carried = body.terminator.operands
    if constant_of(loop.step) != 1:
        return None
    if _users(body, last.result) != {body.terminator} or carried.count(last.result) != 1:
        return None
    accumulators, right = carried.index(last.result), _right_operand(last, body)
    if right is None or _users(body, body.args[1 + accumulators]).intersection(body.ops[: body.ops.index(first) + 1]):
        return None
    if any(has_effect(op, Effect.WRITE) for op in body.ops):
        return None  # a late load would see what is written
    return Rotation([*right, last], last, accumulators, first)


def _users(body: Block, value: Value) -> set[Op]:
    """The ops of ``body`` that use ``value``, or in which it is used."""
    return {user for op in value.users if (user := op.ancestor_in(body)) is not None}


def _right_operand(mma: MmaOp, body: Block) -> list[Op] | None:
    """The ops of ``body`` that compute the right operand of ``mma``. None when they need carried values, or load
    what others read too."""
    inside = set(body.ops)
    values = list(reachable([mma.y], lambda v: v.op.operands if v.op in inside else ()))
    found = {v.op for v in values if v.op in inside}
    if any(v in body.args[1:] for v in values) or any(op.regions for op in found):
        return None
    shared = any(_users(body, v) - found - {mma} for op in found for v in op.results if not _is_number(v))
    return None if shared else sorted(found, key=body.ops.index)


def _is_number(value: Value) -> bool:
    return isinstance(value.type, TileType) and not value.tile.shape


@dataclass(frozen=True)
class _Rotator:
    """Rotates ``loop``, around which ``values`` have been rebuilt."""

    values: ValueMap
    loop: For
    rotation: Rotation
    b: Builder

    def emit(self) -> Sequence[Value]:
        lower, upper, _, *inits = (self.values.get(v, v) for v in self.loop.operands)
        runs = self.b.emit(Cmp, lower, upper, predicate=CmpPredicate.LT)
        return emit_if(self.b, runs, self._rotated, lambda: inits)

    def _rotated(self) -> list[Value]:
        """The first iteration without the late MMA op, the others with that of the one before, and the last one."""
        lower, upper, step, *inits = (self.values.get(v, v) for v in self.loop.operands)
        start, total = self._iteration(lower, *inits), self.rotation.accumulators
        bounds = self.b.emit(Add, lower, step), upper, step
        *results, left = emit_for(self.b, bounds, start, self._iteration).results
        results[total] = self._late(upper, left, results[total])
        return results

    def _iteration(self, variable: Value, *carried: Value) -> list[Value]:
        """An iteration from ``carried``, the values that the loop carries and, but in the first iteration, the left
        operand of the MMA op that is late. Gives those of the next, whose accumulators lack the MMA op of this one."""
        body, rotation, values = self.loop.body, self.rotation, dict(self.values)
        values.update(zip(body.args, (variable, *carried)))
        for op in body.ops[:-1]:
            if op in rotation.late and op not in rotation.numbers:
                continue
            self.b.insert(clone_op(op, values))
            if op is rotation.first and len(carried) == len(body.args):
                accumulators = self._late(variable, carried[-1], carried[rotation.accumulators])
                values[body.args[1 + rotation.accumulators]] = accumulators
        left, total = (values.get(v, v) for v in (rotation.mma.x, rotation.mma.acc))
        state = [values.get(v, v) for v in body.terminator.operands]
        state[rotation.accumulators] = total
        return [*state, left]

    def _late(self, after: Value, left: Value, accumulators: Value) -> Value:
        """The late MMA op of the iteration before that of ``after``."""
        loop, rotation, b, values = self.loop, self.rotation, self.b, dict(self.values)
        values[loop.body.args[0]] = b.emit(Sub, after, values.get(loop.step, loop.step))
        for op in rotation.late[:-1]:
            b.insert(clone_op(op, values))
        values[rotation.mma.x], values[rotation.mma.acc] = left, accumulators
        b.insert(clone_op(rotation.mma, values))
        return values[rotation.mma.result]
