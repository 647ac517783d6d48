"""Which values and ops are live: something with an effect depends on them."""

from __future__ import annotations

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import effect_of
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import (
    CONTROL_FLOW,
    Break,
    Continue,
    For,
    If,
    Loop,
    deciding_values,
    incoming,
)
from tilewright.ir.ops.linear import CombiningOp


class Liveness:
    """The values that something with an effect depends on, and the ops that must stay."""

    def __init__(self, function: Function) -> None:
        self.values: set[Value] = set()
        self.ops: set[Op] = set()
        self.pending: list[Value] = []
        for op in function.walk():
            if self._must_stay(op):
                self._keep(op)
        while self.pending:
            self._need(self.pending.pop())

    @staticmethod
    def _must_stay(op: Op) -> bool:
        if isinstance(op, Loop):  # it may not end
            return True
        return bool(effect_of(op) & (Effect.WRITE | Effect.OUTPUT)) and not op.spec.terminator

    def _keep(self, op: Op) -> None:
        """``op`` stays, with the ops around it and what decides whether and how often it runs."""
        node: Op | None = op
        while node is not None and node not in self.ops:
            self.ops.add(node)
            self.pending.extend(deciding_values(node) if isinstance(node, CONTROL_FLOW) else node.operands)
            if node.regions:
                self._keep_jumps(node)
            node = node.parent

    def _keep_jumps(self, op: Op) -> None:
        """An ``if`` that leaves a loop early decides about what follows it, so it stays with its loop."""
        for nested in op.walk():
            if isinstance(nested, (Continue, Break)):
                branch = nested.parent
                while isinstance(branch, If):
                    self.ops.add(branch)
                    self.pending.append(branch.condition)
                    branch = branch.parent

    def _need(self, value: Value) -> None:
        if value in self.values:
            return
        self.values.add(value)
        owner = value.owner
        if isinstance(owner, Op):
            self._keep(owner)
        if isinstance(owner, CombiningOp):
            self.pending.extend(owner.body.terminator.operands)
        self.pending.extend(incoming(value) or ())
        if isinstance(owner, Block) and isinstance(owner.parent, For) and value.index > 0:
            self.values.add(owner.parent.results[value.index - 1])  # that stays, too
