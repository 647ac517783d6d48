"""Emits ops at an insertion point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.location import Loc
from tilewright.ir.opdef import create
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import ElementType, TileType


class Builder:
    """Appends ops to ``block``, giving each the location ``loc``. Both may be changed at any time."""

    def __init__(self, block: Block, loc: Loc) -> None:
        self.block = block
        self._loc: Loc | Callable[[], Loc] = loc

    @property
    def loc(self) -> Loc:
        if not isinstance(self._loc, Loc):
            self._loc = self._loc()
        return self._loc

    @loc.setter
    def loc(self, loc: Loc) -> None:
        self._loc = loc

    def locate(self, find: Callable[[], Loc]) -> None:
        """Make ``find()`` the location; most places in a program are passed by without an op that asks for it."""
        self._loc = find

    def emit_op(self, cls: type[Op], *operand_groups: Any, **keywords: Any) -> Op:
        """Append ``cls(*operand_groups, **keywords)``: see ``opdef.create`` for the arguments."""
        op = create(cls, operand_groups, keywords, self.loc)
        self.block.append(op)
        return op

    def insert(self, op: Op) -> Op:
        """Append ``op``, which is in no block."""
        self.block.append(op)
        return op

    def emit(self, cls: type[Op], *operand_groups: Any, **keywords: Any) -> Value:
        """Like ``emit_op``, for an op with one result, which is returned."""
        return self.emit_op(cls, *operand_groups, **keywords).result

    def constant(self, value: bool | int | float, dtype: ElementType, shape: tuple[int, ...] = ()) -> Value:
        """A tile of ``shape`` filled with ``value``."""
        return self.emit(Constant, value=value, type=TileType(dtype, shape))

    @contextmanager
    def at(self, block: Block) -> Iterator[Block]:
        """Emit into ``block`` for the duration."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer
