"""How many warps a kernel gets that says nothing about them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.triton.options import choose
from tilewright.backends.triton.resources import check_registers
from tilewright.backends.triton.target import parse_target
from tilewright.passes.pipelines import optimize
from tilewright.runtime.launch import specialization

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
