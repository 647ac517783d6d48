"""Random whole kernels as PTX, in the interpreter of PTX, give what the reference gives."""

from __future__ import annotations

import pytest
from support.kernel_runs import check_product, compare, generated, generated_product, seeds
from support.ptx.backend import ptx_backend

from tilewright.ir.errors import TileUnsupportedFeatureError

NARROWED = 22  # has a negation of 32 bits of which LLVM would make one of 16


@pytest.mark.parametrize("seed", sorted({*seeds(6), NARROWED}))
def test_same_as_the_reference(seed: int) -> None:
    kernel = generated(seed)
    try:
        with ptx_backend((4, 1, 8, 2)[seed % 4]) as backend:
            compare(kernel, backend)
    except TileUnsupportedFeatureError as error:
        assert error.loc is not None and error.loc.line > 0
        raise


@pytest.mark.parametrize("seed", seeds(5))
def test_products(seed: int) -> None:
    kernel = generated_product(seed)
    try:
        with ptx_backend(4, "sm_90") as backend:
            check_product(kernel, backend)
    except TileUnsupportedFeatureError as error:
        assert error.loc is not None and error.loc.line > 0
        raise
