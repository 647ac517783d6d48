"""Transcendental functions, and tests of floats. 16-bit floats are computed in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.triton.ttir.elements import Rule, from_f32, in_f32
from tilewright.backends.triton.ttir.rounding import flushed
from tilewright.backends.triton.ttir.text import Val, Writer
from tilewright.ir.core import Op
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops import floats

_LOG2_E = 1.4426950408889634


def _in_f32(f: Callable[[Writer, Any, Sequence[Val]], Val]) -> Rule:
    def rule(w: Writer, op: Op, operands: Sequence[Val]) -> Val:
        return from_f32(w, f(w, op, [in_f32(w, v) for v in operands]), operands[0].element)

    return rule


@_in_f32
def _library(w: Writer, op: Op, operands: Sequence[Val]) -> Val:
    return w.call(op.name, *operands)


@_in_f32
def _exp(w: Writer, op: floats.Exp, operands: Sequence[Val]) -> Val:
    (x,) = operands
    if op.rounding is RoundingMode.APPROX and x.element == "f32":
        return w.op("math.exp2", w.op("arith.mulf", x, w.like(_LOG2_E, x)))
    return w.call("exp", x)


@_in_f32
def _exp2(w: Writer, op: floats.Exp2, operands: Sequence[Val]) -> Val:
    (x,) = operands
    if x.element == "f64":
        return w.call("exp2", x)
    ftz = op.flush_to_zero
    if ftz and w.target.is_cuda:
        return w.asm("ex2.approx.ftz.f32 $0, $1;", "=f,f", operands, "f32")
    return flushed(w, operands, lambda xs: w.op("math.exp2", *xs), ftz=ftz)


@_in_f32
def _tanh(w: Writer, op: floats.Tanh, operands: Sequence[Val]) -> Val:
    if op.rounding is RoundingMode.APPROX and operands[0].element == "f32" and w.target.is_cuda:
        return w.asm("tanh.approx.f32 $0, $1;", "=f,f", operands, "f32")
    return w.call("tanh", *operands)


@_in_f32
def _rsqrt(w: Writer, op: floats.Rsqrt, operands: Sequence[Val]) -> Val:
    ftz = op.flush_to_zero
    if ftz and w.target.is_cuda:
        return w.asm("rsqrt.approx.ftz.f32 $0, $1;", "=f,f", operands, "f32")
    return flushed(w, operands, lambda xs: w.call("rsqrt", *xs), ftz=ftz)


def _isnan(w: Writer, op: floats.IsNan, operands: Sequence[Val]) -> Val:
    (x,) = operands
    return w.compare("uno", x, x)


def _isinf(w: Writer, op: floats.IsInf, operands: Sequence[Val]) -> Val:
    magnitude = w.op("math.absf", *operands)
    return w.compare("oeq", magnitude, w.like(float("inf"), magnitude))


RULES: dict[type[Op], Rule] = {
    floats.Exp: _exp,
    floats.Exp2: _exp2,
    floats.Tanh: _tanh,
    floats.Rsqrt: _rsqrt,
    **dict.fromkeys(
        (
            floats.Log,
            floats.Log2,
            floats.Sin,
            floats.Cos,
            floats.Tan,
            floats.Sinh,
            floats.Cosh,
            floats.Pow,
            floats.Atan2,
        ),
        _library,
    ),
    **dict.fromkeys((floats.Floor, floats.Ceil), _in_f32(lambda w, op, xs: w.op(f"math.{op.name}", *xs))),
    floats.IsNan: _isnan,
    floats.IsInf: _isinf,
}
