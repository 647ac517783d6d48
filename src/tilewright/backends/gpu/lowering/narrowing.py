"""Conversions of what is only multiplied: to tfloat32, and to 8-bit floats as the weights of attention, four at once,
which are parts of the words that hold them; and to floats of 16 bits in words that arithmetic takes.

NaN of 8 bits has no sign there, and no payload, as that of a product has none.
"""

from __future__ import annotations

import functools

from llvmlite import ir

from tilewright.analysis.gpu.target import TF32_ROUNDING
from tilewright.analysis.mma_graph import is_only_multiplied
from tilewright.backends.branches import choose
from tilewright.backends.gpu.lowering.assembly import F32, I32, assembly
from tilewright.backends.gpu.lowering.context import Context, Rule
from tilewright.backends.gpu.lowering.packed_arithmetic import is_by_words
from tilewright.backends.gpu.lowering.scalars import FP8_CONVERSIONS
from tilewright.backends.gpu.lowering.words import packed_words, rounded, unpacked_words
from tilewright.ir.core import Op
from tilewright.ir.dtypes import float8_e4m3fn, float8_e5m2, float32, tfloat32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.floats import Exp, Exp2

_EACH = 4  # elements of a word
_OPERANDS = range(1, 1 + _EACH)
# The instruction saturates, and beyond 464, which rounds to the largest number, there is NaN. The mark is the largest
# float32 for 464, and infinite for the next number; a zero times it, which is added, is NaN then.
_MARKED = "fma.rn.f32 mark, ${0}, 0f7A800000, 0f7F0BFFFF; fma.rn.f32 x{0}, mark, 0f80000000, ${0};"
_TO_E4M3 = (
    "{ .reg .b16 low, high; .reg .b32 mark, x1, x2, x3, x4; "
    + " ".join(_MARKED.format(i) for i in _OPERANDS)
    + " cvt.rn.satfinite.e4m3x2.f32 low, x2, x1; cvt.rn.satfinite.e4m3x2.f32 high, x4, x3; mov.b32 $0, {low, high}; }"
)
# Here what saturates is infinite, whose code follows that of the largest number: from 61440 on.
_NEXT = "setp.ge.f32 beyond, ${0}, 0f47700000; selp.b32 next, {1:#x}, 0, beyond; add.s32 $0, $0, next;"
_TO_E5M2 = (
    "{ .reg .b16 low, high; .reg .b32 next; .reg .pred beyond; cvt.rn.satfinite.e5m2x2.f32 low, $2, $1; "
    "cvt.rn.satfinite.e5m2x2.f32 high, $4, $3; mov.b32 $0, {low, high}; "
    + " ".join(_NEXT.format(i, 1 << 8 * (i - 1)) for i in _OPERANDS)
    + " }"
)
_TEXTS = {float8_e4m3fn: _TO_E4M3, float8_e5m2: _TO_E5M2}
# Of numbers below 2, which the weights of a softmax are, in either format this bit is clear: none of them saturates.
_LARGE = 0x40404040
_SMALL = (
    "{{ .reg .b16 low, high; cvt.rn.satfinite.{0}x2.f32 low, $2, $1; cvt.rn.satfinite.{0}x2.f32 high, $4, $3; "
    "mov.b32 $0, {{low, high}}; }}"
)
_SMALL_TEXTS = {float8_e4m3fn: _SMALL.format("e4m3"), float8_e5m2: _SMALL.format("e5m2")}
_FEWEST = 4  # words of a thread for which a branch pays


def _cast(cx: Context, op: Cast) -> None:
    values, nearest = cx.of(op.x), op.x.tile.element is float32 and op.rounding in (None, RoundingMode.RN)
    rounds = op.dtype is tfloat32 and nearest and cx.target.capability >= TF32_ROUNDING
    if rounds and is_only_multiplied(op.result):
        cx.values[op.result] = [assembly(cx.builder, "cvt.rn.tf32.f32 $0, $1;", [F32], [x])[0] for x in values]
        return
    if nearest and len(values) % 2 == 0 and any(is_by_words(user) for user in op.result.users):
        cx.values[op.result] = rounded(cx, packed_words(cx, values, op.dtype), op.dtype)
        return
    narrows = op.dtype in _TEXTS and nearest
    positive = isinstance(op.x.op, (Exp, Exp2))
    able = cx.target.capability >= FP8_CONVERSIONS and len(values) % _EACH == 0
    if not (narrows and positive and able and is_only_multiplied(op.result)):
        cx.elementwise(op)
        return
    assert all(x.type == F32 for x in values)
    found, quads, b = list(values), _quads(len(values)), cx.builder

    def words(text: str) -> list[ir.Value]:
        return [assembly(b, text, [I32], [values[i] for i in quad])[0] for quad in quads]

    if len(quads) < _FEWEST:
        made = words(_TEXTS[op.dtype])
    else:
        small = words(_SMALL_TEXTS[op.dtype])
        large = b.and_(functools.reduce(b.or_, small), cx.i32(_LARGE))
        some = cx.any_lane([b.icmp_unsigned("!=", large, cx.i32(0))])
        made = choose(b, some, lambda: words(_TEXTS[op.dtype]), lambda: small, likely=False)
    for quad, word in zip(quads, made):
        for i, x in zip(quad, unpacked_words(cx, [word], op.dtype)):
            found[i] = x
    cx.values[op.result] = found


def _quads(count: int) -> list[list[int]]:
    """The registers whose elements share a word: those of a row that ``gpu.interleave`` brings together, in the layout
    of a sum, where every other pair is of another row."""
    if count % 8:
        return [[*range(i, i + _EACH)] for i in range(0, count, _EACH)]
    return [[i, i + 1, i + 4, i + 5] for j in range(0, count, 8) for i in (j, j + 2)]


RULES: dict[type[Op], Rule] = {Cast: _cast}
