"""Functions of one element against Python's ``math`` in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.elementwise import apply

from tilewright import lib

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


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda t: t.__name__)
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


def test_round_is_that_of_numpy(backend: str) -> None:
    x = np.concatenate([samples(np.float32), np.arange(-20, 20) / 2, [0.49999997, -0.49999997, 8388609.0, 2.0**30]])
    x = x.astype(np.float32)
    (got,) = apply(backend, [lib.round], [x], [np.float32])
    np.testing.assert_array_equal(got, np.round(x))
    zero = np.round(x) == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(np.round(x)[zero]))


def test_gated_units_and_clamp(backend: str) -> None:
    rng = np.random.default_rng(6)
    gate, up = rng.standard_normal((2, 500)).astype(np.float32)
    units = [lib.swiglu, lib.geglu, lambda g, u: lib.clamp(g, -0.5, u)]
    swiglu, geglu, clamped = apply(backend, units, [gate, up], [np.float32] * 3)
    np.testing.assert_allclose(swiglu, [_silu(g) * u for g, u in zip(gate, up)], rtol=1e-6)
    np.testing.assert_allclose(geglu, [_gelu(g) * u for g, u in zip(gate, up)], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(clamped, np.minimum(np.maximum(gate, np.float32(-0.5)), up))
