"""Correct rounding of float arithmetic in every mode, against MPFR; remainders, extremes and math functions."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from support.mpfr_oracle import MODES, assert_same, oracle
from support.values import all_values, floats

from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode
from tilewright.ir.semantics import evaluate

ARITY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "sqrt": 1, "fma": 3}
SIXTEEN = (dtypes.float16, dtypes.bfloat16)


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
@pytest.mark.parametrize("name", ARITY)
def test_rounding(name: str, dtype: DType, mode: RoundingMode) -> None:
    operands = [floats(dtype, 1500, seed) for seed in range(ARITY[name])]
    got = evaluate(name, dtype, {"rounding": mode}, operands)
    assert got.dtype == dtype.storage
    assert_same(got, oracle(name, dtype, mode, *operands), *operands)


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("dtype", SIXTEEN, ids=str)
def test_square_roots_of_all_16_bit_floats(dtype: DType, mode: RoundingMode) -> None:
    values = all_values(dtype)
    assert_same(evaluate("sqrt", dtype, {"rounding": mode}, [values]), oracle("sqrt", dtype, mode, values), values)


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_cancellation_and_underflow(mode: RoundingMode) -> None:
    """Sums whose operands differ by one unit, products that are subnormal, fma results far below an operand."""
    tiny, one = 2.0**-1074, 1.0 + 2.0**-52
    a = np.array([one, 1.0, tiny, 2.0**-540, -(2.0**-540), 2.0**1023, one, 2.0**-600, 1e300])
    b = np.array([-1.0, -1.0, -tiny, 2.0**-535, 2.0**-535, 2.0, one, 2.0**-600, 1e300])
    c = np.array([0.0, -0.0, tiny, tiny, -0.0, -math.inf, -1.0 - 2.0**-51, -0.0, -math.inf])
    for name, operands in (("add", [a, b]), ("mul", [a, b]), ("div", [a, b]), ("fma", [a, b, c])):
        got = evaluate(name, dtypes.float64, {"rounding": mode}, operands)
        assert_same(got, oracle(name, dtypes.float64, mode, *operands), *operands)
    narrow = [np.array(x, np.float32) for x in ([2.0**-80, -(2.0**-80)], [2.0**-80, 2.0**-80], [-0.0, 0.0])]
    got = evaluate("fma", dtypes.float32, {"rounding": mode}, narrow)
    assert_same(got, oracle("fma", dtypes.float32, mode, *narrow), *narrow)


def test_fma_rounds_once() -> None:
    x = np.array([1.0 + 2.0**-10], np.float16)
    got = evaluate("fma", dtypes.float16, {}, [x, x, np.array([-1.0 - 2.0**-9], np.float16)])
    assert float(got[0]) == 2.0**-20


@pytest.mark.parametrize("name", ARITY)
def test_flush_to_zero(name: str) -> None:
    operands = [floats(dtypes.float32, 1000, seed) for seed in range(ARITY[name])]
    least = np.float32(2.0**-126)
    flushed = [np.where(np.abs(x) < least, np.copysign(np.float32(0), x), x) for x in operands]
    expected = oracle(name, dtypes.float32, RoundingMode.RZ, *flushed)
    expected = np.where(np.abs(expected) < least, np.copysign(0, expected), expected)
    attributes = {"rounding": RoundingMode.RZ, "flush_to_zero": True}
    assert_same(evaluate(name, dtypes.float32, attributes, operands), expected, *operands)


def test_flushing_keeps_the_sign_of_small_results() -> None:
    x = np.array([2.0**-126, -(2.0**-126)], np.float32)
    half = np.array([0.5, 0.5], np.float32)
    got = evaluate("mul", dtypes.float32, {"flush_to_zero": True}, [x, half])
    np.testing.assert_array_equal(np.signbit(got), [False, True])
    np.testing.assert_array_equal(got, [0, 0])


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_remainder(dtype: DType) -> None:
    a, b = floats(dtype, 2000, 1), floats(dtype, 2000, 2)
    with np.errstate(all="ignore"):
        wide = a.astype(np.float64), b.astype(np.float64)
        c_style = np.fmod(*wide)
        assert_same(evaluate("rem", dtype, {"rounding": RoundingMode.RZ}, [a, b]), c_style, a, b)
        floor = evaluate("rem", dtype, {"rounding": RoundingMode.RM}, [a, b])
        same_width = [x.astype(np.float32) if dtype.bitwidth == 16 else x for x in (a, b)]
        expected = np.mod(*same_width).astype(dtype.storage).astype(np.float64)
        assert_same(floor, expected, a, b)
        up = evaluate("rem", dtype, {"rounding": RoundingMode.RP}, [a, b])
        assert_same(up, evaluate("rem", dtype, {"rounding": RoundingMode.RM}, [a, -b]).astype(np.float64), a, b)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_extremes_of_special_values(dtype: DType) -> None:
    nan = math.nan
    a = np.array([0.0, -0.0, 1.0, nan, 1.0, nan, -math.inf]).astype(dtype.storage)
    b = np.array([-0.0, 0.0, 2.0, 1.0, nan, nan, nan]).astype(dtype.storage)
    cases = {
        ("min", False): [-0.0, -0.0, 1.0, 1.0, 1.0, nan, -math.inf],
        ("max", False): [0.0, 0.0, 2.0, 1.0, 1.0, nan, -math.inf],
        ("min", True): [-0.0, -0.0, 1.0, nan, nan, nan, nan],
        ("max", True): [0.0, 0.0, 2.0, nan, nan, nan, nan],
    }
    for (name, propagate), expected in cases.items():
        assert_same(evaluate(name, dtype, {"propagate_nan": propagate}, [a, b]), np.array(expected), a, b)


@pytest.mark.parametrize("dtype", SIXTEEN, ids=str)
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh"])
def test_functions_of_all_16_bit_floats(name: str, dtype: DType) -> None:
    values = all_values(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(values.astype(np.float64))
    got = evaluate(name, dtype, {}, [values])
    assert_same(got, oracle("cast", dtype, RoundingMode.RN, expected), values)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_exact_unary_ops(dtype: DType) -> None:
    values = all_values(dtype) if dtype.bitwidth == 16 else floats(dtype, 2000)
    wide = values.astype(np.float64)
    for name, function in {"neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil}.items():
        assert_same(evaluate(name, dtype, {}, [values]), function(wide), values)
    np.testing.assert_array_equal(evaluate("isnan", dtype, {}, [values]), np.isnan(wide))
    np.testing.assert_array_equal(evaluate("isinf", dtype, {}, [values]), np.isinf(wide))
    flipped = evaluate("neg", dtype, {}, [values]).view(f"u{dtype.bytes}") ^ values.view(f"u{dtype.bytes}")
    assert (flipped == 1 << (dtype.bitwidth - 1)).all(), "the sign of a NaN flips too"


def test_special_cases_of_pow_atan2_rsqrt() -> None:
    f32 = dtypes.float32
    a = np.array([1.0, math.nan, -2.0, -8.0, 0.0, 2.0], np.float32)
    b = np.array([math.nan, 0.0, 3.0, 1 / 3, -1.0, 0.5], np.float32)
    expected = np.array([1.0, 1.0, -8.0, math.nan, math.inf, float(np.float32(math.sqrt(2)))])
    assert_same(evaluate("pow", f32, {}, [a, b]), expected, a, b)
    y, x = np.array([0.0, -0.0, 1.0, -0.0], np.float32), np.array([-1.0, -1.0, 0.0, 1.0], np.float32)
    pi = float(np.float32(math.pi))
    assert_same(evaluate("atan2", f32, {}, [y, x]), np.array([pi, -pi, pi / 2, -0.0]), y, x)
    z = np.array([4.0, 0.0, -0.0, math.inf, -1.0, 2.0**-140], np.float32)
    assert_same(evaluate("rsqrt", f32, {}, [z]), np.array([0.5, math.inf, -math.inf, 0.0, math.nan, 2.0**70]), z)
    got = evaluate("rsqrt", f32, {"flush_to_zero": True}, [z])
    assert got[-1] == math.inf


def test_no_numpy_warning_escapes() -> None:
    special = np.array([0.0, -1.0, math.inf, math.nan, 1e38], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("add", "sub", "mul", "div", "pow", "rem", "min"):
            evaluate(name, dtypes.float32, {}, [special, special[::-1].copy()])
        for name in ("sqrt", "log", "log2", "exp", "rsqrt", "cosh"):
            evaluate(name, dtypes.float32, {}, [special])
        evaluate("cast", dtypes.float32, {"dtype": dtypes.int8}, [special])
        evaluate("add", dtypes.int8, {}, [np.array(127, np.int8), np.array(1, np.int8)])
