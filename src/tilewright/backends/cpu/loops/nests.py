"""Making loop nests: what is fused with what, and what is kept in a buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any

from tilewright.backends.cpu.loops.arena import Buffer
from tilewright.backends.cpu.loops.groups import CHEAP, CHEAP_TWICE, FusionGroup, cost, transposed_axis
from tilewright.backends.cpu.loops.kinds import extents_of, is_array_tile
from tilewright.backends.cpu.loops.ranges import KnownRanges, largest_search, possible_checks
from tilewright.backends.cpu.loops.schedule import Schedule
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.location import UNKNOWN, Loc
from tilewright.ir.opdef import create
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.memory import Load, LoadView, Store, StoreView
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.rewrite import clone_op
from tilewright.records import dataclass


@dataclass(eq=False, repr=False)
class Body:
    """The body of a nest under construction, and what the values of Tile IR are in it."""

    schedule: Schedule
    block: Block = field(default_factory=Block)
    copied: dict[Value, Value] = field(default_factory=dict)

    def value(self, value: Value) -> Value:
        return self.copied[value] if value in self.copied else self.schedule.value(value)

    def copy(self, op: Op) -> Op:
        """Append a copy of ``op``."""
        outside = {v: self.schedule.value(v) for v in (*op.operands, *op.captured()) if v not in self.copied}
        copied = clone_op(op, {**outside, **self.copied})
        self.copied.update(zip(op.results, copied.results))
        self.block.append(copied)
        return copied

    def copy_all(self, ops: Iterable[Op]) -> None:
        """Append copies of ``ops``, operands first; loads from views stay outside."""
        for op in ops:
            if not is_array_tile(op.result):
                self.copy(op)

    def emit(self, cls: type[Op], *operand_groups: Any, loc: Loc, **keywords: Any) -> Op:
        """Append an op of the form."""
        op = create(cls, operand_groups, keywords, loc)
        self.block.append(op)
        return op

    def shaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """``value`` in ``shape``, which has the same extents but for those of 1."""
        found = self.value(value)
        if found.tile.shape == shape:
            return found
        return self.emit(Reshape, found, shape=shape, loc=UNKNOWN if value.op is None else value.op.loc).result

    def position(self, op: Op) -> int:
        """Where the copy of ``op`` stands."""
        return self.block.ops.index(self.copied[op.result].op)


# Ends the body: gives the values of the form that the nest yields first.
End = Callable[[Body], Sequence[Value]]


def fuse(
    schedule: Schedule,
    values: Sequence[Value],
    consumer: Op | None,
    buffers: Sequence[Buffer | None],
    end: End,
    *,
    beside: Sequence[Value] = (),
    transposed: int | None = None,
) -> list[Value]:
    """Append the nest that computes ``values``, for ``consumer``; ``end`` says what it yields into ``buffers``.

    Also kept is what is ``beside``, and what code outside needs and is too costly to compute twice. Gives what ``end``
    asked to yield.
    """
    group, shape = _prepare(schedule, values, consumer, beside), values[0].tile.shape
    side_outputs = [(op, target(schedule, op.result)) for op in group.shared()]
    body = Body(schedule)
    body.copy_all(group.ops)
    cause = values[0].op if consumer is None else consumer
    sides = [body.shaped(op.result, shape) for op, _ in side_outputs]
    kept = list(end(body))
    yielded = [*kept, *sides]
    loc = UNKNOWN if cause is None else cause.loc
    body.emit(Yield, yielded, loc=loc)
    outputs = (*buffers, *(b for _, b in side_outputs))
    nest = schedule.emit_nest(body.block, outputs, loc, transposed=transposed)
    for (op, buffer), result in zip(side_outputs, nest.results[len(kept) :]):
        schedule.materialized(op.result, schedule.shaped(result, op.result), buffer)
    return nest.results[: len(kept)]


def _comparable_loads(schedule: Schedule, values: Sequence[Value], consumer: Op | None) -> set[Op]:
    """The loads through pointers that a runtime check can tell to read nothing of what ``consumer`` stores to a view.

    Keeps the tiles that the checks of ``VersionNests`` will look at. Nothing tells the pointers of a scatter apart.
    """
    found: set[Op] = set()
    if isinstance(consumer, Store):
        return found
    for op in FusionGroup(schedule, values, consumer).loads():
        if isinstance(op, Load) and op.result.tile.size > 1:
            ranges = KnownRanges(schedule.is_bound, largest_search(op), lambda v: _keep_loads(schedule, v))
            if possible_checks(ranges, op, consumer if isinstance(consumer, StoreView) else None).compared:
                found.add(op)
    return found


def _keep_loads(schedule: Schedule, value: Value) -> None:
    for load in FusionGroup(schedule, [value], None).loads():
        if load.result.tile.size > 1:
            materialize(schedule, load.result)


def _prepare(schedule: Schedule, values: Sequence[Value], consumer: Op | None, beside: Sequence[Value]) -> FusionGroup:
    """The fusion group, after what its loops should not compute is in buffers."""
    while True:
        comparable = _comparable_loads(schedule, [*values, *beside], consumer)
        group = FusionGroup(schedule, values, consumer, [v for v in beside if not schedule.is_bound(v)])
        first = _to_materialize(schedule, group, values, consumer, comparable)
        if not first:
            return group
        materialize(schedule, first[-1].result)


def _to_materialize(
    schedule: Schedule, group: FusionGroup, values: Sequence[Value], consumer: Op | None, comparable: set[Op]
) -> list[Op]:
    """Ops of the group that have to be executed first, operands before users."""
    extents = extents_of(values[0])
    wanted = values[0] if consumer is None else None
    scatters, stores = isinstance(consumer, Store), isinstance(consumer, (Store, StoreView))
    repeated = group.broadcast_operands().items()
    costly_broadcasts = {op for op, n in repeated if cost(schedule, op.result) > (CHEAP_TWICE if n == 2 else CHEAP)}
    shared = {op for op in group.shared() if not group.same_index(op) or extents_of(op.result) != extents}

    def comes_first(op: Op) -> bool:
        if op in shared or op in costly_broadcasts:
            return True
        if (scatters and isinstance(op, LoadView)) or (stores and isinstance(op, Load)):
            # Pointers may repeat and overlap in any way: load all before storing, unless a check excludes it.
            return op.result.tile.size > 1 and op not in comparable
        return op.result is not wanted and group.same_index(op) and transposed_axis(schedule, op.result) is not None

    return [op for op in group.ops if comes_first(op)]


def write(schedule: Schedule, value: Value, buffer: Buffer) -> Value:
    """Append the nest that computes ``value`` into ``buffer``, which may hold what it is computed from.

    The result is ``value`` in ``buffer``; where it is bound so far stays as it is.
    """
    axis = transposed_axis(schedule, value)
    if axis is not None and isinstance(value.op, Permute):
        x = value.op.x
        if not schedule.is_bound(x) and cost(schedule, x) > CHEAP:
            materialize(schedule, x)
            axis = transposed_axis(schedule, value)
    (result,) = fuse(schedule, [value], None, [buffer], lambda body: [body.value(value)], transposed=axis)
    return result


def materialize(schedule: Schedule, value: Value) -> Buffer:
    """The buffer that holds ``value``, of more than one element; computes it if it is deferred."""
    bound = schedule.buffer(value)
    if bound is not None:
        return bound
    op = value.op
    assert op is not None and op in schedule.deferred
    if isinstance(op, Reshape):
        buffer = materialize(schedule, op.x)
        buffer.users += 1
        new = schedule.emit(Reshape, schedule.value(op.x), shape=op.shape, loc=op.loc).result
    else:
        buffer = target(schedule, value)
        new = write(schedule, value, buffer)
    if schedule.is_local(value):
        schedule.materialized(value, new, buffer)
    else:
        schedule.temporary(value, new, buffer)
    return buffer


def target(schedule: Schedule, value: Value) -> Buffer:
    """A buffer to compute ``value`` into."""
    reused = _reusable(schedule, value) if schedule.is_local(value) else None
    return schedule.allocate(value.tile) if reused is None else reused


def _reusable(schedule: Schedule, value: Value) -> Buffer | None:
    """A buffer that ``value`` may overwrite: of a value that only it needs, and reads element by element."""
    group = FusionGroup(schedule, [value], None)
    assert value.op is not None
    dying = schedule.uses.would_die([value.op], schedule.deferred)
    aliased = {id(schedule.buffer(v)) for v, same_index in group.buffers.items() if not same_index}
    for v in group.buffers:
        buffer = schedule.buffer(v)
        assert buffer is not None
        fits = (v.tile.size, v.tile.dtype) == (value.tile.size, value.tile.dtype)
        if fits and v in dying and buffer.users == 1 and id(buffer) not in aliased:
            buffer.users += 1
            return buffer
    return None
