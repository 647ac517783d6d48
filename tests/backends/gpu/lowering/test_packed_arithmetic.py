"""Arithmetic of two floats of 16 bits at once: of which elements, and that it rounds as float32 does."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_products import BF16, aligned
from support.ptx.backend import PtxBackend, ptx_backend

import tilewright as ct
from tilewright.backends import registry

BITS = {np.float16: (11, -14), BF16: (8, -126)}  # of a significand, and the exponent of the least normal number


def rounded_once(x: Any, dtype: Any) -> Any:
    """Float64 numbers rounded to the nearest, ties to even, as float64."""
    bits, least = BITS[dtype]
    exponent = np.frexp(x)[1] - 1
    quantum = np.ldexp(1.0, np.maximum(exponent, least) - bits + 1)
    return np.rint(x / quantum) * quantum


@pytest.mark.parametrize("dtype", BITS)
def test_sums_and_products_in_float32_round_as_those_of_16_bits(dtype: Any) -> None:
    """Of all numbers with some, of which exponents differ by few enough for exact sums in float64."""
    rng = np.random.default_rng(0)
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    limit = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(all="ignore"):
        for y in rng.choice(x, 200):
            for name, near in ((np.add, True), (np.subtract, True), (np.multiply, False)):
                exact = name(x.astype(np.float64), np.float64(y))
                in_float32 = name(x.astype(np.float32), np.float32(y))
                ratio = np.abs(np.log2(np.abs(x.astype(np.float64) / np.float64(y))))
                chosen = np.isfinite(exact) & (np.abs(exact) < limit) & (exact != 0) & ((ratio < 40) if near else True)
                wanted = rounded_once(exact[chosen], dtype)
                np.testing.assert_array_equal(in_float32[chosen].astype(dtype).astype(np.float64), wanted)


def computed(x: ct.Array, y: ct.Array, z: ct.Array, n: ct.Constant[int]) -> None:
    a, b = ct.load(x, (ct.bid(0),), (n,)), ct.load(y, (ct.bid(0),), (n,))
    first = ct.load(y, (0,), (1,))
    made = a + b, a - b, a * b, ct.maximum(a, b), ct.minimum(a, 0.5), a * first
    for k in ct.static_iter(range(6)):
        ct.store(z, (k, ct.bid(0)), made[k].reshape((1, n)))


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_pairs_of_what_is_loaded(target: str, dtype: Any) -> None:
    """All bits are those of the reference, of NaN, too."""
    x, y = aligned((1 << 12,), dtype), aligned((1 << 12,), dtype)
    x[...] = np.random.default_rng(1).permutation(1 << 16)[: 1 << 12].astype(np.uint16).view(dtype)
    y[...] = np.random.default_rng(2).permutation(1 << 16)[: 1 << 12].astype(np.uint16).view(dtype)
    found, wanted = aligned((6, 1 << 12), dtype), aligned((6, 1 << 12), dtype)
    kernel = ct.kernel(computed)
    ct.launch(None, (4,), kernel, (x, y, wanted, 1 << 10), backend="reference")
    with ptx_backend(None, target) as name:
        backend = registry.get_backend(name)
        assert isinstance(backend, PtxBackend)
        ct.launch(None, (4,), kernel, (x, y, found, 1 << 10), backend=name)
    same = (found.view(np.uint16) == wanted.view(np.uint16)) | (np.isnan(found) & np.isnan(wanted))
    assert same.all()
    pairs = "f16x2" if dtype is np.float16 else "bf16x2"
    assert all(f"{op}.{pairs}" in backend.made[0].compiled.ptx for op in ("max", "min"))
