"""Elementwise arithmetic. ``RULES`` maps the name of an op to what writes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.analysis.gpu.clamps import is_maximum_of_numbers, selected_maximum
from tilewright.backends.triton.ttir import rounding
from tilewright.backends.triton.ttir.convert import cast
from tilewright.backends.triton.ttir.divisibility import mixes
from tilewright.backends.triton.ttir.text import Val, Writer
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType, float32
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.ops import arith
from tilewright.ir.ops.shape import constant_of

Rule = Callable[[Writer, Any, Sequence[Val]], Val]


# -- floats in a wider type


def in_f32(w: Writer, x: Val) -> Val:
    """16-bit floats as float32; others as they are."""
    return w.convert("arith.extf", x, "f32") if x.element in ("f16", "bf16") else x


def from_f32(w: Writer, x: Val, element: str) -> Val:
    return w.convert("arith.truncf", x, element) if x.element != element else x


def _through_f32(w: Writer, operands: Sequence[Val], f: Callable[[Sequence[Val]], Val]) -> Val:
    """``f`` on float32 values, rounded back: exact operations on 16-bit floats round correctly this way."""
    return from_f32(w, f([in_f32(w, v) for v in operands]), operands[0].element)


# -- arithmetic with a rounding mode

_PLAIN: dict[type[Op], tuple[str, str]] = {
    arith.Add: ("arith.addi", "arith.addf"),
    arith.Sub: ("arith.subi", "arith.subf"),
    arith.Mul: ("arith.muli", "arith.mulf"),
}


def _directed(w: Writer, op: Op, operands: Sequence[Val]) -> Val:
    """A float operation in a rounding mode of its own, or with flush to zero."""
    mode, ftz = arith.rounding_of(op), arith.flushes_to_zero(op)
    element = operands[0].element
    if element in ("f16", "bf16"):
        return rounding.narrowed(w, op.name, operands, mode)
    if w.target.is_cuda:
        return rounding.ptx(w, op.name, operands, mode, ftz=ftz)
    return rounding.flushed(w, operands, lambda xs: _unflushed(w, op.name, xs, mode), ftz=ftz)


def _unflushed(w: Writer, name: str, operands: Sequence[Val], mode: RoundingMode) -> Val:
    """On AMD, where the correctly rounded result is also the one for the modes that allow an error."""
    if mode in (RoundingMode.RN, RoundingMode.FULL, RoundingMode.APPROX):
        return rounding.nearest(w, name, operands)
    return rounding.directed(w, name, operands, mode)


def _arithmetic(w: Writer, op: arith.Add | arith.Mul | arith.Sub, operands: Sequence[Val]) -> Val:
    integer, floating = _PLAIN[type(op)]
    if operands[0].element == "i1":
        # add and sub of bools wrap to one bit
        return w.op("arith.andi" if isinstance(op, arith.Mul) else "arith.xori", *operands)
    x = operands[0]
    if x.element.startswith("i"):
        if not isinstance(op, arith.Mul) and _is_asm(w, x):
            return _narrow(w, "add" if isinstance(op, arith.Add) else "sub", operands)
        known = isinstance(op, arith.Mul) or not mixes(op)
        return w.op(integer, *operands, attributes="" if known else w.any_multiple(*operands))
    if arith.is_plain(op):
        return _through_f32(w, operands, lambda xs: w.op(floating, *xs))
    return _directed(w, op, operands)


def _fma(w: Writer, op: arith.Fma, operands: Sequence[Val]) -> Val:
    if not arith.is_plain(op):
        return _directed(w, op, operands)
    element = operands[0].element
    if element in ("f16", "bf16") and w.target.is_cuda:
        return w.asm(f"fma.rn.{element} $0, $1, $2, $3;", "=h,h,h,h", operands, element)
    if element == "bf16":  # the product is exact in float64, its sum with c is not
        wide = [w.convert("arith.extf", v, "f64") for v in operands]
        return w.convert("arith.truncf", rounding.round_to_odd(w, rounding.fma_to_odd(w, wide)), element)
    return w.op("math.fma", *operands)


def _div(w: Writer, op: arith.Div, operands: Sequence[Val]) -> Val:
    x, y = operands
    mode = op.rounding
    if x.element.startswith("i"):
        return integer_division(w, x, y, arith.operand_dtype(op), mode)[0]
    if mode is RoundingMode.RN and not op.flush_to_zero:
        return _through_f32(w, operands, lambda xs: rounding.nearest(w, "div", xs))
    return _directed(w, op, operands)


def _sqrt(w: Writer, op: arith.Sqrt, operands: Sequence[Val]) -> Val:
    if arith.is_plain(op):
        return _through_f32(w, operands, lambda xs: rounding.nearest(w, "sqrt", xs))
    return _directed(w, op, operands)


# -- integers


def integer_division(w: Writer, x: Val, y: Val, dtype: DType, mode: RoundingMode) -> tuple[Val, Val]:
    """Quotient and remainder, rounded by ``mode``; both 0 for a zero divisor."""
    if x.element == "i1":
        zero = w.like(False, x)
        return w.op("arith.andi", x, y), zero
    zero, one = w.like(0, x), w.like(1, x)
    no_divisor = w.compare("eq", y, zero)
    divisor = w.select(no_divisor, one, y)
    if not dtype.is_signed:
        quotient, remainder = w.op("arith.divui", x, divisor), w.op("arith.remui", x, divisor)
        if mode is RoundingMode.RP:
            inexact = w.compare("ne", remainder, zero)
            quotient = w.select(inexact, w.op("arith.addi", quotient, one), quotient)
            remainder = w.select(inexact, w.op("arith.subi", remainder, divisor), remainder)
    else:
        minus_one = w.like(-1, x)
        negates = w.compare("eq", y, minus_one)  # the most negative number over -1 wraps
        safe = w.select(negates, one, divisor)
        quotient = w.op("arith.divsi", x, safe)
        remainder = w.op("arith.remsi", x, safe)
        if mode is not RoundingMode.RZ:
            signs_differ = w.compare("slt", w.op("arith.xori", x, divisor), zero)
            inexact = w.compare("ne", remainder, zero)
            if mode is RoundingMode.RM:
                adjust, step = w.op("arith.andi", inexact, signs_differ), minus_one
            else:
                adjust, step = w.op("arith.andi", inexact, w.op("arith.xori", signs_differ, w.like(True, inexact))), one
            quotient = w.select(adjust, w.op("arith.addi", quotient, step), quotient)
            remainder = w.select(adjust, w.op("arith.subi", remainder, w.op("arith.muli", step, divisor)), remainder)
        minus = _narrow(w, "sub", [zero, x]) if _is_asm(w, x) else w.op("arith.subi", zero, x)
        quotient = w.select(negates, minus, quotient)
    return w.select(no_divisor, zero, quotient), w.select(no_divisor, zero, remainder)


def _rem(w: Writer, op: arith.Rem, operands: Sequence[Val]) -> Val:
    x, y = operands
    mode = op.rounding
    if x.element.startswith("i"):
        return integer_division(w, x, y, arith.operand_dtype(op), mode)[1]

    def remainder(xs: Sequence[Val]) -> Val:
        a, b = xs
        r = w.call("fmod", a, b)
        if mode is RoundingMode.RZ:
            return r
        zero = w.like(0.0, r)
        differ = w.compare("olt" if mode is RoundingMode.RM else "ogt", _signed_product(w, r, b), zero)
        nonzero = w.compare("one", r, zero)
        adjust = w.op("arith.andi", differ, nonzero)
        step = b if mode is RoundingMode.RM else rounding.negated(w, b)
        adjusted = w.select(adjust, w.op("arith.addf", r, step), r)
        # A zero remainder has the sign of the divisor, as in Python.
        signed = w.call("copysign", zero, b)
        return w.select(w.compare("oeq", r, zero), signed, adjusted) if mode is RoundingMode.RM else adjusted

    return _through_f32(w, operands, remainder)


def _signed_product(w: Writer, x: Val, y: Val) -> Val:
    """A number with the sign of x * y that cannot underflow."""
    one = w.like(1.0, x)
    return w.op("arith.mulf", w.call("copysign", one, x), w.call("copysign", one, y))


def _neg(w: Writer, op: arith.Neg, operands: Sequence[Val]) -> Val:
    (x,) = operands
    if _is_asm(w, x):
        return _narrow(w, "sub", [w.like(0, x), x])
    if x.element.startswith("i"):
        return w.op("arith.subi", w.like(0, x), x, attributes=w.any_multiple(x))
    return rounding.negated(w, x)


def _abs(w: Writer, op: arith.Abs, operands: Sequence[Val]) -> Val:
    (x,) = operands
    if not x.element.startswith("i"):
        return w.op("math.absf", x)
    if not arith.operand_dtype(op).is_signed or x.element == "i1":
        return x
    if not w.target.is_cuda:
        return w.op("math.absi", x)
    if x.bits < 16:
        return w.convert("arith.trunci", _abs_in_ptx(w, w.convert("arith.extsi", x, "i16")), x.element)
    return _abs_in_ptx(w, x)


def _abs_in_ptx(w: Writer, x: Val) -> Val:
    """By the sign: LLVM's instruction, the absolute value, is compiled wrongly, see ``known_faults``."""
    t, register = f"s{x.bits}", {16: "h", 32: "r", 64: "l"}[x.bits]
    code = (
        f"{{.reg .pred is_negative; .reg .b{x.bits} negated; sub.{t} negated, 0, $1; "
        f"setp.lt.{t} is_negative, $1, 0; selp.b{x.bits} $0, negated, $1, is_negative;}}"
    )
    return w.asm(code, f"={register},{register}", [x], x.element)


