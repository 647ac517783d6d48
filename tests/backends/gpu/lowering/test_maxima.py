"""Maxima of scores, which are found by instructions on integers where one of a thread is positive."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_products import aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.runtime.launch import specialization

N, K = 64, 128  # of which a thread has 32 of a row


@ct.kernel
def largest(x, y, out):
    """Of each row of a product, in steps that multiply and compare."""
    found = ct.full((N, 1), -np.inf, ct.float32)
    for i in range(y.shape[0] // K):
        scores = ct.mma(
            ct.load(x, (0, 0), (N, N)), ct.transpose(ct.load(y, (i, 0), (K, N))), ct.zeros((N, K), ct.float32)
        )
        found = ct.maximum(found, ct.max(scores, axis=1, keepdims=True))
    ct.store(out, (0, 0), found)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_of_rows_with_all_kinds_of_numbers(target: str) -> None:
    x, y, out = aligned((N, N), np.float16), aligned((2 * K, N), np.float16), aligned((N, 1), np.float32)
    x[...] = np.eye(N)
    rows = np.random.default_rng(1).standard_normal((2 * K, N))
    signs = np.array([1, -1, -1, 1])[np.arange(N) % 4]
    y[...] = np.where(signs < 0, -np.abs(rows), rows)
    y[:, 0], y[:, 1], y[::2, 4], y[1::2, 4] = 0, -0.0, 0, -1
    y[:, 5], y[3::7, 6], y[70, 7], y[::5, 8] = -65504, 2.0**-24, 65504, -(2.0**-24)
    with ptx_backend(None, target) as backend:
        ct.launch(None, (1,), largest, (x, y, out), backend=backend)
    np.testing.assert_array_equal(out[:, 0], (x.astype(np.float32) @ y.astype(np.float32).T).max(1))
    y[::3, :8] = np.nan  # the products of a row with all others are NaN then
    y[1, 9], y[5, 10] = np.inf, -np.inf
    with ptx_backend(None, target) as backend:
        ct.launch(None, (1,), largest, (x, y, out), backend=backend)
    with np.errstate(invalid="ignore"):
        scores = x.astype(np.float32) @ y.astype(np.float32).T
    np.testing.assert_array_equal(out[:, 0], np.fmax.reduce(scores, 1))
    function = specialization(largest, (x, y, out), "reference").function
    assert ("max.s32" in compile_to_ptx(function, target, None).ptx) == (target == "sm_90")
