"""How far the mathematical functions of each backend are from MPFR, in units in the last place.

An error is divided by the spacing of the dtype at the exact result: 2**(e - p) for a result of exponent e in a format
of p mantissa bits, and the spacing of the subnormal numbers for those and for what is below them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gmpy2
import numpy as np
from support.elementwise import apply
from support.mpfr_oracle import assert_same, function_values
from support.values import all_values, floats

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType

Interval = tuple[float, float]
SIZE = 100_000
FULL, APPROX = ct.RoundingMode.FULL, ct.RoundingMode.APPROX


@dataclass(frozen=True)
class Function:
    """A function of the language, its meaning for MPFR, and the intervals where it is interesting, by dtype."""

    formula: Callable[..., Any]
    exact: Callable[..., Any]
    intervals: dict[str, tuple[Interval, ...]]
    operands: int = 1
    float32_only: bool = False
    flushed: bool = False

    def dtypes(self) -> tuple[DType, ...]:
        return (dtypes.float32,) if self.float32_only else dtypes.FLOATS


def _by_dtype(f32: tuple[Interval, ...], f64: tuple[Interval, ...]) -> dict[str, tuple[Interval, ...]]:
    return {"f32": f32, "f64": f64}


_ANGLES = _by_dtype(((-10, 10), (-6e4, 6e4), (-1e9, 1e9)), ((-10, 10), (-6e4, 6e4), (-1e15, 1e15)))
_POSITIVE = _by_dtype(((0, 3), (0.99, 1.01), (0.6, 1.5)), ((0, 3), (0.99, 1.01), (0.6, 1.5)))
_EXP = _by_dtype(((-104, 89), (-1, 1), (-0.01, 0.01)), ((-746, 710), (-1, 1), (-0.01, 0.01)))
_EXP2 = _by_dtype(((-150, 128), (-1, 1), (-0.01, 0.01)), ((-1075, 1024), (-1, 1), (-0.01, 0.01)))
_HYPERBOLIC = _by_dtype(((-90, 90), (-2, 2), (-0.01, 0.01)), ((-711, 711), (-2, 2), (-0.01, 0.01)))
_TANH = _by_dtype(((-20, 20), (-1, 1), (-0.1, 0.1)), ((-25, 25), (-1, 1), (-0.1, 0.1)))
_ROOTS = _by_dtype(((0, 4), (0, 1e6), (0, 1e-30)), ((0, 4), (0, 1e6), (0, 1e-300)))
_PAIRS = _by_dtype(((-5, 5), (-300, 300)), ((-5, 5), (-300, 300)))


def _rsqrt(x: Any) -> Any:
    return gmpy2.rec_sqrt(x) if x else gmpy2.mpfr("inf") * gmpy2.copy_sign(gmpy2.mpfr(1), x)


def _divide(x: Any, y: Any) -> Any:
    return gmpy2.get_context().div(x, y)


FUNCTIONS: dict[str, Function] = {
    "exp": Function(lambda x: ct.exp(x), gmpy2.exp, _EXP),
    "exp, APPROX": Function(lambda x: ct.exp(x, rounding_mode=APPROX), gmpy2.exp, _EXP, float32_only=True),
    "exp2": Function(lambda x: ct.exp2(x), gmpy2.exp2, _EXP2),
    "exp2, flushed": Function(
        lambda x: ct.exp2(x, flush_to_zero=True), gmpy2.exp2, _EXP2, float32_only=True, flushed=True
    ),
    "log": Function(lambda x: ct.log(x), gmpy2.log, _POSITIVE),
    "log2": Function(lambda x: ct.log2(x), gmpy2.log2, _POSITIVE),
    "sin": Function(lambda x: ct.sin(x), gmpy2.sin, _ANGLES),
    "cos": Function(lambda x: ct.cos(x), gmpy2.cos, _ANGLES),
    "tan": Function(lambda x: ct.tan(x), gmpy2.tan, _ANGLES),
    "sinh": Function(lambda x: ct.sinh(x), gmpy2.sinh, _HYPERBOLIC),
    "cosh": Function(lambda x: ct.cosh(x), gmpy2.cosh, _HYPERBOLIC),
    "tanh": Function(lambda x: ct.tanh(x), gmpy2.tanh, _TANH),
    "tanh, APPROX": Function(lambda x: ct.tanh(x, rounding_mode=APPROX), gmpy2.tanh, _TANH, float32_only=True),
    "rsqrt": Function(lambda x: ct.rsqrt(x), _rsqrt, _ROOTS),
    "rsqrt, flushed": Function(
        lambda x: ct.rsqrt(x, flush_to_zero=True), _rsqrt, _ROOTS, float32_only=True, flushed=True
    ),
    "sqrt, APPROX": Function(lambda x: ct.sqrt(x, rounding_mode=APPROX), gmpy2.sqrt, _ROOTS, float32_only=True),
    "pow": Function(lambda x, y: ct.pow(x, y), lambda x, y: x**y, _PAIRS, 2),
    "atan2": Function(lambda x, y: ct.atan2(x, y), gmpy2.atan2, _PAIRS, 2),
    "truediv, FULL": Function(lambda x, y: ct.truediv(x, y, rounding_mode=FULL), _divide, _PAIRS, 2, float32_only=True),
    "truediv, APPROX": Function(
        lambda x, y: ct.truediv(x, y, rounding_mode=APPROX), _divide, _PAIRS, 2, float32_only=True
    ),
}

_SPECIAL = (0.0, 1.0, 0.5, 2.0, 3.0, 2.5, math.inf, 1e-310, 1e-40, 1e38, 1e300, 2.0**53 + 1, 2.0**24 + 1, math.nan)


@functools.cache
def samples(name: str, dtype: DType) -> tuple[np.ndarray, ...]:
    """Operands: special values, random bits, and random values in the intervals of the function; at least ``SIZE``.

    All values of a 16-bit dtype for a function of one operand.
    """
    function = FUNCTIONS[name]
    special = np.array([*_SPECIAL, *(-v for v in _SPECIAL)])
    if function.operands == 2:
        return _pairs(dtype, special)
    if dtype.bitwidth == 16:
        return (all_values(dtype),)
    rng = np.random.default_rng(11)
    intervals = function.intervals[dtype.short]
    parts = [special, np.arange(-200, 200) * (math.pi / 4), floats(dtype, SIZE // 4)]
    parts += [rng.uniform(low, high, SIZE // 4) for low, high in intervals]
    return (_joined(parts, dtype),)


def _pairs(dtype: DType, special: np.ndarray) -> tuple[np.ndarray, ...]:
    rng, n = np.random.default_rng(12), SIZE // 6
    first = [np.repeat(special, special.size), floats(dtype, n, 1), np.abs(floats(dtype, n, 2)), rng.uniform(0.5, 2, n)]
    second = [np.tile(special, special.size), floats(dtype, n, 3), rng.uniform(-2, 2, n), rng.uniform(-900, 900, n)]
    first += [rng.uniform(-5, 5, n), 1 + rng.uniform(-0.02, 0.02, n), rng.uniform(-1e3, 1e3, n + SIZE % 6)]
    second += [np.round(rng.uniform(-300, 300, n)), rng.uniform(-5e3, 5e3, n), first[-1] * 0.415]
    return _joined(first, dtype), _joined(second, dtype)


def _joined(parts: list[np.ndarray], dtype: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.concatenate([p.astype(dtype.storage) for p in parts])


def _flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(x.dtype.type(0), x), x)


_EXACT: dict[Any, tuple[np.ndarray, np.ndarray]] = {}


def exact_values(name: str, dtype: DType, step: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The function of every ``step``-th of ``samples``: see ``function_values``. Variants of one function share its
    values."""
    function = FUNCTIONS[name]
    key = function.exact, dtype, function.flushed, step
    if key not in _EXACT:
        operands = tuple(x[::step] for x in samples(name, dtype))
        if function.flushed:
            operands = tuple(map(_flush, operands))
        _EXACT[key] = function_values(function.exact, *operands, double=dtype is dtypes.float64)
    return _EXACT[key]


