"""Weights that are rounded to 8 bits four at a time, for an MMA op."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_products import aligned
from support.ptx.backend import ptx_backend

import tilewright as ct

N = 64


@ct.kernel
def multiplied(x, eye, values, shifts, weights, sums, out, SUMMED: ct.Constant[bool]):
    """Weights that follow from an MMA op, as those of attention, times ones; perhaps their sums as well."""
    scores = ct.mma(ct.load(x, (0, 0), (N, N)), ct.load(eye, (0, 0), (N, N)), ct.zeros((N, N), ct.float32))
    w = ct.exp2(scores + ct.load(shifts, (ct.bid(0),), ()))
    ct.store(weights, (ct.bid(0), 0), w)
    if SUMMED:
        ct.store(sums, (ct.bid(0),), ct.sum(w, axis=1))
    narrow = w.astype(values.dtype)
    ct.store(out, (ct.bid(0), 0), ct.mma(narrow, ct.load(values, (0, 0), (N, N)), ct.zeros((N, N), ct.float32)))


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize(("dtype", "limit"), [(ml_dtypes.float8_e4m3fn, 464), (ml_dtypes.float8_e5m2, 61440)])
def test_weights(dtype: Any, limit: float, summed: bool) -> None:
    """Of all sizes, around the largest number, and beyond it; each row has one, which its products add up. What threads
    have summed up says where none is too large."""
    x, eye = aligned((N, N), np.float16), aligned((N, N), np.float16)
    values = aligned((N, N), dtype)
    x[...], eye[...], values[...] = np.arange(-32, 32)[:, None] * 2.0**-20, np.eye(N), 1
    shifts = np.array([-20, -9, -7, np.log2(7), 8.8, np.log2(limit), 9, 128, -np.inf, np.inf, np.nan], np.float32)
    weights, out = (np.zeros((N * shifts.size, N), np.float32) for _ in range(2))
    sums = np.zeros(N * shifts.size, np.float32)
    with ptx_backend(None, "sm_90") as backend:
        ct.launch(
            None, (shifts.size,), multiplied, (x, eye, values, shifts, weights, sums, out, summed), backend=backend
        )
    wanted = weights.astype(dtype).astype(np.float32)
    near = np.abs(weights / limit - 1) < 1e-4
    assert (near & (weights < limit)).any() and (near & (weights >= limit)).any()
    np.testing.assert_array_equal(out, N * wanted)
