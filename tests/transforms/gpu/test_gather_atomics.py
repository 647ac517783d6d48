"""What a CTA adds to few places is added up in shared memory, and the sums are those of atomics."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.ptx.backend import ptx_backend

import tilewright as ct


@ct.kernel
def counted(x, weights, out, T: ct.Constant[int], steps: int):
    for i in range(steps):
        at = ct.bid(0) * steps + i
        ct.atomic_add(out, ct.load(x, (at,), (T,)), ct.load(weights, (at,), (T,)))


@pytest.mark.parametrize("places", [1, 100, 128, 129])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_sums(dtype: type[np.generic], places: int) -> None:
    """With places below and beyond those of the line, to which nothing is added, in several iterations."""
    rng = np.random.default_rng(places)
    x = rng.integers(-3 if dtype is np.int32 else 0, places + 3, 4 * 512).astype(dtype)
    weights = rng.integers(-9, 9, x.size).astype(np.int32)
    inside = (x >= 0) & (x < places)
    expected = np.full(places, 7, np.int32)
    np.add.at(expected, x[inside], weights[inside])
    with interpreter_backend(2) as gpu, ptx_backend(2) as ptx:
        for backend in (gpu, ptx):
            out = np.full(places, 7, np.int32)
            ct.launch(None, (2,), counted, (x, weights, out, 512, 2), backend=backend)
            np.testing.assert_array_equal(out, expected)
