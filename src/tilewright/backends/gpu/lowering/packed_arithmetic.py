"""Arithmetic on floats of 16 bits that lie in pairs in words of 32: one instruction for both elements of a word.

It rounds once what float32 rounds twice. For sums, differences and products of two such floats both are the same, as
float32 has more than twice their bits (S. Figueroa, When is double rounding innocuous?, 1995); of those that are
subnormal numbers float32 has all bits that matter.
"""

from __future__ import annotations

from tilewright.backends.gpu.lowering.assembly import I32, assembly, name_of_extremum
from tilewright.backends.gpu.lowering.context import Context, Registers
from tilewright.backends.gpu.lowering.patterns import number_of
from tilewright.backends.gpu.lowering.words import packed_words, unpacked_words, word_of
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType, bfloat16, float16
from tilewright.ir.ops.arith import Add, Max, Min, Mul, Sub, is_plain

_EACH = 2  # elements of a word
_BFLOAT_INSTRUCTIONS = 90  # from this compute capability on bfloat16 has more than multiply-adds: PTX ISA
_NAMES: dict[type[Op], str] = {Add: "add.rn", Sub: "sub.rn", Mul: "mul.rn"}
# With constants of one in a product, or of a negative zero in a sum, which change no result.
_AS_MULTIPLY_ADD: dict[type[Op], str] = {
    Add: "{ .reg .b32 one; mov.b32 one, 0x3F803F80; fma.rn.bf16x2 $0, $1, one, $2; }",
    Sub: "{ .reg .b32 one; mov.b32 one, 0xBF80BF80; fma.rn.bf16x2 $0, $2, one, $1; }",
    Mul: "{ .reg .b32 zero; mov.b32 zero, 0x80008000; fma.rn.bf16x2 $0, $1, $2, zero; }",
}


def is_by_words(op: Op) -> bool:
    """Whether ``op`` may be computed by words, whose elements are in some."""
    return isinstance(op, (Max, Min, *_NAMES)) and op.result.tile.dtype in (float16, bfloat16)


def by_words(cx: Context, op: Op) -> Registers | None:
    """The elements of the result of ``op``, computed by the words that hold those of its operands; None for other ops,
    and for operands that are not in words."""
    dtype = op.result.tile.dtype
    if dtype not in (float16, bfloat16) or op.result in cx.strides:
        return None
    text, operands = _text(cx, op, dtype), [cx.of(v) for v in op.operands]
    if text is None or len(operands[0]) % _EACH:
        return None
    given, loaded = [], False
    for registers in operands:
        words = [word_of(cx, registers[i : i + _EACH], dtype) for i in range(0, len(registers), _EACH)]
        loaded |= None not in words
        given.append(words if None not in words else _equal_pairs(cx, registers, dtype))
    if not loaded or [] in given:
        return None
    return unpacked_words(cx, [assembly(cx.builder, text, [I32], each)[0] for each in zip(*given)], dtype)


def _equal_pairs(cx: Context, registers: Registers, dtype: DType) -> Registers:
    """The words of elements that are equal in pairs, as a broadcast has them; none where some are not."""
    pairs = list(zip(registers[::_EACH], registers[1::_EACH]))
    if any(x is not y and not (number_of(x) is not None and number_of(x) == number_of(y)) for x, y in pairs):
        return []
    words = {x: packed_words(cx, [x, x], dtype)[0] for x, _ in pairs}
    return [words[x] for x, _ in pairs]


def _text(cx: Context, op: Op, dtype: DType) -> str | None:
    """The instruction for a word of ``op``, if there is one."""
    if isinstance(op, (Max, Min)):
        if op.flush_to_zero:
            return None
        return f"{name_of_extremum(op)}.{dtype.short}x2 $0, $1, $2;"
    if type(op) not in _NAMES or not is_plain(op):
        return None
    if dtype is bfloat16 and cx.target.capability < _BFLOAT_INSTRUCTIONS:
        return _AS_MULTIPLY_ADD[type(op)]
    return f"{_NAMES[type(op)]}.{dtype.short}x2 $0, $1, $2;"
