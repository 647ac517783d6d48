"""Batched MMA ops of one pair of matrices, without the axis of batches: tensor cores multiply matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import has_early_exit
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.shape import Reshape
from tilewright.ir.rewrite import Rewriter


@dataclass(frozen=True)
class DropUnitBatches:
    """Multiplies without the first axis, where that has the extent 1, and lets loops carry accumulators without it.

    Runs before ``choose-wgmma``; ``canonicalize`` removes the reshapes that meet.
    """

    name: ClassVar[str] = "drop-unit-batches"

    def run(self, function: Function) -> Function:
        if not any(isinstance(op, Mma) and _is_of_one(op) for op in function.walk()):
            return function
        return _Dropper().function(function)


def _is_of_one(op: Mma) -> bool:
    return op.acc.tile.rank == 3 and all(v.tile.shape[0] == 1 for v in (op.x, op.y, op.acc))


def _accumulators(loop: For) -> list[bool]:
    """Which loop-carried values are accumulators of such MMA ops."""
    if any(has_early_exit(op) for op in loop.body.ops if not op.spec.terminator):
        return [False] * len(loop.carried)
    return [any(isinstance(u, Mma) and u.acc is v and _is_of_one(u) for u in v.users) for v in loop.carried]


class _Dropper(Rewriter):
    def insert(self, op: Op, builder: Builder) -> None:
        builder.loc = op.loc
        if isinstance(op, Mma) and _is_of_one(op):
            operands = (self._without(self.value(v), builder) for v in (op.x, op.y, op.acc))
            made = builder.emit(Mma, *operands, **op.attributes)
            self.values[op.result] = builder.emit(Reshape, made, shape=op.result.tile.shape)
        elif isinstance(op, For) and any(_accumulators(op)):
            self._loop(op, _accumulators(op), builder)
        else:
            super().insert(op, builder)

    def _without(self, value: Value, b: Builder) -> Value:
        """``value`` without its first axis."""
        return b.emit(Reshape, value, shape=value.tile.shape[1:])

    def _loop(self, op: For, accumulators: list[bool], b: Builder) -> None:
        inits = [self._without(v, b) if drop else v for drop, v in zip(accumulators, self.all(op.inits))]
        body = Block()
        self.values[op.body.args[0]] = body.add_arg(op.body.args[0].type, op.body.args[0].name)
        args = [body.add_arg(v.type, old.name) for v, old in zip(inits, op.carried)]
        with b.at(body):
            self._bind(op.carried, args, accumulators, b)
            for inner in op.body.ops[:-1]:
                self.insert(inner, b)
            following = self.all(op.next_values)
            b.emit_op(Continue, [self._without(v, b) if drop else v for drop, v in zip(accumulators, following)])
        made = b.emit_op(For, *self.all(op.bounds), inits, body=body)
        self._bind(op.results, made.results, accumulators, b)

    def _bind(self, old: list[Value], new: list[Value], accumulators: list[bool], b: Builder) -> None:
        """Let ``new`` stand for ``old``, with the first axis of those that are accumulators."""
        for was, v, drop in zip(old, new, accumulators):
            self.values[was] = b.emit(Reshape, v, shape=was.tile.shape) if drop else v
