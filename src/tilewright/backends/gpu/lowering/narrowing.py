"""Conversions to tfloat32 of what is only multiplied; to 8-bit floats, four at once, which are parts of the words that
hold them; and to floats of 16 bits in words that arithmetic takes.

NaN that is converted to 8 bits has no sign there, and no payload, as that of a product has none.
"""

from __future__ import annotations

import functools
import math

from llvmlite import ir

from tilewright.analysis.gpu.clamps import largest
from tilewright.analysis.gpu.target import TF32_ROUNDING
from tilewright.analysis.mma_graph import is_only_multiplied
from tilewright.backends.branches import choose
from tilewright.backends.gpu.lowering.assembly import F32, I32, assembly
from tilewright.backends.gpu.lowering.context import Context, Registers, Rule
from tilewright.backends.gpu.lowering.packed_arithmetic import is_by_words
from tilewright.backends.gpu.lowering.scalars import FP8_CONVERSIONS
from tilewright.backends.gpu.lowering.words import packed_words, rounded, unpacked_words, whole_word
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, float8_e4m3fn, float8_e5m2, float32, tfloat32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Add, Cast
from tilewright.ir.ops.floats import Exp, Exp2
from tilewright.ir.ops.gpu.tiles import ThreadReduce

_EACH = 4  # elements of a word
# The instruction saturates: beyond what rounds to the largest number e4m3 has NaN, and e5m2 is infinite, whose codes
# follow that of the largest number.
_CONVERTED = (
    "cvt.rn.satfinite.{0}x2.f32 low, $2, $1; cvt.rn.satfinite.{0}x2.f32 high, $4, $3; mov.b32 $0, {{low, high}};"
)
_WITHIN = f"{{{{ .reg .b16 low, high; {_CONVERTED} }}}}"
_NEXT = "abs.f32 size, ${0}; setp.{{1}}.f32 beyond, size, {{2}}; @beyond add.s32 $0, $0, {1:#x};"
_ANY = (
    f"{{{{ .reg .b16 low, high; .reg .b32 size; .reg .pred beyond; {_CONVERTED} "
    + " ".join(_NEXT.format(i + 1, 1 << 8 * i) for i in range(_EACH))
    + " }}"
)
_KINDS = {float8_e4m3fn: ("e4m3", "gt", "0f43E80000"), float8_e5m2: ("e5m2", "ge", "0f47700000")}
_MOST = {float8_e4m3fn: 464.0, float8_e5m2: 61439.0}  # of these and smaller ones none is beyond


def _cast(cx: Context, op: Cast) -> None:
    values, nearest = cx.of(op.x), op.rounding in (None, RoundingMode.RN)
    single = nearest and op.x.tile.element is float32
    rounds = op.dtype is tfloat32 and single and cx.target.capability >= TF32_ROUNDING
    if rounds and is_only_multiplied(op.result):
        cx.values[op.result] = [assembly(cx.builder, "cvt.rn.tf32.f32 $0, $1;", [F32], [x])[0] for x in values]
    elif single and len(values) % 2 == 0 and any(is_by_words(user) for user in op.result.users):
        cx.values[op.result] = rounded(cx, packed_words(cx, values, op.dtype), op.dtype)
    elif nearest and converts_by_words(cx, op.dtype, values) and op.result not in cx.strides:
        cx.values[op.result] = _to_eight_bits(cx, op, values)
    else:
        cx.elementwise(op)


def _to_eight_bits(cx: Context, op: Cast, values: Registers) -> Registers:
    found, b = list(values), cx.builder
    weights = isinstance(op.x.op, (Exp, Exp2)) and is_only_multiplied(op.result)
    places = _places(len(values)) if weights else [*range(len(values))]
    ordered = [values[i] for i in places]
    exact = functools.partial(narrowed_words, cx, ordered, op.dtype)
    if weights and (sums := _sums(cx, op.x)):
        some = cx.any_lane([b.fcmp_unordered(">", x, ir.Constant(F32, _MOST[op.dtype])) for x in sums])
        made = choose(b, some, exact, lambda: exact(0), likely=False)
    else:
        made = exact(largest(op.x))
    for i, x in zip(places, unpacked_words(cx, made, op.dtype)):
        found[i] = x
    return found


def _sums(cx: Context, weights: Value) -> Registers:
    """What a thread has added up of all ``weights``, none of which is negative: each is at most as large."""
    reduced = [op for op in weights.users if isinstance(op, ThreadReduce) and op.results[0] in cx.values]
    return next((cx.of(op.results[0]) for op in reduced if [type(o) for o in op.body.ops[:-1]] == [Add]), [])


def converts_by_words(cx: Context, dtype: DType, values: Registers) -> bool:
    """Whether there are instructions that convert ``values`` to words of ``dtype``, of 8 bits."""
    able = dtype in _KINDS and cx.target.capability >= FP8_CONVERSIONS and len(values) % _EACH == 0
    return able and all(x.type == F32 for x in values)


def narrowed_words(cx: Context, values: Registers, dtype: DType, most: float = math.inf) -> Registers:
    """The words of ``values``, none of which is larger than ``most``, as floats of 16 or 8 bits."""
    if dtype not in _KINDS:
        return packed_words(cx, values, dtype)
    text = (_WITHIN if most <= _MOST[dtype] else _ANY).format(*_KINDS[dtype])
    quads = [values[i : i + _EACH] for i in range(0, len(values), _EACH)]
    return [whole_word(cx, each, dtype) or assembly(cx.builder, text, [I32], each)[0] for each in quads]


def _places(count: int) -> list[int]:
    """The registers of words one after another: their elements are those of a row that ``gpu.interleave`` brings
    together, in the layout of a sum, where every other pair is of another row."""
    if count % 8:
        return [*range(count)]
    return [k for j in range(0, count, 8) for i in (j, j + 2) for k in (i, i + 1, i + 4, i + 5)]


RULES: dict[type[Op], Rule] = {Cast: _cast}