def error(backend: str, name: str, dtype: DType) -> tuple[float, list[Any]]:
    """The largest error in ulp on ``samples``, and the operands of it.

    AssertionError where the exact result is zero, infinite or NaN, and the backend gives something else, and where a
    result has the wrong sign.
    """
    function, operands = FUNCTIONS[name], samples(name, dtype)
    (got,) = apply(backend, [function.formula], operands, [dtype.storage])
    exact, missing = exact_values(name, dtype)
    return largest_error(got, exact, missing, dtype, operands, function.flushed)


def largest_error(
    got: np.ndarray,
    exact: np.ndarray,
    missing: np.ndarray,
    dtype: DType,
    operands: tuple[np.ndarray, ...],
    flushed: bool,
) -> tuple[float, list[Any]]:
    """See ``error``; ``exact`` and ``missing`` as ``function_values`` gives them."""
    with np.errstate(all="ignore"):
        wide = got.astype(np.float64)
        plain = (exact == 0) | ~np.isfinite(exact)
        if flushed:  # a result next to the least normal number may go either way
            plain |= (np.abs(exact) < 2.0**-126) & (wide == 0)
            exact = np.where(np.abs(exact) < 2.0**-126 * (1 - 2.0**-20), np.copysign(0.0, exact), exact)
        assert_same(got[plain], exact[plain], *(x[plain] for x in operands))
        assert not np.isnan(wide[~plain]).any()
        assert (np.signbit(wide) == np.signbit(exact))[~plain].all()
        bits, top = dtype.mantissa_bits, 1 << (dtype.exponent_bits - 1)
        leading = np.maximum(np.frexp(exact)[1] - 1, -1022)
        exponent = np.clip(leading, 2 - top, top - 1)
        # An infinity stands for the number after the largest one; scaled down, that is finite in float64 too.
        scaled = np.where(np.isinf(wide), np.copysign(np.ldexp(1.0, top - exponent), wide), np.ldexp(wide, -exponent))
        distance = np.ldexp(scaled - np.ldexp(exact, -exponent), bits)
        distance = np.abs(distance - np.ldexp(missing, leading - 52 - exponent + bits))
        # From half a spacing beyond the largest number on, infinity is the rounded result.
        beyond = np.isinf(wide) & (np.abs(exact) >= np.ldexp(2 - 2.0 ** -(bits + 1), top - 1))
        distance = np.where(plain | beyond, 0.0, distance)
    worst = int(np.argmax(distance))
    return float(distance[worst]), [x[worst] for x in operands]


