"""Reachability: the values or ops that others follow from, directly and indirectly (slices of a function), and which of
them are computed alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from tilewright.ir.core import Value
from tilewright.ir.effects import is_pure

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


def are_alike(x: Value | None, y: Value | None, same: Mapping[Value, Value] = MappingProxyType({})) -> bool:
    """Whether ``x`` and ``y`` are one, or what pure ops of one kind compute of such; ``same`` has for a value in ``x``
    the one in ``y`` that is taken for it."""
    if x is None or y is None:
        return x is y
    if x is y or same.get(x) is y:
        return True
    p, q = x.op, y.op
    if p is None or q is None or type(p) is not type(q) or not is_pure(p) or p.regions:
        return False
    # As text, which tells 0.0 and -0.0 apart.
    equal = x.type == y.type and x.index == y.index and repr(p.attributes) == repr(q.attributes)
    return equal and p.segments == q.segments and all(are_alike(a, b, same) for a, b in zip(p.operands, q.operands))
