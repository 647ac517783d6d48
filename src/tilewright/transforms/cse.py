"""Common subexpression elimination."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any, ClassVar

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import is_pure
from tilewright.transforms.base import InPlacePass


class CommonSubexpressions(InPlacePass):
    """Replaces a pure op by an equal one that dominates it."""

    name: ClassVar[str] = "cse"
    preserves = frozenset({IntegerRanges})

    def change(self, function: Function) -> bool:
        return _merge(function.body, {})


def _merge(block: Block, known: dict[Hashable, Op]) -> bool:
    """Erase the ops in ``block`` that equal others before them, or those ``known`` around; whether there are any."""
    changed, added, repeated = False, [], []
    for op in block.ops:
        for region in op.regions:
            changed |= _merge(region, known)
        if op.regions or not is_pure(op):
            continue
        key = op_key(op)
        equal = known.setdefault(key, op)
        if equal is op:
            added.append(key)
        else:
            for old, new in zip(op.results, equal.results):
                old.replace_all_uses_with(new)
            repeated.append(op)
    for key in added:
        del known[key]
    block.erase(repeated)
    return changed or bool(repeated)


def op_key(op: Op) -> Hashable:
    """Equal for ops of one kind with the same operands and attributes."""
    values = op.attributes.values()
    plain = _has_plain_attributes(type(op))  # type: ignore[arg-type]
    return (type(op), tuple(op.operands), op.segments, tuple(values if plain else map(_key, values)))


@functools.cache
def _has_plain_attributes(kind: type[Op]) -> bool:
    """Whether attributes of ``kind`` are the same where they are equal: none may be numbers of several types."""
    types = [a.types for a in kind.spec.attributes]
    return all(t and (t in ((int,), (bool,)) or not any(issubclass(x, (int, float, tuple)) for x in t)) for t in types)


def _key(value: Any) -> Hashable:
    """Tells apart numbers that compare equal: True and 1, 1 and 1.0, 0.0 and -0.0."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    return (type(value), value)
