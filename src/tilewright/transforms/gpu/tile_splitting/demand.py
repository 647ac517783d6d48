"""How each value of a kernel is needed where what it stores is divided: along which axes, or whole."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import prod
from typing import Any

from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops import memory
from tilewright.ir.ops.control import For, If, LoopOp, deciding_values, incoming
from tilewright.ir.ops.linear import Mma, MmaScaled, Reduce, Scan
from tilewright.ir.ops.shape import Broadcast, Cat, Constant, Extract, Insert, Iota, Permute, Reshape, Undefined

Axis = int | None  # the one along which a tile is divided; None: each block has the whole tile

STORES = (memory.Store, memory.StoreView)
MOVES = (memory.Load, memory.LoadView, *STORES)


class CannotSplit(Exception):
    """A tile cannot be divided as it would have to be."""


@dataclass(frozen=True)
class Division:
    """Tiles are divided into so many ``parts``. Each block reduces its part alone, where it needs all that reductions
    ``across`` the parts give."""

    parts: int = 2
    across: Container[Op] = ()

    def operand_axes(self, op: Op, axis: Axis) -> Sequence[Axis]:
        """How the operands of ``op`` are divided where its results, or what it stores, are divided along ``axis``."""
        if axis is None:
            if isinstance(op, (Mma, MmaScaled)):
                raise CannotSplit
            return [op.axis if isinstance(op, Reduce) and op in self.across else None] * len(op.operands)
        if isinstance(op, memory.ViewMemoryOp):
            t = op.view.partition
            if t.steps[axis] % (t.tile_shape[axis] // self.parts) or not isinstance(
                op.view.op, memory.MakePartitionView
            ):
                raise CannotSplit
            stored = op.value if isinstance(op, memory.StoreView) else None
            return [axis if v is stored else None for v in op.operands]
        rule = _RULES.get(type(op))
        if rule is not None:
            return rule(op, axis)
        if op.spec.elementwise or isinstance(op, MOVES):
            return [axis if v.tile.shape else None for v in op.operands]
        raise CannotSplit


HALVES = Division()


class DemandAnalysis:
    """How each value is needed where some are ``needed`` divided along an axis."""

    def __init__(self, needed: Iterable[tuple[Value, Axis]], division: Division = HALVES) -> None:
        self.division = division
        self._of: dict[Value, dict[Axis, None]] = {}
        self._pending: list[tuple[Value, Axis]] = []
        for value, axis in needed:
            self._need((value,), (axis,))
        while self._pending:
            self._follow(*self._pending.pop())

    def of(self, value: Value) -> tuple[Axis, ...]:
        """The axes along which ``value`` is divided, and None where it is needed whole."""
        return tuple(self._of.get(value, ()))

    def halved(self) -> Iterable[Value]:
        """The values that are not needed whole."""
        return (value for value, axes in self._of.items() if any(axis is not None for axis in axes))

    def _need(self, values: Iterable[Value], axes: Iterable[Axis]) -> None:
        for value, axis in zip(values, axes):
            known = self._of.setdefault(value, {})
            if axis not in known:
                known[axis] = None
                self._pending.append((value, axis))

    def _follow(self, value: Value, axis: Axis) -> None:
        """What ``value``, divided along ``axis``, needs."""
        op = value.op
        if axis is not None and value.tile.shape[axis] < self.division.parts:
            raise CannotSplit
        sources = incoming(value)
        if sources is not None:
            self._need(sources, repeat(axis))
        elif op is not None:
            if len(self.of(value)) > 1 and isinstance(op, (Mma, memory.Load, memory.LoadView)):
                raise CannotSplit  # each block would do it twice
            self._need(op.operands, self.division.operand_axes(op, axis))
            self._need(op.captured(), repeat(None))


def needed_by_stores(function: Function, axes: Mapping[Any, Axis], division: Division) -> Iterable[tuple[Value, Axis]]:
    """What ``function`` needs where what stores store is divided along their ``axes``, or whole."""
    for op in function.walk():
        if isinstance(op, (For, If)):
            yield from zip(deciding_values(op), repeat(None))
        elif op in axes:
            yield from zip(op.operands, division.operand_axes(op, axes[op]))


def carried_by(op: Op) -> Sequence[Value]:
    """What a loop carries, in its body."""
    return op.carried if isinstance(op, LoopOp) else []


def _reshaped(op: Reshape, axis: int) -> Sequence[Axis]:
    """Halves of both are halves of the elements in row-major order within what the axes before it count."""
    before, shape = prod(op.result.tile.shape[:axis]), op.x.tile.shape
    for a, n in enumerate(shape):
        if prod(shape[:a]) == before and n > 1:
            return [a]
    raise CannotSplit


def _multiplied(op: Mma, axis: int) -> Sequence[Axis]:
    x, y, rank = op.x, op.y, op.acc.tile.rank
    of_x = axis if axis != rank - 1 and x.tile.shape[axis] > 1 else None
    of_y = axis if axis != rank - 2 and y.tile.shape[axis] > 1 else None
    return [of_x, of_y, axis]


def _along_others(op: Cat | Scan, axis: int) -> Sequence[Axis]:
    if axis == op.axis:
        raise CannotSplit
    return [axis] * len(op.operands)


def _parts_of_whole_length(op: Extract | Insert, axis: int) -> Sequence[Axis]:
    tiles = (op.x,) if isinstance(op, Extract) else (op.x, op.value)
    if len({v.tile.shape[axis] for v in (*tiles, *op.results)}) > 1:
        raise CannotSplit
    return [axis] * len(tiles) + [None] * len(op.indices)


def _leading(op: Iota, axis: int) -> Sequence[Axis]:
    if prod(op.result.tile.shape[:axis]) > 1:
        raise CannotSplit
    return []


_RULES: dict[type[Op], Callable[[Any, int], Sequence[Axis]]] = {
    Constant: lambda op, axis: [],
    Undefined: lambda op, axis: [],
    Iota: _leading,
    Broadcast: lambda op, axis: [axis if op.x.tile.shape[axis] > 1 else None],
    Reshape: _reshaped,
    Permute: lambda op, axis: [op.axes[axis]],
    Reduce: lambda op, axis: [axis + (axis >= op.axis)] * len(op.operands),
    Scan: _along_others,
    Cat: _along_others,
    Extract: _parts_of_whole_length,
    Insert: _parts_of_whole_length,
    Mma: _multiplied,
    memory.AssumeDivisible: lambda op, axis: [axis],
    memory.AssumeBounded: lambda op, axis: [axis],
    memory.AssumeBlocked: lambda op, axis: [axis],
}
