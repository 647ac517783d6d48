"""Fusion groups: what the loops that compute some values read, and which parts of them other code needs too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.cpu.loops.fused import FusedOps, keeps_extents
from tilewright.backends.cpu.loops.kinds import ELEMENTWISE, array_axis, by_squares, innermost
from tilewright.backends.cpu.loops.ranges import KnownRanges
from tilewright.backends.cpu.loops.schedule import Schedule
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops import arith, floats, memory
from tilewright.ir.ops.control import For, Loop
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.shape import Broadcast, Constant, Extract, IntToPtr, Iota, Permute, PtrToInt, Reshape, Undefined
from tilewright.ir.reachable import reachable
from tilewright.ir.types import TileType

# What an element costs relative to an addition; 1 where nothing is said.
COSTS: dict[type[Op], int] = {
    **dict.fromkeys((Constant, Iota, Undefined, Broadcast, Reshape, Permute, Extract), 0),
    **dict.fromkeys((memory.AssumeDivisible, memory.AssumeBounded, memory.AssumeBlocked, PtrToInt, IntToPtr), 0),
    **dict.fromkeys((arith.Div, arith.Rem, arith.Sqrt, floats.Rsqrt, memory.Load), 8),
    **dict.fromkeys((floats.Exp, floats.Exp2, floats.Log, floats.Log2, floats.Sin, floats.Cos, floats.Tanh), 20),
    **dict.fromkeys((floats.Pow, floats.Tan, floats.Sinh, floats.Cosh, floats.Atan2), 40),
}
# From benchmarks/results/constants.md: within the noise of it, other values of both are no better.
_FMA = 4  # multiplications and additions of a product that take as long as an addition of elements from memory
CHEAP = 3  # computing this much again costs less than keeping it in memory
CHEAP_TWICE = 4 * CHEAP  # the same of what just two neighbours need: a product of complex numbers, kept or not


class FusionGroup(FusedOps):
    """A fusion group: the deferred ops below ``values``, which the same loops compute."""

    def __init__(
        self, schedule: Schedule, values: Sequence[Value], consumer: Op | None, beside: Sequence[Value] = ()
    ) -> None:
        """``consumer`` is the op that the loops are for; None when the only value is wanted for itself. What is
        ``beside`` is for code outside these loops, whatever it costs."""
        super().__init__([*values, *beside], schedule.is_bound)
        self.schedule = schedule
        self._beside = set(beside)
        self._wanted = values[0] if consumer is None else None
        if consumer is not None:
            for v in values:
                self.users.setdefault(v, set()).add(consumer)

    @property
    def buffers(self) -> dict[Value, bool]:
        """The tiles in buffers that the loops read, and whether at the same index only."""
        return {v: same for v, same in self.leaves.items() if self.schedule.buffer(v) is not None}

    def shared(self) -> list[Op]:
        """Ops whose results code outside these loops needs as well, and which are too costly to compute again."""
        remaining, deferred = self.schedule.uses.remaining, self.schedule.deferred
        return [
            op
            for op in self.ops
            if op.result is not self._wanted
            and op.result.tile.size > 1
            and op in deferred
            and remaining[op.result] > len(self.users.get(op.result, ()))
            and (op.result in self._beside or (cost(self.schedule, op.result) > CHEAP and not self._is_told(op.result)))
        ]

    def _is_told(self, value: Value) -> bool:
        """Whether ``value`` is a mask of which ranges tell if it is true everywhere, so that loops seldom need it."""
        t = value.tile
        is_mask = not t.is_pointer and t.element.is_bool
        return is_mask and KnownRanges(self.schedule.is_bound, 0).all_true(value)

    def loads(self) -> list[Op]:
        return [op for op in self.ops if isinstance(op, (memory.Load, memory.LoadView))]


def block_work(function: Function) -> int | None:
    """About how much a block computes, in additions of elements; None when a loop makes that unknown."""
    total = 0
    for op in function.walk():
        if isinstance(op, (For, Loop, Mma)):
            return None
        total += op_work(op)
    return total


def op_work(op: Op) -> int:
    """About how much ``op`` computes, apart from its regions, in additions of elements."""
    if isinstance(op, LoopNest):
        return 0  # its body does it all
    tiles = [v.tile.size for v in (*op.operands, *op.results) if isinstance(v.type, TileType)]
    if isinstance(op, Mma):
        return op.result.tile.size * op.x.tile.shape[-1] // _FMA
    return COSTS.get(type(op), 1) * max(tiles, default=0)


def cost(schedule: Schedule, value: Value) -> int:
    """About how much work one element of a deferred ``value`` is."""
    return element_cost(value, schedule.is_bound)


def element_cost(value: Value, is_there: Callable[[Value], bool]) -> int:
    """About how much work one element of ``value`` is, computed from values that are there."""

    def operands(v: Value) -> Sequence[Value]:
        tiles = () if v.op is None or is_there(v) else v.op.operands
        return [o for o in tiles if isinstance(o.type, TileType) and o.tile.size > 1]

    if value.tile.size == 1:
        return 0
    return sum(1 if v.op is None or is_there(v) else COSTS.get(type(v.op), 1) for v in reachable([value], operands))


def transposed_axis(schedule: Schedule, value: Value) -> int | None:
    """``_memory_axis`` of a deferred permute or load_view where ``by_squares`` holds of it; else None."""
    if schedule.is_bound(value) or not isinstance(value.op, (Permute, memory.LoadView)):
        return None
    return by_squares(value.tile, _memory_axis(schedule, value))


def _memory_axis(schedule: Schedule, value: Value) -> int | None:
    """The axis along which neighbours of ``value`` are computed from neighbours in memory; None when unknown."""
    op = value.op
    if schedule.buffer(value) is not None:
        return innermost(value.tile)
    if schedule.is_bound(value) or op is None:
        return None
    if isinstance(op, memory.LoadView):
        return array_axis(op)
    if isinstance(op, Permute):
        axis = _memory_axis(schedule, op.x)
        return None if axis is None else op.axes.index(axis)
    if isinstance(op, Reshape) and keeps_extents(op):
        axis = _memory_axis(schedule, op.x)
        longer = [[k for k, n in enumerate(v.tile.shape) if n > 1] for v in (op.x, value)]
        return None if axis not in longer[0] else longer[1][longer[0].index(axis)]
    if type(op) in ELEMENTWISE:
        return next((a for a in (_memory_axis(schedule, v) for v in op.operands) if a is not None), None)
    return None
