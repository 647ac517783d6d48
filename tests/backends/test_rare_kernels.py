"""Random kernels of rare things give the same on a CPU and in the interpreter of PTX as on the reference, bit for bit."""

from __future__ import annotations

import pytest
from support.kernel_runs import compare, generated_rare, seeds
from support.ptx.backend import ptx_backend

_TARGETS = ("sm_90", "sm_80", "sm_100")


@pytest.mark.parametrize("seed", seeds(16))
def test_on_a_cpu(seed: int) -> None:
    compare(generated_rare(seed), "cpu")


@pytest.mark.parametrize("seed", seeds(12))
def test_as_ptx(seed: int) -> None:
    with ptx_backend(None, _TARGETS[seed % 3], realign=True) as backend:
        compare(generated_rare(seed), backend)