def _is_asm(w: Writer, x: Val) -> bool:
    """Whether numbers like ``x`` are added and compared in PTX: LLVM would do it in pairs of 16 bits, which are
    compiled wrongly, see ``known_faults``."""
    return w.target.is_cuda and x.element in ("i8", "i16")


def _narrow(w: Writer, name: str, operands: Sequence[Val], *, signed: bool = True) -> Val:
    """A sum, difference, minimum or maximum of integers of 8 or 16 bits."""
    element = operands[0].element
    wide = [v if v.bits == 16 else w.convert(f"arith.ext{'s' if signed else 'u'}i", v, "i16") for v in operands]
    t = f"{'s' if signed else 'u'}16"
    if name in ("min", "max"):
        compare = f"setp.{'lt' if name == 'min' else 'gt'}.{t} is_kept, $1, $2;"
        code = f"{{.reg .pred is_kept; {compare} selp.b16 $0, $1, $2, is_kept;}}"
    else:
        code = f"{name}.{t} $0, $1, $2;"
    made = w.asm(code, "=h,h,h", wide, "i16")
    return made if element == "i16" else w.convert("arith.trunci", made, element)


def _mulhi(w: Writer, op: arith.MulHi, operands: Sequence[Val]) -> Val:
    x, y = operands
    if x.bits >= 32:
        return w.op("tt.mulhiui", x, y)
    a, b = (w.convert("arith.extui", v, "i32") for v in operands)
    high = w.op("arith.shrui", w.op("arith.muli", a, b), w.constant(x.bits, "i32", x.shape))
    return w.convert("arith.trunci", high, x.element)


