"""How the elements of integer, pointer and bool tiles run along each axis: contiguous, constant, and how aligned.

It decides how wide accesses to memory can be, and along which axis neighbouring threads should go.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, And, Bitcast, Cast, Cmp, Max, Min, Mul, Or, Sub
from tilewright.ir.ops.control import For, If, LoopOp, ends_of
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat
from tilewright.ir.ops.memory import AssumeBlocked, AssumeBounded, AssumeDivisible
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Permute, PtrOffset, Reshape, constant_of
from tilewright.ir.types import PointerType, TileType

MOST = 1 << 30  # divides zero


@dataclass(frozen=True)
class Runs:
    """What is known of a tile. All numbers are powers of two.

    Along axis k, aligned runs of ``contiguity[k]`` elements grow by one (element of the pointee, for pointers), and
    the first of each is a multiple of ``alignment[k]`` (bytes, for pointers); aligned runs of ``constancy[k]``
    elements are equal. Every element is a multiple of ``divisor``.
    """

    contiguity: tuple[int, ...]
    alignment: tuple[int, ...]
    constancy: tuple[int, ...]
    divisor: int = 1
    unit: int = 1  # bytes of the pointee

    def aligned(self, axis: int, run: int) -> int:
        """What divides each element along ``axis`` whose coordinate is a multiple of ``run``."""
        if run >= self.contiguity[axis]:
            return max(self.alignment[axis], self.divisor)
        return max(min(self.alignment[axis], run * self.unit), self.divisor)

    def meet(self, other: Runs) -> Runs:
        """What holds of both."""
        contiguity = tuple(map(min, self.contiguity, other.contiguity))
        alignment = tuple(min(self.aligned(k, c), other.aligned(k, c)) for k, c in enumerate(contiguity))
        divisor = min(self.divisor, other.divisor)
        return Runs(contiguity, alignment, tuple(map(min, self.constancy, other.constancy)), divisor, self.unit)


def power_of_two(n: int) -> int:
    """The largest power of two that divides ``n``."""
    return min(n & -n, MOST) if n else MOST


def _unknown(t: TileType, divisor: int = 1, constancy: tuple[int, ...] | None = None) -> Runs:
    ones = (1,) * t.rank
    return Runs(ones, (divisor,) * t.rank, constancy or ones, divisor, _unit(t))


def _unit(t: TileType) -> int:
    pointee = t.dtype.pointee if isinstance(t.dtype, PointerType) else None
    return pointee.bytes if pointee is not None else 1


class Contiguity:
    """The ``Runs`` of every tile and scalar of ``function``."""

    def __init__(self, function: Function) -> None:
        self._runs: dict[Value, Runs] = {}
        for arg in function.body.args:
            self._forget(arg)
        self._visit(function.body)

    def runs(self, value: Value) -> Runs:
        """What is known of ``value``, a tile or a scalar."""
        return self._runs[value]

    def _forget(self, value: Value) -> None:
        if isinstance(value.type, TileType):
            self._runs[value] = _unknown(value.type)

    def _visit(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, LoopOp):
                self._loop(op)
            else:
                for region in op.regions:
                    for arg in region.args:
                        self._forget(arg)
                    self._visit(region)
            rule = _RULES.get(type(op))
            for value in op.results:
                if isinstance(op, For):
                    continue
                if isinstance(op, If):
                    self._branches(op, value)
                elif rule is not None:
                    self._runs[value] = rule(self, op)
                else:
                    self._default(op, value)

    def _default(self, op: Op, value: Value) -> None:
        if not isinstance(value.type, TileType):
            return
        constancy = None
        if op.spec.elementwise:
            constancy = tuple(map(min, *(self._runs[v].constancy for v in op.operands), value.type.shape))
        self._runs[value] = _unknown(value.type, constancy=constancy)

    def _loop(self, op: LoopOp) -> None:
        if isinstance(op, For):
            divisor = min(self._runs[op.lower].divisor, self._runs[op.step].divisor)
            self._runs[op.body.args[0]] = _unknown(op.body.args[0].tile, divisor)
        for arg, init in zip(op.carried, op.inits):
            if isinstance(arg.type, TileType):
                self._runs[arg] = self._runs[init] if isinstance(op, For) else _unknown(arg.type)
        while True:
            self._visit(op.body)
            changed = False
            nexts = op.next_values if isinstance(op, For) else []
            for arg, following in zip(op.carried, nexts):
                if isinstance(arg.type, TileType):
                    met = self._runs[arg].meet(self._runs[following])
                    changed = changed or met != self._runs[arg]
                    self._runs[arg] = met
            if not changed:
                break
        if isinstance(op, For):
            for result, arg in zip(op.results, op.carried):
                if isinstance(arg.type, TileType):
                    self._runs[result] = self._runs[arg]
        else:
            for result in op.results:
                self._forget(result)

    def _branches(self, op: If, value: Value) -> None:
        if not isinstance(value.type, TileType):
            return
        found = [self._runs[end.values[value.index]] for end in ends_of(op)]
        self._runs[value] = functools.reduce(Runs.meet, found) if found else _unknown(value.type)


def _constant(facts: Contiguity, op: Constant) -> Runs:
    return _unknown(op.type, power_of_two(int(op.value)) if isinstance(op.value, int) else 1, op.type.shape)


def _iota(facts: Contiguity, op: Iota) -> Runs:
    t = op.type
    if not t.rank:
        return _unknown(t, MOST)
    counting = [k for k, n in enumerate(t.shape) if n > 1]
    fastest = counting[-1] if counting else t.rank - 1
    length = t.shape[fastest]
    start = length if len(counting) > 1 else MOST

    def along(n: int) -> tuple[int, ...]:
        return tuple(n if k == fastest else 1 for k in range(t.rank))

    return Runs(along(length), along(start), along(1))


def _sum(facts: Contiguity, op: Add | Sub) -> Runs:
    a, b = facts.runs(op.lhs), facts.runs(op.rhs)
    return _added(op.result.tile, a, b, reversible=isinstance(op, Add))


def _added(t: TileType, a: Runs, b: Runs, *, reversible: bool = True) -> Runs:
    found = []
    for k in range(t.rank):
        run = min(a.contiguity[k], b.constancy[k])
        if reversible:
            run = max(run, min(b.contiguity[k], a.constancy[k]))
        found.append(run)
    alignment = tuple(min(a.aligned(k, c), b.aligned(k, c)) for k, c in enumerate(found))
    constancy = tuple(map(min, a.constancy, b.constancy))
    return Runs(tuple(found), alignment, constancy, min(a.divisor, b.divisor), a.unit)


def _clamped(facts: Contiguity, op: Max | Min) -> Runs:
    a, b = facts.runs(op.lhs), facts.runs(op.rhs)
    constancy = tuple(map(min, a.constancy, b.constancy))
    return _unknown(op.result.tile, min(a.divisor, b.divisor), constancy)


def _product(facts: Contiguity, op: Mul) -> Runs:
    a, b = facts.runs(op.lhs), facts.runs(op.rhs)
    for x, other in ((op.lhs, b), (op.rhs, a)):
        if isinstance(x.op, Constant) and x.op.value == 1:
            return other
    alignment = tuple(min(a.aligned(k, 1) * b.aligned(k, 1), MOST) for k in range(op.result.tile.rank))
    divisor = min(a.divisor * b.divisor, MOST)
    constancy = tuple(map(min, a.constancy, b.constancy))
    return Runs((1,) * op.result.tile.rank, alignment, constancy, divisor)


def _moved(t: TileType, pointer: Runs, offset: Runs) -> Runs:
    """Pointers of type ``t``, by ``offset`` elements away from ``pointer``."""
    scale = _unit(t)
    alignment = tuple(min(n * scale, MOST) for n in offset.alignment)
    divisor = min(offset.divisor * scale, MOST)
    return _added(t, replace(pointer, unit=scale), Runs(offset.contiguity, alignment, offset.constancy, divisor, scale))


def _bitcast(facts: Contiguity, op: Bitcast) -> Runs:
    """Pointers to words, each of the elements between two pointers that are as far from each other."""
    x, t, source = facts.runs(op.x), op.result.tile, op.x.op
    n = _unit(t) // x.unit
    if t.is_pointer and isinstance(source, PtrOffset) and n > 1 and (offset := quotient(facts, source.offset, n)):
        return _moved(t, facts.runs(source.ptr), offset)
    return _unknown(t, x.divisor if t.is_pointer else 1, x.constancy)


def quotient(facts: Contiguity, value: Value, n: int) -> Runs | None:
    """What is known of multiples of ``n``, divided by that; None where they may be none. An aligned run of them does
    not wrap around, as that of what is multiplied does not."""
    op, x = value.op, facts.runs(value)
    if isinstance(op, Mul) and n in (constant_of(v) for v in op.operands):
        return facts.runs(op.lhs if constant_of(op.rhs) == n else op.rhs)
    if isinstance(op, (Broadcast, Reshape, Cast)) and (inner := quotient(facts, op.x, n)) is not None:
        if isinstance(op, Cast):
            return inner if _widens(op) else None
        return _reshaped(inner, op) if isinstance(op, Reshape) else _spread(inner, op)
    if isinstance(op, Add):
        left, right = quotient(facts, op.lhs, n), quotient(facts, op.rhs, n)
        if left is not None and right is not None:
            return _added(value.tile, left, right)
    return _unknown(value.tile, x.divisor // n, x.constancy) if x.divisor % n == 0 else None


def _widens(op: Cast) -> bool:
    source, target = op.x.tile.element, op.dtype
    return source.is_integer and target.is_integer and target.bitwidth >= source.bitwidth


def _cast(facts: Contiguity, op: Cast) -> Runs:
    source, target, x = op.x.tile, op.dtype, facts.runs(op.x)
    if _widens(op):
        return x
    return _unknown(op.result.tile, x.divisor if source.element.is_integer and target.is_integer else 1, x.constancy)


def _reshaped(x: Runs, op: Reshape) -> Runs:
    before, after = op.x.tile.shape, op.shape
    t = op.result.tile
    if [n for n in before if n > 1] != [n for n in after if n > 1]:
        return _unknown(t, x.divisor, after if x.constancy == before else None)
    kept = iter([k for k, n in enumerate(before) if n > 1])
    sources = [next(kept) if n > 1 else None for n in after]
    return Runs(
        tuple(1 if k is None else x.contiguity[k] for k in sources),
        tuple(x.divisor if k is None else x.alignment[k] for k in sources),
        tuple(1 if k is None else x.constancy[k] for k in sources),
        x.divisor,
        x.unit,
    )


def _spread(x: Runs, op: Broadcast | BroadcastDistributed) -> Runs:
    before, after = op.x.tile.shape, op.result.tile.shape
    constancy = tuple(b if a == 1 else c for a, b, c in zip(before, after, x.constancy))
    return Runs(x.contiguity, x.alignment, constancy, x.divisor, x.unit)


def _permute(facts: Contiguity, op: Permute) -> Runs:
    x = facts.runs(op.x)
    columns = [tuple(row[a] for a in op.axes) for row in (x.contiguity, x.alignment, x.constancy)]
    return Runs(columns[0], columns[1], columns[2], x.divisor, x.unit)


def _divisible(facts: Contiguity, op: AssumeDivisible) -> Runs:
    x, n = facts.runs(op.x), power_of_two(op.divisor)
    if op.every is None:
        alignment = tuple(max(a, n) for a in x.alignment)
        return Runs(x.contiguity, alignment, x.constancy, max(x.divisor, n), x.unit)
    if op.along is None or x.contiguity[op.along] % op.every:
        return x
    alignment = tuple(max(a, n) if k == op.along else a for k, a in enumerate(x.alignment))
    return Runs(x.contiguity, alignment, x.constancy, x.divisor, x.unit)


def _blocked(facts: Contiguity, op: AssumeBlocked) -> Runs:
    x = facts.runs(op.x)
    constancy = tuple(max(c, power_of_two(n)) for c, n in zip(x.constancy, op.shape))
    return Runs(x.contiguity, x.alignment, constancy, x.divisor, x.unit)


def _compared(facts: Contiguity, op: Cmp) -> Runs:
    """A bound that is a multiple of a run is not inside of it. Even numbers are compared as their halves."""
    a, b = facts.runs(op.lhs), facts.runs(op.rhs)
    if a.divisor > 1 < b.divisor and max(a.contiguity, default=2) == 1 and not op.lhs.tile.is_pointer:
        a, b = quotient(facts, op.lhs, 2) or a, quotient(facts, op.rhs, 2) or b
    t = op.result.tile
    constancy = []
    for k in range(t.rank):
        run = min(a.constancy[k], b.constancy[k])
        # x < n and x >= n; n > x and n <= x
        for x, n, predicates in (
            (a, b, (CmpPredicate.LT, CmpPredicate.GE)),
            (b, a, (CmpPredicate.GT, CmpPredicate.LE)),
        ):
            if op.predicate in predicates and not op.lhs.tile.is_pointer:
                run = max(run, min(x.contiguity[k], x.alignment[k], n.constancy[k], n.aligned(k, 1)))
        constancy.append(run)
    return _unknown(t, constancy=tuple(constancy))


def _bitwise(facts: Contiguity, op: And | Or) -> Runs:
    a, b = facts.runs(op.lhs), facts.runs(op.rhs)
    return _unknown(op.result.tile, constancy=tuple(map(min, a.constancy, b.constancy)))


_RULES: dict[type[Op], Callable[[Contiguity, Any], Runs]] = {
    Constant: _constant,
    Iota: _iota,
    Add: _sum,
    Sub: _sum,
    Mul: _product,
    Max: _clamped,
    Min: _clamped,
    PtrOffset: lambda facts, op: _moved(op.result.tile, facts.runs(op.ptr), facts.runs(op.offset)),
    Splat: lambda facts, op: _unknown(op.type, facts.runs(op.x).divisor, op.type.shape),
    Cast: _cast,
    Bitcast: _bitcast,
    Reshape: lambda facts, op: _reshaped(facts.runs(op.x), op),
    **dict.fromkeys((Broadcast, BroadcastDistributed), lambda facts, op: _spread(facts.runs(op.x), op)),
    Permute: _permute,
    AssumeDivisible: _divisible,
    AssumeBounded: lambda facts, op: facts.runs(op.x),
    AssumeBlocked: _blocked,
    Cmp: _compared,
    And: _bitwise,
    Or: _bitwise,
}
