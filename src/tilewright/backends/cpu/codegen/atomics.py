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
from tilewright.backends.cpu.codegen.fetch_ahead import LINE, cache_of, copied_tiles, fetch, prefetch
from tilewright.backends.cpu.codegen.groups import bind_results
from tilewright.backends.cpu.codegen.index import as_value
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.position import Coord, Position
from tilewright.backends.cpu.codegen.state import State, storage_bytes
from tilewright.backends.cpu.codegen.views import LaneAddresses, ViewAccess
from tilewright.backends.vector import storage_type
from tilewright.backends.vector.types import I1, I32, I64
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import AtomicKind, MemoryOrder, MemoryScope
from tilewright.ir.ops import memory
from tilewright.ir.ops.loops import LoopNest

# What a failed compare-and-swap, which only loads, may order.
_FAILURE = {"monotonic": "monotonic", "acquire": "acquire", "release": "monotonic", "acq_rel": "acquire"}
_LINES_AHEAD = 4  # what neighbours are added to is fetched: a line is there after as long as it takes to add to two
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
    first = _seen(builder, pointer, bits.width // 8)
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


def _seen(builder: ir.IRBuilder, pointer: ir.Value, width: int) -> ir.Value:
    """So many bytes as bits: at most 8 of them at once, which a swap finds out."""
    if width <= 8:
        return builder.load_atomic(pointer, "monotonic", width, typ=ir.IntType(8 * width))
    found: ir.Value = ir.Constant(ir.VectorType(I64, width // 8), ir.Undefined)
    for k in range(width // 8):
        place = builder.gep(pointer, [I64(k)], source_etype=I64)
        found = builder.insert_element(found, builder.load_atomic(place, "monotonic", 8, typ=I64), I32(k))
    return builder.bitcast(found, ir.IntType(8 * width))


def _added_together(state: State, nest: LoopNest, dtype: DType) -> int:
    """How many neighbours, a line of them, are added to together: where nothing needs what they were."""
    op = nest.body.ops[-2]
    if not isinstance(op, (memory.AtomicRmw, memory.AtomicView)) or nest.results or state.waits:
        return 1
    swaps = op.kind is AtomicKind.ADD and dtype.is_floating and op.memory_scope is not MemoryScope.BLOCK
    return LINE // storage_bytes(dtype) if swaps else 1


def _add_line(
    state: State, elements: Elements, dtype: DType, target: Target, added: Value, position: Position, ordering: str
) -> ir.Value | None:
    """Add ``added`` at ``position`` to neighbours, by swaps of several where these are aligned and none is masked; what
    was added. None where these are no neighbours."""
    at, mask = target(elements, position)
    if at.step != 1 or at.lanes is None:
        return None
    builder, value = elements.nest.builder, elements.vector(elements.at(added, position), at.lanes)
    address = at.address
    ahead = builder.add(address, as_value(_LINES_AHEAD * LINE))
    prefetch(builder, builder.inttoptr(ahead, lanes.POINTER), write=True)
    count, item, pointer = at.lanes, storage_bytes(dtype), builder.inttoptr(address, lanes.POINTER)
    every: ir.Value = I1(1)
    if mask is not None:
        bits = ir.IntType(count)
        every = builder.icmp_unsigned("==", builder.bitcast(mask, bits), ir.Constant(bits, (1 << count) - 1))

    def add(widths: Sequence[int]) -> None:
        if not widths:
            _add_lanes(state, builder, dtype, pointer, value, mask, ordering)
            return
        rest = builder.and_(address, as_value(widths[0] - 1))
        whole = builder.and_(every, builder.icmp_unsigned("==", rest, as_value(0)))
        with builder.if_else(whole, likely=True) as (then, orelse):
            with then:
                _add_by_swaps(state, builder, dtype, pointer, value, ordering, widths[0] // item)
            with orelse:
                add(widths[1:])

    widest = 16 if state.processor.features.wide_swap else 8
    add([width for width in (16, 8) if item < width <= min(widest, count * item)])
    return value


def _add_by_swaps(
    state: State,
    builder: ir.IRBuilder,
    dtype: DType,
    pointer: ir.Value,
    value: ir.Value,
    ordering: str,
    count: int,
) -> None:
    """Add ``value`` to neighbours, ``count`` a swap. All are looked at first: nothing behind a swap begins before that
    ends."""
    bits, swaps = _bits_type(dtype, count), []
    for at in range(0, value.type.count, count):
        place = builder.gep(pointer, [I64(at)], source_etype=storage_type(dtype))
        part, seen = lanes.shuffle(builder, value, range(at, at + count)), _seen(builder, place, bits.width // 8)
        old = _from_bits(state, builder, dtype, seen, count)
        total = state.emitter(builder, count).emit("add", dtype, [old, part], {}, dtype)
        swaps.append((place, part, seen, _to_bits(state, builder, dtype, total, count)))
    for place, part, seen, total in swaps:
        found = builder.cmpxchg(place, seen, total, ordering, _FAILURE[ordering])
        with builder.if_then(builder.not_(builder.extract_value(found, 1)), likely=False):
            _add_by_swap(state, builder, dtype, place, part, ordering, count)


def _add_lanes(
    state: State,
    builder: ir.IRBuilder,
    dtype: DType,
    pointer: ir.Value,
    value: ir.Value,
    mask: ir.Value | None,
    ordering: str,
) -> None:
    """Add the lanes of ``value``, all or those of ``mask``, to neighbours, one after the other."""
    nest = Nest(builder)
    lane = as_value(nest.begin(value.type.count))
    inner = nest.builder
    place = inner.gep(pointer, [lane], source_etype=storage_type(dtype))
    one = inner.extract_element(value, lane)
    chosen = None if mask is None else inner.extract_element(mask, lane)
    _guarded(inner, chosen, None, lambda: _add_by_swap(state, inner, dtype, place, one, ordering))
    nest.close()


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
        copies, together = (min(n, shape[-1]) if shape else 1 for n in (unroll, _added_together(state, nest, dtype)))
        steps = [max(copies, together) if axis == len(shape) - 1 else 1 for axis in range(len(shape))]
        corner = [Coord(loops.begin(n, step), loops.level) if n > step else Coord() for n, step in zip(shape, steps)]
        for tile in tiles:
            at, first = views.locate(loops, tile, tuple(corner)), tuple(corner)
            fetch(loops.builder, tile, at, first, ahead[tile.op], cache_of(tile))
        if together > 1:
            line = _add_line(state, elements, dtype, target, values[0], _side_by_side(corner, together), ordering)
            if line is not None:
                loops.close()
                return line
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
