"""Rounding that TTIR has no attribute for: directed rounding of arithmetic and of conversions, and flush to zero.

NVIDIA's instructions name their rounding mode. AMD's take it from a register, which is set and restored around one
instruction; division and square root, which are sequences there, are corrected after rounding to nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.triton.ttir.text import Val, Writer
from tilewright.ir.enums import RoundingMode

_REGISTERS = {"f32": "f", "f64": "d"}
# The codes of the field MODE.round of AMD's processors, of which bits 0 and 1 are for float32, 2 and 3 for float64.
_MODE_CODES = {RoundingMode.RP: 1, RoundingMode.RM: 2, RoundingMode.RZ: 3}
_MODE_OFFSETS = {"f32": 0, "f64": 2}
_AMD = {
    ("add", "f64"): "v_add_f64 $0, $1, $2",
    ("sub", "f64"): "v_add_f64 $0, $1, -$2",
    ("mul", "f64"): "v_mul_f64 $0, $1, $2",
    ("fma", "f64"): "v_fma_f64 $0, $1, $2, $3",
    ("add", "f32"): "v_add_f32 $0, $1, $2",
    ("sub", "f32"): "v_sub_f32 $0, $1, $2",
    ("mul", "f32"): "v_mul_f32 $0, $1, $2",
    ("fma", "f32"): "v_fma_f32 $0, $1, $2, $3",
}


# -- arithmetic on float32 and float64


def nearest(w: Writer, name: str, operands: Sequence[Val]) -> Val:
    """The correctly rounded result of add, sub, mul, div, sqrt or fma."""
    single = operands[0].element == "f32"
    if name == "sqrt":
        return w.op("tt.precise_sqrt", *operands) if single else w.call("sqrt", *operands)
    if name == "div":
        return w.op("tt.precise_divf" if single else "arith.divf", *operands)
    return w.op("math.fma" if name == "fma" else f"arith.{name}f", *operands)


def directed(w: Writer, name: str, operands: Sequence[Val], mode: RoundingMode) -> Val:
    """The result rounded as the directed ``mode`` says."""
    if w.target.is_cuda:
        return ptx(w, name, operands, mode)
    element = operands[0].element
    if (name, element) in _AMD:
        return _in_mode(w, _AMD[name, element], operands, mode)
    return narrowed(w, name, operands, mode) if element == "f32" else _corrected(w, name, operands, mode)


def narrowed(w: Writer, name: str, operands: Sequence[Val], mode: RoundingMode) -> Val:
    """``directed`` for formats that are narrower than float64, by way of that."""
    wide = [w.convert("arith.extf", v, "f64") for v in operands]
    if name in ("div", "sqrt"):
        # A result that the narrow format does not have is further from what it has than float64 rounds.
        found = nearest(w, name, wide)
    else:  # rounded twice in the same direction is rounded once
        found = directed(w, name, wide, mode)
    return round_directed(w, found, operands[0].element, mode)


def ptx(w: Writer, name: str, operands: Sequence[Val], mode: RoundingMode, *, ftz: bool = False) -> Val:
    """One instruction of NVIDIA's."""
    element = operands[0].element
    register = _REGISTERS[element]
    numbers = ", ".join(f"${i}" for i in range(len(operands) + 1))
    code = f"{name}.{mode.name.lower()}{'.ftz' if ftz else ''}.{element} {numbers};"
    return w.asm(code, ",".join([f"={register}", *[register] * len(operands)]), operands, element)


def _in_mode(w: Writer, instruction: str, operands: Sequence[Val], mode: RoundingMode) -> Val:
    """One instruction of AMD's with the rounding mode set for it. Two writes of a register are two states apart."""
    element = operands[0].element
    field = f"hwreg(HW_REG_MODE, {_MODE_OFFSETS[element]}, 2)"
    code = [
        f"s_setreg_imm32_b32 {field}, {_MODE_CODES[mode]}",
        instruction,
        "s_nop 1",
        f"s_setreg_imm32_b32 {field}, 0",
    ]
    return w.asm("\\0A".join(code), ",".join(["=v", *["v"] * len(operands)]), operands, element)


def _corrected(w: Writer, name: str, operands: Sequence[Val], mode: RoundingMode) -> Val:
    """A float64 quotient or root, from the nearest one: the sign of the exact remainder tells on which side that is."""
    x = operands[0]
    found = nearest(w, name, operands)
    # Numbers so small that the remainder would underflow are scaled: x = q * y with x and either q or y, x = r * r.
    small = w.compare("olt", w.op("math.absf", x), w.like(2.0**-400, x))
    scaled_x = w.select(small, w.op("arith.mulf", x, w.like(2.0**600, x)), x)
    if name == "sqrt":
        first = second = w.select(small, w.op("arith.mulf", found, w.like(2.0**300, x)), found)
        divisor = w.like(1.0, x)
    else:
        divisor = operands[1]
        large = w.compare("ogt", w.op("math.absf", divisor), w.like(1.0, x))
        up = w.like(2.0**600, x)
        scale_first, scale_second = (
            w.op("arith.andi", small, c) for c in (large, w.op("arith.xori", large, w.like(True, large)))
        )
        first = w.select(scale_first, w.op("arith.mulf", found, up), found)
        second = w.select(scale_second, w.op("arith.mulf", divisor, up), divisor)
    remainder = w.op("math.fma", negated(w, first), second, scaled_x)
    zero = w.like(0.0, x)
    positive = w.compare("ogt", divisor, zero)
    over, under = w.compare("ogt", remainder, zero), w.compare("olt", remainder, zero)
    below = w.select(positive, over, under)  # the nearest result is below the exact one
    above = w.select(positive, under, over)
    return _stepped(w, found, above, below, mode)


