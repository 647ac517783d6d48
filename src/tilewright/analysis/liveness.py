"""Which values and ops are live: something with an effect depends on them."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import control
from tilewright.ir.ops.linear import CombiningOp

_NONE, _STAYS = Effect.NONE, Effect.WRITE | Effect.OUTPUT


class Liveness:
    """The values that something with an effect depends on, and the ops that must stay."""

    def __init__(self, function: Function) -> None:
        self.values: set[Value] = set()
        self.ops: set[Op] = set()
        self.pending: list[Value] = []
        everything = list(function.walk())
        self._jumps = _jumps_by_op(everything)
        for op in everything:
            if self._must_stay(op):
                self._keep(op)
        while self.pending:
            self._need(self.pending.pop())

    @staticmethod
    def _must_stay(op: Op) -> bool:
        """For its own sake: those around what must stay do so, too."""
        if isinstance(op, control.Loop):  # it may not end
            return True
        effect = op.spec.effect
        if effect is _NONE or op.spec.terminator:
            return False
        return bool(effect & _STAYS) or is_ordered(op)

    def _keep(self, op: Op) -> None:
        """``op`` stays, with the ops around it and what decides whether and how often it runs."""
        node: Op | None = op
        while node is not None and node not in self.ops:
            self.ops.add(node)
            self.pending.extend(
                control.deciding_values(node) if isinstance(node, control.CONTROL_FLOW) else node.operands
            )
            for jump in self._jumps.get(node, ()):
                self._keep_jump(jump)
            node = node.parent

    def _keep_jump(self, jump: Op) -> None:
        """An ``if`` that leaves a loop early decides about what follows it, so it stays with its loop."""
        branch = jump.parent
        while isinstance(branch, control.If):
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
            if not owner.regions:
                return
            if not isinstance(owner, control.CONTROL_FLOW):  # but a combiner, which stays as it is
                self.pending.extend(owner.captured())
        if isinstance(owner, CombiningOp):
            self.pending.extend(owner.body.terminator.operands)
        self.pending.extend(control.incoming(value) or ())
        if isinstance(owner, Block) and isinstance(owner.parent, control.For) and value.index > 0:
            self.values.add(owner.parent.results[value.index - 1])  # that stays, too


def _jumps_by_op(ops: Iterable[Op]) -> dict[Op, list[Op]]:
    """For each op the jumps that are nested in it."""
    found: dict[Op, list[Op]] = {}
    for jump in ops:
        if isinstance(jump, (control.Continue, control.Break)):
            around = jump.parent
            while around is not None:
                found.setdefault(around, []).append(jump)
                around = around.parent
    return found
