"""What arithmetic instructions of PTX compute, on arrays with one element per thread.

Registers hold bits. Exact operations are those of ``ir.semantics``; approximate ones give the nearest number.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode
from tilewright.ir.semantics import evaluate
from tilewright.ir.semantics.conversion import cast

Array = np.ndarray[Any, Any]
DTYPES: dict[str, DType] = {
    "f16": dtypes.float16, "bf16": dtypes.bfloat16, "f32": dtypes.float32, "f64": dtypes.float64,
    "s8": dtypes.int8, "s16": dtypes.int16, "s32": dtypes.int32, "s64": dtypes.int64,
    "u8": dtypes.uint8, "u16": dtypes.uint16, "u32": dtypes.uint32, "u64": dtypes.uint64,
    "b8": dtypes.uint8, "b16": dtypes.uint16, "b32": dtypes.uint32, "b64": dtypes.uint64,
}  # fmt: skip
_MODES = {"rn": "RN", "rz": "RZ", "rm": "RM", "rp": "RP"}
_FAULTY = {  # that ptxas compiles wrongly, for which the generator has other forms
    ("abs", "s16"), ("abs", "s32"), ("abs", "s64"), ("neg", "s16"),
    ("min", "s16"), ("min", "u16"), ("max", "s16"), ("max", "u16"),
}  # fmt: skip


_LIBRARY = ctypes.CDLL(ctypes.util.find_library("m"))
_LIBRARY.fma.argtypes, _LIBRARY.fma.restype = [ctypes.c_double] * 3, ctypes.c_double
_fma = np.frompyfunc(_LIBRARY.fma, 3, 1)


_UNSPECIFIED = 0xA5C3_5A3C_C35A_A5C3  # the quotient by zero, which is some number


class Fault(Exception):
    """What a GPU would do wrong."""


class Unknown(Exception):
    """An instruction that this interpreter does not have, or that must not be written."""


def values(bits: Array, dtype: DType) -> Array:
    """Register ``bits`` as elements: the low ones, where the register is wider."""
    unsigned = np.dtype(f"u{dtype.bytes}")
    return bits.astype(unsigned).view(dtype.storage)


def bits_of(x: Array, dtype: DType) -> Array:
    """The bits of elements, NaN in the one form that the hardware gives."""
    found = np.ascontiguousarray(x).view(f"u{dtype.bytes}")
    if dtype.is_float:
        canonical = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}[dtype.short]
        found = np.where(np.isnan(x), np.array(canonical, found.dtype), found)
    return found


def compute(opcode: tuple[str, ...], operands: Sequence[Array]) -> Array:
    """The bits of the result of an instruction with one result. Unknown where there is none of this form."""
    name, *modifiers = opcode
    if name == "cvt" and modifiers[0] == "pack":
        return _packed(modifiers, operands)
    if name == "cvt":
        return _pairs(modifiers, operands) if "x2" in ".".join(modifiers) else _convert(modifiers, operands[0])
    if modifiers[-1] in ("f16x2", "bf16x2"):
        both = [(x & np.uint32(0xFFFF), x >> np.uint32(16)) for x in operands]
        low, high = (compute((*opcode[:-1], modifiers[-1][:-2]), half) for half in zip(*both))
        return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)
    if name in ("add", "sub", "fma") and modifiers[-2:-1] == ["f32"] and modifiers[-1] in ("f16", "bf16"):
        *narrow, wide = operands  # of two types: sm_100
        return compute(opcode[:-1], [*(_convert(["f32", modifiers[-1]], x) for x in narrow), wide])
    dtype = DTYPES.get(modifiers[-1])
    if dtype is None or modifiers[-2:-1] == ["f32"]:
        raise Unknown(".".join(opcode))
    rule = _RULES.get(name)
    if rule is None or (name, modifiers[-1]) in _FAULTY:
        raise Unknown(".".join(opcode))
    return rule(name, modifiers[:-1], dtype, operands)


def _flushed(modifiers: list[str]) -> dict[str, Any]:
    return {"flush_to_zero": True} if "ftz" in modifiers else {}


def _arithmetic(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    """add, sub, mul, div, fma, sqrt of floats must say how they round, or ptxas may contract them."""
    xs = [values(x, dtype) for x in operands]
    attributes = _flushed(modifiers)
    if dtype.is_float:
        modes = [m for m in modifiers if m in _MODES]
        if not modes and not ({"full", "approx"} & set(modifiers)):
            raise Unknown(f"{name}.{dtype.short} without a rounding mode")
        attributes["rounding"] = RoundingMode[_MODES[modes[0]]] if modes else RoundingMode.RN
        if (name, dtype.short, attributes["rounding"]) == ("fma", "f64", RoundingMode.RN):
            return bits_of(_fma(*xs).astype(np.float64), dtype)  # thousands of times faster than in integers
        if "sat" in modifiers:
            found = evaluate(name, dtype, attributes, xs)
            return bits_of(np.where(np.isnan(found), 0, np.clip(found, 0, 1)).astype(dtype.storage), dtype)
        return bits_of(evaluate(name, dtype, attributes, xs), dtype)
    if modifiers and not (name == "mul" and modifiers == ["lo"]):
        return _multiply_more(name, modifiers, dtype, xs)
    if name == "div":
        zero, attributes["rounding"] = xs[1] == 0, RoundingMode.RZ
        found = bits_of(evaluate(name, dtype, attributes, [xs[0], np.where(zero, 1, xs[1]).astype(xs[1].dtype)]), dtype)
        return np.where(zero, np.array(_UNSPECIFIED % (1 << dtype.bitwidth), found.dtype), found)
    return bits_of(evaluate(name, dtype, attributes, xs), dtype)


def _multiply_more(name: str, modifiers: list[str], dtype: DType, xs: Sequence[Array]) -> Array:
    if name == "mul" and modifiers == ["hi"]:
        if dtype.is_signed:
            if dtype.bitwidth == 64:
                return (xs[0].astype(object) * xs[1].astype(object) >> 64).astype(np.int64).view(np.uint64)
            wide = xs[0].astype(np.int64) * xs[1].astype(np.int64) >> 32
            return bits_of(wide.astype(np.int32), dtype)
        return evaluate("mulhi", dtype, {}, xs)
    if name == "mul" and modifiers == ["wide"]:
        wide = DTYPES[f"{'s' if dtype.is_signed else 'u'}{2 * dtype.bitwidth}"]
        return bits_of(xs[0].astype(wide.storage) * xs[1].astype(wide.storage), wide)
    raise Unknown(f"{name} {modifiers}")


def _multiply_add(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    if modifiers not in (["lo"], ["wide"]) or dtype.is_float:
        raise Unknown(f"mad {modifiers}")
    product = _arithmetic("mul", modifiers, dtype, operands[:2])
    return product + operands[2].astype(product.dtype)


def _extremum(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    attributes = {**_flushed(modifiers), "propagate_nan": "NaN" in modifiers}
    return bits_of(evaluate(name, dtype, attributes, [values(x, dtype) for x in operands]), dtype)


def _by_name(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    attributes: dict[str, Any] = {"rounding": RoundingMode.RZ} if name == "rem" else _flushed(modifiers)
    if name == "rem" and not values(operands[1], dtype).all():
        raise Unknown("remainder of a division by zero, which is not specified")
    return bits_of(evaluate(name, dtype, attributes, [values(x, dtype) for x in operands]), dtype)


def _function(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    if "approx" not in modifiers or dtype.short != "f32":
        raise Unknown(f"{name} {modifiers} {dtype.short}")
    ours = {"ex2": "exp2", "lg2": "log2", "rsqrt": "rsqrt", "tanh": "tanh", "sin": "sin", "cos": "cos"}[name]
    return bits_of(evaluate(ours, dtype, _flushed(modifiers), [values(x, dtype) for x in operands]), dtype)


def _reciprocal(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    one = np.ones(operands[0].size, dtype.storage).view(f"u{dtype.bytes}")
    return _arithmetic("div", modifiers, dtype, [one, operands[0]])


def _shift(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    x, count = values(operands[0], dtype), operands[1].astype(np.uint32).astype(np.uint64)
    clamped = np.minimum(count, dtype.bitwidth).astype(f"u{dtype.bytes}").view(dtype.storage)
    return bits_of(evaluate(name, dtype, {}, [x, clamped]), dtype)


def _copysign(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    sign = np.array(1 << (dtype.bitwidth - 1), f"u{dtype.bytes}")
    a, b = (x.astype(sign.dtype) for x in operands)
    return (a & sign) | (b & ~sign)


def _sign_only(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    if dtype.is_float:
        found = evaluate(name, dtype, {}, [values(operands[0], dtype)])
        return np.ascontiguousarray(found).view(f"u{dtype.bytes}")
    return bits_of(evaluate(name, dtype, {}, [values(operands[0], dtype)]), dtype)


def _count(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    x = operands[0].astype(np.uint64)
    found = np.array(
        [f"{int(v):064b}".count("1") if name == "popc" else dtype.bitwidth - int(v).bit_length() for v in x]
    )
    return found.astype(np.uint32)


def _permute(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    if modifiers:
        raise Unknown(f"prmt {modifiers}")
    a, b, selector = (x.astype(np.uint64) for x in operands)
    both, found = a | b << np.uint64(32), np.zeros_like(a)
    for i in range(4):
        choice = selector >> np.uint64(4 * i) & np.uint64(0xF)
        byte = both >> (np.uint64(8) * (choice & np.uint64(7))) & np.uint64(0xFF)
        byte = np.where(choice & np.uint64(8) != 0, np.where(byte & np.uint64(0x80) != 0, 0xFF, 0), byte).astype(
            np.uint64
        )
        found |= byte << np.uint64(8 * i)
    return found.astype(np.uint32)


def _funnel(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    low, high, count = (x.astype(np.uint64) for x in operands)
    direction, mode = modifiers
    count = count & np.uint64(31) if mode == "wrap" else np.minimum(count, np.uint64(32))
    both = high << np.uint64(32) | low
    found = both >> count if direction == "r" else (both << count) >> np.uint64(32)
    return found.astype(np.uint32)


def _field(name: str, modifiers: list[str], dtype: DType, operands: Sequence[Array]) -> Array:
    x, start, length = operands[0].astype(object), operands[1] & 0xFF, operands[2] & 0xFF
    found = []
    for v, s, n in zip(x, start, length):
        s, n = int(s), int(n)
        part = int(v) >> s & ((1 << n) - 1)
        if dtype.is_signed and n and int(v) >> min(s + n - 1, dtype.bitwidth - 1) & 1:
            part |= -1 << min(n, dtype.bitwidth)
        found.append(part & ((1 << dtype.bitwidth) - 1))
    return np.array(found, f"u{dtype.bytes}")


_RULES: dict[str, Callable[[str, list[str], DType, Sequence[Array]], Array]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "fma", "sqrt"), _arithmetic),
    "rcp": _reciprocal,
    "mad": _multiply_add,
    **dict.fromkeys(("min", "max"), _extremum),
    **dict.fromkeys(("rem", "and", "or", "xor", "not"), _by_name),
    **dict.fromkeys(("neg", "abs"), _sign_only),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("ex2", "lg2", "rsqrt", "tanh", "sin", "cos"), _function),
    "copysign": _copysign,
    **dict.fromkeys(("popc", "clz"), _count),
    "prmt": _permute,
    "shf": _funnel,
    "bfe": _field,
}


def _convert(modifiers: list[str], bits: Array) -> Array:
    *modes, to, source = modifiers
    if (modes, to, source) == (["rn"], "tf32", "f32"):
        rounded = cast(values(bits, dtypes.float32), dtypes.float32, dtypes.tfloat32, RoundingMode.RN)
        return bits_of(rounded.astype(np.float32), dtypes.float32)
    s, t = DTYPES.get(source), DTYPES.get(to)
    if s is None or t is None or any(m not in (*_MODES, "rzi", "rni", "rmi", "rpi") for m in modes):
        raise Unknown(f"cvt.{'.'.join(modifiers)}")
    x = values(bits, s)
    integral = [m for m in modes if m.endswith("i")]
    if s.is_float and t.is_float:
        if integral:
            rounding = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[integral[0]]
            with np.errstate(all="ignore"):
                return bits_of(rounding(x).astype(s.storage), t)
        if t.bitwidth < s.bitwidth and not modes:
            raise Unknown(f"cvt.{'.'.join(modifiers)} without a rounding mode")
        mode = RoundingMode[_MODES[modes[0]]] if modes else RoundingMode.RN
        with np.errstate(all="ignore"):
            return bits_of(cast(x, s, t, mode), t)
    if s.is_float:
        if integral != ["rzi"]:
            raise Unknown(f"cvt.{'.'.join(modifiers)}")
        found = evaluate("cast", s, {"dtype": t}, [x])
        if source == "f64" or t.bitwidth == 64:
            found = np.where(np.isnan(x), np.array(1 << (t.bitwidth - 1), f"u{t.bytes}").view(t.storage), found)
        wide = found.astype(np.int64) if t.bitwidth < 32 else found
        return wide.view(f"u{wide.itemsize}")
    if t.is_float:
        if modes not in (["rn"], ["rz"], ["rm"], ["rp"]):
            raise Unknown(f"cvt.{'.'.join(modifiers)}")
        return bits_of(cast(x, s, t, RoundingMode[_MODES[modes[0]]]), t)
    narrow = x.astype(t.storage)  # in a wider register, with its sign
    return narrow.astype(np.int64).view(np.uint64) if t.is_signed else bits_of(narrow, t)


def _packed(modifiers: list[str], operands: Sequence[Array]) -> Array:
    """Two integers as bytes, saturated, below the lower half of a word: the first operand gives the upper one."""
    t = DTYPES[modifiers[2]]
    if modifiers[1:] != ["sat", modifiers[2], "s32", "b32"] or t.bitwidth != 8:
        raise Unknown(f"cvt.{'.'.join(modifiers)}")
    high, low = (np.clip(values(x, dtypes.int32), t.min, t.max).astype(np.int64) & 0xFF for x in operands[:2])
    return (low | high << 8 | operands[2].astype(np.int64) << 16).astype(np.uint32)


_PAIRS = {
    "f16x2": dtypes.float16,
    "bf16x2": dtypes.bfloat16,
    "e4m3x2": dtypes.float8_e4m3fn,
    "e5m2x2": dtypes.float8_e5m2,
}


def _pairs(modifiers: list[str], operands: Sequence[Array]) -> Array:
    """Conversions of two elements: the first operand gives the upper one."""
    *modes, to, source = modifiers
    target = _PAIRS[to]
    if modes not in (["rn"], ["rn", "satfinite"]) or (modes == ["rn"]) != (target.bitwidth == 16):
        raise Unknown(f"cvt.{'.'.join(modifiers)}")
    if source == "f32":
        elements = [values(x, dtypes.float32) for x in reversed(operands)]
    else:
        narrow = _PAIRS[source]
        bits = operands[0].astype(np.uint16)
        elements = [values(bits >> shift, narrow).astype(np.float32) for shift in (0, narrow.bitwidth)]
    if "satfinite" in modes:
        most = np.float32({"e4m3x2": 448, "e5m2x2": 57344}[to])
        elements = [np.where(np.isnan(x), x, np.clip(x, -most, most)) for x in elements]
    low, high = (
        bits_of(cast(x, dtypes.float32, target, RoundingMode.RN), target)
        if target.bitwidth == 16
        else np.ascontiguousarray(cast(x, dtypes.float32, target, RoundingMode.RN)).view(np.uint8)
        for x in elements
    )
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(target.bitwidth)


_COMPARE = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "lo": "LT", "ls": "LE", "hi": "GT", "hs": "GE"}  # fmt: skip


def compare(predicate: str, modifiers: list[str], dtype: DType, a: Array, b: Array) -> Array:
    """What ``setp`` finds, as bools."""
    x, y = values(a, dtype), values(b, dtype)
    if "ftz" in modifiers:
        raise Unknown("setp.ftz")
    with np.errstate(all="ignore"):
        if predicate in ("num", "nan"):
            nan = np.isnan(x) | np.isnan(y)
            return nan if predicate == "nan" else ~nan
        unordered = dtype.is_float and predicate.endswith("u") and predicate[:-1] in _COMPARE
        name = predicate[:-1] if unordered else predicate
        ops = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}  # fmt: skip
        found = ops[_COMPARE[name]](x, y)
        if dtype.is_float:
            nan = np.isnan(x) | np.isnan(y)
            found = (found | nan) if unordered else (found & ~nan)
        return np.asarray(found, np.bool_)
