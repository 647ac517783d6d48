"""Products of bytes whose left operand is computed, and so in registers, on Hopper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.triton.test_compile import compiled

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")


@ct.kernel
def product(x, y, out):
    total = ct.zeros((64, 32), ct.int32)
    for k in range(ct.num_tiles(x, 1, (64, 32))):
        total = ct.mma(ct.load(x, (0, k), (64, 32)), ct.load(y, (k, 0), (32, 32)), total)
    ct.store(out, (0, 0), total)


@ct.kernel
def two(x, y, out):
    a, b = ct.zeros((64, 32), ct.int32), ct.zeros((64, 32), ct.int32)
    for k in range(ct.num_tiles(x, 1, (64, 32))):
        left, right = ct.load(x, (0, k), (64, 32)), ct.load(y, (k, 0), (32, 32))
        a, b = ct.mma(left & 3, right, a), ct.mma(left, right, b)
    ct.store(out, (0, 0), a - b)


@pytest.mark.parametrize("kernel", [product, two], ids=["one", "two"])
@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
def test_products_of_computed_bytes(kernel: Any, left: Any, right: Any) -> None:
    """They end before what follows; unsigned ones are sums of products of halves, which are computed."""
    arrays = np.zeros((64, 128), left), np.zeros((128, 32), right), np.zeros((64, 32), np.int32)
    texts = compiled(kernel, arrays, "sm_90").binary.texts
    assert "wgmma.mma_async" in texts["PTX"]
    for line in texts["TTGIR"].splitlines():
        assert not ("warp_group_dot" in line and "isAsync" in line and ": tensor<64x32xi8" in line)
