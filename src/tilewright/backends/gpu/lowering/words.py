"""Elements in words of 16, 32 or 64 bits, as accesses move them, and instructions that convert several at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import F32, I32, I64, assembly
from tilewright.backends.gpu.lowering.context import Context, Registers, Rule
from tilewright.backends.gpu.lowering.integers import extended, is_narrow
from tilewright.backends.gpu.lowering.patterns import inputs, opcode
from tilewright.backends.gpu.lowering.scalars import FP8_CONVERSIONS
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, bfloat16, bool_, float8_e4m3fn, float16, int8, uint32
from tilewright.ir.ops.arith import Bitcast, Cast, Or, Shl
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.types import ElementType, PointerType

_E4M3_TO_F32 = """{ .reg .b16 low, high, e0, e1, e2, e3; .reg .b32 first, second;
mov.b32 {low, high}, $4;
cvt.rn.f16x2.e4m3x2 first, low; cvt.rn.f16x2.e4m3x2 second, high;
mov.b32 {e0, e1}, first; mov.b32 {e2, e3}, second;
cvt.f32.f16 $0, e0; cvt.f32.f16 $1, e1; cvt.f32.f16 $2, e2; cvt.f32.f16 $3, e3; }"""
# A byte of e5m2 is the upper one of the float16 with the same value.
_E5M2_TO_F32 = """{ .reg .b16 e0, e1, e2, e3; .reg .b32 first, second;
prmt.b32 first, $4, 0, 0x1404; prmt.b32 second, $4, 0, 0x3424;
mov.b32 {e0, e1}, first; mov.b32 {e2, e3}, second;
cvt.f32.f16 $0, e0; cvt.f32.f16 $1, e1; cvt.f32.f16 $2, e2; cvt.f32.f16 $3, e3; }"""
# The instruction gives NaN without its sign.
_F32_TO_E4M3 = """{ .reg .b16 low, high; .reg .b32 first, second;
cvt.rn.satfinite.e4m3x2.f32 low, $2, $1; cvt.rn.satfinite.e4m3x2.f32 high, $4, $3;
mov.b32 $0, {low, high};
prmt.b32 first, $1, $2, 0x0073; prmt.b32 second, $3, $4, 0x0073; prmt.b32 first, first, second, 0x5410;
and.b32 first, first, 0x80808080; or.b32 $0, $0, first; }"""
_F32_TO_E5M2 = """{ .reg .b32 first, second;
cvt.rn.f16x2.f32 first, $2, $1; cvt.rn.f16x2.f32 second, $4, $3;
prmt.b32 $0, first, second, 0x7531; }"""
_PACKED_BYTES = """{{ .reg .b32 high; cvt.pack.sat.{0}.s32.b32 high, $4, $3, 0;
cvt.pack.sat.{0}.s32.b32 $0, $2, $1, high; }}""".replace("\n", " ")
# Of a byte the lower seven bits, added to 128, less 128 or, with the sign, 256.
_I8_TO_BF16 = """{{ .reg .b32 low, high, minus; prmt.b32 high, $1, 0x43434343, {:#x}; mov.b32 minus, 0xBF80BF80;
and.b32 low, high, 0xFF7FFF7F; and.b32 high, high, 0xFF80FF80; fma.rn.bf16x2 $0, high, minus, low; }}"""
# A byte with its sign flipped, which is 128 more, and 1024.
_I8_TO_F16 = """{{ .reg .b32 bytes, minus; xor.b32 bytes, $1, 0x80808080; prmt.b32 bytes, bytes, 0x64646464, {:#x};
mov.b32 minus, 0xE480E480; add.rn.f16x2 $0, bytes, minus; }}"""
_F16_TO_F32 = """{ .reg .b16 low, high;
mov.b32 {low, high}, $2; cvt.f32.f16 $0, low; cvt.f32.f16 $1, high; }"""
_BF16_TO_F32 = "shl.b32 $0, $2, 16; and.b32 $1, $2, 0xFFFF0000;"


@dataclass(frozen=True)
class Words:
    """How an access of ``count`` words of ``type`` is written; each has ``each`` elements.

    A word of 8 or 16 bits is in a register of 32, which loads extend with zeros and of which stores take the lowest
    bits: ptxas (12.9 to 13.5) puts two registers of 16 bits into one of 32, and spills the lower one in place of the
    upper one.
    """

    type: ir.Type
    suffix: str
    count: int
    each: int


@dataclass(frozen=True)
class Part:
    """Element ``index`` of a word of elements of ``dtype`` that was loaded, or ``rounded``."""

    word: ir.Value
    dtype: ElementType
    index: int
    rounded: bool = False


def bytes_of(dtype: ElementType) -> int:
    return 8 if isinstance(dtype, PointerType) else dtype.bytes


def words_of(element_bytes: int, vector: int) -> Words:
    """The words of an access of ``vector`` elements."""
    total = element_bytes * vector
    if element_bytes == 8:
        return Words(I64, "b64", vector, 1)
    if total >= 4:
        return Words(I32, "b32", total // 4, 4 // element_bytes)
    return Words(I32, f"b{8 * total}", 1, vector)


def unpacked(cx: Context, words: Words, found: Sequence[ir.Value], dtype: ElementType) -> Registers:
    """Elements of ``dtype`` from the words of an access."""
    b, stored, bits = cx.builder, cx.scalars.vector.storage_type(dtype), 8 * bytes_of(dtype)
    text = _unpacking(cx, words, dtype)
    result: Registers = []
    for word in found:
        if text is not None:
            elements = assembly(b, text, [F32] * words.each, [word])
            cx.parts.update((x, Part(word, dtype, i)) for i, x in enumerate(elements))
            result += elements
            continue
        for i in range(words.each):
            part = b.lshr(word, ir.Constant(word.type, i * bits)) if i else word
            if word.type == I32 and is_narrow(dtype):
                result.append(extended(b, part, dtype))
                cx.parts[result[-1]] = Part(word, dtype, i)
                continue
            if word.type == I32 and dtype is bool_:
                result.append(b.icmp_unsigned("!=", b.and_(part, cx.i32(0xFF)), cx.i32(0)))
                continue
            part = b.trunc(part, ir.IntType(bits)) if bits < word.type.width else part
            part = part if part.type == stored else b.bitcast(part, stored)
            result.append(cx.scalars.to_register(dtype, part))
            if words.each == 1 and bits < 32:
                cx.parts[result[-1]] = Part(word, dtype, 0)
    return result


def _unpacking(cx: Context, words: Words, dtype: ElementType) -> str | None:
    """One statement for all elements of a word of 32 bits."""
    if words.suffix != "b32" or isinstance(dtype, PointerType):
        return None
    if dtype.short == "f8e4m3fn":
        return _E4M3_TO_F32 if cx.target.capability >= FP8_CONVERSIONS else None
    return {"f16": _F16_TO_F32, "bf16": _BF16_TO_F32, "f8e5m2": _E5M2_TO_F32}.get(dtype.short)


def packed(cx: Context, words: Words, values: Sequence[ir.Value], dtype: ElementType) -> Registers:
    """The words that hold ``values``."""
    text = _packing(cx, words, dtype)
    result = []
    for first in range(0, len(values), words.each):
        elements = values[first : first + words.each]
        word = whole_word(cx, elements, dtype) if text is not None or words.suffix == "b32" else None
        if word is None and text is not None:
            word = _widened(cx, elements, dtype) or _gathered(cx, elements, dtype)
            word = word or assembly(cx.builder, text, [I32], [_before_rounding(x) for x in elements])[0]
        result.append(word or _joined(cx, words, elements, dtype))
    return result


def word_of(cx: Context, elements: Sequence[ir.Value], dtype: DType) -> ir.Value | None:
    """The word of 32 bits that two ``elements`` of 16 were loaded in, or converted from what was loaded; None for
    others."""
    return whole_word(cx, elements, dtype) or _widened(cx, elements, dtype)


def _joined(cx: Context, words: Words, elements: Sequence[ir.Value], dtype: ElementType) -> ir.Value:
    """A word from the memory forms of its elements."""
    b, bits = cx.builder, 8 * bytes_of(dtype)
    parts = [_low_bits(cx, x, dtype, words.type) for x in elements]
    shifted = (b.shl(x, ir.Constant(words.type, i * bits)) if i else x for i, x in enumerate(parts))
    return functools.reduce(b.or_, shifted)


def _low_bits(cx: Context, value: ir.Value, dtype: ElementType, word: ir.IntType) -> ir.Value:
    """The memory form of ``value`` in the low bits of a word whose other bits are zero."""
    b = cx.builder
    if is_narrow(dtype) and word == I32:
        return b.and_(value, ir.Constant(I32, (1 << dtype.bitwidth) - 1)) if dtype.is_signed else value
    part = cx.scalars.to_storage(dtype, value)
    part = part if isinstance(part.type, ir.IntType) else b.bitcast(part, ir.IntType(8 * bytes_of(dtype)))
    return b.zext(part, word) if part.type != word else part


def _packing(cx: Context, words: Words, dtype: ElementType) -> str | None:
    if words.type != I32 or isinstance(dtype, PointerType):
        return None
    if dtype.short in ("f16", "bf16"):
        return f"cvt.rn.{dtype.short}x2.f32 $0, {'$2' if words.each == 2 else '0f00000000'}, $1;"
    if words.suffix != "b32":
        return None
    if dtype.short in ("i8", "u8"):
        return _PACKED_BYTES.format("s8" if dtype.is_signed else "u8")
    if dtype.short == "f8e4m3fn":
        return _F32_TO_E4M3 if cx.target.capability >= FP8_CONVERSIONS else None
    return _F32_TO_E5M2 if dtype.short == "f8e5m2" else None


def whole_word(cx: Context, elements: Sequence[ir.Value], dtype: ElementType) -> ir.Value | None:
    """The word that was loaded as these elements of ``dtype``; a cast to a wider one leaves registers as they are."""
    found = [cx.parts.get(x) or cx.parts.get(_before_rounding(x)) for x in elements]
    first = found[0]
    if first is None or not (first.rounded or elements[0] in cx.parts):  # else a NaN would keep its bits
        return None
    same = all(part == Part(first.word, dtype, i, first.rounded) for i, part in enumerate(found))
    return first.word if same else None


def _widened(cx: Context, elements: Sequence[ir.Value], dtype: ElementType) -> ir.Value | None:
    """Two floats of 16 bits that were loaded as int8, in one word, or as f8e4m3fn, in one half of a word."""
    sources = [inputs(x)[0] for x in map(_before_rounding, elements) if opcode(x) == "sitofp"]
    parts = [p for p in map(cx.parts.get, sources) if p is not None and p.dtype is int8]
    if len(parts) == len(elements) == 2 and parts[0].word is parts[1].word:
        # A byte is the lowest bits of a number whose other bits are 0x43 or 0x64, and then exact.
        text = _I8_TO_BF16 if dtype is bfloat16 else _I8_TO_F16
        taken = parts[0].index | 0x4040 | parts[1].index << 8
        return assembly(cx.builder, text.format(taken), [I32], [parts[0].word])[0]
    first, *others = (cx.parts.get(x) for x in elements)
    if first is None or dtype is not float16 or first.dtype is not float8_e4m3fn or first.index % 2:
        return None
    if others != [Part(first.word, first.dtype, first.index + 1)]:
        return None  # or only one
    half = "high" if first.index else "low"
    text = f"{{ .reg .b16 low, high; mov.b32 {{low, high}}, $1; cvt.rn.f16x2.e4m3x2 $0, {half}; }}"
    return assembly(cx.builder, text, [I32], [first.word])[0]


def _gathered(cx: Context, elements: Sequence[ir.Value], dtype: ElementType) -> ir.Value | None:
    """The word of four bytes that were loaded in others."""
    parts = [cx.parts.get(x) for x in elements]
    found = [p for p in parts if p is not None and p.dtype is dtype]
    if len(found) != 4 or bytes_of(dtype) != 1:
        return None
    if (two := _of_two(found)) is not None:
        return assembly(cx.builder, f"prmt.b32 $0, $1, $2, {two[2]:#x};", [I32], two[:2])[0]
    low, high = (a.index | 4 + b.index << 4 for a, b in (found[:2], found[2:]))
    text = (
        f"{{ .reg .b32 low, high; prmt.b32 low, $1, $2, {low:#x}; prmt.b32 high, $3, $4, {high:#x}; "
        "prmt.b32 $0, low, high, 0x5410; }"
    )
    return assembly(cx.builder, text, [I32], [p.word for p in found])[0]


def _of_two(parts: Sequence[Part]) -> tuple[ir.Value, ir.Value, int] | None:
    """The two words that have the first and the last two of four ``parts``, and which bytes these are."""
    if parts[0].word is not parts[1].word or parts[2].word is not parts[3].word:
        return None
    taken = sum((p.index + (4 if k > 1 else 0)) << 4 * k for k, p in enumerate(parts))
    return parts[0].word, parts[2].word, taken


def exchanged_words(cx: Context, words: Sequence[Registers], dtype: DType, condition: ir.Value) -> Registers:
    """Each of the ``words`` of four loaded bytes, or, where ``condition`` holds, the other one of its pair."""
    b, found = cx.builder, []
    for pair in zip(words[::2], words[1::2]):
        one, other = (_of_two([cx.parts[x] for x in word]) for word in pair)
        if one is None or other is None or one[:2] != other[:2]:
            held = [packed_words(cx, word, dtype)[0] for word in pair]
            found += [b.select(condition, held[1], held[0]), b.select(condition, held[0], held[1])]
            continue
        for mine, theirs in ((one[2], other[2]), (other[2], one[2])):
            taken = b.select(condition, cx.i32(theirs), cx.i32(mine))
            found += assembly(b, "prmt.b32 $0, $1, $2, $3;", [I32], [*one[:2], taken])
    return found


def _before_rounding(x: ir.Value) -> ir.Value:
    """A float32 that rounds to the 16 bits that ``x`` has: packing rounds once more."""
    if opcode(x) == "fpext":
        (narrow,) = inputs(x)
        if opcode(narrow) == "fptrunc":
            (wide,) = inputs(narrow)
            return wide if wide.type == F32 else x
    return x


def rounded(cx: Context, words: Registers, dtype: DType) -> Registers:
    """The elements in ``words``, to which they were rounded: they are what another such rounding gives."""
    found = unpacked_words(cx, words, dtype)
    cx.parts.update((x, replace(cx.parts[x], rounded=True)) for x in found)
    return found


def _bitcast(cx: Context, op: Bitcast) -> None:
    """Bits of loaded elements are those of their words: their registers are float32, which have no signaling NaN."""
    b, target, parts = cx.builder, op.dtype, [cx.parts.get(x) for x in cx.of(op.x)]
    loaded = [p for p in parts if p is not None and p.dtype is op.x.tile.element]
    if not is_narrow(target) or len(loaded) < len(parts):
        cx.elementwise(op)
        return
    found = [b.lshr(p.word, cx.i32(p.index * target.bitwidth)) if p.index else p.word for p in loaded]
    cx.values[op.result] = [extended(b, x, target) for x in found]
    cx.parts.update((x, Part(p.word, target, p.index)) for x, p in zip(cx.values[op.result], loaded))


def packed_words(cx: Context, values: Registers, dtype: DType) -> Registers:
    """Elements of at most 32 bits, in words of 32 bits."""
    return packed(cx, words_of(dtype.bytes, 4 // dtype.bytes), values, dtype)


def unpacked_words(cx: Context, words: Registers, dtype: DType) -> Registers:
    """The elements in words of 32 bits."""
    return unpacked(cx, words_of(dtype.bytes, 4 // dtype.bytes), words, dtype)


def _or(cx: Context, op: Or) -> None:
    """Two floats of 16 bits in the halves of a word are rounded by one instruction."""
    shifted = op.rhs.op if isinstance(op.rhs.op, Shl) else None
    low, high = _float_in(op.lhs), None if shifted is None else _float_in(shifted.lhs)
    if shifted is None or low is None or high is None or low.type != high.type or constant_of(shifted.rhs) != 16:
        cx.elementwise(op)
        return
    cx.values[op.result] = [
        packed(cx, words_of(2, 2), pair, low.tile.element)[0] for pair in zip(cx.of(low), cx.of(high))
    ]


def _float_in(x: Value) -> Value | None:
    """The float of 16 bits whose bits ``x``, of 32, has."""
    bits = x.op.x if isinstance(x.op, Cast) and x.op.dtype is uint32 else None
    source = bits.op.x if bits is not None and isinstance(bits.op, Bitcast) else None
    return source if source is not None and source.tile.element in (float16, bfloat16) else None


RULES: dict[type[Op], Rule] = {Bitcast: _bitcast, Or: _or}
