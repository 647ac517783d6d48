"""Constant folding and local simplification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.arith import operand_dtype
from tilewright.ir.ops.control import Break, For, If, Loop, Yield
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.ops.memory import Assert, Assume
from tilewright.ir.ops.shape import Broadcast, Reshape, constant_of
from tilewright.ir.rewrite import Rewriter, clone_op
from tilewright.ir.semantics import constant_array, evaluate
from tilewright.ir.types import TileType


class Canonicalize:
    """Folds ops on constants, removes ops that change nothing and loops that end at once, inlines branches that are
    always taken, and makes reshapes of reductions of single elements.

    What one op alone is simpler as is declared with it: ``Op.canonicalize``.
    """

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
            folded = op.canonicalize(builder)
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
    numbers = [constant_of(v) for v in op.operands]
    if None in numbers:
        return None
    arrays = []
    for v, number in zip(op.operands, numbers):
        source = v.tile.dtype
        if not isinstance(source, DType) or source.short in _UNFOLDED:
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
