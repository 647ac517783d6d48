"""Accesses to elements that lie side by side in memory, in pairs: one of twice as many bytes for two."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from tilewright.analysis.gpu.contiguity import Contiguity
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import UNSIGNED_INTEGERS, DType, int64
from tilewright.ir.effects import SIDE_EFFECTS, has_effect, is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops.arith import Add, And, Bitcast, Cast, Cmp, Mul, Or, Shl, Shr
from tilewright.ir.ops.memory import Load, Store
from tilewright.ir.ops.shape import Broadcast, Constant, PtrOffset, PtrToInt, Reshape, constant_of
from tilewright.ir.rewrite import clone_op
from tilewright.ir.structured import emit_if
from tilewright.ir.types import PointerType
from tilewright.transforms.base import InPlacePass

_WORDS = {dtype.bytes: dtype for dtype in UNSIGNED_INTEGERS}
_FEWEST = 32  # elements, one for each lane
_Access = Load | Store


class PairAccesses(InPlacePass):
    """Loads, or stores, two tiles whose elements alternate in memory, such as real and imaginary parts, as one tile of
    words of two elements. A branch chooses that where only extents and strides say that both elements are in the array
    and begin on a multiple of the size of a word.

    Runs on addresses, and before layouts are assigned.
    """

    name: ClassVar[str] = "pair-accesses"

    def change(self, function: Function) -> bool:
        if len(function.ops_of((Load, Store))) < 2:
            return False
        facts = AnalysisManager(function).get(Contiguity)
        pairs = [pair for block in function.blocks() for pair in _pairs(block, facts)]
        for pair in pairs:
            pair.merge()
        return bool(pairs)


def _pairs(block: Block, facts: Contiguity) -> Iterator[_Pair]:
    """The pairs of ``block``, between whose ops nothing writes, and nothing reads what the first one stores."""
    before: list[_Access] = []
    for op in block.ops:
        if _is_apart(op, facts):
            first = next(
                (o for o in before if type(o) is type(op) and abs(difference(o.ptrs, op.ptrs) or 0) == 1), None
            )
            if first is not None and (pair := _Pair.of(first, op, facts)) is not None:
                yield pair
                before.remove(first)
            elif isinstance(op, Load):
                before = [*(o for o in before if isinstance(o, Load)), op]
            else:
                before = [op]
        elif has_effect(op, SIDE_EFFECTS):
            before = []
        elif not is_pure(op):
            before = [o for o in before if isinstance(o, Load)]


def _is_apart(op: Op, facts: Contiguity) -> TypeGuard[_Access]:
    """Whether ``op`` accesses elements of which none is known to lie beside another one."""
    if not isinstance(op, _Access) or not op.is_weak or op.ptrs.tile.size < _FEWEST:
        return False
    dtype = op.ptrs.tile.pointee
    whole = isinstance(dtype, DType) and dtype.bitwidth == 8 * dtype.bytes and 2 * dtype.bytes in _WORDS
    return whole and max(facts.runs(op.ptrs).contiguity) == 1


def difference(x: Value, y: Value) -> int | None:
    """y - x, in elements where both are pointers, if that is the same number everywhere; None if that is not known."""
    if x is y:
        return 0
    (x, a), (y, b) = _split(x), _split(y)
    if x is y:
        return b - a
    p, q = x.op, y.op
    if isinstance(p, Constant) and isinstance(q, Constant):
        return q.value - p.value + b - a if isinstance(p.value, int) and isinstance(q.value, int) else None
    if p is None or q is None or type(p) is not type(q) or p.attributes != q.attributes:
        return None
    if not isinstance(p, (Broadcast, Reshape, Cast, Add, PtrOffset)):
        return None
    found = [difference(*pair) for pair in zip(p.operands, q.operands)]
    return None if None in found else b - a + sum(n for n in found if n is not None)


def _split(x: Value) -> tuple[Value, int]:
    """``x`` without what is added to it, if that is a constant, and that."""
    op = x.op
    if isinstance(op, Add) and isinstance(n := constant_of(_filled(op.rhs)), int):
        return op.lhs, n
    if isinstance(op, PtrOffset) and isinstance(n := constant_of(_filled(op.offset)), int):
        return op.ptr, n
    return x, 0


def _filled(x: Value) -> Value:
    """The scalar that is in every element of ``x``; ``x`` where there is none."""
    source = x
    while isinstance(source.op, (Broadcast, Reshape)) and source.op.x.tile.size in (1, source.tile.size):
        source = source.op.x
    return source if not source.tile.rank or constant_of(source) is not None else x


def _odd(x: Value, n: int, facts: Contiguity) -> list[tuple[Value, int]] | None:
    """Scalars, each of which has to be a multiple of a number, so that ``x`` is one of ``n``; None if it may be no
    multiple all the same."""
    op, runs = x.op, facts.runs(x)
    if runs.divisor % n == 0:
        return []
    if not (scalar := _filled(x)).tile.rank:
        return [(scalar, n)]
    if isinstance(op, (Broadcast, Reshape, Cast)):
        return _odd(op.x, n, facts)
    if isinstance(op, PtrOffset):
        each = [_odd(op.ptr, n, facts), _odd(op.offset, n // op.ptr.tile.pointee.bytes, facts)]
    elif isinstance(op, Add):
        each = [_odd(v, n, facts) for v in op.operands]
    elif isinstance(op, Mul):
        return next((found for v in (op.rhs, op.lhs) if (found := _odd(v, n, facts)) is not None), None)
    else:
        return None
    return None if None in each else [found for some in each for found in some or []]


def _conjuncts(mask: Value | None) -> list[Value]:
    if mask is None:
        return []
    op = mask.op
    return [c for v in op.operands for c in _conjuncts(v)] if isinstance(op, And) else [mask]


def _same(x: Value, y: Value, facts: Contiguity) -> bool:
    """Whether the conditions ``x`` of the lower element and ``y`` of the other one are the same: they compare with an
    even number, and only the lower element is at an even position."""
    p, q = x.op, y.op
    if x is y or p is None or q is None or type(p) is not type(q) or p.attributes != q.attributes:
        return x is y
    if isinstance(p, (Broadcast, Reshape)) and isinstance(q, (Broadcast, Reshape)):
        return _same(p.x, q.x, facts)
    if not isinstance(p, Cmp) or not isinstance(q, Cmp) or p.predicate not in (CmpPredicate.LT, CmpPredicate.GE):
        return False
    even = facts.runs(p.lhs).divisor > 1 < facts.runs(p.rhs).divisor
    return even and difference(p.lhs, q.lhs) == 1 and difference(p.rhs, q.rhs) == 0


@dataclass(frozen=True)
class _Pair:
    """``low`` accesses elements before those of ``high``; both where all of ``mask`` and ``bools`` hold, and each of
    ``numbers`` is a multiple of the one beside it."""

    low: _Access
    high: _Access
    mask: Sequence[Value]
    bools: Sequence[Value]
    numbers: Sequence[tuple[Value, int]]

    @classmethod
    def of(cls, first: _Access, second: _Access, facts: Contiguity) -> _Pair | None:
        """None for ops that cannot be one."""
        low, high = (first, second) if difference(first.ptrs, second.ptrs) == 1 else (second, first)
        numbers = _odd(low.ptrs, 2 * low.ptrs.tile.pointee.bytes, facts)
        if numbers is None or low.ptrs.type != high.ptrs.type or second in _users_until(first, second):
            return None
        if isinstance(low, Load) and isinstance(high, Load) and (low.padding, high.padding) != (None, None):
            paddings = [None if op.padding is None else constant_of(op.padding) for op in (low, high)]
            if paddings[0] is None or paddings[0] != paddings[1]:
                return None
        lower, higher = _conjuncts(low.mask), _conjuncts(high.mask)
        mask = [x for x in lower if any(_same(x, y, facts) for y in higher)]
        own = [x for x in lower if x not in mask] + [y for y in higher if not any(_same(x, y, facts) for x in mask)]
        bools = [_filled(v) for v in own]
        return None if any(v.tile.rank for v in bools) else cls(low, high, mask, bools, list(dict.fromkeys(numbers)))

    def merge(self) -> None:
        """Put one access, or a branch with one, in the place of both."""
        block, low, high = self.low.block, self.low, self.high
        assert block is not None
        first, last = sorted((low, high), key=block.ops.index)
        block.splice(_users_until(first, last), before=block.ops[block.ops.index(last) + 1])
        b, dtype = Builder.before(last), low.ptrs.tile.pointee
        assert isinstance(dtype, DType)
        conditions = [*self.bools, *(_is_multiple(b, v, n) for v, n in self.numbers)]

        def together() -> list[Value]:
            word = _WORDS[2 * dtype.bytes]
            ptrs = b.emit(Bitcast, low.ptrs, dtype=PointerType(word))
            mask = functools.reduce(functools.partial(b.emit, And), self.mask) if self.mask else None
            if isinstance(low, Store) and isinstance(high, Store):
                b.emit_op(Store, ptrs, _joined(b, low.value, high.value), mask, latency=low.latency)
                return []
            assert isinstance(low, Load)
            padding = None if low.padding is None else _joined(b, low.padding, low.padding)
            return [b.emit(Load, ptrs, mask, padding, latency=low.latency)]

        def alone() -> list[Value]:
            made = [b.insert(clone_op(op, {})) for op in (low, high)]
            return [_joined(b, *(op.result for op in made))] if isinstance(low, Load) else []

        if conditions:
            found = emit_if(b, functools.reduce(functools.partial(b.emit, And), conditions), together, alone)
        else:
            found = together()
        if isinstance(low, Load):
            low.replace_by([_part(b, found[0], 0, dtype)])
            high.replace_by([_part(b, found[0], 1, dtype)])
        else:
            low.erase()
            high.erase()


def _users_until(first: Op, last: Op) -> list[Op]:
    """The ops up to ``last`` that depend on ``first``."""
    assert first.block is not None
    ops, found = first.block.ops, {first: None}
    for op in ops[ops.index(first) + 1 : ops.index(last) + 1]:
        if any(v.op in found for v in (*op.operands, *op.captured())):
            found[op] = None
    return list(found)[1:]


def _is_multiple(b: Builder, x: Value, n: int) -> Value:
    number = b.emit(PtrToInt, x, dtype=int64) if x.tile.is_pointer else x
    dtype = number.tile.element
    rest = b.emit(And, number, b.constant(n - 1, dtype))
    return b.emit(Cmp, rest, b.constant(0, dtype), predicate=CmpPredicate.EQ)


def _joined(b: Builder, low: Value, high: Value) -> Value:
    """Words of the bits of ``low`` and, above them, of ``high``."""
    size = low.tile.element.bytes
    x, y = (b.emit(Cast, b.emit(Bitcast, v, dtype=_WORDS[size]), dtype=_WORDS[2 * size]) for v in (low, high))
    return b.emit(Or, x, b.emit(Shl, y, b.constant(8 * size, _WORDS[2 * size], y.tile.shape)))


def _part(b: Builder, words: Value, i: int, dtype: DType) -> Value:
    size = dtype.bytes
    if i:
        words = b.emit(Shr, words, b.constant(8 * size, words.tile.element, words.tile.shape))
    return b.emit(Bitcast, b.emit(Cast, words, dtype=_WORDS[size]), dtype=dtype)
