"""Kernels whose MMA ops need more registers than two warp groups have are divided among CTAs."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_attention import attended
from support.gpu_products import aligned, matmul

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.ir.core import Function
from tilewright.ir.ops.linear import Mma
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.split_products import SplitProducts
from tilewright.transforms.gpu.tile_splitting import cluster_size
from tilewright.transforms.pipelines import optimize


def multiplied(m: int, n: int, dtype: type = np.float16) -> Function:
    a, b, c = (aligned((512, 512), dtype) for _ in range(3))
    return specialization(ct.kernel(matmul), (a, b, c, m, n, 32, False, False, ct.float32, False), "reference").function


def sums(function: Function, target: str = "sm_90") -> tuple[int, set[tuple[int, ...]]]:
    """How many CTAs run a block, and the shapes of the sums in one of them."""
    made = SplitProducts(parse_target(target)).run(optimize(function))
    verify(made)
    shapes = {op.acc.tile.shape for op in made.walk() if isinstance(op, Mma)}
    return AnalysisManager(made).get(cluster_size), shapes


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (attended(256, 128, 128), (2, {(128, 128)})),
        (attended(256, 128, 64), (2, {(128, 128), (128, 64)})),
        (attended(256, 128, 256), (2, {(128, 128), (128, 256)})),
        (multiplied(256, 256), (2, {(128, 256)})),
        (attended(256, 64, 64), (1, {(256, 64)})),  # 128 words of sums and 32 of weights
        (attended(128, 128, 128), (1, {(128, 128)})),
        (multiplied(128, 256), (1, {(128, 256)})),
    ],
)
def test_rows_are_halved_until_registers_suffice(function: Function, wanted: tuple[int, set[tuple[int, ...]]]) -> None:
    assert sums(function) == wanted


def test_rows_stay_where_no_warp_groups_multiply() -> None:
    assert sums(attended(256, 128, 128), "sm_80") == (1, {(256, 128)})


def test_what_cannot_be_halved_stays_whole() -> None:
    @ct.kernel
    def summed(a, b, out):  # type: ignore[no-untyped-def]
        total = ct.zeros((256, 256), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 32)):
            total = ct.mma(ct.load(a, (0, k), (256, 32)), ct.load(b, (k, 0), (32, 256)), total)
        ct.atomic_add(out, (0,), ct.sum(total))

    a, b = aligned((256, 64), np.float16), aligned((64, 256), np.float16)
    function = specialization(summed, (a, b, np.zeros(1, np.float32)), "reference").function
    assert sums(function) == (1, {(256, 256)})


def test_all_products_are_of_warp_groups_then_and_a_hint_for_as_many_ctas_has_its_effect() -> None:
    made = compile_to_ptx(attended(256, 128, 128, num_ctas=2), "sm_90", None)
    assert made.num_ctas == 2
    lines = made.schedule.splitlines()
    assert "CTAs that run a block, whose MMA ops need more registers than one has: 2" in lines
    assert "ignored hints: none" in lines
    assert "mma.sync" not in made.schedule
    assert compile_to_ptx(attended(256, 128, 128), "sm_90", None, descriptors=False).num_ctas == 1
