"""Masks of registers that nobody reads are not computed."""

from __future__ import annotations

import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct


@ct.kernel
def masked(x, out, n):
    columns = ct.arange(512, dtype=ct.int32)
    ct.store(out, (0,), ct.where(columns < n, ct.load(x, (0,), (512,)) + 1, -1.0))


@ct.kernel
def masked_by_extent(x, out):
    columns = ct.arange(512, dtype=ct.int32)
    ct.store(out, (0,), ct.where(columns < x.shape[0], ct.load(x, (0,), (512,)) + 1, -1.0))


@pytest.mark.parametrize("n", [16, 400, 500, 512])
def test_as_the_reference(n: int) -> None:
    for kernel, arguments in ((masked, (n,)), (masked_by_extent, ())):
        x = np.arange(n, dtype=np.float32)
        found = [np.zeros(512, np.float32) for _ in range(2)]
        with ptx_backend(2, "sm_90") as ptx:
            for backend, out in zip((ptx, "reference"), found):
                ct.launch(None, (1,), kernel, (x, out, *arguments), backend=backend)
        np.testing.assert_array_equal(*found)
