"""Elementwise operations: every spelling, dtype and mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.tile_code import evaluate, gives, refused, refuses

import tilewright as ct

X = np.arange(32, dtype=np.float32).reshape(4, 8) - 7.5
I = np.arange(32, dtype=np.int32).reshape(4, 8) - 9
J = np.arange(32, dtype=np.int32).reshape(4, 8) % 5 + 1
B = I % 3 == 0
BF16 = ml_dtypes.bfloat16


def test_every_spelling_of_arithmetic(backend: str) -> None:
    """The functions are the operators."""
    gives(
        lambda x, y, b: (
            ct.add(x, y),
            ct.sub(x, 2),
            ct.mul(3, y),
            ct.floordiv(x, y),
            ct.mod(x, y),
            ct.cdiv(x, y),
            *ct.divmod(x, y),
            ct.truediv(x, y),
            ct.minimum(x, y),
            ct.maximum(x, 0),
            ct.negative(x),
            ct.abs(x),
            ct.negative(b),
            ct.bitwise_and(x, y),
            ct.bitwise_or(x, 5),
            ct.bitwise_xor(b, True),
            ct.bitwise_not(x),
            ct.bitwise_lshift(x, y),
            ct.bitwise_rshift(x, 1),
            ct.greater(x, y),
            ct.greater_equal(x, 0),
            ct.less(0, x),
            ct.less_equal(x, y),
            ct.equal(x, y),
            ct.not_equal(b, False),
        ),
        (
            I + J,
            I - 2,
            3 * J,
            I // J,
            I % J,
            -(-I // J),
            I // J,
            I % J,
            I.astype(np.float32) / J.astype(np.float32),
            np.minimum(I, J),
            np.maximum(I, 0),
            -I,
            abs(I),
            -B.astype(np.int32),
            I & J,
            I | 5,
            ~B,
            ~I,
            I << J,
            I >> 1,
            I > J,
            I >= 0,
            I > 0,
            I <= J,
            I == J,
            B,
        ),
        I,
        J,
        B,
    )


MATH = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64, np.int8, bool])
def test_math_keeps_floats_and_makes_float32_of_integers(backend: str, dtype: Any) -> None:
    x = np.array([1, 2, 3, 4]).astype(dtype)
    kept = np.dtype(dtype) if np.dtype(dtype).kind not in "bi" else np.dtype(np.float32)
    functions = tuple(getattr(ct, name) for name in MATH)
    all_of_them = lambda x: tuple(f(x) for f in ct.static_iter(functions))
    found = evaluate(all_of_them, (np.zeros(4, kept),) * len(MATH), x)
    bits = {"float16": 10, "bfloat16": 7, "float32": 21, "float64": 48}[kept.name]
    wide = x.astype(np.float64)
    for name, have in zip(MATH, found):
        want = getattr(np, name)(wide) if name != "rsqrt" else 1 / np.sqrt(wide)
        np.testing.assert_allclose(have.astype(np.float64), want, rtol=2.0**-bits, err_msg=name)


def test_math_of_two_and_the_rest(backend: str) -> None:
    x = np.array([1.5, -2.5, 0.0, np.nan], np.float32)
    gives(
        lambda x: (ct.floor(x), ct.ceil(x), ct.isnan(x), ct.abs(x)), (np.floor(x), np.ceil(x), np.isnan(x), abs(x)), x
    )
    found = evaluate(lambda x: (ct.atan2(x, 2.0), ct.pow(abs(x), 2.5), x**2, x ** ct.int8(3)), (x,) * 4, x)
    for have, want in zip(found, (np.arctan2(x, 2), abs(x) ** 2.5, x**2, x**3)):
        np.testing.assert_allclose(have, want, rtol=1e-6)
    h = np.array([2, 3], np.float16)
    gives(lambda h: (h**2, h ** ct.full((2,), 3, ct.int32)), (h**2, h**3), h)


def test_modes(backend: str) -> None:
    third = np.array([1.0, -1.0], np.float32)

    def divided(x):
        return (
            ct.truediv(x, 3, rounding_mode=ct.RoundingMode.RN),
            ct.truediv(x, 3, rounding_mode=ct.RoundingMode.RZ),
            ct.truediv(x, 3, rounding_mode="RM"),
            ct.truediv(x, 3, rounding_mode="RP"),
        )

    low, high = np.float32(1 / 3) - np.float32(2**-25), np.float32(1 / 3)
    near = third * np.float32(1 / 3)
    gives(divided, (near, third * low, np.array([low, -high], np.float32), np.array([high, -low], np.float32)), third)
    tiny = np.array([1e-40, -1e-40], np.float32)
    zero = np.array([0.0, -0.0], np.float32)
    gives(lambda x: ct.add(x, 0.0, flush_to_zero=True) * 1, np.array([0, 0], np.float32) + 0, tiny)
    gives(lambda x: (ct.mul(x, 1.0, flush_to_zero=True), ct.mul(x, 1.0)), (zero, tiny), tiny)
    for name in ("exp", "tanh"):
        for mode in ("FULL", "APPROX"):
            function = getattr(ct, name)
            found = evaluate(lambda x, function=function, mode=mode: function(x, rounding_mode=mode), third, third)
            np.testing.assert_allclose(found, getattr(np, name)(third), rtol=1e-5)
    for mode in ("FULL", "APPROX"):
        found = evaluate(lambda x, mode=mode: ct.truediv(x, 3.0, rounding_mode=mode), third, third)
        np.testing.assert_allclose(found, third / 3, rtol=1e-6)
    found = evaluate(lambda x: ct.sqrt(abs(x) + 1, rounding_mode=ct.RoundingMode.APPROX), third, third)
    np.testing.assert_allclose(found, np.sqrt(2), rtol=1e-6)


def test_nan_rules(backend: str) -> None:
    x, y = np.array([np.nan, 1, np.nan, -0.0], np.float32), np.array([2, np.nan, np.nan, 0.0], np.float32)
    nan = np.nan
    gives(
        lambda x, y: (
            ct.maximum(x, y),
            ct.minimum(x, y),
            ct.maximum(x, y, propagate_nan=True),
            max(x, y),
            x == x,
            x != x,
            x < y,
        ),
        (
            np.array([2, 1, nan, 0], np.float32),
            np.array([2, 1, nan, -0.0], np.float32),
            np.array([nan, nan, nan, 0], np.float32),
            np.array([2, 1, nan, 0], np.float32),
            np.array([False, True, False, True]),
            np.array([True, False, True, False]),
            np.array([False, False, False, False]),
        ),
        x,
        y,
    )


@refused(
    lambda x, i, b: ct.add(b, b),
    lambda x, i, b: b + b,
    lambda x, i, b: b * True,
    lambda x, i, b: ct.add(x, "1"),
    lambda x, i, b: ct.add(x, None),
    lambda x, i, b: ct.add(x, (1, 2)),
    lambda x, i, b: ct.add(x),
    lambda x, i, b: ct.add(x=x, y=x),
    lambda x, i, b: ct.add(i, i, rounding_mode=ct.RoundingMode.RN),
    lambda x, i, b: ct.add(x, x, rounding_mode=ct.RoundingMode.FULL),
    lambda x, i, b: ct.add(x, x, rounding_mode=ct.RoundingMode.RA),
    lambda x, i, b: ct.add(x, x, rounding_mode=ct.RoundingMode.RZI),
    lambda x, i, b: ct.add(x, x, rounding_mode="nearest_even"),
    lambda x, i, b: ct.add(x, x, rounding_mode=0),
    lambda x, i, b: ct.add(x, x, flush_to_zero=1),
    lambda x, i, b: ct.add(x.astype(ct.float16), 1, flush_to_zero=True),
    lambda x, i, b: ct.add(i, 1, flush_to_zero=True),
    lambda x, i, b: ct.truediv(x.astype(ct.float64), 1, rounding_mode="APPROX"),
    lambda x, i, b: ct.sqrt(x, rounding_mode="FULL"),
    lambda x, i, b: ct.sqrt(x.astype(ct.float16), rounding_mode="APPROX"),
    lambda x, i, b: ct.exp(x, rounding_mode="RN"),
    lambda x, i, b: ct.exp(x.astype(ct.float16), rounding_mode="APPROX"),
    lambda x, i, b: ct.exp(x, flush_to_zero=True),
    lambda x, i, b: ct.exp2(x.astype(ct.float64), flush_to_zero=True),
    lambda x, i, b: ct.log(x, x),
    lambda x, i, b: ct.floor(i),
    lambda x, i, b: ct.ceil(b),
    lambda x, i, b: ct.isnan(i),
    lambda x, i, b: divmod(x, x),
    lambda x, i, b: ct.cdiv(x, x),
    lambda x, i, b: i**i,
    lambda x, i, b: ct.atan2(i, i),
    lambda x, i, b: x & x,
    lambda x, i, b: i & 1.0,
    lambda x, i, b: i & ct.int64(1),
    lambda x, i, b: i & b,
    lambda x, i, b: ~x,
    lambda x, i, b: x << 1,
    lambda x, i, b: i << 1.0,
    lambda x, i, b: b << 1,
    lambda x, i, b: i << ct.uint32(1),
    lambda x, i, b: i + ct.uint32(1),
    lambda x, i, b: x.astype(ct.float16) + x.astype(ct.bfloat16),
    lambda x, i, b: x.astype(ct.tfloat32) + 1,
    lambda x, i, b: x.astype(ct.float8_e4m3fn) * x,
    lambda x, i, b: -x.astype(ct.float8_e5m2),
    lambda x, i, b: ct.maximum(x.astype(ct.float8_e5m2), 0),
    lambda x, i, b: x + ct.zeros((3 + 1, 4), ct.float32),
    lambda x, i, b: ct.minimum(i, i, flush_to_zero=True),
)
def test_mistakes_with_arithmetic(error: type[ct.TileError], bad: Callable[..., Any]) -> None:
    refuses(bad, error, X, I, B)
