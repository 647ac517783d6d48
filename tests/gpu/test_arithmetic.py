"""What other compilers made something else of."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct

pytestmark = pytest.mark.usefixtures("backend_of_the_gpu")


@ct.kernel
def clamp(x, out):
    ct.store(out, (0,), ct.maximum(ct.minimum(ct.load(x, (0,), (8,)), 1), 0))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_clamps_of_nan(dtype: Any) -> None:
    x = np.array([np.nan, -np.inf, -1, -0.0, 0.25, 1, 3, np.inf], dtype)
    out = np.zeros_like(x)
    ct.launch(None, (1,), clamp, (x, out), backend="cpu")
    assert out.astype(np.float64).tolist() == [1, 0, 0, 0, 0.25, 1, 1, 1]


@ct.kernel
def batches(x, y, out, B: ct.Constant[int], M: ct.Constant[int], K: ct.Constant[int], N: ct.Constant[int]):
    a, b = ct.load(x, (0, 0, 0), (B, M, K)), ct.load(y, (0, 0, 0), (B, K, N))
    ct.store(out, (0, 0, 0), ct.mma(a, b, ct.zeros((B, M, N), out.dtype)))


@pytest.mark.parametrize("batch", [2, 8, 32])
@pytest.mark.parametrize(("dtype", "sums"), [(np.float16, np.float32), (np.int8, np.int32), (np.float64, np.float64)])
def test_batches_of_small_matrices(batch: int, dtype: Any, sums: Any) -> None:
    rng = np.random.default_rng(batch)
    for m, n, k in itertools.product((1, 2, 16), (1, 2, 4, 8), (1, 32)):
        x, y = (rng.integers(-2, 3, (batch, *shape)).astype(dtype) for shape in ((m, k), (k, n)))
        out = np.zeros((batch, m, n), sums)
        ct.launch(None, (1,), batches, (x, y, out, batch, m, k, n), backend="cpu")
        np.testing.assert_array_equal(out, x.astype(sums) @ y.astype(sums), err_msg=f"{m}, {n}, {k}")


@ct.kernel
def of_bytes(x, y, out, M: ct.Constant[int]):
    total = ct.load(out, (0, 0), (M, 16))
    ct.store(out, (0, 0), ct.mma(ct.load(x, (0, 0), (M, 32)), ct.load(y, (0, 0), (32, 16)), total))


@pytest.mark.parametrize("rows", [16, 64])
def test_sums_of_integers_wrap(rows: int) -> None:
    x, y, out = np.full((rows, 32), 127, np.int8), np.full((32, 16), 127, np.int8), np.full((rows, 16), 2**31 - 5)
    result = out.astype(np.int32)
    ct.launch(None, (1,), of_bytes, (x, y, result, rows), backend="cpu")
    assert (result == out + 32 * 127**2 - 2**32).all()


@ct.kernel
def product(x, y, out):
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(x, 1, (64, 32))):
        total = ct.mma(ct.load(x, (ct.bid(0), k), (64, 32)), ct.load(y, (k, 0), (32, 64)), total)
    ct.store(out, (ct.bid(0), 0), total)


@pytest.mark.parametrize("reverse", [slice(None), slice(None, None, -1)])
@pytest.mark.parametrize("step", [0, 128])
def test_rows_in_reversed_order_and_one_row_many_times(reverse: slice, step: int) -> None:
    """The former have no tensor map."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 64), (64, 64)))
    x, y, out = x[reverse], np.lib.stride_tricks.as_strided(y, (64, 64), (step, 2)), np.zeros((128, 64), np.float32)
    for _ in range(2):
        ct.launch(None, (2,), product, (x, y, out), backend="cpu")
        np.testing.assert_array_equal(out, x.astype(np.float32) @ y.astype(np.float32))
        out[:] = 0


@ct.kernel
def looks(x, out):
    i = ct.bid(0)
    ct.load(x, (i % 40, i % 17), (), memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.DEVICE)
    ct.store(out, (i,), i)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32, np.float64])
def test_acquiring_loads_that_nobody_reads(dtype: Any) -> None:
    out = np.zeros(80, np.int32)
    ct.launch(None, (80,), looks, (np.zeros((64, 64), dtype)[::2, ::2], out), backend="cpu")
    assert (out == np.arange(80)).all()


@ct.kernel
def absolute(x, out):
    ct.store(out, (0,), abs(ct.load(x, (0,), (8,))) % 33)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_absolute_value_of_the_least_integer(dtype: Any) -> None:
    least = np.iinfo(dtype).min
    x = np.array([least, least + 1, -1, 0, 1, 5, -40, 77], dtype)
    out, expected = np.zeros_like(x), np.zeros_like(x)
    ct.launch(None, (1,), absolute, (x, out), backend="cpu")
    ct.launch(None, (1,), absolute, (x, expected), backend="reference")
    assert out.tolist() == expected.tolist()


