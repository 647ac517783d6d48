"""A builder that evaluates what it is asked to emit."""

from __future__ import annotations

import functools
import itertools
import linecache
import sys
import types
from collections.abc import Callable
from typing import Any

from tilewright.backends.reference import BlockInterpreter
from tilewright.backends.reference.memory import Memory
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.errors import TileError
from tilewright.ir.location import UNKNOWN, Loc
from tilewright.ir.opdef import create
from tilewright.ir.ops.memory import MemoryOp
from tilewright.ir.types import Type

# Modules between a kernel and what it calls that are no part of the program.
_PLUMBING = {__name__.partition(".")[0], "bdb", "contextlib", "functools"}
# The function that calls a kernel has this local variable, which ends the chain of callers.
KERNEL_CALL = "the_kernel_is_called_here"


def call_site() -> Loc:
    """The innermost location outside of this package; in a kernel with the calls that led there from its body."""
    frame: types.FrameType | None = sys._getframe(1)
    frames = []
    in_kernel = False
    while frame is not None:
        if not _is_plumbing(frame):
            frames.append(frame)
        elif KERNEL_CALL in frame.f_code.co_varnames:
            in_kernel = True
            break
        frame = frame.f_back
    if not frames:
        return UNKNOWN
    found: Loc | None = None
    for f in reversed(frames if in_kernel else frames[:1]):
        line, column, end_line, end_column = _range(f.f_code, f.f_lasti, f.f_lineno)
        found = Loc(f.f_code.co_filename, line, column, end_line, end_column, f.f_code.co_name, found)
    assert found is not None
    return found


def _is_plumbing(frame: types.FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return isinstance(name, str) and name.partition(".")[0] in _PLUMBING


@functools.lru_cache(maxsize=4096)
def _range(code: types.CodeType, instruction: int, line: int) -> tuple[int, int, int | None, int | None]:
    """The source text of an instruction: line, column, end line, end column; the whole line before Python 3.11."""
    text = linecache.getline(code.co_filename, line)
    positions: Any = getattr(code, "co_positions", None)
    if positions is not None:
        first, last, column, end_column = next(itertools.islice(positions(), instruction // 2, None))
        if first is not None and column is not None and end_column is not None:
            text = linecache.getline(code.co_filename, first)
            return first, _characters(text, column), last, _characters(text, end_column)
    return line, len(text) - len(text.lstrip()), None, None


def _characters(text: str, offset: int) -> int:
    """Characters in the first ``offset`` bytes of ``text``."""
    return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


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
