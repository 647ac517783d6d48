"""Conversions between all dtypes, through kernels on each backend: exhaustive from 8 and 16 bits."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.elementwise import BACKENDS, apply
from support.formats import as_ml_dtypes, converted, decoded
from support.mpfr_oracle import assert_same, exactly, rounded
from support.values import all_values, floats, integers

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

SIZE = 100_000
RN, RZ, RM, RP, RA = (getattr(RoundingMode, name) for name in ("RN", "RZ", "RM", "RP", "RA"))
FLOATING = tuple(d for d in dtypes.ALL_DTYPES if d.is_floating)
SMALL = tuple(d for d in FLOATING if d.bitwidth <= 16)
# The modes beside RN that ``astype`` takes, as the documentation of rounding modes lists them.
NOT_WIDER_THAN_HALF = (dtypes.float16, dtypes.bfloat16, dtypes.float8_e5m2, dtypes.float8_e4m3fn, dtypes.float4_e2m1fn)
TO_ZERO = (*dtypes.FLOATS, dtypes.tfloat32, dtypes.float8_e8m0fnu)

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def modes(source: DType, target: DType) -> list[RoundingMode]:
    """The rounding modes of a float-to-float ``astype`` that the documents allow."""
    e8m0 = dtypes.float8_e8m0fnu
    allowed = []
    if target is not e8m0:
        allowed.append(RN)
    if target in TO_ZERO:
        allowed.append(RZ)
    up_and_down = (
        target is dtypes.float64
        or (target is dtypes.float32 and source is not e8m0)
        or (target is dtypes.float16 and source in NOT_WIDER_THAN_HALF)
    )
    if up_and_down:
        allowed.append(RM)
    if up_and_down or target is e8m0:
        allowed.append(RP)
    single = target in (dtypes.float32, dtypes.tfloat32) and source not in (dtypes.float64, e8m0)
    if target is dtypes.float64 or single or (target is dtypes.float16 and source in NOT_WIDER_THAN_HALF):
        allowed.append(RA)
    return allowed


@functools.cache
def samples(dtype: DType) -> np.ndarray:
    """Values in the storage form: all of at most 16 bits, else at least ``SIZE`` special and random ones."""
    if dtype.bitwidth <= 16:
        return all_values(dtype)
    if not dtype.is_floating:
        return integers(dtype, SIZE)
    if dtype is dtypes.tfloat32:
        return floats(dtype, SIZE)
    near_ties = np.round(floats(dtypes.float64, SIZE // 4, 3) * 64) / 64 + 2.0**-30
    infinity = np.array([np.inf, -np.inf], dtype.storage).view(f"u{dtype.bytes}")
    nans = np.concatenate([infinity + (1 << k) for k in range(dtype.mantissa_bits)]).astype(infinity.dtype)
    return np.concatenate([floats(dtype, SIZE), near_ties.astype(dtype.storage), nans.view(dtype.storage)])


@functools.cache
def exact_samples(dtype: DType) -> list[Any]:
    return exactly(samples(dtype))


def wide(dtype: DType) -> np.ndarray:
    """The samples as float64, exact but for 64-bit integers."""
    values = samples(dtype)
    return decoded(values, dtype) if dtype.bitwidth <= 16 else values.astype(np.float64)


@functools.cache
def expected(source: DType, target: DType, mode: RoundingMode) -> np.ndarray:
    """The values of the samples of ``source`` rounded to a floating-point ``target``."""
    if target.bitwidth <= 16:
        return converted(wide(source), target, mode)
    if source is target or target is dtypes.float64 or (source.is_floating and source.bitwidth <= 16):
        return wide(source)
    if mode is RA:
        return nearest_away(wide(source), target)
    return rounded("cast", target, mode, exact_samples(source))


def nearest_away(x: np.ndarray, target: DType) -> np.ndarray:
    """float32 values to tfloat32, ties away from zero."""
    places = target.mantissa_bits - np.maximum(np.frexp(x)[1] - 1, -126)
    result = np.ldexp(np.floor(np.ldexp(np.abs(x), places) + 0.5), -places)
    largest = math.ldexp(2 - 2.0**-target.mantissa_bits, 127)
    return np.where(np.isfinite(x), np.copysign(np.where(result > largest, np.inf, result), x), x)


# How to get a value of a dtype that arrays cannot hold out of one of its storage, and back.
def loaded(source: DType) -> Any:
    if source is dtypes.tfloat32:
        return lambda x: x.astype(ct.tfloat32)
    if source is dtypes.float8_e5m3fnu:
        return lambda x: ct.bitcast(x, ct.float8_e5m3fnu)
    return lambda x: x


def stored(target: DType) -> Any:
    if target is dtypes.tfloat32:
        return lambda x: x.astype(ct.float32)
    if target is dtypes.float8_e5m3fnu:
        return lambda x: ct.bitcast(x, ct.uint8)
    return lambda x: x


def conversion(source: DType, target: DType, mode: RoundingMode | None) -> Any:
    load, store = loaded(source), stored(target)
    return lambda x: store(load(x).astype(target, rounding_mode=mode))


def values(result: np.ndarray, dtype: DType) -> np.ndarray:
    return decoded(result, dtype) if dtype.bitwidth <= 16 else result.astype(np.float64)


@pytest.mark.parametrize("source", FLOATING, ids=str)
def test_float_to_float(backend: str, source: DType) -> None:
    cases = [(target, mode) for target in FLOATING for mode in modes(source, target)]
    formulas = [conversion(source, target, mode) for target, mode in cases]
    got = apply(backend, formulas, [samples(source)], [target.storage for target, _ in cases])
    for (target, mode), result in zip(cases, got):
        found, want = values(result, target), wide(source) if source is target else expected(source, target, mode)
        if target is dtypes.float4_e2m1fn:  # a NaN becomes a zero of either sign
            found = np.where(np.isnan(wide(source)), np.abs(found), found)
        assert_same(found, want, wide(source))


def test_nearest_is_what_ml_dtypes_calls_so(backend: str) -> None:
    source = samples(dtypes.float32)
    targets = (dtypes.bfloat16, dtypes.float16, dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.float4_e2m1fn)
    got = apply(backend, [conversion(dtypes.float32, t, None) for t in targets], [source], [t.storage for t in targets])
    for target, result in zip(targets, got):
        want = source.astype(target.storage)
        keep = ~np.isnan(source)  # the sign of a NaN is nobody's promise
        np.testing.assert_array_equal(result[keep].view(f"u{target.bytes}"), want[keep].view(f"u{target.bytes}"))


@functools.cache
def rounded_integers(source: DType, target: DType) -> np.ndarray:
    return rounded("cast", target, RN, exactly(samples(source).astype(np.uint8) if source.is_bool else samples(source)))


@pytest.mark.parametrize("source", (dtypes.bool_, *dtypes.INTEGERS), ids=str)
def test_integer_to_float(backend: str, source: DType) -> None:
    targets = [t for t in FLOATING if t is not dtypes.float8_e8m0fnu]
    got = apply(
        backend, [conversion(source, t, None) for t in targets], [samples(source)], [t.storage for t in targets]
    )
    for target, result in zip(targets, got):
        if target.is_float or target in (dtypes.tfloat32, dtypes.float8_e5m2):
            want = rounded_integers(source, target)
            assert_same(values(result, target), want, samples(source))
        else:  # nothing above 2**53 is in range, so the detour over float64 is exact where it matters
            assert_same(values(result, target), converted(wide(source), target), samples(source))


def test_integer_to_power_of_two(backend: str) -> None:
    """The nearest power by ml_dtypes, of numbers that float32 holds."""
    source = np.concatenate([np.arange(-3, 5000), (1 << np.arange(24)) * 3 // 2]).astype(np.int32)
    (got,) = apply(
        backend, [conversion(dtypes.int32, dtypes.float8_e8m0fnu, None)], [source], [ml_dtypes.float8_e8m0fnu]
    )
    assert_same(got, as_ml_dtypes(source, dtypes.float8_e8m0fnu).astype(float), source)


@functools.cache
def whole_numbers(source: DType) -> list[int]:
    return [0 if math.isnan(v) else int(min(max(v, -1e300), 1e300)) for v in wide(source).tolist()]


@functools.cache
def truncated(source: DType, target: DType) -> np.ndarray:
    low, high = target.min, target.max
    return np.array([low if v < low else high if v > high else v for v in whole_numbers(source)], target.storage)


@pytest.mark.parametrize("source", FLOATING, ids=str)
def test_float_to_integer(backend: str, source: DType) -> None:
    """Truncates, saturates, and takes NaN to 0."""
    targets = (dtypes.bool_, *dtypes.INTEGERS)
    got = apply(
        backend, [conversion(source, t, None) for t in targets], [samples(source)], [t.storage for t in targets]
    )
    np.testing.assert_array_equal(got[0], wide(source) != 0)
    for target, result in zip(targets[1:], got[1:]):
        np.testing.assert_array_equal(result, truncated(source, target), target.name)


@pytest.mark.parametrize("source", (dtypes.bool_, *dtypes.INTEGERS), ids=str)
def test_integer_to_integer(backend: str, source: DType) -> None:
    targets = (dtypes.bool_, *dtypes.INTEGERS)
    got = apply(
        backend, [conversion(source, t, None) for t in targets], [samples(source)], [t.storage for t in targets]
    )
    np.testing.assert_array_equal(got[0], samples(source) != 0)
    for target, result in zip(targets[1:], got[1:]):
        np.testing.assert_array_equal(result, samples(source).astype(target.storage), target.name)


def test_modes_that_do_not_exist_are_refused(backend: str) -> None:
    """The front end says so before a backend is asked for anything: each of them meets its share of the cases."""
    x = np.ones(16)
    cases = [(s, t, m) for s in FLOATING for t in FLOATING for m in RoundingMode if m not in modes(s, t)]
    for source, target, mode in cases[BACKENDS.index(backend) :: len(BACKENDS)]:
        with pytest.raises(ct.TileTypeError, match="rounding mode"):
            apply(backend, [conversion(source, target, mode)], [x.astype(source.storage)], [target.storage])


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_constants_are_rounded_like_values(backend: str, dtype: DType) -> None:
    numbers = np.array(
        [1.0, 1.3, 5.5, 464.0, 1e-3, 2.0**-24, 3.0, 0.75, 240.0, 65519.0, 65520.0, 1e30, 0.3, 7.0, 0.0, 5.0]
    )
    constants = tuple(numbers.tolist())
    store = stored(dtype)
    (got,) = apply(backend, [lambda x: store(ct.astile(constants, dtype=dtype))], [numbers], [dtype.storage])
    if dtype is dtypes.float8_e8m0fnu:
        want = as_ml_dtypes(numbers, dtype).astype(np.float64)
    else:
        want = converted(numbers, dtype)
    assert_same(values(got, dtype), want, numbers)
