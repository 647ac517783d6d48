"""Arithmetic in every rounding mode, through kernels on each backend, against MPFR: bit for bit."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from support.elementwise import BACKENDS, apply, ir_apply
from support.mpfr_oracle import MODES, assert_same, exactly, rounded
from support.values import triples

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode
from tilewright.ir.ops.arith import Fma

SIZE = 11_000
OPERATIONS = {"add": ct.add, "sub": ct.sub, "mul": ct.mul, "div": ct.truediv, "sqrt": ct.sqrt}
OPERANDS = {"add": 2, "sub": 2, "mul": 2, "div": 2, "sqrt": 1, "fma": 3}
LEAST_NORMAL = 2.0**-126

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


@functools.cache
def samples(dtype: DType, flushed: bool) -> list[np.ndarray]:
    values = triples(dtype, SIZE)
    assert values[0].size >= 100_000
    return [flush(x) for x in values] if flushed else values


@functools.cache
def exact_samples(dtype: DType, flushed: bool) -> list[list[Any]]:
    return [exactly(values) for values in samples(dtype, flushed)]


@functools.cache
def expected(name: str, dtype: DType, mode: RoundingMode, flushed: bool) -> np.ndarray:
    result = rounded(name, dtype, mode, *exact_samples(dtype, flushed)[: OPERANDS[name]])
    return flush(result) if flushed else result


def flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < LEAST_NORMAL, np.copysign(x.dtype.type(0), x), x)


def formula(name: str, mode: RoundingMode, flushed: bool) -> Any:
    operation = OPERATIONS[name]
    return lambda *operands: operation(*operands, rounding_mode=mode, flush_to_zero=flushed)


def check(backend: str, name: str, dtype: DType, flushed: bool) -> None:
    operands = samples(dtype, False)[: OPERANDS[name]]
    if name == "fma":  # no function of the Python language, but an operation of Tile C++
        got = [ir_apply(backend, Fma, operands, dtype, rounding=m, flush_to_zero=flushed) for m in MODES]
    else:
        got = apply(backend, [formula(name, m, flushed) for m in MODES], operands, [dtype.storage] * len(MODES))
    for mode, result in zip(MODES, got):
        assert_same(result, expected(name, dtype, mode, flushed), *operands)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
@pytest.mark.parametrize("name", OPERANDS)
def test_every_mode(backend: str, name: str, dtype: DType) -> None:
    check(backend, name, dtype, False)


@pytest.mark.parametrize("name", OPERANDS)
def test_flush_to_zero(backend: str, name: str) -> None:
    check(backend, name, dtypes.float32, True)


def test_operators_round_to_nearest(backend: str) -> None:
    a, b, _ = samples(dtypes.float32, False)
    got = apply(
        backend,
        [
            lambda x, y: x + y,
            lambda x, y: x - y,
            lambda x, y: x * y,
            lambda x, y: x / y,
        ],
        [a, b],
        [np.float32] * 4,
    )
    for name, result in zip(("add", "sub", "mul", "div"), got):
        assert_same(result, expected(name, dtypes.float32, RoundingMode.RN, False), a, b)


def test_products_and_sums_are_not_contracted(backend: str) -> None:
    """x * y + z has two roundings: (1 + u)**2 - (1 + 2u) is 0, though u**2 exactly."""
    for dtype, u in ((np.float16, 2.0**-10), (np.float32, 2.0**-23), (np.float64, 2.0**-52)):
        x, z = np.full(64, 1 + u, dtype), np.full(64, -(1 + 2 * u), dtype)
        (got,) = apply(backend, [lambda x, y, z: x * y + z], [x, x, z], [dtype])
        assert not got.any()


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_remainder_and_floor_division(backend: str, dtype: DType) -> None:
    """% is exact but for the addition that brings it to the side of the divisor, which rounds; // is floor(x / y)."""
    a, b, _ = samples(dtype, False)
    remainder, quotient = apply(
        backend,
        [
            lambda x, y: x % y,
            lambda x, y: x // y,
        ],
        [a, b],
        [dtype.storage] * 2,
    )
    with np.errstate(all="ignore"):
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        rest = np.fmod(wide_a, wide_b)
        other_side = (rest != 0) & (np.signbit(rest) != np.signbit(wide_b))
        exact = np.where(rest == 0, np.copysign(0.0, wide_b), rest)
        moved = rounded("add", dtype, RoundingMode.RN, exactly(exact[other_side]), exactly(wide_b[other_side]))
        exact[other_side] = moved
        assert_same(remainder, exact, a, b)
        assert_same(quotient, np.floor(expected("div", dtype, RoundingMode.RN, False)), a, b)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_exact_operations(backend: str, dtype: DType) -> None:
    """floor, ceil, negation, absolute value and tests for NaN."""
    (a, *_) = samples(dtype, False)
    with np.errstate(all="ignore"):
        wide = a.astype(np.float64)
    formulas = [
        lambda x: ct.floor(x),
        lambda x: ct.ceil(x),
        lambda x: -x,
        lambda x: abs(x),
        lambda x: ct.isnan(x),
    ]
    got = apply(backend, formulas, [a], [dtype.storage] * 4 + [np.bool_])
    for result, meaning in zip(got, (np.floor, np.ceil, np.negative, np.abs)):
        assert_same(result, meaning(wide), a)
    np.testing.assert_array_equal(got[4], np.isnan(wide))
