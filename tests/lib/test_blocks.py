"""Scans over blocks."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as ct
from tilewright import lib

TILE = 16


@ct.kernel
def running_sum(a, out, tickets, prefixes, ready):
    block = lib.next_block(tickets)
    x = ct.load(a, (block,), (TILE,))
    before = lib.block_prefix(block, ct.sum(x), prefixes, ready)
    ct.store(out, (block,), ct.cumsum(x, 0) + before)


@pytest.mark.parametrize("blocks", [1, 2, 37])
def test_a_scan_of_an_array(backend: str, blocks: int) -> None:
    a = np.arange(blocks * TILE, dtype=np.int32) % 11
    out = np.zeros_like(a)
    state = np.zeros(1, np.int32), np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
    ct.launch(None, (blocks,), running_sum, (a, out, *state))
    np.testing.assert_array_equal(out, np.cumsum(a))
    assert state[0][0] == blocks and state[2].all()
