"""Structured control flow.

Every region is one block that ends in a terminator. ``if`` branches end in ``yield``, or leave an enclosing loop
with ``break`` or ``continue``. The body of ``for`` ends in ``continue``; a ``loop`` body in ``continue`` or ``break``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.opdef import attribute, define, operand, operands, region
from tilewright.ir.ops.rules import region_args, require, scalar_integer, types_of
from tilewright.ir.types import BOOL, Type


class LoopOp(Op):
    """What ``for`` and ``loop`` have in common: a body that is repeated, and values that it carries."""

    inits: list[Value]
    body: Block

    @property
    def carried(self) -> list[Value]:
        """The arguments of the body that hold what is carried: first ``inits``, then what ``continue`` has."""
        return self.body.args[len(self.body.args) - len(self.inits) :]


@define("for")
class For(LoopOp):
    """Runs ``body`` for i = lower, lower + step, ... while i < upper; step is positive.

    The body takes i and the carried values, and continues with their next values. Results: the last ones.
    """

    lower: Value = operand()
    upper: Value = operand()
    step: Value = operand()
    inits: list[Value] = operands()
    body: Block = region()

    @property
    def next_values(self) -> Sequence[Value]:
        """What the ``continue`` at the end of the body carries to the next iteration."""
        return self.body.terminator.operands

    @property
    def bounds(self) -> tuple[Value, Value, Value]:
        """Lower, upper and step."""
        return self.lower, self.upper, self.step

    def infer(self) -> tuple[Type, ...]:
        scalar_integer(self, self.lower, self.upper, self.step)
        require(self.lower.type == self.upper.type == self.step.type, self, "bounds of different types")
        carried = types_of(self.inits)
        region_args(self, self.body, (self.lower.type, *carried))
        return carried


@define("loop")
class Loop(LoopOp):
    """Repeats ``body`` until a ``break``, whose operands are the results. The body takes the carried values."""

    inits: list[Value] = operands()
    types: tuple[Type, ...] = attribute(tuple)
    body: Block = region()

    def infer(self) -> tuple[Type, ...]:
        region_args(self, self.body, types_of(self.inits))
        return self.types


@define("if")
class If(Op):
    """Runs one of two branches. A branch that yields gives the results; one that leaves a loop gives none."""

    condition: Value = operand()
    types: tuple[Type, ...] = attribute(tuple)
    then: Block = region()
    orelse: Block = region()

    def infer(self) -> tuple[Type, ...]:
        require(self.condition.type == BOOL, self, "condition {} is not a bool scalar", self.condition.type)
        region_args(self, self.then, ())
        region_args(self, self.orelse, ())
        return self.types


class PassingOp(Op):
    """What the terminators that hand values on have in common."""

    values: list[Value] = operands()

    @property
    def target(self) -> Op | None:
        """The op that is handed the values: the one that a ``yield`` is in, the innermost loop around other ends."""
        op = self.parent
        while not isinstance(self, Yield) and op is not None and not isinstance(op, LoopOp):
            op = op.parent
        return op

    @property
    def receivers(self) -> Sequence[Value]:
        """What the values become: results of an ``if`` or a ``loop``, or what a loop carries. Of combiners, nothing."""
        target = self.target
        if isinstance(target, LoopOp) and isinstance(self, Continue):
            return target.carried
        return target.results if isinstance(target, (If, Loop)) else ()


@define("yield", terminator=True)
class Yield(PassingOp):
    """Ends an ``if`` branch or a combiner with its values."""


@define("continue", terminator=True)
class Continue(PassingOp):
    """Starts the next iteration of the innermost loop with these carried values."""


@define("break", terminator=True)
class Break(PassingOp):
    """Ends the innermost ``loop`` with these results."""


@define("return", terminator=True)
class Return(Op):
    """Ends the kernel; only at the end of a function body."""


CONTROL_FLOW = (For, If, Loop)  # the ops whose regions are run by where control goes


def deciding_values(op: Op) -> tuple[Value, ...]:
    """The operands that decide where control flow goes: bounds and conditions."""
    return op.bounds if isinstance(op, For) else (op.condition,) if isinstance(op, If) else ()


def incoming(value: Value) -> Sequence[Value] | None:
    """What control flow may make ``value``: what a loop carries there, what ends of branches and loops hand out. None
    for values that it does not make."""
    owner, i = value.owner, value.index
    if isinstance(owner, Block):
        loop = owner.parent
        if not isinstance(loop, LoopOp) or (i := i - len(owner.args) + len(loop.inits)) < 0:
            return None
        return [loop.inits[i], *(end.values[i] for end in ends_of(loop) if isinstance(end, Continue))]
    if isinstance(owner, For):
        return [owner.carried[i]]
    if isinstance(owner, (If, Loop)):
        return [end.values[i] for end in ends_of(owner) if isinstance(end, (Yield, Break))]
    return None


def block_of(block: Block, kind: type[Op]) -> Block:
    """``block``, or that of the way of a branch in it, on which all ops of ``kind`` are: the other ones end early."""
    while True:
        (first, *others) = (op for op in block.ops if any(isinstance(o, kind) for o in op.walk()))
        ways = [r for r in first.regions if any(isinstance(o, kind) for o in r.walk())]
        if others or not isinstance(first, If) or len(ways) > 1:
            return block
        block = ways[0]


def ends_of(op: Op) -> Iterator[PassingOp]:
    """The terminators that hand values to ``op``, in program order."""
    return _ends(op, (Continue, Break) if isinstance(op, LoopOp) else (Yield,))


def _ends(op: Op, kinds: tuple[type[PassingOp], ...]) -> Iterator[PassingOp]:
    for block in op.regions:
        if Yield not in kinds:
            for nested in block.ops:
                if nested.regions and not isinstance(nested, LoopOp):
                    yield from _ends(nested, kinds)
        if block.ops and isinstance(block.ops[-1], kinds):
            yield block.ops[-1]
