"""Atomic operations and ordered loads and stores: element by element, in a scalar loop.

Whether any element is masked is asked once for the whole tile: where none is, the loop has no tests.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from tilewright.backends.branches import phi_of
from tilewright.backends.cpu.codegen import lanes, pointers, polls, views
from tilewright.backends.cpu.codegen.elements import Element, Elements
from tilewright.backends.cpu.codegen.fetch_ahead import LINE, cache_of, copied_tiles, fetch
from tilewright.backends.cpu.codegen.groups import bind_results
from tilewright.backends.cpu.codegen.index import as_value
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
_SWAPPED = 8  # bytes that an instruction swaps; one of 16 bytes takes as long as two of these
_UNROLL, _LONGEST_UNROLL = 4, 16  # elements per iteration; where a line of the next tile is fetched in each

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


def _bits_type(dtype: DType, count: int | None = None) -> ir.IntType:
    return ir.IntType(8 * storage_bytes(dtype) * (count or 1))


def _to_bits(
    state: State, builder: ir.IRBuilder, dtype: DType, register: ir.Value, count: int | None = None
) -> ir.Value:
    return builder.bitcast(state.emitter(builder, count).to_storage(dtype, register), _bits_type(dtype, count))


def _from_bits(state: State, builder: ir.IRBuilder, dtype: DType, bits: ir.Value, count: int | None = None) -> ir.Value:
    return state.emitter(builder, count).to_register(dtype, builder.bitcast(bits, storage_type(dtype, count)))


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
    state: State,
    builder: ir.IRBuilder,
    dtype: DType,
    pointer: ir.Value,
    value: ir.Value,
    ordering: str,
    count: int | None = None,
) -> ir.Value:
    """Atomic addition of floats, or ``count`` neighbours: rounded as ``add`` rounds, and repeated until no other thread
    interferes."""
    bits = _bits_type(dtype, count)
    first = builder.load_atomic(pointer, "monotonic", bits.width // 8, typ=bits)
    before, loop = builder.block, builder.append_basic_block("swap")
    after = builder.append_basic_block("swapped")
    builder.branch(loop)
    builder.position_at_end(loop)
    seen = builder.phi(bits)
    old = _from_bits(state, builder, dtype, seen, count)
    total = state.emitter(builder, count).emit("add", dtype, [old, value], {}, dtype)
    swapped = _to_bits(state, builder, dtype, total, count)
    found = builder.cmpxchg(pointer, seen, swapped, ordering, _FAILURE[ordering])
    seen.add_incoming(first, before)
    seen.add_incoming(builder.extract_value(found, 0), builder.block)
    builder.cbranch(builder.extract_value(found, 1), after, loop)
    builder.position_at_end(after)
    if state.waits:
        polls.note_change(state, builder, seen, swapped)
    return old


def _swapped_together(state: State, nest: LoopNest, dtype: DType) -> int:
    """How many neighbours one swap may add to: where nothing needs what they were."""
    op = nest.body.ops[-2]
    if not isinstance(op, (memory.AtomicRmw, memory.AtomicView)) or nest.results or state.waits:
        return 1
    swaps = op.kind is AtomicKind.ADD and dtype.is_floating and op.memory_scope is not MemoryScope.BLOCK
    return _SWAPPED // storage_bytes(dtype) if swaps else 1


def _add_together(
    state: State,
    builder: ir.IRBuilder,
    dtype: DType,
    address: ir.Value,
    value: ir.Value,
    mask: ir.Value | None,
    ordering: str,
) -> None:
    """Add the lanes of ``value``, all or those of ``mask``, to neighbours from ``address`` on: by one swap, where these
    are aligned and all lanes are added."""
    count, item = value.type.count, storage_bytes(dtype)
    rest = builder.and_(address, as_value(_SWAPPED - 1))
    whole = builder.icmp_unsigned("==", rest, as_value(0))
    if mask is not None:
        bits = ir.IntType(count)
        every = builder.icmp_unsigned("==", builder.bitcast(mask, bits), ir.Constant(bits, (1 << count) - 1))
        whole = builder.and_(whole, every)
    with builder.if_else(whole, likely=True) as (then, orelse):
        with then:
            _add_by_swap(state, builder, dtype, builder.inttoptr(address, lanes.POINTER), value, ordering, count)
        with orelse:
            for lane in range(count):
                pointer = builder.inttoptr(builder.add(address, as_value(lane * item)), lanes.POINTER)
                one = builder.extract_element(value, as_value(lane))
                chosen = None if mask is None else builder.extract_element(mask, as_value(lane))
                add = functools.partial(_add_by_swap, state, builder, dtype, pointer, one, ordering)
                _guarded(builder, chosen, None, add)


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


# How a loop over elements finds address and mask (None: always) of one.
Target = Callable[[Elements, Position], "tuple[LaneAddresses, ir.Value | None]"]


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
        together = _swapped_together(state, nest, dtype)
        copies = min(max(unroll, together), shape[-1]) if shape else 1
        steps = [copies if axis == len(shape) - 1 else 1 for axis in range(len(shape))]
        corner = [Coord(loops.begin(n, step), loops.level) if n > step else Coord() for n, step in zip(shape, steps)]
        for tile in tiles:
            at, first = views.locate(loops, tile, tuple(corner)), tuple(corner)
            fetch(loops.builder, tile, at, first, ahead[tile.op], cache_of(tile))
        together = together if copies >= together else 1
        neighbours = together > 1 and target(elements, _side_by_side(corner, together))[0].step == 1
        for copy in range(0, copies, together if neighbours else 1):
            position = (*corner[:-1], elements.map.shift(corner[-1], copy)) if shape else ()
            if neighbours:
                position = _side_by_side(position, together)
                at, chosen = target(elements, position)
                found = elements.vector(elements.at(values[0], position), together)
                _add_together(state, loops.builder, dtype, at.address, found, chosen, ordering)
                continue
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

    ordering = _ordering(nest.body.ops[-2])
    everywhere, ahead = _accessed_everywhere(state, nest), copied_tiles(state, nest, shape)
    if everywhere is None:
        found = loop(True, ahead)
    else:
        with state.builder.if_else(everywhere, likely=True) as (then, orelse):
            with then:
                loop(False, ahead)
            with orelse:
                loop(True, {})
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
