"""Loads, stores and atomics through tiles of pointers, and the arithmetic of pointers."""

from __future__ import annotations

from tilewright.backends.triton.ttir import shape as shapes
from tilewright.backends.triton.ttir.elements import pointer_bits
from tilewright.backends.triton.ttir.state import State
from tilewright.backends.triton.ttir.text import Val, Writer
from tilewright.backends.triton.ttir.types import element
from tilewright.ir.core import Op, Value
from tilewright.ir.enums import AtomicKind, MemoryOrder, MemoryScope
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, Load, Store
from tilewright.ir.types import PointerType

_SCOPES = {
    MemoryScope.NONE: "gpu",
    MemoryScope.BLOCK: "cta",
    MemoryScope.CLUSTER: "gpu",
    MemoryScope.DEVICE: "gpu",
    MemoryScope.SYS: "sys",
}
# kind -> the operation on signed integers, unsigned integers and floats
_KINDS = {
    AtomicKind.XCHG: ("exch", "exch", "exch"),
    AtomicKind.ADD: ("add", "add", "fadd"),
    AtomicKind.MAX: ("max", "umax", ""),
    AtomicKind.MIN: ("min", "umin", ""),
    AtomicKind.AND: ("and", "and", ""),
    AtomicKind.OR: ("or", "or", ""),
    AtomicKind.XOR: ("xor", "xor", ""),
}


# -- pointer arithmetic


def offset(w: Writer, pointers: Val, by: Val) -> Val:
    """``pointers`` advanced by ``by`` elements."""
    text = f"tt.addptr {pointers.name}, {by.name} : {pointers.type}, {by.type}"
    return w.emit(text, pointers.element, pointers.shape)


def ptr_offset(s: State, op: Op) -> Val:
    w = s.w
    pointers, by = s.all(op.operands)
    dtype = op.operands[1].tile.element
    if by.bits < 32 or (by.bits == 32 and not dtype.is_signed):
        by = w.convert("arith.extsi" if dtype.is_signed else "arith.extui", by, "i32" if by.bits < 32 else "i64")
    return offset(w, pointers, by)


def ptr_diff(s: State, op: Op) -> Val:
    w = s.w
    pointee = op.operands[0].tile.dtype
    assert isinstance(pointee, PointerType)
    size = pointee.pointee.bytes if pointee.pointee is not None else 1
    x, y = (pointer_bits(w, v) for v in s.all(op.operands))
    difference = w.op("arith.subi", x, y)
    if size != 1:
        difference = w.op("arith.divsi", difference, w.like(size, difference))
    return w.convert("arith.trunci", difference, element(op.attributes["dtype"], s.target))


def ptr_to_int(s: State, op: Op) -> Val:
    return pointer_bits(s.w, s[op.operands[0]])


def int_to_ptr(s: State, op: Op) -> Val:
    x, (name, shape) = s[op.operands[0]], s.form(op.result)
    return s.w.emit(f"tt.int_to_ptr {x.name} : {x.type} -> {Val('', name, shape).type}", name, shape)


# -- weak accesses


def load_values(s: State, pointers: Val, mask: Val | None, other: Val | None, name: str) -> Val:
    """The elements behind ``pointers``, of element type ``name``; ``other`` where the mask is false."""
    w = s.w
    if name == "i1":
        other = w.convert("arith.extui", other, "i8") if other is not None else None
        loaded = load_values(s, pointers, mask, other, "i8")
        return w.compare("ne", loaded, w.like(0, loaded))
    result = Val("", name, pointers.shape)
    operands = pointers.name
    if mask is not None:
        other = other if other is not None else shapes.zero(w, name, pointers.shape)
        operands += f", {mask.name}, {other.name}"
    return w.emit(f"tt.load {operands} : {pointers.type}", name, result.shape)


def store_values(s: State, pointers: Val, value: Val, mask: Val | None) -> None:
    w = s.w
    if value.element == "i1":
        value = w.convert("arith.extui", value, "i8")
    w.located(f"tt.store {pointers.name}, {value.name}{f', {mask.name}' if mask is not None else ''} : {pointers.type}")


def load(s: State, op: Load) -> Val:
    pointers = s[op.ptrs]
    mask = s[op.mask] if op.mask is not None else None
    other = s[op.padding] if op.padding is not None else None
    if op.attributes["memory_order"] is not MemoryOrder.WEAK:
        return strong_load(s, op, pointers, mask, other)
    return load_values(s, pointers, mask, other, s.element(op.result))


def store(s: State, op: Store) -> None:
    mask = s[op.mask] if op.mask is not None else None
    if op.attributes["memory_order"] is not MemoryOrder.WEAK:
        strong_store(s, op, s[op.ptrs], s[op.value], mask)
    else:
        store_values(s, s[op.ptrs], s[op.value], mask)


# -- strong accesses: TTIR has no memory order on loads and stores

_REGISTER = {8: "r", 16: "r", 32: "r", 64: "l"}


def _order_and_scope(op: Op) -> str:
    scope = _SCOPES[op.attributes["memory_scope"]]
    return f"{op.attributes['memory_order'].value}.{scope}"


