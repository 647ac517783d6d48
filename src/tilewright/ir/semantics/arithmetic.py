"""Arithmetic on integers and floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.ir.dtypes import DType, float64
from tilewright.ir.enums import RoundingMode
from tilewright.ir.semantics.conversion import cast
from tilewright.ir.semantics.exact import rounded
from tilewright.ir.semantics.rounding import Array

Attributes = Mapping[str, Any]
RN, RZ, RM, RP = RoundingMode.RN, RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP

_SMALLEST_NORMAL_F32 = np.float32(2.0**-126)


def flush(x: Array) -> Array:
    """float32 with subnormal numbers replaced by zeros of the same sign."""
    return np.where(np.abs(x) < _SMALLEST_NORMAL_F32, np.copysign(np.float32(0), x), x)


def flushed(formula: Callable[..., Array], attributes: Attributes, *operands: Array) -> Array:
    """``formula`` of the operands, with operands and result flushed where the attributes say so."""
    if not attributes.get("flush_to_zero", False):
        return formula(*operands)
    return flush(formula(*map(flush, operands)))


# NumPy and ml_dtypes round these to nearest in every float dtype, and wrap integers.
_NEAREST: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
}


def arithmetic(name: str) -> Callable[..., Array]:
    """The evaluator of add, sub, mul, div, sqrt or fma."""

    def evaluator(dtype: DType, attributes: Attributes, *operands: Array) -> Array:
        mode = attributes.get("rounding", RN)
        if dtype.is_float:
            return flushed(lambda *xs: _float_arithmetic(name, dtype, mode, *xs), attributes, *operands)
        if dtype.is_bool:  # integers modulo 2
            return _integer_arithmetic(name, mode, *(x.astype(np.uint8) for x in operands)) & 1 != 0
        return _integer_arithmetic(name, mode, *operands)

    return evaluator


def _integer_arithmetic(name: str, mode: RoundingMode, a: Array, b: Array) -> Array:
    return _integer_divide(a, b, mode) if name == "div" else _NEAREST[name](a, b)


def _float_arithmetic(name: str, dtype: DType, mode: RoundingMode, *operands: Array) -> Array:
    if mode in (RZ, RM, RP):
        return rounded(name, dtype, mode, *operands)
    # FULL and APPROX allow any close result; the nearest one is the closest.
    return rounded("fma", dtype, RN, *operands) if name == "fma" else _NEAREST[name](*operands)


def _integer_divide(a: Array, b: Array, mode: RoundingMode) -> Array:
    """a / b rounded toward zero, down (RM) or up (RP); 0 where b is 0, and MIN / -1 wraps."""
    if mode not in (RZ, RM, RP):
        raise ValueError(f"integer division has no rounding mode {mode.name}")
    signed = a.dtype.kind == "i"
    minus_one = b == -1 if signed else np.zeros(np.shape(b), np.bool_)
    safe = np.where((b == 0) | minus_one, np.ones_like(b), b)
    quotient = a // safe
    inexact = quotient * safe != a
    if mode is RP:
        quotient = quotient + inexact
    elif mode is RZ and signed:
        quotient = quotient + (inexact & ((a < 0) != (safe < 0)))
    return np.where(b == 0, np.zeros_like(b), np.where(minus_one, np.negative(a), quotient))


def remainder(dtype: DType, attributes: Attributes, a: Array, b: Array) -> Array:
    mode = attributes.get("rounding", RZ)
    if dtype.is_float:
        return _float_remainder(dtype, mode, a, b)
    if dtype.is_bool:
        return np.zeros(np.broadcast(a, b).shape, np.bool_)
    return np.where(b == 0, np.zeros_like(a), a - b * _integer_divide(a, b, mode))


def _float_remainder(dtype: DType, mode: RoundingMode, a: Array, b: Array) -> Array:
    """Exact for RZ; the addition of b that RM and RP need is rounded. A zero takes the sign of a, b or -b."""
    rest = np.fmod(a.astype(np.float64), b.astype(np.float64)).astype(dtype.storage)
    if mode is RZ:
        return rest
    toward = b if mode is RM else -b
    zero = np.copysign(np.zeros_like(rest), toward)
    moved = np.where((rest < 0) != (toward < 0), rest + toward, rest)
    return np.where(rest == 0, zero, moved)


def negate(dtype: DType, attributes: Attributes, x: Array) -> Array:
    return _sign_bit(dtype, np.bitwise_xor, x) if dtype.is_float else np.negative(x)


def absolute(dtype: DType, attributes: Attributes, x: Array) -> Array:
    if not dtype.is_float:
        return np.abs(x)
    return _sign_bit(dtype, lambda bits, sign: bits & ~sign, x)


def _sign_bit(dtype: DType, change: Callable[[Array, Array], Array], x: Array) -> Array:
    unsigned = np.dtype(f"u{dtype.bytes}")
    sign = np.array(1 << (dtype.bitwidth - 1), unsigned)
    return np.asarray(change(x.view(unsigned), sign)).view(dtype.storage)


def multiply_high(dtype: DType, attributes: Attributes, a: Array, b: Array) -> Array:
    unsigned = np.dtype(f"u{dtype.bytes}")
    x, y = a.view(unsigned).astype(np.uint64), b.view(unsigned).astype(np.uint64)
    if dtype.bitwidth < 64:
        return (x * y >> np.uint64(dtype.bitwidth)).astype(unsigned).view(dtype.storage)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x0 * y1 + (x0 * y0 >> half)
    cross = x1 * y0 + (middle & low)
    return np.asarray(x1 * y1 + (cross >> half) + (middle >> half)).view(dtype.storage)


def extremum(smaller: bool) -> Callable[..., Array]:
    """The evaluator of min or max: -0 < +0; NaN operands are dropped, or win with ``propagate_nan``."""

    def evaluator(dtype: DType, attributes: Attributes, a: Array, b: Array) -> Array:
        if not dtype.is_float:
            return (np.minimum if smaller else np.maximum)(a, b)
        return flushed(lambda x, y: choose(x, y, attributes.get("propagate_nan", False)), attributes, a, b)

    def choose(a: Array, b: Array, propagate_nan: bool) -> Array:
        a_is_less = (a < b) | ((a == b) & np.signbit(a))
        chosen = np.where(a_is_less, a, b) if smaller else np.where(a_is_less, b, a)
        on_nan_a, on_nan_b = (a, b) if propagate_nan else (b, a)
        return np.where(np.isnan(a), on_nan_a, np.where(np.isnan(b), on_nan_b, chosen))

    return evaluator


def function(formula: Callable[..., Array]) -> Callable[..., Array]:
    """The evaluator of a math function: computed in a wider type, C's long double for float64, and rounded once."""

    def evaluator(dtype: DType, attributes: Attributes, *operands: Array) -> Array:
        wide = np.longdouble if dtype is float64 else np.float64

        def narrow(*xs: Array) -> Array:
            result = np.asarray(formula(*(x.astype(wide) for x in xs))).astype(np.float64)
            return cast(result, float64, dtype)

        return flushed(narrow, attributes, *operands)

    return evaluator
