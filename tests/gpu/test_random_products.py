"""Random kernels that only multiply give what NumPy says."""

from __future__ import annotations

import pytest
from support.kernel_runs import check_product, generated_product, seeds

from tilewright import TileError


@pytest.mark.usefixtures("backend_of_the_gpu")
@pytest.mark.parametrize("seed", seeds(300))
def test_same_as_numpy(seed: int) -> None:
    try:
        check_product(generated_product(seed), "cpu")
    except TileError as error:
        if "shared memory" not in str(error):
            raise
        pytest.skip(str(error).split(";", 1)[0])
