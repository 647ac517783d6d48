"""Atomic operations and ordered loads and stores: element by element, in a scalar loop.

Whether any element is masked is asked once for the whole tile: where none is, the loop has no tests.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from tilewright.backends.branches import phi_of
from tilewright.backends.cpu.codegen import index, lanes, pointers, polls, views
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.fetch_ahead import LINE, cache_of, copied_tiles, fetch
from tilewright.backends.cpu.codegen.groups import bind_results
from tilewright.backends.cpu.codegen.locked_sums import LockedSums, goes_by_locks
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Coord, Position
from tilewright.backends.cpu.codegen.state import State, storage_bytes
from tilewright.backends.cpu.codegen.views import LaneAddresses, ViewAccess
from tilewright.backends.vector import storage_type
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import AtomicKind, MemoryOrder, MemoryScope
from tilewright.ir.ops import memory
from tilewright.ir.ops.loops import LoopNest

# What a failed compare-and-swap, which only loads, may order.
_FAILURE = {"monotonic": "monotonic", "acquire": "acquire", "release": "monotonic", "acq_rel": "acquire"}
_UNROLL, _LONGEST_UNROLL = 4, 16  # elements per iteration; where a line of the next tile is fetched in each

# How a loop over elements finds address and mask (None: always) of one.
Target = Callable[[Elements, Position], "tuple[LaneAddresses, ir.Value | None]"]
# Emits the access to one element at an address and returns its result.
Access = Callable[[ir.IRBuilder, ir.Value, Sequence[ir.Value]], ir.Value]


def _ordering(op: Op) -> str:
    assert isinstance(op, memory.MemoryOp)
    order: str = op.memory_order.value
    return "monotonic" if op.memory_order is MemoryOrder.RELAXED else order


def _instruction(dtype: DType, kind: AtomicKind) -> str | None:
    """The LLVM atomicrmw of ``kind``; None where there is none, and compare-and-swap has to do."""
    if dtype.is_floating:
        return "xchg" if kind is AtomicKind.XCHG else None
    unsigned = kind in (AtomicKind.MIN, AtomicKind.MAX) and not dtype.is_signed
    return f"{'u' if unsigned else ''}{kind.value}"


def _bits_type(dtype: DType) -> ir.IntType:
    return ir.IntType(8 * storage_bytes(dtype))


def _to_bits(state: State, builder: ir.IRBuilder, dtype: DType, register: ir.Value) -> ir.Value:
    return builder.bitcast(state.emitter(builder).to_storage(dtype, register), _bits_type(dtype))


def _from_bits(state: State, builder: ir.IRBuilder, dtype: DType, bits: ir.Value) -> ir.Value:
    return state.emitter(builder).to_register(dtype, builder.bitcast(bits, storage_type(dtype)))


def _rmw(state: State, dtype: DType, op: memory.AtomicRmw | memory.AtomicView) -> Access:
    kind, ordering = op.kind, _ordering(op)
    instruction = _instruction(dtype, kind)

    def access(builder: ir.IRBuilder, pointer: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
        if op.memory_scope is MemoryScope.BLOCK:
            polls.note_store(state, builder)
            return _update(state, builder, dtype, kind, pointer, values[0])
        if instruction is not None:
            bits = _to_bits(state, builder, dtype, values[0])
            old = _from_bits(state, builder, dtype, builder.atomic_rmw(instruction, pointer, bits, ordering))
            if state.waits:
                new = _combined(state, builder, dtype, kind, old, values[0])
                polls.note_change(state, builder, *(_to_bits(state, builder, dtype, v) for v in (old, new)))
            return old
        return _add_by_swap(state, builder, dtype, pointer, values[0], ordering)

    return access


def _update(
    state: State, builder: ir.IRBuilder, dtype: DType, kind: AtomicKind, pointer: ir.Value, value: ir.Value
) -> ir.Value:
    """A plain load and store: one thread runs a block, so within its scope nothing comes between them."""
    item = storage_bytes(dtype)
    old = _from_bits(state, builder, dtype, builder.load(pointer, align=item, typ=_bits_type(dtype)))
    new = _combined(state, builder, dtype, kind, old, value)
    builder.store(_to_bits(state, builder, dtype, new), pointer, align=item)
    return old


def _combined(
    state: State, builder: ir.IRBuilder, dtype: DType, kind: AtomicKind, old: ir.Value, value: ir.Value
) -> ir.Value:
    """What an atomic of this kind makes of ``old``."""
    if kind is AtomicKind.XCHG:
        return value
    return state.emitter(builder).emit(kind.value, dtype, [old, value], {}, dtype)


def _add_by_swap(
    state: State, builder: ir.IRBuilder, dtype: DType, pointer: ir.Value, value: ir.Value, ordering: str
) -> ir.Value:
    """Atomic addition of floats: rounded as ``add`` rounds, and repeated until no other thread interferes."""
    bits = _bits_type(dtype)
    first = builder.load_atomic(pointer, "monotonic", storage_bytes(dtype), typ=bits)
    before, loop = builder.block, builder.append_basic_block("swap")
    after = builder.append_basic_block("swapped")
    builder.branch(loop)
    builder.position_at_end(loop)
    seen = builder.phi(bits)
    old = _from_bits(state, builder, dtype, seen)
    swapped = _to_bits(state, builder, dtype, _combined(state, builder, dtype, AtomicKind.ADD, old, value))
    found = builder.cmpxchg(pointer, seen, swapped, ordering, _FAILURE[ordering])
    seen.add_incoming(first, before)
    seen.add_incoming(builder.extract_value(found, 0), builder.block)
    builder.cbranch(builder.extract_value(found, 1), after, loop)
    builder.position_at_end(after)
    if state.waits:
        polls.note_change(state, builder, seen, swapped)
    return old


def _cas(state: State, dtype: DType, op: memory.AtomicCas) -> Access:
    ordering = _ordering(op)

    def access(builder: ir.IRBuilder, pointer: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
        expected, desired = (_to_bits(state, builder, dtype, v) for v in values)
        found = builder.cmpxchg(pointer, expected, desired, ordering, _FAILURE[ordering])
        if state.waits:
            after = builder.select(builder.extract_value(found, 1), desired, expected)
            polls.note_change(state, builder, expected, after)
        return _from_bits(state, builder, dtype, builder.extract_value(found, 0))

    return access


def _load(state: State, dtype: DType, op: memory.MemoryOp) -> Access:
    def access(builder: ir.IRBuilder, pointer: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
        bits = builder.load_atomic(pointer, _ordering(op), storage_bytes(dtype), typ=_bits_type(dtype))
        return _from_bits(state, builder, dtype, bits)

    return access


def _store(state: State, dtype: DType, op: memory.MemoryOp) -> Access:
    def access(builder: ir.IRBuilder, pointer: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
        bits = _to_bits(state, builder, dtype, values[0])
        if state.waits:
            old = builder.load_atomic(pointer, "monotonic", storage_bytes(dtype), typ=bits.type)
            polls.note_change(state, builder, old, bits)
        lanes.store_atomic(builder, bits, pointer, _ordering(op), storage_bytes(dtype))
        return values[0]

    return access


def _each(
    state: State,
    nest: LoopNest,
    shape: tuple[int, ...],
    dtype: DType,
    target: Target,
    values: Sequence[Value],
    access: Access,
    otherwise: Value | float,
) -> None:
    """Run ``access`` on every element; where the mask is false its result is ``otherwise``."""
    bind_results(state, nest, 0)
    result = nest.results[0] if nest.results else None
    buffer = None if result is None or nest.buffers[0] is None else state.tile_buffer(result)

    def otherwise_at(elements: Elements, position: Position) -> ir.Value | None:
        if isinstance(otherwise, Value):
            return elements.at(otherwise, position).value
        return None if result is None else state.emitter().constant(result.tile.element, otherwise)

    def loop(masked: bool, ahead: Mapping[Op, ir.Value]) -> ir.Value:
        loops = Nest(state.builder)
        elements = Elements(state, loops, masked)
        tiles = [state.accesses[load] for load in ahead]
        unroll = max((min(LINE // storage_bytes(t.dtype), _LONGEST_UNROLL) for t in tiles), default=_UNROLL)
        together = min(sums.most, shape[-1]) if sums else 1
        copies = min(unroll, together if sums else shape[-1]) if shape else 1
        steps = [max(copies, together) if axis == len(shape) - 1 else 1 for axis in range(len(shape))]
        corner = [Coord(loops.begin(n, step), loops.level) if n > step else Coord() for n, step in zip(shape, steps)]
        for tile in tiles:
            at, first = views.locate(loops, tile, tuple(corner)), tuple(corner)
            fetch(loops.builder, tile, at, first, ahead[tile.op], cache_of(tile))
        if sums is not None:
            line = _side_by_side(corner, together)
            at, mask = target(elements, line)
            if at.step == 1 and at.lanes is not None:
                sums.add(loops, at, mask, elements.vector(elements.at(values[0], line), at.lanes))
                loops.close()
                return at.address
        state.updates = state.updates._replace(swaps=state.updates.swaps or updates)
        if together > copies:
            inner = loops.begin(together, copies)
            corner[-1] = Coord(index.add(loops.builder, corner[-1].base, inner), loops.level)
        for copy in range(copies):
            position = (*corner[:-1], elements.map.shift(corner[-1], copy)) if shape else ()
            at, mask = target(elements, position)
            operands = [elements.at(v, position).value for v in values]
            other = None if mask is None else otherwise_at(elements, position)
            found = _guarded(
                loops.builder, mask, other, functools.partial(_access_at, loops.builder, access, at.address, operands)
            )
            if buffer is not None:
                elements.write(buffer, shape, position, Element(found, None, loops.level))
        loops.close()
        return found

    op = nest.body.ops[-2]
    assert isinstance(op, memory.MemoryOp)
    updates = not isinstance(op, (memory.Load, memory.LoadView)) and op.memory_scope is not MemoryScope.BLOCK
    sums = LockedSums(state, dtype, _ordering(op), access) if shape and goes_by_locks(state, op, nest, dtype) else None
    everywhere, ahead = _accessed_everywhere(state, nest), copied_tiles(state, nest, shape)
    if everywhere is None:
        found = loop(True, ahead)
    else:
        with state.builder.if_else(everywhere, likely=True) as (then, orelse):
            with then:
                loop(False, ahead)
            with orelse:
                loop(True, {})
    if sums is not None:
        sums.end()
    if result is not None and buffer is None:
        state.bind(result, found)


def _side_by_side(position: Sequence[Coord], count: int) -> Position:
    """``count`` lanes that begin at ``position``."""
    *outer, along = position
    return (*outer, along._replace(pattern=tuple(range(count))))


def _accessed_everywhere(state: State, nest: LoopNest) -> ir.Value | None:
    """i1: is no element masked or outside of its array? None when there are no loops without tests."""
    op = nest.body.ops[-2]
    if "plain" not in nest.versions:
        return None
    if op in state.accesses:
        return state.accesses[op].inside
    return state.scalar(nest.unmasked[0]) if nest.unmasked else None


def _access_at(builder: ir.IRBuilder, access: Access, address: ir.Value, operands: Sequence[ir.Value]) -> ir.Value:
    return access(builder, builder.inttoptr(address, lanes.POINTER), operands)


def _guarded(
    builder: ir.IRBuilder, mask: ir.Value | None, other: ir.Value | None, emit: Callable[[], ir.Value]
) -> ir.Value:
    """What ``emit`` gives if ``mask``, else ``other``."""
    if mask is None:
        return emit()
    before = builder.block
    with builder.if_then(mask, likely=True):
        found = emit()
        end = builder.block
    if other is None:
        return found
    return phi_of(builder, (found, end), (other, before))


def _through_pointers(op: memory.PointerMemoryOp) -> Target:
    """Elements that a pointer tile refers to; all, or those that the mask chooses."""

    def target(elements: Elements, position: Position) -> tuple[LaneAddresses, ir.Value | None]:
        mask = op.mask if elements.masked else None
        count = len(position[-1].pattern or ()) if position else 0
        found = None if mask is None else elements.vector(elements.at(mask, position), count or None)
        return pointers.locate(elements, op.ptrs, position), found

    return target


def _in_view(tile: ViewAccess) -> Target:
    """Elements of a view tile that lie inside the array."""

    def target(elements: Elements, position: Position) -> tuple[LaneAddresses, ir.Value | None]:
        return views.locate(elements.nest, tile, position), elements.bounds(tile, position)

    return target


_READS = {memory.AtomicCas: ("expected", "desired"), memory.Load: (), memory.LoadView: ()}  # others: the value
_ACCESSES: Mapping[type[memory.MemoryOp], Callable[[State, DType, Any], Access]] = {
    memory.AtomicRmw: _rmw,
    memory.AtomicView: _rmw,
    memory.AtomicCas: _cas,
    memory.Load: _load,
    memory.LoadView: _load,
    memory.Store: _store,
    memory.StoreView: _store,
}


def emit_access(state: State, nest: LoopNest, op: memory.PointerMemoryOp | memory.ViewMemoryOp) -> None:
    """An atomic operation, or an ordered load or store."""
    if isinstance(op, memory.PointerMemoryOp):
        t = op.accessed()
        shape, dtype, target = t.shape, t.element, _through_pointers(op)
    else:
        if op not in state.accesses:
            state.accesses[op] = views.access(state, op)
        tile = state.accesses[op]
        shape, dtype, target = tile.shape, tile.dtype, _in_view(tile)
    values = [getattr(op, name) for name in _READS.get(type(op), ("value",))]
    _each(state, nest, shape, dtype, target, values, _ACCESSES[type(op)](state, dtype, op), _otherwise(op))


def _otherwise(op: memory.MemoryOp) -> Value | float:
    """What the result is where nothing is accessed."""
    if isinstance(op, memory.AtomicCas):
        return op.expected
    if isinstance(op, memory.Load) and op.padding is not None:
        return op.padding
    if isinstance(op, memory.LoadView):
        return memory.padding_value(op.view.partition.padding, op.result.tile.element)
    return 0
