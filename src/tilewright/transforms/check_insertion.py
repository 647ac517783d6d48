"""Turns what a program promises, and what it must not do, into asserts: the checked mode of compiled backends."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from tilewright.analysis.alias import AliasAnalysis, MemoryObject
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Param, Value
from tilewright.ir.dtypes import bool_, int32, int64, uint64
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import Add, And, Cast, Cmp, Div, Mul, Not, Or, Rem, Shl, Shr, Sub
from tilewright.ir.ops.linear import CombiningOp
from tilewright.ir.ops.shape import Broadcast, Extract, Insert, Iota, PtrToInt, Reshape, constant_of
from tilewright.ir.rewrite import Rewriter, clone_function, clone_op
from tilewright.ir.types import TileType
from tilewright.records import dataclass

# The roles of parameters that the runtime fills in: what the kernel is told about them holds.
_DESCRIBED = ("base", "shape", "stride", "table", "length", "low", "high")


@dataclass(frozen=True)
class CheckInsertion:
    """Adds an assert before each op that would be undefined for some operands.

    Accesses that promise to stay in bounds (the bounds are those of the array, not of its allocation), integer
    division, shifts, subtiles and assumptions are checked. The block stops before the op, so that no array is touched.
    The arguments ``pointers`` come without extents: for each, in order, the function gets two more parameters, of the
    roles ``low`` and ``high``: where the array begins and ends, in bytes from the pointer.
    """

    pointers: tuple[str, ...] = ()

    name: ClassVar[str] = "insert-checks"

    def run(self, function: Function) -> Function:
        extended = clone_function(function)
        limits = {}
        for argument in self.pointers:
            limits[argument] = tuple(extended.body.add_arg(TileType(int64), f"{argument}_{r}") for r in ("low", "high"))
            extended.params += [Param(argument, "low"), Param(argument, "high")]
        return _Checker(extended, limits).function(extended)


@dataclass(frozen=True)
class NullCheckInsertion:
    """Adds an assert before each access through one of the arguments ``null``, which the launches that the function is
    compiled for give no array: its block stops there with an error, where the process would end. Where they are not
    known, each launch tells which pointers are null."""

    null: frozenset[str] | None = None

    name: ClassVar[str] = "insert-null-checks"

    def run(self, function: Function) -> Function:
        return _NullChecker(function, self.null).function(function)


class _Checker(Rewriter):
    def __init__(self, function: Function, limits: dict[str, tuple[Value, ...]]) -> None:
        super().__init__()
        self.limits = limits
        self.bases = {p.argument: a for a, p in zip(function.body.args, function.params) if p.role == "base"}
        self.described = {a for a, p in zip(function.body.args, function.params) if p.role in _DESCRIBED}
        self._alias = AnalysisManager(function).get(AliasAnalysis)
        self._names: dict[MemoryObject, str] = {a: p.argument for a, p in zip(function.body.args, function.params)}

    def insert(self, op: Op, builder: Builder) -> None:
        check = _CHECKS.get(type(op))
        if check is not None:
            builder.loc = op.loc
            check(self, op, builder)
        if isinstance(op, memory.Assume):
            condition, *values = map(self.value, (op.condition, *op.values))
            builder.emit_op(memory.Assert, condition, values, message=op.message)
        elif isinstance(op, CombiningOp):  # combiners hold elementwise ops only
            builder.insert(clone_op(op, self.values))
        else:
            super().insert(op, builder)

    def pointer(self, address: Value) -> str | None:
        """The argument without extents that ``address`` surely points into."""
        name = self._argument(address)
        return name if name in self.limits else None

    def array(self, address: Value) -> str:
        """The argument that ``address`` points into, in words."""
        name = self._argument(address)
        return "the array" if name is None else f"'{name}'"

    def _argument(self, address: Value) -> str | None:
        """The only argument that ``address`` comes from."""
        names = {self._names.get(origin) for origin in self._alias.origins(address)}
        return names.pop() if len(names) == 1 else None

    def extent(self, partition: Value, axis: int, b: Builder) -> Value:
        """The number of elements along ``axis`` of the partitioned array, as int64."""
        view = memory.array_view(partition)
        assert view is not None
        found = view.extent(axis)
        return b.constant(found, int64) if isinstance(found, int) else b.emit(Cast, self.value(found), dtype=int64)


class _NullChecker(_Checker):
    def __init__(self, function: Function, null: frozenset[str] | None) -> None:
        super().__init__(function, {})
        self._null = self.bases.keys() if null is None else null
        self._known = null is not None

    def insert(self, op: Op, builder: Builder) -> None:
        builder.loc = op.loc
        address = (
            op.view
            if isinstance(op, (memory.LoadView, memory.StoreView))
            else op.ptrs
            if isinstance(op, _BY_POINTERS)
            else None
        )
        name = None if address is None else self._argument(address)
        if name is not None and name in self._null:
            nothing = self._is_masked(op, builder) if isinstance(op, _BY_POINTERS) else self._lies_outside(op, builder)
            if not self._known:
                address = builder.emit(PtrToInt, self.value(self.bases[name]), dtype=int64)
                given = builder.splat(_compare(builder, CmpPredicate.NE, address, 0), nothing.tile.shape)
                nothing = builder.emit(Or, given, nothing)
            message = f"{op.name.replace('_', ' ')} through '{name}', which is a null pointer"
            builder.emit_op(memory.Assert, nothing, [], message=message)
        Rewriter.insert(self, op, builder)

    def _is_masked(self, op: memory.AtomicCas | memory.AtomicRmw | memory.Load | memory.Store, b: Builder) -> Value:
        return b.constant(False, bool_) if op.mask is None else b.emit(Not, self.value(op.mask))

    def _lies_outside(self, op: Any, b: Builder) -> Value:
        """Whether no element of the accessed tile is one of the view."""
        outside, type_ = b.constant(False, bool_), op.view.partition
        for k, (axis, n) in enumerate(zip(type_.order, type_.tile_shape)):
            first = b.emit(Mul, b.emit(Cast, self.value(op.indices[k]), dtype=int64), b.constant(type_.steps[k], int64))
            above = b.emit(Cmp, first, self.extent(op.view, axis, b), predicate=CmpPredicate.GE)
            outside = b.emit(Or, outside, b.emit(Or, above, _compare(b, CmpPredicate.LE, first, -n)))
        return outside


def _require(b: Builder, condition: Value, values: Sequence[Value], message: str) -> None:
    if not constant_of(condition):
        b.emit_op(memory.Assert, condition, values, message=message)


def _compare(b: Builder, predicate: CmpPredicate, x: Value, number: int) -> Value:
    known = constant_of(x)
    if known is not None:
        return b.constant(getattr(operator, predicate.value)(known, number), bool_, x.tile.shape)
    return b.emit(Cmp, x, b.constant(number, x.tile.element, x.tile.shape), predicate=predicate)


def _both(b: Builder, x: Value, y: Value) -> Value:
    return y if constant_of(x) else x if constant_of(y) else b.emit(And, x, y)


def _between(b: Builder, x: Value, low: int, high: int) -> Value:
    """low <= x <= high; a bound that the dtype implies is left out."""
    dtype, yes = x.tile.element, b.constant(True, bool_, x.tile.shape)
    above = yes if low <= dtype.min else _compare(b, CmpPredicate.GE, x, low)
    return _both(b, above, yes if high >= dtype.max else _compare(b, CmpPredicate.LE, x, high))


def _source(value: Value) -> Value:
    """The smallest tile with the elements of ``value``."""
    while isinstance(op := value.op, (Broadcast, Reshape)):
        value = op.x
    return value


def _division(c: _Checker, op: Div | Rem, b: Builder) -> None:
    divisor = _source(c.value(op.rhs))
    if divisor.tile.element.is_integer:
        _require(b, _compare(b, CmpPredicate.NE, divisor, 0), [divisor], "the divisor is {}; it must not be 0")


def _shift(c: _Checker, op: Shl | Shr, b: Builder) -> None:
    count, bits = _source(c.value(op.rhs)), op.result.tile.element.bitwidth
    message = f"the shift count is {{}}; valid are 0 to {bits - 1}"
    _require(b, _between(b, count, 0, bits - 1), [count], message)


def _subtile(c: _Checker, op: Extract | Insert, b: Builder) -> None:
    part = op.shape if isinstance(op, Extract) else op.value.tile.shape
    for axis, (n, m, index) in enumerate(zip(op.x.tile.shape, part, op.indices)):
        found = c.value(index)
        message = f"index {{}} of the subtile along axis {axis}; valid are 0 to {n // m - 1}"
        _require(b, _between(b, found, 0, n // m - 1), [found], message)


def _view(c: _Checker, op: memory.LoadView | memory.StoreView, b: Builder) -> None:
    """Along the axes on which an access promises to be inside of its array."""
    type_ = op.view.partition
    for k, promised in enumerate(op.in_bounds):
        if not promised:
            continue
        axis, n = type_.order[k], type_.tile_shape[k]
        index = b.emit(Cast, c.value(op.indices[k]), dtype=int64)
        first = b.emit(Mul, index, b.constant(type_.steps[k], int64))
        last = b.emit(Add, first, b.constant(n - 1, int64))
        end = b.emit(Sub, c.extent(op.view, axis, b), b.constant(1, int64))
        inside = b.emit(And, _compare(b, CmpPredicate.GE, first, 0), b.emit(Cmp, last, end, predicate=CmpPredicate.LE))
        verb = "load" if isinstance(op, memory.LoadView) else "store"
        message = (
            f"{verb} of the elements {{}} to {{}} along axis {axis} of {c.array(op.view)}, which has the elements 0 "
            "to {}; the access promises to stay inside"
        )
        _require(b, inside, [first, last, end], message)


def _pointer(c: _Checker, op: memory.AtomicCas | memory.AtomicRmw | memory.Load | memory.Store, b: Builder) -> None:
    """An access through pointers to an argument without extents: every element lies between its limits."""
    name = c.pointer(op.ptrs)
    if name is None:
        return
    ptrs, mask = c.value(op.ptrs), op.mask
    shape, size = ptrs.tile.shape, b.constant(ptrs.tile.pointee.bytes, int64)
    low, high = (b.emit(Div, c.value(v), size, rounding=RoundingMode.RM) for v in c.limits[name])
    last = b.emit(Sub, high, b.constant(1, int64))
    spread = partial(b.splat, shape=shape)
    base = spread(b.emit(PtrToInt, c.value(c.bases[name]), dtype=int64))
    distance = b.emit(Sub, b.emit(PtrToInt, ptrs, dtype=int64), base)
    element = b.emit(Div, distance, spread(size), rounding=RoundingMode.RM)
    above = b.emit(Cmp, element, spread(low), predicate=CmpPredicate.GE)
    inside = b.emit(And, above, b.emit(Cmp, element, spread(last), predicate=CmpPredicate.LE))
    if mask is not None:
        inside = b.emit(Or, inside, b.emit(Not, c.value(mask)))
    message = f"{op.name.replace('_', ' ')} of the element {{}} of '{name}', which has the elements {{}} to {{}}"
    _require(b, inside, [element, low, last], message)


def _divisible(c: _Checker, op: memory.AssumeDivisible, b: Builder) -> None:
    if op.x in c.described:
        return
    x, divisor = c.value(op.x), op.divisor
    if x.tile.is_pointer:
        x = b.emit(PtrToInt, x, dtype=uint64)
    rest = b.emit(Rem, x, b.constant(divisor, x.tile.element, x.tile.shape), rounding=RoundingMode.RZ)
    holds = _compare(b, CmpPredicate.EQ, rest, 0)
    every, along = op.every, op.along
    if every is not None and along is not None:
        n = x.tile.shape[along]
        others = b.constant(0, bool_, (n,)) if every == 1 else _others(b, n, every)
        line = tuple(n if axis == along else 1 for axis in range(x.tile.rank))
        spread = b.emit(Broadcast, b.emit(Reshape, others, shape=line), shape=x.tile.shape)
        holds = b.emit(Or, holds, spread)
    _require(b, holds, [x], f"{{}} is no multiple of {divisor}, as the program assumes")


def _others(b: Builder, n: int, every: int) -> Value:
    """Which of ``n`` positions are no multiples of ``every``."""
    position = b.emit(Iota, type=TileType(int32, (n,)))
    rest = b.emit(Rem, position, b.constant(every, int32, (n,)), rounding=RoundingMode.RZ)
    return _compare(b, CmpPredicate.NE, rest, 0)


def _bounded(c: _Checker, op: memory.AssumeBounded, b: Builder) -> None:
    x, dtype = c.value(op.x), op.x.tile.element
    low, high = op.lower, op.upper
    inside = _between(b, x, dtype.min if low is None else low, dtype.max if high is None else high)
    limits = f"at least {low}" if high is None else f"at most {high}" if low is None else f"from {low} to {high}"
    _require(b, inside, [x], f"{{}} is not {limits}, as the program assumes")


def _blocked(c: _Checker, op: memory.AssumeBlocked, b: Builder) -> None:
    """Each block of the tile is compared with its first element."""
    x, block = c.value(op.x), op.shape
    shape = x.tile.shape
    split = tuple(part for n, m in zip(shape, block) for part in (n // min(n, m), min(n, m)))
    firsts = tuple(1 if i % 2 else n for i, n in enumerate(split))
    zero = b.constant(0, int32)
    apart = b.emit(Reshape, x, shape=split)
    first = b.emit(Extract, apart, [zero] * len(split), shape=firsts)
    first = b.emit(Reshape, b.emit(Broadcast, first, shape=split), shape=shape)
    message = f"{{}} differs from {{}}, the first element of its block of {'x'.join(map(str, block))}"
    _require(b, b.emit(Cmp, x, first, predicate=CmpPredicate.EQ), [x, first], f"{message}, as the program assumes")


_BY_POINTERS = (memory.Load, memory.Store, memory.AtomicRmw, memory.AtomicCas)
_CHECKS: dict[type[Op], Callable[[_Checker, Any, Builder], None]] = {
    Div: _division,
    Rem: _division,
    Shl: _shift,
    Shr: _shift,
    Extract: _subtile,
    Insert: _subtile,
    **dict.fromkeys(_BY_POINTERS, _pointer),
    memory.LoadView: _view,
    memory.StoreView: _view,
    memory.AssumeDivisible: _divisible,
    memory.AssumeBounded: _bounded,
    memory.AssumeBlocked: _blocked,
}