def _minmax(w: Writer, op: arith.Max | arith.Min, operands: Sequence[Val]) -> Val:
    x, y = operands
    name, is_max = op.name, isinstance(op, arith.Max)
    if x.element == "i1":
        return w.op("arith.ori" if is_max else "arith.andi", x, y)
    if x.element.startswith("i"):
        if _is_asm(w, x):
            return _narrow(w, name, operands, signed=arith.operand_dtype(op).is_signed)
        sign = "si" if arith.operand_dtype(op).is_signed else "ui"
        return w.op(f"arith.{name}{sign}", x, y, attributes=w.any_multiple(x, y))
    nan = op.propagate_nan
    if x.element == "f64":
        if is_max and w.target.is_cuda and is_maximum_of_numbers(op):
            number, bound = (x, op.rhs) if constant_of(op.rhs) is not None else (y, op.lhs)
            if constant_of(bound) == 0:
                return _at_least_zero(w, number)
        return _minmax_f64(w, name, nan, x, y)
    if is_max and w.target.is_cuda:
        nan = nan or is_maximum_of_numbers(op)
    if op.flush_to_zero and w.target.is_cuda:
        return w.asm(f"{name}.ftz{'.NaN' if nan else ''}.f32 $0, $1, $2;", "=f,f,f", operands, "f32")

    def chosen(xs: Sequence[Val]) -> Val:
        return w.op(f"arith.{name}imumf" if nan else f"arith.{name}numf", *xs)

    return rounding.flushed(w, operands, lambda xs: _through_f32(w, xs, chosen), ftz=op.flush_to_zero)


def _at_least_zero(w: Writer, x: Val) -> Val:
    """The maximum of float64 numbers and +0.0, not written as one: see ``clamps``."""
    zero = w.like(0.0, x)
    return w.op("arith.addf", w.select(w.compare("olt", x, zero), zero, x), zero)  # of -0.0 the sum makes 0.0


def _minmax_f64(w: Writer, name: str, nan: bool, x: Val, y: Val) -> Val:
    found = w.call(f"f{name}", x, y)
    if not nan:
        return found
    either = w.compare("uno", x, y)
    return w.select(either, w.op("arith.addf", x, y), found)


