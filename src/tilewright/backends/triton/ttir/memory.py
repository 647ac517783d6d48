"""Loads, stores and atomics through tiles of pointers, and the arithmetic of pointers."""

from __future__ import annotations

from tilewright.backends.triton.ttir import ordered_memory
from tilewright.backends.triton.ttir import shape as shapes
from tilewright.backends.triton.ttir.divisibility import mixes
from tilewright.backends.triton.ttir.state import LoweringState
from tilewright.backends.triton.ttir.text import Val, Writer, element
from tilewright.ir.core import Block, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import AtomicKind
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, Load, Store
from tilewright.ir.ops.shape import IntToPtr, PtrDiff, PtrOffset, PtrToInt
from tilewright.ir.types import PointerType

# -- pointer arithmetic


def offset(w: Writer, pointers: Val, by: Val, attributes: str = "") -> Val:
    """``pointers`` advanced by ``by`` elements."""
    text = f"tt.addptr {pointers.name}, {by.name}{attributes} : {pointers.type}, {by.type}"
    return w.emit(text, pointers.element, pointers.shape)


def ptr_offset(s: LoweringState, op: PtrOffset) -> Val:
    w = s.w
    pointers, by = s.all(op.operands)
    dtype = op.offset.tile.element
    if by.bits < 32 or (by.bits == 32 and not dtype.is_signed):
        by = w.resize(by, 32 if by.bits < 32 else 64, signed=dtype.is_signed)
    return offset(w, pointers, by, w.any_multiple(pointers, by) if mixes(op) else "")


def ptr_diff(s: LoweringState, op: PtrDiff) -> Val:
    w = s.w
    pointee = op.lhs.tile.dtype
    assert isinstance(pointee, PointerType)
    size = pointee.pointee.bytes if pointee.pointee is not None else 1
    x, y = map(w.ptr_to_int, s.all(op.operands))
    difference = w.op("arith.subi", x, y)
    if size != 1:
        difference = w.op("arith.divsi", difference, w.like(size, difference))
    return w.convert("arith.trunci", difference, element(op.dtype, s.target))


def ptr_to_int(s: LoweringState, op: PtrToInt) -> Val:
    return s.w.ptr_to_int(s[op.x])


def int_to_ptr(s: LoweringState, op: IntToPtr) -> Val:
    return s.w.int_to_ptr(s[op.x], s.element(op.result))


# -- weak accesses


def load_values(s: LoweringState, pointers: Val, mask: Val | None, other: Val | None, name: str) -> Val:
    """The elements behind ``pointers``, of element type ``name``; ``other`` where the mask is false."""
    w = s.w
    if name == "i1":
        other = w.convert("arith.extui", other, "i8") if other is not None else None
        loaded = load_values(s, pointers, mask, other, "i8")
        return w.compare("ne", loaded, w.like(0, loaded))
    operands = pointers.name
    if mask is not None:
        other = other if other is not None else shapes.zero(w, name, pointers.shape)
        operands += f", {mask.name}, {other.name}"
    return w.emit(f"tt.load {operands} : {pointers.type}", name, pointers.shape)


def store_values(s: LoweringState, pointers: Val, value: Val, mask: Val | None) -> None:
    w = s.w
    if value.element == "i1":
        value = w.convert("arith.extui", value, "i8")
    w.located(f"tt.store {pointers.name}, {value.name}{f', {mask.name}' if mask is not None else ''} : {pointers.type}")


def load(s: LoweringState, op: Load) -> Val:
    pointers = s[op.ptrs]
    mask = s[op.mask] if op.mask is not None else None
    other = s[op.padding] if op.padding is not None else None
    if not op.is_weak:
        return ordered_memory.load(s, op, pointers, mask, other)
    return load_values(s, pointers, mask, other, s.element(op.result))


def _carried(value: Value) -> bool:
    """Whether ``value`` is what a loop carries, or converted from that, perhaps back to what it was."""
    while isinstance(value.op, Cast):
        value = value.op.x
    return isinstance(value.owner, Block)


def store(s: LoweringState, op: Store) -> None:
    value, mask = s[op.value], s[op.mask] if op.mask is not None else None
    if not op.is_weak:
        ordered_memory.store(s, op, s[op.ptrs], value, mask)
        return
    if mask is not None and value.bits == 16 and value.shape and s.dialect < (3, 9) and _carried(op.value):
        # Triton 3.6 would use its conversion to another layout before that is there, in a mask that depends on it.
        value = s.w.optimization_barrier(value)
    store_values(s, s[op.ptrs], value, mask)


# -- atomics


def _atomic_operation(kind: AtomicKind, dtype: DType) -> str:
    """``kind`` for elements of ``dtype``, as TTIR calls it."""
    if kind is AtomicKind.XCHG:
        return "exch"
    unsigned = kind in (AtomicKind.MAX, AtomicKind.MIN) and not dtype.is_signed
    return f"{'f' if dtype.is_floating else 'u' if unsigned else ''}{kind.value}"


def atomic_rmw(s: LoweringState, op: AtomicRmw) -> Val:
    """Every atomic but compare-and-swap; 0 where the mask is false."""
    w, mask = s.w, s[op.mask] if op.mask is not None else None
    operands = [s[op.ptrs], s[op.value], *([mask] if mask is not None else [])]
    old = ordered_memory.atomic_rmw(w, _atomic_operation(op.kind, op.value.tile.element), op, operands)
    return w.select(mask, old, shapes.zero(w, old.element, old.shape)) if mask is not None else old


def atomic_cas(s: LoweringState, op: AtomicCas) -> Val:
    """Compare-and-swap; ``expected`` where the mask is false."""
    w = s.w
    pointers, expected, desired = s[op.ptrs], s[op.expected], s[op.desired]
    integer = f"i{expected.bits}"
    pointers = w.bitcast(pointers, f"!tt.ptr<{integer}>")
    wanted, new = w.bitcast(expected, integer), w.bitcast(desired, integer)
    if op.mask is None:
        found = ordered_memory.compare_and_swap(s, op, pointers, wanted, new)
    else:
        mask = s[op.mask]

        def swap(valid: Val) -> list[Val]:
            old = ordered_memory.compare_and_swap(s, op, valid, wanted, w.select(mask, new, wanted))
            return [w.select(mask, old, wanted)]

        (found,) = ordered_memory.where_valid(s, pointers, mask, swap, [wanted])
    return w.bitcast(found, expected.element)
