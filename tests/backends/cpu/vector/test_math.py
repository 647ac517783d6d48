"""Mathematical functions against MPFR: error bounds in ulp, special values, whole 16-bit domains.

The bounds are those that the back end documents; they hold on the host's instructions and on the oldest ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gmpy2
import numpy as np
import pytest
from element_harness import HOST, LANES, PORTABLE, element_function
from support.mpfr_oracle import assert_same

from tilewright.backends.cpu.vector import HostFeatures
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType

FEATURES = pytest.mark.parametrize("features", [HOST, PORTABLE], ids=["host", "portable"])

# name: MPFR function, intervals to sample beside random bit patterns, bound in ulp for float32 and float64
UNARY: dict[str, tuple[Callable[[Any], Any], list[tuple[float, float]], float, float]] = {
    "exp": (gmpy2.exp, [(-104, 89), (-1, 1), (-745, 710)], 1.1, 1.0),
    "exp2": (gmpy2.exp2, [(-150, 128), (-1, 1), (-1074, 1024)], 1.25, 1.25),
    "log": (gmpy2.log, [(0, 3), (0.99, 1.01), (0.6, 1.5)], 1.0, 1.0),
    "log2": (gmpy2.log2, [(0, 3), (0.99, 1.01), (0.6, 1.5)], 2.0, 1.0),
    "sin": (gmpy2.sin, [(-10, 10), (-6e4, 6e4), (-1e6, 1e6)], 1.6, 1.0),
    "cos": (gmpy2.cos, [(-10, 10), (-6e4, 6e4), (-1e6, 1e6)], 1.6, 1.0),
    "tan": (gmpy2.tan, [(-10, 10), (-6e4, 6e4), (-1e6, 1e6)], 0.51, 2.25),
    "sinh": (gmpy2.sinh, [(-90, 90), (-2, 2), (-711, 711)], 0.51, 1.75),
    "cosh": (gmpy2.cosh, [(-90, 90), (-2, 2), (-711, 711)], 0.51, 1.5),
    "tanh": (gmpy2.tanh, [(-20, 20), (-1, 1), (-0.1, 0.1)], 1.5, 2.5),
    "rsqrt": (lambda x: 1 / gmpy2.sqrt(x), [(0, 4), (0, 1e6)], 1.6, 1.6),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, math.inf, -math.inf, math.nan, 1e-310, -1e-310, 1e-40, -1e-40, 1e38, -1e38]


def precise() -> Any:
    return gmpy2.context(precision=200, emin=-(1 << 30), emax=1 << 30)


def samples(dtype: DType, intervals: list[tuple[float, float]], size: int) -> np.ndarray:
    rng = np.random.default_rng(11)
    bits = rng.integers(0, 1 << dtype.bitwidth, size, dtype=f"u{dtype.bytes}").view(dtype.storage)
    multiples = (np.arange(200) * (math.pi / 4)).astype(dtype.storage)
    parts = [rng.uniform(low, high, size).astype(dtype.storage) for low, high in intervals]
    return np.concatenate([bits, multiples, *parts, np.array(SPECIAL).astype(dtype.storage)])


def check(dtype: DType, got: np.ndarray, exact: list[Any], bound: float, *operands: np.ndarray) -> None:
    """Errors stay within ``bound`` ulp; infinities, NaN and zeros are exactly right."""
    nearest = np.array([float(v) for v in exact])
    with np.errstate(all="ignore"):
        fitted = nearest.astype(dtype.storage).astype(np.float64)
    regular = np.isfinite(fitted) & np.isfinite(got.astype(np.float64)) & (nearest != 0)
    assert_same(got[~regular], fitted[~regular], *(x[~regular] for x in operands))
    smallest = math.ldexp(1.0, 2 - (1 << (dtype.exponent_bits - 1)))
    spacing = np.exp2(np.floor(np.log2(np.maximum(np.abs(fitted), smallest))) - dtype.mantissa_bits)
    error = [
        float(abs(gmpy2.mpfr(g) - e)) / s if r else 0.0
        for g, e, s, r in zip(got.astype(np.float64).tolist(), exact, spacing.tolist(), regular.tolist())
    ]
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{error[worst]:.3f} ulp at {[x[worst] for x in operands]}: {got[worst]}"


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, lanes: int | None, features: HostFeatures) -> None:
    function, intervals, bound32, bound64 = UNARY[name]
    for dtype, bound in ((dtypes.float32, bound32), (dtypes.float64, bound64)):
        x = samples(dtype, intervals, 1500)
        with precise():
            exact = [function(gmpy2.mpfr(v)) for v in x.tolist()]
            check(dtype, element_function(name, dtype, lanes=lanes, features=features)(x), exact, bound, x)


@pytest.mark.parametrize("name", UNARY)
def test_float32_in_bulk(name: str) -> None:
    """Many more float32 values, with NumPy's float64 functions as the measure."""
    if name == "rsqrt":
        reference = lambda x: 1 / np.sqrt(x)
    else:
        reference = getattr(np, name)
    x = samples(dtypes.float32, UNARY[name][1], 100_000)
    got = element_function(name, dtypes.float32)(x)
    exact = reference(x.astype(np.float64))
    fitted = exact.astype(np.float32)
    regular = np.isfinite(fitted) & (exact != 0)
    assert_same(got[~regular], fitted[~regular].astype(np.float64), x[~regular])
    spacing = np.spacing(np.maximum(np.abs(fitted[regular]), np.float32(2.0**-126))).astype(np.float64)
    error = np.abs(got[regular].astype(np.float64) - exact[regular]) / spacing
    worst = int(np.argmax(error))
    assert error[worst] <= UNARY[name][2], f"{error[worst]:.3f} ulp at {x[regular][worst]}"


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", UNARY)
def test_sixteen_bits(name: str, lanes: int | None) -> None:
    """Every float16 and bfloat16 value, to about half a unit of theirs."""
    for dtype in (dtypes.float16, dtypes.bfloat16):
        x = np.arange(1 << 16, dtype=np.uint16).view(dtype.storage)
        wide = element_function(name, dtypes.float32, lanes=lanes)(x.astype(np.float32))
        got = element_function(name, dtype, lanes=lanes)(x)
        assert_same(got, wide.astype(dtype.storage).astype(np.float64), x)


