"""Random whole kernels, lowered to the gpu stage, give in the interpreter what the reference gives, without a fault."""

from __future__ import annotations

import pytest
from support.gpu_interpreter import interpreter_backend
from support.kernel_runs import compare, generated, seeds

from tilewright.ir.errors import TileUnsupportedFeatureError


@pytest.mark.parametrize("seed", seeds(40))
def test_same_as_the_reference(seed: int) -> None:
    kernel = generated(seed)
    try:
        with interpreter_backend((4, 1, 8, 2)[seed % 4]) as backend:
            compare(kernel, backend)
    except TileUnsupportedFeatureError as error:
        assert error.loc is not None and error.loc.line > 0
        pytest.skip(f"not supported yet: {error.message}")
