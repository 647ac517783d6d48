"""Random whole kernels compile for Hopper, whose TMA unit and tensor cores the backend rewrites kernels for."""

from __future__ import annotations

import pytest
from support.kernel_runs import arguments, generated, seeds

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.backend import compile_for
from tilewright.runtime.launch import specialization

pytest.importorskip("triton", reason="the package triton is not installed")


@pytest.mark.parametrize("seed", seeds(6))
def test_compiles(seed: int) -> None:
    kernel = generated(seed)
    function = specialization(kernel.kernel(), arguments(kernel)[0], "reference").function
    try:
        assert compile_for(function, parse_target("sm_90"), {}).binary.texts["PTX"]
    except ct.TileUnsupportedFeatureError as e:  # of integers, by what Triton makes of them
        assert "is compiled wrongly" in str(e)
