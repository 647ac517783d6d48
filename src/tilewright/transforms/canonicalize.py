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
from tilewright.ir.rewrite import ValueMap, clone_op
from tilewright.ir.semantics import constant_array, evaluate
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass


class Canonicalize(InPlacePass):
    """Folds ops on constants, removes ops that change nothing and loops that end at once, inlines branches that are
    always taken, and makes reshapes of reductions of single elements.

    What one op alone is simpler as is declared with it: ``Op.canonicalize``.
    """

    name: ClassVar[str] = "canonicalize"

    def change(self, function: Function) -> bool:
        canonicalizer = _Canonicalizer()
        canonicalizer.block(function.body)
        return canonicalizer.changed


class _Canonicalizer:
    def __init__(self) -> None:
        self.changed = False

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            if op.block is block:  # else an op before it ends the block now
                self.op(op)

    def op(self, op: Op) -> Sequence[Value]:
        """What stands for the results of ``op``, which may have gone."""
        if not op.regions:
            if isinstance(op, (Assert, Assume)):
                return self._replaced(op, []) if constant_of(op.condition) else op.results
            simpler = _simplified(op) if len(op.results) == 1 else None
            return op.results if simpler is None else self._replaced(op, [simpler])
        if isinstance(op, If):
            condition = constant_of(op.condition)
            if condition is not None:
                return self._inlined(op, 0 if condition else 1)
        elif isinstance(op, For) and _never_runs(op):
            return self._replaced(op, op.inits)
        elif isinstance(op, Loop) and (done := self._single_iteration(op)) is not None:
            *before, end = done.ops
            assert op.block is not None
            op.block.splice(before, op)
            found = self._replaced(op, list(end.operands))
            end.erase()
            return found
        elif isinstance(op, Reduce) and op.values[0].tile.shape[op.axis] == 1:
            b, shape = Builder.before(op), op.results[0].tile.shape
            return self._replaced(op, [b.emit(Reshape, v, shape=shape) for v in op.values])
        for region in op.regions:
            self.block(region)
        return op.results

    def _replaced(self, op: Op, values: Sequence[Value]) -> Sequence[Value]:
        self.changed = True
        op.replace_by(values)
        return values

    def _inlined(self, op: If, branch: int) -> Sequence[Value]:
        """Put the ops of one branch in place of the ``if``."""
        outer = op.block
        assert outer is not None
        *ops, end = op.regions[branch].ops
        outer.splice(ops, op)
        for nested in ops:
            if nested.block is outer:
                self.op(nested)
        if op.block is None:  # one of these ends the block now
            return []
        if isinstance(end, Yield):
            return self._replaced(op, list(end.values))
        outer.splice([end], op)
        self.changed = True
        outer.erase(outer.ops[outer.ops.index(end) + 1 :])  # cannot be reached
        return []

    def _single_iteration(self, op: Loop) -> Block | None:
        """What a loop that ends in its first iteration does, with the break at the end; None of other loops."""
        trial = Block()
        if self._ends_at_once(op, trial):
            return trial
        trial.clear()
        return None

    def _ends_at_once(self, op: Loop, block: Block) -> bool:
        """Whether the loop ends in its first iteration, whose ops are put into ``block``."""
        values: ValueMap = dict(zip(op.body.args, op.inits))
        for nested in op.body.ops:
            if isinstance(nested, If):
                if constant_of(values.get(nested.condition, nested.condition)) is None:
                    return False
            elif nested.regions or not (isinstance(nested, Break) or is_pure(nested)):
                return False
            copied = clone_op(nested, values)
            block.append(copied)
            values.update(zip(nested.results, _Canonicalizer().op(copied)))
            done = block.ops
            if done and done[-1].spec.terminator:
                return isinstance(done[-1], Break) and all(is_pure(o) for o in done[:-1])
        return False


def _never_runs(op: For) -> bool:
    lower, upper = constant_of(op.lower), constant_of(op.upper)
    return lower is not None and upper is not None and lower >= upper


def _simplified(op: Op) -> Value | None:
    """What is simpler than the result of ``op``, which has one and no regions."""
    builder = Builder.before(op)
    found = fold_constants(op, builder)
    if found is None:
        found = op.canonicalize(builder)
    if found is None and op.spec.elementwise:
        found = _scalarize_splats(op, builder)
    return found


def fold_constants(op: Op, builder: Builder) -> Value | None:
    """The constant that an elementwise op on constants gives."""
    if not op.spec.elementwise or not isinstance(op.result.type, TileType):
        return None
    numbers = [constant_of(v) for v in op.operands]
    if not numbers or None in numbers:
        return None
    dtype = op.result.type.dtype
    if not isinstance(dtype, DType) or dtype.short in _UNFOLDED:
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
    return builder.splat(builder.emit(type(op), *scalars, **op.attributes), shape)


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
