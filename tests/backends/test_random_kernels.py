"""Random whole kernels give the same on the CPU as on the reference, bit for bit, and the sanitizer has nothing to say."""

from __future__ import annotations

import pytest
from support.kernel_runs import compare, generated, seeds, violations

_SANITIZED = 4  # every so many of the kernels


@pytest.mark.parametrize("seed", seeds(24))
def test_same_as_the_reference(seed: int) -> None:
    compare(generated(seed), "cpu")


@pytest.mark.parametrize("seed", seeds(24)[::_SANITIZED])
def test_nothing_undefined(seed: int) -> None:
    assert violations(generated(seed)) == ""


def test_a_seed_has_one_kernel() -> None:
    for seed in range(10):
        assert generated(seed).source == generated(seed).source
