"""Which values and ops are live: something with an effect depends on them."""

from __future__ import annotations

from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import effect_of
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import (
    CONTROL_FLOW,
    Break,
    Continue,
    For,
    If,
    Loop,
    LoopOp,
    PassingOp,
    Yield,
    deciding_values,
)
from tilewright.ir.ops.linear import CombiningOp


class Liveness:
    """The values that something with an effect depends on, and the ops that must stay."""

    def __init__(self, function: Function) -> None:
        self.values: set[Value] = set()
        self.ops: set[Op] = set()
        self.exits: dict[Op, list[PassingOp]] = {}  # region op -> terminators that pass values out of it or around it
        for op in function.walk():
            if isinstance(op, PassingOp) and (target := op.target) is not None:
                self.exits.setdefault(target, []).append(op)
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
            if isinstance(owner, For):
                self._carried(owner, value.index)
            elif isinstance(owner, (If, Loop)):
                wanted = Yield if isinstance(owner, If) else Break
                for exit_op in self.exits.get(owner, []):
                    if isinstance(exit_op, wanted):
                        self.pending.append(exit_op.values[value.index])
            elif isinstance(owner, CombiningOp):
                self.pending.extend(v for e in self.exits[owner] for v in e.operands)
            return
        parent = owner.parent
        if isinstance(parent, For) and value.index > 0:
            self._carried(parent, value.index - 1)
        elif isinstance(parent, Loop):
            self._carried(parent, value.index)

    def _carried(self, loop: LoopOp, i: int) -> None:
        """Carried value ``i`` of ``loop`` is read: so are its initial value and every next one."""
        self.pending.append(loop.inits[i])
        if isinstance(loop, For):
            self.values.add(loop.results[i])
        self.pending.append(loop.carried[i])
        for exit_op in self.exits.get(loop, []):
            if isinstance(exit_op, Continue):
                self.pending.append(exit_op.values[i])
