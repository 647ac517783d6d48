"""Loops over the tiles of a block, with a loop over K in each."""

from __future__ import annotations

from pathlib import Path

import pytest
from backends.triton.compiled_kernels import PRODUCT_ARGS, compiled, serialized

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target

pytest.importorskip("triton", reason="the package triton is not installed")


@ct.kernel
def flat_product(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """All steps of all tiles of a block in one loop."""
    columns, steps = ct.cdiv(c.shape[1], TN), ct.cdiv(a.shape[1], TK)
    tiles = ct.cdiv(ct.cdiv(c.shape[0], TM) * columns - ct.bid(0), ct.num_blocks(0))
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(tiles * steps):
        tile, k = ct.bid(0) + step // steps * ct.num_blocks(0), step % steps
        i, j = tile // columns, tile % columns
        total = ct.mma(ct.load(a, (i, k), (TM, TK)), ct.load(b, (k, j), (TK, TN)), total)
        if k == steps - 1:
            ct.store(c, (i, j), total.astype(c.dtype))
            total = ct.zeros((TM, TN), ct.float32)


def test_a_store_in_a_loop_overlaps_with_its_loads(tmp_path: Path) -> None:
    """It goes in pieces that leave room for a fourth stage, without a barrier, which would end the pipeline."""
    artifact = compiled(flat_product, PRODUCT_ARGS, "sm_90", num_stages=4)
    assert [d.block for d in artifact.descriptors] == [(128, 64), (64, 256), (128, 128)]
    assert artifact.binary.shared_bytes <= parse_target("sm_90").shared_memory
    loop = artifact.binary.texts["TTGIR"].partition("scf.for")[2]
    assert "gpu.barrier" not in loop
    assert loop.count("ttng.async_tma_copy_local_to_global") == 2
    assert "pendings = 1" in loop
    assert not serialized(artifact.binary.texts["PTX"], tmp_path)