# -- bits


def _bitwise(name: str) -> Rule:
    return lambda w, op, operands: w.op(name, *operands)


def _not(w: Writer, op: arith.Not, operands: Sequence[Val]) -> Val:
    (x,) = operands
    return w.op("arith.xori", x, w.like(True if x.element == "i1" else -1, x))


def _shift(w: Writer, op: arith.Shl | arith.Shr, operands: Sequence[Val]) -> Val:
    x, count = operands
    wide = w.compare("uge", count, w.like(x.bits, count))
    if isinstance(op, arith.Shr) and arith.operand_dtype(op).is_signed:
        return w.op("arith.shrsi", x, w.select(wide, w.like(x.bits - 1, count), count))
    shifted = w.op(
        "arith.shli" if isinstance(op, arith.Shl) else "arith.shrui", x, w.select(wide, w.like(0, count), count)
    )
    return w.select(wide, w.like(0, x), shifted)


def _cmp(w: Writer, op: arith.Cmp, operands: Sequence[Val]) -> Val:
    """Compare numbers, or pointers by their addresses."""
    x, y = operands
    t, name = op.lhs.tile, op.predicate.value
    if not t.is_pointer and t.element.is_floating:
        x, y = (cast(w, v, t.element, float32) if t.element.is_restricted else v for v in operands)
        ordered = "u" if op.predicate is CmpPredicate.NE else "o"  # with a NaN only NE is true
        return w.compare(ordered + name, x, y)
    if t.is_pointer:
        x, y = w.ptr_to_int(x), w.ptr_to_int(y)
    if name not in ("eq", "ne"):
        name = ("s" if not t.is_pointer and t.element.is_signed and not t.element.is_bool else "u") + name
    return w.compare(name, x, y)


def _select(w: Writer, op: arith.Select, operands: Sequence[Val]) -> Val:
    condition, x, y = operands
    if x.element in ("f16", "bf16", "f32") and w.target.is_cuda and (both := selected_maximum(op)) is not None:
        numbers = [x if v is op.x else y for v in both]
        return _through_f32(w, numbers, lambda xs: w.op("arith.maximumf", *xs))
    if x.element == "f64" and w.target.is_cuda and (both := selected_maximum(op)) is not None:
        return _at_least_zero(w, x if both[0] is op.x else y)
    wrong = _wrong_zero_of_an_extreme(op)
    if wrong == 1:
        x = w.optimization_barrier(x)
    elif wrong == 2:
        y = w.optimization_barrier(y)
    return w.select(condition, x, y)


def _wrong_zero_of_an_extreme(op: arith.Select) -> int | None:
    """Which operand of the ``select`` the compiler must not know, or None.

    It makes a maximum of ``x > c ? x : c``. If x is 0.0 and c is -0.0 that is the other zero, as it is in a minimum if
    x is -0.0 and c is 0.0.
    """
    compared = op.condition.op
    if not isinstance(compared, arith.Cmp):
        return None
    compares = compared.lhs.tile
    if compares.is_pointer or not compares.element.is_floating:
        return None
    predicate = compared.predicate
    for x, zero, is_left in ((compared.lhs, compared.rhs, True), (compared.rhs, compared.lhs, False)):
        if constant_of(zero) != 0 or x not in (op.x, op.y):
            continue
        kept, other = (1, 2) if x is op.x else (2, 1)
        c = constant_of(op.y if other == 2 else op.x)
        largest = ((predicate is CmpPredicate.GT) == is_left) == (kept == 1)
        if predicate in (CmpPredicate.LT, CmpPredicate.GT) and c == 0 and (math.copysign(1, c) < 0) == largest:
            return other
    return None


RULES: dict[type[Op], Rule] = {
    arith.Add: _arithmetic,
    arith.Sub: _arithmetic,
    arith.Mul: _arithmetic,
    arith.Fma: _fma,
    arith.Div: _div,
    arith.Rem: _rem,
    arith.Sqrt: _sqrt,
    arith.Neg: _neg,
    arith.Abs: _abs,
    arith.MulHi: _mulhi,
    arith.Max: _minmax,
    arith.Min: _minmax,
    arith.And: _bitwise("arith.andi"),
    arith.Or: _bitwise("arith.ori"),
    arith.Xor: _bitwise("arith.xori"),
    arith.Not: _not,
    arith.Shl: _shift,
    arith.Shr: _shift,
    arith.Cmp: _cmp,
    arith.Select: _select,
}
