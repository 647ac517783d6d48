"""Random kernels of rare things, that work in place, with products in loops, and of attention give the same on a CPU and in the
interpreter of PTX as on the reference, bit for bit."""

from __future__ import annotations

import pytest
from support.kernel_runs import compare, generated, seeds
from support.ptx.backend import ptx_backend

_TARGETS = ("sm_90", "sm_80", "sm_100")


@pytest.mark.parametrize("kind", ["rare", "in_place", "loops", "attention"])
@pytest.mark.parametrize("seed", seeds(6))
def test_on_a_cpu(seed: int, kind: str) -> None:
    compare(generated(seed, kind), "cpu")


@pytest.mark.parametrize(("kind", "count"), [("rare", 8), ("in_place", 6), ("loops", 3), ("attention", 2)])
def test_as_ptx(kind: str, count: int) -> None:
    for seed in seeds(count):
        with ptx_backend(None, _TARGETS[seed % 3], realign=True) as backend:
            compare(generated(seed, kind), backend)
