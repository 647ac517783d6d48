"""Ranges of integers, and divisors of scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Add, And, Bitcast, Cast, Div, Max, Min, Mul, Rem, Sub
from tilewright.ir.ops.control import For
from tilewright.ir.ops.memory import AssumeBounded, AssumeDivisible, Bid, NumBlocks
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Permute, Reshape

Range = tuple[int, int]  # inclusive


class IntegerRanges:
    """What is known of the integers of ``function``, of all elements of a tile together: computed on demand, kept per
    value."""

    def __init__(self, function: Function) -> None:
        self.params = dict(zip(function.body.args, function.params))
        self._ranges: dict[Value, Range] = {}
        self._divisors: dict[Value, int] = {}

    def range(self, value: Value) -> Range:
        """Bounds that ``value`` cannot leave; those of its dtype when nothing better is known."""
        if value not in self._ranges:
            dtype = value.tile.element
            full = (dtype.min, dtype.max)
            self._ranges[value] = full  # a loop-carried value that depends on itself stays unknown
            self._ranges[value] = _fit(self._range(value), dtype)
        return self._ranges[value]

    def divisor(self, value: Value) -> int:
        """A power of two that divides ``value``: wrap-around keeps those, and tile extents are powers of two."""
        if value not in self._divisors:
            self._divisors[value] = 1
            self._divisors[value] = self._divisor(value)
        return self._divisors[value]

    def induction(self, value: Value) -> For | None:
        """The ``for`` whose induction variable ``value`` is."""
        loop = value.owner.parent if isinstance(value.owner, Block) else None
        return loop if isinstance(loop, For) and value.index == 0 else None

    def _range(self, value: Value) -> Range:
        dtype = value.tile.element
        op = value.op
        if op is None:
            loop = self.induction(value)
            if loop is not None:
                lower, upper = self.range(loop.lower)[0], self.range(loop.upper)[1]
                return (lower, max(upper - 1, lower))
            role = self.params[value].role if value in self.params else ""
            return (0, dtype.max) if role in ("shape", "length") else (dtype.min, dtype.max)
        rule = _RANGE_RULES.get(type(op))
        return rule(self, op) if rule is not None else (dtype.min, dtype.max)

    def _divisor(self, value: Value) -> int:
        op = value.op
        if op is None:
            loop = self.induction(value)
            return min(self.divisor(loop.lower), self.divisor(loop.step)) if loop is not None else 1
        rule = _DIVISOR_RULES.get(type(op))
        found = rule(self, op) if rule is not None else 1
        return found & -found


def _fit(found: Range, dtype: DType) -> Range:
    """``found``, or everything when the computation may have wrapped around."""
    low, high = found
    return found if dtype.min <= low and high <= dtype.max else (dtype.min, dtype.max)


def _corners(f: Callable[[int, int], int]) -> Callable[[IntegerRanges, Any], Range]:
    def rule(facts: IntegerRanges, op: Any) -> Range:
        values = [f(a, b) for a in facts.range(op.lhs) for b in facts.range(op.rhs)]
        return (min(values), max(values))

    return rule


def _div_range(facts: IntegerRanges, op: Div) -> Range:
    low, high = facts.range(op.rhs)
    if low <= 0:
        dtype = op.result.tile.element
        return (dtype.min, dtype.max)
    divide = _DIVISIONS[op.rounding]
    values = [divide(a, b) for a in facts.range(op.lhs) for b in (low, high)]
    return (min(values), max(values))


def _rem_range(facts: IntegerRanges, op: Rem) -> Range:
    low, high = facts.range(op.rhs)
    rounding = op.rounding
    floor = rounding is RoundingMode.RM or (rounding is RoundingMode.RZ and facts.range(op.lhs)[0] >= 0)
    dtype = op.result.tile.element
    return (0, high - 1) if low > 0 and floor else (dtype.min, dtype.max)


_DIVISIONS: dict[RoundingMode, Callable[[int, int], int]] = {
    RoundingMode.RZ: lambda a, b: abs(a) // b * (1 if a >= 0 else -1),
    RoundingMode.RM: lambda a, b: a // b,
    RoundingMode.RP: lambda a, b: -(-a // b),
}


def _cast_range(facts: IntegerRanges, op: Bitcast | Cast) -> Range:
    source, dtype = op.x.tile.element, op.result.tile.element
    return (dtype.min, dtype.max) if source.is_floating else facts.range(op.x)


def _cast_divisor(facts: IntegerRanges, op: Bitcast | Cast) -> int:
    source = op.x.tile
    return 1 if source.is_pointer or source.element.is_floating else facts.divisor(op.x)


def _masked_range(facts: IntegerRanges, op: And) -> Range:
    highest = [high for low, high in map(facts.range, op.operands) if low >= 0]
    dtype = op.result.tile.element
    return (0, min(highest)) if highest else (dtype.min, dtype.max)


def _bounded_range(facts: IntegerRanges, op: AssumeBounded) -> Range:
    low, high = facts.range(op.x)
    lower, upper = op.lower, op.upper
    return (low if lower is None else max(low, lower), high if upper is None else min(high, upper))


_RANGE_RULES: dict[type[Op], Callable[[IntegerRanges, Any], Range]] = {
    Constant: lambda facts, op: (int(op.value), int(op.value)),
    Bid: lambda facts, op: (0, (1 << 24) - 2),
    NumBlocks: lambda facts, op: (1, (1 << 24) - 1),
    Add: _corners(lambda a, b: a + b),
    Sub: lambda facts, op: (
        facts.range(op.lhs)[0] - facts.range(op.rhs)[1],
        facts.range(op.lhs)[1] - facts.range(op.rhs)[0],
    ),
    Mul: _corners(lambda a, b: a * b),
    Min: _corners(min),
    Max: _corners(max),
    Div: _div_range,
    Rem: _rem_range,
    And: _masked_range,
    Cast: _cast_range,
    Bitcast: _cast_range,  # what fits in both types is the same number
    AssumeBounded: _bounded_range,
    **dict.fromkeys((AssumeDivisible, Broadcast, Permute, Reshape), lambda facts, op: facts.range(op.x)),
    Iota: lambda facts, op: (0, op.result.tile.size - 1),
}

_DIVISOR_RULES: dict[type[Op], Callable[[IntegerRanges, Any], int]] = {
    Constant: lambda facts, op: abs(int(op.value)) or 1 << 30,  # zero: by everything
    Add: lambda facts, op: min(map(facts.divisor, op.operands)),
    Sub: lambda facts, op: min(map(facts.divisor, op.operands)),
    Mul: lambda facts, op: facts.divisor(op.lhs) * facts.divisor(op.rhs),
    Cast: _cast_divisor,
    Bitcast: _cast_divisor,
    AssumeBounded: lambda facts, op: facts.divisor(op.x),
    AssumeDivisible: lambda facts, op: (
        max(facts.divisor(op.x), op.divisor & -op.divisor) if op.every is None else facts.divisor(op.x)
    ),
}
