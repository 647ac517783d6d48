"""Copying IR with substitutions: the one mechanism of cloning, inlining and rewriting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value

ValueMap = dict[Value, Value]


def clone_op(op: Op, values: ValueMap, *, clone_regions: Callable[[Block, ValueMap], Block] | None = None) -> Op:
    """A copy of ``op`` with operands looked up in ``values``, to which its results are added.

    Types, attributes and location are kept without inferring them again.
    """
    copy_region = clone_regions or clone_block
    operands, given = op.operands, values.get
    copied = type(op)(
        list(map(given, operands, operands)),
        op.segments,
        op.attributes.copy(),
        [copy_region(r, values) for r in op.regions] if op.regions else (),
        (),
        op.loc,
    )
    for old in op.results:
        values[old] = new = Value(old.type, copied, old.index, old.name)
        copied.results.append(new)
    return copied


def stand_for(op: Op, made: Op, values: ValueMap) -> None:
    """Let the results of ``made`` stand for those of ``op`` in ``values``, under their names."""
    for old, new in zip(op.results, made.results):
        new.name = old.name
        values[old] = new


def clone_block(block: Block, values: ValueMap) -> Block:
    """A copy of ``block`` whose arguments and results are added to ``values``."""
    copied = open_block(block, values)
    for op in block.ops:
        copied.append(clone_op(op, values))
    return copied


def open_block(block: Block, values: ValueMap) -> Block:
    """An empty block with the arguments of ``block``, which are added to ``values``."""
    copied = Block()
    for arg in block.args:
        values[arg] = copied.add_arg(arg.type, arg.name)
    return copied


def clone_function(function: Function) -> Function:
    """A deep copy."""
    return with_body(function, clone_block(function.body, {}))


def with_body(function: Function, body: Block) -> Function:
    return Function(function.name, body, list(function.params), function.loc, dict(function.hints), function.may_alias)


class Rewriter:
    """Rebuilds a function op by op, at the insertion point of a builder.

    Subclasses override ``insert``, which says what stands for an op; ops that they do not know are copied.
    """

    def __init__(self) -> None:
        self.values: ValueMap = {}

    def value(self, old: Value) -> Value:
        """What stands for ``old`` in the rebuilt function."""
        return self.values.get(old, old)

    def all(self, old: Iterable[Value]) -> list[Value]:
        """What stands for each of ``old``."""
        return [self.values.get(v, v) for v in old]

    def replace_all_uses(self, op: Op, replacement: Iterable[Value]) -> None:
        """Let ``replacement``, values of the rebuilt function, stand for the results of ``op`` in all that follows."""
        self.values.update(zip(op.results, replacement))

    def function(self, function: Function) -> Function:
        return with_body(function, self.block(function.body, self.values))

    def block(self, block: Block, values: ValueMap) -> Block:
        """The rebuilt ``block``, whose arguments and results are added to ``values``."""
        copied = open_block(block, values)
        builder = Builder(copied, block.ops[0].loc)
        for op in block.ops:
            self.insert(op, builder)
            if copied.ops and copied.ops[-1].spec.terminator:
                break  # the rewrite ended the block: what follows cannot be reached
        return copied

    def insert(self, op: Op, builder: Builder) -> None:
        """Rebuild ``op`` at the end of the builder's block."""
        builder.loc = op.loc
        builder.block.append(clone_op(op, self.values, clone_regions=self.block))


_O = TypeVar("_O", bound=Op)
_T = TypeVar("_T")
Emit = Callable[[Rewriter, Any, _T, Builder], Iterable[Value]]
Rule = Callable[[Any, Builder], "Value | None"]


def replace_ops(function: Function, chosen: Mapping[_O, _T], emit: Emit[_T]) -> bool:
    """Put what ``emit`` gives for each of the ``chosen`` ops in the place of its results; whether there are any.

    Ops of the regions of such an op that ``emit`` has inserted are copied, but for those that are chosen, too.
    """
    replacer = _Replacer(chosen, emit)
    for op in chosen:
        if op.block is not None:  # else it went with one around it
            replacer.insert(op, Builder.before(op))
            op.replace_by(replacer.all(op.results))
    return bool(chosen)


class _Replacer(Rewriter, Generic[_T]):
    def __init__(self, chosen: Mapping[Any, _T], emit: Emit[_T]) -> None:
        super().__init__()
        self.chosen, self.emit = chosen, emit

    def insert(self, op: Op, builder: Builder) -> None:
        if op not in self.chosen:
            super().insert(op, builder)
            return
        builder.loc = op.loc
        self.replace_all_uses(op, self.emit(self, op, self.chosen[op], builder))


def lower_ops(function: Function, rules: Mapping[type[Op], Rule]) -> bool:
    """Put what the rules for their classes make of ops in the place of their results; whether any has changed. An op of
    which a rule makes None stays."""
    changed = False
    for op in [op for op in function.walk() if type(op) in rules]:
        found = rules[type(op)](op, Builder.before(op))
        if found is not None:
            op.replace_by([found])
            changed = True
    return changed
