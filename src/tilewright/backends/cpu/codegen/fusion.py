"""Fusion groups: what the loops that compute some values read, and which parts of them other code needs too."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.scratch import element_bytes
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
from tilewright.ir.ops.memory import AssumeBlocked, AssumeBounded, AssumeDivisible, Load, LoadView
from tilewright.ir.ops.shape import Broadcast, Constant, Extract, IntToPtr, Iota, Permute, PtrToInt, Reshape, Undefined
from tilewright.ir.types import TileType

# What an element costs relative to an addition; 1 where nothing is said.
_COSTS: dict[type[Op], int] = {
    **dict.fromkeys((Constant, Iota, Undefined, Broadcast, Reshape, Permute, Extract), 0),
    **dict.fromkeys((AssumeDivisible, AssumeBounded, AssumeBlocked, PtrToInt, IntToPtr), 0),
    **dict.fromkeys((Div, Rem, Sqrt, Rsqrt, Load), 8),
    **dict.fromkeys((Exp, Exp2, Log, Log2, Sin, Cos, Tanh), 20),
    **dict.fromkeys((Pow, Tan, Sinh, Cosh, Atan2), 40),
}
_FMA = 4  # multiplications and additions of a product that take as long as an addition of elements from memory
CHEAP = 3  # computing this much again costs less than keeping it in memory
_REARRANGING = frozenset({Permute, Extract})


class FusionGroup:
    """A fusion group: the deferred ops below ``values``, tiles of one shape, which the same loops compute.

    An op has the *same index* when the loops need its element i together with element i of ``values`` only, and not
    also in some other order.
    """

    def __init__(self, state: State, values: Sequence[Value], consumer: Op | None) -> None:
        """``consumer`` is the op that the loops are for; None when the only value is wanted for itself."""
        self.state = state
        self.ops: list[Op] = []  # operands first
        self.width = 1  # bytes of the widest element
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
        bound = self.state.bindings.get(value)
        if value.tile.size > 1:
            self.width = max(self.width, element_bytes(value.tile.dtype))
        if isinstance(bound, Buffer):
            self.buffers[value] = same_index and self.buffers.get(value, True)
        if bound is not None:
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
        remaining, deferred = self.state.uses.remaining, self.state.deferred
        return [
            op
            for op in self.ops
            if op.result is not self._wanted
            and op.result.tile.size > 1
            and op in deferred
            and remaining[op.result] > len(self._users.get(op.result, ()))
            and cost(self.state, op.result) > CHEAP
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
    tiles = [v.tile.size for v in (*op.operands, *op.results) if isinstance(v.type, TileType)]
    if isinstance(op, (Mma, MmaScaled)):
        return op.result.tile.size * op.x.tile.shape[-1] // _FMA
    return _COSTS.get(type(op), 1) * max(tiles, default=0)


def cost(state: State, value: Value) -> int:
    """About how much work one element of a deferred ``value`` is."""
    total, pending, seen = 0, [value], {value}
    while pending:
        v = pending.pop()
        if not isinstance(v.type, TileType) or v.tile.size == 1:
            continue
        if state.bindings.get(v) is not None or v.op is None:
            total += 1
            continue
        total += _COSTS.get(type(v.op), 1)
        fresh = [o for o in v.op.operands if o not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return total
