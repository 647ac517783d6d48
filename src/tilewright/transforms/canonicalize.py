"""Constant folding and local simplification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.ops.arith import (
    Add,
    And,
    Bitcast,
    Cast,
    Cmp,
    Div,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Rem,
    Select,
    Shl,
    Shr,
    Sub,
    Xor,
    flushes_to_zero,
    operand_dtype,
)
from tilewright.ir.ops.control import Break, For, If, Loop, Yield
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.ops.memory import Assert, Assume, AssumeDivisible
from tilewright.ir.ops.shape import Broadcast, Extract, Iota, Permute, PtrOffset, Reshape, constant_of
from tilewright.ir.rewrite import Rewriter, clone_op
from tilewright.ir.semantics import constant_array, evaluate
from tilewright.ir.types import TileType


@dataclass(frozen=True)
class Canonicalize:
    """Folds ops on constants, removes ops that change nothing and loops that end at once, inlines branches that are
    always taken, and makes reshapes of reductions of single elements."""

    name: ClassVar[str] = "canonicalize"

    def run(self, function: Function) -> Function:
        return _Canonicalizer().function(function)


class _Canonicalizer(Rewriter):
    def insert(self, op: Op, builder: Builder) -> None:
        if isinstance(op, If):
            condition = constant_of(self.value(op.condition))
            if condition is not None:
                self.inline(op, 0 if condition else 1, builder)
                return
        if isinstance(op, For) and self.never_runs(op):
            builder.loc = op.loc
            self.replace_all_uses(op, self.all(op.inits))
            return
        if isinstance(op, Loop) and (done := self.fold_single_exit_loop(op)) is not None:
            *before, end = done
            builder.block.splice(before)
            self.replace_all_uses(op, end.operands)
            end.erase()
            return
        if isinstance(op, (Assert, Assume)) and constant_of(self.value(op.condition)):
            return
        if isinstance(op, Reduce) and op.values[0].tile.shape[op.axis] == 1:
            builder.loc = op.loc
            shape = op.results[0].tile.shape
            self.replace_all_uses(op, [builder.emit(Reshape, v, shape=shape) for v in self.all(op.values)])
            return
        super().insert(op, builder)

    def inline(self, op: Op, branch: int, builder: Builder) -> None:
        """Put the ops of one branch in place of the ``if``."""
        *ops, end = op.regions[branch].ops
        for nested in ops:
            self.insert(nested, builder)
            if builder.block.ops and builder.block.ops[-1].spec.terminator:
                return
        if isinstance(end, Yield):
            self.replace_all_uses(op, self.all(end.values))
        else:
            builder.insert(clone_op(end, self.values))

    def never_runs(self, op: For) -> bool:
        lower, upper = map(constant_of, self.all((op.lower, op.upper)))
        return lower is not None and upper is not None and lower >= upper

    def fold_single_exit_loop(self, op: Loop) -> Sequence[Op] | None:
        """What a loop that ends in its first iteration does, with the break at the end; None of other loops."""
        trial = Block()
        if self._has_single_exit(op, trial):
            return trial.ops
        trial.clear()
        return None

    def _has_single_exit(self, op: Loop, block: Block) -> bool:
        """Whether the loop ends in its first iteration, whose ops are put into ``block``."""
        trial, builder = _Canonicalizer(), Builder(block, op.loc)
        trial.values = {**self.values, **dict(zip(op.body.args, self.all(op.inits)))}
        for nested in op.body.ops:
            if isinstance(nested, If):
                condition = trial.value(nested.condition)
                if constant_of(condition) is None:
                    return False
            elif nested.regions or not (isinstance(nested, Break) or is_pure(nested)):
                return False
            trial.insert(nested, builder)
            done = block.ops
            if done and done[-1].spec.terminator:
                return isinstance(done[-1], Break) and all(is_pure(o) for o in done[:-1])
        return False

    def rewrite(self, op: Op, builder: Builder) -> list[Value] | None:
        if op.regions or len(op.results) != 1:
            return None
        folded = fold_constants(op, builder)
        if folded is None:
            rule = _RULES.get(type(op))
            folded = rule(op, builder) if rule is not None else None
        if folded is None and op.spec.elementwise:
            folded = _scalarize_splats(op, builder)
        return None if folded is None else [folded]


def fold_constants(op: Op, builder: Builder) -> Value | None:
    """The constant that an elementwise op on constants gives."""
    if not op.spec.elementwise or not isinstance(op.result.type, TileType):
        return None
    dtype = op.result.type.dtype
    if not isinstance(dtype, DType) or dtype.short in _UNFOLDED or not op.operands:
        return None
    arrays = []
    for v in op.operands:
        number, source = constant_of(v), v.tile.dtype
        if number is None or not isinstance(source, DType) or source.short in _UNFOLDED:
            return None
        arrays.append(constant_array(number, source, ()))
    number = evaluate(op.name, operand_dtype(op), op.attributes, arrays)[()]
    if dtype.is_floating:
        return builder.constant(float(number), dtype, op.result.type.shape)
    return builder.constant(bool(number) if dtype.is_bool else int(number), dtype, op.result.type.shape)


def _scalarize_splats(op: Op, builder: Builder) -> Value | None:
    """An elementwise op on tiles whose elements are all the same: done once, and broadcast."""
    shape = op.result.tile.shape
    if op.result.tile.size == 1:
        return None
    singles = [_single(v) for v in op.operands]
    if None in singles or all(constant_of(v) is not None for v in op.operands):
        return None
    scalars = [v if v is not None and v.tile.rank == 0 else _scalar(v, builder) for v in singles]
    result = builder.emit(type(op), *scalars, **op.attributes)
    return builder.emit(Broadcast, builder.emit(Reshape, result, shape=(1,) * len(shape)), shape=shape)


def _single(value: Value) -> Value | None:
    """The tile of one element that ``value`` repeats, or the constant that it is."""
    if constant_of(value) is not None or value.tile.size == 1:
        return value
    op = value.op
    return op.x if isinstance(op, Broadcast) and op.x.tile.size == 1 else None


def _scalar(value: Value | None, builder: Builder) -> Value:
    assert value is not None
    number = constant_of(value)
    if number is not None:
        return builder.constant(number, value.tile.element, ())
    return builder.emit(Reshape, value, shape=())


# Constants of this format are kept as raw bits, which are not numbers.
_UNFOLDED = ("f8e5m3fnu",)


def _is(value: Value, number: float) -> bool:
    """Whether ``value`` is the constant ``number``, with its sign of zero."""
    found = constant_of(value)
    return found is not None and found == number and repr(float(found)) == repr(float(number))


def _integer(op: Op) -> bool:
    return not operand_dtype(op).is_floating


def _add(op: Add, builder: Builder) -> Value | None:
    lhs, rhs = op.lhs, op.rhs
    if flushes_to_zero(op):
        return None
    # x + -0.0 is x for every x in rounding to nearest; x + 0.0 is not, for x = -0.0.
    zero = 0 if _integer(op) else -0.0
    if not _integer(op) and op.rounding is not RoundingMode.RN:
        return None
    if _is(rhs, zero):
        return lhs
    return rhs if _is(lhs, zero) else _less(op, builder)


def _less(op: Add, builder: Builder) -> Value | None:
    """The addition ``op`` of a negative constant as the subtraction that people write; C++ compilers do the reverse."""
    lhs, rhs = op.lhs, op.rhs
    type, number = op.result.tile, constant_of(rhs)
    if not _integer(op) or number is None or not type.element.min < number < 0:
        return None
    positive = builder.constant(-number, type.dtype, type.shape)
    return builder.emit(Sub, lhs, positive, no_signed_wrap=op.no_signed_wrap)


def _sub(op: Sub, builder: Builder) -> Value | None:
    lhs, rhs = op.lhs, op.rhs
    if _integer(op):
        if lhs is rhs:
            return builder.constant(0, op.result.tile.element, op.result.tile.shape)
        return lhs if _is(rhs, 0) else None
    exact = op.rounding is RoundingMode.RN and not flushes_to_zero(op)
    return lhs if exact and _is(rhs, 0.0) else None


def _mul(op: Mul, builder: Builder) -> Value | None:
    lhs, rhs = op.lhs, op.rhs
    if flushes_to_zero(op):
        return None
    if _integer(op) and (_is(lhs, 0) or _is(rhs, 0)):
        return lhs if _is(lhs, 0) else rhs
    return lhs if _is(rhs, 1) else rhs if _is(lhs, 1) else None


def _div(op: Div, builder: Builder) -> Value | None:
    return op.lhs if _is(op.rhs, 1) and not flushes_to_zero(op) else None


def _rem(op: Rem, builder: Builder) -> Value | None:
    type = op.result.tile
    return builder.constant(0, type.dtype, type.shape) if _integer(op) and _is(op.rhs, 1) else None


def _same_operands(op: Max | Min, builder: Builder) -> Value | None:
    lhs, rhs = op.lhs, op.rhs
    return lhs if lhs is rhs and _integer(op) else None


def _unless_zero(op: PtrOffset | Shl | Shr, builder: Builder) -> Value | None:
    first, second = (op.ptr, op.offset) if isinstance(op, PtrOffset) else (op.lhs, op.rhs)
    return first if _is(second, 0) else None


def _shl(op: Shl, builder: Builder) -> Value | None:
    """A shift by a constant as the multiplication that people write; C++ compilers do the reverse."""
    lhs, rhs = op.lhs, op.rhs
    type, count = op.result.tile, constant_of(rhs)
    if count is None or count <= 0 or 1 << min(count, 64) > type.element.max:
        return _unless_zero(op, builder)
    return builder.emit(Mul, lhs, builder.constant(1 << count, type.dtype, type.shape))


def _and(op: And, builder: Builder) -> Value | None:
    lhs, rhs = op.lhs, op.rhs
    if lhs is rhs:
        return lhs
    for x, y in ((lhs, rhs), (rhs, lhs)):
        if _is(y, 0):
            return y
        if op.result.tile.element.is_bool and _is(y, 1):
            return x
    return None


def _or(op: Or, builder: Builder) -> Value | None:
    lhs, rhs = op.lhs, op.rhs
    if lhs is rhs:
        return lhs
    for x, y in ((lhs, rhs), (rhs, lhs)):
        if _is(y, 0):
            return x
        if op.result.tile.element.is_bool and _is(y, 1):
            return y
    return None


def _xor(op: Xor, builder: Builder) -> Value | None:
    lhs, rhs = op.lhs, op.rhs
    type = op.result.tile
    if lhs is rhs:
        return builder.constant(False if type.element.is_bool else 0, type.dtype, type.shape)
    return lhs if _is(rhs, 0) else rhs if _is(lhs, 0) else None


def _select(op: Select, builder: Builder) -> Value | None:
    condition, x, y = op.condition, op.x, op.y
    known = constant_of(condition)
    if known is not None:
        return x if known else y
    return x if x is y else None


def _cmp(op: Cmp, builder: Builder) -> Value | None:
    lhs, rhs = op.lhs, op.rhs
    if lhs is not rhs or lhs.tile.is_pointer or lhs.tile.element.is_floating:
        return None
    equal = op.predicate in (CmpPredicate.EQ, CmpPredicate.LE, CmpPredicate.GE)
    return builder.constant(equal, op.result.tile.dtype, op.result.tile.shape)


def _same_type(op: Bitcast | Broadcast | Cast | Extract | Reshape, builder: Builder) -> Value | None:
    return op.x if op.result.type == op.x.type else None


def _refill(op: Broadcast | Permute | Reshape, builder: Builder) -> Value | None:
    """A constant in the result's shape, when the operand is a constant."""
    number = constant_of(op.x)
    return None if number is None else builder.constant(number, op.result.tile.dtype, op.result.tile.shape)


