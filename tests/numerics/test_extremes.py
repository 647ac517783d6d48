"""Minimum and maximum: NaN, signed zeros, subnormal numbers; elementwise, reduced, and their positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.elementwise import BACKENDS, apply
from support.mpfr_oracle import assert_same
from support.values import triples

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType

pytestmark = pytest.mark.parametrize("backend", BACKENDS)
SIZE = 11_000
OPERATIONS = {"min": ct.minimum, "max": ct.maximum}
REDUCTIONS = {"min": ct.min, "max": ct.max}
POSITIONS = {"min": ct.argmin, "max": ct.argmax}


def flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(0.0, x), x)


def keys(x: np.ndarray, name: str) -> np.ndarray:
    """Integers in the order of the float64 numbers, -0 just below +0; in reverse for the minimum."""
    bits = x.view(np.int64)
    key = np.where(bits >= 0, bits, -(bits & np.int64(2**63 - 1)) - 1)
    return key if name == "max" else ~key


def chosen(a: np.ndarray, b: np.ndarray, name: str, propagate: bool) -> np.ndarray:
    ordered = np.where(keys(a, name) >= keys(b, name), a, b)
    nan = np.isnan(a) | np.isnan(b)
    return np.where(nan, np.nan if propagate else np.where(np.isnan(a), b, a), ordered)


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_elementwise(backend: str, dtype: DType) -> None:
    a, b, _ = triples(dtype, SIZE)
    cases = [
        (n, p, f) for n in OPERATIONS for p in (False, True) for f in (False, True) if dtype.short == "f32" or not f
    ]
    formulas = [_elementwise(*case) for case in cases]
    wide = [x.astype(np.float64) for x in (a, b)]
    for (name, propagate, flushed), result in zip(
        cases, apply(backend, formulas, [a, b], [dtype.storage] * len(cases))
    ):
        operands = [flush(x) for x in wide] if flushed else wide
        assert_same(result, chosen(*operands, name, propagate), a, b)


def _elementwise(name: str, propagate: bool, flushed: bool) -> Any:
    operation = OPERATIONS[name]
    return lambda x, y: operation(x, y, propagate_nan=propagate, flush_to_zero=flushed)


def rows(dtype: DType) -> np.ndarray:
    """64 rows of 128 values: few distinct ones, so that they repeat; zeros of both signs, infinities, some or only NaN.

    Every other NaN is a signaling one.
    """
    rng = np.random.default_rng(3)
    pool = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, 3 * 2.0**-24, np.nan])
    x = rng.choice(pool[:-1], (64, 128))
    x[16:48] = np.where(rng.random((32, 128)) < 0.2, np.nan, x[16:48])
    x[32:40] = rng.choice(pool[:2], (8, 128))
    x[48:53] = np.nan
    x[52, 5] = 1.0
    found = x.astype(dtype.storage)
    bits, quiet = found.view(f"u{dtype.bytes}").ravel(), 1 << (dtype.mantissa_bits - 1)
    signaling = np.flatnonzero(np.isnan(x))[::2]
    bits[signaling] = (bits[signaling] & ~bits.dtype.type(quiet)) | bits.dtype.type(1)
    return found


def reduced(backend: str, x: np.ndarray, name: str, axis: int, propagate: bool) -> tuple[np.ndarray, np.ndarray]:
    """The extremes along an axis, and their positions."""
    reduction, position, shape = REDUCTIONS[name], POSITIONS[name], x.shape

    @ct.kernel
    def kernel(x, values, positions):
        tile = ct.load(x, (0, 0), shape)
        ct.store(values, (0,), reduction(tile, axis, propagate_nan=propagate))
        ct.store(positions, (0,), position(tile, axis, propagate_nan=propagate))

    values, positions = np.zeros(x.shape[1 - axis], x.dtype), np.zeros(x.shape[1 - axis], np.int32)
    with ct.use_backend(backend):
        ct.launch(None, (1,), kernel, (x, values, positions))
    return values, positions


@pytest.mark.parametrize("axis", (0, 1))
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_reductions(backend: str, dtype: DType, axis: int) -> None:
    x = rows(dtype)
    wide = x.astype(np.float64)
    nan = np.isnan(wide)
    for name in REDUCTIONS:
        key = np.where(nan, np.int64(-(2**63)), keys(wide, name))
        plain = np.where(nan, -np.inf, wide if name == "max" else -wide)  # -0 and +0 are equal: the first one counts
        for propagate in (False, True):
            values, positions = reduced(backend, x, name, axis, propagate)
            best = np.take_along_axis(wide, np.expand_dims(key.argmax(axis), axis), axis).squeeze(axis)
            spoiled = nan.any(axis) if propagate else nan.all(axis)
            assert_same(values, np.where(spoiled, np.nan, best))
            numbers = np.where(nan, -np.inf, plain)
            first = np.where(~nan & (numbers == numbers.max(axis, keepdims=True)), 1, 0).argmax(axis)
            want = np.where(nan.any(axis) if propagate else nan.all(axis), nan.argmax(axis), first)
            np.testing.assert_array_equal(positions, want)


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
def test_reductions_of_integers(backend: str, dtype: DType) -> None:
    x = np.random.default_rng(1).integers(dtype.min, dtype.max, (16, 8), dtype.storage, endpoint=True) // 3 * 3
    for axis in (0, 1):
        for name, value, position in (("min", np.min, np.argmin), ("max", np.max, np.argmax)):
            values, positions = reduced(backend, x, name, axis, False)
            np.testing.assert_array_equal(values, value(x, axis))
            np.testing.assert_array_equal(positions, position(x, axis))


@pytest.mark.parametrize("shape", [(512, 128), (4, 1024), (16, 8, 32)], ids=str)
@pytest.mark.parametrize("dtype", (dtypes.float32, dtypes.int8), ids=str)
def test_positions_in_a_flattened_tile(backend: str, dtype: DType, shape: tuple[int, ...]) -> None:
    """Of the whole tile; those of int8 repeat."""
    x = np.random.default_rng(2).permutation(math.prod(shape)).reshape(shape).astype(dtype.storage)

    @ct.kernel
    def kernel(x, out):
        tile = ct.load(x, (0,) * len(shape), shape)
        ct.store(out, (0,), ct.argmin(tile))
        ct.store(out, (1,), ct.argmax(tile))
        ct.store(out, (2,), ct.argmax(tile.reshape((-1,)), 0))

    out = np.zeros(3, np.int32)
    with ct.use_backend(backend):
        ct.launch(None, (1,), kernel, (x, out))
    np.testing.assert_array_equal(out, [x.argmin(), x.argmax(), x.argmax()])
