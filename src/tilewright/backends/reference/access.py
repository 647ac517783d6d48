"""Loads, stores, atomics and views.

Evaluators take the memory, the attributes of the op, the operand types, and one argument per operand field of the
declaration: None for an absent operand, a list for a variadic one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.backends.reference.elementwise import element_type
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.values import Array, PartitionView, Pointers, TensorView
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import AtomicKind
from tilewright.ir.errors import TileError
from tilewright.ir.ops import memory as ops
from tilewright.ir.semantics import constant_array, evaluate
from tilewright.ir.types import PointerType, Type

Attributes = Mapping[str, Any]
Types = Sequence[Type]


def pointee_of(type: Type) -> DType:
    """What a type of pointers points to."""
    dtype = element_type(type)
    assert isinstance(dtype, PointerType) and dtype.pointee is not None
    return dtype.pointee


def selected(pointers: Pointers, mask: Array | None) -> tuple[Array, Pointers]:
    """Flat positions where ``mask`` is true, and the pointers there."""
    if mask is None:
        chosen = np.arange(pointers.address.size)
    else:
        chosen = np.flatnonzero(mask)
    return chosen, Pointers(pointers.allocation.reshape(-1)[chosen], pointers.address.reshape(-1)[chosen])


def _with_elements(background: Array, chosen: Array, elements: Array) -> Array:
    """``background`` with the flat positions ``chosen`` replaced."""
    result = background.reshape(-1).copy()
    result[chosen] = elements
    return result.reshape(background.shape)


def load(
    memory: Memory, attributes: Attributes, types: Types, ptrs: Pointers, mask: Array | None, padding: Array | None
) -> Array:
    dtype = pointee_of(types[0])
    background = constant_array(0, dtype, ptrs.shape) if padding is None else padding
    chosen, pointers = selected(ptrs, mask)
    return _with_elements(background, chosen, memory.gather(pointers, dtype))


def store(
    memory: Memory, attributes: Attributes, types: Types, ptrs: Pointers, value: Array, mask: Array | None
) -> None:
    chosen, pointers = selected(ptrs, mask)
    memory.scatter(pointers, pointee_of(types[0]), value.reshape(-1)[chosen])


def _update(memory: Memory, dtype: DType, pointers: Pointers, new_value: Callable[[Array, Array], Array]) -> Array:
    """Atomically replace each element by ``new_value(its position, old)``, in order; returns the old values.

    Repeated addresses go in rounds, each with distinct ones, so that every element sees the one before it.
    """
    order = np.argsort(pointers.address, kind="stable")
    address = pointers.address[order]
    positions = np.arange(order.size)
    first = np.maximum.accumulate(np.where(np.r_[True, address[1:] != address[:-1]][: order.size], positions, 0))
    rounds = np.empty_like(positions)
    rounds[order] = positions - first
    old = np.empty(order.size, dtype.storage)
    for n in range(int(rounds.max(initial=-1)) + 1):
        now = np.flatnonzero(rounds == n)
        along = Pointers(pointers.allocation[now], pointers.address[now])
        old[now] = memory.gather(along, dtype)
        memory.scatter(along, dtype, new_value(now, old[now]))
    return old


def _combine(kind: AtomicKind, dtype: DType, old: Array, value: Array) -> Array:
    return value if kind is AtomicKind.XCHG else evaluate(kind.value, dtype, {}, [old, value])


def atomic_rmw(
    memory: Memory, attributes: Attributes, types: Types, ptrs: Pointers, value: Array, mask: Array | None
) -> Array:
    dtype, kind = pointee_of(types[0]), attributes["kind"]
    chosen, pointers = selected(ptrs, mask)
    values = value.reshape(-1)[chosen]
    old = _update(memory, dtype, pointers, lambda now, before: _combine(kind, dtype, before, values[now]))
    return _with_elements(constant_array(0, dtype, ptrs.shape), chosen, old)


def atomic_cas(
    memory: Memory,
    attributes: Attributes,
    types: Types,
    ptrs: Pointers,
    expected: Array,
    desired: Array,
    mask: Array | None,
) -> Array:
    dtype = pointee_of(types[0])
    bits = f"u{dtype.bytes}"
    chosen, pointers = selected(ptrs, mask)
    wanted, replacement = expected.reshape(-1)[chosen], desired.reshape(-1)[chosen]

    def swap(now: Array, before: Array) -> Array:
        return np.where(before.view(bits) == wanted[now].view(bits), replacement[now], before)

    return _with_elements(expected, chosen, _update(memory, dtype, pointers, swap))


def make_tensor_view(
    memory: Memory, attributes: Attributes, types: Types, base: Pointers, shape: list[Array], strides: list[Array]
) -> TensorView:
    type = attributes["type"]
    return TensorView(type, base, *type.filled(map(int, shape), map(int, strides)))


def _window(
    memory: Memory, attributes: Attributes, partition: PartitionView, indices: list[Array], *, writing: bool
) -> tuple[tuple[slice, ...], Array | None]:
    """The part of a tile that lies inside the array, and the memory there (None when there is no such part).

    TileError when an axis that is promised to be in bounds is not.
    """
    type, view = partition.type, partition.view
    promised = attributes.get("in_bounds", (False,) * len(type.order))
    inside, starts = [], []
    for k, (axis, length) in enumerate(zip(type.order, type.tile_shape)):
        start, extent = int(indices[k]) * type.steps[k], view.shape[axis]
        if promised[k] and (start < 0 or start + length > extent):
            raise TileError(
                f"tile axis {k} covers elements {start} to {start + length - 1} of array axis {axis}, which has "
                f"{extent}; the access promises to stay in bounds there"
            )
        low = min(max(-start, 0), length)
        inside.append(slice(low, max(min(extent - start, length), low)))
        starts.append(start + low)
    shape = [s.stop - s.start for s in inside]
    if 0 in shape:
        return tuple(inside), None
    return tuple(inside), memory.window(view, starts, shape, type.order, writing=writing)


def load_view(
    memory: Memory, attributes: Attributes, types: Types, partition: PartitionView, indices: list[Array]
) -> Array:
    type = partition.type
    inside, window = _window(memory, attributes, partition, indices, writing=False)
    if window is not None and window.shape == type.tile_shape:
        return window.copy()
    result = constant_array(ops.padding_value(type.padding, type.view.dtype), type.view.dtype, type.tile_shape)
    if window is not None:
        result[inside] = window
    return result


def store_view(
    memory: Memory, attributes: Attributes, types: Types, partition: PartitionView, value: Array, indices: list[Array]
) -> None:
    inside, window = _window(memory, attributes, partition, indices, writing=True)
    if window is not None:
        memory.write(window, value[inside])


def atomic_view(
    memory: Memory, attributes: Attributes, types: Types, partition: PartitionView, value: Array, indices: list[Array]
) -> None:
    inside, window = _window(memory, attributes, partition, indices, writing=True)
    if window is None:
        return
    dtype, kind = partition.type.view.dtype, attributes["kind"]
    along = [np.arange(n) * stride for n, stride in zip(window.shape, window.strides)]
    offsets = sum(np.meshgrid(*along, indexing="ij"), np.zeros(window.shape, np.int64)).reshape(-1)
    allocation = np.full(offsets.shape, partition.view.base.allocation, np.int64)
    pointers = Pointers(allocation, offsets + window.ctypes.data)
    values = value[inside].reshape(-1)
    _update(memory, dtype, pointers, lambda now, before: _combine(kind, dtype, before, values[now]))


MEMORY: dict[type[Op], Callable[..., Any]] = {
    ops.MakeTensorView: make_tensor_view,
    ops.MakePartitionView: lambda memory, attributes, types, view: PartitionView(attributes["type"], view),
    ops.Load: load,
    ops.Store: store,
    ops.AtomicRmw: atomic_rmw,
    ops.AtomicCas: atomic_cas,
    ops.LoadView: load_view,
    ops.StoreView: store_view,
    ops.AtomicView: atomic_view,
}