def strong_load(s: State, op: Op, pointers: Val, mask: Val | None, other: Val | None) -> Val:
    """PTX, in every thread that holds the element: loads may be repeated."""
    w = s.w
    name = s.element(op.results[0])
    bits = 8 if name == "i1" else Val("", name).bits
    held = "i64" if bits == 64 else "i32"
    register = _REGISTER[bits]
    addresses = pointer_bits(w, pointers)
    fallback = _as_integer(w, other, held) if other is not None else w.constant(0, held, pointers.shape)
    enabled = w.convert("arith.extui", mask, "i32") if mask is not None else w.constant(1, "i32", pointers.shape)
    size = f"b{bits}"
    code = (
        f"{{ .reg .pred p; setp.ne.b32 p, $2, 0; mov.b{max(bits, 32)} $0, $3; "
        f"@p ld.{_order_and_scope(op)}.global.{size} $0, [$1]; }}"
    )
    found = w.asm(code, f"=&{register},l,r,{register}", [addresses, enabled, fallback], held, pure=False)
    return _from_integer(w, found, name)


def strong_store(s: State, op: Op, pointers: Val, value: Val, mask: Val | None) -> None:
    """An exchange whose result nobody reads: of all threads that hold an element exactly one performs it, once."""
    w = s.w
    if value.bits < 32:
        raise TileUnsupportedFeatureError(
            "the GPU engine stores 8 and 16-bit elements without a memory order only; use a 32-bit array", op.loc
        )
    integer = f"i{value.bits}"
    operands = [w.bitcast(pointers, f"!tt.ptr<{integer}>"), w.bitcast(value, integer)]
    operands.append(mask if mask is not None else w.constant(True, "i1", value.shape))
    names, types = ", ".join(v.name for v in operands), ", ".join(v.type for v in operands)
    order, scope = op.attributes["memory_order"].value, _SCOPES[op.attributes["memory_scope"]]
    w.emit(f"tt.atomic_rmw exch, {order}, {scope}, {names} : ({types}) -> {operands[1].type}", integer, value.shape)


def _as_integer(w: Writer, x: Val, name: str) -> Val:
    if x.element == "i1":
        return w.convert("arith.extui", x, name)
    return w.convert("arith.extui", w.bitcast(x, f"i{x.bits}"), name)


def _from_integer(w: Writer, x: Val, name: str) -> Val:
    if name == "i1":
        return w.compare("ne", x, w.like(0, x))
    return w.bitcast(w.convert("arith.trunci", x, f"i{Val('', name).bits}"), name)


# -- atomics


def atomic(s: State, op: Op, pointers: Val, value: Val, mask: Val | None, value_of: Value) -> Val:
    """Every atomic but compare-and-swap; 0 where the mask is false."""
    w = s.w
    dtype = value_of.tile.element
    signed, unsigned, floating = _KINDS[op.attributes["kind"]]
    kind = floating if dtype.is_floating else signed if dtype.is_signed else unsigned
    operands, types = [pointers, value], [pointers.type, value.type]
    if mask is not None:
        operands.append(mask)
        types.append(mask.type)
    order, scope = op.attributes["memory_order"].value, _SCOPES[op.attributes["memory_scope"]]
    names = ", ".join(v.name for v in operands)
    text = f"tt.atomic_rmw {kind}, {order}, {scope}, {names} : ({', '.join(types)}) -> {value.type}"
    old = w.emit(text, value.element, value.shape)
    return w.select(mask, old, shapes.zero(w, old.element, old.shape)) if mask is not None else old


def atomic_rmw(s: State, op: AtomicRmw) -> Val:
    mask = s[op.mask] if op.mask is not None else None
    return atomic(s, op, s[op.ptrs], s[op.value], mask, op.value)


def atomic_cas(s: State, op: AtomicCas) -> Val:
    """Where the mask is false the swap is done with equal values at the start of the array, which changes nothing."""
    w = s.w
    pointers, expected, desired = s[op.ptrs], s[op.expected], s[op.desired]
    wanted = expected
    if op.mask is not None:
        mask, base = s[op.mask], _start_of(s, op.ptrs)
        if base is None:
            raise TileUnsupportedFeatureError(
                "a masked compare-and-swap through raw pointers on the GPU engine; use an array, or atomics of another "
                "kind",
                op.loc,
            )
        pointers = w.select(mask, pointers, w.splat(base, pointers.shape))
        desired = w.select(mask, desired, expected)
    integer = f"i{expected.bits}"
    cell = f"!tt.ptr<{integer}>"
    operands = [w.bitcast(pointers, cell), w.bitcast(expected, integer), w.bitcast(desired, integer)]
    order, scope = op.attributes["memory_order"].value, _SCOPES[op.attributes["memory_scope"]]
    names, types = ", ".join(v.name for v in operands), ", ".join(v.type for v in operands)
    text = f"tt.atomic_cas {order}, {scope}, {names} : ({types}) -> {operands[1].type}"
    old = w.bitcast(w.emit(text, integer, expected.shape), expected.element)
    return w.select(s[op.mask], old, wanted) if op.mask is not None else old


def _start_of(s: State, pointers: Value) -> Val | None:
    """The scalar pointer that a tile of pointers was computed from."""
    while pointers.tile.rank or pointers.op is not None:
        op = pointers.op
        if op is None or op.name not in ("ptr_offset", "broadcast", "reshape", "permute", "assume_divisible"):
            break
        pointers = op.operands[0]
    return s[pointers] if pointers in s and not s[pointers].shape else None
