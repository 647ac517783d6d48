"""Storage forms, constants and casts against ml_dtypes, NumPy and MPFR: exhaustive from 8- and 16-bit dtypes."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from element_harness import HOST, LANES, PORTABLE, element_function
from support.formats import as_ml_dtypes
from support.mpfr_oracle import assert_same, exactly, rounded

from tilewright.backends.vector import HostFeatures, constant
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

NARROW = (dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.float8_e8m0fnu, dtypes.float4_e2m1fn)
SIXTEEN = (dtypes.float16, dtypes.bfloat16)
FEATURES = pytest.mark.parametrize("features", [HOST, PORTABLE], ids=["host", "portable"])
UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def all_values(dtype: DType) -> np.ndarray:
    count = 1 << dtype.bitwidth
    return np.arange(count, dtype=f"u{dtype.bytes}").view(dtype.storage)


def floats(dtype: DType, size: int = 20000, seed: int = 0) -> np.ndarray:
    """Values of a float dtype: all of up to 16 bits, else random bits, random magnitudes near 1, and edges."""
    if dtype.bitwidth <= 16:
        return all_values(dtype)
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 1 << dtype.bitwidth, size, dtype=f"u{dtype.bytes}").view(dtype.storage)
    near = rng.standard_normal(size) * np.exp2(rng.integers(-30, 30, size))
    ties = np.round(near * 64) / 64 + rng.integers(-1, 2, size) * 2.0**-40
    edges = [0.0, -0.0, math.inf, -math.inf, math.nan, 65504, 65519.99, 65520, 3.3895e38, 3.4e38, 464, 464.5, 61440]
    edges += [2.0**k * f for k in (-127, -126, -149, -150, -134, -133, -24, -25, -14, -9, -10) for f in (1, 1.5, -1)]
    values = np.concatenate(
        [raw, near.astype(dtype.storage), ties.astype(dtype.storage), np.array(edges, dtype.storage)]
    )
    if dtype is dtypes.tfloat32:
        return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", (*NARROW, *SIXTEEN, dtypes.float8_e5m3fnu), ids=str)
def test_storage_round_trip(dtype: DType, lanes: int | None, features: HostFeatures) -> None:
    """Every bit pattern survives a load and a store, NaN as some NaN."""
    bits = all_values(dtype)
    stored = element_function("bitcast", dtype, result=UNSIGNED[dtype.bytes], lanes=lanes, features=features)(bits)
    raw = bits.view(stored.dtype)
    if dtype is dtypes.float8_e5m3fnu:
        nan = raw == 0xFF
    else:
        nan = np.isnan(bits.astype(np.float32))
    np.testing.assert_array_equal(stored[~nan], raw[~nan])
    if nan.any() and dtype is not dtypes.float8_e5m3fnu:
        assert np.isnan(stored[nan].view(dtype.storage).astype(np.float32)).all()


@FEATURES
@pytest.mark.parametrize("dtype", (*NARROW, *SIXTEEN), ids=str)
def test_load_value(dtype: DType, features: HostFeatures) -> None:
    values = all_values(dtype)
    wide = element_function("cast", dtype, result=dtypes.float32, features=features)(values)
    assert_same(wide, values.astype(np.float32).astype(np.float64), values)


def test_e5m3_values() -> None:
    got = element_function("cast", dtypes.float8_e5m3fnu, result=dtypes.float32)(np.arange(256, dtype=np.uint8))
    expected = [
        (m / 8 * 2.0**-14) if e == 0 else (1 + m / 8) * 2.0 ** (e - 15)
        for e, m in ((c >> 3, c & 7) for c in range(255))
    ]
    np.testing.assert_array_equal(got, np.array([*expected, math.nan], np.float32))


@FEATURES
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("source", "target"), [(s, t) for s in (*NARROW, *SIXTEEN, dtypes.float32) for t in NARROW if s is not t], ids=str
)
def test_narrow_cast_as_ml_dtypes(source: DType, target: DType, lanes: int | None, features: HostFeatures) -> None:
    """The bits that ml_dtypes gives, signs of NaN aside (arithmetic does not define them)."""
    values = floats(source)
    wide = values.astype(np.float32)
    got = element_function("cast", source, result=target, lanes=lanes, features=features)(values)
    expected = values if source is target else as_ml_dtypes(wide, target)
    if target is dtypes.float4_e2m1fn:
        keep = ~np.isnan(wide)  # a NaN becomes a zero whose sign is that of the NaN, inverted
        got, expected = got[keep], expected[keep]
    assert_same(got, expected.astype(np.float64), wide)


@FEATURES
@pytest.mark.parametrize("target", [*dtypes.FLOATS, dtypes.tfloat32, dtypes.float8_e5m2, dtypes.float8_e4m3fn])
@pytest.mark.parametrize("source", [*SIXTEEN, dtypes.float32, dtypes.float64, dtypes.tfloat32], ids=str)
def test_nearest(source: DType, target: DType, features: HostFeatures) -> None:
    """One rounding, also where two formats lie between source and target."""
    values = floats(source, 3000)
    expected = rounded("cast", target, RoundingMode.RN, exactly(values))
    if target is dtypes.float8_e4m3fn:
        expected[np.abs(expected) > 448] = math.nan
    assert_same(element_function("cast", source, result=target, features=features)(values), expected, values)


def test_double_rounding_is_avoided() -> None:
    """Values just above a tie that float32 would round to the tie."""
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert element_function("cast", dtypes.float64, result=dtypes.bfloat16)(value)[0] == 1 + 2.0**-7
    for top in (53, 54, 60, 62):
        half = 1 << (top - 8)
        number = np.array([(1 << top) + half + 1])
        for source in (dtypes.int64, dtypes.uint64):
            cast = element_function("cast", source, result=dtypes.bfloat16)
            assert cast(number)[0] == 2.0**top + 2 * half
        assert element_function("cast", dtypes.int64, result=dtypes.bfloat16)(-number)[0] == -(2.0**top) - 2 * half


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("mode", [RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP], ids=lambda m: m.name)
def test_directed(mode: RoundingMode, lanes: int | None) -> None:
    cases = [(s, t) for s in (dtypes.float64, dtypes.float32) for t in (*SIXTEEN, dtypes.tfloat32, dtypes.float32)]
    for source, target in [*cases, (dtypes.bfloat16, dtypes.float16), (dtypes.float8_e5m2, dtypes.float16)]:
        values = floats(source, 2000)
        cast = element_function("cast", source, result=target, lanes=lanes, rounding=mode)
        assert_same(cast(values), rounded("cast", target, mode, exactly(values)), values)


@pytest.mark.parametrize("target", [dtypes.float16, dtypes.tfloat32], ids=str)
def test_nearest_away(target: DType) -> None:
    values = floats(dtypes.float32)
    got = element_function("cast", dtypes.float32, result=target, rounding=RoundingMode.RA)(values).astype(np.float64)
    wide = values.astype(np.float64)
    with np.errstate(all="ignore"):
        least = -14 if target is dtypes.float16 else -126
        exponent = np.maximum(np.frexp(wide)[1] - 1, least) - target.mantissa_bits
        expected = np.copysign(np.ldexp(np.floor(np.ldexp(np.abs(wide), -exponent) + 0.5), exponent), wide)
        expected[np.isinf(wide)] = wide[np.isinf(wide)]
        limit = 65504 if target is dtypes.float16 else 2047.0 * 2.0**117
        expected = np.where(np.abs(expected) > limit, np.copysign(np.inf, wide), expected)
    assert_same(got, expected, values)


def test_power_of_two_modes() -> None:
    below = 2.0 - 2.0**-40
    values = np.array(
        [1.0, 1.25, 1.5, 2.0, 3.0, below, 2.0**-127, 1.5 * 2.0**-127, 1e-300, 1.7 * 2.0**127, -1, 0, math.inf]
    )
    least, nan = 2.0**-127, math.nan
    down = [1, 1, 1, 2, 2, 1, least, least, least, 2.0**127, nan, least, nan]
    up = [1, 2, 2, 2, 4, 2, least, 2 * least, least, nan, nan, least, nan]
    for mode, expected in ((RoundingMode.RZ, down), (RoundingMode.RP, up)):
        cast = element_function("cast", dtypes.float64, result=dtypes.float8_e8m0fnu, rounding=mode)
        assert_same(cast(values), np.array(expected), values)
        single = element_function("cast", dtypes.float32, result=dtypes.float8_e8m0fnu, rounding=mode)
        fits = [v not in (below, 1e-300) for v in values.tolist()]
        assert_same(single(values[fits]), np.array(expected)[fits], values[fits])


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", (dtypes.bool_, *dtypes.INTEGERS), ids=str)
def test_integer_to_float(source: DType, lanes: int | None) -> None:
    if source.is_bool:
        values = np.array([False, True])
    else:
        rng = np.random.default_rng(3)
        raw = rng.integers(0, 1 << 64, 4000, dtype=np.uint64) >> rng.integers(0, 64, 4000).astype(np.uint64)
        ties = (raw & ~np.uint64(0xFFFF)) + rng.integers(-1, 2, 4000).astype(np.uint64)
        edges = np.array([source.min & (2**64 - 1), source.max, 0, 1, 2**53 + 1, 2**53 - 1], np.uint64)
        values = np.concatenate([raw, ties, edges]).astype(source.storage)
    for target in (*dtypes.FLOATS, dtypes.tfloat32, dtypes.float8_e5m2):
        expected = rounded(
            "cast", target, RoundingMode.RN, exactly(values.astype(np.int64) if source.is_bool else values)
        )
        assert_same(element_function("cast", source, result=target, lanes=lanes)(values), expected, values)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("source", (*dtypes.FLOATS, dtypes.float8_e4m3fn), ids=str)
def test_float_to_integer(source: DType, lanes: int | None) -> None:
    """Truncates, saturates, and takes NaN to 0."""
    values = floats(source, 2000)
    numbers = values.astype(np.float64).tolist()
    for target in dtypes.INTEGERS:
        expected = []
        for v in numbers:
            limited = 0.0 if math.isnan(v) else min(max(v, -1e300), 1e300)
            expected.append(min(max(int(limited), target.min), target.max))
        got = element_function("cast", source, result=target, lanes=lanes)(values)
        np.testing.assert_array_equal(got, np.array(expected, target.storage), target.name)


@pytest.mark.parametrize("lanes", LANES)
def test_integer_to_integer(lanes: int | None) -> None:
    values = np.random.default_rng(4).integers(0, 1 << 64, 500, dtype=np.uint64)
    for source in dtypes.INTEGERS:
        for target in dtypes.INTEGERS:
            given = values.astype(source.storage)
            got = element_function("cast", source, result=target, lanes=lanes)(given)
            np.testing.assert_array_equal(got, given.astype(target.storage), f"{source} to {target}")


@pytest.mark.parametrize("lanes", LANES)
def test_to_bool(lanes: int | None) -> None:
    for source in (dtypes.int8, dtypes.uint64, *dtypes.FLOATS, dtypes.float8_e5m2, dtypes.float4_e2m1fn):
        values = np.array([0, 1, 2, 0.5, -0.0, 3]).astype(source.storage)
        got = element_function("cast", source, result=dtypes.bool_, lanes=lanes)(values)
        np.testing.assert_array_equal(got, values.astype(np.float64) != 0)
    assert element_function("cast", dtypes.float32, result=dtypes.bool_, lanes=lanes)(np.array([math.nan]))[0]


@pytest.mark.parametrize("lanes", LANES)
def test_bitcast(lanes: int | None) -> None:
    bits = np.random.default_rng(5).integers(0, 1 << 64, 100, dtype=np.uint64)
    for source, target in (
        (dtypes.uint32, dtypes.float32),
        (dtypes.int64, dtypes.float64),
        (dtypes.float32, dtypes.int32),
    ):
        given = bits.astype(UNSIGNED[source.bytes].storage).view(source.storage)
        got = element_function("bitcast", source, result=target, lanes=lanes)(given)
        np.testing.assert_array_equal(
            got.view(UNSIGNED[target.bytes].storage), given.view(UNSIGNED[source.bytes].storage)
        )


def test_constants() -> None:
    """Constants take the value that ml_dtypes gives, and integers wrap."""
    for dtype in (*NARROW, *SIXTEEN):
        for value in (1.0, 1.3, 5.5, 464.0, 1e-3, 2.0**-24, 3.0):
            expected = float(np.float32(value).astype(dtype.storage))
            got = constant(dtype, value).value
            assert got == expected or (math.isnan(got) and math.isnan(expected)), (dtype, value)
    assert constant(dtypes.tfloat32, 1 + 2.0**-11).value == 1
    assert constant(dtypes.float8_e8m0fnu, -1.0).value != constant(dtypes.float8_e8m0fnu, -1.0).value
    assert str(constant(dtypes.int8, -1)) == "i8 255"
    assert str(constant(dtypes.bool_, True, 4)) == "<4 x i1> splat (i1 1)"
    assert float(ml_dtypes.bfloat16(constant(dtypes.bfloat16, 1e40).value)) == math.inf
