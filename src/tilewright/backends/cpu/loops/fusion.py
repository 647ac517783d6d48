"""The pass that makes the loop-level form: fusion, and an offset in memory for every tile that is kept.

An op without side effects is not executed where it stands but in the loops that need its result. Statements
are: each becomes a nest, together with what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tilewright.backends.cpu.loops import control, linear
from tilewright.backends.cpu.loops.groups import CHEAP, FusionGroup, cost, transposed_axis
from tilewright.backends.cpu.loops.kinds import is_array_tile, is_fusible
from tilewright.backends.cpu.loops.nests import Body, fuse, materialize, write
from tilewright.backends.cpu.loops.schedule import Schedule
from tilewright.backends.cpu.target import Processor
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import has_effect, is_ordered
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.opdef import Effect, create
from tilewright.ir.ops import memory
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.ir.ops.loops import ReserveScratch, ScratchPointer, WritePart
from tilewright.ir.ops.shape import Cat, Insert, Pack, Unpack
from tilewright.ir.rewrite import with_body
from tilewright.ir.types import PointerType, TileType
from tilewright.records import dataclass

_DEEPEST = 64  # deferred ops in a chain: their code is generated recursively, and Python allows 1000 calls


@dataclass(frozen=True)
class FuseLoopNests:
    """Tile IR to the loop-level form, for ``processor``. Last of the passes over Tile IR, which know nothing of it."""

    name: ClassVar[str] = "fuse-loop-nests"
    processor: Processor

    def run(self, function: Function) -> Function:
        """TileUnsupportedFeatureError, with the location of the op, for what the CPU cannot do."""
        schedule = Schedule(function, self.processor, _schedule_block)
        with schedule.inside(function.body) as body:
            for arg in function.body.args:
                schedule.bind(arg, body.add_arg(arg.type, arg.name))
            schedule.schedule_block(function.body)
        reserve = create(ReserveScratch, [], {"bytes": schedule.arena.high_water}, function.loc)
        body.insert(reserve, body.ops[0])
        return with_body(function, body)


def _schedule_block(schedule: Schedule, block: Block) -> None:
    """Append what the ops of ``block`` become."""
    for op in block.ops:
        _schedule(schedule, op)


def _schedule(schedule: Schedule, op: Op) -> None:
    if is_fusible(op):
        _defer(schedule, op)
        return
    handle = _STATEMENTS.get(type(op))
    if handle is None:
        raise TileUnsupportedFeatureError(f"{op.name} on the CPU: the operation is not implemented", op.loc)
    if has_effect(op, Effect.WRITE):
        _load_before(schedule, op)
    for v in op.captured():
        _settle(schedule, v)
    handle(schedule, op)
    schedule.complete(op)
    for r in op.results:
        if schedule.uses.remaining[r] == 0:
            schedule.forget(r)


def _defer(schedule: Schedule, op: Op) -> None:
    """Leave ``op`` to the loops that need its result; a single element is computed right away."""
    result = op.result
    if schedule.uses.remaining[result] == 0:
        schedule.deferred.add(op)
        schedule.complete(op)
    elif result.tile.size == 1:
        schedule.deferred.add(op)
        _compute_element(schedule, op)
        schedule.complete(op)
    else:
        if is_array_tile(result):
            schedule.load_later(op)
        schedule.deferred.add(op)
        if schedule.deepen(op) == _DEEPEST:
            materialize(schedule, result)
        elif isinstance(op, (memory.Load, memory.LoadView)):
            schedule.pending.append(op)


def _compute_element(schedule: Schedule, op: Op) -> None:
    if all(schedule.is_bound(v) for v in op.operands):
        schedule.keep(op)
        return
    body = Body(schedule)
    body.copy_all(FusionGroup(schedule, [op.result], None).ops)
    body.emit(Yield, [body.value(op.result)], loc=op.loc)
    nest = schedule.emit_nest(body.block, [None], op.loc, lanes=1)
    schedule.bind(op.result, nest.result)


def _load_before(schedule: Schedule, op: Op) -> None:
    """Execute the deferred loads whose results are needed after ``op``, which may overwrite their memory, unless the
    loops of ``op`` compute what is needed of them."""
    loads = _needed_loads(schedule, op)
    if not control.needed_later(schedule, op, loads):
        for load in loads:
            materialize(schedule, load.result)


def _needed_loads(schedule: Schedule, op: Op) -> list[Op]:
    """The deferred loads whose results are needed after ``op``."""
    schedule.pending = [load for load in schedule.pending if load in schedule.deferred]
    beside = control.carried_beside(schedule, op)
    dying = schedule.uses.would_die([op, *(v.op for v in beside if v.op is not None)], schedule.deferred)
    return [load for load in schedule.pending if load.result not in dying]


def _settle(schedule: Schedule, value: Value) -> None:
    """Compute a deferred ``value`` that regions capture, unless computing it there again costs little."""
    if not isinstance(value.type, TileType) or value.op not in schedule.deferred or not schedule.is_local(value):
        return
    costly = cost(schedule, value) > CHEAP or transposed_axis(schedule, value) is not None
    if costly or FusionGroup(schedule, [value], None).loads():
        materialize(schedule, value)


# Statements


def _local_array(schedule: Schedule, op: memory.LocalArray) -> None:
    array = schedule.allocate_array(op.dtype, op.count)
    made = schedule.emit(
        ScratchPointer, offset=array.offset, bytes=op.count * op.dtype.bytes, type=PointerType(op.dtype), loc=op.loc
    )
    schedule.bind(op.result, made.result)


def _copy_end(op: Op) -> Callable[[Body], list[Value]]:
    """The end of a nest that is ``op`` itself, and yields its results."""
    return lambda body: body.copy(op).results


def _store(schedule: Schedule, op: memory.Store | memory.StoreView) -> None:
    if is_ordered(op):
        _element_by_element(schedule, op)
    elif isinstance(op, memory.StoreView):
        carried = control.carried_beside(schedule, op)
        later = control.needed_later(schedule, op, _needed_loads(schedule, op))

        def end(body: Body) -> list[Value]:
            found = [body.shaped(v, op.value.tile.shape) for v in carried]
            body.copy(op)
            return found

        slots = list(carried.values())
        found = fuse(schedule, [op.value, *carried], op, slots, end, beside=later)
        for v, new, slot in zip(carried, found, slots):
            schedule.materialized(v, schedule.shaped(new, v), slot)
    else:
        fuse(schedule, op.operands, op, (), _copy_end(op))


def _combination(schedule: Schedule, op: Reduce | Scan) -> None:
    if isinstance(op, Scan) and op.results[0].tile.size == 1:
        schedule.bind_all(op.results, map(schedule.value, op.values))
        return
    scalar = op.results[0].tile.size == 1
    buffers = [None if scalar else schedule.allocate(r.tile) for r in op.results]
    found = fuse(schedule, op.values, op, buffers, _copy_end(op))
    schedule.bind_all(op.results, found, buffers)


def _cat(schedule: Schedule, op: Cat) -> None:
    t, start = op.result.tile, 0
    buffer = schedule.allocate(t)
    into: Value | None = None
    for value in op.operands:
        origin = tuple(start if k == op.axis else 0 for k in range(t.rank))
        into = _write_part(schedule, op, into, value, [], origin, [buffer])
        start += value.tile.shape[op.axis]
    assert into is not None
    schedule.bind(op.result, into, buffer)


def _write_part(
    schedule: Schedule,
    op: Op,
    into: Value | None,
    value: Value,
    indices: list[Value],
    origin: tuple[int, ...],
    buffers: list[Any],
) -> Value:
    def end(body: Body) -> list[Value]:
        part, at = body.value(value), list(map(body.value, indices))
        return body.emit(WritePart, into, part, at, origin=origin, type=op.result.tile, loc=op.loc).results

    (new,) = fuse(schedule, [value], op, buffers, end)
    return new


def _reinterpret(schedule: Schedule, op: Pack | Unpack) -> None:
    """Reads the bytes of a tile where they are, as elements of another size."""
    buffer = materialize(schedule, op.x)
    buffer.users += 1
    new = schedule.emit(type(op), schedule.value(op.x), loc=op.loc, **op.attributes)
    schedule.bind(op.result, new.results[0], buffer)


def _insert(schedule: Schedule, op: Insert) -> None:
    """In place when nothing else needs the old tile."""
    x, value, t = op.x, op.value, op.result.tile
    if t.size == 1:
        schedule.bind(op.result, schedule.value(value))
        return
    if value.tile.size > 1:
        materialize(schedule, value)  # it may be computed from x
    buffer, into = materialize(schedule, x), schedule.value(x)
    if x in schedule.uses.would_die([op], schedule.deferred) and buffer.users == 1:
        buffer.users += 1
    else:
        buffer = schedule.allocate(t)
        into = write(schedule, x, buffer)
    schedule.bind(op.result, _write_part(schedule, op, into, value, op.indices, (), [buffer]), buffer)


def _statement(schedule: Schedule, op: Op, buffers: list[Any]) -> None:
    """Append the nest of ``op`` alone, with the deferred ops that it needs, and bind its results."""
    body = Body(schedule)
    tiles = [v for v in op.operands if isinstance(v.type, TileType) and v.tile.size > 1]
    for v in tiles:
        body.copy_all(o for o in FusionGroup(schedule, [v], op).ops if o.result not in body.copied)
    results = body.copy(op).results[: len(buffers)]
    body.emit(Yield, results, loc=op.loc)
    nest = schedule.emit_nest(body.block, buffers, op.loc)
    schedule.bind_all(op.results, nest.results, buffers)


def _element_by_element(schedule: Schedule, op: memory.PointerMemoryOp | memory.ViewMemoryOp) -> None:
    """Atomic operations, ordered loads and stores: one element after the other."""
    tiles = [v for v in op.operands if isinstance(v.type, TileType) and v.tile.size > 1]
    for v in tiles:  # loads go by vectors; one may be computed with another that needs it, and is gone then
        while loads := [load for load in FusionGroup(schedule, [v], op).loads() if load.result.tile.size > 1]:
            materialize(schedule, loads[-1].result)
    for v in _values(op):
        if v.tile.size > 1 and cost(schedule, v) > CHEAP:
            materialize(schedule, v)
    used = [r for r in op.results if not isinstance(op, memory.AtomicRmw) or schedule.uses.remaining[r]]
    buffers = [schedule.allocate(r.tile) if r.tile.size > 1 else None for r in used]
    _statement(schedule, op, buffers)


def _values(op: Op) -> list[Value]:
    """What ``op`` stores or compares with."""
    if isinstance(op, memory.AtomicCas):
        return [op.expected, op.desired]
    return [op.value] if isinstance(op, (memory.AtomicRmw, memory.AtomicView, memory.Store, memory.StoreView)) else []


def _print(schedule: Schedule, op: memory.Print) -> None:
    for v in op.operands:
        if v.tile.size > 1:
            materialize(schedule, v)
    schedule.keep(op)


def _assert(schedule: Schedule, op: memory.Assert) -> None:
    if op.condition.tile.size == 1:
        schedule.keep(op)
    else:
        fuse(schedule, [op.condition, *(v for v in op.values if v.tile.rank)], op, (), _copy_end(op))


_STATEMENTS: dict[type[Op], Callable[[Schedule, Any], None]] = {
    **dict.fromkeys(
        (memory.Bid, memory.NumBlocks, memory.MakeTensorView, memory.MakePartitionView, Return), Schedule.keep
    ),
    **dict.fromkeys(
        (memory.AtomicRmw, memory.AtomicCas, memory.AtomicView, memory.Load, memory.LoadView), _element_by_element
    ),
    **dict.fromkeys((Reduce, Scan), _combination),
    memory.LocalArray: _local_array,
    **dict.fromkeys((memory.Store, memory.StoreView), _store),
    Mma: linear.schedule_mma,
    Cat: _cat,
    **dict.fromkeys((Pack, Unpack), _reinterpret),
    Insert: _insert,
    For: control.schedule_for,
    Loop: control.schedule_loop,
    If: control.schedule_if,
    **dict.fromkeys((Yield, Continue, Break), control.schedule_end),
    memory.Print: _print,
    memory.Assert: _assert,
}
