"""Rounding toward zero, down and up, without touching the processor's rounding mode.

float32 and narrower: float64 holds the exact result, or one that rounds onward as the exact result does.
float64: the result to nearest is moved by one unit in the last place where the sign of its error asks for it. The
error is computed on operands scaled to [1, 2), so that nothing underflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.backends.vector.convert import round_to_dtype
from tilewright.backends.vector.exact import (
    fused_narrow,
    odd_sum,
    scale,
    split_exponent,
    two_product,
    two_sum,
    zero_sum_sign,
)
from tilewright.backends.vector.value import Val, fused, larger, magnitude, square_root, where
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

RZ, RM = RoundingMode.RZ, RoundingMode.RM


def round_directed(name: str, dtype: DType, mode: RoundingMode, *operands: Val) -> Val:
    """add, sub, mul, div, sqrt or fma, rounded by RZ, RM or RP. An internal function of the module."""
    if name == "sub":
        return round_directed("add", dtype, mode, operands[0], -operands[1])

    def body(*xs: Val) -> Val:
        return _DOUBLE[name](mode, *xs) if dtype.short == "f64" else _narrow(name, dtype, mode, *xs)

    return operands[0].at.outlined(f"{name}.{dtype.short}.{mode.name}", body, *operands)


def _narrow(name: str, dtype: DType, mode: RoundingMode, *operands: Val) -> Val:
    if name == "fma":
        return fused_narrow(dtype, mode, *operands)
    xs = [x.to_f64() for x in operands]
    if name == "add":
        exact = odd_sum(*xs)
        if mode is RM:
            exact = zero_sum_sign(exact, *xs)
    elif name == "mul":
        exact = xs[0] * xs[1]
    else:
        # A quotient or root that is no number of 24 bits is too far from one for float64 to round it there.
        exact = xs[0] / xs[1] if name == "div" else square_root(xs[0])
    return round_to_dtype(exact, dtype, mode)


def _move(result: Val, error: Val, mode: RoundingMode) -> Val:
    """``result``, the nearest number to result + error, replaced by the neighbour that ``mode`` asks for.

    An overflow to infinity has an infinite error of opposite sign, and so comes back to the largest number.
    """
    bits = result.bits()
    opposite = (bits ^ error.bits()) < 0
    if mode is RZ:
        wrong = opposite & error.ne(0.0) & ~error.is_nan()
    else:
        wrong = error < 0 if mode is RM else error > 0
    return where(wrong, bits + where(opposite, bits.like(-1), 1), bits).as_float()


def _finite(*operands: Val) -> Val:
    """Lanes in which every operand is finite."""
    mask = magnitude(operands[0]) < math.inf
    for x in operands[1:]:
        mask = mask & (magnitude(x) < math.inf)
    return mask


def _add(mode: RoundingMode, a: Val, b: Val) -> Val:
    result = a + b
    swap = magnitude(a) < magnitude(b)
    big, small = where(swap, b, a), where(swap, a, b)
    moved = where(_finite(a, b), _move(result, small - (result - big), mode), result)
    return zero_sum_sign(moved, a, b) if mode is RM else moved


def _multiply(mode: RoundingMode, a: Val, b: Val) -> Val:
    result = a * b
    (ma, ea), (mb, eb) = split_exponent(a), split_exponent(b)
    product, rest = two_product(ma, mb)
    error = (product - scale(result, -(ea + eb))) + rest
    return where(_finite(a, b), _move(result, error, mode), result)


def _divide(mode: RoundingMode, a: Val, b: Val) -> Val:
    result = a / b
    (ma, ea), (mb, eb) = split_exponent(a), split_exponent(b)
    product, rest = two_product(scale(result, eb - ea), mb)
    error = (ma - product) - rest
    error = where(b < 0, -error, error)
    error = where(magnitude(result).eq(math.inf), -result, error)
    return where(_finite(a, b) & b.ne(0.0), _move(result, error, mode), result)


def _root(mode: RoundingMode, a: Val) -> Val:
    result = square_root(a)
    _, exponent = split_exponent(a)
    half = exponent >> 1
    root = scale(result, -half)
    product, rest = two_product(root, root)
    error = (scale(a, -(half << 1)) - product) - rest
    return where(_finite(a), _move(result, error, mode), result)


def _fused(mode: RoundingMode, a: Val, b: Val, c: Val) -> Val:
    result = fused(a, b, c)
    (ma, ea), (mb, eb), (mc, ec) = split_exponent(a), split_exponent(b), split_exponent(c)
    top = larger(ea + eb, ec)
    # An addend 300 binary places below the other one decides by its sign alone, so it may be enlarged to that.
    product, rest = two_product(scale(ma, larger(ea + eb - top, -300)), mb)
    sum1, rest1 = two_sum(scale(mc, larger(ec - top, -300)), rest)
    sum2, rest2 = two_sum(product, sum1)
    error = ((sum2 - scale(result, -top)) + rest2) + rest1
    moved = where(_finite(a, b, c), _move(result, error, mode), result)
    if mode is not RM:
        return moved
    sign = ((a.bits() ^ b.bits()) | c.bits()) & -(1 << 63)
    return where(moved.eq(0.0) & error.eq(0.0), sign, moved.bits()).as_float()


_DOUBLE: dict[str, Callable[..., Val]] = {"add": _add, "mul": _multiply, "div": _divide, "sqrt": _root, "fma": _fused}
