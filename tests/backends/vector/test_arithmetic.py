"""Floating-point arithmetic in every rounding mode against MPFR, bit for bit."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from element_harness import HOST, LANES, PORTABLE, element_function
from support.mpfr_oracle import MODES, assert_same, exactly, rounded
from support.values import triples

from tilewright.backends.vector import HostFeatures
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import CmpPredicate, RoundingMode

OPERANDS = {"add": 2, "sub": 2, "mul": 2, "div": 2, "sqrt": 1, "fma": 3}
FEATURES = pytest.mark.parametrize("features", [HOST, PORTABLE], ids=["host", "portable"])
SIZE = 3000


def samples(dtype: DType) -> list[np.ndarray]:
    return triples(dtype, SIZE)


@functools.cache
def exact_samples(dtype: DType) -> list[list[object]]:
    return [exactly(values) for values in samples(dtype)]


@functools.cache
def expected(name: str, dtype: DType, mode: RoundingMode) -> np.ndarray:
    return rounded(name, dtype, mode, *exact_samples(dtype)[: OPERANDS[name]])


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_rounding(dtype: DType, name: str, lanes: int | None, features: HostFeatures) -> None:
    operands = samples(dtype)[: OPERANDS[name]]
    for mode in MODES:
        function = element_function(name, *[dtype] * len(operands), lanes=lanes, features=features, rounding=mode)
        assert_same(function(*operands), expected(name, dtype, mode), *operands)


@pytest.mark.parametrize("mode", [RoundingMode.FULL, RoundingMode.APPROX], ids=lambda m: m.name)
def test_imprecise_modes_are_exact(mode: RoundingMode) -> None:
    a, b, _ = samples(dtypes.float32)
    got = element_function("div", dtypes.float32, dtypes.float32, rounding=mode)(a, b)
    assert_same(got, expected("div", dtypes.float32, RoundingMode.RN), a, b)


def flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(0.0, x), x)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", OPERANDS)
def test_flush_to_zero(name: str, lanes: int | None) -> None:
    operands = [flushed(x) for x in samples(dtypes.float32)[: OPERANDS[name]]]
    exact = [exactly(x) for x in operands]
    for mode in MODES:
        dtypes_ = [dtypes.float32] * len(operands)
        function = element_function(name, *dtypes_, lanes=lanes, rounding=mode, flush_to_zero=True)
        got = function(*samples(dtypes.float32)[: OPERANDS[name]])
        assert_same(got, flushed(rounded(name, dtypes.float32, mode, *exact)), *operands)


def test_flush_to_zero_of_functions() -> None:
    x = np.array([-130.0, -126.0, -125.5, 2.0**-140, math.inf, 1.0], np.float32)
    exp2 = element_function("exp2", dtypes.float32, flush_to_zero=True)(x)
    np.testing.assert_array_equal(exp2[[0, 1, 3, 5]], [0.0, 2.0**-126, 1.0, 2.0])
    rsqrt = element_function("rsqrt", dtypes.float32, flush_to_zero=True)(np.array([2.0**-140, -(2.0**-140), 4.0]))
    np.testing.assert_array_equal(rsqrt, [math.inf, -math.inf, 0.5])
    low = element_function("min", dtypes.float32, dtypes.float32, flush_to_zero=True)
    assert_same(low(np.array([-(2.0**-140)]), np.array([1.0])), np.array([-0.0]))


@pytest.mark.parametrize("lanes", LANES)
def test_no_contraction(lanes: int | None) -> None:
    """A product and a sum keep their two roundings: (1 + u)**2 - (1 + 2u) is 0, though u**2 exactly."""
    u = 2.0**-23
    one = np.array([1 + u], np.float32)
    product = element_function("mul", dtypes.float32, dtypes.float32, lanes=lanes)(one, one)
    total = element_function("sub", dtypes.float32, dtypes.float32, lanes=lanes)(product, np.float32(1 + 2 * u))
    assert total[0] == 0
    fused = element_function("fma", *[dtypes.float32] * 3, lanes=lanes)(one, one, np.float32(-(1 + 2 * u)))
    assert fused[0] == u * u


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_remainder(dtype: DType, lanes: int | None, features: HostFeatures) -> None:
    """RZ is fmod, RM is Python's %; both exact but for the last addition of RM."""
    a, b, _ = samples(dtype)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    fmod = np.fmod(wide_a, wide_b)
    got = element_function("rem", dtype, dtype, lanes=lanes, features=features, rounding=RoundingMode.RZ)(a, b)
    assert_same(got, fmod, a, b)
    for mode, toward in ((RoundingMode.RM, b), (RoundingMode.RP, -b)):
        rest = fmod.astype(dtype.storage)
        other_side = (fmod != 0) & (np.signbit(fmod) != np.signbit(toward))
        moved = np.where(other_side, rest + toward, rest).astype(np.float64)
        expected_rest = np.where(fmod == 0, np.copysign(0.0, toward.astype(np.float64)), moved)
        got = element_function("rem", dtype, dtype, lanes=lanes, features=features, rounding=mode)(a, b)
        assert_same(got, expected_rest, a, b)
        if mode is RoundingMode.RM and dtype is dtypes.float64:
            assert_same(got, np.mod(a, b), a, b)


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_minimum_maximum(dtype: DType, lanes: int | None, features: HostFeatures) -> None:
    a, b, _ = samples(dtype)
    for name, sign in (("min", -1.0), ("max", 1.0)):
        key_a, key_b = (sign * x.astype(np.float64) for x in (a, b))
        zeros = (key_a == 0) & (key_b == 0)
        first = np.where(zeros, np.signbit(key_a) <= np.signbit(key_b), key_a >= key_b)
        ordered = np.where(first, a, b).astype(np.float64)
        nan = np.isnan(key_a) | np.isnan(key_b)
        dropped = np.where(np.isnan(key_a), b, a).astype(np.float64)
        for propagate, when_nan in ((True, np.full(len(a), math.nan)), (False, dropped)):
            function = element_function(name, dtype, dtype, lanes=lanes, features=features, propagate_nan=propagate)
            assert_same(function(a, b), np.where(nan, when_nan, ordered), a, b)


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_exact_operations(dtype: DType, lanes: int | None, features: HostFeatures) -> None:
    a, b, _ = samples(dtype)
    wide, other = a.astype(np.float64), b.astype(np.float64)
    for name, meaning in {"neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil}.items():
        got = element_function(name, dtype, lanes=lanes, features=features)(a)
        assert_same(got, meaning(wide), a)
    for name, test in {"isnan": np.isnan, "isinf": np.isinf}.items():
        got = element_function(name, dtype, result=dtypes.bool_, lanes=lanes, features=features)(a)
        np.testing.assert_array_equal(got, test(wide))
    names = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    for predicate, name in zip(CmpPredicate, names):
        compare = element_function("cmp", dtype, dtype, result=dtypes.bool_, lanes=lanes, predicate=predicate)
        np.testing.assert_array_equal(compare(a, b), getattr(np, name)(wide, other), name)
