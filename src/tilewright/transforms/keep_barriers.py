"""Loops without branches in them in which accesses to memory come after others.

Between accesses to memory in a branch in a loop, and behind a branch that leaves it or begins it again, ``tileiras``
13.5 leaves out barriers: threads load what others have not stored yet. It does not in a ``for`` there, nor where a loop
is left at the end, or at the beginning by the second branch of an ``if``.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import bool_, int32
from tilewright.ir.effects import has_early_exit, has_effect, is_pure
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import shape
from tilewright.ir.ops.arith import Select
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.ops.memory import MemoryOp
from tilewright.ir.rewrite import Rewriter, open_block, stand_for
from tilewright.ir.structured import emit_for, emit_if, emit_region
from tilewright.ir.types import TileType, Type

Region = Callable[[], list[Value]]
Leave = Callable[[Op], list[Value]]  # what a region gives at a terminator


class KeepBarriers:
    """A ``for`` of one iteration or none instead of such branches."""

    name: ClassVar[str] = "keep-barriers"

    def run(self, function: Function) -> Function:
        loops: list[tuple[For | Loop, list[If]]] = []
        _find_loops(function.body, (), loops)
        made = None
        for loop, branches in filter(operator.itemgetter(1), loops):
            made = made or _KeptBarriers(AnalysisManager(function).get(AliasAnalysis))
            touches = made.clashes if isinstance(loop, For) else bool
            if any(touches(_accesses([op])) for op in branches) or made.is_left_inside(loop):
                return made.function(function)
        return function


_NESTS: frozenset[type[Op]] = frozenset((If, For, Loop))  # combiners have none in them


def _find_loops(block: Block, around: tuple[list[If], ...], loops: list[tuple[For | Loop, list[If]]]) -> None:
    """Add the loops in ``block``, each with the branches in it, to ``loops``, and branches to those ``around``."""
    for op in itertools.compress(block.ops, map(_NESTS.__contains__, map(type, block.ops))):
        inside = around
        if isinstance(op, If):
            for branches in around:
                branches.append(op)
        elif isinstance(op, (For, Loop)):
            inside = (*around, [])
            loops.append((op, inside[-1]))
        for region in op.regions:
            _find_loops(region, inside, loops)


def _accesses(ops: Iterable[Op]) -> list[MemoryOp]:
    found = list[MemoryOp]()
    for op in ops:
        if isinstance(op, MemoryOp):
            found.append(op)
        for region in op.regions:
            found += _accesses(region.ops)
    return found


class _KeptBarriers(Rewriter):
    def __init__(self, alias: AliasAnalysis) -> None:
        super().__init__()
        self.alias = alias
        self.loops: list[For | Loop] = []  # around what is rebuilt

    def insert(self, op: Op, builder: Builder) -> None:
        if isinstance(op, (For, Loop)):
            self.loops.append(op)
            if not self.is_left_inside(op):
                super().insert(op, builder)
            elif isinstance(op, For):
                self._for(op, builder)
            else:
                self._loop(op, builder)
            self.loops.pop()
        elif isinstance(op, If) and not has_early_exit(op) and self._is_apart(op):
            builder.loc = op.loc
            found = self._branches(builder, op, lambda end: self.all(end.operands), op.types)
            self.replace_all_uses(op, found)
        else:
            super().insert(op, builder)

    def clashes(self, accesses: Sequence[MemoryOp]) -> bool:
        """Whether ``accesses`` are to one memory several times, and write it."""
        if len(accesses) < 2:
            return False
        found: dict[Value | None, int] = {}
        written: set[Value | None] = set()
        for op in accesses:
            root = self.alias.underlying_object(op.address)
            found[root] = found.get(root, 0) + 1
            if has_effect(op, Effect.WRITE):
                written.add(root)
        unknown = None in found and len(found) > 1 and bool(written)
        return unknown or any(found[root] > 1 for root in written)

    def is_left_inside(self, loop: For | Loop) -> bool:
        """Whether ``loop`` is left, or begins again, elsewhere than at its beginning, by the second branch, or its
        end."""
        ops = loop.body.ops
        exits = [i for i, op in enumerate(ops) if isinstance(op, If) and has_early_exit(op)]
        if isinstance(loop, For):
            return bool(exits) and self.clashes(_accesses(ops))
        if len(exits) != 1:
            return bool(exits)
        op = ops[exits[0]]
        if any(has_early_exit(nested) for block in op.regions for nested in block.ops if isinstance(nested, If)):
            return True
        at_end = exits[0] == len(ops) - 2
        return not at_end and not (isinstance(op.regions[0].terminator, Yield) and all(map(is_pure, ops[: exits[0]])))

    def _is_apart(self, op: If) -> bool:
        """Whether nothing may be left in the branches of ``op``."""
        touches = bool if any(isinstance(loop, Loop) for loop in self.loops) else self.clashes
        return bool(self.loops) and touches(_accesses([op]))

    def _for(self, op: For, b: Builder) -> None:
        b.loc = op.loc

        def emit(*arguments: Value) -> list[Value]:
            self.values.update(zip(op.body.args, arguments))
            return self._ops(b, op.body.ops, lambda end: self.all(end.operands), [v.type for v in op.inits])

        stand_for(op, emit_for(b, self.all(op.bounds), self.all(op.inits), emit), self.values)

    def _loop(self, op: Loop, b: Builder) -> None:
        """An iteration gives whether there is another one, what that has, and the results if there is none."""
        b.loc = op.loc
        carried = [v.type for v in op.inits]

        def leave(end: Op) -> list[Value]:
            values, goes_on = self.all(end.operands), isinstance(end, Continue)
            state = [*values, *_undefined(b, op.types)] if goes_on else [*_undefined(b, carried), *values]
            return [b.constant(goes_on, bool_), *state]

        body = open_block(op.body, self.values)
        with b.at(body):
            goes_on, *state = self._ops(b, op.body.ops, leave, [TileType(bool_), *carried, *op.types])
            ends = emit_region(b, (), list), emit_region(b, (), lambda: state[len(carried) :], Break)
            b.emit_op(If, goes_on, types=(), then=ends[0], orelse=ends[1])
            b.emit_op(Continue, state[: len(carried)])
        stand_for(op, b.emit_op(Loop, self.all(op.inits), types=op.types, body=body), self.values)

    def _ops(self, b: Builder, ops: Sequence[Op], leave: Leave, types: Sequence[Type]) -> list[Value]:
        """What ``leave`` gives after ``ops``, values of ``types``."""
        for i, op in enumerate(ops):
            b.loc = op.loc
            if op.spec.terminator:
                return leave(op)
            if isinstance(op, If) and has_early_exit(op):
                return self._jump(b, op, ops[i + 1 :], leave, types)
            self.insert(op, b)
        raise AssertionError("a block without a terminator")

    def _jump(self, b: Builder, op: If, rest: Sequence[Op], leave: Leave, types: Sequence[Type]) -> list[Value]:
        """What ``leave`` gives after an ``if`` that may leave the loop and, if it does not, the ``rest``."""

        def end_branch(end: Op) -> list[Value]:
            if isinstance(end, Yield):
                return [b.constant(False, bool_), *_undefined(b, types), *self.all(end.operands)]
            return [b.constant(True, bool_), *leave(end), *_undefined(b, op.types)]

        left, *found = self._branches(b, op, end_branch, [TileType(bool_), *types, *op.types])
        self.replace_all_uses(op, found[len(types) :])
        return _under(b, left, False, found[: len(types)], rest, lambda: self._ops(b, rest, leave, types))

    def _branches(self, b: Builder, op: If, leave: Leave, types: Sequence[Type]) -> list[Value]:
        """What ``leave`` gives, values of ``types``, after one of the branches of ``op``."""
        condition, found = self.value(op.condition), _undefined(b, types)
        for wanted, block in ((True, op.then), (False, op.orelse)):
            region = functools.partial(self._ops, b, block.ops, leave, types)
            found = _under(b, condition, wanted, found, block.ops, region)
        return found


def _under(
    b: Builder, condition: Value, wanted: bool, before: list[Value], ops: Sequence[Op], region: Region
) -> list[Value]:
    """What ``region``, which does ``ops``, gives if ``condition`` is as ``wanted``, and otherwise ``before``."""
    if not _accesses(ops):
        return emit_if(b, condition, *(region, lambda: before)[:: 1 if wanted else -1])
    none, one = b.constant(0, int32), b.constant(1, int32)
    count = b.emit(Select, condition, *(one, none)[:: 1 if wanted else -1])
    return emit_for(b, (none, count, one), before, lambda *_: region()).results


def _undefined(b: Builder, types: Sequence[Type]) -> list[Value]:
    return [b.emit(shape.Undefined, type=t) for t in types]
