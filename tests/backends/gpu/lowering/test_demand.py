"""Conditions are computed once for all registers in which they are equal."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.runtime.launch import specialization


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


def test_one_comparison_for_what_is_stored_at_once() -> None:
    """An extent that is a multiple of 16 ends no run of four elements; a number that is only known later may."""
    x = np.zeros(400, np.float32)
    found = []
    for kernel, arguments in ((masked_by_extent, ()), (masked, (400,))):
        function = specialization(kernel, (x, np.zeros(512, np.float32), *arguments), "reference").function
        found.append(len(re.findall(r"setp\.", compile_to_ptx(function, "sm_90", 2).ptx)))
    assert found[0] + 6 <= found[1], "of eight elements of a thread"
