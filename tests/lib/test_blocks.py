"""Scans over blocks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tilewright import lib

TILE = 16


@ct.kernel
def running_sum(a, out, tickets, prefixes, ready):
    block = lib.next_block(tickets)
    x = ct.load(a, (block,), (TILE,), padding_mode=ct.PaddingMode.ZERO)
    before = lib.block_prefix(block, ct.sum(x), prefixes, ready)
    ct.store(out, (block,), ct.astype(ct.cumsum(x, 0) + before, out.dtype))


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda t: t.__name__)
@pytest.mark.parametrize("size", [1, 16, 30, 37 * TILE - 5])
def test_a_scan_of_an_array(backend: str, size: int, dtype: Any) -> None:
    a = (np.arange(size) % 11 % (11 if size < 100 else 2)).astype(dtype)
    blocks = ct.cdiv(size, TILE)
    if dtype is ml_dtypes.bfloat16:
        a[128:] = 0  # sums up to 256 are exact
    out, wide = np.zeros_like(a), np.float32 if dtype is ml_dtypes.bfloat16 else dtype
    state = np.zeros(1, np.int32), np.zeros(blocks, wide), np.zeros(blocks, np.int32)
    ct.launch(None, (blocks,), running_sum, (a, out, *state))
    np.testing.assert_array_equal(out.astype(float), np.cumsum(a.astype(float)))
    assert state[0][0] == blocks and state[2].all()