def _stated(f16: float, bf16: float, f32: float, f64: float | None = None) -> dict[str, float]:
    bounds = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}
    return {short: bound for short, bound in bounds.items() if bound is not None}


def _through_float32(f32: float, f64: float) -> dict[str, float]:
    """16-bit results are float32 results rounded."""
    return _stated(0.51, 0.51, f32, f64)


# What each backend promises, in ulp. float64 on the reference backend leans on C's long double, and where that is no
# wider than double, on the C library.
_LONG_DOUBLE = 0.51 if np.finfo(np.longdouble).nmant > 52 else 4.0
_CPU: dict[str, dict[str, float]] = {
    "exp": _through_float32(1.1, 1.1),
    "exp, APPROX": {"f32": 6.0},
    "exp2": _through_float32(1.25, 1.25),
    "exp2, flushed": {"f32": 1.25},
    "log": _through_float32(1.0, 1.0),
    "log2": _through_float32(2.0, 1.0),
    "sin": _through_float32(1.6, 1.0),
    "cos": _through_float32(1.6, 1.0),
    "tan": _through_float32(0.51, 2.25),
    "sinh": _through_float32(0.51, 1.75),
    "cosh": _through_float32(0.51, 1.5),
    "tanh": _through_float32(1.5, 2.75),
    "tanh, APPROX": {"f32": 2.0},
    "rsqrt": _through_float32(1.6, 1.6),
    "rsqrt, flushed": {"f32": 1.6},
    "sqrt, APPROX": {"f32": 1.0},
    "pow": _through_float32(0.6, 1.0),
    "atan2": _through_float32(0.51, 1.0),
    "truediv, FULL": {"f32": 2.0},
    "truediv, APPROX": {"f32": 2.0},
}
BOUNDS: dict[str, dict[str, dict[str, float]]] = {
    "reference": {
        name: {"f32": 0.51} if function.float32_only else _stated(0.51, 0.51, 0.51, _LONG_DOUBLE)
        for name, function in FUNCTIONS.items()
    },
    "cpu": _CPU,
    # The formulas of the CPU, and NVIDIA's fast instructions, whose errors the PTX manual states.
    "gpu": _CPU
    | {
        "exp": _through_float32(2.0, 1.1),
        "exp, APPROX": {"f32": 65.0},
        "exp2": _through_float32(2.5, 1.25),
        "exp2, flushed": {"f32": 2.25},
        "tanh": _through_float32(2.0, 2.75),
        "tanh, APPROX": {"f32": 135.0},
        "truediv, FULL": {"f32": 2.25},
        "truediv, APPROX": {"f32": 2.25},
    },
    # NVIDIA's device library and its fast instructions, as measured on all float32 values.
    "triton": {
        "exp": _through_float32(2.0, 1.0),
        "exp, APPROX": {"f32": 65.0},
        "exp2": _through_float32(2.5, 1.0),
        "exp2, flushed": {"f32": 2.25},
        "log": _through_float32(1.0, 1.0),
        "log2": _through_float32(1.0, 1.5),
        "sin": _through_float32(1.6, 1.6),
        "cos": _through_float32(1.6, 1.6),
        "tan": _through_float32(3.25, 1.75),
        "sinh": _through_float32(3.0, 1.5),
        "cosh": _through_float32(2.5, 1.5),
        "tanh": _through_float32(2.0, 1.5),
        "tanh, APPROX": {"f32": 135.0},
        "rsqrt": _through_float32(1.6, 1.0),
        "rsqrt, flushed": {"f32": 1.6},
        "sqrt, APPROX": {"f32": 1.0},
        "pow": _through_float32(9.0, 2.0),
        "atan2": _through_float32(2.5, 1.75),
        "truediv, FULL": {"f32": 2.25},
        "truediv, APPROX": {"f32": 2.25},
    },
}
