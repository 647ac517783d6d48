"""Random kernels that only multiply give what NumPy says, on the CPU backend and on the reference."""

from __future__ import annotations

import pytest
from support.kernel_runs import check_product, generated_product, seeds


@pytest.mark.parametrize("seed", seeds(20))
def test_same_as_numpy(seed: int) -> None:
    check_product(generated_product(seed), "cpu")


@pytest.mark.parametrize("seed", seeds(4, 10_000))
def test_the_reference_is_the_same_as_numpy(seed: int) -> None:
    check_product(generated_product(seed), "reference")
