"""Functions of one element against Python's ``math`` in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.elementwise import apply

import tilewright as ct
from tilewright import lib

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-30, -1e-30, 1e-3, 100.0, -100.0, 0.5, 1.5, 2.5, -2.5]


def samples(dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(5)
    near, wide = rng.standard_normal(3000), rng.standard_normal(1000) * np.exp2(rng.integers(-20, 5, 1000))
    return np.concatenate([SPECIAL, near, wide, np.linspace(-7, 7, 1000)]).astype(dtype)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _silu(x: float) -> float:
    return x * _sigmoid(x)


def _gelu(x: float) -> float:
    return 0.5 * x * math.erfc(-x / math.sqrt(2))


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _log1p(x: float) -> float:
    return math.log1p(x) if x > -1 else -math.inf if x == -1 else math.nan


# The function, what it is in float64, and its largest error in units in the last place, and absolute.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[float], float], float, float]] = {
    "erf": (lib.erf, math.erf, 4, 0),
    "log1p": (lib.log1p, _log1p, 6, 0),
    "sigmoid": (lib.sigmoid, _sigmoid, 4, 1e-30),
    "silu": (lib.silu, _silu, 4, 1e-30),
    "gelu": (lib.gelu, _gelu, 4, 4),
    "gelu tanh": (lambda x: lib.gelu(x, approximate=True), _gelu_tanh, 4, 4),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(backend: str, name: str, dtype: Any) -> None:
    function, exact, ulps, absolute = FUNCTIONS[name]
    x = samples(dtype)
    (got,) = apply(backend, [function], [x], [dtype])
    want = np.array([math.nan if math.isnan(v) else _limit(exact, v) for v in x.astype(float).tolist()])
    eps = float(ml_dtypes.finfo(dtype).eps)
    size = np.maximum(np.abs(want), float(ml_dtypes.finfo(dtype).smallest_normal))
    allowed = eps * (ulps * size + absolute)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isnan(got.astype(float)), np.isnan(want))
    np.testing.assert_array_equal(got[~finite].astype(float), want[~finite])
    error = np.abs(got[finite].astype(float) - want[finite])
    assert (error <= allowed[finite]).all(), (x[finite][np.argmax(error / allowed[finite])], error.max())


def _limit(exact: Callable[[float], float], x: float) -> float:
    try:
        return exact(x)
    except (OverflowError, ValueError):
        return math.nan


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_round_is_that_of_numpy(backend: str, dtype: Any) -> None:
    x = np.concatenate([samples(dtype), np.arange(-20, 20) / 2, [0.49999997, -0.49999997, 8388609.0, 2.0**30]])
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    want = np.round(x.astype(np.float64))
    (got,) = apply(backend, [lib.round], [x], [dtype])
    np.testing.assert_array_equal(got.astype(np.float64), want)
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero].astype(np.float64)), np.signbit(want[zero]))


def test_integers(backend: str) -> None:
    """Integers give float32, but round to themselves."""
    x = np.array([0, 1, -3, 2**24 + 1, 2**31 - 1], np.int32)
    rounded, sigmoid = apply(backend, [lib.round, lib.sigmoid], [x], [np.int32, np.float32])
    np.testing.assert_array_equal(rounded, x)
    np.testing.assert_allclose(sigmoid, [_sigmoid(v) for v in x.tolist()], rtol=1e-6)


def test_numbers(backend: str) -> None:
    """Those of Python give float32, as the functions of the language do."""

    @ct.kernel
    def fill(out, half: ct.Constant[float], number: float):
        ct.store(out, (0,), ct.full((1,), lib.erf(half), ct.float32))
        ct.store(out, (1,), ct.full((1,), lib.gelu(number) + lib.round(2.5) + lib.round(3), ct.float32))
        ct.store(out, (2,), ct.full((1,), lib.swiglu(half, 2.0) + lib.log1p(0.5), ct.float32))

    out = np.zeros(3, np.float32)
    ct.launch(None, (1,), fill, (out, 0.5, 1.0), backend=backend)
    expected = [math.erf(0.5), _gelu(1.0) + 5, 2 * _silu(0.5) + math.log1p(0.5)]
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_allclose(lib.erf(np.float32(0.5)), math.erf(0.5), rtol=1e-6)
    with pytest.raises(ct.TileTypeError, match="expected a tile or a number, got a string"):
        lib.erf("0.5")


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.__name__)
def test_gated_units_and_clamp(backend: str, dtype: Any) -> None:
    rng = np.random.default_rng(6)
    gate, up = rng.standard_normal((2, 500)).astype(dtype)
    units = [lib.swiglu, lib.geglu, lambda g, u: lib.clamp(g, -0.5, u)]
    swiglu, geglu, clamped = (x.astype(np.float64) for x in apply(backend, units, [gate, up], [dtype] * 3))
    g, u, eps = gate.astype(np.float64), up.astype(np.float64), max(float(ml_dtypes.finfo(dtype).eps), 1e-8)
    np.testing.assert_allclose(swiglu, np.vectorize(_silu)(g) * u, rtol=8 * eps, atol=1e-7)
    np.testing.assert_allclose(geglu, np.vectorize(_gelu)(g) * u, rtol=80 * eps, atol=1e-7)
    np.testing.assert_array_equal(clamped, np.minimum(np.maximum(g, -0.5), u))


def test_clamp_keeps_nan(backend: str) -> None:
    (clamped,) = apply(backend, [lambda x: lib.clamp(x, -1, 1)], [np.array([np.nan, 3, -np.inf, 0.5])], [np.float64])
    np.testing.assert_array_equal(clamped, [np.nan, 1, -1, 0.5])
