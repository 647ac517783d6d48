"""Exponentials that are only added up, or divided and rounded to 16 bits, have fewer instructions."""

from __future__ import annotations

import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.runtime.launch import specialization


@ct.kernel
def summed(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.sum(ct.exp(ct.load(x, (i, 0), (1, T))), axis=1, keepdims=True))


@ct.kernel
def quotient(x, by, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), (ct.exp(ct.load(x, (i, 0), (1, T))) / ct.load(by, (i,), (1,))).astype(out.dtype))


def test_sums() -> None:
    """In each row all numbers are alike: subnormal results, zeros, infinities and NaN are what they should be."""
    special = [-0.3, 1, -20, 80, 88.7, -87.5, -100, -104, 89, 0, -np.inf, np.inf, np.nan]
    large = 2.0 ** np.arange(7, 127, 4) * np.linspace(1, 1.9, 30)
    x = np.repeat(np.float32([*special, *large, *-large]), 256).reshape(-1, 256)
    found = np.zeros((len(x), 1), np.float32)
    with ptx_backend(1, "sm_90") as ptx, np.errstate(all="ignore"):
        ct.launch(None, (len(x),), summed, (x, found, x.shape[1]), backend=ptx)
        expected = np.exp(x.astype(np.float64)).astype(np.float32).sum(1, keepdims=True, dtype=np.float32)
    np.testing.assert_allclose(found, expected, rtol=6e-7, atol=256 * 1.5 * 2.0**-149)
    assert found[9] == 256  # e**0 is 1


@pytest.mark.parametrize("dtype", [ct.bfloat16, ct.float16])
def test_quotients_that_are_rounded(dtype: ct.DType) -> None:
    x = np.linspace(-103, 12, 2048, dtype=np.float32).reshape(8, 256)
    x[3, :3] = -np.inf, np.nan, 0
    by = np.linspace(0.5, 3, len(x), dtype=np.float32)
    found = [np.zeros(x.shape, dtype.storage) for _ in range(2)]
    with ptx_backend(1, "sm_90") as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (len(x),), quotient, (x, by, out, x.shape[1]), backend=backend)
    ours, theirs = (out.astype(np.float32) for out in found)
    np.testing.assert_allclose(ours, theirs, rtol=2.0**-7 if dtype is ct.bfloat16 else 2.0**-10, atol=2.0**-24)
    assert (ours != theirs).mean() < 0.01  # a number beside the middle of two


@ct.kernel
def powers(x, out, T: ct.Constant[int], APPROX: ct.Constant[bool]):
    v = ct.load(x, (ct.bid(0),), (T,))
    found = ct.exp(v, rounding_mode=ct.RoundingMode.APPROX) if APPROX else ct.exp2(v)
    ct.store(out, (ct.bid(0),), found)


@pytest.mark.parametrize("approx", [False, True])
def test_powers_that_are_subnormal_keep_no_predicate(approx: bool) -> None:
    """One unit of subnormal numbers is left to rounding; what is asked to be approximated also rounds a product."""
    edges = [-126.0, -126.00001, -125.99999, -149.0, -149.6, -151.0, 127.5, 128.0]
    rare = [*edges, -1e30, 3e38, -np.inf, np.inf, np.nan, 0.0, 1.0]
    x = np.concatenate([np.array(rare, np.float32), np.linspace(-152, -120, 97, dtype=np.float32)])
    x = np.resize(x * np.float32(np.log(2)) if approx else x, 128).astype(np.float32)
    found, wanted = np.zeros_like(x), np.zeros_like(x)
    ct.launch(None, (2,), powers, (x, wanted, 64, approx), backend="reference")
    with ptx_backend(1, "sm_90") as backend:
        ct.launch(None, (2,), powers, (x, found, 64, approx), backend=backend)
    text = compile_to_ptx(specialization(powers, (x, found, 64, approx), "reference").function, "sm_90", None).ptx
    assert "ex2.approx.ftz.f32" in text and "ex2.approx.f32" not in text
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
        assert np.nanmax(np.where(found == wanted, 0, apart / np.spacing(np.abs(wanted)))) <= (128 if approx else 1)
