"""What ptxas compiles wrongly is written in another way; the interpreter of PTX has no such instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct


@ct.kernel
def absolutes(x, out, N: ct.Constant[int], LAST: ct.Constant[int]):
    v = ct.load(x, (0,), (N,))
    sign = v >> LAST
    one = ct.full((N,), 1, v.dtype)
    forms = (
        *(abs(v), ct.maximum(v, -v), ct.where(v < 0, -v, v), (v ^ sign) - sign, v * (sign | 1)),
        *(v * ct.where(v < 0, -one, one), -v, 0 - v, v * -1, ~v + 1, ~(v - 1), ~(v + ~(one - one)), 1 + ~v),
    )
    for i in ct.static_iter(range(13)):
        ct.store(out, (i, 0), ct.where(forms[i] < 0, forms[i] // 7, forms[i])[None, :])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_the_sign_of_the_least_integer(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(1).integers(limits.min, limits.max, 64, dtype, endpoint=True)
    x[:6] = limits.min, limits.min + 1, -1, 0, 1, limits.max
    found = [np.zeros((13, 64), dtype) for _ in range(2)]
    with ptx_backend(1, "sm_90") as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (1,), absolutes, (x, out, 64, limits.bits - 1), backend=backend)
    np.testing.assert_array_equal(*found)


@ct.kernel
def zeros_and_clamps(x, out, N: ct.Constant[int]):
    v = ct.load(x, (0,), (N,))
    forms = (ct.where(v > -0.0, v, -0.0), ct.where(v < 0.0, 0.0, v), ct.maximum(ct.minimum(v, 1), 0), ct.maximum(v, 0))
    for i in ct.static_iter(range(4)):
        ct.store(out, (i, 0), forms[i].astype(v.dtype)[None, :])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_zeros_and_clamps_keep_their_signs(dtype: Any) -> None:
    x = np.array([np.nan, -np.inf, -1, -0.0, 0.0, 0.25, 3, np.inf] * 4, dtype)
    found = [np.zeros((4, 32), dtype) for _ in range(2)]
    with ptx_backend(1, "sm_90") as ptx:
        for backend, out in zip((ptx, "reference"), found):
            ct.launch(None, (1,), zeros_and_clamps, (x, out, 32), backend=backend)
    ours, theirs = found
    same = (ours == theirs) & (np.signbit(ours) == np.signbit(theirs)) | (np.isnan(ours) & np.isnan(theirs))
    assert same.all(), (x, ours, theirs)
