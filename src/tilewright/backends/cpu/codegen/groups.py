"""The loops of a nest, in the versions that it has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from tilewright.backends.branches import choose
from tilewright.backends.cpu.codegen import views
from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.elements import Elements
from tilewright.backends.cpu.codegen.fetch_ahead import tiles_ahead, tiles_before
from tilewright.backends.cpu.codegen.index import as_value
from tilewright.backends.cpu.codegen.loop_nests import nest_work
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Position, open_chunks
from tilewright.backends.cpu.codegen.state import State
from tilewright.backends.cpu.codegen.transpose import write_squares
from tilewright.backends.cpu.codegen.views import ViewAccess
from tilewright.backends.cpu.loops.fused import array_tiles, fused_ops, loop_values, root_of
from tilewright.backends.cpu.loops.kinds import is_array_tile
from tilewright.backends.cpu.loops.vectorize import widest_bytes
from tilewright.ir.core import Op, Value
from tilewright.ir.ops.loops import LoopNest
from tilewright.records import NamedTuple

# Emits loops and returns the scalars that they compute, if any. The second argument is the number of lanes that fill a
# vector register; ``visit`` is to be called at each position.
Body = Callable[[Elements, int, "Visit"], Sequence[ir.Value]]
Visit = Callable[[Elements, Position], None]


class Group(NamedTuple):
    """What the loops of ``nest`` compute: ``values`` for ``cause``; they also write ``sides`` to their buffers."""

    nest: LoopNest
    values: Sequence[Value]
    cause: Op
    lanes: int
    sides: Sequence[tuple[Value, Buffer]] = ()
    store: ViewAccess | None = None

    def visit(self, elements: Elements, position: Position) -> None:
        """Write the side outputs at ``position``."""
        shape = self.values[0].tile.shape
        for value, buffer in self.sides:
            elements.write(buffer, shape, position, elements.at(value, position))


def bind_results(state: State, nest: LoopNest, first: int) -> None:
    """Bind the results of ``nest`` from the ``first`` on to their buffers."""
    for r, offset in zip(nest.results[first:], nest.buffers[first:]):
        if offset is not None:
            state.bind(r, state.buffer(offset, r.tile.dtype, r.tile.size))


def group_of(state: State, nest: LoopNest, own: int, store: ViewAccess | None = None) -> Group:
    """What ``nest`` computes, whose results after the first ``own`` are side outputs."""
    values = loop_values(nest)
    cause = root_of(nest) or (fused_ops(nest, values).ops or [nest])[-1]
    sides = [(v, state.tile_buffer(r)) for v, r in zip(nest.kept[own:], nest.results[own:])]
    return Group(nest, values, cause, nest.lanes, sides, store)


class Trimmed(NamedTuple):
    """Loops of a store over what it keeps, which will do where ``conditions`` (i1) hold. They may compute elements
    twice, and store them once."""

    body: Body
    conditions: Sequence[ir.Value]
    streaming: bool = False


def emit_loops(state: State, group: Group, body: Body, trimmed: Sequence[Trimmed] = ()) -> list[ir.Value]:
    """Emit the loops of ``body``. Runtime checks pick the fastest version that will do."""
    nest, store, ops = group.nest, group.store, group.nest.body.ops
    unmasked = {ops[k]: state.scalar(v) for k, v in zip(nest.unmasked_loads, nest.unmasked)}
    disjoint = {ops[k]: state.scalar(v) for k, v in zip(nest.disjoint_loads, nest.disjoint)} if store else {}
    emit = _version(state, group, body, unmasked)
    inside = lies_inside(state, group, unmasked)
    compared = [
        views.may_fuse(state, _access(state, v), store, same)
        for v, same in zip(nest.overlapping, nest.same_index)
        if store is not None
    ]
    fusible = _conjunction(state, [*compared, *disjoint.values()])

    def on_copies(masked: bool) -> list[ir.Value]:
        copied = [*nest.overlapping, *(op.result for op in disjoint)]
        for value, offset, axis in zip(copied, nest.copies, nest.copy_axes):
            state.bindings[value] = _copy(state, nest, value, offset, axis)
        results = emit(masked)
        for value in copied:
            del state.bindings[value]
        return results

    def fused(masked: bool) -> list[ir.Value]:
        shorter = next((t for t in trimmed if not t.streaming), None)
        if shorter is None or not masked:
            return emit(masked)
        chosen = _conjunction(state, [*shorter.conditions])
        assert chosen is not None
        return choose(state.builder, chosen, lambda: _emit_trimmed(state, group, shorter, {}), lambda: emit(True))

    def checked(masked: bool) -> list[ir.Value]:
        if fusible is None:
            return fused(masked)
        return choose(state.builder, fusible, lambda: fused(masked), lambda: on_copies(masked))

    def cached() -> list[ir.Value]:
        if inside is None or isinstance(inside, ir.Constant):
            return checked(inside is not None and not int(inside.constant))  # a constant may be text
        plain = inside if fusible is None else state.builder.and_(inside, fusible)
        return choose(state.builder, plain, lambda: emit(False), lambda: checked(True))

    past = next((t for t in trimmed if t.streaming), None)
    if past is None:
        return cached()
    chosen = _conjunction(state, [*past.conditions, *unmasked.values(), *([] if fusible is None else [fusible])])
    assert chosen is not None
    return choose(state.builder, chosen, lambda: _emit_trimmed(state, group, past, unmasked), cached)


def _emit_trimmed(state: State, group: Group, trimmed: Trimmed, unmasked: dict[Op, ir.Value]) -> list[ir.Value]:
    loops = Nest(state.builder, "streaming" if trimmed.streaming else "trimmed")
    ahead = tiles_before(state, group.nest) if trimmed.streaming else {}
    elements = Elements(state, loops, False, unmasked, streaming=trimmed.streaming, ahead=ahead)
    return list(trimmed.body(elements, group.lanes, group.visit))


def _version(state: State, group: Group, body: Body, unmasked: dict[Op, ir.Value]) -> Callable[[bool], list[ir.Value]]:
    """Emits the loops with or without bounds checks and masks."""
    label = f"nest{len(state.nests) + 1}"
    assert state.block is not None
    state.nests.append(nest_work(label, group.nest, state.block, group.cause, group.values, group.lanes))
    ahead = tiles_ahead(state, group.nest)

    def emit(masked: bool) -> list[ir.Value]:
        elements = Elements(state, Nest(state.builder, label), masked, unmasked, ahead=ahead)
        return list(body(elements, group.lanes, group.visit))

    def plain_or_masked(masked: bool) -> list[ir.Value]:
        dense = {} if masked else _dense(state, group)
        if not dense:
            return emit(masked)
        usual = {op: state.accesses[op] for op in dense}

        def of_dense_rows() -> list[ir.Value]:
            state.accesses.update({op: tile for op, (tile, _) in dense.items()})
            return emit(masked)

        def of_any_rows() -> list[ir.Value]:
            state.accesses.update(usual)
            return emit(masked)

        chosen = _conjunction(state, [condition for _, condition in dense.values()])
        assert chosen is not None
        return choose(state.builder, chosen, of_dense_rows, of_any_rows)

    return plain_or_masked


def _dense(state: State, group: Group) -> dict[Op, tuple[ViewAccess, ir.Value]]:
    """The accesses to rows of less than a vector, as they are where one row begins behind the other, and whether these
    do (i1): those of pairs, such as complex numbers."""
    tiles = [*(state.accesses[v.op] for v in array_tiles(group.nest) if v.op is not None)]
    found = {}
    for tile in [*tiles, *([group.store] if group.store else [])]:
        strides, condition, size = list(tile.strides), None, 1
        for k in reversed(range(len(strides))):
            stride = strides[k]
            if size >= group.lanes or (isinstance(stride, int) and stride != size and tile.shape[k] > 1):
                break
            if not isinstance(stride, int) and tile.shape[k] > 1 < size:
                follows = state.builder.icmp_unsigned("==", stride, as_value(size))
                condition = follows if condition is None else state.builder.and_(condition, follows)
                strides[k] = size
            size *= tile.shape[k]
        if condition is not None:
            found[tile.op] = tile._replace(strides=tuple(strides)), condition
    return found


def _access(state: State, value: Value) -> ViewAccess:
    assert value.op is not None
    return state.accesses[value.op]


def lies_inside(state: State, group: Group, unmasked: Mapping[Op, ir.Value]) -> ir.Value | None:
    """i1: does every view tile lie inside its array, and is every mask true? None when that is sure."""
    if "bounds_checked" not in group.nest.versions:
        return None
    loads = fused_ops(group.nest, group.values).ops
    tiles = [state.accesses[op] for op in loads if op.results and is_array_tile(op.result)]
    found = {id(t.inside): t.inside for t in [*tiles, *([group.store] if group.store else [])] if t.inside is not None}
    return _conjunction(state, [*found.values(), *(unmasked[op] for op in (*loads, group.cause) if op in unmasked)])


def _conjunction(state: State, conditions: list[ir.Value]) -> ir.Value | None:
    return functools.reduce(state.builder.and_, conditions) if conditions else None


def _copy(state: State, nest: LoopNest, value: Value, offset: int, axis: int | None) -> Buffer:
    """The elements of ``value``, which ``nest`` loads, in the buffer at ``offset``."""
    assert value.op is not None
    buffer = state.buffer(offset, value.tile.dtype, value.tile.size)
    emit_elements(state, Group(nest, [value], value.op, lanes_for(state, value)), buffer, axis)
    return buffer


def lanes_for(state: State, value: Value) -> int:
    """How many elements loops for ``value`` alone compute at a time."""
    return state.processor.lanes(widest_bytes([value]))


def emit_elements(state: State, group: Group, buffer: Buffer, axis: int | None) -> None:
    """Loops that write the elements of a tile to ``buffer``; by squares where they lie along ``axis`` in memory."""
    (value,) = group.values
    shape = value.tile.shape

    def body(elements: Elements, lanes: int, visit: Visit) -> list[ir.Value]:
        if axis is not None:
            for position in write_squares(elements, value, buffer, axis, lanes):
                visit(elements, position)
            elements.nest.close()
            return []
        position = open_chunks(elements.nest, shape, min(lanes, value.tile.size))
        element = elements.at(value, position)
        visit(elements, position)
        elements.write(buffer, shape, position, element)
        elements.nest.close()
        return []

    emit_loops(state, group, body)
