"""Loads, stores and atomics under observation: bounds, definedness, races and events, then the access itself.

Each function does one memory operation and returns its result and the undefined elements of that. Elements whose access
would be wrong are reported and left out, so that a launch goes on without harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.backends.reference import access as reference
from tilewright.backends.reference.values import UNKNOWN_ALLOCATION, Array, PartitionView, Pointers
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType
from tilewright.ir.effects import ACQUIRES, RELEASES
from tilewright.ir.enums import AtomicKind, MemoryOrder, MemoryScope, PaddingMode
from tilewright.ir.ops.memory import (
    AtomicCas,
    AtomicRmw,
    AtomicView,
    Load,
    LoadView,
    MemoryOp,
    PointerMemoryOp,
    Store,
    StoreView,
    ViewMemoryOp,
    padding_value,
)
from tilewright.ir.semantics import constant_array
from tilewright.ir.types import PartitionViewType
from tilewright.sanitizer.arrays import ArrayState, injective, outside_axis, owner_of
from tilewright.sanitizer.events import Access
from tilewright.sanitizer.races import Race
from tilewright.sanitizer.report import ElementReference, Related
from tilewright.sanitizer.undefined import Marks, Undefined
from tilewright.sanitizer.windows import Lanes, Touched, Window

if TYPE_CHECKING:
    from tilewright.sanitizer.block import CheckedBlock

READ, WRITE, ATOMIC = "read", "write", "atomic"
OUTSIDE, UNMASKED = "partition-outside", "partition-unmasked"
Outcome = tuple[Any, "Undefined | None"]
Locate = Callable[[int], tuple[int, ...]]


# -- what one access does to what is remembered


def _observe(
    block: CheckedBlock, op: MemoryOp, kind: str, array: ArrayState, touched: Touched, padding: int, locate: Locate
) -> Array | None:
    """``remember`` an access, and tell the sinks of it."""
    launch = block.launch
    uninitialized = remember(block, op, kind, array, touched, locate)
    if launch.session.sinks and array.number < launch.arguments:
        order = launch.take_orders(1)
        event = Access(order, kind, block.index, op.loc, array.number, touched, array.origin, padding)
        for sink in launch.session.sinks:
            sink.access(event)
    return uninitialized


def remember(
    block: CheckedBlock, op: MemoryOp, kind: str, array: ArrayState, touched: Touched, locate: Locate
) -> Array | None:
    """Check for races, and return the flags of never-written elements that are read.

    ``locate`` gives the index in the tile of a position in ``touched``.
    """
    if array.tracked:
        race = _order(block, op, kind, array, touched)
        if race is not None:
            _report_race(block, op, array, touched, race, locate)
    if array.uninitialized is None:
        return None
    uninitialized = touched.of(array.uninitialized).copy() if kind != WRITE else None
    if kind != READ:
        touched.fill(array.uninitialized, False)
    return uninitialized if uninitialized is not None and uninitialized.any() else None


def _order(block: CheckedBlock, op: MemoryOp, kind: str, array: ArrayState, touched: Touched) -> Race | None:
    races, thread = block.launch.races, block.thread
    order, scope = op.memory_order, op.memory_scope
    if order is MemoryOrder.WEAK:
        access = races.read if kind == READ else races.weak_write
        return access(thread, array, touched, op)
    if order in ACQUIRES and scope is not MemoryScope.BLOCK:
        races.acquire(thread, array, touched)
    race = (races.read if kind == READ else races.strong_write)(thread, array, touched, op)
    if kind != READ:
        if order in RELEASES and scope is not MemoryScope.BLOCK:
            races.release(thread, array, touched)
        elif kind == WRITE:
            races.forget(array, touched)
    return race


_DOES: dict[type[Op], str] = {
    Load: "reads",
    LoadView: "reads",
    Store: "writes",
    StoreView: "writes",
}


def _report_race(
    block: CheckedBlock, op: MemoryOp, array: ArrayState, touched: Touched, race: Race, locate: Locate
) -> None:
    first = int(touched.elements()[race.wrong].reshape(-1)[0])
    other = race.other
    place = array.element(first)
    does = _DOES.get(type(op), "updates")
    did = {"reads": "read", "writes": "written", "updates": "updated"}[_DOES.get(type(other.op), "updates")]
    advice = ""
    scopes = {op.memory_scope, other.op.memory_scope}
    if MemoryScope.BLOCK in scopes and MemoryScope.NONE not in scopes:
        advice = "; block scope does not reach another block"
    block.report(
        op,
        "data-race",
        f"block {block.index} {does} an element of '{place.argument}' that block {other.block} has {did}, and nothing "
        f"orders the two{advice}",
        element=locate(int(np.flatnonzero(race.wrong)[0])),
        place=place,
        related=(Related(f"{did} here", other.op.loc, other.block),),
        elements=int(race.wrong.sum()),
    )


def _uninitialized(block: CheckedBlock, op: Op, array: ArrayState, mask: Array) -> Undefined:
    return Undefined(mask, Related(f"this element of '{array.buffer.name}' was never written", op.loc, block.index))


def _require_kept(block: CheckedBlock, op: Op, undefined: Undefined | None, kept: Array | None, place: Any) -> None:
    """Report undefined elements of a stored value where ``kept``, which None means everywhere."""
    if undefined is None or undefined.reported:
        return
    wrong = undefined.mask if kept is None else undefined.mask & kept
    if wrong.any():
        element = tuple(int(i) for i in np.unravel_index(int(np.flatnonzero(wrong)[0]), wrong.shape))
        block.report(
            op,
            "undefined-value",
            "an undefined value is stored",
            element=element,
            place=place(element),
            related=(undefined.origin,),
            elements=int(wrong.sum()),
        )


# -- tiles of views


@dataclass(frozen=True)
class _Part:
    """The part of a tile that lies inside its array. ``touched`` is None when nothing does."""

    inside: tuple[slice, ...]
    starts: tuple[int, ...]
    array: ArrayState | None
    touched: Touched | None
    reported: bool = False  # whether nothing is inside because of what has been reported

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(s.stop - s.start for s in self.inside)

    def locate(self, flat: int) -> tuple[int, ...]:
        return locate_inside(self.inside, flat)


def locate_inside(inside: tuple[slice, ...], flat: int) -> tuple[int, ...]:
    """The index in a tile of the element at a position of its part ``inside``."""
    shape = tuple(s.stop - s.start for s in inside)
    position = np.unravel_index(flat % int(np.prod(shape)), shape)
    return tuple(int(i) + s.start for i, s in zip(position, inside))


def _part(block: CheckedBlock, op: ViewMemoryOp, partition: PartitionView, indices: list[Array]) -> _Part:
    """Where the tile lies; reports what is outside and must not be."""
    type, view = partition.type, partition.view
    if block.undefined and any(m.reported for m in map(block.undefined.get, op.operands) if m is not None):
        return _Part((slice(0, 0),) * len(type.tile_shape), (0,) * len(type.tile_shape), None, None, True)
    for index in op.indices:
        block.require_defined(op, index, "it is the index of a tile")
    block.require_defined(op, op.view, "it describes the array")
    promised = op.promised
    inside, starts = [], []
    wrong: tuple[str, int, int] | None = None
    for k, (axis, length) in enumerate(zip(type.order, type.tile_shape)):
        start, extent = int(indices[k]) * type.steps[k], view.shape[axis]
        low = min(max(-start, 0), length)
        high = max(min(extent - start, length), low)
        if promised[k] and high - low < length:
            wrong = wrong or (UNMASKED, k, start)
        elif low == high and not isinstance(op, AtomicView) and not _pads(block, op, type):
            wrong = OUTSIDE, k, start
        inside.append(slice(low, high))
        starts.append(start)
    if wrong is not None:
        _report_outside(block, op, partition, starts, indices, *wrong)
    if any(s.start == s.stop for s in inside):
        return _Part(tuple(inside), tuple(starts), None, None, wrong is not None)
    array, touched = _window(block, op, partition, inside, starts)
    return _Part(tuple(inside), tuple(starts), array, touched, touched is None)


def _pads(block: CheckedBlock, op: Op, type: PartitionViewType) -> bool:
    """Whether a tile wholly outside of its array is all padding: in Python, where the padding is named."""
    return isinstance(op, LoadView) and not block.launch.function.may_alias and type.padding is not _UNDETERMINED


_UNDETERMINED = PaddingMode.UNDETERMINED


def _report_outside(
    block: CheckedBlock,
    op: Op,
    partition: PartitionView,
    starts: list[int],
    indices: list[Array],
    category: str,
    k: int,
    start: int,
) -> None:
    type, view = partition.type, partition.view
    axis, length = type.order[k], type.tile_shape[k]
    extent = view.shape[axis]
    element = [0] * len(starts)
    index = [0] * len(view.shape)
    for j, a in enumerate(type.order):
        index[a] = starts[j]
    wholly = start >= extent or start + length <= 0
    if start >= 0 and not wholly:
        element[k] = extent - start
        index[axis] = extent
    how = "lies wholly outside" if wholly else "reaches outside"
    name = block.launch.owner_name(view.base)
    block.report(
        op,
        category,
        f"tile ({', '.join(str(int(i)) for i in indices)}) {how} '{name}': along axis {axis} it covers elements "
        f"{start} to {start + length - 1} of {extent}",
        element=tuple(element),
        operands={f"index {j}": int(i) for j, i in enumerate(indices)},
        place=ElementReference(name, tuple(index), view.shape, outside_axis(index[axis], extent, axis)),
        elements=length if wholly else max(-start, 0) + max(start + length - extent, 0),
    )


def _window(
    block: CheckedBlock, op: ViewMemoryOp, partition: PartitionView, inside: list[slice], starts: list[int]
) -> tuple[ArrayState | None, Touched | None]:
    """The memory of the part that is inside the view; None, after a report, when it is not inside its array."""
    type, view = partition.type, partition.view
    size = type.view.dtype.bytes
    shape = [s.stop - s.start for s in inside]
    strides = [view.strides[a] for a in type.order]
    begins = [start + s.start for start, s in zip(starts, inside)]
    first = int(view.base.address) + size * sum(b * s for b, s in zip(begins, strides))
    low = first + size * sum(min((n - 1) * s, 0) for n, s in zip(shape, strides))
    high = first + size * sum(max((n - 1) * s, 0) for n, s in zip(shape, strides)) + size
    array = block.launch.array(int(view.base.allocation), low)
    if array is None:
        block.report(op, "dangling-pointer", f"address {low:#x} lies in no array of the launch")
        return None, None
    buffer = array.buffer
    if low < buffer.low or high > buffer.high:
        place = array.place(low if low < buffer.low else high - size, size)
        block.report(op, "out-of-bounds", f"the tile leaves the memory of '{buffer.name}'", place=place)
        return None, None
    writes = not isinstance(op, LoadView)
    if writes and not buffer.writable:
        block.report(op, "read-only", f"'{buffer.name}' is read-only", place=array.place(first, size))
        return None, None
    weak = op.is_weak
    if block.launch.function.may_alias:
        if not injective(view.shape, view.strides):
            text = f"different elements of the view of '{buffer.name}' are one element in memory"
            values = {"extents": view.shape, "strides": view.strides}
            block.report(op, "span-not-injective", text, operands=values, place=array.place(first, size))
    elif writes and weak and not injective(tuple(shape), tuple(strides)):
        text = f"the store writes elements of '{buffer.name}' more than once: the array repeats elements"
        block.report(op, "race-in-call", text, place=array.place(first, size))
    if size == array.unit:
        return array, Window((first - buffer.low) // size, tuple(shape), tuple(strides))
    window = Window((first - buffer.low) // size, tuple(shape), tuple(strides))
    return array, array.lanes(buffer.low + window.elements().reshape(-1) * size, size)


def relaxed(op: ViewMemoryOp) -> dict[str, Any]:
    """The attributes of ``op`` without its promise of bounds, which has been checked."""
    return op.attributes if isinstance(op, AtomicView) else {**op.attributes, "in_bounds": (False,) * len(op.promised)}


def _view_element(
    part: _Part, partition: PartitionView, block: CheckedBlock
) -> Callable[[tuple[int, ...]], ElementReference]:
    def place(element: tuple[int, ...]) -> ElementReference:
        index = [0] * len(partition.view.shape)
        for k, axis in enumerate(partition.type.order):
            index[axis] = part.starts[k] + element[k] if element else part.starts[k]
        return ElementReference(block.launch.owner_name(partition.view.base), tuple(index), partition.view.shape)

    return place


def _outside_mask(shape: tuple[int, ...], inside: tuple[slice, ...]) -> Array:
    mask = np.ones(shape, bool)
    mask[inside] = False
    return mask


def load_view(block: CheckedBlock, op: LoadView, operands: list[Any], marks: Marks) -> Outcome:
    partition, *indices = operands
    part = _part(block, op, partition, indices)
    type = partition.type
    if part.touched is None or part.array is None:
        padding = constant_array(padding_value(type.padding, type.view.dtype), type.view.dtype, type.tile_shape)
        return padding, _reported(op, np.ones(type.tile_shape, bool)) if part.reported else None
    whole = part.shape == type.tile_shape
    left_out = 0 if whole else type.tile.size - int(np.prod(part.shape))
    uninitialized = _observe(block, op, READ, part.array, part.touched, left_out, part.locate)
    result = reference.load_view(block.memory, relaxed(op), [], partition, indices)
    undefined = None
    if not whole and type.padding is _UNDETERMINED:
        name = part.array.buffer.name
        origin = Related(f"padding of undetermined value outside '{name}'", op.loc, block.index)
        undefined = Undefined(_outside_mask(type.tile_shape, part.inside), origin)
    if uninitialized is not None:
        mask = np.zeros(type.tile_shape, bool)
        mask[part.inside] = uninitialized.reshape(*part.shape, -1).any(axis=-1)
        undefined = _uninitialized(block, op, part.array, mask if undefined is None else mask | undefined.mask)
    return result, undefined


def store_view(block: CheckedBlock, op: StoreView, operands: list[Any], marks: Marks) -> Outcome:
    partition, value, *indices = operands
    part = _part(block, op, partition, indices)
    if part.touched is None or part.array is None:
        return None, None
    whole = part.shape == partition.type.tile_shape
    kept = None if whole else ~_outside_mask(partition.type.tile_shape, part.inside)
    _require_kept(block, op, marks[1] if marks else None, kept, _view_element(part, partition, block))
    padding = 0 if whole else value.size - int(np.prod(part.shape))
    _observe(block, op, WRITE, part.array, part.touched, padding, part.locate)
    reference.store_view(block.memory, relaxed(op), [], partition, value, indices)
    return None, None


def atomic_view(block: CheckedBlock, op: AtomicView, operands: list[Any], marks: Marks) -> Outcome:
    partition, value, *indices = operands
    part = _part(block, op, partition, indices)
    if part.touched is None or part.array is None:
        return None, None
    kept = ~_outside_mask(partition.type.tile_shape, part.inside)
    _require_kept(block, op, marks[1] if marks else None, kept, _view_element(part, partition, block))
    _observe(block, op, ATOMIC, part.array, part.touched, value.size - int(kept.sum()), part.locate)
    reference.atomic_view(block.memory, op.attributes, [], partition, value, indices)
    return None, None


# -- tiles of pointers


@dataclass(frozen=True)
class _Targets:
    """The lanes of a pointer operation that can be done: flat positions, with the arrays that they access."""

    chosen: Array
    mask: Array | None  # as the reference takes it
    groups: list[tuple[ArrayState, Array, Lanes]]  # array, positions into ``chosen``, elements
    shape: tuple[int, ...]
    dropped: Array | None  # the lanes that were reported

    def locate(self, positions: Array, lanes: Lanes) -> Locate:
        """The index in the tile of a position in ``lanes``, those of the lanes at ``positions``."""
        width = lanes.positions.size // positions.size
        return lambda flat: _element_of(self.chosen[positions[flat // width]], self.shape)

    def place(self, pointers: Pointers, size: int) -> Callable[[tuple[int, ...]], ElementReference | None]:
        def at(element: tuple[int, ...]) -> ElementReference | None:
            flat = int(np.ravel_multi_index(element, pointers.shape)) if element else 0
            for array, positions, _ in self.groups:
                if flat in self.chosen[positions]:
                    return array.place(int(pointers.address.reshape(-1)[flat]), size)
            return None

        return at


def _targets(
    block: CheckedBlock, op: PointerMemoryOp, pointers: Pointers, mask: Array | None, *, writes: bool
) -> _Targets:
    """The lanes where ``mask`` is true and the pointer is good; the others among them are reported."""
    if writes and op.mask is not None:
        block.require_defined(op, op.mask, "it masks an access")
    size = reference.pointee_of(op.ptrs.type).bytes
    chosen, selected = reference.selected(pointers, mask)
    bad = np.zeros(chosen.size, bool)
    undefined = block.undefined.get(op.ptrs) if block.undefined else None
    if undefined is not None:
        # A lane that is masked by a check of its own undefined index reads an element or the padding.
        hidden = _undefined_mask(block, op, pointers.shape)
        lanes = (np.broadcast_to(undefined.mask, pointers.shape) & ~hidden).reshape(-1)[chosen]
        if lanes.any() and not undefined.reported:
            element = _element_of(chosen[int(np.flatnonzero(lanes)[0])], pointers.shape)
            block.report(
                op,
                "undefined-value",
                "an address depends on an undefined value",
                element=element,
                related=(undefined.origin,),
                elements=int(lanes.sum()),
            )
        bad |= lanes
    groups, outside = [], False
    owners = selected.allocation
    if (owners == UNKNOWN_ALLOCATION).any():
        buffers = block.memory.buffers
        owners = np.array(
            [
                owner_of(buffers, int(a)) if o == UNKNOWN_ALLOCATION else int(o)
                for o, a in zip(owners, selected.address)
            ],
            np.int64,
        )
    for owner in np.unique(owners).tolist():
        mine = np.flatnonzero((owners == owner) & ~bad)
        if mine.size == 0:
            continue
        array = block.launch.array(owner, 0)
        if array is None:
            _report_dangling(block, op, selected, mine, chosen, pointers.shape)
            bad[mine] = True
            continue
        address = selected.address[mine]
        wrong = (address < array.buffer.low) | (address + size > array.buffer.high)
        outside |= bool(wrong.any())
        if wrong.any() and not block.out_of_bounds_pointers.used(op.ptrs, outside=True):
            _report_bounds(block, op, array, address, wrong, mine, chosen, pointers.shape, size)
        elif not wrong.any() and writes and not array.buffer.writable:
            wrong = np.ones(mine.size, bool)
            block.report(
                op, "read-only", f"'{array.buffer.name}' is read-only", place=array.place(int(address[0]), size)
            )
        if wrong.any():
            bad[mine[wrong]] = True
            mine, address = mine[~wrong], address[~wrong]
        if mine.size:
            groups.append((array, mine, array.lanes(address, size)))
    if not outside:
        block.out_of_bounds_pointers.used(op.ptrs, outside=False)
    dropped: Array | None = None
    if bad.any():
        keep, dropped = np.zeros(pointers.shape, bool), np.zeros(pointers.shape, bool)
        keep.reshape(-1)[chosen[~bad]] = True
        dropped.reshape(-1)[chosen[bad]] = True
        mask = keep
    return _Targets(chosen, mask, groups, pointers.shape, dropped)


def _reported(op: Op, mask: Array) -> Undefined:
    """What is left of elements that could not be read."""
    return Undefined(mask, Related("not read here", op.loc), reported=True)


def _undefined_mask(block: CheckedBlock, op: PointerMemoryOp, shape: tuple[int, ...]) -> Array:
    """Where the mask of a pointer operation is undefined."""
    mark = block.undefined.get(op.mask) if op.mask is not None else None
    return np.broadcast_to(np.False_ if mark is None else mark.mask, shape)


def _element_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(flat), shape)) if shape else ()


def _report_dangling(
    block: CheckedBlock, op: Op, selected: Pointers, lanes: Array, chosen: Array, shape: tuple[int, ...]
) -> None:
    address = int(selected.address[lanes[0]])
    what = "the pointer is null" if address == 0 else f"address {address:#x} lies in no array of the launch"
    element = _element_of(chosen[lanes[0]], shape)
    block.report(op, "dangling-pointer", what, element=element, elements=lanes.size)


def _report_bounds(
    block: CheckedBlock,
    op: Op,
    array: ArrayState,
    address: Array,
    wrong: Array,
    lanes: Array,
    chosen: Array,
    shape: tuple[int, ...],
    size: int,
) -> None:
    if op.loc in block.unchecked:  # its index has been reported
        return
    first = int(np.flatnonzero(wrong)[0])
    block.report(
        op,
        "out-of-bounds",
        f"access outside '{array.buffer.name}'",
        element=_element_of(chosen[lanes[first]], shape),
        place=array.place(int(address[first]), size),
        elements=int(wrong.sum()),
    )


def _repeated(block: CheckedBlock, op: MemoryOp, targets: _Targets, pointers: Pointers) -> None:
    """A weak store whose lanes meet writes one element several times, in no order."""
    if not op.is_weak:
        return
    for array, positions, lanes in targets.groups:
        if lanes.positions.size < 2:
            continue
        order = np.argsort(lanes.positions, kind="stable")
        equal = lanes.positions[order][1:] == lanes.positions[order][:-1]
        if equal.any():
            width = lanes.positions.size // positions.size
            second = int(order[1:][equal][0])
            where = array.element(int(lanes.positions[second]))
            block.report(
                op,
                "race-in-call",
                f"the store writes an element of '{array.buffer.name}' more than once",
                element=_element_of(targets.chosen[positions[second // width]], pointers.shape),
                place=where,
                elements=int(equal.sum()),
            )
            return


def load(block: CheckedBlock, op: Load, operands: list[Any], marks: Marks) -> Outcome:
    pointers, mask, padding = block.grouped(op, operands)
    targets = _targets(block, op, pointers, mask, writes=False)
    uninitialized = np.zeros(targets.chosen.size, bool)
    last: ArrayState | None = None
    outside = pointers.address.size - targets.chosen.size
    for array, positions, lanes in targets.groups:
        found = _observe(block, op, READ, array, lanes, outside, targets.locate(positions, lanes))
        if found is not None:
            uninitialized[positions] = found.reshape(positions.size, -1).any(axis=1)
            last = array
    result = reference.load(block.memory, op.attributes, [v.type for v in op.operands], pointers, targets.mask, padding)
    undefined = _masked_off(block, op, mask, padding, pointers.shape) if mask is not None else None
    if last is not None:
        full = np.zeros(pointers.address.size, bool)
        full[targets.chosen[uninitialized]] = True
        more = full.reshape(pointers.shape)
        undefined = _uninitialized(block, op, last, more if undefined is None else more | undefined.mask)
    if targets.dropped is not None:
        undefined = _reported(op, targets.dropped if undefined is None else targets.dropped | undefined.mask)
    return result, undefined


def _masked_off(
    block: CheckedBlock, op: Load, mask: Array, padding: Array | None, shape: tuple[int, ...]
) -> Undefined | None:
    """What of a masked load is undefined apart from what was read."""
    off = ~np.broadcast_to(mask, shape)
    if padding is None:
        if not off.any():
            return None
        return Undefined(off, Related("masked-off elements of this load have no padding", op.loc, block.index))
    if not block.undefined:
        return None
    found, origin = _undefined_mask(block, op, shape), None
    if op.mask is not None and found.any():
        origin = block.undefined[op.mask].origin
    pad = block.undefined.get(op.padding) if op.padding is not None else None
    if pad is not None:
        found, origin = found | (np.broadcast_to(pad.mask, shape) & off), pad.origin
    return Undefined(found, origin) if origin is not None and found.any() else None


def store(block: CheckedBlock, op: Store, operands: list[Any], marks: Marks) -> Outcome:
    pointers, value, mask = block.grouped(op, operands)
    targets = _targets(block, op, pointers, mask, writes=True)
    size = reference.pointee_of(op.ptrs.type).bytes
    _require_kept(block, op, marks[1] if marks else None, targets.mask, targets.place(pointers, size))
    _repeated(block, op, targets, pointers)
    outside = pointers.address.size - targets.chosen.size
    for array, positions, lanes in targets.groups:
        _observe(block, op, WRITE, array, lanes, outside, targets.locate(positions, lanes))
    reference.store(block.memory, op.attributes, [v.type for v in op.operands], pointers, value, targets.mask)
    return None, None


def atomic_rmw(block: CheckedBlock, op: AtomicRmw, operands: list[Any], marks: Marks) -> Outcome:
    pointers, value, mask = block.grouped(op, operands)
    targets = _targets(block, op, pointers, mask, writes=True)
    size = reference.pointee_of(op.ptrs.type).bytes
    _require_kept(block, op, marks[1] if marks else None, targets.mask, targets.place(pointers, size))
    outside = pointers.address.size - targets.chosen.size
    for array, positions, lanes in targets.groups:
        _observe(block, op, ATOMIC, array, lanes, outside, targets.locate(positions, lanes))
    types = [v.type for v in op.operands]
    old = reference.atomic_rmw(block.memory, op.attributes, types, pointers, value, targets.mask)
    _atomic_overflow(block, op, old, value, targets, pointers, size)
    return old, _masked_result(block, op, mask, pointers) if outside else None


def _masked_result(block: CheckedBlock, op: Op, mask: Array, pointers: Pointers) -> Undefined:
    origin = Related("masked-off elements of this atomic have no value", op.loc, block.index)
    return Undefined(~np.broadcast_to(mask, pointers.shape), origin)


def _atomic_overflow(
    block: CheckedBlock, op: AtomicRmw, old: Array, value: Array, targets: _Targets, pointers: Pointers, size: int
) -> None:
    dtype = op.value.tile.element
    if not op.no_signed_wrap or op.kind is not AtomicKind.ADD or not _signed(dtype):
        return
    with np.errstate(all="ignore"):
        new = old + value
    wrong = np.asarray(((old ^ new) & (value ^ new)) < 0)
    if targets.mask is not None:
        wrong &= targets.mask
    if not wrong.any():
        return
    flat = int(np.flatnonzero(wrong)[0])
    element = _element_of(flat, pointers.shape)
    subtracts = op.subtracts
    amount = int(value.reshape(-1)[flat])
    before = int(old.reshape(-1)[flat])
    sign, operand = ("-", -amount) if subtracts else ("+", amount)
    block.report(
        op,
        "atomic-sub-overflow" if subtracts else "atomic-add-overflow",
        f"{before} {sign} {operand} does not fit {dtype}",
        element=element,
        operands={"old": before, "value": operand},
        place=targets.place(pointers, size)(element),
        elements=int(wrong.sum()),
    )


def _signed(dtype: DType) -> bool:
    return dtype.is_integer and dtype.is_signed


def atomic_cas(block: CheckedBlock, op: AtomicCas, operands: list[Any], marks: Marks) -> Outcome:
    pointers, expected, desired, mask = block.grouped(op, operands)
    targets = _targets(block, op, pointers, mask, writes=True)
    size = reference.pointee_of(op.ptrs.type).bytes
    if marks:
        block.require_defined(op, op.expected, "a compare-and-swap compares with it")
        _require_kept(block, op, marks[2], targets.mask, targets.place(pointers, size))
    types = [v.type for v in op.operands]
    old = reference.atomic_cas(block.memory, op.attributes, types, pointers, expected, desired, targets.mask)
    bits = f"u{size}"
    swapped = (old.view(bits) == expected.view(bits)).reshape(-1)
    outside = pointers.address.size - targets.chosen.size
    for array, positions, lanes in targets.groups:
        done = swapped[targets.chosen[positions]]
        width = lanes.positions.size // positions.size
        for kind, which in ((READ, ~done), (ATOMIC, done)):  # where it failed it only read
            if which.any():
                some = Lanes(lanes.positions[np.repeat(which, width)])
                _observe(block, op, kind, array, some, outside, targets.locate(positions[which], some))
    return old, None


ACCESSES: dict[type[Op], Callable[[Any, Any, list[Any], Marks], Outcome]] = {
    LoadView: load_view,
    StoreView: store_view,
    AtomicView: atomic_view,
    Load: load,
    Store: store,
    AtomicRmw: atomic_rmw,
    AtomicCas: atomic_cas,
}
