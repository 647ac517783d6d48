"""Blocks that run the same operations run them together: one NumPy operation computes the tiles of all of them.

That is for kernels in which no block can see what another one does: loads and stores through views, of arrays that are
either read or written. Where blocks part (a branch, the bounds of a loop, an incomplete tile), the batch is divided and
its parts begin again; blocks in which something must be reported run alone, as if there were no batch. Nothing is
stored meanwhile: ``Batch.stores`` are done afterwards, block by block.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilewright.analysis.argument_effects import ArgumentEffects
from tilewright.backends.reference.elementwise import ELEMENTWISE
from tilewright.backends.reference.interpreter import FOLDS, BlockInterpreter, Exit, Index
from tilewright.backends.reference.linear import PRODUCTS
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.shape import SHAPE
from tilewright.backends.reference.values import UNKNOWN_ALLOCATION, Array, PartitionView
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.enums import PaddingMode
from tilewright.ir.errors import TileError
from tilewright.ir.ops import memory as ops
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.linear import CombiningOp, Reduce, Scan
from tilewright.ir.ops.shape import Broadcast, Permute, Reshape, Undefined
from tilewright.ir.semantics import constant_array
from tilewright.ir.types import TileType
from tilewright.records import dataclass
from tilewright.sanitizer.arithmetic import CHECKS
from tilewright.sanitizer.arrays import ArrayState, injective
from tilewright.sanitizer.block import CheckedBlock
from tilewright.sanitizer.launch import LaunchState
from tilewright.sanitizer.races import Thread
from tilewright.sanitizer.reductions import overflowing_rows
from tilewright.sanitizer.windows import Window

_ELEMENTS = 1 << 15  # of one value of a batch: what a core's own caches hold
_MOST, FEWEST = 512, 4  # blocks of a batch
_CONTROL = (Break, Continue, For, If, Loop, Return, Yield)
_PROMISES = (ops.Assert, ops.Assume, ops.AssumeBlocked, ops.AssumeBounded, ops.AssumeDivisible)
_OTHERS = (ops.Bid, ops.NumBlocks, ops.LoadView, ops.StoreView, ops.MakeTensorView, ops.MakePartitionView)
_KNOWN = frozenset((*ELEMENTWISE, *SHAPE, *PRODUCTS, *FOLDS, *_CONTROL, *_PROMISES, *_OTHERS)) - {Undefined}
_WITH_POINTERS = (ops.MakeTensorView, ops.AssumeDivisible)  # the base of an array, the same in every block


class Diverged(Exception):
    """Blocks of a batch, by position, that may go on in batches of their own, and those that must run alone."""

    def __init__(self, parts: Sequence[Array], alone: Array) -> None:
        self.parts, self.alone = parts, alone


@dataclass(frozen=True)
class Observed:
    """An access that every block of a batch makes: to a window of one array, which begins at ``first`` of the block."""

    op: ops.ViewMemoryOp
    array: ArrayState
    inside: tuple[slice, ...]  # the part of the tile that lies in the array
    first: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    padding: int
    operands: Sequence[Any] = ()  # of a store: the view, the value and the indices
    varying: Sequence[bool] = ()  # which of them have an axis of blocks

    def window(self, position: int) -> Window:
        """What the block at ``position`` accesses."""
        return Window(int(self.first[position]), self.shape, self.strides)


def batch_size(function: Function, effects: ArgumentEffects, memory: Memory, state: LaunchState) -> int:
    """How many blocks of a launch run together; 1 where each must run alone."""
    schedule, blocks = state.session.schedule, state.races.blocks
    if schedule.order != "in-order" or state.births or function.may_alias or effects.read & effects.written:
        return 1
    if not all(_is_known(op) for op in function.walk()) or _overlap(state):
        return 1
    sizes = (v.type.size for op in function.walk() for v in op.results if isinstance(v.type, TileType))
    size = min(_ELEMENTS // max(sizes, default=1), _MOST, blocks)
    return size if size >= FEWEST else 1


def _is_known(op: Op) -> bool:
    if type(op) not in _KNOWN or is_ordered(op):
        return False
    has_pointers = any(isinstance(v.type, TileType) and v.type.is_pointer for v in (*op.operands, *op.results))
    return not has_pointers or isinstance(op, _WITH_POINTERS)


def _overlap(state: LaunchState) -> bool:
    """Whether an array that the launch writes shares memory with another one."""
    return any(
        (a.tracked or b.tracked) and a.buffer.low < b.buffer.high and b.buffer.low < a.buffer.high
        for a, b in itertools.combinations(state.arrays, 2)
    )


class Batch(CheckedBlock):
    """Blocks in lockstep. A value that differs between them has an axis of blocks in front, and is in ``varying``."""

    pause_at_weak = False

    def __init__(
        self, blocks: Sequence[Index], grid: Index, memory: Memory, arguments: dict[Value, Any], launch: LaunchState
    ) -> None:
        super().__init__(blocks[0], grid, memory, arguments, launch, Thread(0, blocks[0]))
        self.blocks = np.array(blocks, np.int64)
        self.varying: set[Value] = set()
        self.accesses: list[Observed] = []
        self._only: int | None = None  # the block whose part of an operation is computed

    def run_together(self, body: Block) -> None:
        """Run all blocks. Diverged where they part."""
        running = self.run(body)
        try:
            next(running)
        except StopIteration:
            return
        except TileError:  # which one, and where, is for the blocks to say
            raise self._alone() from None
        raise self._alone()

    # -- parting

    def _alone(self, faulty: Array | None = None) -> Diverged:
        """Blocks that run alone: those where ``faulty``, or all; the others may go on together."""
        everyone = np.arange(len(self.blocks))
        if self._only is not None:
            faulty = everyone == self._only
        if faulty is None or faulty.all():
            return Diverged((), everyone)
        return Diverged((everyone[~faulty],), everyone[faulty])

    def _any(self, wrong: Array) -> Array:
        """In which blocks an element is ``wrong``."""
        return np.asarray(np.reshape(wrong, (len(self.blocks), -1)).any(axis=1))

    def _same(self, *values: Array) -> list[int]:
        """The integers that ``values``, one number for each block or for all of them, are in every block."""
        table = np.stack([np.broadcast_to(v, len(self.blocks)) for v in values])
        if (table == table[:, :1]).all():
            return [int(v) for v in table[:, 0]]
        _, kinds = np.unique(table, axis=1, return_inverse=True)
        kinds = kinds.reshape(-1)
        raise Diverged([np.flatnonzero(kinds == k) for k in range(kinds.max() + 1)], np.arange(0))

    def flag(self, op: Op, category: str, wrong: Any, *_: Any, **__: Any) -> None:
        if np.any(wrong):
            whole = self._only is not None or self.reducing or np.ndim(wrong) <= max(v.tile.rank for v in op.operands)
            raise self._alone(None if whole else self._any(wrong))

    def report(self, op: Op, *_: Any, **__: Any) -> None:
        raise self._alone()

    # -- values

    def bind(self, targets: Sequence[Value], values: Sequence[Any], sources: Sequence[Value]) -> None:
        BlockInterpreter.bind(self, targets, values, sources)
        self._set_varying(targets, [s in self.varying for s in sources])

    def _set_varying(self, targets: Sequence[Value], varying: Sequence[bool]) -> None:
        for target, varies in zip(targets, varying):
            (self.varying.add if varies else self.varying.discard)(target)

    def _give(self, op: Op, results: Sequence[Any], varies: bool) -> None:
        self.values.update(zip(op.results, results))
        self._set_varying(op.results, [varies] * len(op.results))

    def _one(self, value: Value, number: Array) -> Array:
        """A scalar that must be the same in every block."""
        return np.array(self._same(number)[0], number.dtype) if value in self.varying else number

    def run_if(self, op: If, operands: list[Any]) -> Generator[ops.MemoryOp, None, Exit | None]:
        return (yield from BlockInterpreter.run_if(self, op, [self._one(op.condition, operands[0])]))

    def run_for(self, op: For, operands: list[Any]) -> Generator[ops.MemoryOp, None, Exit | None]:
        bounds = [self._one(v, x) for v, x in zip(op.bounds, operands)]
        self.varying.discard(op.regions[0].args[0])
        return (yield from BlockInterpreter.run_for(self, op, [*bounds, *operands[3:]]))

    # -- operations

    def execute(self, op: Op, operands: list[Any]) -> None:
        varying = [v in self.varying for v in op.operands]
        if isinstance(op, ops.Bid):
            number = self.blocks[:, op.axis].astype(np.int32)
            varies = bool((number != number[0]).any())
            self._give(op, [number if varies else number[0, ...]], varies)
        elif isinstance(op, ops.LoadView):
            self._load(op, operands, varying)
        elif isinstance(op, ops.StoreView):
            self._store(op, operands, varying)
        elif self.reducing or not any(varying):
            CheckedBlock.execute(self, op, operands)
            self._set_varying(op.results, [False] * len(op.results))
        elif isinstance(op, (Reduce, Scan)):
            self._reduction_rows(op, operands, varying)
        else:
            self._compute(op, operands, varying)

    def _compute(self, op: Op, operands: list[Any], varying: list[bool]) -> None:
        if isinstance(op, (ops.Assert, ops.Assume)):
            condition = operands[0]
            if not condition.all():
                raise self._alone(self._any(~condition) if varying[0] else None)
            return
        if op.spec.elementwise or type(op) in PRODUCTS:
            rank = max(v.tile.rank for v in op.operands)
            tiles = [_lifted(x, rank) if v else x for x, v in zip(operands, varying)]
            if type(op) in CHECKS:
                CHECKS[type(op)](self, op, tiles, ())
            self._give(op, self.evaluate(op, tiles), True)
        elif type(op) in _MOVES:
            self._give(op, [_MOVES[type(op)](op, operands[0])], True)
        else:
            self._give(op, self._each(op, operands, varying), True)

    def _each(self, op: Op, operands: list[Any], varying: list[bool]) -> list[Array]:
        """The results of an operation, block by block."""
        found = []
        for position in range(len(self.blocks)):
            self._only = position
            mine = [x[position, ...] if v else x for x, v in zip(operands, varying)]
            if type(op) in CHECKS:
                CHECKS[type(op)](self, op, mine, ())
            found.append(self.evaluate(op, mine))
        self._only = None
        if not all(isinstance(x, np.ndarray) for x in found[0]):
            raise self._alone()  # a view whose extents differ
        return [np.stack(tiles) for tiles in zip(*found)]

    def _reduction_rows(self, op: CombiningOp, operands: list[Any], varying: list[bool]) -> None:
        count = len(self.blocks)
        tiles = [x if v else np.broadcast_to(x, (count, *x.shape)) for x, v in zip(operands, varying)]
        (body,) = op.regions
        own = {*body.args, *(r for inner in body.ops for r in inner.results)}
        if any(v in self.varying and v not in own for inner in body.ops for v in inner.operands):
            raise self._alone()
        wrong = overflowing_rows(op, tiles[0], op.axis + 1)
        if wrong is not None and wrong.any():
            raise self._alone(self._any(wrong))
        before, self.reducing = self.reducing, True
        results = FOLDS[type(op)]({**op.attributes, "axis": op.axis + 1}, tiles, self.combiner(body))
        self.reducing = before
        self._give(op, results, True)

    # -- memory

    def _load(self, op: ops.LoadView, operands: list[Any], varying: list[bool]) -> None:
        partition: PartitionView = operands[0]
        seen = self._observed(op, partition, operands[1:], operands, varying)
        dtype, type = partition.type.view.dtype, partition.type
        varies = any(varying)
        first = seen.first if varies else seen.first[:1]
        if seen.array.uninitialized is not None:
            flags = _windows(seen.array.uninitialized, first, seen)
            if flags.any():
                raise self._alone(self._any(flags) if varies else None)
        low = seen.array.buffer.low
        rest = (int(partition.view.base.address) - low) % dtype.bytes
        whole = self.memory.bytes[seen.array.number][rest:]
        elements = whole[: whole.size // dtype.bytes * dtype.bytes].view(dtype.storage)
        tiles = _windows(elements, first, seen)
        if seen.padding:
            padded = constant_array(ops.padding_value(type.padding, dtype), dtype, (len(first), *type.tile_shape))
            inside = (slice(None), *seen.inside)
            padded[inside] = tiles
            tiles = padded
        self.accesses.append(seen)
        self._give(op, [tiles if varies else tiles[0]], varies)

    def _store(self, op: ops.StoreView, operands: list[Any], varying: list[bool]) -> None:
        seen = self._observed(op, operands[0], operands[2:], operands, varying)
        if not seen.array.buffer.writable or not injective(seen.shape, seen.strides):
            raise self._alone()
        self.accesses.append(seen)

    def _observed(
        self,
        op: ops.ViewMemoryOp,
        partition: PartitionView,
        indices: list[Array],
        operands: list[Any],
        varying: list[bool],
    ) -> Observed:
        """The access of each block; the part of the tile that is inside the array is the same in all."""
        type, view = partition.type, partition.view
        starts = [i.astype(np.int64) * step for i, step in zip(indices, type.steps)]
        bounds: list[Array] = []
        for start, axis, length in zip(starts, type.order, type.tile_shape):
            low = np.clip(-start, 0, length)
            bounds += [low, np.maximum(np.minimum(view.shape[axis] - start, length), low)]
        ends = self._same(*bounds) if bounds else []
        inside = tuple(slice(low, high) for low, high in zip(ends[::2], ends[1::2]))
        shape = tuple(s.stop - s.start for s in inside)
        whole = shape == type.tile_shape
        promised = any(p and n < m for p, n, m in zip(op.promised, shape, type.tile_shape))
        undetermined = isinstance(op, ops.LoadView) and type.padding is PaddingMode.UNDETERMINED
        if promised or 0 in shape or (not whole and undetermined):
            raise self._alone()
        size = type.view.dtype.bytes
        strides = tuple(view.strides[a] for a in type.order)
        first = view.base.address + size * sum((s + i.start) * n for s, i, n in zip(starts, inside, strides))
        addresses = np.broadcast_to(np.asarray(first, np.int64), len(self.blocks))
        allocation = int(view.base.allocation)
        if allocation == UNKNOWN_ALLOCATION:
            raise self._alone()
        array = self.launch.arrays[allocation]
        reach = [size * (n - 1) * s for n, s in zip(shape, strides)]
        low, high = (addresses + sum(bound(r, 0) for r in reach) for bound in (min, max))
        if size != array.unit or low.min() < array.buffer.low or high.max() + size > array.buffer.high:
            raise self._alone()
        padding = 0 if whole else type.tile.size - int(np.prod(shape))
        positions = (addresses - array.buffer.low) // size
        kept: tuple[Any, Any] = (operands, varying) if isinstance(op, ops.StoreView) else ((), ())
        return Observed(op, array, inside, positions, shape, strides, padding, *kept)


def _windows(elements: Array, first: Array, seen: Observed) -> Array:
    """A copy of the windows of ``elements`` that begin at ``first``, one after the other."""
    size = elements.itemsize
    start = int(first.min())
    count = int(first.max()) - start + 1
    steps = (size, *(s * size for s in seen.strides))
    bits = elements[start:].view(f"u{size}")  # NumPy has no strides of float8
    return as_strided(bits, (count, *seen.shape), steps)[first - start].view(elements.dtype)


def _lifted(x: Array, rank: int) -> Array:
    """A value of every block as one of tiles of ``rank``, so that it meets them element by element."""
    return x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])


_MOVES: dict[type[Op], Callable[[Any, Array], Array]] = {
    Reshape: lambda op, x: x.reshape(x.shape[0], *op.shape),
    Broadcast: lambda op, x: np.broadcast_to(_lifted(x, len(op.shape)), (x.shape[0], *op.shape)),
    Permute: lambda op, x: x.transpose(0, *(a + 1 for a in op.axes)),
}
