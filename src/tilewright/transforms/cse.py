"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.rewrite import Rewriter, ValueMap


@dataclass(frozen=True)
class CommonSubexpressions:
    """Replaces a pure op by an equal one that dominates it."""

    name: ClassVar[str] = "cse"

    def run(self, function: Function) -> Function:
        return _Cse().function(function)


class _Cse(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.scopes: list[dict[Hashable, list[Value]]] = []

    def block(self, block: Block, values: ValueMap) -> Block:
        self.scopes.append({})
        copied = super().block(block, values)
        self.scopes.pop()
        return copied

    def rewrite(self, op: Op, builder: Builder) -> list[Value] | None:
        if op.regions or not is_pure(op):
            return None
        key = op_key(op)
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        self.scopes[-1][key] = op.results
        return None


def op_key(op: Op) -> Hashable:
    """Equal for ops of one kind with the same operands and attributes."""
    return (op.name, tuple(map(id, op.operands)), op.segments, tuple(map(_key, op.attributes.values())))


def _key(value: Any) -> Hashable:
    """Tells apart numbers that compare equal: True and 1, 1 and 1.0, 0.0 and -0.0."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    return (type(value), value)