def python_pow(x: float, y: float) -> float:
    """C's pow on special values, by way of math.pow."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
    except ValueError:
        if x != 0:
            return math.nan
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf


def pow_samples(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    rng, n = np.random.default_rng(12), 1500
    bits = [rng.integers(0, 1 << dtype.bitwidth, n, dtype=f"u{dtype.bytes}").view(dtype.storage) for _ in range(2)]
    base = [bits[0], np.abs(bits[0]), rng.uniform(0.5, 2, n), rng.uniform(-5, 5, n), 1 + rng.uniform(-1e-4, 1e-4, n)]
    exponent = [bits[1], rng.uniform(-2, 2, n), rng.uniform(-900, 900, n), np.round(rng.uniform(-300, 300, n))]
    exponent.append(rng.uniform(-1e6, 1e6, n))
    special = np.array([*SPECIAL, 3.0, -3.0, 2.5, 1e300, 2.0**53 + 1])
    base.append(np.repeat(special, len(special)))
    exponent.append(np.tile(special, len(special)))
    return (
        np.concatenate([v.astype(dtype.storage) for v in base]),
        np.concatenate([v.astype(dtype.storage) for v in exponent]),
    )


def is_regular(*values: float) -> bool:
    return all(math.isfinite(v) and v != 0 for v in values)


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float64), ids=str)
def test_pow(dtype: DType, lanes: int | None, features: HostFeatures) -> None:
    x, y = pow_samples(dtype)
    with precise():
        exact = [
            gmpy2.mpfr(a) ** gmpy2.mpfr(b)
            if is_regular(a, b) and (a > 0 or b == int(b))
            else gmpy2.mpfr(python_pow(a, b))
            for a, b in zip(x.tolist(), y.tolist())
        ]
        got = element_function("pow", dtype, dtype, lanes=lanes, features=features)(x, y)
        check(dtype, got, exact, 0.51 if dtype is dtypes.float32 else 1.0, x, y)


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.float64), ids=str)
def test_atan2(dtype: DType, lanes: int | None, features: HostFeatures) -> None:
    y, x = pow_samples(dtype)
    near = np.random.default_rng(13).uniform(0.41, 0.42, x.size).astype(dtype.storage)
    y, x = np.concatenate([y, near * x]), np.concatenate([x, x])
    with precise():
        exact = [
            gmpy2.atan2(gmpy2.mpfr(a), gmpy2.mpfr(b)) if is_regular(a, b) else gmpy2.mpfr(math.atan2(a, b))
            for a, b in zip(y.tolist(), x.tolist())
        ]
        got = element_function("atan2", dtype, dtype, lanes=lanes, features=features)(y, x)
        check(dtype, got, exact, 0.51 if dtype is dtypes.float32 else 1.0, y, x)


def test_huge_angles() -> None:
    """The hardest float64 for the reduction modulo pi/2, and the largest numbers."""
    x = np.array([6381956970095103 * 2.0**797, 5.319372648326541e255, 1.7976931348623157e308, 2.0**1000, 1e22])
    with precise():
        for name, function in (("sin", gmpy2.sin), ("cos", gmpy2.cos), ("tan", gmpy2.tan)):
            exact = [function(gmpy2.mpfr(v)) for v in x.tolist()]
            check(dtypes.float64, element_function(name, dtypes.float64)(x), exact, UNARY[name][3], x)
