"""Fused loops: deferred ops computed together for the op that needs them, or to be kept in a buffer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.backends.cpu.codegen import views
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.elements import Elements
from tilewright.backends.cpu.codegen.fusion import CHEAP, FusionGroup, cost
from tilewright.backends.cpu.codegen.loop_nests import fused_nest
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Position, open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.codegen.transpose import transposed_axis, write_squares
from tilewright.backends.cpu.codegen.value_ranges import ValueRanges
from tilewright.backends.cpu.codegen.views import ViewAccess
from tilewright.ir.core import Op, Value
from tilewright.ir.ops.memory import Load, LoadView, Store
from tilewright.ir.ops.shape import Permute, Reshape

# Emits the loops of a group and returns the scalars that they compute, if any. The second argument is the number
# of lanes that fill a vector register; ``visit`` is to be called at each position.
Body = Callable[[Elements, int, "Visit"], Sequence[ir.Value]]
Visit = Callable[[Elements, Position], None]

_WORTH_A_SEARCH = 16  # elements of a tile, for each that is looked at to find out about the whole tile


def fuse(
    state: State, values: Sequence[Value], consumer: Op | None, body: Body, store: ViewAccess | None = None
) -> list[ir.Value]:
    """Emit the loops of ``body``, which ask for elements of ``values`` and may store to the view tile ``store``.

    Where the bounds of views are not known, or a load may overlap the store, the loops are emitted in several ways,
    and checks at run time pick the fastest that will do.
    """
    checks = RuntimeChecks.of(state, values, consumer, store)
    group = _prepare(state, values, consumer, store, checks)
    side_outputs = [(op, _target(state, op.result)) for op in group.shared()]
    shape = values[0].tile.shape

    def visit(elements: Elements, position: Position) -> None:
        for op, buffer in side_outputs:
            elements.write(buffer, shape, position, elements.at(op.result, position))

    width, label = state.processor.lanes(group.width), f"nest{len(state.nests) + 1}"
    cause = values[0].op if consumer is None else consumer
    if cause is not None:
        state.nests.append(fused_nest(label, cause, state.block, group.ops, values, width, group.width))

    def emit(masked: bool) -> list[ir.Value]:
        elements = Elements(state, Nest(state.builder, label), state.accesses, masked, checks.unmasked)
        return list(body(elements, width, visit))

    overlapping = [op for op in group.loads() if _may_overlap(state, group, op, store)]
    inside, apart = _all_inside(state, group, store, checks), _all_apart(state, group, overlapping, store, checks)
    results = _emit_versions(state, emit, inside, apart, overlapping)
    for op, buffer in side_outputs:
        state.materialized(op.result, buffer)
    return results


@dataclass(frozen=True)
class RuntimeChecks:
    """Runtime checks of loads through pointers, once for a tile: i1 for each load.

    ``unmasked``: is its mask true everywhere? ``apart``: are its elements others than those that are stored?
    """

    unmasked: Mapping[Op, ir.Value]
    apart: Mapping[Op, ir.Value]

    @staticmethod
    def of(state: State, values: Sequence[Value], consumer: Op | None, store: ViewAccess | None) -> RuntimeChecks:
        unmasked: dict[Op, ir.Value] = {}
        apart: dict[Op, ir.Value] = {}
        loads = [] if _scatters(consumer) else FusionGroup(state, values, consumer).loads()
        for op in [op for op in loads if isinstance(op, Load) and op.result.tile.size > 1]:
            ranges = ValueRanges(state, op.result.tile.size // _WORTH_A_SEARCH, materialize)
            mask: Value | None = op.mask
            true = None if mask is None else ranges.all_true(mask)
            if true is not None:
                unmasked[op] = true
            if store is not None and (mask is None or true is not None):
                other = ranges.apart(op.ptrs, *views.address_range(state.builder, store))
                if other is not None:
                    apart[op] = other if true is None else state.builder.and_(true, other)
        return RuntimeChecks(unmasked, apart)


def _prepare(
    state: State, values: Sequence[Value], consumer: Op | None, store: ViewAccess | None, checks: RuntimeChecks
) -> FusionGroup:
    """The fusion group after putting into buffers what its loops should not compute."""
    while True:
        group = FusionGroup(state, values, consumer)
        first = _to_materialize(state, group, values, consumer, store, checks)
        if not first:
            return group
        materialize(state, first[-1].result)


def _to_materialize(
    state: State,
    group: FusionGroup,
    values: Sequence[Value],
    consumer: Op | None,
    store: ViewAccess | None,
    checks: RuntimeChecks,
) -> list[Op]:
    """Ops of the group that have to be executed first, operands before users."""
    shape = values[0].tile.shape
    wanted = values[0] if consumer is None else None
    scatters = _scatters(consumer)
    costly_broadcasts = {op for op in group.broadcast_operands() if cost(state, op.result) > CHEAP}
    shared = {op for op in group.shared() if not group.same_index(op) or op.result.tile.shape != shape}

    def comes_first(op: Op) -> bool:
        if op in shared or op in costly_broadcasts:
            return True
        if (scatters and isinstance(op, LoadView)) or ((scatters or store is not None) and isinstance(op, Load)):
            # Pointers may repeat and overlap in any way: load all before storing, unless a test excludes it.
            return op.result.tile.size > 1 and op not in checks.apart
        return op.result is not wanted and group.same_index(op) and transposed_axis(state, op.result) is not None

    return [op for op in group.ops if comes_first(op)]


def _scatters(consumer: Op | None) -> bool:
    return isinstance(consumer, Store)


def _may_overlap(state: State, group: FusionGroup, op: Op, store: ViewAccess | None) -> bool:
    if store is None or op.result.tile.size == 1:
        return False
    if isinstance(op, Load):
        return True
    return not (group.same_index(op) and views.same_elements(state.accesses[op], store))


def _all_inside(state: State, group: FusionGroup, store: ViewAccess | None, checks: RuntimeChecks) -> ir.Value | None:
    """i1: does every view tile lie inside its array, and is every mask true? None when that is sure."""
    tiles = [state.accesses[op] for op in group.loads() if isinstance(op, LoadView)]
    found = {id(t.inside): t.inside for t in [*tiles, *([store] if store else [])] if t.inside is not None}
    return _conjunction(
        state, [*found.values(), *(checks.unmasked[op] for op in group.loads() if op in checks.unmasked)]
    )


def _all_apart(
    state: State, group: FusionGroup, overlapping: list[Op], store: ViewAccess | None, checks: RuntimeChecks
) -> ir.Value | None:
    """i1: may the loads ``overlapping`` stay in the loops that store? None when there are none."""
    if store is None:
        return None
    found = [
        checks.apart[op]
        if isinstance(op, Load)
        else views.may_fuse(state, state.accesses[op], store, group.same_index(op))
        for op in overlapping
    ]
    return _conjunction(state, found)


def _conjunction(state: State, conditions: list[ir.Value]) -> ir.Value | None:
    return functools.reduce(state.builder.and_, conditions) if conditions else None


def _emit_versions(
    state: State,
    emit: Callable[[bool], list[ir.Value]],
    inside: ir.Value | None,
    apart: ir.Value | None,
    overlapping: list[Op],
) -> list[ir.Value]:
    """The loops of a group in up to three ways: plain, with bounds checks, and on copies of what they may overwrite."""
    known = inside is None or isinstance(inside, ir.Constant)
    masked = inside is not None and not (known and inside.constant)

    def on_copies() -> list[ir.Value]:
        copies = [(op.result, _copy(state, op.result)) for op in overlapping]
        results = emit(masked)
        for value, buffer in copies:
            del state.bindings[value]
            state.release(buffer)
        return results

    def checked() -> list[ir.Value]:
        return emit(masked) if apart is None else _choose(state, apart, lambda: emit(masked), on_copies)

    if known:
        return checked()
    plain = inside if apart is None else state.builder.and_(inside, apart)
    return _choose(state, plain, lambda: emit(False), checked)


def _choose(
    state: State, condition: ir.Value, yes: Callable[[], list[ir.Value]], no: Callable[[], list[ir.Value]]
) -> list[ir.Value]:
    """The results of ``yes()`` where ``condition`` holds, else of ``no()``."""
    builder = state.builder
    with builder.if_else(condition) as (then, orelse):
        with then:
            first = yes()
            first_end = builder.block
        with orelse:
            second = no()
            second_end = builder.block
    merged = []
    for a, b in zip(first, second):
        phi = builder.phi(a.type)
        phi.add_incoming(a, first_end)
        phi.add_incoming(b, second_end)
        merged.append(phi)
    return merged


def _copy(state: State, value: Value) -> Buffer:
    """The elements of ``value`` in a buffer that it is bound to for the moment."""
    buffer = state.allocate(value.tile)
    write(state, value, buffer)
    state.bindings[value] = buffer
    return buffer


def write(state: State, value: Value, buffer: Buffer) -> None:
    """Compute ``value`` into ``buffer``, which may hold what ``value`` is computed from, element by element."""
    shape = value.tile.shape
    axis = transposed_axis(state, value)
    if axis is not None and isinstance(value.op, Permute):
        x = value.op.x
        if x not in state.bindings and cost(state, x) > CHEAP:
            materialize(state, x)
            axis = transposed_axis(state, value)

    def body(elements: Elements, lanes: int, visit: Visit) -> list[ir.Value]:
        if axis is not None:
            for position in write_squares(elements, value, buffer, axis, lanes):
                visit(elements, position)
            close(elements.nest)
            return []
        position = open_chunks(elements.nest, shape, min(lanes, value.tile.size))
        element = elements.at(value, position)
        visit(elements, position)
        elements.write(buffer, shape, position, element)
        close(elements.nest)
        return []

    fuse(state, [value], None, body)


def close(nest: Nest, level: int = 0) -> None:
    """Close the loops down to ``level``."""
    while nest.level > level:
        nest.end()


def materialize(state: State, value: Value) -> Buffer:
    """The buffer that holds ``value``, of more than one element; computes it if it is deferred."""
    bound = state.bindings.get(value)
    if isinstance(bound, Buffer):
        return bound
    op = value.op
    assert op is not None and op in state.deferred
    if isinstance(op, Reshape):
        buffer = materialize(state, op.x)
        buffer.users += 1
    else:
        buffer = _target(state, value)
        write(state, value, buffer)
    if state.is_local(value):
        state.materialized(value, buffer)
    else:
        state.temporary(value, buffer)
    return buffer


def _target(state: State, value: Value) -> Buffer:
    """A buffer to compute ``value`` into."""
    reused = _reusable(state, value) if state.is_local(value) else None
    return state.allocate(value.tile) if reused is None else reused


def _reusable(state: State, value: Value) -> Buffer | None:
    """A buffer that ``value`` may overwrite: of a value that only it needs, and reads element by element."""
    group = FusionGroup(state, [value], None)
    assert value.op is not None
    dying = state.uses.would_die(value.op, state.deferred)
    aliased = {id(state.bindings[v]) for v, same_index in group.buffers.items() if not same_index}
    for v in group.buffers:
        buffer = state.bindings[v]
        assert isinstance(buffer, Buffer)
        fits = buffer.size == value.tile.size and buffer.dtype == value.tile.dtype
        if fits and v in dying and buffer.users == 1 and id(buffer) not in aliased:
            buffer.users += 1
            return buffer
    return None
