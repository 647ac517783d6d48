"""Fusion groups: what the loops that compute some values read, and which parts of them other code needs too."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.loops.kinds import ELEMENTWISE, view_strides
from tilewright.backends.cpu.loops.schedule import Schedule
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops.arith import (
    Atan2,
    Cos,
    Cosh,
    Div,
    Exp,
    Exp2,
    Log,
    Log2,
    Pow,
    Rem,
    Rsqrt,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
)
from tilewright.ir.ops.control import For, Loop
from tilewright.ir.ops.linear import Mma, MmaScaled
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import (
    AssumeBlocked,
    AssumeBounded,
    AssumeDivisible,
    Load,
    LoadView,
    MakePartitionView,
    StoreView,
)
from tilewright.ir.ops.shape import Broadcast, Constant, Extract, IntToPtr, Iota, Permute, PtrToInt, Reshape, Undefined
from tilewright.ir.types import TileType

# What an element costs relative to an addition; 1 where nothing is said.
COSTS: dict[type[Op], int] = {
    **dict.fromkeys((Constant, Iota, Undefined, Broadcast, Reshape, Permute, Extract), 0),
    **dict.fromkeys((AssumeDivisible, AssumeBounded, AssumeBlocked, PtrToInt, IntToPtr), 0),
    **dict.fromkeys((Div, Rem, Sqrt, Rsqrt, Load), 8),
    **dict.fromkeys((Exp, Exp2, Log, Log2, Sin, Cos, Tanh), 20),
    **dict.fromkeys((Pow, Tan, Sinh, Cosh, Atan2), 40),
}
# Chosen; no measurement of them alone is on record.
_FMA = 4  # multiplications and additions of a product that take as long as an addition of elements from memory
CHEAP = 3  # computing this much again costs less than keeping it in memory
SMALLEST_SQUARE = 4  # elements along a side; less is not worth transposing in registers
_REARRANGING = frozenset({Permute, Extract})


class FusionGroup:
    """A fusion group: the deferred ops below ``values``, tiles of one shape, which the same loops compute.

    An op has the *same index* when the loops need its element i together with element i of ``values`` only, and not
    also in some other order.
    """

    def __init__(self, schedule: Schedule, values: Sequence[Value], consumer: Op | None) -> None:
        """``consumer`` is the op that the loops are for; None when the only value is wanted for itself."""
        self.schedule = schedule
        self.ops: list[Op] = []  # operands first
        self.buffers: dict[Value, bool] = {}  # read, and whether at the same index only
        self._same_index: dict[Op, bool] = {}
        self._broadcast: set[Op] = set()
        self._users: dict[Value, set[Op]] = {}
        for v in values:
            if consumer is not None:
                self._users.setdefault(v, set()).add(consumer)
            self._visit(v, True)
        self._wanted = None if consumer is not None else values[0]

    def same_index(self, op: Op) -> bool:
        return self._same_index[op]

    def _visit(self, value: Value, same_index: bool) -> None:
        if self.schedule.buffer(value) is not None:
            self.buffers[value] = same_index and self.buffers.get(value, True)
        if self.schedule.is_bound(value):
            return
        op = value.op
        assert op is not None
        seen = self._same_index.get(op)
        if seen is not None and (same_index or not seen):
            return
        self._same_index[op] = same_index
        same_index = same_index and type(op) not in _REARRANGING
        for v in op.operands:
            if isinstance(op, Broadcast) and v.tile.shape != op.result.tile.shape:
                same_index = False
                if v.op is not None:
                    self._broadcast.add(v.op)
            if isinstance(v.type, TileType):
                self._users.setdefault(v, set()).add(op)
                self._visit(v, same_index)
        if seen is None:
            self.ops.append(op)

    def shared(self) -> list[Op]:
        """Ops whose results code outside these loops needs as well, and which are too costly to compute again."""
        remaining, deferred = self.schedule.uses.remaining, self.schedule.deferred
        return [
            op
            for op in self.ops
            if op.result is not self._wanted
            and op.result.tile.size > 1
            and op in deferred
            and remaining[op.result] > len(self._users.get(op.result, ()))
            and cost(self.schedule, op.result) > CHEAP
        ]

    def broadcast_operands(self) -> list[Op]:
        """Ops whose elements the loops need many times each, because they are broadcast."""
        return [op for op in self.ops if op in self._broadcast and op.result.tile.size > 1]

    def loads(self) -> list[Op]:
        return [op for op in self.ops if isinstance(op, (Load, LoadView))]


def block_work(function: Function) -> int | None:
    """About how much a block computes, in additions of elements; None when a loop makes that unknown."""
    total = 0
    for op in function.walk():
        if isinstance(op, (For, Loop, Mma, MmaScaled)):
            return None
        total += op_work(op)
    return total


def op_work(op: Op) -> int:
    """About how much ``op`` computes, apart from its regions, in additions of elements."""
    if isinstance(op, LoopNest):
        return 0  # its body does it all
    tiles = [v.tile.size for v in (*op.operands, *op.results) if isinstance(v.type, TileType)]
    if isinstance(op, (Mma, MmaScaled)):
        return op.result.tile.size * op.x.tile.shape[-1] // _FMA
    return COSTS.get(type(op), 1) * max(tiles, default=0)


def cost(schedule: Schedule, value: Value) -> int:
    """About how much work one element of a deferred ``value`` is."""
    total, pending, seen = 0, [value], {value}
    while pending:
        v = pending.pop()
        if not isinstance(v.type, TileType) or v.tile.size == 1:
            continue
        if schedule.is_bound(v) or v.op is None:
            total += 1
            continue
        total += COSTS.get(type(v.op), 1)
        fresh = [o for o in v.op.operands if o not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return total


def same_elements(load: LoadView, store: StoreView) -> bool:
    """Whether equal positions of both tiles surely are the same element of memory."""
    views = load.view, store.view
    roots = [v.op.view if isinstance(v.op, MakePartitionView) else v for v in views]
    return views[0].type == views[1].type and roots[0] is roots[1] and load.indices == store.indices


def transposed_axis(schedule: Schedule, value: Value) -> int | None:
    """``_memory_axis`` of a deferred permute or load_view where that is not the innermost axis; else None."""
    op, t = value.op, value.tile
    if op is None or schedule.is_bound(value) or not isinstance(op, (Permute, LoadView)):
        return None
    axis, last = _memory_axis(schedule, value), innermost(t)
    if axis is None or axis == last or min(t.shape[axis], t.shape[last]) < SMALLEST_SQUARE:
        return None
    return None if t.is_pointer or t.element.is_bool else axis


def _memory_axis(schedule: Schedule, value: Value) -> int | None:
    """The axis along which neighbours of ``value`` are computed from neighbours in memory; None when unknown."""
    op = value.op
    if schedule.buffer(value) is not None:
        return innermost(value.tile)
    if schedule.is_bound(value) or op is None:
        return None
    if isinstance(op, LoadView):
        axes = [k for k, stride in enumerate(view_strides(op)) if stride == 1]
        return next((k for k in axes if value.tile.shape[k] > 1), None)
    if isinstance(op, Permute):
        axis = _memory_axis(schedule, op.x)
        return None if axis is None else op.axes.index(axis)
    if type(op) in ELEMENTWISE:
        return next((a for a in (_memory_axis(schedule, v) for v in op.operands) if a is not None), None)
    return None


def innermost(t: TileType) -> int:
    """The last axis of more than one element."""
    return max((k for k, n in enumerate(t.shape) if n > 1), default=0)
