"""Random kernels that only multiply compile for every kind of target."""

from __future__ import annotations

import pytest
from support.kernel_runs import arguments, generated_product, seeds

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.backend import compile_for
from tilewright.runtime.launch import specialization

pytest.importorskip("triton", reason="the package triton is not installed")
_TARGETS = ("sm_80", "sm_90", "sm_100")


@pytest.mark.parametrize("seed", seeds(9))
def test_compiles(seed: int) -> None:
    kernel = generated_product(seed)
    function = specialization(kernel.kernel(), arguments(kernel)[0], "reference").function
    try:
        assert compile_for(function, parse_target(_TARGETS[seed % 3]), {}).binary.code
    except ct.TileUnsupportedFeatureError as e:  # of integers that saturate
        assert "satfinite" in str(e)
