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

    def is_one(pair: tuple[Value, Value]) -> bool:
        return pair[0] is pair[1] or same.get(pair[0]) is pair[1]

    def operands(pair: tuple[Value, Value]) -> Iterable[tuple[Value, Value]]:
        p, q = pair[0].op, pair[1].op
        return () if is_one(pair) or p is None or q is None else zip(p.operands, q.operands)

    return all(is_one(pair) or _are_of_one_kind(*pair) for pair in reachable([(x, y)], operands))


def _are_of_one_kind(x: Value, y: Value) -> bool:
    """Whether pure ops that are alike but for their operands make ``x`` and ``y``."""
    p, q = x.op, y.op
    if p is None or q is None or type(p) is not type(q) or not is_pure(p) or p.regions:
        return False
    # As text, which tells 0.0 and -0.0 apart.
    equal = x.type == y.type and x.index == y.index and repr(p.attributes) == repr(q.attributes)
    return equal and p.segments == q.segments and len(p.operands) == len(q.operands)
