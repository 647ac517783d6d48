"""Loops that follow each other in a kernel, compiled for a CPU."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as ct


@ct.kernel
def two_lists(x, first, second):
    """Blocks take turns with the items of two lists, as if they were one."""
    blocks = ct.num_blocks(0)
    for item in range(ct.bid(0), first, blocks):
        ct.store(x, (item,), ct.load(x, (item,), (4,)) + 1)
    item = (ct.bid(0) + blocks - first % blocks) % blocks
    while item < second:
        ct.store(x, (first + item,), ct.load(x, (first + item,), (4,)) + 2)
        item += blocks


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 20])
def test_a_loop_without_end_after_a_counted_one(blocks: int) -> None:
    """LLVM gets through it, and each item is done once."""
    for first, second in ((0, 5), (5, 0), (9, 8)):
        x = np.zeros(4 * (first + second), np.float32)
        ct.launch(None, (blocks,), two_lists, (x, first, second))
        np.testing.assert_array_equal(x, np.repeat([1, 2], [4 * first, 4 * second]))
