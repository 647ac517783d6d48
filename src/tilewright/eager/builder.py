"""A builder that evaluates what it is asked to emit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.backends.reference import BlockInterpreter
from tilewright.backends.reference.memory import Memory
from tilewright.eager.call_sites import call_site
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.errors import TileError
from tilewright.ir.location import Loc
from tilewright.ir.opdef import create
from tilewright.ir.ops.memory import MemoryOp
from tilewright.ir.types import Type

Index = tuple[int, int, int]


class ConcreteValue(Value):
    """An IR value whose run-time value is known (see ``backends.reference.values`` for its form)."""

    __slots__ = ("data",)

    def __init__(self, type: Type, data: Any) -> None:
        super().__init__(type, _NOWHERE, 0)
        self.data = data


_NOWHERE = Block()  # evaluated values belong to no program: nothing keeps the ops that made them


class _Captured(dict[Value, Any]):
    """The values of ops in a combiner; those that it captures know their own."""

    def __missing__(self, value: Value) -> Any:
        if isinstance(value, ConcreteValue):
            return value.data
        raise TileError("a value inside of a combining function is not known outside of it")


class EagerBuilder(Builder):
    """Evaluates ops as the block ``index`` of ``grid`` on ``memory``.

    Ops emitted into another block than the root, the body of a reduction, are collected there as usual. ``pause`` is
    called before every strong memory operation, where other blocks may run.
    """

    def __init__(self, index: Index, grid: Index, memory: Memory, pause: Callable[[MemoryOp], None]) -> None:
        self._root = Block()
        super().__init__(self._root, call_site())
        self._interpreter = BlockInterpreter(index, grid, memory, {}, None)
        self._interpreter.values = _Captured()
        self._pause = pause

    @property
    def loc(self) -> Loc:
        """The location in the program that is calling."""
        return call_site()

    @loc.setter
    def loc(self, place: Loc) -> None:
        """Python knows the location; the builder need not be told."""

    @property
    def index(self) -> Index:
        return self._interpreter.index

    def emit_op(self, cls: type[Op], *operand_groups: Any, **keywords: Any) -> Op:
        if self.block is not self._root:
            return super().emit_op(cls, *operand_groups, **keywords)
        op = create(cls, operand_groups, keywords, self.loc)
        if is_ordered(op):
            self._pause(op)
        try:
            results = self._interpreter.evaluate(op, [self._interpreter.values[v] for v in op.operands])
        except TileError as error:
            raise type(error)(error.message, error.loc or op.loc) from None
        finally:
            self._interpreter.values.clear()
        op.results = [ConcreteValue(v.type, data) for v, data in zip(op.results, results)]
        return op
