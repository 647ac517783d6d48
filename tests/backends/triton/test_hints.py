"""Hints and options of kernels: what is chosen by them, and which had no effect."""

from __future__ import annotations

import numpy as np
import pytest
from backends.triton.compiled_kernels import (
    HALF,
    PRODUCT_ARGS,
    SINGLE,
    compiled,
    persistent_product,
    product,
    tf32_product,
)

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")


def test_hints() -> None:
    @ct.kernel(num_worker_warps=16, occupancy=2)
    def copy(x, out):
        ct.store(out, (0,), ct.load(x, (0,), (1024,), latency=3))

    x = np.zeros(1024, np.float32)
    choices = compiled(copy, (x, x.copy()), "sm_90").binary.texts["compile decisions"]
    assert "warps per block: 16" in choices
    assert "registers per thread, at most: 64" in choices
    assert "ignored hints: latency\n" in choices
    amd = compiled(copy, (x, x.copy()), "gfx942").binary.texts["compile decisions"]
    assert "at most: no limit" in amd and "ignored hints: occupancy, latency\n" in amd
    wide = compiled(copy.replace_hints(num_worker_warps=32), (x, x.copy()), "gfx942").binary
    assert wide.threads == 16 * 64 and "ignored hints: num_worker_warps, " in wide.texts["compile decisions"]
    options = compiled(copy, (x, x.copy()), "sm_90", num_warps=4, maxnreg=48).binary.texts["compile decisions"]
    assert "at most: 48" in options and "ignored hints: num_worker_warps, latency\n" in options


def test_hints_of_accesses() -> None:
    @ct.kernel(num_ctas=ct.ByTarget(sm_100=4), opt_level=2)
    def copy(x, out):
        ct.store(out, (0, 0), ct.load(x, (0, 0), (64, 64), allow_tma=True))

    even, odd = np.zeros((64, 64), np.float32), np.zeros((64, 128), np.float32)[:, ::2]
    for arrays, target, ignored in (
        ((even, even), "sm_90", "opt_level"),
        ((odd, odd), "sm_90", "opt_level, allow_tma"),
        ((even, even), "sm_80", "opt_level, allow_tma"),
        ((even, even), "sm_100", "opt_level"),
    ):
        assert f"ignored hints: {ignored}\n" in compiled(copy, arrays, target).binary.texts["compile decisions"]

    crowded = product.replace_hints(occupancy=8)  # as many blocks as the results of 128x128 have no registers for
    choices = compiled(crowded, (HALF, HALF, HALF, 128, 128, 64), "sm_90").binary.texts["compile decisions"]
    assert "at most: no limit" in choices
    assert "ignored hints: occupancy (needs more than 64 registers per thread)\n" in choices


def test_clusters_where_a_kernel_can_be_divided() -> None:
    @ct.kernel(num_ctas=2)
    def normalize(x, out):
        tile = ct.load(x, (0, 0), (1, 64))
        ct.store(out, (0, 0), tile - ct.max(tile, axis=1, keepdims=True))

    binary = compiled(product.replace_hints(num_ctas=2), PRODUCT_ARGS, "sm_90").binary
    assert binary.num_ctas == 2
    assert "ignored hints: none" in binary.texts["compile decisions"]
    x = np.zeros((64, 64), np.float32)
    binary = compiled(normalize, (x, x), "sm_90").binary
    assert binary.num_ctas == 1
    assert "ignored hints: num_ctas" in binary.texts["compile decisions"]


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="num_warps is 3; it must be 1, 2, 4, 8, 16 or 32"):
        compiled(product, PRODUCT_ARGS, "sm_90", num_warps=3)
    with pytest.raises(ValueError, match="num_warps is 32; a block of gfx942 has at most 16"):
        compiled(product, PRODUCT_ARGS, "gfx942", num_warps=32)
    with pytest.raises(ValueError, match="no option 'warps'; its options are num_warps, num_stages, maxnreg"):
        compiled(product, PRODUCT_ARGS, "sm_90", warps=3)


@pytest.mark.parametrize("name", ["tf32_product", "persistent_product"])
def test_products_of_clusters(name: str) -> None:
    kernel = {"tf32_product": tf32_product, "persistent_product": persistent_product}[name].replace_hints(num_ctas=2)
    array = SINGLE if name == "tf32_product" else HALF
    for b in (array, array.T):
        binary = compiled(kernel, (array, b, array.copy(), 128, 128, 32), "sm_90").binary
        assert binary.num_ctas == 2
        assert "ignored hints: none" in binary.texts["compile decisions"]
