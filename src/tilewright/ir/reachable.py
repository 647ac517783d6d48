"""Reachability: the values or ops that others follow from, directly and indirectly (slices of a function)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tilewright.ir.core import Value

_Node = TypeVar("_Node")


def reachable(roots: Iterable[_Node], successors: Callable[[_Node], Iterable[_Node]]) -> Iterator[_Node]:
    """``roots`` and what ``successors`` leads to from them, each once, in the order in which they are found.

    A backward slice follows operands, a forward slice the results of users. Nothing is followed before it is asked for.
    """
    found = dict.fromkeys(roots)
    pending = list(found)
    yield from found
    while pending:
        new = dict.fromkeys(node for node in successors(pending.pop()) if node not in found)
        found.update(new)
        pending += new
        yield from new


def operands_within(value: Value) -> list[Value]:
    """The operands of the op that makes ``value``, and of the ops in its regions."""
    return [] if value.op is None else [v for op in value.op.walk() for v in op.operands]