# -- conversions to a narrower type


def round_directed(w: Writer, x: Val, element: str, mode: RoundingMode) -> Val:
    """float64 or float32 ``x`` rounded to the narrower ``element`` as ``mode`` says, which is not the default one."""
    nearest = w.convert("arith.truncf", x, element)
    back = w.convert("arith.extf", nearest, x.element)
    above, below = w.compare("ogt", back, x), w.compare("olt", back, x)
    if mode is not RoundingMode.RA:
        return _stepped(w, nearest, above, below, mode)
    bits = w.bitcast(nearest, f"i{nearest.bits}")
    outward = w.op("arith.addi", bits, w.like(1, bits))
    # A tie that went toward zero: as far from x as the next value away from zero.
    beyond = w.convert("arith.extf", w.bitcast(outward, element), x.element)
    tie = w.compare("oeq", w.op("arith.subf", x, back), w.op("arith.subf", beyond, x))
    inward = w.select(w.compare("slt", bits, w.like(0, bits)), above, below)
    return w.bitcast(w.select(w.op("arith.andi", tie, inward), outward, bits), element)


def _stepped(w: Writer, nearest: Val, above: Val, below: Val, mode: RoundingMode) -> Val:
    """The result in the directed ``mode``, from the nearest one and whether that is above or below the exact one."""
    bits = w.bitcast(nearest, f"i{nearest.bits}")
    zero, one = w.like(0, bits), w.like(1, bits)
    negative = w.compare("slt", bits, zero)
    outward, inward = w.op("arith.addi", bits, one), w.op("arith.subi", bits, one)
    is_zero = w.compare("oeq", nearest, w.like(0.0, nearest))
    if mode is RoundingMode.RM:
        sign = w.like(-(1 << (nearest.bits - 1)), bits)
        lower = w.select(is_zero, w.op("arith.ori", sign, one), w.select(negative, outward, inward))
        found = w.select(above, lower, bits)
    elif mode is RoundingMode.RP:
        found = w.select(below, w.select(is_zero, one, w.select(negative, inward, outward)), bits)
    else:
        found = w.select(w.select(negative, below, above), inward, bits)
    return w.bitcast(found, nearest.element)


def round_to_odd(w: Writer, x: Val) -> Val:
    """float64 as float32 whose last bit is set when inexact: rounding that again is as rounding once."""
    down = round_directed(w, x, "f32", RoundingMode.RZ)
    inexact = w.compare("one", w.convert("arith.extf", down, "f64"), x)
    bits = w.bitcast(down, "i32")
    odd = w.op("arith.ori", bits, w.convert("arith.extui", inexact, "i32"))
    return w.bitcast(odd, "f32")


def fma_to_odd(w: Writer, operands: Sequence[Val]) -> Val:
    """a * b + c of float64, rounded to odd: of its neighbours the one whose last bit is set, where it has two."""
    low, high = (directed(w, "fma", operands, mode) for mode in (RoundingMode.RM, RoundingMode.RP))
    bits = w.bitcast(low, "i64")
    odd = w.compare("ne", w.op("arith.andi", bits, w.like(1, bits)), w.like(0, bits))
    return w.select(odd, low, high)


# -- signs


def negated(w: Writer, x: Val) -> Val:
    """``x`` with the other sign; Triton does not compile ``arith.negf``."""
    bits = w.bitcast(x, f"i{x.bits}")
    return w.bitcast(w.op("arith.xori", bits, w.like(-(1 << (x.bits - 1)), bits)), x.element)


# -- flush to zero


def flushed(w: Writer, operands: Sequence[Val], f: Callable[[Sequence[Val]], Val], *, ftz: bool) -> Val:
    """``f`` of the operands; with ``ftz``, subnormal float32 operands and results are zeros of their sign."""
    return _flush(w, f([_flush(w, v) for v in operands])) if ftz else f(operands)


def _flush(w: Writer, x: Val) -> Val:
    bits = w.bitcast(x, "i32")
    sign = w.op("arith.andi", bits, w.like(-(1 << 31), bits))
    magnitude = w.op("arith.andi", bits, w.like(0x7FFFFFFF, bits))
    tiny = w.compare("ult", magnitude, w.like(0x00800000, bits))
    return w.bitcast(w.select(tiny, sign, bits), "f32")