@ct.kernel
def absolutes(x, out, STEP: ct.Constant[int], LAST_BIT: ct.Constant[int]):
    """However they are written, and what they are used for."""
    at = ct.bid(0) * STEP + ct.arange(STEP, dtype=ct.int32)
    v = ct.gather(x, at)
    sign = v >> LAST_BIT
    forms = (
        abs(v),
        ct.maximum(v, -v),
        ct.where(v < 0, -v, v),
        ct.where(v > 0, v, 0 - v),
        (v ^ sign) - sign,
        v * (sign | 1),
        v * ct.where(v < 0, ct.full((STEP,), -1, v.dtype), ct.full((STEP,), 1, v.dtype)),
        -ct.minimum(v, -v),
    )
    for i in ct.static_iter(range(8)):
        a = forms[i]
        wide = a.astype(ct.int64)
        uses = (
            wide,
            (a % 33).astype(ct.int64),
            (a // 7).astype(ct.int64),
            ct.where(a < 0, 1, 2).astype(ct.int64),
            (a >> 1).astype(ct.int64),
            a.astype(ct.float32).astype(ct.int64),
            ct.maximum(a, 3).astype(ct.int64),
            ct.where(wide < 0, wide + 1000, wide),
            ct.where(a.astype(ct.int32) < 0, 5, 6).astype(ct.int64),
        )
        for use in ct.static_iter(range(9)):
            ct.scatter(out, (9 * i + use, at), uses[use])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_absolute_values(dtype: Any) -> None:
    """Of all integers of 8 and of 16 bits, and of some of the others."""
    limits = np.iinfo(dtype)
    if limits.bits <= 16:
        x = np.arange(limits.min, limits.max + 1).astype(dtype)
    else:
        x = np.random.default_rng(1).integers(limits.min, limits.max, 1 << 12, dtype, endpoint=True)
        x[:6] = limits.min, limits.min + 1, -1, 0, 1, limits.max
    out, expected = np.zeros((72, len(x)), np.int64), np.zeros((72, len(x)), np.int64)
    ct.launch(None, (len(x) // 256,), absolutes, (x, out, 256, limits.bits - 1), backend="cpu")
    ct.launch(None, (len(x) // 256,), absolutes, (x, expected, 256, limits.bits - 1), backend="reference")
    wrong = np.argwhere(out != expected)
    assert not len(wrong), [(int(r), int(x[c]), int(out[r, c]), int(expected[r, c])) for r, c in wrong[:5]]


@ct.kernel
def signs(x, out, STEP: ct.Constant[int]):
    at = ct.bid(0) * STEP + ct.arange(STEP, dtype=ct.int32)
    v = ct.gather(x, at)
    forms = (-v, 0 - v, v * -1, ~v + 1, -(v + 1), -(v ^ 5), 7 - v, -(v >> 1))
    for i in ct.static_iter(range(8)):
        a = forms[i]
        uses = (
            a.astype(ct.int64),
            a % 21,
            a // 5,
            ct.where(a < 0, 1, 2),
            ct.maximum(a, v),
            a.astype(ct.float32).astype(ct.int64),
            ct.where(a > v, a.astype(ct.int64), 3),
            a >> 3,
        )
        for use in ct.static_iter(range(8)):
            ct.scatter(out, (8 * i + use, at), uses[use].astype(ct.int64))


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_negations(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    x = np.arange(limits.min, limits.max + 1).astype(dtype)
    out, expected = np.zeros((64, len(x)), np.int64), np.zeros((64, len(x)), np.int64)
    ct.launch(None, (len(x) // 256,), signs, (x, out, 256), backend="cpu")
    ct.launch(None, (len(x) // 256,), signs, (x, expected, 256), backend="reference")
    wrong = np.argwhere(out != expected)
    assert not len(wrong), [(int(r), int(x[c]), int(out[r, c]), int(expected[r, c])) for r, c in wrong[:5]]


@ct.kernel
def extremes(x, y, out, STEP: ct.Constant[int]):
    at = ct.bid(0) * STEP + ct.arange(STEP, dtype=ct.int32)
    v, other = ct.gather(x, at), ct.gather(y, at)
    for i, c in ct.static_iter(((0, 0), (1, 5), (2, 100))):
        found = (ct.minimum(v, c), ct.maximum(v, c), ct.minimum(ct.where(v > other, v, other), c), ct.maximum(other, v))
        for j in ct.static_iter(range(4)):
            ct.scatter(out, (8 * i + 2 * j, at), ct.where(found[j] == c, 1, 2))
            ct.scatter(out, (8 * i + 2 * j + 1, at), ct.where(found[j] != v, found[j].astype(ct.int32), 77))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_extremes_that_are_compared(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    x = np.arange(limits.min, limits.max + 1).astype(dtype)
    y = np.random.default_rng(3).permutation(x)
    out, expected = np.zeros((24, len(x)), np.int32), np.zeros((24, len(x)), np.int32)
    ct.launch(None, (len(x) // 256,), extremes, (x, y, out, 256), backend="cpu")
    ct.launch(None, (len(x) // 256,), extremes, (x, y, expected, 256), backend="reference")
    wrong = np.argwhere(out != expected)
    assert not len(wrong), [(int(r), int(x[c]), int(out[r, c]), int(expected[r, c])) for r, c in wrong[:5]]
