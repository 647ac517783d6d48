"""The pass that takes the rows of a tile one by one, or some at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.cpu.loops.groups import CHEAP, COSTS
from tilewright.backends.cpu.loops.kinds import ELEMENTWISE, LONGEST_STORED, SMALLEST_SQUARE
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int64
from tilewright.ir.effects import has_effect, is_ordered
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import Add, Cast, Mul
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.linear import CombiningOp, Reduce, Scan
from tilewright.ir.ops.memory import LoadView, MakePartitionView, StoreView, ViewMemoryOp
from tilewright.ir.ops.shape import Broadcast, Constant, Permute, Reshape
from tilewright.ir.rewrite import clone_op, stand_for
from tilewright.ir.types import TileType
from tilewright.records import dataclass
from tilewright.transforms.base import InPlacePass

# Bytes of a row that is taken by itself: norms and softmax of rows of 4 and 8 KiB gain, of shorter and longer ones they
# lose (``benchmarks/cpu_row_blocks.py``).
_SHORTEST, _LONGEST = 4 << 10, 8 << 10


class SplitRows(InPlacePass):
    """Computes the rows of what a store stores in a loop, where rows are reduced or scanned on the way.

    Fusion makes a nest of each reduction, which reads all rows before the next nest reads them again. A loop over the
    rows keeps a row in the first-level cache from its first use to its last one. Rows that are scanned are transposed
    together, and kept in the second-level cache until they are stored.

    Arrays that are read and written must be different ones: rows are stored before others are loaded. After the stores
    have sunk, so that loads of them are used up.
    """

    name: ClassVar[str] = "split-rows"

    def change(self, function: Function) -> bool:
        """Never fails."""
        alias = AnalysisManager(function).get(AliasAnalysis)
        stores = [op for op in function.walk() if isinstance(op, StoreView)]
        changed = [_split(op, alias) for op in stores]
        return any(changed)


def _split(store: StoreView, alias: AliasAnalysis) -> bool:
    t = store.value.tile
    axis = next((k for k, n in enumerate(t.shape) if n > 1), None)
    if axis is None or axis == t.rank - 1 or is_ordered(store):
        return False
    row = t.size // t.shape[axis] * t.element.bytes
    if store.block is None or not (_SHORTEST <= row <= _LONGEST or row * t.shape[axis] > LONGEST_STORED):
        return False
    rows = _Rows(store, store.block, axis)
    if not rows.collect() or not rows.may_move(alias):
        return False
    if rows.have(Scan):
        count = 1 << (LONGEST_STORED // row).bit_length() - 1 if row <= LONGEST_STORED else 0
        if not SMALLEST_SQUARE <= count < t.shape[axis]:
            return False
        rows.emit(count)
        return True
    if not _SHORTEST <= row <= _LONGEST:
        return False
    rows.emit(1)
    return True


@dataclass(eq=False, repr=False)
class _Rows:
    """What computes the rows of a stored tile: for each value, the axis along which the rows are.

    ``same`` are cheap ops that compute what is the same for all rows.
    """

    store: StoreView
    block: Block
    axis: int
    axes: dict[Value, int] = field(default_factory=dict)
    same: set[Op] = field(default_factory=set)

    @property
    def ops(self) -> list[Op]:
        """In program order, without those that are the same for all rows."""
        found = {v.op for v in self.axes}
        return [op for op in self.block.ops if op in found]

    @property
    def accesses(self) -> list[ViewMemoryOp]:
        """The accesses of rows."""
        return [*(op for op in self.ops if isinstance(op, LoadView)), self.store]

    def collect(self) -> bool:
        """Find the ops; False where rows cannot be computed each for itself, or where that is no use.

        It is none without a reduction or scan, and where code elsewhere needs all rows of one, or of a load.
        """
        pending = [(self.store.value, self.axis)]
        while pending:
            value, axis = pending.pop()
            if self.axes.setdefault(value, axis) != axis:
                return False
            op = value.op
            if op is None or op.block is not self.block:
                return False
            operands = _operands(op, axis)
            if operands is None:
                return False
            if isinstance(op, Broadcast) and not operands:
                self.same |= self._cheap(op.x)
            pending += [pair for pair in operands if pair not in self.axes.items()]
        ops = self.ops
        shared = [op for op in ops if isinstance(op, (CombiningOp, LoadView))]
        used = {user for op in shared for r in op.results for user in r.users}
        return self.have(CombiningOp) and used <= {*ops, self.store} and self._alike()

    def have(self, kind: type[Op]) -> bool:
        """Whether an op of this kind computes rows."""
        return any(isinstance(op, kind) for op in self.ops)

    def _cheap(self, value: Value) -> set[Op]:
        """The ops of the block that compute ``value``, where that costs little; otherwise none."""
        found, pending = set[Op](), [value.op]
        while pending:
            op = pending.pop()
            if op is None or op.block is not self.block or op in found or op.results[0].tile.size == 1:
                continue
            plain = isinstance(op, (Broadcast, Constant, Reshape)) or type(op) in ELEMENTWISE
            if not plain and not (isinstance(op, LoadView) and not is_ordered(op)):
                return set()
            found.add(op)
            pending += [v.op for v in op.operands if isinstance(v.type, TileType)] if plain else []
        return found if sum(COSTS.get(type(op), 1) for op in found) <= CHEAP else set()

    def _alike(self) -> bool:
        """Whether all accesses are to the same rows."""
        for op in self.accesses:
            index, step = self._row(op)
            if not isinstance(op.view.op, MakePartitionView) or index.tile.element.bitwidth > 32:  # which may wrap
                return False
            if (index, step) != self._row(self.store):
                return False
        return True

    def _row(self, op: ViewMemoryOp) -> tuple[Value, int]:
        axis = self.axis if op is self.store else self.axes[op.results[0]]
        return op.indices[axis], op.view.partition.steps[axis]

    def may_move(self, alias: AliasAnalysis) -> bool:
        """Whether the loads may happen where the store is, and after parts of it."""
        ops, moved = self.block.ops, {*self.ops, *self.same}
        loads = [op for op in ops if op in moved and isinstance(op, LoadView)]
        if not loads:
            return False
        between = ops[ops.index(loads[0]) : ops.index(self.store)]
        target = alias.underlying_object(self.store.view)
        apart = all(alias.underlying_object(load.view) not in (None, target) for load in loads)
        return apart and target is not None and not any(has_effect(op, Effect.WRITE) for op in between)

    def emit(self, count: int) -> None:
        """Put the loop, in which ``count`` rows are computed at a time, in the place of the store."""
        builder = Builder.before(self.store)
        index, step = self._row(self.store)
        first = builder.emit(Mul, builder.emit(Cast, index, dtype=int64), builder.constant(step, int64))
        rows = self.store.value.tile.shape[self.axis]
        last = builder.emit(Add, first, builder.constant(rows, int64))
        body = Block()
        row = body.add_arg(first.type, "row")
        moved = {*self.ops, *self.same}
        views = {op: self._view(op, builder, count) for op in self.accesses}
        values: dict[Value, Value] = {}
        inner = Builder(body, self.store.loc)
        for op in self.block.ops:
            if op in self.same:
                inner.insert(clone_op(op, values))
                continue
            if op is not self.store and not (op.results and op.results[0] in self.axes):
                continue
            inner.loc = op.loc
            axis = self.axis if op is self.store else self.axes[op.results[0]]
            if isinstance(op, (LoadView, StoreView)):
                indices = [row if k == axis else v for k, v in enumerate(op.indices)]
                operands = [values[op.value]] if isinstance(op, StoreView) else []
                made = inner.emit_op(type(op), views[op], *operands, indices, **op.attributes)
            else:
                made = _some_rows(op, axis, count, values, inner)
            stand_for(op, made, values)
        inner.emit_op(Continue, [])
        builder.emit_op(For, first, last, builder.constant(count, int64), [], body=body)
        self.store.erase()
        for op in reversed([op for op in self.block.ops if op in moved]):
            if not any(r.users for r in op.results):
                op.erase()

    def _view(self, op: ViewMemoryOp, builder: Builder, count: int) -> Value:
        """The view of ``op`` in tiles of ``count`` rows, at every row."""
        t, made = op.view.partition, op.view.op
        assert isinstance(made, MakePartitionView)
        axis = self.axis if op is self.store else self.axes[op.results[0]]
        shape, steps = _with(t.tile_shape, axis, count), _with(t.steps, axis, 1)
        return builder.emit(MakePartitionView, made.view, type=replace(t, tile_shape=shape, steps=steps))


def _with(extents: Sequence[int], axis: int, extent: int) -> tuple[int, ...]:
    """``extents`` with ``extent`` along ``axis``."""
    return tuple(extent if k == axis else n for k, n in enumerate(extents))


def _operands(op: Op, axis: int) -> list[tuple[Value, int]] | None:
    """The operands that have the rows of the result, which are along ``axis``, and where they have them; None where a
    row of the result is not computed from one row each."""
    if isinstance(op, Constant) or (isinstance(op, LoadView) and not is_ordered(op)):
        return []
    if isinstance(op, Broadcast):
        return [] if op.x.tile.shape[axis] == 1 else [(op.x, axis)]
    if isinstance(op, Permute):
        return [(op.x, op.axes[axis])]
    if isinstance(op, Reshape):
        source, shape = op.x.tile.shape, op.shape
        found = [k for k, n in enumerate(source) if n == shape[axis] and math.prod(source[:k]) == 1]
        return [(op.x, found[-1])] if found and math.prod(shape[:axis]) == 1 else None
    if isinstance(op, Reduce):
        return [(v, axis + (axis >= op.axis)) for v in op.values]
    if isinstance(op, Scan):
        return None if axis == op.axis else [(v, axis) for v in op.values]
    if type(op) in ELEMENTWISE and all(isinstance(v.type, TileType) and v.tile.rank for v in op.operands):
        return [(v, axis) for v in op.operands]
    return None


def _some_rows(op: Op, axis: int, count: int, values: dict[Value, Value], builder: Builder) -> Op:
    """Emit ``op`` for ``count`` rows."""
    if isinstance(op, Constant):
        return builder.emit_op(Constant, value=op.value, type=op.type.with_shape(_with(op.type.shape, axis, count)))
    if isinstance(op, (Broadcast, Reshape)):
        return builder.emit_op(type(op), values.get(op.x, op.x), shape=_with(op.shape, axis, count))
    copied = clone_op(op, dict(values))
    for old, new in zip(op.results, copied.results):
        new.type = old.tile.with_shape(_with(old.tile.shape, axis, count))
    return builder.insert(copied)
