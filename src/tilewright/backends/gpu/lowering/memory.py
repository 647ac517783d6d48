"""Accesses to global and shared memory: words of 16, 32 or 64 bits, under a predicate where there is a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from tilewright.backends.branches import phi_of
from tilewright.backends.gpu.lowering.assembly import I16, I32, I64, operand_names
from tilewright.backends.gpu.lowering.context import (
    Buffer,
    Context,
    Registers,
    Rule,
    instruction,
    owned_registers,
    unsupported,
)
from tilewright.backends.gpu.lowering.patterns import number_of
from tilewright.backends.gpu.lowering.short_rows import is_false
from tilewright.backends.gpu.lowering.words import Words, bytes_of, packed, unpacked, words_of
from tilewright.backends.vector.types import resized
from tilewright.ir.core import Op
from tilewright.ir.enums import AtomicKind, MemoryOrder, MemoryScope
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.ops.gpu import memory
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.semantics import constant_array
from tilewright.ir.types import ElementType, PointerType

SHARED = "shared_memory"  # the symbol of the memory that a launch gives each CTA
_SCOPES = {
    MemoryScope.NONE: "cta",
    MemoryScope.BLOCK: "cta",
    MemoryScope.CLUSTER: "cluster",
    MemoryScope.DEVICE: "gpu",
    MemoryScope.SYS: "sys",
}


def _registers(first: int, count: int) -> str:
    return f"${first}" if count == 1 else operand_names(first, count)


def _vector(words: Words) -> str:
    return words.suffix if words.count == 1 else f"v{words.count}.{words.suffix}"


def _where(cx: Context, mask: ir.Value | None, text: str, operands: Sequence[ir.Value]) -> None:
    """Emit ``text``, which gives nothing, for threads whose ``mask`` holds; for all without one."""
    if mask is None:
        cx.asm(text, [], operands)
    else:
        cx.asm(f"@${len(operands)} {text}", [], [*operands, mask])


def _load(
    cx: Context,
    instruction: str,
    words: Words,
    address: ir.Value,
    mask: ir.Value | None,
    offset: int = 0,
    otherwise: int = 0,
) -> Registers:
    """The words at an address; where the mask is false, the bits ``otherwise``."""
    n = words.count
    operand = f"[${n}+{offset}]" if offset else f"[${n}]"
    text = f"{instruction}.{_vector(words)} {_registers(0, n)}, {operand};"
    if mask is None:
        return cx.asm(text, [words.type] * n, [address])
    width = words.type.width
    initial = " ".join(f"mov.b{width} ${i}, {otherwise};" for i in range(n))
    return cx.asm(f"{initial} @${n + 1} {text}", [words.type] * n, [address, mask])


def _store(
    cx: Context,
    instruction: str,
    words: Words,
    address: ir.Value,
    values: Registers,
    mask: ir.Value | None,
    offset: int = 0,
) -> None:
    operand = f"[$0+{offset}]" if offset else "[$0]"
    text = f"{instruction}.{_vector(words)} {operand}, {_registers(1, words.count)};"
    _where(cx, mask, text, [address, *values])


# -- global memory


def _qualified(op: memory.GlobalLoad | memory.GlobalStore, name: str) -> str:
    if op.memory_order is MemoryOrder.WEAK:
        return f"{name}.global"
    return f"{name}.{op.memory_order.value}.{_SCOPES[op.memory_scope]}.global"


def _global_load(cx: Context, op: memory.GlobalLoad) -> None:
    dtype, pointers = op.ptrs.tile.pointee, cx.of(op.ptrs)
    masks = None if op.mask is None else cx.of(op.mask)
    words = words_of(dtype.bytes, op.vector)
    instruction = "ld.param" if op in cx.parameter_loads else _qualified(op, "ld")
    padding = None if masks is None or op.padding is None else cx.of(op.padding)
    otherwise = None if padding is None else _bits_of_constant(padding[0], dtype, words)
    zeros = [cx.scalars.constant(dtype, 0)] * op.vector
    found: Registers = []
    for r in range(0, len(pointers), op.vector):
        mask = None if masks is None else masks[r]
        if is_false(mask):
            found += zeros if padding is None else padding[r : r + op.vector]
            continue
        known = cx.base_offsets.of(pointers[r])
        if mask is not None and op.memory_order is MemoryOrder.ACQUIRE:
            loaded = _branched_load(cx, instruction, words, pointers[r], mask, otherwise or 0)
        else:
            base = _in_parameters(cx, known.base) if op in cx.parameter_loads else known.base
            loaded = _load(cx, instruction, words, base, mask, known.offset, otherwise or 0)
        elements = unpacked(cx, words, loaded, dtype)
        if padding is not None and otherwise is None:
            elements = [cx.builder.select(mask, x, y) for x, y in zip(elements, padding[r : r + op.vector])]
        found += elements
    cx.values[op.result] = found


def _in_parameters(cx: Context, address: ir.Value) -> ir.Value:
    """What is at a generic ``address`` as an address of the memory of parameters, which has a cache of its own."""
    return cx.asm("cvta.to.param.u64 $0, $1;", [I64], [address])[0]


def _bits_of_constant(x: ir.Value, dtype: ElementType, words: Words) -> int | None:
    """A word of elements that all are the constant ``x``; None for others."""
    number = number_of(x)
    if number is None or isinstance(dtype, PointerType):
        return None
    element = int.from_bytes(constant_array(number, dtype, ()).tobytes(), "little")
    return sum(element << 8 * dtype.bytes * i for i in range(words.each))


def _branched_load(
    cx: Context, instruction: str, words: Words, address: ir.Value, mask: ir.Value, otherwise: int
) -> Registers:
    """A masked acquiring load as a branch: ptxas (12.8, 12.9) makes an illegal instruction where nobody uses it."""
    b = cx.builder
    before = b.block
    with b.if_then(mask):
        loaded = _load(cx, instruction, words, address, None)
        inside = b.block
    return [phi_of(b, (ir.Constant(words.type, otherwise), before), (x, inside)) for x in loaded]


def _and(cx: Context, a: ir.Value | None, b: ir.Value | None) -> ir.Value | None:
    if a is None or b is None:
        return a if b is None else b
    return cx.builder.and_(a, b)


def _global_store(cx: Context, op: memory.GlobalStore) -> None:
    dtype, pointers, values = op.ptrs.tile.pointee, cx.of(op.ptrs), cx.of(op.value)
    masks = None if op.mask is None else cx.of(op.mask)
    words = words_of(dtype.bytes, op.vector)
    owner = cx.owner(op.ptrs.tile.layout)
    instruction = _qualified(op, "st")
    for r in owned_registers(op.ptrs.tile.layout):
        if r % op.vector == 0:
            if masks is not None and is_false(masks[r]):
                continue
            mask = _and(cx, None if masks is None else masks[r], owner)
            stored = packed(cx, words, values[r : r + op.vector], dtype)
            known = cx.base_offsets.of(pointers[r])
            _store(cx, instruction, words, known.base, stored, mask, known.offset)


# -- atomics: by the owners


def _atomic_words(dtype: ElementType) -> Words:
    size = bytes_of(dtype)
    return Words({2: I16, 4: I32, 8: I64}[size], f"b{8 * size}", 1, 1)


def _atomic_name(cx: Context, op: AtomicRmw | AtomicCas, order: MemoryOrder) -> str:
    """The instruction with ``order``, scope, kind and type."""
    dtype = op.ptrs.tile.pointee
    bits = dtype.bitwidth
    start = f"atom.{order.value}.{_SCOPES[op.memory_scope]}.global"
    if isinstance(op, AtomicCas):
        return f"{start}.cas.b{bits}"
    kind = "exch" if op.kind is AtomicKind.XCHG else op.kind.value
    if dtype.is_float and op.kind is AtomicKind.ADD:
        if dtype.short == "bf16" and cx.target.capability < 90:
            raise unsupported(op, f"atomic sums of bfloat16 need sm_90, and this is for {cx.target.name}")
        return f"{start}.add.{'noftz.' if bits == 16 else ''}{dtype.short}"
    if op.kind in (AtomicKind.MAX, AtomicKind.MIN):
        return f"{start}.{kind}.{'s' if dtype.is_signed else 'u'}{bits}"
    return f"{start}.{kind}.{'u' if op.kind is AtomicKind.ADD else 'b'}{bits}"


def _atomic(cx: Context, op: AtomicRmw | AtomicCas) -> None:
    """One fence for all elements of a thread; what nobody reads acquires nothing."""
    order, fence = op.memory_order, f"fence.acq_rel.{_SCOPES[op.memory_scope]};"
    read = bool(op.result.users)
    fenced = order is not MemoryOrder.RELAXED and (not read or len(owned_registers(op.ptrs.tile.layout)) > 1)
    name = _atomic_name(cx, op, MemoryOrder.RELAXED if fenced else order)
    if fenced and order is not MemoryOrder.ACQUIRE:
        cx.asm(fence)
    if not read and isinstance(op, AtomicRmw) and op.kind is not AtomicKind.XCHG:
        _reduce(cx, op, "red" + name.removeprefix("atom"))
        return
    cx.values[op.result] = _old_values(cx, op, name)
    if fenced and read and order is not MemoryOrder.RELEASE:
        cx.asm(fence)


def _reduce(cx: Context, op: AtomicRmw, name: str) -> None:
    """Floats that lie side by side are added by one instruction where there is one."""
    dtype, owner = op.ptrs.tile.pointee, cx.owner(op.ptrs.tile.layout)
    several = dtype.is_floating and dtype.bytes <= 4 and op.kind is AtomicKind.ADD and cx.target.capability >= 90
    vector = op.vector if several else 1
    words = words_of(dtype.bytes, vector) if vector > 1 else _atomic_words(dtype)
    if vector > 1:
        name = name.removesuffix(dtype.short) + ("" if words.count == 1 else f"v{words.count}.")
        name += dtype.short if words.each == 1 else f"{dtype.short}x2"
    masks = None if op.mask is None else cx.of(op.mask)
    for r in owned_registers(op.ptrs.tile.layout):
        if r % vector == 0:
            values = packed(cx, words, cx.of(op.value)[r : r + vector], dtype)
            mask = _and(cx, None if masks is None else masks[r], owner)
            text = f"{name} [$0], {_registers(1, words.count) if words.count > 1 else '$1'};"
            _where(cx, mask, text, [cx.of(op.ptrs)[r], *values])


def _old_values(cx: Context, op: AtomicRmw | AtomicCas, name: str) -> Registers:
    """What masked-off elements and threads that own nothing return is 0, or the expected value."""
    dtype, layout = op.ptrs.tile.pointee, op.ptrs.tile.layout
    words = _atomic_words(dtype)
    given = [op.expected, op.desired] if isinstance(op, AtomicCas) else [op.value]
    owner = cx.owner(layout)
    masks = None if op.mask is None else cx.of(op.mask)
    width = words.type.width
    results: Registers = []
    owned = set(owned_registers(layout))
    for r, pointer in enumerate(cx.of(op.ptrs)):
        values = [packed(cx, words, [cx.of(v)[r]], dtype)[0] for v in given]
        initial = values[0] if isinstance(op, AtomicCas) else ir.Constant(words.type, 0)
        if r not in owned:
            results += unpacked(cx, words, [initial], dtype)
            continue
        mask = _and(cx, None if masks is None else masks[r], owner)
        operands = [pointer, *values] if mask is None else [pointer, *values, mask]
        text = f"{name} $0, [$1], {', '.join(f'${2 + i}' for i in range(len(values)))};"
        if mask is not None:
            text = f"mov.b{width} $0, ${len(operands) + 1}; @${len(operands)} {text}"
            operands.append(initial)
        results += unpacked(cx, words, cx.asm(text, [words.type], operands), dtype)
    return results


# -- shared memory


def _shared_base(cx: Context) -> ir.Value:
    """The address of the shared memory of the CTA. It is taken where the function begins."""
    assert cx.shared_base is not None
    return cx.shared_base


def _shared_alloc(cx: Context, op: memory.SharedAlloc) -> None:
    assert op.offset is not None, "shared memory was not allocated"
    address = cx.builder.add(_shared_base(cx), cx.i32(op.offset)) if op.offset else _shared_base(cx)
    # Here, as that is outside of loops: nobody else moves it there.
    encoded = cx.builder.and_(cx.builder.lshr(address, cx.i32(4)), cx.i32(0x3FFF))
    cx.buffers[op.result] = Buffer(op.type, address, encoded)


def _shared_copy(cx: Context, op: memory.SharedCopy) -> None:
    buffer = cx.buffers[op.buffer]
    size = buffer.type.bytes // buffer.type.copies
    index = resized(cx.builder, cx.scalar(op.index), I32)
    address = cx.builder.add(buffer.address, cx.builder.mul(index, cx.i32(size)))
    encoded = cx.builder.add(buffer.encoded, cx.builder.mul(index, cx.i32(size >> 4)))
    assert op.result.type is not None
    cx.buffers[op.result] = Buffer(op.result.type, address, encoded)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Offsets:
    """Where the elements of a thread lie in a buffer: for each register the byte offset from the ``address``.

    None in place of it where it needs an exclusive or with what the lane and the warp contribute.
    """

    cx: Context
    buffer: Buffer
    layout: LinearLayout
    part: ir.Value | int | None  # of the index of a part

    def addresses(self, registers: Sequence[int]) -> list[tuple[ir.Value, int]]:
        """The address of each register, as a value and a constant to add."""
        cx, b, size = self.cx, self.cx.builder, self.buffer.type.dtype.bytes
        offsets, known = self.layout, self.part if isinstance(self.part, int) else 0
        mine, moving = cx.thread_part(offsets), offsets.mask(LANE, WARP)
        if isinstance(self.part, ir.Value):
            mine, moving = b.xor(mine, self.part), -1
        bases: dict[int, ir.Value] = {}
        found = []
        for r in registers:
            own = offsets.index(register=r) ^ known
            mixed, alone = own & moving, own & ~moving
            if mixed not in bases:
                swizzled = b.xor(mine, cx.i32(mixed)) if mixed else mine
                scaled = b.shl(swizzled, cx.i32(log2(size))) if size > 1 else swizzled
                bases[mixed] = b.add(self.buffer.address, scaled)
            found.append((bases[mixed], alone * size))
        return found


def _groups(offsets: LinearLayout, vector: int) -> list[list[int]]:
    """The registers of each access, in the order of memory: those whose offsets differ in the lowest bits only."""
    found: dict[int, list[tuple[int, int]]] = {}
    for r in range(offsets.size(REGISTER)):
        within = offsets.index(register=r)
        found.setdefault(within // vector, []).append((within % vector, r))
    groups = []
    for members in found.values():
        by_offset = dict(sorted(members, reverse=True))  # of registers that hold the same element the first one
        groups.append([by_offset[i] for i in range(vector)])
    return groups


def _shared_load(cx: Context, op: memory.SharedLoad | memory.SharedExtract) -> None:
    offsets, dtype = accessed(cx, op, op.result.layout), op.type.dtype
    vector = op.vector if isinstance(op, memory.SharedLoad) else widest(offsets.layout, bytes_of(dtype))
    words, layout = words_of(bytes_of(dtype), vector), offsets.layout
    masks, otherwise = None, 0
    if isinstance(op, memory.PaddedLoad):
        masks, padding = cx.of(op.mask), _bits_of_constant(cx.of(op.padding)[0], dtype, words)
        assert padding is not None, "the padding is a constant"
        otherwise = padding
    by_offset: dict[int, ir.Value] = {}
    groups = _groups(layout, vector)
    for group, (address, constant) in zip(groups, offsets.addresses([g[0] for g in groups])):
        mask = None if masks is None else masks[group[0]]
        loaded = _load(cx, "ld.shared", words, address, mask, constant, otherwise)
        for r, value in zip(group, unpacked(cx, words, loaded, dtype)):
            by_offset[layout.index(register=r)] = value
    cx.values[op.result] = [by_offset[layout.index(register=r)] for r in range(layout.size(REGISTER))]


def _shared_store(cx: Context, op: memory.SharedStore | memory.SharedInsert) -> None:
    value, vector = op.value, _vector_of(op)
    offsets, dtype, values = accessed(cx, op, value.layout), value.tile.dtype, cx.of(value)
    words = words_of(bytes_of(dtype), vector)
    owned = owned_registers(value.layout)
    owner = cx.owner(value.layout)
    groups = [g for g in _groups(offsets.layout, vector) if g[0] in owned]
    for group, (address, constant) in zip(groups, offsets.addresses([g[0] for g in groups])):
        stored = packed(cx, words, [values[r] for r in group], dtype)
        _store(cx, "st.shared", words, address, stored, owner, constant)


def _shared_add(cx: Context, op: memory.SharedAdd) -> None:
    buffer, layout, owner = cx.buffers[op.buffer], op.value.layout, cx.owner(op.value.layout)
    positions, values, masks = cx.of(op.positions), cx.of(op.value), None if op.mask is None else cx.of(op.mask)
    for r in owned_registers(layout):
        address = cx.builder.add(buffer.address, cx.builder.shl(positions[r], cx.i32(2)))
        mask = _and(cx, None if masks is None else masks[r], owner)
        _where(cx, mask, "red.shared.add.u32 [$0], $1;", [address, values[r]])


def _vector_of(op: Op) -> int:
    return op.vector if isinstance(op, (memory.SharedLoad, memory.SharedStore)) else 1


def widest(offsets: LinearLayout, size: int) -> int:
    """How many elements of a part, of ``size`` bytes each, one access of a thread has: what the index of the part adds
    to ``offsets`` is none of their lowest bits."""
    bits, bases = 0, [b for dim in offsets.names for b in offsets.bases(dim)]
    while size << bits < memory.MAX_VECTOR_BYTES and 1 << bits in offsets.bases(REGISTER):
        if any(b >> bits & 1 and b != 1 << bits for b in bases):
            break
        bits += 1
    return 1 << bits


def accessed(cx: Context, op: Any, layout: LinearLayout) -> Offsets:
    """The offsets of the elements of a tile; of a part, with those of its first one, which the indices give."""
    buffer = cx.buffers[op.buffer]
    if isinstance(op, (memory.SharedLoad, memory.SharedStore)):
        return Offsets(cx, buffer, buffer.type.layout.invert_and_compose(layout), None)
    shape = buffer.type.shape
    inside = LinearLayout.of(shape, {dim: layout.images(dim) for dim in layout.names})
    offsets = buffer.type.layout.invert_and_compose(inside)
    first: ir.Value | None = None
    known = 0
    for axis, (index, n, m) in enumerate(zip(op.indices, shape, layout.shape)):
        bits = [tuple(m << bit if a == axis else 0 for a in range(len(shape))) for bit in range(log2(n // m))]
        if not bits:
            continue
        along = buffer.type.layout.invert_and_compose(LinearLayout.of(shape, {"index": bits}))
        number = constant_of(index)
        if isinstance(number, int):
            known ^= along.index(index=number)
            continue
        moved = cx.linear(resized(cx.builder, cx.scalar(index), I32), along.bases("index"))
        if moved is not None:
            first = moved if first is None else cx.builder.xor(first, moved)
    if first is not None and known:
        first = cx.builder.xor(first, cx.i32(known))
    return Offsets(cx, buffer, offsets, first or known)


def _barrier(cx: Context, op: memory.Barrier) -> None:
    cx.asm(f"bar.sync {op.id};" if op.threads is None else f"bar.sync {op.id}, {op.threads};")


# -- asynchronous copies


def _async_copy(cx: Context, op: memory.AsyncCopy) -> None:
    """cp.async: past the L1 cache where it can be; of size 0, which fills with zeros, where the mask is false."""
    buffer, pointers = cx.buffers[op.buffer], cx.of(op.ptrs)
    layout, size = op.ptrs.layout, buffer.type.dtype.bytes * op.vector
    masks = None if op.mask is None else cx.of(op.mask)
    offsets = Offsets(cx, buffer, buffer.type.layout.invert_and_compose(layout), None)
    owner = cx.owner(layout)
    firsts = [r for r in owned_registers(layout) if r % op.vector == 0]
    for r, (address, constant) in zip(firsts, offsets.addresses(firsts)):
        source = cx.base_offsets.of(pointers[r])
        text = f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global [$0+{constant}], [$1+{source.offset}], {size}"
        operands = [address, source.base]
        if masks is not None:
            text += ", $2"
            operands.append(cx.builder.select(masks[r], cx.i32(size), cx.i32(0)))
        _where(cx, owner, text + ";", operands)


def _prefetch(cx: Context, op: memory.Prefetch) -> None:
    """By the first thread."""
    b, size = cx.builder, op.base.tile.pointee.bytes
    bytes_ = b.and_(b.mul(resized(b, cx.scalar(op.count), I32), cx.i32(size)), cx.i32(-16))
    chosen = b.and_(cx.scalar(op.mask), b.icmp_unsigned("==", cx.thread, cx.i32(0)))
    chosen = b.and_(chosen, b.icmp_signed(">", bytes_, cx.i32(0)))
    cx.asm("@$2 cp.async.bulk.prefetch.L2.global [$0], $1;", [], [cx.scalar(op.base), bytes_, chosen])


def _prefetch_each(cx: Context, op: memory.PrefetchEach) -> None:
    for pointer, mask in zip(cx.of(op.ptrs), cx.of(op.mask)):
        _where(cx, mask, "prefetch.global.L2 [$0];", [pointer])


RULES: dict[type[Op], Rule] = {
    memory.GlobalLoad: _global_load,
    memory.GlobalStore: _global_store,
    AtomicRmw: _atomic,
    AtomicCas: _atomic,
    memory.SharedAlloc: _shared_alloc,
    memory.SharedCopy: _shared_copy,
    **dict.fromkeys((memory.SharedLoad, memory.PaddedLoad, memory.SharedExtract), _shared_load),
    **dict.fromkeys((memory.SharedStore, memory.SharedInsert), _shared_store),
    memory.SharedAdd: _shared_add,
    memory.Barrier: _barrier,
    memory.AsyncCopy: _async_copy,
    memory.Prefetch: _prefetch,
    memory.PrefetchEach: _prefetch_each,
    memory.AsyncCommit: instruction("cp.async.commit_group;"),
    memory.AsyncWait: instruction("cp.async.wait_group {pending};"),
}
