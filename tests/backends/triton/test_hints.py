"""Hints and options of kernels: what is chosen by them, and which had no effect."""

from __future__ import annotations

import numpy as np
import pytest
from backends.triton.compiled_kernels import PRODUCT_ARGS, compiled, product

import tilewright as ct

pytest.importorskip("triton", reason="the package triton is not installed")


def test_hints() -> None:
    @ct.kernel(num_worker_warps=16, occupancy=2)
    def copy(x, out):
        ct.store(out, (0,), ct.load(x, (0,), (1024,), latency=3))

    x = np.zeros(1024, np.float32)
    choices = compiled(copy, (x, x.copy()), "sm_90").binary.texts["compile decisions"]
    assert "warps per block: 16" in choices
    assert "at most: no limit" in choices and "ignored hints: occupancy, latency\n" in choices
    amd = compiled(copy, (x, x.copy()), "gfx942").binary.texts["compile decisions"]
    assert "at most: no limit" in amd and "ignored hints: occupancy, latency\n" in amd
    wide = compiled(copy.replace_hints(num_worker_warps=32), (x, x.copy()), "gfx942").binary
    assert wide.threads == 16 * 64 and "ignored hints: num_worker_warps, " in wide.texts["compile decisions"]
    options = compiled(copy, (x, x.copy()), "sm_90", num_warps=4, maxnreg=48).binary.texts["compile decisions"]
    assert "at most: 48" in options and "ignored hints: num_worker_warps, occupancy, latency\n" in options


def test_hints_of_accesses() -> None:
    @ct.kernel(num_ctas=ct.ByTarget(sm_100=4), opt_level=2)
    def copy(x, out):
        ct.store(out, (0, 0), ct.load(x, (0, 0), (64, 64), allow_tma=True))

    array = np.zeros((64, 64), np.float32)
    for target, ignored in (("sm_80", "opt_level, allow_tma"), ("sm_100", "opt_level, num_ctas, allow_tma")):
        found = compiled(copy, (array, array), target).binary.texts["compile decisions"]
        assert f"ignored hints: {ignored}\n" in found


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="num_warps is 3; it must be 1, 2, 4, 8, 16 or 32"):
        compiled(product, PRODUCT_ARGS, "sm_90", num_warps=3)
    with pytest.raises(ValueError, match="num_warps is 32; a block of gfx942 has at most 16"):
        compiled(product, PRODUCT_ARGS, "gfx942", num_warps=32)
    with pytest.raises(ValueError, match="no option 'warps'; its options are num_warps, num_stages, maxnreg"):
        compiled(product, PRODUCT_ARGS, "sm_90", warps=3)
