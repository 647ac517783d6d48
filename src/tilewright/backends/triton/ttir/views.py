"""Tiles of partition views: by tensor descriptors where the plan says so, else by pointers with masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.backends.triton.ttir import memory
from tilewright.backends.triton.ttir.shape import number
from tilewright.backends.triton.ttir.state import Descriptor, Extent, State, View, axes_kept
from tilewright.backends.triton.ttir.text import Val, Writer
from tilewright.ir.core import Op, Value
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.ops.memory import padding_value
from tilewright.ir.types import PartitionViewType

_FAR = (1 << 31) - 1


def tensor_view(s: State, op: Any) -> None:
    """make_tensor_view."""
    type_ = op.attributes["type"]
    shape, strides = iter(s.all(op.shape)), iter(s.all(op.strides))
    s.bind_view(
        op.result,
        View(
            s[op.base],
            tuple(next(shape) if e is None else e for e in type_.shape),
            tuple(next(strides) if e is None else e for e in type_.strides),
        ),
    )


def partition_view(s: State, op: Op) -> None:
    s.bind_view(op.result, s.view(op.operands[0]))


@dataclass(frozen=True)
class Access:
    """Pointers to the elements of a tile, and where they are inside the array; None: everywhere."""

    pointers: Val
    mask: Val | None


def pointers_of(s: State, op: Any) -> Access:
    """The tile of ``op`` as pointers."""
    w = s.w
    type_: PartitionViewType = op.view.type
    view = s.view(op.view)
    wide = type_.view.index_dtype.bitwidth == 64
    in_bounds = op.attributes.get("in_bounds", (False,) * len(type_.order))
    kept = axes_kept(type_.tile_shape)
    shape = tuple(type_.tile_shape[k] for k in kept)
    base, offsets, mask = view.base, None, None
    for k, axis in enumerate(type_.order):
        tile, step, stride, extent = type_.tile_shape[k], type_.steps[k], view.strides[axis], view.shape[axis]
        start, reachable = start_of(s, op.indices[k], step, tile, wide, known=in_bounds[k])
        base = memory.offset(w, base, times(w, widened(s, start), stride))
        inside = None
        if k in kept:
            position = kept.index(k)
            steps = w.arange(tile)
            if wide:
                steps = w.convert("arith.extsi", steps, "i64")
            moved = w.place(times(w, steps, stride), (position,), shape)
            offsets = moved if offsets is None else w.op("arith.addi", *same_width(w, offsets, moved))
            if not in_bounds[k]:
                at = w.op("arith.addi", w.splat(start, (tile,)), steps)
                inside = w.compare("slt", at, w.splat(scalar(w, extent, start.element), (tile,)))
                if s.facts.range(op.indices[k])[0] < 0:
                    inside = w.op("arith.andi", inside, w.compare("sge", at, w.like(0, at)))
                inside = w.place(inside, (position,), shape)
        elif not in_bounds[k]:
            inside = w.compare("slt", start, scalar(w, extent, start.element))
            if s.facts.range(op.indices[k])[0] < 0:
                inside = w.op("arith.andi", inside, w.compare("sge", start, w.like(0, start)))
            inside = w.splat(inside, shape)
        for part in (inside, w.splat(reachable, shape) if reachable is not None else None):
            if part is not None:
                mask = part if mask is None else w.op("arith.andi", mask, part)
    pointers = w.splat(base, shape)
    return Access(memory.offset(w, pointers, offsets) if offsets is not None else pointers, mask)


def start_of(s: State, index: Value, step: int, tile: int, wide: bool, *, known: bool) -> tuple[Val, Val | None]:
    """The array coordinate of tile ``index``, and a test that it did not overflow where that could happen."""
    w = s.w
    name = "i64" if wide else "i32"
    value = widened(s, s[index], index) if wide else w.convert("arith.trunci", widened(s, s[index], index), "i32")
    if s[index].element == "i32" and not wide:
        value = s[index]
    start = value if step == 1 else w.op("arith.muli", value, w.constant(step, name))
    limit = (1 << (62 if wide else 31)) - 1 - tile
    low, high = s.facts.range(index)
    if known or (low * step >= -limit and high * step <= limit):
        return start, None
    bound = limit // step
    exact = s[index]
    above = w.compare("sle", exact, w.like(min(bound, (1 << (exact.bits - 1)) - 1), exact))
    below = w.compare("sge", exact, w.like(max(-bound, -(1 << (exact.bits - 1))), exact))
    return start, w.op("arith.andi", above, below)


def widened(s: State, x: Val, value: Value | None = None) -> Val:
    """A scalar index as i64."""
    unsigned = value is not None and not value.tile.element.is_signed
    return s.w.convert("arith.extui" if unsigned else "arith.extsi", x, "i64") if x.bits < 64 else x


def scalar(w: Writer, extent: Extent, name: str) -> Val:
    """An extent as a value of element type ``name``."""
    if isinstance(extent, int):
        return w.constant(extent, name)
    if extent.element == name:
        return extent
    return w.convert("arith.extsi" if extent.bits < int(name[1:]) else "arith.trunci", extent, name)


def times(w: Writer, x: Val, stride: Extent) -> Val:
    if isinstance(stride, int):
        return x if stride == 1 else w.op("arith.muli", x, w.like(stride, x))
    return w.op("arith.muli", x, w.splat(scalar(w, stride, x.element), x.shape))


def same_width(w: Writer, x: Val, y: Val) -> tuple[Val, Val]:
    if x.element == y.element:
        return x, y
    return w.convert("arith.extsi", x, "i64"), w.convert("arith.extsi", y, "i64")


# -- ops


def load_view(s: State, op: Any) -> Val:
    w = s.w
    type_: PartitionViewType = op.view.type
    name, shape = s.form(op.result)
    if op.attributes["memory_order"] is MemoryOrder.WEAK and op in s.plan.descriptors:
        return _load_descriptor(s, op, s.plan.descriptors[op])
    access = pointers_of(s, op)
    padding = None
    if access.mask is not None:
        padding = number(w, padding_value(type_.padding, type_.view.dtype), type_.view.dtype, shape)
    if op.attributes["memory_order"] is not MemoryOrder.WEAK:
        return memory.strong_load(s, op, access.pointers, access.mask, padding)
    return memory.load_values(s, access.pointers, access.mask, padding, name)


def store_view(s: State, op: Any) -> None:
    value = s[op.value]
    if op.attributes["memory_order"] is MemoryOrder.WEAK and op in s.plan.descriptors:
        _store_descriptor(s, op, s.plan.descriptors[op], value)
        return
    access = pointers_of(s, op)
    if op.attributes["memory_order"] is not MemoryOrder.WEAK:
        memory.strong_store(s, op, access.pointers, value, access.mask)
    else:
        memory.store_values(s, access.pointers, value, access.mask)


def atomic_view(s: State, op: Any) -> None:
    access = pointers_of(s, op)
    memory.atomic(s, op, access.pointers, s[op.value], access.mask, op.value)


# -- descriptors


def descriptor_type(s: State, d: Descriptor) -> str:
    """Triton 3.7 dropped the word tensor."""
    tile = f"{'x'.join(map(str, d.block))}x{d.element}"
    return f"!tt.tensordesc<tensor<{tile}>>" if s.dialect < (3, 7) else f"!tt.tensordesc<{tile}>"


def _coordinates(s: State, op: Any, d: Descriptor) -> str:
    """The array coordinates of the tile, one per axis of the descriptor. Far outside where they would overflow."""
    w = s.w
    type_: PartitionViewType = op.view.type
    coordinates = []
    for axis in d.axes:
        k = type_.order.index(axis)
        start, reachable = start_of(s, op.indices[k], type_.steps[k], type_.tile_shape[k], False, known=False)
        if reachable is not None:
            start = w.select(reachable, start, w.constant(_FAR - type_.tile_shape[k], "i32"))
        coordinates.append(start.name)
    return ", ".join(coordinates)


def _tile_order(op: Any, d: Descriptor) -> list[int]:
    """For each tile axis that TTIR keeps, its position among the kept axes of the descriptor."""
    type_: PartitionViewType = op.view.type
    kept = [axis for axis, n in zip(d.axes, d.block) if n != 1]
    return [kept.index(type_.order[k]) for k in axes_kept(type_.tile_shape)]


def _load_descriptor(s: State, op: Any, d: Descriptor) -> Val:
    w = s.w
    shape = tuple(n for n in d.block if n != 1)
    result = Val("", d.element, shape)
    text = f"tt.descriptor_load {s.descriptors[d].name}[{_coordinates(s, op, d)}]"
    loaded = w.emit(f"{text} : {descriptor_type(s, d)} -> {result.type}", d.element, shape)
    return w.trans(loaded, _tile_order(op, d))


def _store_descriptor(s: State, op: Any, d: Descriptor, value: Val) -> None:
    w = s.w
    order = _tile_order(op, d)
    inverse = [order.index(i) for i in range(len(order))]
    value = w.trans(value, inverse)
    w.located(
        f"tt.descriptor_store {s.descriptors[d].name}[{_coordinates(s, op, d)}], {value.name} : "
        f"{descriptor_type(s, d)}, {value.type}"
    )
