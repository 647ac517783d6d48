"""Loads, stores and atomics of tiles of views, under observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.backends.reference import access as reference
from tilewright.backends.reference.values import Array, PartitionView
from tilewright.ir.core import Op
from tilewright.ir.enums import PaddingMode
from tilewright.ir.ops import memory
from tilewright.ir.semantics import constant_array
from tilewright.ir.types import PartitionViewType
from tilewright.records import dataclass
from tilewright.sanitizer.arrays import ArrayState, injective, outside_axis
from tilewright.sanitizer.observation import (
    ATOMIC,
    READ,
    WRITE,
    Outcome,
    never_written,
    not_read,
    observe,
    require_kept,
)
from tilewright.sanitizer.report import ElementReference, Related
from tilewright.sanitizer.undefined import Marks, Undefined
from tilewright.sanitizer.windows import Touched, Window

if TYPE_CHECKING:
    from tilewright.sanitizer.block import CheckedBlock

OUTSIDE, UNMASKED = "partition-outside", "partition-unmasked"
_Outside = tuple[str, int, int]  # the category, the axis of the tile, and where it begins along that


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


def _part(block: CheckedBlock, op: memory.ViewMemoryOp, partition: PartitionView, indices: list[Array]) -> _Part:
    """Where the tile lies; reports what is outside and must not be."""
    type, view = partition.type, partition.view
    if block.undefined and any(m.reported for m in map(block.undefined.get, op.operands) if m is not None):
        return _Part((slice(0, 0),) * len(type.tile_shape), (0,) * len(type.tile_shape), None, None, True)
    for index in op.indices:
        block.require_defined(op, index, "it is the index of a tile")
    block.require_defined(op, op.view, "it describes the array")
    promised = op.promised
    inside, starts = [], []
    wrong: _Outside | None = None
    for k, (axis, length) in enumerate(zip(type.order, type.tile_shape)):
        start, extent = int(indices[k]) * type.steps[k], view.shape[axis]
        low = min(max(-start, 0), length)
        high = max(min(extent - start, length), low)
        if promised[k] and high - low < length:
            wrong = wrong or (UNMASKED, k, start)
        elif low == high and not isinstance(op, memory.AtomicView) and not _pads(block, op, type):
            wrong = OUTSIDE, k, start
        inside.append(slice(low, high))
        starts.append(start)
    if wrong is not None:
        _report_outside(block, op, partition, starts, indices, wrong)
    if any(s.start == s.stop for s in inside):
        return _Part(tuple(inside), tuple(starts), None, None, wrong is not None)
    array, touched = _window(block, op, partition, inside, starts)
    return _Part(tuple(inside), tuple(starts), array, touched, touched is None)


def _pads(block: CheckedBlock, op: Op, type: PartitionViewType) -> bool:
    """Whether a tile wholly outside of its array is all padding: in Python, where the padding is named."""
    return isinstance(op, memory.LoadView) and not block.launch.function.may_alias and type.padding is not _UNDETERMINED


_UNDETERMINED = PaddingMode.UNDETERMINED


def _report_outside(
    block: CheckedBlock, op: Op, partition: PartitionView, starts: list[int], indices: list[Array], wrong: _Outside
) -> None:
    category, k, start = wrong
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
    block: CheckedBlock, op: memory.ViewMemoryOp, partition: PartitionView, inside: list[slice], starts: list[int]
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
    if first % size:
        block.report(op, "misaligned-access", f"the address is no multiple of {size}, the size of an element")
    if low < buffer.low or high > buffer.high:
        place = array.place(low if low < buffer.low else high - size, size)
        block.report(op, "out-of-bounds", f"the tile leaves the memory of '{buffer.name}'", place=place)
        return None, None
    writes = not isinstance(op, memory.LoadView)
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
    window = Window((first - buffer.low) // size, tuple(shape), tuple(strides))
    if size == array.unit:
        return array, window
    return array, array.lanes(buffer.low + window.elements().reshape(-1) * size, size)


def relaxed(op: memory.ViewMemoryOp) -> dict[str, Any]:
    """The attributes of ``op`` without its promise of bounds, which has been checked."""
    return (
        op.attributes
        if isinstance(op, memory.AtomicView)
        else {**op.attributes, "in_bounds": (False,) * len(op.promised)}
    )


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


def load_view(block: CheckedBlock, op: memory.LoadView, operands: list[Any], marks: Marks) -> Outcome:
    partition, *indices = operands
    part = _part(block, op, partition, indices)
    type = partition.type
    if part.touched is None or part.array is None:
        padding = constant_array(memory.padding_value(type.padding, type.view.dtype), type.view.dtype, type.tile_shape)
        return padding, not_read(op, np.ones(type.tile_shape, bool)) if part.reported else None
    whole = part.shape == type.tile_shape
    left_out = 0 if whole else type.tile.size - int(np.prod(part.shape))
    uninitialized = observe(block, op, READ, part.array, part.touched, left_out, part.locate)
    result = reference.load_view(block.memory, relaxed(op), [], partition, indices)
    undefined = None
    if not whole and type.padding is _UNDETERMINED:
        name = part.array.buffer.name
        origin = Related(f"padding of undetermined value outside '{name}'", op.loc, block.index)
        undefined = Undefined(_outside_mask(type.tile_shape, part.inside), origin)
    if uninitialized is not None:
        mask = np.zeros(type.tile_shape, bool)
        mask[part.inside] = uninitialized.reshape(*part.shape, -1).any(axis=-1)
        undefined = never_written(block, op, part.array, mask if undefined is None else mask | undefined.mask)
    return result, undefined


def store_view(
    block: CheckedBlock, op: memory.AtomicView | memory.StoreView, operands: list[Any], marks: Marks
) -> Outcome:
    partition, value, *indices = operands
    part = _part(block, op, partition, indices)
    if part.touched is None or part.array is None:
        return None, None
    shape = partition.type.tile_shape
    kept = None if part.shape == shape else ~_outside_mask(shape, part.inside)
    require_kept(block, op, marks[1] if marks else None, kept, _view_element(part, partition, block))
    kind, store = (
        (ATOMIC, reference.atomic_view) if isinstance(op, memory.AtomicView) else (WRITE, reference.store_view)
    )
    observe(block, op, kind, part.array, part.touched, value.size - int(np.prod(part.shape)), part.locate)
    store(block.memory, relaxed(op), [], partition, value, indices)
    return None, None
