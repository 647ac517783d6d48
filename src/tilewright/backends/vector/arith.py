"""Arithmetic on integers and floats: every rounding mode, with or without flushing of subnormal numbers."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.backends.vector import integer
from tilewright.backends.vector.convert import round_to_dtype
from tilewright.backends.vector.directed import round_directed
from tilewright.backends.vector.exact import fused_narrow
from tilewright.backends.vector.remainder import float_remainder
from tilewright.backends.vector.request import ElementOp
from tilewright.backends.vector.value import Val, fused, magnitude, square_root, where, with_sign
from tilewright.ir.enums import RoundingMode

_SMALLEST_NORMAL_F32 = 2.0**-126
_DIRECTED = (RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP)

_NEAREST: dict[str, Callable[..., Val]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sqrt": square_root,
    "fma": fused,
}


def flush(x: Val) -> Val:
    """float32 with subnormal numbers replaced by zeros of the same sign."""
    return where(magnitude(x) < _SMALLEST_NORMAL_F32, with_sign(x.like(0.0), x), x)


def flushed(formula: Callable[..., Val], op: ElementOp, *operands: Val) -> Val:
    """``formula`` applied to the operands, with operands and result flushed where the op says so."""
    if not op.flush_to_zero:
        return formula(*operands)
    return flush(formula(*map(flush, operands)))


def arithmetic(op: ElementOp, *operands: Val) -> Val:
    """add, sub, mul and sqrt, and div and fma where these are instructions."""
    dtype = op.dtype
    if not dtype.is_floating:
        return _NEAREST[op.name](*operands)
    if op.rounding in _DIRECTED:
        return flushed(lambda *xs: round_directed(op.name, dtype, op.rounding, *xs), op, *operands)
    result = flushed(_NEAREST[op.name], op, *operands)
    return round_to_dtype(result, dtype) if dtype.bitwidth == 16 else result


def divide(op: ElementOp, a: Val, b: Val) -> Val:
    return arithmetic(op, a, b) if op.dtype.is_floating else integer.divide(a, b, op.dtype, op.rounding)


def multiply_add(op: ElementOp, a: Val, b: Val, c: Val) -> Val:
    dtype, fma = op.dtype, a.at.features.fma
    if op.rounding in _DIRECTED or not (dtype.bitwidth == 16 or (dtype.bitwidth == 32 and not fma)):
        return arithmetic(op, a, b, c)
    return flushed(lambda *xs: fused_narrow(dtype, RoundingMode.RN, *xs), op, a, b, c)


def remainder(op: ElementOp, a: Val, b: Val) -> Val:
    if op.dtype.is_floating:
        return float_remainder(a, b, op.dtype, op.rounding)
    return integer.remainder(a, b, op.dtype, op.rounding)


def absolute(op: ElementOp, x: Val) -> Val:
    return magnitude(x) if op.dtype.is_floating else integer.absolute(x, op.dtype)
