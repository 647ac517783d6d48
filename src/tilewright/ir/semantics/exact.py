"""Exact sums, products, quotients and roots, ready to be rounded in any mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.ir.dtypes import DType, float32, float64
from tilewright.ir.enums import RoundingMode
from tilewright.ir.semantics.conversion import from_float64, to_float64
from tilewright.ir.semantics.rounding import SIGNIFICAND_BITS, Array, round_float, round_significand


def rounded(name: str, dtype: DType, mode: RoundingMode, *operands: Array) -> Array:
    """add, sub, mul, div, sqrt or fma on floats of ``dtype`` with one rounding by ``mode``."""
    if name == "sub":
        return rounded("add", dtype, mode, operands[0], -operands[1])
    values = [to_float64(x, dtype) for x in operands]
    if (name, dtype, mode) == ("fma", float32, RoundingMode.RN):
        return _odd(*two_sum(values[0] * values[1], values[2])).astype(np.float32)
    return from_float64((_double if dtype is float64 else _narrow)(name, dtype, mode, *values), dtype)


def _exact_zero(name: str, mode: RoundingMode, nearest: Array, values: Sequence[Array]) -> Array:
    """The signed zero for an exact result of zero; rounding down makes a sum negative unless both addends are +0."""
    if mode is not RoundingMode.RM or name not in ("add", "fma"):
        return nearest
    left = np.signbit(values[0])
    if name == "fma":
        left = left ^ np.signbit(values[1])
    return np.where(left | np.signbit(values[-1]), -0.0, 0.0)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b and its rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _odd(value: Array, error: Array) -> Array:
    """value + error, with the last bit set where float64 does not hold the sum: what is nearest to it among numbers of
    up to 51 bits is then nearest to the sum itself (Boldo and Melquiond)."""
    bits = value.view(np.int64)
    moved = np.isfinite(value) & (error != 0) & (bits & 1 == 0)
    step = np.where(np.signbit(value) == np.signbit(error), 1, -1)
    return (bits + np.where(moved, step, 0)).view(np.float64)


def _narrow(name: str, dtype: DType, mode: RoundingMode, *values: Array) -> Array:
    """float32 and narrower: float64 holds the result, or its nearest neighbour and the side of the error.

    A quotient or root that is no number of 25 bits is too far from one for its float64 neighbour to be one.
    """
    if name == "add":
        value, error = two_sum(*values)
    elif name == "fma":
        value, error = two_sum(values[0] * values[1], values[2])
    else:
        value, error = _IN_FLOAT64[name](*values), None
    value = np.where(value == 0, _exact_zero(name, mode, value, values), value)
    return round_float(value, dtype, mode, error)


Sticky = tuple[bool, int, int]  # negative, significand, exponent: see ``rounding``


def _double(name: str, dtype: DType, mode: RoundingMode, *operands: Array) -> Array:
    """float64, in integers, one element at a time."""
    special = _IN_FLOAT64[name](*operands)
    regular = np.isfinite(operands[0])
    for x in operands[1:]:
        regular = regular & np.isfinite(x)
    if name == "div":
        regular = regular & (operands[1] != 0)
    if name == "sqrt":
        regular = regular & (operands[0] >= 0)
    safe = [np.where(regular, x, 1.0) for x in operands]
    negative, significand, exponent = np.frompyfunc(_IN_INTEGERS[name], len(operands), 3)(*safe)
    parts = (np.asarray(negative, np.bool_), np.asarray(significand, np.uint64), np.asarray(exponent, np.int64))
    result = round_significand(*parts, dtype, mode)
    result = np.where(parts[1] == 0, _exact_zero(name, mode, special, operands), result)
    return np.where(regular, result, special)


def _split(x: float) -> tuple[int, int]:
    mantissa, exponent = math.frexp(x)
    return int(math.ldexp(mantissa, 53)), exponent - 53


def _sticky(number: int, exponent: int, inexact: bool = False) -> Sticky:
    """number * 2**exponent cut to 62 bits; ``inexact`` when the number is a little larger in magnitude."""
    size = abs(number)
    excess = max(size.bit_length() - SIGNIFICAND_BITS, 0)
    kept = size >> excess
    return number < 0, kept | (inexact or kept << excess != size), exponent + excess


def _sum(*terms: tuple[int, int]) -> Sticky:
    least = min(e for _, e in terms)
    return _sticky(sum(m << (e - least) for m, e in terms), least)


def _multiply(a: float, b: float) -> Sticky:
    (ma, ea), (mb, eb) = _split(a), _split(b)
    return _sticky(ma * mb, ea + eb)


def _fused(a: float, b: float, c: float) -> Sticky:
    (ma, ea), (mb, eb) = _split(a), _split(b)
    return _sum((ma * mb, ea + eb), _split(c))


def _divide(a: float, b: float) -> Sticky:
    (ma, ea), (mb, eb) = _split(a), _split(b)
    quotient, rest = divmod(abs(ma) << 128, abs(mb))
    return _sticky(quotient if (ma < 0) == (mb < 0) else -quotient, ea - eb - 128, rest != 0)


def _root(a: float) -> Sticky:
    m, e = _split(a)
    m, e = m << (128 + (e & 1)), e - 128 - (e & 1)
    root = math.isqrt(m)
    return _sticky(root, e // 2, root * root != m)


_IN_INTEGERS: dict[str, Callable[..., Sticky]] = {
    "add": lambda a, b: _sum(_split(a), _split(b)),
    "mul": _multiply,
    "div": _divide,
    "sqrt": _root,
    "fma": _fused,
}
# To nearest. Where an operand is infinite or NaN, or a divisor zero, the result is the same in every mode.
_IN_FLOAT64: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "fma": lambda a, b, c: np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, a * b + c),
}
