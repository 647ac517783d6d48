"""Quotients of many numbers by few: reciprocals are computed once, and no quotient branches for itself."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from llvmlite import ir

from tilewright.analysis.gpu.target import most_registers
from tilewright.analysis.precision import rounded_to
from tilewright.backends.branches import choose
from tilewright.backends.gpu.lowering.assembly import F32, F64, I32
from tilewright.backends.gpu.lowering.context import Context, Registers, Rule
from tilewright.backends.gpu.lowering.narrowing import converts_by_words, narrowed_words
from tilewright.backends.gpu.lowering.words import rounded
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.arith import Div, is_plain, operand_dtype

_FEWEST = 8  # quotients by a number for which it pays
_WORD = 4  # quotients that are converted together
_CHAINS = 4  # in which they are looked at
_OTHER_REGISTERS, _PART = 48, 32  # where both branches have their numbers in registers; quotients, where these are few
# Where the divisor and what is divided, unless that is zero, are from a range like these, nothing of what follows
# overflows, and the remainders have all their bits: as bits of float32.
_LEAST_DIVISOR, _END_OF_DIVISORS = (127 - 20) << 23, (127 + 24) << 23
_LEAST, _MOST = (127 - 100) << 23, 2.0**100
# Less than a unit of the last place off: approximate ones have 23 bits or more, which one step doubles. It is no number
# of zero, of infinity and of denormal numbers.
_RECIPROCAL = """{ .reg .f32 rest; rcp.approx.ftz.f32 $0, $1; neg.f32 rest, $1;
fma.rn.f32 rest, rest, $0, 0f3F800000; fma.rn.f32 $0, $0, rest, $0; }""".replace("\n", " ")
# With the reciprocal rounded to nearest and a quotient less than a unit of its last place off, which the first
# correction makes, the second one rounds correctly: P. Markstein, "Computation of elementary functions on the IBM RISC
# System/6000 processor", theorem 8. The remainder is taken as s q - x, so that a zero keeps its sign.
_QUOTIENT = """{ .reg .f32 quotient, excess;
mul.rn.f32 quotient, $1, $3;
fma.rn.f32 excess, $2, quotient, $4; neg.f32 excess, excess; fma.rn.f32 quotient, excess, $3, quotient;
fma.rn.f32 excess, $2, quotient, $4; neg.f32 excess, excess; fma.rn.f32 $0, excess, $3, quotient; }""".replace(
    "\n", " "
)

# In float64, with the reciprocal rounded to nearest: the quotient has one rounding of that type, and rounding it once
# more is harmless. Where the remainder is zero, or none as of infinities and by zero, the product is the quotient.
_QUOTIENT_OF_ANY = """{ .reg .f64 x, quotient, excess, better; .reg .pred inexact;
cvt.f64.f32 x, $1; mul.rn.f64 quotient, x, $3; neg.f64 excess, x; fma.rn.f64 excess, $2, quotient, excess;
setp.ne.f64 inexact, excess, 0d0000000000000000; neg.f64 excess, excess;
fma.rn.f64 better, excess, $3, quotient; selp.f64 quotient, better, quotient, inexact;
cvt.rn.f32.f64 $0, quotient; }""".replace("\n", " ")


def _divide(cx: Context, op: Div) -> None:
    narrow, xs, divisors = rounded_to(op), cx.of(op.lhs), cx.of(op.rhs)
    if narrow is not None and narrow.bitwidth == 8 and not converts_by_words(cx, narrow, xs):
        narrow = None
    room = most_registers(cx.tile_threads) - _OTHER_REGISTERS
    if not _shares_reciprocals(cx, op) or (narrow is None and len(xs) > room):
        cx.elementwise(op)
        return
    pairs = list(zip(xs, divisors))
    unique = list(dict.fromkeys(pairs))  # of a short row many are equal
    unique += unique[-1:] * (-len(unique) % _WORD)
    xs, divisors = ([pair[i] for pair in unique] for i in range(2))
    each = len(xs) if len(xs) <= room else _PART
    parts = (_quotients(cx, xs[i : i + each], divisors[i : i + each], narrow) for i in range(0, len(xs), each))
    found = dict(zip(unique, (x for part in parts for x in part)))
    cx.values[op.result] = [found[pair] for pair in pairs]


def _quotients(cx: Context, xs: Registers, divisors: Registers, narrow: DType | None) -> Registers:
    groups = {s: [x for x, d in zip(xs, divisors) if d is s] for s in dict.fromkeys(divisors)}
    places = {s: iter(range(len(xs))) for s in groups}
    order = [(s, next(places[s])) for s in divisors]

    def each(divide: Callable[[Context, Sequence[ir.Value], ir.Value], Registers]) -> Registers:
        found = {s: divide(cx, group, s) for s, group in groups.items()}
        return [found[s][i] for s, i in order]

    def exact() -> Registers:
        usual = cx.builder.and_(_in_range(cx, xs), _are_between(cx, groups, _LEAST_DIVISOR, _END_OF_DIVISORS))
        return choose(cx.builder, usual, lambda: each(_fast), lambda: each(_in_float64))

    if narrow is None:
        return exact()
    # Roundings are monotonic: where the products with numbers below and above the reciprocal round to the same bits, so
    # does the quotient between them.
    b, reciprocals = cx.builder, {s: cx.scalars.asm(_RECIPROCAL, [s], F32) for s in groups}
    low, high = (narrowed_words(cx, _products(cx, xs, divisors, reciprocals, unit), narrow) for unit in (-1, 1))
    different = functools.reduce(b.or_, (b.xor(x, y) for x, y in zip(low, high)))
    numbers = (b.fcmp_ordered("ord", r, r) for r in reciprocals.values())
    same = functools.reduce(b.and_, numbers, b.icmp_unsigned("==", different, cx.i32(0)))
    words = choose(b, same, lambda: low, lambda: narrowed_words(cx, exact(), narrow))
    return rounded(cx, words, narrow)


def _shares_reciprocals(cx: Context, op: Div) -> bool:
    """Whether these are many quotients of few numbers in float32."""
    if operand_dtype(op).short != "f32" or not is_plain(op):
        return False
    counts = Counter(cx.of(op.rhs))
    return all(count >= _FEWEST and not isinstance(s, ir.Constant) for s, count in counts.items())


def _products(
    cx: Context, xs: Registers, divisors: Registers, reciprocals: Mapping[ir.Value, ir.Value], unit: int
) -> Registers:
    """Products of ``xs`` with what is a ``unit`` of the last place beside the reciprocals of their divisors."""
    b = cx.builder
    beside = {s: b.bitcast(b.add(b.bitcast(r, I32), cx.i32(unit)), F32) for s, r in reciprocals.items()}
    return [cx.scalars.asm("mul.rn.f32 $0, $1, $2;", [x, beside[s]], F32) for x, s in zip(xs, divisors)]


def _are_between(cx: Context, divisors: Iterable[ir.Value], least: int, end: int) -> ir.Value:
    """Whether the bits of all are from ``least`` to ``end``."""
    b = cx.builder
    offsets = (b.sub(b.bitcast(s, I32), cx.i32(least)) for s in divisors)
    return functools.reduce(b.and_, (b.icmp_unsigned("<", x, cx.i32(end - least)) for x in offsets))


def _fast(cx: Context, xs: Sequence[ir.Value], s: ir.Value) -> list[ir.Value]:
    reciprocal = cx.scalars.asm("rcp.rn.f32 $0, $1;", [s], F32)
    return [cx.scalars.asm(_QUOTIENT, [x, s, reciprocal, cx.builder.fneg(x)], F32) for x in xs]


def _in_float64(cx: Context, xs: Sequence[ir.Value], s: ir.Value) -> list[ir.Value]:
    wide = cx.builder.fpext(s, F64)
    reciprocal = cx.scalars.instruction("div.rn", [ir.Constant(F64, 1.0), wide])
    return [cx.scalars.asm(_QUOTIENT_OF_ANY, [x, wide, reciprocal], F32) for x in xs]


def _in_range(cx: Context, xs: Sequence[ir.Value]) -> ir.Value:
    """Whether the largest of ``xs`` is not too large, and the smallest but for zeros not too small."""
    b, scalars = cx.builder, cx.scalars
    totals: list[ir.Value] = []
    lows: list[ir.Value] = []
    for i, x in enumerate(xs):
        bits = b.bitcast(x, I32)
        size = scalars.asm("abs.f32 $0, $1;", [x], F32)
        low = b.sub(b.add(bits, bits), cx.i32(1))  # without the sign; the largest number for a zero
        if i < _CHAINS:
            totals.append(size)
            lows.append(low)
        else:  # one after the other: they take few registers
            totals[i % _CHAINS] = _sum(cx, totals[i % _CHAINS], size)
            lows[i % _CHAINS] = _least(cx, lows[i % _CHAINS], low)
    total, low = totals[0], lows[0]
    for more, other in zip(totals[1:], lows[1:]):
        total, low = _sum(cx, total, more), _least(cx, low, other)
    large = b.fcmp_ordered("<=", total, ir.Constant(F32, _MOST))  # not so for NaN
    return b.and_(large, b.icmp_unsigned(">=", low, cx.i32(2 * _LEAST - 1)))


def _sum(cx: Context, x: ir.Value, y: ir.Value) -> ir.Value:
    return cx.scalars.asm("add.rn.f32 $0, $1, $2;", [x, y], F32)


def _least(cx: Context, x: ir.Value, y: ir.Value) -> ir.Value:
    return cx.scalars.asm("min.u32 $0, $1, $2;", [x, y], I32)


RULES: dict[type[Op], Rule] = {Div: _divide}
