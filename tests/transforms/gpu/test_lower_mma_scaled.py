"""Products of scaled operands give what the reference gives, for each pair of dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend

import tilewright as ct


@ct.kernel
def scaled(x, xs, y, ys, out, B: ct.Constant[int]):
    a, b = ct.load(x, (0, 0), (16, 64)), ct.load(y, (0, 0), (64, 16))
    s, t = ct.load(xs, (0, 0), (16, 64 // B)), ct.load(ys, (0, 0), (64 // B, 16))
    ct.store(out, (0, 0), ct.mma_scaled(a, s, b, t, ct.full((16, 16), 0.5, ct.float32)))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_same_as_the_reference(dtype: Any) -> None:
    """The sums are exact, so that their order does not matter."""
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-4, 5, shape).astype(np.float32).astype(dtype) for shape in ((16, 64), (64, 16)))
    scales = [np.exp2(rng.integers(-3, 4, s)).astype(ml_dtypes.float8_e8m0fnu) for s in ((16, 2), (2, 16))]
    found = [np.zeros((16, 16), np.float32) for _ in range(2)]
    with interpreter_backend(2) as gpu:
        for backend, out in zip(("reference", gpu), found):
            ct.launch(None, (1,), scaled, (x, scales[0], y, scales[1], out, 32), backend=backend)
    np.testing.assert_array_equal(*found)
