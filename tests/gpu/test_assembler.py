"""Kernels that Triton or ptxas compiles wrongly where nothing is done about it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct

ZERO = ct.PaddingMode.ZERO
pytestmark = pytest.mark.usefixtures("backend_of_the_gpu")


@ct.kernel
def two_places(a, b, narrow, x, y, odd, out):
    """One place in shared memory has tiles of several layouts, in a loop and after it."""
    block = ct.bid(0)
    for _ in range(5):
        left = ct.load(a, (0, 0), (64, 64))
        right = ct.load(b, (block, 0, 0), (1, 64, 64)).reshape((64, 64))
        first = ct.mma(left, ct.where(right > 0, right, 1), ct.zeros((64, 64), ct.float32))
        other = ct.transpose(ct.load(narrow, (0, 0), (64, 64), padding_mode=ZERO))
        ct.store(odd, (0, block), ct.mma(first.astype(ct.float16), other, ct.zeros((64, 64), ct.float32)))
    total = ct.zeros((64, 64), ct.float32)
    left = ct.load(x, (0, 0), (64, 16), allow_tma=False)
    right = ct.load(y, (0, block), (16, 64))
    for _ in range(5):
        total = ct.mma(left, right, total)
    ct.store(out, (0, block), total)


@pytest.mark.parametrize("seed", range(4))
def test_places_of_several_layouts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, narrow = (
        rng.integers(-n, n + 1, s).astype(np.float16) for n, s in ((2, (64, 64)), (3, (3, 64, 64)), (3, (64, 5)))
    )
    x, y = (rng.integers(-3, 4, s).astype(np.float32) for s in ((64, 16), (16, 192)))
    odd, out = np.zeros((2, 179), np.float32)[:, :176], np.zeros((64, 192), np.float32)
    ct.launch(None, (3,), two_places, (a, b, narrow.T, x, y, odd, out))
    single = [t.astype(np.float32) for t in (a, b, narrow)]
    first = single[0] @ np.where(single[1] > 0, single[1], 1)
    wanted = np.zeros((2, 192), np.float32)
    for block in range(3):
        wanted[:, 64 * block : 64 * block + 5] = (first[block] @ single[2])[:2]
    np.testing.assert_array_equal(odd, wanted[:, :176])
    np.testing.assert_array_equal(out, 5 * (x @ y))


@ct.kernel
def scaled_queries(q, k, v, out, SCALE: ct.Constant[float], T: ct.Constant[int], D: ct.Constant[int]):
    """The left operand of the first product is computed before the loop, that of the second in it."""
    queries = (ct.load(q, (ct.bid(0), 0), (64, D)) * SCALE).astype(ct.bfloat16)
    largest, sums = ct.full((64, 1), -1e30, ct.float32), ct.zeros((64, 1), ct.float32)
    total = ct.zeros((64, D), ct.float32)
    for j in range(ct.cdiv(k.shape[0], T)):
        keys = ct.transpose(ct.load(k, (j, 0), (T, D)))
        scores = ct.mma(queries, keys, ct.zeros((64, T), ct.float32))
        larger = ct.maximum(largest, ct.max(scores, axis=1, keepdims=True))
        weights, faded = ct.exp2(scores - larger), ct.exp2(largest - larger)
        sums, largest = sums * faded + ct.sum(weights, axis=1, keepdims=True), larger
        total = ct.mma(weights.astype(ct.bfloat16), ct.load(v, (j, 0), (T, D)), total * faded)
    ct.store(out, (ct.bid(0), 0), (total / sums).astype(ct.float32))


@pytest.mark.parametrize("keys", [32, 64, 128])
@pytest.mark.parametrize("depth", [32, 64, 128])
def test_operands_that_a_loop_does_not_change(keys: int, depth: int) -> None:
    rng = np.random.default_rng(keys + depth)
    q, k, v = (rng.standard_normal((512, depth)).astype(ml_dtypes.bfloat16) for _ in range(3))
    out = np.zeros((512, depth), np.float32)
    ct.launch(None, (8,), scaled_queries, (q, k, v, out, 0.25, keys, depth))
    scores = (q * ml_dtypes.bfloat16(0.25)).astype(np.float32) @ k.astype(np.float32).T
    weights = np.exp2(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, weights @ v.astype(np.float32) / weights.sum(axis=1, keepdims=True), atol=0.02)


def gathered(x, out, n, rows):
    """Rows of ``x``, in part ``n`` of ``out``."""
    ct.store(out, (n, 0), ct.gather(x, (rows[:, None], ct.arange(64, dtype=ct.int32)[None, :])))


@ct.kernel
def rows_of_kinds(x, out):
    i = ct.arange(64, dtype=ct.int32)
    gathered(x, out, 0, i + i)
    gathered(x, out, 1, (i + 1) % 64)
    gathered(x, out, 2, ct.minimum(i, 32))
    gathered(x, out, 3, 64 - i)
    gathered(x, out, 4, ct.where(i > 3, i, 32))


def test_rows_of_which_only_the_first_is_aligned() -> None:
    x, i = np.arange(200 * 257, dtype=np.float32).reshape(200, 257)[:, :64], np.arange(64)
    out = np.zeros((5 * 64, 64), np.float32)
    ct.launch(None, (1,), rows_of_kinds, (x, out))
    rows = np.concatenate([i + i, (i + 1) % 64, np.minimum(i, 32), 64 - i, np.where(i > 3, i, 32)])
    np.testing.assert_array_equal(out, x[rows])


@ct.kernel
def carried_alike(out, n):
    x, y, i = n + 1, n + 2, 0
    while i < n:
        x = y = x + y
        i += 1
    ct.store(out, (0,), ct.full((4,), x, ct.int32))
    ct.store(out, (1,), ct.full((4,), y, ct.int32))


def test_values_that_a_loop_carries_equally() -> None:
    for n, wanted in ((0, [1, 2]), (1, [5, 5]), (2, [14, 14])):
        out = np.zeros(8, np.int32)
        ct.launch(None, (1,), carried_alike, (out, n))
        np.testing.assert_array_equal(out, np.repeat(wanted, 4))


@ct.kernel
def handed_on(y, out, n):
    """What a thread loads others have stored, in a branch of a loop that a condition ends."""
    i = 0
    while i < n:
        i += 1
        if i != 2:
            ct.store(y, (0, 0), ct.full((64, 128), i, ct.float32), order="F", allow_tma=False)
            ct.store(out, (i, 0), ct.load(y, (0, 0), (128, 64), allow_tma=False), allow_tma=False)


def test_branches_in_loops() -> None:
    y, out = np.zeros((368, 112), np.float32), np.zeros((4 * 128, 64), np.float32)
    for _ in range(20):
        out[:] = 0
        ct.launch(None, (1,), handed_on, (y[1:, 1:], out, 3))
        np.testing.assert_array_equal(out, np.repeat([0, 1, 0, 3], 128)[:, None] + np.zeros((1, 64)))


@ct.kernel
def running_sums_of_products(a, b, x, out, more):
    """The sums are a part of an accumulator."""
    for j in range(2):
        sums = ct.cumsum(ct.load(x, (j, 0), (64, 64)), axis=1, reverse=True)
        part = ct.extract(sums, (1, 0), (32, 64)).astype(ct.int32) % 3
        ct.store(out, (j, 0), ct.mma(ct.load(a, (0, 0), (32, 32)), ct.load(b, (0, 0), (32, 64)), part))
        ct.store(more, (j, 0), ct.extract(sums, (0, 0), (32, 64)))


def test_running_sums_in_accumulators() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, shape).astype(np.int8) for shape in ((32, 32), (32, 64)))
    x, out, more = rng.integers(0, 5, (128, 64)).astype(np.float32), np.zeros((64, 64), np.int32), np.zeros((64, 64))
    more = more.astype(np.float32)
    ct.launch(None, (1,), running_sums_of_products, (a, b, x, out, more))
    sums = x[:, ::-1].cumsum(1)[:, ::-1].reshape(2, 2, 32, 64)
    np.testing.assert_array_equal(more.reshape(2, 32, 64), sums[:, 0])
    product = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(out.reshape(2, 32, 64), product + sums[:, 1].astype(np.int32) % 3)


@ct.kernel
def sums_of_columns(x, out, ROWS: ct.Constant[int], K: ct.Constant[int], SINGLE: ct.Constant[bool]):
    """By a product with ones."""
    tile = ct.load(x, (0, ct.bid(0)), (K, 64))
    zeros = ct.zeros((ROWS, 64), ct.float32 if SINGLE else ct.int32)
    sums = ct.mma(ct.full((ROWS, K), 1, x.dtype), tile, zeros)
    ct.store(out, (0, ct.bid(0)), sums)
    ct.store(out, (1, ct.bid(0)), sums * 2)


@pytest.mark.parametrize("element", [np.float16, np.float32, np.int8, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("depth", [16, 32, 64])
@pytest.mark.parametrize("rows", [64, 128, 256])
def test_products_of_equal_rows(element: type, depth: int, rows: int) -> None:
    x = np.random.default_rng(depth).integers(-3, 4, (depth, 256)).astype(element)
    out = np.zeros((2 * rows, 256), np.float32 if element is not np.int8 else np.int32)
    ct.launch(None, (4,), sums_of_columns, (x, out, rows, depth, element is not np.int8))
    sums = x.astype(out.dtype).sum(axis=0, keepdims=True)
    np.testing.assert_array_equal(out, np.repeat(np.concatenate([sums, 2 * sums]), rows, axis=0))
