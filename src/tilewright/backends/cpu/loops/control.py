"""Loops and branches: what they carry or give is kept in slots, one buffer for each tile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tilewright.backends.cpu.loops.arena import Buffer
from tilewright.backends.cpu.loops.groups import FusionGroup, transposed_axis
from tilewright.backends.cpu.loops.kinds import extents_of
from tilewright.backends.cpu.loops.nests import write
from tilewright.backends.cpu.loops.schedule import Schedule
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.ops.loops import CopyBuffer
from tilewright.ir.ops.memory import StoreView
from tilewright.ir.types import TileType, Type

Slots = list["Buffer | None"]  # None for scalars and views, which are kept in registers


def _slot(schedule: Schedule, t: Type) -> Buffer | None:
    return schedule.allocate(t) if isinstance(t, TileType) and t.size > 1 else None


def schedule_for(schedule: Schedule, op: For) -> None:
    bounds = [schedule.value(v) for v in op.bounds]
    carried, inits = _open(schedule, op)
    body = _body(schedule, op.body, [None, *carried], carried, carried)
    made = schedule.emit(For, *bounds, inits, body=body, loc=op.loc)
    schedule.bind_all(op.results, made.results, carried)


def schedule_loop(schedule: Schedule, op: Loop) -> None:
    carried, inits = _open(schedule, op)
    results = [_slot(schedule, t) for t in op.types]
    body = _body(schedule, op.body, carried, carried, results)
    made = schedule.emit(Loop, inits, types=op.types, body=body, loc=op.loc)
    for slot in carried:
        if slot is not None:
            schedule.release(slot)
    schedule.bind_all(op.results, made.results, results)


def schedule_if(schedule: Schedule, op: If) -> None:
    results = [_passed_through(schedule, op, k) or _slot(schedule, t) for k, t in enumerate(op.types)]
    condition = schedule.value(op.condition)
    schedule.branches.append(results)
    branches = []
    for region in op.regions:
        with schedule.inside(region) as block:
            schedule.schedule_block(region)
        branches.append(block)
    schedule.branches.pop()
    made = schedule.emit(If, condition, types=op.types, then=branches[0], orelse=branches[1], loc=op.loc)
    schedule.bind_all(op.results, made.results, results)


def schedule_end(schedule: Schedule, op: Yield | Continue | Break) -> None:
    """Leave what ``op``, the end of a branch or iteration, passes on in its slots."""
    slots = schedule.branches[-1] if isinstance(op, Yield) else schedule.loops[-1][isinstance(op, Break)]
    schedule.emit(type(op), _assign(schedule, slots, op.operands), loc=op.loc)


def carried_beside(schedule: Schedule, store: Op) -> dict[Value, Buffer]:
    """What the loops of ``store``, the last statement of an iteration, can compute as well: values that a loop carries
    on, into their slots. Only they may need what their slots hold, at the same index."""
    ops = schedule.block.ops
    if not isinstance(store, StoreView) or is_ordered(store):
        return {}
    if not isinstance(ops[-1], Continue) or ops[-2] is not store:
        return {}
    values, slots = ops[-1].operands, schedule.loops[-1][0]
    found: dict[Value, Buffer] = {}
    for value, slot in zip(values, slots):
        if slot is None or value.op not in schedule.deferred or not schedule.is_local(value):
            continue
        if extents_of(value) == extents_of(store.value) and values.count(value) == 1 and value is not store.value:
            group = FusionGroup(schedule, [value], None)
            if _only_needs(schedule, group, slot) and transposed_axis(schedule, value) is None:
                found[value] = Buffer(slot.offset, slot.size, slot.dtype, borrowed=True)
    return found


def needed_later(schedule: Schedule, store: Op, loads: Sequence[Op]) -> list[Value]:
    """What the loops of ``store`` can compute of ``loads`` for the ops behind it, which need nothing else of them.

    None where ``loads`` are fewer bytes to keep, or where these loops go over other elements.
    """
    if not loads or not isinstance(store, StoreView) or is_ordered(store):
        return []
    carried = carried_beside(schedule, store)
    deferred = [op for op in schedule.block.ops if op in schedule.deferred]
    users = Counter(v for op in (store, *deferred) for v in schedule.uses.used(op))
    derived: set[Op] = set()
    for op in deferred:
        if op in loads or any(v.op in derived for v in op.operands):
            derived.add(op)
    uses = schedule.uses.remaining
    later = [op.result for op in deferred if op in derived and uses[op.result] > users[op.result]]
    later = [v for v in later if v not in carried]
    extents = extents_of(store.value)
    alike = all(extents_of(v) == extents and transposed_axis(schedule, v) is None for v in (store.value, *later))
    return later if alike and _bytes(later) <= _bytes(op.result for op in loads) else []


def _bytes(values: Iterable[Value]) -> int:
    return sum(v.tile.size * element_bytes(v.tile.dtype) for v in values)


def _only_needs(schedule: Schedule, group: FusionGroup, slot: Buffer) -> bool:
    """Whether what ``slot`` holds is needed by ``group`` alone, if at all, and at the same index."""
    ops = set(group.ops)
    held = [v for v in schedule.block.args if schedule.is_in(v, slot)]
    held += [v for v in group.buffers if schedule.is_in(v, slot)]
    return all(ops.issuperset(v.users) and group.leaves.get(v, True) for v in held)


def _open(schedule: Schedule, loop: For | Loop) -> tuple[Slots, list[Value]]:
    """Slots of carried values, and the first ones in them."""
    slots = [_taken_over(schedule, loop, v) or _slot(schedule, v.type) for v in loop.inits]
    return slots, _assign(schedule, slots, loop.inits)


def _taken_over(schedule: Schedule, loop: For | Loop, value: Value) -> Buffer | None:
    """The buffer of ``value``, which nothing needs but ``loop``, to begin with: it may go on there."""
    if list(loop.operands).count(value) > 1 or value in loop.captured():
        return None
    return _last_used(schedule, value)


def _passed_through(schedule: Schedule, branch: If, k: int) -> Buffer | None:
    """The buffer of a value that ``branch`` gives as result ``k`` as it is, and that nothing needs behind it: the other
    region computes its own value there."""
    ends = [region.terminator for region in branch.regions]
    given = [list(end.operands) for end in ends if isinstance(end, Yield)]
    for value in (values[k] for values in given):
        if not any(value in (*values[:k], *values[k + 1 :]) for values in given):
            buffer = _last_used(schedule, value)
            if buffer is not None:
                return buffer
    return None


def _last_used(schedule: Schedule, value: Value) -> Buffer | None:
    """The buffer of ``value``, to be kept for a slot, where one op is the last that needs what it holds."""
    buffer = schedule.buffer(value)
    if buffer is None or buffer.borrowed or buffer.users > 1 or not schedule.is_local(value):
        return None
    if schedule.uses.remaining[value] > 1:
        return None
    buffer.users += 1
    return buffer


def _body(schedule: Schedule, region: Block, lent: Slots, carried: Slots, results: Slots) -> Block:
    """The body of a loop; its arguments are in the slots ``lent``."""
    schedule.loops.append((carried, results))
    with schedule.inside(region) as block:
        for arg, slot in zip(region.args, lent):
            new = block.add_arg(arg.type, arg.name)
            schedule.bind(arg, new, None if slot is None else Buffer(slot.offset, slot.size, slot.dtype, borrowed=True))
        schedule.schedule_block(region)
    schedule.loops.pop()
    return block


def _assign(schedule: Schedule, slots: Slots, values: Sequence[Value]) -> list[Value]:
    """All ``values`` in their slots at once: they may be computed from what the slots hold."""
    found: list[Value | None] = [schedule.value(v) if s is None else None for s, v in zip(slots, values)]
    tiles = [(k, slot, values[k]) for k, slot in enumerate(slots) if slot is not None]
    reads = [_reads(schedule, v) for _, _, v in tiles]
    staged: list[tuple[int, Buffer, Value, Buffer | None]] = []
    direct: list[tuple[int, Buffer, Value]] = []
    for i, (k, slot, value) in enumerate(tiles):
        bound = schedule.buffer(value)
        others = any(slot.offset in r for j, r in enumerate(reads) if j != i)
        if bound is not None and bound.offset == slot.offset:
            found[k] = schedule.value(value)
        elif others or not reads[i].get(slot.offset, True):
            apart = bound is not None and all(bound.offset != other.offset for _, other, _ in tiles)
            temporary = None if apart else schedule.allocate(value.tile)
            new = schedule.value(value) if temporary is None else write(schedule, value, temporary)
            staged.append((k, slot, new, temporary))
        else:
            direct.append((k, slot, value))
    for k, slot, value in direct:
        found[k] = write(schedule, value, slot)
    for k, slot, new, temporary in staged:
        found[k] = schedule.emit(CopyBuffer, new, offset=slot.offset, loc=schedule.target.ops[-1].loc).result
        if temporary is not None:
            schedule.release(temporary)
    return [v for v in found if v is not None]


def _reads(schedule: Schedule, value: Value) -> dict[int, bool]:
    """The buffers, by offset, that ``value`` is computed from, and whether element by element."""
    found: dict[int, bool] = {}
    for v, same_index in FusionGroup(schedule, [value], None).buffers.items():
        bound = schedule.buffer(v)
        assert bound is not None
        found[bound.offset] = same_index and found.get(bound.offset, True)
    return found