_Moving = TypeVar("_Moving", Broadcast, Not, Permute, Reshape)


def _inner(op: _Moving) -> _Moving | None:
    """The op of the same kind that produces the operand."""
    inner = op.x.op
    return inner if isinstance(inner, type(op)) else None


def _reshape(op: Reshape, builder: Builder) -> Value | None:
    simple = _same_type(op, builder) or _refill(op, builder)
    if (made := op.x.op) is not None and isinstance(made, Iota):
        return builder.emit(Iota, type=op.result.tile)
    if simple is None and (inner := _inner(op)) is not None:
        source = inner.x
        return source if source.type == op.result.type else builder.emit(Reshape, source, shape=op.shape)
    return simple


def _broadcast(op: Broadcast, builder: Builder) -> Value | None:
    simple = _same_type(op, builder) or _refill(op, builder)
    if simple is None and (inner := _inner(op)) is not None:
        return builder.emit(Broadcast, inner.x, shape=op.shape)
    return simple


def _permute(op: Permute, builder: Builder) -> Value | None:
    axes = op.axes
    if axes == tuple(range(len(axes))):
        return op.x
    simple = _refill(op, builder)
    if simple is None and (inner := _inner(op)) is not None:
        return builder.emit(Permute, inner.x, axes=tuple(inner.axes[a] for a in axes))
    return simple


def _not(op: Not, builder: Builder) -> Value | None:
    inner = _inner(op)
    return None if inner is None else inner.x


def _assume_divisible(op: AssumeDivisible, builder: Builder) -> Value | None:
    known = constant_of(op.x)
    return op.x if op.divisor == 1 or known is not None else None


_RULES: dict[type[Op], Callable[[Any, Builder], Value | None]] = {
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    Div: _div,
    Rem: _rem,
    Min: _same_operands,
    Max: _same_operands,
    Shl: _shl,
    Shr: _unless_zero,
    And: _and,
    Or: _or,
    Xor: _xor,
    Not: _not,
    Select: _select,
    Cmp: _cmp,
    Cast: _same_type,
    Bitcast: _same_type,
    Reshape: _reshape,
    Broadcast: _broadcast,
    Permute: _permute,
    Extract: _same_type,
    PtrOffset: _unless_zero,
    AssumeDivisible: _assume_divisible,
}
