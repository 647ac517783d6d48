"""Views that branches choose and loops carry give what the reference gives."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend

import tilewright as ct


@ct.kernel
def swapped(x, y, out, n: int, T: ct.Constant[int]):
    """Two arrays of equal kind, of which a branch chooses one, and a loop swaps both."""
    a, b = x, y
    if ct.bid(0) == 1:
        a = y
    for i in range(n):
        ct.store(out, (ct.bid(0), i, 0), (ct.load(a, (i,), (T,)) + 2 * ct.load(b, (0,), (T,)))[None, None, :])
        a, b = b, a


@pytest.mark.parametrize("step", [1, 2])
def test_chosen_and_carried(step: int) -> None:
    numbers = np.arange(256, dtype=np.float32)
    x, y = numbers[: 128 * step : step][:96], numbers[::step][:70]
    found = []
    with interpreter_backend(2) as gpu:
        for backend in ("reference", gpu):
            out = np.zeros((2, 3, 32), np.float32)
            ct.launch(None, (2,), swapped, (x, y, out, 3, 32), backend=backend)
            found.append(out)
    np.testing.assert_array_equal(*found)
    assert found[0].any()
