"""Memory in LLVM's terms: arrays and structs of the block, constant tables, addresses, single loads and stores."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.frontend.cpp import llvm_form as llvm
from tilewright.frontend.cpp.layout import CType
from tilewright.frontend.cpp.llvm_text import parse_constant
from tilewright.frontend.cpp.typecodes import LLVM_DTYPES, signed
from tilewright.frontend.cpp.values import VOID_POINTER, Translation
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, int64, uint8
from tilewright.ir.ops.arith import Add, Cast, Mul
from tilewright.ir.ops.memory import MAX_LOCAL_BYTES, Load, LocalArray, Store
from tilewright.ir.ops.shape import Broadcast, IntToPtr, Iota, PtrOffset, PtrToInt, Reshape
from tilewright.ir.types import PointerType, TileType

_MEMORY_DTYPES: dict[str, DType] = {**LLVM_DTYPES, "i1": uint8, "ptr": int64}
_LARGEST_TABLE = 4096  # scalars of a constant table
_NO_OPERANDS = ("printf", "__tw_hint", "llvm.memcpy", "llvm.memmove")  # calls that read constants themselves


def allocate(state: Translation, i: llvm.Instruction) -> Value | None:
    """Memory of the block. A reason against it is told where it is used, which has a location in the source."""
    name = str(i.name)
    try:
        layout = state.layouts.of(i.detail)
    except llvm.LLVMTextError as e:
        state.unavailable[name] = str(e)
        return None
    count = i.operands[0].value if i.operands and isinstance(i.operands[0], llvm.Const) else None if i.operands else 1
    if count is None:
        state.unavailable[name] = "a local array needs a length that is known at compile time"
    elif llvm.HANDLE in layout.scalars:
        state.unavailable[name] = (
            "an array of tiles that is indexed at run time, or a tile whose address is kept, is not available in tile "
            "code; index the array in a loop of constant length, give printf one element"
        )
    elif layout.size * count > MAX_LOCAL_BYTES:
        state.unavailable[name] = (
            f"a local array has {MAX_LOCAL_BYTES} bytes at most; this one has {layout.size * count}"
        )
    else:
        return _array(state, layout, count)
    return None


def _array(state: Translation, layout: CType, count: int = 1) -> Value:
    """Memory for ``layout``, ``count`` times: elements of one dtype where all scalars have that, else bytes."""
    dtypes = {_MEMORY_DTYPES.get(t, uint8) for t in layout.scalars}
    dtype = dtypes.pop() if len(dtypes) == 1 else uint8
    arrays = layout.count is None and any(field.count is not None for _, field in layout.fields)
    parts = tuple(start for start, _ in layout.fields) if arrays and count == 1 and len(layout.fields) > 1 else ()
    return state.builder.emit(LocalArray, dtype=dtype, count=max(layout.size * count // dtype.bytes, 1), parts=parts)


def copy_tables(state: Translation) -> None:
    """Put the constant arrays whose addresses the function uses into memory of the block."""
    for block in state.function.blocks:
        for i in block.instructions:
            if i.op == "call" and i.detail.startswith(_NO_OPERANDS):
                continue
            for operand in i.operands:
                if isinstance(operand, llvm.Symbol) and operand.name not in state.tables:
                    scalars = _table(state, operand.name)
                    if scalars is not None:
                        layout, values = scalars
                        state.tables[operand.name] = base = _array(state, layout)
                        _store_all(state, base, values)


def _table(state: Translation, name: str) -> tuple[CType, list[tuple[int, llvm.Const]]] | None:
    """The layout and the scalars of the constant global variable ``name``; None when it is none, or holds addresses."""
    constant = parse_constant(state.module.globals.get(name, ""))
    if constant is None:
        return None
    try:
        layout = state.layouts.of(constant[0])
    except llvm.LLVMTextError:
        return None
    values: list[tuple[int, llvm.Const]] = []
    for offset, value in layout.constants(constant[1]):
        if not isinstance(value, llvm.Const) or len(values) >= _LARGEST_TABLE:
            return None
        values.append((offset, value))
    return layout, values


def _store_all(state: Translation, base: Value, values: list[tuple[int, llvm.Const]]) -> None:
    if len(values) > 1 and len({repr(v) for _, v in values}) == 1 and values[0][1].type in LLVM_DTYPES:
        dtype = _MEMORY_DTYPES[values[0][1].type]
        if values[-1][0] == (len(values) - 1) * dtype.bytes:
            _fill(state, state.coerce(base, PointerType(dtype)), values[0][1].value, len(values))
            return
    for offset, value in values:
        if value.value is not llvm.UNDEFINED:
            _store_scalar(state, state.moved(base, offset), value)


def _store_scalar(state: Translation, pointer: Value, value: llvm.Const) -> None:
    dtype = _MEMORY_DTYPES[value.type]
    typed = _pointer_to(state, pointer, value.type)
    element = typed.tile.pointee
    number = 0 if value.value is None else value.value
    stored = state.coerce(state.constant(number, dtype), element)
    state.builder.emit_op(Store, typed, stored, None)


# -- addresses


def element_pointer(state: Translation, i: llvm.Instruction) -> Value:
    """``getelementptr``: the pointer keeps its element type where all steps are multiples of its size."""
    pointer = state.value(i.operands[0], "ptr")
    try:
        layout = state.layouts.of(i.detail)
    except llvm.LLVMTextError as e:
        state.fail(str(e))
    constant, steps = 0, []
    for k, (operand, type) in enumerate(zip(i.operands[1:], i.types[1:])):
        if isinstance(operand, llvm.Const):
            start, inner = (int(operand.value) * layout.size, layout) if k == 0 else layout.member(int(operand.value))
            constant += start
        else:
            inner = layout if k == 0 else layout.member(0)[1]
            steps.append((state.value(operand, type), inner.size))
        layout = inner
    have = pointer.tile.dtype
    pointee = have.pointee if isinstance(have, PointerType) else None
    unit = pointee.bytes if pointee is not None else 0
    if not unit or constant % unit or any(size % unit for _, size in steps):
        narrow = next((t for t in _MEMORY_DTYPES.values() if len(steps) == 1 and t.bytes == steps[0][1]), uint8)
        if constant % narrow.bytes:
            narrow = uint8
        pointer, unit = state.coerce(pointer, PointerType(narrow)), narrow.bytes
    for index, size in steps:
        pointer = state.builder.emit(PtrOffset, pointer, _scaled(state, index, size // unit))
    return state.coerce(state.moved(pointer, constant), have)


def _scaled(state: Translation, index: Value, factor: int) -> Value:
    if factor == 1:
        return index
    if index.tile.element != int64:
        index = state.builder.emit(Cast, state.coerce(index, signed(index.tile.element)), dtype=int64)
    return state.builder.emit(Mul, index, state.constant(factor, int64))


def _pointer_to(state: Translation, pointer: Value, type: str) -> Value:
    """``pointer`` to elements as wide as ``type``; it keeps its own element type when that fits."""
    dtype = _MEMORY_DTYPES.get(type)
    if dtype is None:
        what = "a tile" if type == llvm.HANDLE else f"a value of the LLVM type {type}"
        state.fail(f"{what} cannot be kept in memory in tile code")
    have = pointer.tile.dtype
    if isinstance(have, PointerType) and have.pointee is not None and have.pointee.bytes == dtype.bytes:
        return pointer
    return state.coerce(pointer, PointerType(dtype))


# -- single elements


def _no_atomics(state: Translation, i: llvm.Instruction) -> None:
    if i.flags & {"volatile", "atomic"}:
        state.fail(f"a volatile or atomic {i.op} is not available in tile code; use the atomic functions of tiles")


def load(state: Translation, i: llvm.Instruction) -> Value:
    _no_atomics(state, i)
    pointer = _pointer_to(state, state.value(i.operands[0], "ptr"), i.type)
    value = state.builder.emit(Load, pointer, None, None)
    if i.type == "ptr":
        value = state.builder.emit(IntToPtr, state.coerce(value, int64), dtype=VOID_POINTER)
    elif signed(value.tile.element) != LLVM_DTYPES[i.type]:
        value = state.coerce(value, LLVM_DTYPES[i.type])
    return value


def store(state: Translation, i: llvm.Instruction) -> None:
    _no_atomics(state, i)
    type = i.types[0]
    pointer = _pointer_to(state, state.value(i.operands[1], "ptr"), type)
    if type == "ptr":
        value = state.builder.emit(PtrToInt, state.value(i.operands[0], type), dtype=int64)
        value = state.coerce(value, pointer.tile.pointee)
    else:
        value = state.value(i.operands[0], type, pointer.tile.pointee)
    state.builder.emit_op(Store, pointer, value, None)


# -- many bytes at once


def transfer(state: Translation, i: llvm.Instruction) -> None:
    """``memcpy``, ``memmove`` and ``memset`` of a constant number of bytes."""
    target, source, size = i.operands[:3]
    if not isinstance(size, llvm.Const):
        state.fail("copying or filling a number of bytes that is known only at run time is not available in tile code")
    bytes = int(size.value)
    if bytes == 0:
        return
    pointer = state.value(target, "ptr")
    if i.detail.startswith("llvm.memset"):
        if not isinstance(source, llvm.Const):
            state.fail("filling memory with a byte that is known only at run time is not available in tile code")
        _fill_bytes(state, pointer, int(source.value) & 255, bytes)
        return
    if isinstance(source, llvm.Symbol):
        table = _table(state, source.name)
        if table is not None:
            first = source.offset
            part = [(start - first, v) for start, v in table[1] if first <= start < first + bytes]
            _store_all(state, pointer, part)
            return
    _copy(state, pointer, state.value(source, "ptr"), bytes)


def _copy(state: Translation, target: Value, source: Value, bytes: int) -> None:
    dtype = target.tile.dtype
    pointee = dtype.pointee if isinstance(dtype, PointerType) else None
    if pointee is None or source.tile.dtype != dtype or bytes % pointee.bytes:
        pointee = uint8
    target, source = (state.coerce(p, PointerType(pointee)) for p in (target, source))
    chunks = list(_chunks(bytes // pointee.bytes))
    loaded = [state.builder.emit(Load, _element_pointers(state, source, start, n), None, None) for start, n in chunks]
    for (start, n), values in zip(chunks, loaded):
        state.builder.emit_op(Store, _element_pointers(state, target, start, n), values, None)


def _fill_bytes(state: Translation, target: Value, byte: int, bytes: int) -> None:
    dtype = target.tile.dtype
    pointee = dtype.pointee if isinstance(dtype, PointerType) else None
    if pointee is None or byte or bytes % pointee.bytes:
        target, pointee = state.coerce(target, PointerType(uint8)), uint8
    _fill(state, target, byte, bytes // pointee.bytes)


def _fill(state: Translation, target: Value, value: object, count: int) -> None:
    for start, n in _chunks(count):
        pointers = _element_pointers(state, target, start, n)
        state.builder.emit_op(Store, pointers, state.constant(value, target.tile.pointee, (n,)), None)


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    """``count`` elements as runs whose lengths are powers of two: first element and length."""
    start = 0
    while start < count:
        length = 1 << (count - start).bit_length() - 1
        yield start, length
        start += length


def _element_pointers(state: Translation, pointer: Value, start: int, count: int) -> Value:
    """Pointers to ``count`` elements from element ``start`` on."""
    emit = state.builder.emit
    index = emit(Iota, type=TileType(int64, (count,)))
    if start:
        index = emit(Add, index, state.constant(start, int64, (count,)))
    wide = emit(Reshape, pointer, shape=(1,))
    wide = emit(Broadcast, wide, shape=(count,)) if count > 1 else wide
    return emit(PtrOffset, wide, index)
