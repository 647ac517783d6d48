"""Atomic operations on elements of arrays, of raw memory and of tiled views."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import to_tile
from tilewright.frontend.python.ops.element_refs import ElementRefs, elements, raw_elements, spread
from tilewright.frontend.python.ops.load_store import order_and_scope
from tilewright.frontend.python.values import Tile, TiledView
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import AtomicKind, MemoryOrder, MemoryScope
from tilewright.ir.errors import TileTypeError
from tilewright.ir.ops.memory import ATOMIC_DTYPES, CAS_DTYPES, AtomicCas, AtomicRmw, AtomicView
from tilewright.ir.types import PartitionViewType
from tilewright.language import memory as lang
from tilewright.language.array import RawArrayMemory as RawStub
from tilewright.language.array import TiledView as ViewStub

ORDERS = (MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)
ACQ_REL, DEVICE = MemoryOrder.ACQ_REL, MemoryScope.DEVICE


def _check_dtype(ctx: Context, kind: AtomicKind | None, dtype: DType) -> None:
    allowed = CAS_DTYPES if kind is None else ATOMIC_DTYPES[kind]
    if dtype.short not in allowed:
        name = "compare-and-swap" if kind is None else f"atomic {kind.value}"
        ctx.fail(TileTypeError, f"{name} is not available for arrays of {dtype}; it takes {', '.join(allowed)}")


def _update(ctx: Context, kind: AtomicKind, value: Any, dtype: DType, shape: tuple[int, ...]) -> Value:
    """The ``update`` argument for elements of ``dtype`` in a tile of ``shape``."""
    _check_dtype(ctx, kind, dtype)
    if kind in (AtomicKind.AND, AtomicKind.OR, AtomicKind.XOR):
        found = to_tile(ctx, value)
        if found.element_type is not dtype:
            ctx.fail(
                TileTypeError,
                f"the update is {found.element_type}, but the array is {dtype}: bitwise atomics need equal "
                f"dtypes; write ct.{dtype}(...) or astype",
            )
    return spread(ctx, value, dtype, shape, "the update")


def _combine(
    ctx: Context, kind: AtomicKind, at: ElementRefs, update: Any, memory_order: Any, memory_scope: Any
) -> Tile:
    order, scope = order_and_scope(ctx, memory_order, memory_scope, ORDERS)
    value = _update(ctx, kind, update, at.dtype, at.shape)
    old = ctx.builder.emit(AtomicRmw, at.pointers, value, at.where, kind=kind, memory_order=order, memory_scope=scope)
    return Tile(old)


def _compare_and_swap(
    ctx: Context, at: ElementRefs, expected: Any, desired: Any, memory_order: Any, memory_scope: Any
) -> Tile:
    _check_dtype(ctx, None, at.dtype)
    order, scope = order_and_scope(ctx, memory_order, memory_scope, ORDERS)
    old = spread(ctx, expected, at.dtype, at.shape, "'expected'")
    new = spread(ctx, desired, at.dtype, at.shape, "'desired'")
    return Tile(ctx.builder.emit(AtomicCas, at.pointers, old, new, at.where, memory_order=order, memory_scope=scope))


def _of_array(kind: AtomicKind) -> OpBuilder:
    def build(
        ctx: Context,
        array: Any,
        indices: Any,
        update: Any,
        *,
        check_bounds: Any = True,
        memory_order: Any = ACQ_REL,
        memory_scope: Any = DEVICE,
    ) -> Tile:
        return _combine(ctx, kind, elements(ctx, array, indices, check_bounds), update, memory_order, memory_scope)

    return build


def _of_raw_memory(kind: AtomicKind) -> OpBuilder:
    def build(
        ctx: Context,
        memory: Any,
        offset: Any,
        update: Any,
        *,
        mask: Any = None,
        memory_order: Any = ACQ_REL,
        memory_scope: Any = DEVICE,
    ) -> Tile:
        return _combine(ctx, kind, raw_elements(ctx, memory, offset, mask), update, memory_order, memory_scope)

    return build


def _of_view(kind: AtomicKind) -> OpBuilder:
    def build(ctx: Context, view: Any, index: Any, update: Any) -> None:
        if not isinstance(view, TiledView):
            ctx.fail(TileTypeError, f"expected a tiled view, got {describe(view)}")
        type_: PartitionViewType = view.view.type  # type: ignore[assignment]
        entries = check.index(ctx, index, len(type_.tile_shape), "the view")
        value = _update(ctx, kind, update, view.dtype, type_.tile_shape)
        ctx.builder.emit_op(AtomicView, view.view, value, entries, kind=kind)

    return build


def _cas_of_array(
    ctx: Context,
    array: Any,
    indices: Any,
    expected: Any,
    desired: Any,
    *,
    check_bounds: Any = True,
    memory_order: Any = ACQ_REL,
    memory_scope: Any = DEVICE,
) -> Tile:
    at = elements(ctx, array, indices, check_bounds)
    return _compare_and_swap(ctx, at, expected, desired, memory_order, memory_scope)


def _cas_of_raw_memory(
    ctx: Context,
    memory: Any,
    offset: Any,
    expected: Any,
    desired: Any,
    *,
    mask: Any = None,
    memory_order: Any = ACQ_REL,
    memory_scope: Any = DEVICE,
) -> Tile:
    at = raw_elements(ctx, memory, offset, mask)
    return _compare_and_swap(ctx, at, expected, desired, memory_order, memory_scope)


_KINDS = {k.value: k for k in AtomicKind}
_COMBINING = ("add", "max", "min", "and", "or", "xor")

BUILDERS: dict[Any, OpBuilder] = {
    lang.atomic_cas: _cas_of_array,
    RawStub.atomic_cas_offset: _cas_of_raw_memory,
    **{getattr(lang, f"atomic_{name}"): _of_array(kind) for name, kind in _KINDS.items()},
    **{getattr(RawStub, f"atomic_{name}_offset"): _of_raw_memory(kind) for name, kind in _KINDS.items()},
    **{getattr(ViewStub, f"atomic_store_{name}"): _of_view(_KINDS[name]) for name in _COMBINING},
}
