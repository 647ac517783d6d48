"""Matrix products by the definition in docs/numerics.md, and every product of two 8-bit numbers."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest
from support.elementwise import BACKENDS
from support.formats import decoded
from support.mpfr_oracle import assert_same, exactly, rounded
from support.values import all_values

import tilewright as ct
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode

pytestmark = pytest.mark.parametrize("backend", BACKENDS)
BYTES = (dtypes.int8, dtypes.uint8)
MIXED = [(a, b) for a in BYTES for b in BYTES]
BYTE_PAIRS = [(dtypes.float8_e4m3fn,) * 2, (dtypes.float8_e5m2,) * 2, *MIXED]
FLOATS = (
    (dtypes.float16, dtypes.float16),
    (dtypes.float16, dtypes.float32),
    (dtypes.bfloat16, dtypes.float32),
    (dtypes.float32, dtypes.float32),
    (dtypes.float64, dtypes.float64),
    (dtypes.tfloat32, dtypes.float32),
    (dtypes.float8_e4m3fn, dtypes.float16),
    (dtypes.float8_e5m2, dtypes.float32),
)


def multiplied(backend: str, x: np.ndarray, y: np.ndarray, acc: np.ndarray, operand: DType | None = None) -> np.ndarray:
    """acc + x @ y by ``ct.mma``, the operands cast to ``operand`` if given."""
    shapes = x.shape, y.shape, acc.shape

    @ct.kernel
    def kernel(x, y, acc, out):
        a, b = ct.load(x, (0, 0), shapes[0]), ct.load(y, (0, 0), shapes[1])
        if ct.static_eval(operand is not None):
            a, b = a.astype(operand), b.astype(operand)
        ct.store(out, (0, 0), ct.mma(a, b, ct.load(acc, (0, 0), shapes[2])))

    out = np.zeros_like(acc)
    with ct.use_backend(backend):
        ct.launch(None, (1,), kernel, (x, y, acc, out))
    return out


@pytest.mark.parametrize(("dtype", "other"), BYTE_PAIRS, ids=str)
def test_every_product_of_two_bytes(backend: str, dtype: DType, other: DType) -> None:
    x, y = all_values(dtype).reshape(256, 1), all_values(other).reshape(1, 256)
    accumulator = np.zeros((256, 256), np.int32 if dtype.is_integer else np.float32)
    exact = decoded(x, dtype) * decoded(y, other)
    got = multiplied(backend, x, y, accumulator).reshape(-1)
    if dtype.is_integer:
        np.testing.assert_array_equal(got, exact.reshape(-1))
    else:
        assert_same(got, np.where(exact == 0, 0.0, exact).reshape(-1))  # +0 plus -0 is +0


@functools.cache
def operands(dtype: DType, accumulator: DType) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(9)
    storage = np.float32 if dtype is dtypes.tfloat32 else dtype.storage
    x, y = ((rng.standard_normal(shape) * 2).astype(storage) for shape in ((8, 32), (32, 16)))
    if dtype is dtypes.tfloat32:
        x, y = ((v.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for v in (x, y))
    return x, y, rng.standard_normal((8, 16)).astype(accumulator.storage)


@functools.cache
def defined(dtype: DType, accumulator: DType) -> np.ndarray:
    """Products added to the accumulator in order along k, each with one rounding; float16 is rounded at the end."""
    x, y, acc = operands(dtype, accumulator)
    compute = dtypes.float64 if accumulator is dtypes.float64 else dtypes.float32
    total = acc.astype(np.float64).reshape(-1)
    for k in range(x.shape[1]):
        left, right = np.repeat(x[:, k], y.shape[1]), np.tile(y[k], x.shape[0])
        total = rounded("fma", compute, RoundingMode.RN, exactly(left), exactly(right), exactly(total))
    return total.astype(accumulator.storage)


@pytest.mark.parametrize(("dtype", "accumulator"), FLOATS, ids=str)
def test_products_add_up_in_order(backend: str, dtype: DType, accumulator: DType) -> None:
    """To within a few of the roundings that a processor without fused multiply-add has besides."""
    x, y, acc = operands(dtype, accumulator)
    got = multiplied(backend, x, y, acc, dtypes.tfloat32 if dtype is dtypes.tfloat32 else None).reshape(-1)
    unit = 2.0**-dtypes.float32.mantissa_bits if accumulator is not dtypes.float64 else 2.0**-52
    size = (np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64)) + np.abs(acc.astype(np.float64))).reshape(-1)
    slack = np.spacing(np.abs(defined(dtype, accumulator))).astype(np.float64) if accumulator is dtypes.float16 else 0
    error = np.abs(got.astype(np.float64) - defined(dtype, accumulator).astype(np.float64))
    assert (error <= 4 * unit * size + slack).all()


@pytest.mark.parametrize(("dtype", "other"), MIXED, ids=str)
def test_sums_of_bytes_are_exact_and_wrap(backend: str, dtype: DType, other: DType) -> None:
    rng = np.random.default_rng(10)
    x = rng.integers(dtype.min, dtype.max, (16, 128), dtype.storage, endpoint=True)
    y = rng.integers(other.min, other.max, (128, 32), other.storage, endpoint=True)
    x[0], y[:, 0] = dtype.min or dtype.max, other.min or other.max
    acc = rng.integers(-(2**31), 2**31 - 1, (16, 32), np.int32)
    with np.errstate(over="ignore"):
        want = acc + x.astype(np.int32) @ y.astype(np.int32)
    np.testing.assert_array_equal(multiplied(backend, x, y, acc), want)


def test_special_values_spread(backend: str) -> None:
    """An infinity gives infinities along its row; with a zero, or the opposite infinity, NaN."""
    x, y = np.ones((4, 8), np.float32), np.ones((8, 4), np.float32)
    x[0, 3], x[1, 2], x[2, 1], x[2, 5] = np.inf, np.nan, np.inf, -np.inf
    y[3, 1] = 0
    got = multiplied(backend, x, y, np.zeros((4, 4), np.float32))
    assert np.isposinf(got[0, [0, 2, 3]]).all() and np.isnan(got[0, 1])
    assert np.isnan(got[1]).all() and np.isnan(got[2]).all()
    np.testing.assert_array_equal(got[3], [8, 7, 8, 8])


def test_float16_accumulators_round_once(backend: str) -> None:
    """2048 + 1 + 1 is 2050 in float32; sums in float16 would stay at 2048."""
    x, y = np.ones((2, 2), np.float16), np.ones((2, 2), np.float16)
    got = multiplied(backend, x, y, np.full((2, 2), 2048, np.float16))
    assert (got == 2050).all()


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL_DTYPES if d.is_floating and d.bitwidth <= 8], ids=str)
def test_comparisons_of_every_pair(backend: str, dtype: DType) -> None:
    """Restricted formats have no arithmetic, but they compare: with NaN, only != is true."""
    codes = all_values(dtype)
    values = decoded(codes, dtype)
    first, second = np.repeat(codes, codes.size), np.tile(codes, codes.size)
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    unnamed = dtype is dtypes.float8_e5m3fnu

    @ct.kernel
    def kernel(x, y, less, less_equal, equal, different, greater):
        i = ct.bid(0)
        p, q = ct.load(x, (i,), (256,)), ct.load(y, (i,), (256,))
        if ct.static_eval(unnamed):
            p, q = ct.bitcast(p, ct.float8_e5m3fnu), ct.bitcast(q, ct.float8_e5m3fnu)
        ct.store(less, (i,), p < q)
        ct.store(less_equal, (i,), p <= q)
        ct.store(equal, (i,), p == q)
        ct.store(different, (i,), p != q)
        ct.store(greater, (i,), p > q)

    outs = [np.zeros(a.size, np.bool_) for _ in range(5)]
    with ct.use_backend(backend):
        ct.launch(None, (a.size // 256,), kernel, (first, second, *outs))
    for got, meaning in zip(outs, (np.less, np.less_equal, np.equal, np.not_equal, np.greater)):
        np.testing.assert_array_equal(got, meaning(a, b), meaning.__name__)


def test_scales_far_apart(backend: str) -> None:
    """2**127 and 2**-127: neither the scaled operands nor the sums leave the range of what computes them."""
    one = np.ones((16, 32), ml_dtypes.float8_e4m3fn), np.ones((32, 16), ml_dtypes.float8_e4m3fn)
    scales = np.full((16, 1), 2.0**127).astype(ml_dtypes.float8_e8m0fnu), np.full((1, 16), 2.0**-127)

    @ct.kernel
    def kernel(x, xs, y, ys, out):
        a, b = ct.load(x, (0, 0), (16, 32)), ct.load(y, (0, 0), (32, 16))
        s, t = ct.load(xs, (0, 0), (16, 1)), ct.load(ys, (0, 0), (1, 16))
        ct.store(out, (0, 0), ct.mma_scaled(a, s, b, t, ct.zeros((16, 16), ct.float32)))

    out = np.zeros((16, 16), np.float32)
    with ct.use_backend(backend):
        ct.launch(None, (1,), kernel, (one[0], scales[0], one[1], scales[1].astype(ml_dtypes.float8_e8m0fnu), out))
    assert (out == 32).all()
