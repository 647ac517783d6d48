"""What is scaled and shifted before an exponential is one op, where that changes little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.irbuild import run

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.reference import BACKEND as REFERENCE
from tilewright.ir.core import Function
from tilewright.ir.verifier import verify
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
from tilewright.transforms.gpu.fma_contraction import ContractFma
from tilewright.transforms.pipelines import optimize

HOPPER = parse_target("sm_90")


def optimized(kernel: Launchable, *args: Any) -> Function:
    return optimize(specialization(kernel, args, "reference").function)


def test_only_the_argument_of_a_fast_power_is_contracted() -> None:
    @ct.kernel
    def powers(x, y, z):
        a, b = ct.load(x, (0, 0), (16, 16)), ct.load(y, (0, 0), (16, 16))
        a = ct.mma(a, a, ct.zeros((16, 16), ct.float32))
        ct.store(x, (0, 0), ct.exp2(a * 3 - b, flush_to_zero=True))
        ct.store(y, (0, 0), ct.exp2(a * 3 - b))
        ct.store(z, (0, 0), a * 3 - b)

    square = np.zeros((16, 16), np.float32)
    function = ContractFma(HOPPER).run(optimized(powers, square, square, square))
    verify(function)
    fused = [op for op in function.walk() if op.name == "fma"]
    assert len(fused) == 1
    assert [op.attributes["flush_to_zero"] for op in function.walk() if fused[0].result in op.operands] == [True]


@ct.kernel
def masked_softmax(x, mask, out, scale, hidden: ct.Constant[float], loaded: ct.Constant[bool]):
    """The softmax of products; ``hidden``, or what ``mask`` holds, stands for what is not seen."""
    seen = ct.load(mask, (0, 0), (16, 16))
    scores = ct.load(x, (0, 0), (16, 16))
    scores = ct.mma(scores, scores, ct.zeros((16, 16), ct.float32))
    if loaded:
        scores += seen
    else:
        scores = ct.where(seen == 0, scores, hidden)
    top = ct.max(scores * scale, axis=1, keepdims=True)
    powers = ct.exp2(scores * scale - top, flush_to_zero=True)
    ct.store(out, (0, 0), powers / ct.sum(powers, axis=1, keepdims=True))


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("hidden", [-1e4, -1e6, -1e9, -1e30, float(np.finfo(np.float32).min) / 2])
def test_rows_that_are_hidden_by_a_large_number_are_finite(hidden: float, loaded: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 16)).astype(np.float32)
    mask = np.where(rng.random((16, 16)) < 0.5, np.float32(hidden), np.float32(0))
    mask[5:9] = hidden  # nothing is seen
    function = optimized(masked_softmax, x, mask, x, 0.1803, hidden, loaded)
    out = np.full((2, 16, 16), np.nan, np.float32)
    for form, result in zip((function, ContractFma(HOPPER).run(function)), out):
        run(REFERENCE, form, (1,), x=x, mask=mask, out=result, scale=np.float32(0.1803))
    np.testing.assert_allclose(out[1], out[0], rtol=0.02, atol=1e-6)


def test_scores_without_large_numbers_are_contracted() -> None:
    square = np.zeros((16, 16), np.float32)
    for hidden in (-np.inf, -1e6):
        function = ContractFma(HOPPER).run(optimized(masked_softmax, square, square, square, 0.1, hidden, False))
        assert any(op.name == "fma" for op in function.walk())
