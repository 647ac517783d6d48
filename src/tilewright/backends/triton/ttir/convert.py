"""Conversions between dtypes, and reinterpretation of bits."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tilewright.backends.triton.ttir.rounding import round_directed, round_to_odd
from tilewright.backends.triton.ttir.text import FP8, Val, Writer, element
from tilewright.ir.dtypes import DType, float32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.ops.arith import Bitcast, Cast
from tilewright.ir.types import PointerType

_WIDE = {"f16": 1, "bf16": 1, "f32": 2, "f64": 3}
_DIRECTED = (RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP, RoundingMode.RA)


def cast(w: Writer, x: Val, source: DType, target: DType, mode: RoundingMode = RoundingMode.RN) -> Val:
    """``x`` of dtype ``source`` converted to ``target``."""
    if source is target:
        return x
    if source.is_restricted:
        return cast(w, _restricted_to_f32(w, x, source), float32, target, mode)
    if target.is_bool:
        if source.is_floating:
            return w.compare("une", x, w.like(0.0, x))
        return w.compare("ne", x, w.like(0, x))
    if not target.is_floating:
        return _to_integer(w, x, source, target)
    if not source.is_floating:
        return _from_integer(w, x, source, target, mode)
    return _between_floats(w, x, target, mode)


def cast_op(w: Writer, op: Cast, operands: Sequence[Val]) -> Val:
    mode = op.rounding
    if mode not in (RoundingMode.RN, RoundingMode.RZI, *_DIRECTED):
        raise TileUnsupportedFeatureError(
            f"the GPU backend does not convert with the rounding mode {mode.name}", op.loc
        )
    return cast(w, operands[0], op.x.tile.element, op.dtype, mode)


def bitcast_op(w: Writer, op: Bitcast, operands: Sequence[Val]) -> Val:
    (x,) = operands
    source, target = op.x.tile.dtype, op.dtype
    wanted = element(target, w.target)
    if isinstance(target, PointerType) or isinstance(source, PointerType):
        return w.bitcast(x, wanted)
    if target.is_bool:
        bits = w.bitcast(x, f"i{x.bits}")
        return w.compare("ne", bits, w.like(0, bits))
    if source.is_bool:
        x = w.convert("arith.extui", x, "i8")
    return w.bitcast(x, wanted)


def _constant(w: Writer, x: Val, value: int) -> Val:
    """``value`` in the type of ``x``."""
    return w.like(value, x)


# -- integers


def _to_integer(w: Writer, x: Val, source: DType, target: DType) -> Val:
    if not source.is_floating:
        return w.resize(x, target.bitwidth, signed=source.is_signed)
    name = element(target, w.target)
    if x.element in ("f16", "bf16"):
        x = w.convert("arith.extf", x, "f32")
    # Values outside the range give its ends, NaN gives 0; the conversion itself leaves both undefined.
    low, high = float(target.min), float(target.max + 1)
    converted = w.convert("arith.fptosi" if target.is_signed else "arith.fptoui", x, name)
    found = w.select(w.compare("oge", x, w.like(high, x)), w.like(target.max, converted), converted)
    found = w.select(w.compare("ole", x, w.like(low, x)), w.like(target.min, converted), found)
    return w.select(w.compare("uno", x, x), w.like(0, converted), found)


def _from_integer(w: Writer, x: Val, source: DType, target: DType, mode: RoundingMode) -> Val:
    name = "arith.sitofp" if source.is_signed and not source.is_bool else "arith.uitofp"
    wanted = element(target, w.target)
    if wanted in ("f32", "f64") and target.is_float and mode is RoundingMode.RN:
        return w.convert(name, x, wanted)
    if source.bitwidth <= 32:  # exact in float64
        return _between_floats(w, w.convert(name, x, "f64"), target, mode)
    if mode is not RoundingMode.RN:
        raise TileUnsupportedFeatureError(
            f"the GPU backend converts {source} to {target} with round to nearest only", w.loc
        )
    return _between_floats(w, _odd_f64(w, x, name, source), target, mode)


def _odd_f64(w: Writer, x: Val, name: str, source: DType) -> Val:
    """A 64-bit integer as float64, rounded to odd, so that rounding again to a narrower format is correct."""
    low = w.op("arith.andi", x, w.like(0xFFF, x))
    sticky = w.convert("arith.extui", w.compare("ne", low, w.like(0, x)), x.element)
    sticky = w.op("arith.shli", sticky, w.like(11, x))
    high = w.op("arith.andi", x, w.like(~0xFFF if source.is_signed else 0xFFFFFFFFFFFFF000, x))
    large = w.convert(name, w.op("arith.ori", high, sticky), "f64")
    magnitude = w.op("math.absi", x) if source.is_signed else x
    is_large = w.compare("uge", magnitude, w.like(1 << 53, x))
    return w.select(is_large, large, w.convert(name, x, "f64"))


# -- floats


def _between_floats(w: Writer, x: Val, target: DType, mode: RoundingMode) -> Val:
    """``x``, one of the four arithmetic formats, as ``target``."""
    if target.is_restricted:
        return _f64_or_f32_to_restricted(w, x, target, mode)
    wanted = element(target, w.target)
    if x.element == wanted:
        return x
    if {x.element, wanted} == {"f16", "bf16"}:
        x = w.convert("arith.extf", x, "f32")
    if _WIDE[wanted] > _WIDE[x.element]:
        return w.convert("arith.extf", x, wanted)
    if mode in _DIRECTED:
        return round_directed(w, x, wanted, mode)
    if x.element == "f64" and wanted == "bf16":
        x = round_to_odd(w, x)
    return w.convert("arith.truncf", x, wanted)


def _f64_or_f32_to_restricted(w: Writer, x: Val, target: DType, mode: RoundingMode) -> Val:
    if x.element in ("f16", "bf16"):
        x = w.convert("arith.extf", x, "f32")
    if x.element == "f64":
        x = round_to_odd(w, x)
    if target.short == "tf32":
        return _to_tf32(w, x, mode)
    codes = _encode(w, x, target, mode)
    return w.bitcast(codes, element(target, w.target))


def _to_tf32(w: Writer, x: Val, mode: RoundingMode) -> Val:
    """float32 rounded to 10 bits of mantissa."""
    bits = w.bitcast(x, "i32")
    special = w.compare("uge", w.op("arith.andi", bits, w.like(0x7FFFFFFF, bits)), w.like(0x7F800000, bits))
    negative = w.compare("slt", bits, w.like(0, bits))
    if mode is RoundingMode.RN:
        odd = w.op("arith.andi", w.op("arith.shrui", bits, w.like(13, bits)), w.like(1, bits))
        increment = w.op("arith.addi", odd, w.like(0xFFF, bits))
    elif mode is RoundingMode.RA:
        increment = w.like(0x1000, bits)
    else:
        away = {RoundingMode.RM: negative, RoundingMode.RP: w.op("arith.xori", negative, w.like(True, negative))}
        all_ones, zero = w.like(0x1FFF, bits), w.like(0, bits)
        increment = w.select(away[mode], all_ones, zero) if mode in away else zero
    rounded = w.op("arith.andi", w.op("arith.addi", bits, increment), w.like(~0x1FFF, bits))
    return w.bitcast(w.select(special, bits, rounded), "f32")


# -- 8-bit and 4-bit floats, by their bits

# dtype -> code of the largest finite value, code of infinity or None, code of NaN or None
_LIMITS = {
    "f8e4m3fn": (0x7E, None, 0x7F),
    "f8e5m2": (0x7B, 0x7C, 0x7E),
    "f8e5m3fnu": (0xFE, None, 0xFF),
    "f4e2m1fn": (0x7, None, None),
}


def _shifted(w: Writer, value: Val, by: Val, mode: RoundingMode, away: Val | None) -> Val:
    """``value`` >> ``by`` with the rounding of ``mode``: see ``_rounds_away``."""
    one = _constant(w, value, 1)
    mask = w.op("arith.subi", w.op("arith.shli", one, by), one)
    quotient = w.op("arith.shrui", value, by)
    if away is None:
        half = w.op("arith.shrui", w.op("arith.addi", mask, one), one)
        odd = w.op("arith.andi", quotient, one)
        to_even = w.op("arith.addi", w.op("arith.subi", half, one), odd)
        increment = half if mode is RoundingMode.RA else to_even
    else:
        increment = w.select(away, mask, _constant(w, value, 0))
    return w.op("arith.shrui", w.op("arith.addi", value, increment), by)


def _encode(w: Writer, x: Val, target: DType, mode: RoundingMode) -> Val:
    """The codes, as i8, of float32 ``x``: normal and subnormal ones are rounded apart, and one of them is taken."""
    if target.short == "f8e8m0fnu":
        return _encode_e8m0(w, x, mode)
    exponent_bits, mantissa_bits = target.exponent_bits, target.mantissa_bits
    bias = (1 << (exponent_bits - 1)) - 1
    largest, infinity, nan = _LIMITS[target.short]
    bits = w.bitcast(x, "i32")
    c = functools.partial(_constant, w, bits)
    sign_bit = w.op("arith.andi", bits, c(-(1 << 31)))
    negative = w.compare("ne", sign_bit, c(0))
    magnitude = w.op("arith.andi", bits, c(0x7FFFFFFF))
    shift = 23 - mantissa_bits
    away = _rounds_away(w, mode, negative)

    rebased = w.op("arith.subi", magnitude, c((127 - bias) << 23))
    normal = _shifted(w, rebased, c(shift), mode, away)
    # Below the smallest normal number the significand moves right by what the exponent lacks.
    exponent = w.op("arith.shrui", magnitude, c(23))
    significand = w.op("arith.ori", w.op("arith.andi", magnitude, c(0x7FFFFF)), c(0x800000))
    tiny = w.compare("ne", magnitude, c(0))
    lacking = w.op("arith.minsi", w.op("arith.subi", c(127 - bias + 1 + shift), exponent), c(26))
    lacking = w.op("arith.maxsi", lacking, c(0))
    significand = w.select(w.compare("eq", exponent, c(0)), w.convert("arith.extui", tiny, "i32"), significand)
    subnormal = _shifted(w, significand, lacking, mode, away)
    is_normal = w.compare("uge", exponent, c(127 - bias + 1))
    code = w.select(is_normal, normal, subnormal)
    overflow = w.compare("ugt", code, c(largest))
    is_inf = w.compare("eq", magnitude, c(0x7F800000))
    past = infinity if infinity is not None else (nan if nan is not None else largest)
    if away is None:
        limit = c(past)
    else:
        limit = w.select(w.op("arith.ori", away, is_inf), c(past), c(largest))
    code = w.select(w.op("arith.ori", overflow, is_inf), limit, code)
    is_nan = w.compare("ugt", magnitude, c(0x7F800000))
    width = target.bitwidth
    if target.is_signed:
        sign = w.op("arith.shrui", sign_bit, c(32 - width))
        code = w.op("arith.ori", code, sign)
        # What has no NaN gets a zero of the other sign, as ml_dtypes does.
        nothing = w.op("arith.ori", c(nan), sign) if nan is not None else w.op("arith.xori", c(1 << (width - 1)), sign)
        code = w.select(is_nan, nothing, code)
    else:
        nonzero = w.op("arith.andi", negative, tiny)
        code = w.select(w.op("arith.ori", is_nan, nonzero), c(nan or 0), code)
    return w.convert("arith.trunci", code, "i8")


def _rounds_away(w: Writer, mode: RoundingMode, negative: Val) -> Val | None:
    """Whether magnitudes round up in the directed ``mode``; None for rounding to nearest."""
    if mode is RoundingMode.RM:
        return negative
    if mode is RoundingMode.RP:
        return w.op("arith.xori", negative, w.like(True, negative))
    return w.like(False, negative) if mode is RoundingMode.RZ else None


def _encode_e8m0(w: Writer, x: Val, mode: RoundingMode) -> Val:
    """Powers of two: the exponent field, rounded by the mantissa. A zero is the least; negative ones are NaN."""
    bits = w.bitcast(x, "i32")
    c = functools.partial(_constant, w, bits)
    bits = w.select(w.compare("eq", bits, c(-(1 << 31))), c(0), bits)  # -0.0
    exponent = w.op("arith.shrui", bits, c(23))
    mantissa = w.op("arith.andi", bits, c(0x7FFFFF))
    tiny = w.compare("eq", exponent, c(0))  # up to 2**-127, the smallest code, whose mantissa is 0x400000
    if mode is RoundingMode.RP:
        up = w.compare("ugt", mantissa, w.select(tiny, c(0x400000), c(0)))
    elif mode in (RoundingMode.RZ, RoundingMode.RM):
        up = w.like(False, tiny)
    else:  # a tie goes up
        limit = c(0x5FFFFF) if mode is RoundingMode.RA else c(0x400000)
        up = w.compare("ugt", mantissa, w.select(tiny, limit, c(0x3FFFFF)))
    code = w.op("arith.addi", exponent, w.convert("arith.extui", up, "i32"))
    code = w.select(w.compare("ugt", code, c(0xFF)), c(0xFF), code)
    invalid = w.op("arith.ori", w.compare("slt", bits, c(0)), w.compare("sge", bits, c(0x7F800000)))
    return w.convert("arith.trunci", w.select(invalid, c(0xFF), code), "i8")


def _restricted_to_f32(w: Writer, x: Val, source: DType) -> Val:
    """The exact value of a small float."""
    if source.short == "tf32":
        return x
    if x.element in FP8:
        return w.convert("arith.extf", half(w, x), "f32")
    return decode(w, x, source)


def half(w: Writer, x: Val) -> Val:
    """An 8-bit float that Triton knows, as float16."""
    return w.emit(f"tt.fp_to_fp {x.name} : {x.type} -> {Val('', 'f16', x.shape).type}", "f16", x.shape)


def decode(w: Writer, x: Val, source: DType) -> Val:
    """float32 from the codes ``x``, held as i8."""
    codes = w.convert("arith.extui", x, "i32")
    c = functools.partial(_constant, w, codes)
    if source.short == "f8e8m0fnu":
        normal = w.op("arith.shli", codes, c(23))
        bits = w.select(w.compare("eq", codes, c(0)), c(0x400000), normal)  # 2**-127 is subnormal
        return w.bitcast(w.select(w.compare("eq", codes, c(0xFF)), c(0x7FC00000), bits), "f32")
    width = source.bitwidth
    magnitude_mask = (1 << (width - source.is_signed)) - 1
    magnitude = w.op("arith.andi", codes, c(magnitude_mask))
    # The code as the top of a float32 whose exponent is off by a constant: one exact multiplication mends it,
    # for subnormal codes too.
    shifted = w.op("arith.shli", magnitude, c(23 - source.mantissa_bits))
    bias = (1 << (source.exponent_bits - 1)) - 1
    value = w.op("arith.mulf", w.bitcast(shifted, "f32"), w.constant(2.0 ** (127 - bias), "f32", x.shape))
    largest, infinity, nan = _LIMITS[source.short]
    if infinity is not None:
        value = w.select(w.compare("ugt", magnitude, c(largest)), w.like(float("inf"), value), value)
        value = w.select(w.compare("ugt", magnitude, c(infinity)), w.like(float("nan"), value), value)
    elif nan is not None:
        value = w.select(w.compare("eq", magnitude, c(nan)), w.like(float("nan"), value), value)
    if not source.is_signed:
        return value
    sign = w.op("arith.shli", w.op("arith.andi", codes, c(1 << (width - 1))), c(32 - width))
    return w.bitcast(w.op("arith.ori", w.bitcast(value, "i32"), sign), "f32")
