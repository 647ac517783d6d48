"""Loop-invariant code motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.rewrite import clone_function


@dataclass(frozen=True)
class LoopInvariantCodeMotion:
    """Moves pure ops out of loops when their operands come from outside.

    Ops do not trap, so running one that the loop would have skipped is harmless.
    """

    name: ClassVar[str] = "licm"

    def run(self, function: Function) -> Function:
        copied = clone_function(function)
        _hoist(copied.body)
        return copied


def _hoist(block: Block) -> None:
    """Move what can leave the loops in ``block``, inner loops first so that ops can travel several levels."""
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _hoist(region)
        if isinstance(op, LoopOp):
            ops.extend(_take_invariant(op))
        ops.append(op)
    block.ops = ops


def _take_invariant(loop: LoopOp) -> list[Op]:
    body = loop.body
    inside: set[Value] = set(body.args)
    moved: list[Op] = []
    kept: list[Op] = []
    for op in body.ops:
        if is_pure(op) and not _reads(op, inside):
            moved.append(op)
        else:
            kept.append(op)
            inside.update(op.results)
    body.ops = kept
    return moved


def _reads(op: Op, values: set[Value]) -> bool:
    return any(v in values for nested in op.walk() for v in nested.operands)
