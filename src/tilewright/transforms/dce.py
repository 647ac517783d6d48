"""Dead code elimination, including values that loops carry without anyone reading them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
from tilewright.ir.rewrite import ValueMap, clone_op, open_block, with_body


@dataclass(frozen=True)
class DeadCodeElimination:
    """Removes ops whose results nobody needs. An unused weak load goes too; stores and output stay."""

    name: ClassVar[str] = "dce"

    def run(self, function: Function) -> Function:
        live = _Liveness(function)
        return with_body(function, _Sweeper(live).block(function.body, {}))


class _Liveness:
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


class _Sweeper:
    """Rebuilds the live part of a function."""

    def __init__(self, live: _Liveness) -> None:
        self.live = live

    def block(self, block: Block, values: ValueMap, kept_args: list[bool] | None = None) -> Block:
        copied = open_block(block, values)
        if kept_args is not None:
            copied.args = [a for a, keep in zip(copied.args, kept_args) if keep]
            for i, arg in enumerate(copied.args):
                arg.index = i
        return self.fill(block, copied, values)

    def fill(self, block: Block, copied: Block, values: ValueMap) -> Block:
        for op in block.ops:
            if op.spec.terminator:
                copied.ops.append(self.terminator(op, values))
            elif op in self.live.ops:
                copied.ops.append(self.op(op, values))
        return copied

    def kept(self, op: Op) -> list[bool]:
        """Which results of an ``if`` or ``loop``, or carried values of a ``for``, are live."""
        return [r in self.live.values for r in op.results]

    def kept_carried(self, op: LoopOp) -> list[bool]:
        return [a in self.live.values for a in op.carried]

    def terminator(self, op: Op, values: ValueMap) -> Op:
        target = self.live.target.get(op)
        if not isinstance(target, (LoopOp, If)):  # of combiners and of the kernel
            return clone_op(op, values)
        keep = (
            self.kept_carried(target) if isinstance(op, Continue) and isinstance(target, LoopOp) else self.kept(target)
        )
        operands = [values.get(v, v) for v, k in zip(op.operands, keep) if k]
        return type(op)(operands, (len(operands),), {}, [], (), op.loc)

    def op(self, op: Op, values: ValueMap) -> Op:
        if not isinstance(op, (For, Loop, If)):
            return clone_op(op, values)
        attributes = dict(op.attributes)
        keep = self.kept(op)
        segments: tuple[int, ...]
        if isinstance(op, If):
            operands, segments = [values.get(op.condition, op.condition)], (1,)
            regions = [self.block(r, values) for r in op.regions]
        else:
            carried = self.kept_carried(op)
            fixed = op.bounds if isinstance(op, For) else []
            inits = [v for v, k in zip(op.inits, carried) if k]
            operands = [values.get(v, v) for v in [*fixed, *inits]]
            segments = (1, 1, 1, len(inits)) if isinstance(op, For) else (len(inits),)
            kept_args = [True, *carried] if isinstance(op, For) else carried
            regions = [self.block(op.body, values, kept_args)]
        if "types" in attributes:
            attributes["types"] = tuple(r.type for r, k in zip(op.results, keep) if k)
        types = tuple(r.type for r, k in zip(op.results, keep) if k)
        copied = type(op)(operands, segments, attributes, regions, types, op.loc)
        live_results = [r for r, k in zip(op.results, keep) if k]
        values.update(zip(live_results, copied.results))
        return copied
