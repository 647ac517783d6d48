"""Loads by 2-CTA clusters."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled, persistent, serialized, spills

import tilewright as ct
from tilewright.backends.triton.ptx import UnexpectedPtx, share_loads

pytest.importorskip("triton", reason="the package triton is not installed")


def test_pairs_of_blocks_share_loads_of_rows_that_start_inside_sectors(tmp_path: Path) -> None:
    options = {"num_warps": 8, "num_stages": 4}
    for n, shared in ((520, 1), (528, 0)):  # rows of 1040 and of 1056 bytes
        half = np.zeros((n, n), np.float16)
        artifact = compiled(persistent, (half, half, half), "sm_90", **options)
        ptx = artifact.binary.texts["PTX"]
        assert sum(d.pairs for d in artifact.descriptors) == shared
        assert ("multicast::cluster" in ptx) == (shared > 0)
        assert ptx.count("barrier.cluster.wait") == 2 * shared  # at the start, and in the loop
        assert "wgmma.wait_group.sync.aligned 1;" in ptx
        assert not serialized(ptx, tmp_path)
        assert not spills(artifact.binary)
    assert not any(d.pairs for d in compiled(persistent, (half, half, half), "sm_100").descriptors)


@ct.kernel
def one_tile(a, b, c, SWIZZLED: ct.Constant[bool]):
    i, j = ct.bid(0), ct.bid(1)
    if SWIZZLED:
        wide = 8 * ct.cdiv(c.shape[1], 256)
        first = ct.bid(0) // wide * 8
        height = min(ct.cdiv(c.shape[0], 128) - first, 8)
        i, j = first + ct.bid(0) % wide % height, ct.bid(0) % wide // height
    total = ct.zeros((128, 256), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        x = ct.load(a, (i, k), (128, 64), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (64, 256), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@pytest.mark.parametrize("swizzled", [False, True])
def test_pairs_of_blocks_share_loads_in_kernels_with_a_tile_for_each_block(swizzled: bool, tmp_path: Path) -> None:
    options = {"num_warps": 8, "num_stages": 4}
    for n, shared in ((520, 1 + swizzled), (528, 0)):  # rows of 1040 and of 1056 bytes
        half = np.zeros((n, n), np.float16)
        artifact = compiled(one_tile, (half, half, half, swizzled), "sm_90", **options)
        ptx = artifact.binary.texts["PTX"]
        assert sum(d.pairs for d in artifact.descriptors) == shared
        assert ("multicast::cluster" in ptx) == (shared > 0)
        assert ptx.count("barrier.cluster.wait") == 2 * bool(shared)  # at the start, and in the loop
        assert "wgmma.wait_group.sync.aligned 1;" in ptx
        assert not serialized(ptx, tmp_path)
        assert not spills(artifact.binary)


@ct.kernel
def halves(a, b, c):
    """Two loops, of which the second takes the memory of the first, and of what was stored between."""
    steps, total = ct.cdiv(a.shape[1], 64), ct.zeros((64, 128), ct.float32)
    for k in range(steps // 2, steps):
        x = ct.load(a, (ct.bid(1), k), (64, 64), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, ct.bid(0)), (64, 128), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (ct.bid(1), ct.bid(0)), total.astype(c.dtype))
    for k in range(steps // 2):
        x = ct.load(a, (ct.bid(1), k), (64, 64), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, ct.bid(0)), (64, 128), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (ct.bid(1), ct.bid(0)), total.astype(c.dtype))


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_pairs_meet_before_a_loop_in_the_memory_of_another(stages: int) -> None:
    """When both blocks are done with what was in it, and have made the barriers of the loop."""
    half = np.zeros((520, 520), np.float16)
    artifact = compiled(halves, (half, half, half.copy()), "sm_90", num_stages=stages)
    assert any(d.pairs for d in artifact.descriptors)
    ptx = artifact.binary.texts["PTX"]
    meetings = re.findall(r"mbarrier\.init|cluster\.(?:arrive|wait)\.\w+|multicast", ptx)
    assert re.fullmatch("(i+ARm+(rwm+))+", "".join(MEETING[m] for m in meetings)), meetings
    for between in re.findall(r"cluster\.arrive\.relaxed(.*?)cluster\.wait", ptx, re.DOTALL):
        assert not re.search(r"mbarrier\.in|\.shared\.|bulk_group", between.replace("expect_tx.shared", ""))


MEETING = {"mbarrier.init": "i", "cluster.arrive.release": "A", "cluster.wait.acquire": "R", "multicast": "m"}
MEETING |= {"cluster.arrive.relaxed": "r", "cluster.wait.aligned": "w"}


def test_where_a_step_waits_for_its_loads_they_are_not_shared() -> None:
    half = np.zeros((520, 520), np.float16)
    assert not any(d.pairs for d in compiled(one_tile, (half, half, half, False), "sm_90", num_stages=1).descriptors)


def test_loads_of_another_form_are_not_shared() -> None:
    with pytest.raises(UnexpectedPtx, match="0 uses of shared maps"):
        share_loads("ret;", [3])
