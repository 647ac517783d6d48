"""Weights that are rounded to f8e4m3fn four at a time, for an MMA op."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from support.gpu_products import aligned
from support.ptx.backend import ptx_backend

import tilewright as ct

N = 64


@ct.kernel
def multiplied(x, eye, values, shifts, weights, out):
    """Weights that follow from an MMA op, as those of attention, times ones on the diagonal."""
    scores = ct.mma(ct.load(x, (0, 0), (N, N)), ct.load(eye, (0, 0), (N, N)), ct.zeros((N, N), ct.float32))
    w = ct.exp2(scores + ct.load(shifts, (ct.bid(0),), ()))
    ct.store(weights, (ct.bid(0), 0), w)
    narrow = w.astype(ct.float8_e4m3fn)
    ct.store(out, (ct.bid(0), 0), ct.mma(narrow, ct.load(values, (0, 0), (N, N)), ct.zeros((N, N), ct.float32)))


def test_weights() -> None:
    """Of all sizes, around the largest number, and beyond it; each row has one, as NaN is in all products of a row."""
    x, eye = aligned((N, N), np.float16), aligned((N, N), np.float16)
    values = aligned((N, N), ml_dtypes.float8_e4m3fn)
    x[...], eye[...], values[...] = np.arange(-32, 32)[:, None] * 2.0**-20, np.eye(N), np.eye(N)
    shifts = np.array([-20, -9, -7, np.log2(7), 8.8, np.log2(464), 9, 128, -np.inf, np.inf, np.nan], np.float32)
    weights, out = (np.zeros((N * shifts.size, N), np.float32) for _ in range(2))
    with ptx_backend(None, "sm_90") as backend:
        ct.launch(None, (shifts.size,), multiplied, (x, eye, values, shifts, weights, out), backend=backend)
    wanted = weights.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert ((weights > 463.99) & (weights <= 464)).any() and ((weights > 464) & (weights < 464.01)).any()
    np.testing.assert_array_equal(out, wanted)
