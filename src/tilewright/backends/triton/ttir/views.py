"""Tiles of partition views: by tensor descriptors where the plan says so, else by pointers with masks."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from tilewright.backends.triton.ttir import memory, ordered_memory
from tilewright.backends.triton.ttir.shape import number
from tilewright.backends.triton.ttir.state import Extent, LoweringState, View
from tilewright.backends.triton.ttir.text import Val, Writer, axes_kept, names
from tilewright.ir.core import Value
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.ir.ops.memory import (
    AtomicView,
    LoadView,
    MakePartitionView,
    MakeTensorView,
    StoreView,
    array_view,
    padding_value,
)
from tilewright.ir.types import PartitionViewType, TensorViewType

_FAR = (1 << 31) - 1


def tensor_view(s: LoweringState, op: MakeTensorView) -> None:
    """make_tensor_view."""
    s.bind_view(op.result, View(s[op.base], *op.type.filled(s.all(op.shape), s.all(op.strides))))


def partition_view(s: LoweringState, op: MakePartitionView) -> None:
    s.bind_view(op.result, s.view(op.view))


@dataclass(frozen=True)
class Access:
    """Pointers to the elements of a tile, and where they are inside the array; None: everywhere."""

    pointers: Val
    mask: Val | None


def pointers_of(s: LoweringState, op: Any) -> Access:
    """The tile of ``op`` as pointers."""
    w = s.w
    type_ = op.view.partition
    view = s.view(op.view)
    in_bounds = op.promised
    kept = axes_kept(type_.tile_shape)
    shape = tuple(type_.tile_shape[k] for k in kept)
    base, near, far, masks = view.base, None, [], []
    reach = 0  # what the offsets in 32 bits may sum up to
    for k, axis in enumerate(type_.order):
        bits = type_.view.index_dtype.bitwidth
        start, reachable = start_of(s, type_, k, op.indices[k], bits, known=in_bounds[k])
        stride = view.strides[axis]
        base = memory.offset(w, base, times(w, w.resize(start, 64), stride))
        at = start
        if k in kept:
            steps = w.arange(type_.tile_shape[k])
            most = (type_.tile_shape[k] - 1) * _largest_stride(s, op.view, axis)
            fits = reach + most < 1 << 31
            moved = w.broadcast_along(times(w, w.resize(steps, 32 if fits else 64), stride), (kept.index(k),), shape)
            if fits:
                reach += most
                near = moved if near is None else w.op("arith.addi", near, moved)
            else:
                far.append(moved)
            at = w.op("arith.addi", w.splat(start, steps.shape), w.resize(steps, start.bits))
        if not in_bounds[k]:
            inside = _inside(s, at, view.shape[axis], op.indices[k])
            masks.append(w.broadcast_along(inside, (kept.index(k),) if k in kept else (), shape))
        if reachable is not None:
            masks.append(w.splat(reachable, shape))
    pointers = w.splat(base, shape)
    for moved in (*far, *([] if near is None else [near])):
        pointers = memory.offset(w, pointers, moved)
    return Access(pointers, functools.reduce(lambda x, y: w.op("arith.andi", x, y), masks) if masks else None)


def _largest_stride(s: LoweringState, view: Value, axis: int) -> int:
    """A bound of the magnitude of the stride along ``axis`` of the array behind the partition view ``view``."""
    t: TensorViewType = view.type.view  # type: ignore[union-attr]
    static = t.strides[axis]
    if static is not None:
        return abs(static)
    low, high = t.index_dtype.min, t.index_dtype.max
    made = array_view(view)
    if made is not None:
        low, high = s.facts.range(made.strides[t.strides[:axis].count(None)])
    return max(abs(low), abs(high))


def _inside(s: LoweringState, at: Val, extent: Extent, index: Value) -> Val:
    """Whether the coordinates ``at`` of tile ``index`` lie in an axis of ``extent``."""
    w = s.w
    below = w.compare("slt", at, w.splat(scalar(w, extent, at.element), at.shape))
    if s.facts.range(index)[0] >= 0:
        return below
    return w.op("arith.andi", below, w.compare("sge", at, w.like(0, at)))


def start_of(
    s: LoweringState, type_: PartitionViewType, k: int, index: Value, bits: int, *, known: bool
) -> tuple[Val, Val | None]:
    """The array coordinate where tile ``index`` starts along tile axis ``k``, in ``bits`` bits.

    Also a test that it did not overflow, where that could happen.
    """
    w, exact, step = s.w, s[index], type_.steps[k]
    value = w.resize(exact, bits, signed=index.tile.element.is_signed)
    start = value if step == 1 else w.op("arith.muli", value, w.like(step, value))
    limit = (1 << (bits - 2 if bits == 64 else bits - 1)) - type_.tile_shape[k]  # what follows it fits as well
    low, high = s.facts.range(index)
    if known or (low * step >= -limit and high * step <= limit):
        return start, None
    bound, most = limit // step, (1 << (exact.bits - 1)) - 1
    above = w.compare("sle", exact, w.like(min(bound, most), exact))
    below = w.compare("sge", exact, w.like(max(-bound, -most - 1), exact))
    return start, w.op("arith.andi", above, below)


def scalar(w: Writer, extent: Extent, name: str) -> Val:
    """An extent as a value of element type ``name``."""
    if isinstance(extent, int):
        return w.constant(extent, name)
    return w.resize(extent, int(name[1:]))


def times(w: Writer, x: Val, stride: Extent) -> Val:
    if isinstance(stride, int):
        return x if stride == 1 else w.op("arith.muli", x, w.like(stride, x))
    return w.op("arith.muli", x, w.splat(scalar(w, stride, x.element), x.shape))


# -- ops


def load_view(s: LoweringState, op: LoadView) -> Val:
    w = s.w
    type_ = op.view.partition
    name, shape = s.tensor_type(op.result)
    if op.memory_order is MemoryOrder.WEAK and op in s.plan.descriptors:
        return _load_descriptor(s, op, s.plan.descriptors[op])
    access = pointers_of(s, op)
    padding = None
    if access.mask is not None:
        padding = number(w, padding_value(type_.padding, type_.view.dtype), type_.view.dtype, shape)
    if op.memory_order is not MemoryOrder.WEAK:
        return ordered_memory.load(s, op, access.pointers, access.mask, padding)
    return memory.load_values(s, access.pointers, access.mask, padding, name)


def store_view(s: LoweringState, op: StoreView) -> None:
    value = s[op.value]
    if op.memory_order is MemoryOrder.WEAK and op in s.plan.descriptors:
        _store_descriptor(s, op, s.plan.descriptors[op], value)
        return
    access = pointers_of(s, op)
    if op.memory_order is not MemoryOrder.WEAK:
        ordered_memory.store(s, op, access.pointers, value, access.mask)
    else:
        memory.store_values(s, access.pointers, value, access.mask)


def atomic_view(s: LoweringState, op: AtomicView) -> None:
    access = pointers_of(s, op)
    memory.atomic(s, op, access.pointers, s[op.value], access.mask, op.value)


# -- descriptors


def descriptor_type(s: LoweringState, d: Descriptor) -> str:
    """Triton 3.8 dropped the word tensor."""
    return f"!tt.tensordesc<tensor<{d.tile}>>" if s.dialect < (3, 8) else f"!tt.tensordesc<{d.tile}>"


def _coordinates(s: LoweringState, op: Any, d: Descriptor) -> list[Val]:
    """The array coordinates of the tile, one per axis of the descriptor. Far outside where they would overflow."""
    w = s.w
    type_ = op.view.partition
    coordinates = []
    for axis in d.axes:
        k = type_.order.index(axis)
        start, reachable = start_of(s, type_, k, op.indices[k], 32, known=False)
        if reachable is not None:
            start = w.select(reachable, start, w.constant(_FAR - type_.tile_shape[k], "i32"))
        coordinates.append(start)
    return coordinates


def _tile_order(op: Any, d: Descriptor) -> list[int]:
    """For each tile axis that TTIR keeps, its position among the kept axes of the descriptor."""
    type_ = op.view.partition
    kept = [axis for axis, n in zip(d.axes, d.block) if n != 1]
    return [kept.index(type_.order[k]) for k in axes_kept(type_.tile_shape)]


def _load_descriptor(s: LoweringState, op: Any, d: Descriptor) -> Val:
    w = s.w
    shape = tuple(n for n in d.block if n != 1)
    result = Val("", d.element, shape)
    starts = _coordinates(s, op, d)
    text = f"tt.descriptor_load {s.descriptors[d].name}[{names(starts)}]"
    loaded = w.emit(f"{text} : {descriptor_type(s, d)} -> {result.type}", d.element, shape)
    return w.trans(loaded, _tile_order(op, d))


def _store_descriptor(s: LoweringState, op: Any, d: Descriptor, value: Val) -> None:
    w = s.w
    order = _tile_order(op, d)
    inverse = [order.index(i) for i in range(len(order))]
    if value.element == "f32" and w.target.is_cuda:
        # Triton would take shared memory for the accumulators before the loads have freed theirs.
        value = w.optimization_barrier(value)
    value = w.trans(value, inverse)
    starts, types = _coordinates(s, op, d), f"{descriptor_type(s, d)}, {value.type}"
    w.located(f"tt.descriptor_store {s.descriptors[d].name}[{names(starts)}], {value.name} : {types}")
