"""Atomic operations on elements of arrays, of raw memory and of tiled views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import to_tile
from tilewright.frontend.python.ops.element_refs import ElementRefs, elements, raw_elements, spread
from tilewright.frontend.python.ops.load_store import order_and_scope
from tilewright.frontend.python.values import Tile, TiledView
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, dtype_from_short
from tilewright.ir.enums import AtomicKind, MemoryOrder
from tilewright.ir.ops.memory import ATOMIC_DTYPES, CAS_DTYPES, AtomicCas, AtomicRmw, AtomicView
from tilewright.ir.types import PartitionViewType
from tilewright.language import memory as lang
from tilewright.language.array import RawArrayMemory as RawStub
from tilewright.language.array import TiledView as ViewStub

ORDERS = (MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)


def _check_dtype(ctx: Context, kind: AtomicKind | None, dtype: DType) -> None:
    allowed = CAS_DTYPES if kind is None else ATOMIC_DTYPES[kind]
    if dtype.short not in allowed:
        name = "compare-and-swap" if kind is None else f"atomic {kind.value}"
        names = ", ".join(str(dtype_from_short(short)) for short in allowed)
        ctx.fail(f"{name} is not available for arrays of {dtype}; it takes {names}")


def _update(ctx: Context, kind: AtomicKind, value: Any, dtype: DType, shape: tuple[int, ...]) -> Value:
    """The ``update`` argument for elements of ``dtype`` in a tile of ``shape``."""
    _check_dtype(ctx, kind, dtype)
    if kind in (AtomicKind.AND, AtomicKind.OR, AtomicKind.XOR):
        found = to_tile(ctx, value)
        if found.element_type is not dtype:
            ctx.fail(
                f"the update is {found.element_type}, but the array is {dtype}: bitwise atomics need equal "
                f"dtypes; write ct.{dtype}(...) or astype"
            )
    return spread(ctx, value, dtype, shape, "the update")


def _combining(kind: AtomicKind, refs: Callable[..., ElementRefs]) -> OpBuilder:
    def build(
        ctx: Context, memory: Any, indices: Any, update: Any, *, memory_order: Any, memory_scope: Any, **how: Any
    ) -> Tile:
        at = refs(ctx, memory, indices, **how)
        order, scope = order_and_scope(ctx, memory_order, memory_scope, ORDERS)
        value = _update(ctx, kind, update, at.dtype, at.shape)
        orders = {"memory_order": order, "memory_scope": scope}
        return Tile(ctx.builder.emit(AtomicRmw, at.pointers, value, at.where, kind=kind, **orders))

    return build


def _of_view(kind: AtomicKind) -> OpBuilder:
    def build(ctx: Context, view: Any, index: Any, update: Any) -> None:
        if not isinstance(view, TiledView):
            ctx.fail(f"expected a tiled view, got {describe(view)}")
        type_: PartitionViewType = view.view.type  # type: ignore[assignment]
        entries = check.index(ctx, index, len(type_.tile_shape), "the view")
        value = _update(ctx, kind, update, view.dtype, type_.tile_shape)
        ctx.builder.emit_op(AtomicView, view.view, value, entries, kind=kind)

    return build


def _compare_and_swap(refs: Callable[..., ElementRefs]) -> OpBuilder:
    def build(
        ctx: Context,
        memory: Any,
        indices: Any,
        expected: Any,
        desired: Any,
        *,
        memory_order: Any,
        memory_scope: Any,
        **how: Any,
    ) -> Tile:
        at = refs(ctx, memory, indices, **how)
        _check_dtype(ctx, None, at.dtype)
        order, scope = order_and_scope(ctx, memory_order, memory_scope, ORDERS)
        old = spread(ctx, expected, at.dtype, at.shape, "'expected'")
        new = spread(ctx, desired, at.dtype, at.shape, "'desired'")
        orders = {"memory_order": order, "memory_scope": scope}
        return Tile(ctx.builder.emit(AtomicCas, at.pointers, old, new, at.where, **orders))

    return build


_KINDS = {k.value: k for k in AtomicKind}
COMBINING = ("add", "max", "min", "and", "or", "xor")

BUILDERS: dict[Any, OpBuilder] = {
    lang.atomic_cas: _compare_and_swap(elements),
    RawStub.atomic_cas_offset: _compare_and_swap(raw_elements),
    **{getattr(lang, f"atomic_{name}"): _combining(kind, elements) for name, kind in _KINDS.items()},
    **{getattr(RawStub, f"atomic_{name}_offset"): _combining(kind, raw_elements) for name, kind in _KINDS.items()},
    **{getattr(ViewStub, f"atomic_store_{name}"): _of_view(_KINDS[name]) for name in COMBINING},
}
