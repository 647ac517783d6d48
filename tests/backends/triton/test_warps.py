"""How many warps a kernel gets that says nothing about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.heuristics import choose
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


@ct.kernel
def recurrence(q, k, v, out, T: ct.Constant[int]):
    """The steps of linear attention."""
    state = ct.zeros((128, 128), ct.float32)
    for i in range(q.shape[0] // T):
        x, y, z = ct.load(q, (i, 0), (T, 128)), ct.load(k, (i, 0), (T, 128)), ct.load(v, (i, 0), (T, 128))
        s = ct.mma(x, ct.transpose(y), ct.zeros((T, T), ct.float32))
        o = ct.mma(x, state.astype(q.dtype), ct.zeros((T, 128), ct.float32))
        ct.store(out, (i, 0), ct.mma(s.astype(q.dtype), z, o).astype(out.dtype))
        state = ct.mma(ct.transpose(y), z, state)


@ct.kernel
def gradients(q, g, k, v, dk, dv, TQ: ct.Constant[int], TK: ct.Constant[int]):
    """Those of attention: products that wait for others, in many blocks."""
    keys, values = ct.load(k, (ct.bid(0), 0), (TK, 128)), ct.load(v, (ct.bid(0), 0), (TK, 128))
    a, b = ct.zeros((TK, 128), ct.float32), ct.zeros((TK, 128), ct.float32)
    for i in range(q.shape[0] // TQ):
        x, y = ct.load(q, (i, 0), (TQ, 128)), ct.load(g, (i, 0), (TQ, 128))
        p = ct.exp2(ct.mma(keys, ct.transpose(x), ct.zeros((TK, TQ), ct.float32)))
        b = ct.mma(p.astype(q.dtype), y, b)
        p = p * ct.mma(values, ct.transpose(y), ct.zeros((TK, TQ), ct.float32))
        a = ct.mma(p.astype(q.dtype), x, a)
    ct.store(dk, (ct.bid(0), 0), a.astype(dk.dtype))
    ct.store(dv, (ct.bid(0), 0), b.astype(dv.dtype))


@pytest.mark.parametrize(
    ("kernel", "arrays", "tiles", "warps", "stages"),
    [
        (product, 3, (128, 128, 64), 4, 3),  # which leaves room for a second block
        (product, 3, (128, 256, 64), 8, 4),
        (product, 3, (16, 64, 128), 4, 5),  # what limits it is memory
        (gated, 4, (128, 128, 64), 8, 4),
        (gated, 4, (128, 64, 64), 4, 3),
        (gated, 4, (64, 128, 64), 4, 4),  # no second block fits
        (recurrence, 4, (64,), 4, 4),
        (gradients, 6, (64, 64), 4, 2),  # two blocks
        (gradients, 6, (64, 128), 8, 4),
        (gradients, 6, (128, 64), 8, 3),
    ],
)
def test_warps_and_stages_of_products(
    kernel: Any, arrays: int, tiles: tuple[int, ...], warps: int, stages: int
) -> None:
    x = np.zeros((1024, 1024), np.float16)
    function = optimize(specialization(kernel, (*[x] * arrays, *tiles), "reference").function)
    found = choose(function, HOPPER, {})
    assert (found.num_warps, found.num_stages) == (warps, stages)
