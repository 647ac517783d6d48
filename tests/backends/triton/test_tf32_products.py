"""Products of tfloat32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from backends.triton.compiled_kernels import SINGLE, compiled, serialized, tf32_product

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.heuristics import choose
from tilewright.runtime.launch import specialization
from tilewright.transforms.pipelines import optimize

pytest.importorskip("triton", reason="the package triton is not installed")


@ct.kernel
def two_products(a, b, c, d):
    """Loops over tiles and K, then one over K."""
    for i in range(ct.bid(0), ct.cdiv(c.shape[0], 128), ct.num_blocks(0)):
        total = ct.zeros((128, 128), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 32)):
            x, y = ct.load(a, (i, k), (128, 32)), ct.load(b, (k, 0), (32, 128))
            total = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), total)
        ct.store(c, (i, 0), total)
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 32)):
        x, y = ct.load(a, (0, k), (64, 32)), ct.load(b, (k, 0), (32, 64))
        total = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), total)
    ct.store(d, (0, 0), total)


def test_loops_with_one_product_each_have_deep_pipelines() -> None:
    function = optimize(specialization(two_products, (SINGLE, SINGLE, SINGLE, SINGLE), "reference").function)
    chosen = choose(function, parse_target("sm_90"), {})
    assert (chosen.num_stages, chosen.num_warps) == (3, 8)


@pytest.mark.parametrize(("a", "b", "across"), [(SINGLE, SINGLE, 1), (SINGLE, SINGLE.T, 0), (SINGLE.T, SINGLE.T, 1)])
def test_tf32_operands_are_rounded_by_the_copy_engine(a: Any, b: Any, across: bool, tmp_path: Path) -> None:
    """Where none lies across K, warp groups multiply them, and steps overlap."""
    artifact = compiled(tf32_product, (a, b, SINGLE, 128, 128, 32), "sm_90", num_stages=3)
    assert [d.rounds for d in artifact.descriptors] == [True, True, False]
    texts = artifact.binary.texts
    assert ("wgmma.mma_async" in texts["PTX"]) != across
    assert not serialized(texts["PTX"], tmp_path)


@ct.kernel
def rounded(x, out):
    ct.store(out, (0, 0), ct.load(x, (0, 0), (64, 64), allow_tma=True).astype(ct.tfloat32).astype(ct.float32))


def test_conversions_that_are_seen_are_not_left_to_the_copy_engine() -> None:
    """It does not keep the bits of NaN."""
    assert [d.rounds for d in compiled(rounded, (SINGLE, SINGLE.copy()), "sm_90").descriptors] == [False, False]
