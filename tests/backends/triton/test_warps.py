"""How many warps a kernel gets that says nothing about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.options import choose
from tilewright.backends.triton.resources import check_registers
from tilewright.runtime.launch import specialization
from tilewright.transforms.pipelines import optimize

HOPPER = parse_target("sm_90")


@ct.kernel
def gathered(x, rows, y, out, N: ct.Constant[int], K: ct.Constant[int]):
    """A small product beside a large tile, whose addresses take more registers than its elements."""
    tile = ct.gather(x, (ct.load(rows, 0, N)[:, None], ct.arange(K, dtype=ct.int64)[None, :]))
    other = ct.load(y, (0, 0), (64, 64))
    total = ct.mma(other, other, ct.zeros((64, 64), ct.float32))
    ct.store(out, (0, 0), total + ct.sum(tile.astype(ct.float32)))


@pytest.mark.parametrize("large", [16, 64, 256, 512, 1024, 4096])
def test_there_are_as_many_warps_as_the_largest_tile_needs(large: int) -> None:
    x, y = np.zeros((4096, 512), np.float16), np.zeros((64, 64), np.float16)
    arguments = (x, np.zeros(4096, np.int64), y, y.astype(np.float32), large, 512)
    function = optimize(specialization(gathered, arguments, "reference").function)
    warps = choose(function, HOPPER, {}).num_warps
    if large > 1024:
        with pytest.raises(ct.TileError, match=r"in each of the 128 threads of a block.* use smaller tiles\n"):
            check_registers(function, HOPPER, warps)
        return
    check_registers(function, HOPPER, warps)
    if warps > 4:
        with pytest.raises(ct.TileError, match="takes"):
            check_registers(function, HOPPER, warps // 2)
    asked = choose(function, HOPPER, {"num_warps": 4})
    assert asked.num_warps == 4  # what is asked for is not corrected
    assert warps == {16: 4, 64: 4}.get(large, warps)


@ct.kernel
def gated(x, v, w, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """Two products that do not wait for each other."""
    a, b = ct.zeros((TM, TN), ct.float32), ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(x.shape[1], TK)):
        tile = ct.load(x, (ct.bid(0), k), (TM, TK))
        a = ct.mma(tile, ct.load(v, (k, ct.bid(1)), (TK, TN)), a)
        b = ct.mma(tile, ct.load(w, (k, ct.bid(1)), (TK, TN)), b)
    ct.store(out, (ct.bid(0), ct.bid(1)), (a * b).astype(out.dtype))


@ct.kernel
def product(x, v, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(x.shape[1], TK)):
        total = ct.mma(ct.load(x, (0, k), (TM, TK)), ct.load(v, (k, ct.bid(0)), (TK, TN)), total)
    ct.store(out, (0, ct.bid(0)), total.astype(out.dtype))


@pytest.mark.parametrize(
    ("kernel", "arrays", "tiles", "warps"),
    [
        (product, 3, (128, 128, 64), 4),
        (product, 3, (128, 256, 64), 8),
        (product, 3, (16, 64, 128), 4),
        (gated, 4, (128, 128, 64), 8),
        (gated, 4, (128, 64, 64), 4),
    ],
)
def test_warps_of_products(kernel: Any, arrays: int, tiles: tuple[int, ...], warps: int) -> None:
    x = np.zeros((1024, 1024), np.float16)
    function = optimize(specialization(kernel, (*[x] * arrays, *tiles), "reference").function)
    assert choose(function, HOPPER, {}).num_warps == warps
