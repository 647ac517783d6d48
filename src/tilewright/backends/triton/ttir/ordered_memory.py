"""Loads and stores with a memory order, which TTIR has only on atomics, and compare-and-swap.

A tile may be held more than once, by several threads, which have to agree: two loads of an element may find different
values, and then threads would take different branches. Nor may a store be repeated: between two stores of one value
another block may have stored its own. Of atomics Triton performs one for each element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilewright.backends.triton.ttir.state import LoweringState
from tilewright.backends.triton.ttir.text import Val, Writer, names, types
from tilewright.ir.enums import MemoryOrder, MemoryScope
from tilewright.ir.ops.memory import MemoryOp

_SCOPES = {
    MemoryScope.NONE: "gpu",
    MemoryScope.BLOCK: "cta",
    MemoryScope.CLUSTER: "gpu",
    MemoryScope.DEVICE: "gpu",
    MemoryScope.SYS: "sys",
}


def order(op: MemoryOp) -> str:
    """The memory order of ``op``, as TTIR and PTX write it."""
    return op.memory_order.value


def scope(op: MemoryOp) -> str:
    return _SCOPES[op.memory_scope]


# -- loads


def load(s: LoweringState, op: MemoryOp, pointers: Val, mask: Val | None, other: Val | None) -> Val:
    """The elements behind ``pointers``; ``other``, or 0, where the mask is false."""
    w = s.w
    name = s.element(op.results[0])
    bits = 8 if name == "i1" else Val("", name).bits
    held = "i64" if bits == 64 else "i32"
    addresses = w.ptr_to_int(pointers)
    fallback = _as_integer(w, other, held) if other is not None else w.constant(0, held, pointers.shape)
    if s.target.is_cuda:
        found = _load_once(w, op, addresses, mask, fallback, bits)
    else:
        found = _load_by_atomics(w, op, addresses, mask, fallback, bits)
    return _from_integer(w, found, name)


_MOST_THREADS = 1024  # of a block


def _load_once(w: Writer, op: MemoryOp, addresses: Val, mask: Val | None, fallback: Val, bits: int) -> Val:
    """Each element is loaded by one thread, which tells the others that hold it.

    Every thread would hold elements of its own of a tile with enough rows; of these only the first one is loaded, and
    the largest of a column is what was found.
    """
    count = math.prod(addresses.shape)
    copies = _MOST_THREADS // count
    if copies <= 1:
        return _load_ptx(w, op, addresses, mask, fallback, bits)
    shape = (copies, count)

    def repeated(x: Val) -> Val:
        return w.broadcast(w.expand(w.reshape(x, (count,)), 0), shape)

    rows = w.arange(copies)
    first = w.broadcast(w.expand(w.compare("eq", rows, w.like(0, rows)), 1), shape)
    enabled = first if mask is None else w.op("arith.andi", first, repeated(mask))
    zeros = w.constant(0, fallback.element, shape)
    found = w.reduce("arith.maxui", _load_ptx(w, op, repeated(addresses), enabled, zeros, bits), 0)
    found = w.reshape(found, addresses.shape)
    return found if mask is None else w.select(mask, found, fallback)


# Of a masked acquiring load whose result nobody uses, ptxas (12.8, 12.9) makes an instruction that is illegal. Here the
# result may be the address, for all it knows; threads wait no time then.
_USED_32 = ".reg .b32 low; cvt.u32.u64 low, $1; setp.eq.b32 p, $0, low; @p nanosleep.u32 0; "
_USED_64 = "setp.eq.b64 p, $0, $1; @p nanosleep.u32 0; "


def _load_ptx(w: Writer, op: MemoryOp, addresses: Val, mask: Val | None, fallback: Val, bits: int) -> Val:
    register = "l" if bits == 64 else "r"
    used = ""
    if mask is not None and op.memory_order is MemoryOrder.ACQUIRE:
        used = _USED_64 if bits == 64 else _USED_32
    enabled = w.convert("arith.extui", mask, "i32") if mask is not None else w.constant(1, "i32", addresses.shape)
    code = (
        f"{{ .reg .pred p; setp.ne.b32 p, $2, 0; mov.b{max(bits, 32)} $0, $3; "
        f"@p ld.{order(op)}.{scope(op)}.global.b{bits} $0, [$1]; {used}}}"
    )
    operands = [addresses, enabled, fallback]
    return w.asm(code, f"=&{register},l,r,{register}", operands, fallback.element, pure=False)


def _load_by_atomics(w: Writer, op: MemoryOp, addresses: Val, mask: Val | None, fallback: Val, bits: int) -> Val:
    """The old value of an atomic or with 0."""
    cells, shift = _words(w, addresses, bits)
    zero = w.like(0, fallback)
    found = _rmw(w, "or", op, cells, zero, mask)
    if bits < 32:
        found = w.op("arith.andi", w.op("arith.shrui", found, shift), w.like((1 << bits) - 1, found))
    return w.select(mask, found, fallback) if mask is not None else found


# -- stores


def store(s: LoweringState, op: MemoryOp, pointers: Val, value: Val, mask: Val | None) -> None:
    """An exchange whose result nobody reads. There is none of less than 32 bits."""
    w = s.w
    if value.element == "i1":
        value = w.convert("arith.extui", value, "i8")
    if value.bits < 32:
        _store_narrow(s, op, pointers, value, mask)
        return
    integer = f"i{value.bits}"
    _rmw(w, "exch", op, w.bitcast(pointers, f"!tt.ptr<{integer}>"), w.bitcast(value, integer), mask)


def _store_narrow(s: LoweringState, op: MemoryOp, pointers: Val, value: Val, mask: Val | None) -> None:
    """The word around each element is swapped for one with the new bits until nobody else changed it meanwhile."""
    w, bits = s.w, value.bits
    cells, shift = _words(w, w.ptr_to_int(pointers), bits)
    ones = w.op("arith.shli", w.constant((1 << bits) - 1, "i32", value.shape), shift)
    kept = w.op("arith.xori", ones, w.like(-1, ones))
    new = w.op("arith.shli", _as_integer(w, value, "i32"), shift)

    def swap_all(valid: Val) -> list[Val]:
        pending = mask if mask is not None else w.constant(True, "i1", value.shape)
        _repeat_swaps(s, op, valid, pending, kept, new)
        return []

    where_valid(s, cells, mask, swap_all, [])


def _repeat_swaps(s: LoweringState, op: MemoryOp, cells: Val, pending: Val, kept: Val, new: Val) -> None:
    """Swap the words that are ``pending`` until all are done. The first guess of what they hold is 0."""
    w = s.w

    def swap(state: list[Val]) -> tuple[Val, list[Val]]:
        waiting, seen = state
        wanted = w.op("arith.ori", w.op("arith.andi", seen, kept), new)
        old = compare_and_swap(s, op, cells, seen, w.select(waiting, wanted, seen))
        left = w.op("arith.andi", waiting, w.compare("ne", old, seen))
        return _any(w, left), [left, old]

    w.while_([pending, w.like(0, new)], [], swap)


# -- compare-and-swap, of which TTIR has no masked form


def compare_and_swap(s: LoweringState, op: MemoryOp, pointers: Val, expected: Val, desired: Val) -> Val:
    """The old values."""
    return _atomic(s.w, f"tt.atomic_cas {order(op)}, {scope(op)}", [pointers, expected, desired])


def atomic_rmw(w: Writer, kind: str, op: MemoryOp, operands: Sequence[Val]) -> Val:
    """The old values; ``operands`` are pointers, values and perhaps a mask."""
    return _atomic(w, f"tt.atomic_rmw {kind}, {order(op)}, {scope(op)}", operands)


def _atomic(w: Writer, name: str, operands: Sequence[Val]) -> Val:
    value = operands[1]
    return w.emit(f"{name}, {names(operands)} : ({types(operands)}) -> {value.type}", value.element, value.shape)


def where_valid(
    s: LoweringState, pointers: Val, mask: Val | None, body: Callable[[Val], list[Val]], otherwise: Sequence[Val]
) -> list[Val]:
    """The results of ``body``, which gets ``pointers`` with one of the others wherever ``mask`` is false; it must not
    change memory there. ``otherwise`` if the mask is false everywhere: then there may be no memory."""
    if mask is None:
        return body(pointers)
    w = s.w
    some = mask
    if mask.shape:
        addresses = w.ptr_to_int(pointers)
        flat = w.reshape(w.select(mask, addresses, w.like(0, addresses)), (math.prod(mask.shape),))
        address = w.reduce("arith.maxui", flat, 0)
        some = w.compare("ne", address, w.like(0, address))
        spare = w.splat(w.int_to_ptr(address, pointers.element), pointers.shape)
        pointers = w.select(mask, pointers, spare)
    kinds = [(v.element, v.shape) for v in otherwise]
    return w.if_(some, kinds, lambda: body(pointers), lambda: otherwise)


# -- words


def _words(w: Writer, addresses: Val, bits: int) -> tuple[Val, Val]:
    """Pointers to the words of 32 or 64 bits that hold elements of ``bits`` at ``addresses``, and how far left of the
    lowest bit the elements are."""
    if bits >= 32:
        return w.int_to_ptr(addresses, f"!tt.ptr<i{bits}>"), w.constant(0, f"i{bits}", addresses.shape)
    cells = w.int_to_ptr(w.op("arith.andi", addresses, w.like(-4, addresses)), "!tt.ptr<i32>")
    byte = w.convert("arith.trunci", w.op("arith.andi", addresses, w.like(3, addresses)), "i32")
    return cells, w.op("arith.shli", byte, w.like(3, byte))


def _rmw(w: Writer, kind: str, op: MemoryOp, pointers: Val, value: Val, mask: Val | None) -> Val:
    enabled = mask if mask is not None else w.constant(True, "i1", value.shape)
    return atomic_rmw(w, kind, op, [pointers, value, enabled])


def _any(w: Writer, x: Val) -> Val:
    """Whether an element is true."""
    if not x.shape:
        return x
    flat = w.reshape(w.convert("arith.extui", x, "i32"), (math.prod(x.shape),))
    count = w.reduce("arith.ori", flat, 0)
    return w.compare("ne", count, w.like(0, count))


def _as_integer(w: Writer, x: Val, name: str) -> Val:
    if x.element == "i1":
        return w.convert("arith.extui", x, name)
    return w.convert("arith.extui", w.bitcast(x, f"i{x.bits}"), name)


def _from_integer(w: Writer, x: Val, name: str) -> Val:
    if name == "i1":
        return w.compare("ne", x, w.like(0, x))
    return w.bitcast(w.convert("arith.trunci", x, f"i{Val('', name).bits}"), name)
