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
        self.target: dict[Op, Op] = {}  # the inverse: terminator -> region op
        self.parent: dict[Block, Op] = {}
        self.chain: dict[Op, Op | None] = {}
        self._index(function.body, [])
        self.pending: list[Value] = []
        for op in function.walk():
            if self._must_stay(op):
                self._keep(op)
        while self.pending:
            self._need(self.pending.pop())

    def _index(self, block: Block, enclosing: list[Op]) -> None:
        for op in block.ops:
            self.chain[op] = enclosing[-1] if enclosing else None
            if isinstance(op, PassingOp) and enclosing:
                target = enclosing[-1]
                if not isinstance(op, Yield):
                    target = next(o for o in reversed(enclosing) if isinstance(o, LoopOp))
                self.exits.setdefault(target, []).append(op)
                self.target[op] = target
            for region in op.regions:
                self.parent[region] = op
                self._index(region, [*enclosing, op])

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
            node = self.chain[node]

    def _keep_jumps(self, op: Op) -> None:
        """An ``if`` that leaves a loop early decides about what follows it, so it stays with its loop."""
        for nested in op.walk():
            if isinstance(nested, (Continue, Break)):
                branch = self.chain[nested]
                while isinstance(branch, If):
                    self.ops.add(branch)
                    self.pending.append(branch.condition)
                    branch = self.chain[branch]

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
        parent = self.parent.get(owner)
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
