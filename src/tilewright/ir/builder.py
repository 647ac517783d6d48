"""Emits ops at an insertion point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.location import Loc
from tilewright.ir.opdef import create
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape
from tilewright.ir.types import ElementType, TileType


class Builder:
    """Appends ops to ``block``, giving each the location ``loc``. Both may be changed at any time.

    With ``before``, an op of the block, they are inserted before that one.
    """

    def __init__(self, block: Block, loc: Loc, before: Op | None = None) -> None:
        self.block = block
        self._before = before
        self._loc: Loc | Callable[[], Loc] = loc

    @classmethod
    def before(cls, op: Op) -> Builder:
        """A builder that inserts before ``op``, with its location."""
        assert op.block is not None
        return cls(op.block, op.loc, op)

    @property
    def loc(self) -> Loc:
        if not isinstance(self._loc, Loc):
            self._loc = self._loc()
        return self._loc

    @loc.setter
    def loc(self, loc: Loc) -> None:
        self._loc = loc

    def locate(self, find: Callable[[], Loc]) -> None:
        """Make ``find()`` the location; most locations in a program are passed by without an op that asks for it."""
        self._loc = find

    def emit_op(self, cls: type[Op], *operand_groups: Any, **keywords: Any) -> Op:
        """Append ``cls(*operand_groups, **keywords)``: see ``opdef.create`` for the arguments."""
        return self.insert(create(cls, operand_groups, keywords, self.loc))

    def insert(self, op: Op) -> Op:
        """Insert ``op``, which is in no block."""
        if self._before is None:
            self.block.append(op)
        else:
            self.block.insert(op, self._before)
        return op

    def emit(self, cls: type[Op], *operand_groups: Any, **keywords: Any) -> Value:
        """Like ``emit_op``, for an op with one result, which is returned."""
        return self.emit_op(cls, *operand_groups, **keywords).result

    def constant(self, value: bool | int | float, dtype: ElementType, shape: tuple[int, ...] = ()) -> Value:
        """A tile of ``shape`` filled with ``value``."""
        return self.emit(Constant, value=value, type=TileType(dtype, shape))

    def splat(self, scalar: Value, shape: tuple[int, ...]) -> Value:
        """``scalar`` in every element of a tile of ``shape``."""
        if not shape:
            return scalar
        return self.emit(Broadcast, self.emit(Reshape, scalar, shape=(1,) * len(shape)), shape=shape)

    @contextmanager
    def at(self, block: Block) -> Iterator[Block]:
        """Emit into ``block`` for the duration."""
        outer = self.block, self._before
        self.block, self._before = block, None
        try:
            yield block
        finally:
            self.block, self._before = outer
