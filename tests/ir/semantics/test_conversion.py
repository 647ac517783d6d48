"""Casts, bitcasts and constants against ml_dtypes, NumPy and MPFR: exhaustive from 8- and 16-bit dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.formats import as_ml_dtypes
from support.mpfr_oracle import MODES, assert_same, oracle
from support.values import all_values, floats, integers

from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import PaddingMode, RoundingMode
from tilewright.ir.ops.memory import padding_value
from tilewright.ir.semantics import constant_array, evaluate

NARROW = (dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.float8_e8m0fnu, dtypes.float4_e2m1fn)
IEEE = (*dtypes.FLOATS, dtypes.tfloat32, dtypes.float8_e5m2)


def cast(values: np.ndarray, source: DType, target: DType, mode: RoundingMode = RoundingMode.RN) -> np.ndarray:
    got = evaluate("cast", source, {"dtype": target, "rounding": mode}, [values])
    assert got.dtype == target.storage
    return got


def samples(dtype: DType, size: int) -> np.ndarray:
    return all_values(dtype) if dtype.bitwidth <= 16 else floats(dtype, size)


@pytest.mark.parametrize("target", NARROW, ids=str)
@pytest.mark.parametrize("source", (*NARROW, dtypes.float16, dtypes.bfloat16, dtypes.float32), ids=str)
def test_to_narrow_formats_as_ml_dtypes(source: DType, target: DType) -> None:
    values = samples(source, 20000)
    expected = values if source is target else as_ml_dtypes(values, target)
    np.testing.assert_array_equal(cast(values, source, target).view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("target", IEEE, ids=str)
@pytest.mark.parametrize("source", (*IEEE, dtypes.float8_e4m3fn), ids=str)
def test_every_mode(source: DType, target: DType) -> None:
    values = samples(source, 2000)[::7] if source.bitwidth <= 16 else floats(source, 2000)
    for mode in MODES:
        got = cast(values, source, target, mode)
        assert_same(got, oracle("cast", target, mode, values), values)


def test_tf32_values_have_ten_mantissa_bits() -> None:
    got = cast(floats(dtypes.float32, 2000), dtypes.float32, dtypes.tfloat32)
    finite = got[np.isfinite(got)]
    assert not (finite.view(np.uint32) & 0x1FFF).any()


@pytest.mark.parametrize("target", [dtypes.float16, dtypes.tfloat32, dtypes.float32], ids=str)
def test_nearest_with_ties_away(target: DType) -> None:
    source = dtypes.float64 if target is dtypes.float32 else dtypes.float32
    spacing = 2.0**-target.mantissa_bits
    values = np.array([1 + spacing / 2, 1 + spacing * 0.49, -1 - spacing / 2, 1 + spacing * 1.5, 65520.0, math.nan])
    large = {dtypes.float16: math.inf, dtypes.tfloat32: 65536.0, dtypes.float32: 65520.0}[target]
    expected = np.array([1 + spacing, 1, -1 - spacing, 1 + 2 * spacing, large, math.nan])
    values = values.astype(source.storage)
    assert_same(cast(values, source, target, RoundingMode.RA), expected, values)


def test_powers_of_two() -> None:
    values = [1.0, 1.25, 1.5, 2.0, 3.0, 2.0**-127, 1.5 * 2.0**-127, 2.0**-140, 1.7 * 2.0**127, -1, 0, -0.0, math.inf]
    nan, least = math.nan, 2.0**-127
    down = [1, 1, 1, 2, 2, least, least, least, 2.0**127, nan, least, least, nan]
    up = [1, 2, 2, 2, 4, least, 2.0**-126, least, nan, nan, least, least, nan]
    for mode, expected in ((RoundingMode.RZ, down), (RoundingMode.RP, up)):
        got = cast(np.array(values), dtypes.float64, dtypes.float8_e8m0fnu, mode)
        assert_same(got, np.array(expected, np.float64), np.array(values))


def test_unsigned_8_bit_float() -> None:
    """Every code survives; between two codes the nearer one is taken, ties to even; no sign, no infinity."""
    e5m3 = dtypes.float8_e5m3fnu
    codes = np.arange(256, dtype=np.uint8)
    wide = cast(codes, e5m3, dtypes.float64)
    expected = [m / 8 * 2.0**-14 if e == 0 else (1 + m / 8) * 2.0 ** (e - 15) for e in range(32) for m in range(8)]
    np.testing.assert_array_equal(wide, [*expected[:255], math.nan])
    np.testing.assert_array_equal(cast(wide, dtypes.float64, e5m3), codes)
    middles = (wide[:254] + wide[1:255]) / 2
    np.testing.assert_array_equal(cast(middles, dtypes.float64, e5m3), codes[:254] + codes[:254] % 2)
    special = np.array([-1.0, math.inf, math.nan, -0.0, 1e6, -1e-30])
    np.testing.assert_array_equal(cast(special, dtypes.float64, e5m3), [255, 255, 255, 0, 255, 255])


@pytest.mark.parametrize("target", IEEE, ids=str)
@pytest.mark.parametrize("source", dtypes.INTEGERS, ids=str)
def test_integer_to_float(source: DType, target: DType) -> None:
    values = integers(source, 1000)
    for mode in MODES:
        assert_same(cast(values, source, target, mode), oracle("cast", target, mode, values), values)


def test_one_rounding_only() -> None:
    number = np.array([(1 << 60) + (1 << 52) + 1], np.int64)
    assert cast(number, dtypes.int64, dtypes.bfloat16)[0] == 2.0**60 + 2.0**53
    assert cast(np.array([1 + 2.0**-8 + 2.0**-40]), dtypes.float64, dtypes.bfloat16)[0] == 1 + 2.0**-7


@pytest.mark.parametrize("source", (*dtypes.FLOATS, *NARROW), ids=str)
def test_float_to_integer(source: DType) -> None:
    """Truncates, saturates, and takes NaN to 0."""
    values = samples(source, 3000)[:: 5 if source.bitwidth == 16 else 1]
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.float64).tolist()
    for target in dtypes.INTEGERS:
        limited = [0.0 if math.isnan(v) else min(max(v, -1e300), 1e300) for v in numbers]
        expected = [min(max(int(v), target.min), target.max) for v in limited]
        np.testing.assert_array_equal(cast(values, source, target), np.array(expected, target.storage), target.name)


def test_integer_to_integer_wraps() -> None:
    for source in dtypes.INTEGERS:
        values = integers(source, 200)
        for target in dtypes.INTEGERS:
            span = 1 << target.bitwidth
            expected = [(v - target.min) % span + target.min for v in values.tolist()]
            np.testing.assert_array_equal(cast(values, source, target), np.array(expected, target.storage))


def test_bool() -> None:
    for source in (dtypes.int8, dtypes.uint64, *dtypes.FLOATS, dtypes.float8_e5m2, dtypes.float4_e2m1fn):
        values = np.array([0, 1, 2, 0.5, -0.0, 3]).astype(source.storage)
        np.testing.assert_array_equal(cast(values, source, dtypes.bool_), values.astype(np.float64) != 0)
    assert cast(np.array([math.nan], np.float32), dtypes.float32, dtypes.bool_)[0]
    for target in (*dtypes.INTEGERS, *IEEE):
        np.testing.assert_array_equal(cast(np.array([False, True]), dtypes.bool_, target).astype(np.float64), [0, 1])


def test_bitcast() -> None:
    bits = np.random.default_rng(5).integers(0, 1 << 64, 100, dtype=np.uint64)
    got = evaluate("bitcast", dtypes.uint64, {"dtype": dtypes.float64}, [bits])
    np.testing.assert_array_equal(evaluate("bitcast", dtypes.float64, {"dtype": dtypes.uint64}, [got]), bits)
    scalar = evaluate("bitcast", dtypes.float32, {"dtype": dtypes.int32}, [np.array(1.0, np.float32)])
    assert scalar.shape == () and scalar == 0x3F800000


def test_constants() -> None:
    for dtype in (*NARROW, *dtypes.FLOATS):
        for value in (1.0, 1.3, 5.5, 464.0, 1e-3, 2.0**-24, 3.0, 0.0, -0.0):
            with np.errstate(all="ignore"):
                expected = as_ml_dtypes(np.array([value]), dtype) if dtype in NARROW else dtype.storage.type(value)
            got = constant_array(value, dtype, (2, 4))
            assert got.shape == (2, 4) and got.dtype == dtype.storage
            assert got.tobytes() == np.full((2, 4), expected).tobytes()
    assert constant_array(300, dtypes.int8, ()) == 44
    assert constant_array(1 + 2.0**-11, dtypes.tfloat32, ()) == 1
    assert constant_array((1 << 60) + (1 << 52) + 1, dtypes.bfloat16, ()) == 2.0**60 + 2.0**53
    assert constant_array(True, dtypes.bool_, (1,)).dtype == np.bool_
    assert constant_array(1 << 100, dtypes.float64, ()) == 2.0**100


def test_paddings() -> None:
    for dtype in dtypes.ALL_DTYPES:
        for mode in PaddingMode:
            assert constant_array(padding_value(mode, dtype), dtype, (2,)).dtype == dtype.storage
    assert constant_array(padding_value(PaddingMode.NEG_INF, dtypes.int32), dtypes.int32, ()) == -(2**31)
    assert np.signbit(constant_array(padding_value(PaddingMode.NEG_ZERO, dtypes.float16), dtypes.float16, ()))
