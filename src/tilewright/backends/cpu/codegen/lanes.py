"""Vectors of elements in LLVM: splats, constant vectors, and masked memory access."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.cpu.codegen.position import Pattern
from tilewright.backends.external import call_external, mangled
from tilewright.backends.vector.types import I1, I32, I64

POINTER = ir.PointerType()


def splat(builder: ir.IRBuilder, value: ir.Value, lanes: int | None) -> ir.Value:
    """``value`` in every lane."""
    if lanes is None:
        return value
    undefined = _undefined(ir.VectorType(value.type, lanes))
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, lanes), None))


@functools.cache
def _undefined(vector: ir.VectorType) -> ir.Constant:
    """Made once, as its text is long."""
    return ir.Constant(vector, ir.Undefined)


def integers(scalar: ir.Type, values: Sequence[int]) -> ir.Constant:
    """A constant vector; numbers wrap to the width of ``scalar``."""
    return _integers(scalar, tuple(values))


@functools.lru_cache
def _integers(scalar: ir.Type, values: tuple[int, ...]) -> ir.Constant:
    mask = (1 << scalar.width) - 1
    return ir.Constant(ir.VectorType(scalar, len(values)), [ir.Constant(scalar, v & mask) for v in values])


def shuffle(builder: ir.IRBuilder, value: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """The vector of the given lanes of ``value``."""
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), integers(I32, lanes))


def merge(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, chosen: Sequence[int]) -> ir.Value:
    """The vector of the given lanes of ``a`` followed by ``b``."""
    return builder.shuffle_vector(a, b, integers(I32, chosen))


def masked_load(builder: ir.IRBuilder, pointer: ir.Value, mask: ir.Value, other: ir.Value, align: int) -> ir.Value:
    """Consecutive elements from ``pointer`` where ``mask``, lanes of ``other`` elsewhere."""
    name = f"llvm.masked.load.{mangled(other.type)}.p0"
    return call_external(builder, name, other.type, [pointer, ir.Constant(I32, align), mask, other])


def masked_store(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, mask: ir.Value, align: int) -> None:
    name = f"llvm.masked.store.{mangled(value.type)}.p0"
    call_external(builder, name, ir.VoidType(), [value, pointer, ir.Constant(I32, align), mask])


def streaming_store(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, align: int) -> None:
    """Store consecutive elements past the caches ("nontemporal" in LLVM's reference)."""
    stored = builder.store(value, pointer, align=align)
    stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


def load_window(builder: ir.IRBuilder, address: ir.Value, type_: ir.VectorType, window: Pattern, item: int) -> ir.Value:
    """Elements of ``item`` bytes that lie ``window``, from 0 on, behind ``address``: of the vectors from the first to
    the last one, with which the last vector ends."""
    count, end = type_.count, max(window) + 1
    size = min(count, 1 << (end.bit_length() - 1))
    starts = [min(k, end - size) for k in range(0, end, size)]

    def load(start: int) -> ir.Value:
        pointer = builder.inttoptr(builder.add(address, ir.Constant(I64, start * item)), POINTER)
        return builder.load(pointer, align=item, typ=ir.VectorType(type_.element, size))

    if size < count:  # there are two at most
        first, last = load(0), load(starts[-1])
        return merge(builder, first, last, [at if at < size else size + at - starts[-1] for at in window])
    value = ir.Constant(type_, ir.Undefined)
    for k, start in enumerate(starts):
        chosen = [count + at - start if at // size == k else i for i, at in enumerate(window)]
        value = merge(builder, value, load(start), chosen)
    return value


def strided_store(
    builder: ir.IRBuilder, value: ir.Value, address: ir.Value, step: int, item: int, mask: ir.Value | None
) -> None:
    """Store elements of ``item`` bytes, ``step`` apart from ``address`` on, where ``mask``: ``step`` masked vectors."""
    count = value.type.count
    for k in range(step):
        places = range(k * count, k * count + count)
        pointer = builder.inttoptr(builder.add(address, ir.Constant(I64, k * count * item)), POINTER)
        wanted: ir.Value = integers(I1, [at % step == 0 for at in places])
        if mask is not None:
            none = ir.Constant(mask.type, None)
            wanted = merge(builder, mask, none, [count if at % step else at // step for at in places])
        masked_store(builder, shuffle(builder, value, [at // step for at in places]), pointer, wanted, item)


def load_runs(builder: ir.IRBuilder, runs: Sequence[ir.Value], type_: ir.VectorType, item: int) -> ir.Value:
    """The vector of runs of consecutive elements, each from an address on."""
    part = ir.VectorType(type_.element, type_.count // len(runs))
    parts = [builder.load(builder.inttoptr(at, POINTER), align=item, typ=part) for at in runs]
    while len(parts) > 1:
        both = range(2 * parts[0].type.count)
        parts = [merge(builder, a, b, both) for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


def store_runs(builder: ir.IRBuilder, value: ir.Value, runs: Sequence[ir.Value], item: int) -> None:
    """Store runs of consecutive elements, each from an address on, in the order of the lanes."""
    length = value.type.count // len(runs)
    for k, at in enumerate(runs):
        part = shuffle(builder, value, range(k * length, k * length + length))
        builder.store(part, builder.inttoptr(at, POINTER), align=item)


def gather(builder: ir.IRBuilder, pointers: ir.Value, mask: ir.Value | None, other: ir.Value, align: int) -> ir.Value:
    """The elements that a vector of pointers (i64) refers to."""
    lanes, scalar = other.type.count, other.type.element
    if mask is not None and isinstance(scalar, ir.IntType) and scalar.width < 32:
        return _gather_narrow(builder, pointers, mask, other, align)
    mask = integers(I1, [1] * lanes) if mask is None else mask
    typed = builder.inttoptr(pointers, ir.VectorType(POINTER, lanes))
    name = f"llvm.masked.gather.{mangled(other.type)}.v{lanes}p0"
    return call_external(builder, name, other.type, [typed, ir.Constant(I32, align), mask, other])


def _gather_narrow(builder: ir.IRBuilder, pointers: ir.Value, mask: ir.Value, other: ir.Value, align: int) -> ir.Value:
    """``gather`` of what no instruction gathers, without the branch for each lane that LLVM would make of it."""
    lanes, scalar = other.type.count, other.type.element
    with builder.goto_entry_block():
        spare = builder.ptrtoint(builder.alloca(I64), I64)  # where the lanes that are not wanted read
    safe = builder.select(mask, pointers, splat(builder, spare, lanes))
    found = ir.Constant(other.type, ir.Undefined)
    for lane in range(lanes):
        address = builder.extract_element(safe, ir.Constant(I32, lane))
        element = builder.load(builder.inttoptr(address, POINTER), align=align, typ=scalar)
        found = builder.insert_element(found, element, ir.Constant(I32, lane))
    return builder.select(mask, found, other)


def scatter(builder: ir.IRBuilder, value: ir.Value, pointers: ir.Value, mask: ir.Value | None, align: int) -> None:
    """Store to each of a vector of pointers (i64), in the order of the lanes."""
    lanes = value.type.count
    mask = integers(I1, [1] * lanes) if mask is None else mask
    typed = builder.inttoptr(pointers, ir.VectorType(POINTER, lanes))
    name = f"llvm.masked.scatter.{mangled(value.type)}.v{lanes}p0"
    call_external(builder, name, ir.VoidType(), [value, typed, ir.Constant(I32, align), mask])


def addresses(builder: ir.IRBuilder, base: ir.Value, pattern: Pattern, scale: int) -> ir.Value:
    """A vector of i64 addresses: base + pattern * scale."""
    offsets = integers(I64, [p * scale for p in pattern])
    return builder.add(splat(builder, base, len(pattern)), offsets)


def store_atomic(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, ordering: str, align: int) -> None:
    # llvmlite asks for a typed pointer here, and takes a bitcast to one for superfluous.
    typed = builder.inttoptr(builder.ptrtoint(pointer, I64), ir.PointerType(value.type))
    builder.store_atomic(value, typed, ordering, align)


def copy(builder: ir.IRBuilder, target: ir.Value, source: ir.Value, size: int) -> None:
    """Copy ``size`` bytes that do not overlap."""
    args = [target, source, ir.Constant(I64, size), ir.Constant(I1, 0)]
    call_external(builder, "llvm.memcpy.p0.p0.i64", ir.VoidType(), args)
