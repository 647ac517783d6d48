"""Products of tfloat32, and of operands that pass through registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from backends.triton.compiled_kernels import SINGLE, compiled, serialized, tf32_product

import tilewright as ct

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
    choices = compiled(two_products, (SINGLE, SINGLE, SINGLE, SINGLE), "sm_90").binary.texts["compile decisions"]
    assert "pipeline stages: 3" in choices
    assert "warps per block: 8" in choices


@pytest.mark.parametrize(
    ("a", "b", "shape", "register_operand"),
    [
        (SINGLE, SINGLE, (256, 128, 32), True),
        (SINGLE, SINGLE, (128, 128, 64), True),
        (SINGLE, SINGLE.T, (256, 128, 32), False),
        (SINGLE.T, SINGLE.T, (128, 128, 32), True),
    ],
)
def test_tf32_operands_are_rounded_by_the_copy_engine(
    a: Any, b: Any, shape: tuple[int, int, int], register_operand: bool, tmp_path: Path
) -> None:
    """Where no operand passes through registers, warp groups multiply, and steps overlap."""
    artifact = compiled(tf32_product, (a, b, SINGLE, *shape), "sm_90", num_stages=3)
    assert [d.rounds for d in artifact.descriptors] == [True, True, False]
    texts = artifact.binary.texts
    assert ("wgmma.mma_async" in texts["PTX"]) != register_operand
    assert not serialized(texts["PTX"], tmp_path)


@ct.kernel
def rounded(x, out):
    ct.store(out, (0, 0), ct.load(x, (0, 0), (64, 64), allow_tma=True).astype(ct.tfloat32).astype(ct.float32))


def test_conversions_that_are_seen_are_not_left_to_the_copy_engine() -> None:
    """It does not keep the bits of NaN."""
    assert [d.rounds for d in compiled(rounded, (SINGLE, SINGLE.copy()), "sm_90").descriptors] == [False, False]
