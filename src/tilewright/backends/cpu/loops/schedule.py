"""What is known while the loop-level form of one function is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from tilewright.backends.cpu.loops.arena import Arena, Buffer
from tilewright.backends.cpu.loops.uses import Uses
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.cpu.target import Processor
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.location import UNKNOWN, Loc
from tilewright.ir.opdef import create
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.shape import Reshape
from tilewright.ir.rewrite import clone_op
from tilewright.ir.types import ElementType, TileType


class Schedule:
    """Where the values of Tile IR are in the form that is being made.

    A value is *bound* when code for it is there: a scalar or a view, or a tile in a buffer. A tile is not bound while
    the op that defines it is *deferred*: then its elements are computed inside the loops that need them.
    """

    def __init__(
        self, function: Function, processor: Processor, schedule_block: Callable[[Schedule, Block], None]
    ) -> None:
        self.processor = processor
        self.uses = Uses(function)
        self.deferred: set[Op] = set()
        self.pending: list[Op] = []  # loads of this block that may still be deferred
        self.block = function.body  # of Tile IR: the one whose ops are being scheduled
        self.target = Block()  # of the form
        # Where the values go that the ends of the loops (continue, break) and branches around pass on.
        self.loops: list[tuple[list[Buffer | None], list[Buffer | None]]] = []
        self.branches: list[list[Buffer | None]] = []
        self._schedule_block = schedule_block
        self._bindings: dict[Value, Buffer | None] = {}
        self._values: dict[Value, Value] = {}  # Tile IR -> form, of what is bound
        self._array_tiles: dict[Value, Value] = {}  # the same of deferred loads from views
        self.arena = Arena()
        self._depths: dict[Op | None, int] = {}
        self._temporaries: list[list[Value]] = []

    def schedule_block(self, block: Block) -> None:
        """Append what the ops of ``block`` become."""
        self._schedule_block(self, block)

    # The form

    def emit(self, cls: type[Op], *operand_groups: Any, loc: Loc, **keywords: Any) -> Op:
        """Append an op of the form."""
        op = create(cls, operand_groups, keywords, loc)
        self.target.append(op)
        return op

    def emit_nest(self, body: Block, buffers: Sequence[Buffer | None], loc: Loc, **attributes: Any) -> Op:
        """Append a nest whose results are in ``buffers``, or in registers where there is none."""
        offsets = tuple(None if b is None else b.offset for b in buffers)
        return self.emit(LoopNest, [], [], [], buffers=offsets, body=body, loc=loc, **attributes)

    def keep(self, op: Op) -> None:
        """Append ``op``, of scalars and views only, as it is."""
        self.bind_all(op.results, self._copied(op).results)

    def load_later(self, op: Op) -> None:
        """Append ``op``, a load from a view whose users read the array."""
        self._array_tiles[op.result] = self._copied(op).result

    def _copied(self, op: Op) -> Op:
        copied = clone_op(op, {v: self.value(v) for v in op.operands})
        self.target.append(copied)
        return copied

    def shaped(self, new: Value, value: Value) -> Value:
        """``new`` of the form, in the shape of ``value``, whose extents are the same but for those of 1."""
        if new.tile.shape == value.tile.shape:
            return new
        loc = UNKNOWN if value.op is None else value.op.loc
        return self.emit(Reshape, new, shape=value.tile.shape, loc=loc).result

    def value(self, value: Value) -> Value:
        """What ``value`` is in the form: a scalar, a view, or a tile in a buffer or an array."""
        return self._values[value] if value in self._bindings else self._array_tiles[value]

    def bind(self, value: Value, new: Value, buffer: Buffer | None = None) -> None:
        self._bindings[value] = buffer
        self._values[value] = new
        new.name = new.name or value.name

    def bind_all(
        self, values: Iterable[Value], new: Iterable[Value], buffers: Iterable[Buffer | None] = repeat(None)
    ) -> None:
        for value, to, buffer in zip(values, new, buffers):
            self.bind(value, to, buffer)

    def is_bound(self, value: Value) -> bool:
        return value in self._bindings

    def buffer(self, value: Value) -> Buffer | None:
        """The buffer that ``value`` is in, if it is in one."""
        return self._bindings.get(value)

    def is_in(self, value: Value, buffer: Buffer) -> bool:
        """Whether ``value`` is where ``buffer`` is."""
        bound = self.buffer(value)
        return bound is not None and bound.offset == buffer.offset

    # Scratch memory

    def allocate(self, tile: TileType) -> Buffer:
        """Scratch memory for ``tile``."""
        return self.allocate_array(tile.dtype, tile.size)

    def allocate_array(self, dtype: ElementType, size: int) -> Buffer:
        """Scratch memory for ``size`` elements."""
        return Buffer(self.arena.allocate(size * element_bytes(dtype)), size, dtype)

    def release(self, buffer: Buffer) -> None:
        """One value less is bound to ``buffer``."""
        buffer.users -= 1
        if buffer.users == 0 and not buffer.borrowed:
            self.arena.free(buffer.offset)

    # Uses

    def is_local(self, value: Value) -> bool:
        """Whether ``value`` is defined in the block being scheduled, so that what it is bound to here lasts."""
        return value.block is self.block

    def temporary(self, value: Value, new: Value, buffer: Buffer) -> None:
        """Read ``value``, which is deferred in an outer block, from ``buffer`` until the end of this block."""
        self.bind(value, new, buffer)
        self._temporaries[-1].append(value)

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """While the ops of ``block`` are scheduled, into the block given; what it allocated is free afterwards."""
        outer, self.block = (self.block, self.pending, self.target), block
        self.pending, self.target = [], Block()
        self._temporaries.append([])
        yield self.target
        own = [*block.args, *(r for op in block.ops for r in op.results)]
        for value in self._temporaries.pop() + own:
            bound = self._bindings.pop(value, None)
            if bound is not None:
                self.release(bound)
        self.deferred.difference_update(block.ops)
        self.block, self.pending, self.target = outer

    def deepen(self, op: Op) -> int:
        """The length of the longest chain of deferred ops that ends in ``op``."""
        depths = [self._depths.get(v.op, 0) for v in op.operands if v.op in self.deferred]
        self._depths[op] = 1 + max(depths, default=0)
        return self._depths[op]

    def forget(self, value: Value) -> None:
        """Nothing needs ``value`` any more."""
        bound = self._bindings.pop(value, None)
        if bound is not None:
            self.release(bound)
        elif value.op in self.deferred:
            assert value.op is not None
            self.complete(value.op)

    def complete(self, op: Op) -> None:
        """``op`` is in the form, or never will be."""
        self.deferred.discard(op)
        for v in self.uses.complete(op):
            self.forget(v)

    def materialized(self, value: Value, new: Value, buffer: Buffer) -> None:
        """From here on a deferred ``value`` is read from ``buffer``."""
        self.bind(value, new, buffer)
        if value.op in self.deferred:
            assert value.op is not None
            self.complete(value.op)
