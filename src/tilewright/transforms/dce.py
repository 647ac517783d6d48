"""Dead code elimination, including values that loops carry without anyone reading them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.liveness import Liveness
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.ops.control import (
    Continue,
    For,
    If,
    Loop,
    LoopOp,
    PassingOp,
)
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.rewrite import ValueMap, clone_op, open_block, with_body


@dataclass(frozen=True)
class DeadCodeElimination:
    """Removes ops whose results nobody needs. An unused weak load goes too; stores and output stay."""

    name: ClassVar[str] = "dce"

    def run(self, function: Function) -> Function:
        live = AnalysisManager(function).get(Liveness)
        return with_body(function, _Sweeper(live).block(function.body, {}))


class _Sweeper:
    """Rebuilds the live part of a function."""

    def __init__(self, live: Liveness) -> None:
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
                copied.append(self.terminator(op, values))
            elif op in self.live.ops:
                copied.append(self.op(op, values))
        return copied

    def kept(self, op: Op) -> list[bool]:
        """Which results of an ``if`` or ``loop``, or carried values of a ``for``, are live."""
        return [r in self.live.values for r in op.results]

    def kept_carried(self, op: LoopOp) -> list[bool]:
        return [a in self.live.values for a in op.carried]

    def terminator(self, op: Op, values: ValueMap) -> Op:
        target = op.target if isinstance(op, PassingOp) else None
        if not isinstance(target, (LoopOp, If)):  # of combiners and of the kernel
            return clone_op(op, values)
        keep = (
            self.kept_carried(target) if isinstance(op, Continue) and isinstance(target, LoopOp) else self.kept(target)
        )
        operands = [values.get(v, v) for v, k in zip(op.operands, keep) if k]
        return type(op)(operands, (len(operands),), {}, [], (), op.loc)

    def op(self, op: Op, values: ValueMap) -> Op:
        if isinstance(op, WarpSpecialize):
            return clone_op(op, values, clone_regions=self.block)
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
