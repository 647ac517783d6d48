"""A product of remainders of a product, beside one of 8-bit floats: the left operand comes from registers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct

ZERO = ct.PaddingMode.ZERO


@ct.kernel
def remainders(a8, b8, a, b, narrow, odd, sums):
    block = ct.bid(0)
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a8.shape[1], 64)):
        x = ct.load(a8, (0, k), (64, 64), padding_mode=ZERO)
        y = ct.load(b8, (block, k, 0), (1, 64, 64), padding_mode=ZERO, allow_tma=True).reshape((64, 64))
        left = ct.load(a, (0, 0), (64, 64), padding_mode=ZERO)
        right = ct.load(b, (block, 0, 0), (1, 64, 64), padding_mode=ZERO, allow_tma=True).reshape((64, 64))
        first = ct.mma(left, ct.where(right > 0, right, 1), ct.zeros((64, 64), ct.float32))
        other = ct.transpose(ct.load(narrow, (0, 0), (64, 64), padding_mode=ZERO, allow_tma=False))
        second = ct.mma((first % 2).astype(ct.float16), other, ct.zeros((64, 64), ct.float32))
        ct.store(odd, (0, block), second, allow_tma=True)
        total = ct.mma(x, y, total)
    ct.store(sums, (block, 0, 0), total.reshape((1, 64, 64)))


@pytest.mark.usefixtures("engine_of_the_gpu")
@pytest.mark.parametrize("seed", range(4))
def test_remainders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a8, b8 = (rng.integers(-2, 3, s).astype(ml_dtypes.float8_e4m3fn) for s in ((320, 64), (3, 320, 64)))
    a, b, narrow = (
        rng.integers(-n, n + 1, s).astype(np.float16) for n, s in ((2, (64, 64)), (3, (3, 64, 64)), (3, (64, 5)))
    )
    odd, sums = np.zeros((2, 179), np.float32)[:, :176], np.zeros((3, 64, 64), np.float32)
    ct.launch(None, (3,), remainders, (a8.T, b8, a, b, narrow.T, odd, sums))
    single = [x.astype(np.float32) for x in (a8, b8, a, b, narrow)]
    first = single[2] @ np.where(single[3] > 0, single[3], 1)
    wanted = np.zeros((2, 192), np.float32)
    for block in range(3):
        wanted[:, 64 * block : 64 * block + 5] = (np.mod(first[block], 2) @ single[4])[:2]
    np.testing.assert_array_equal(odd, wanted[:, :176])
    np.testing.assert_array_equal(sums, single[0].T @ single[1])
