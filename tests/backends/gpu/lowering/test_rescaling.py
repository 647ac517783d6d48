"""Accumulators are multiplied by what the maxima leave of them where that is another number than one."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_attention import attention
from support.gpu_products import aligned
from support.ptx.backend import ptx_backend

import tilewright as ct

KEYS, STEP, WIDTH = 512, 64, 128


@pytest.mark.parametrize("queries", [64, 128])  # MMA ops that are waited for in their step; beside the next one
def test_maxima_that_stay_and_others(queries: int) -> None:
    """The scores of a row all the same, or random; larger in each step, for all rows of a warp or for one; NaN."""
    rng = np.random.default_rng(0)
    q, k, v = (aligned((n, WIDTH), np.float16) for n in (256, KEYS, KEYS))
    step = np.arange(KEYS) // STEP
    k[...], v[...] = rng.standard_normal(k.shape), rng.standard_normal(v.shape)
    k[:, 0], k[:, 1] = step, step % 3
    q[128:] = rng.standard_normal((128, WIDTH)) / 4
    q[16:32, 0], q[37, 1], q[70] = 1, 2, np.nan
    found, wanted = (aligned((256, WIDTH), np.float32) for _ in range(2))
    with ptx_backend(None, "sm_90") as ptx:
        for backend, o in ((ptx, found), ("reference", wanted)):
            how = (queries, STEP, WIDTH, False)
            ct.launch(None, (256 // queries,), ct.kernel(attention), (q, k, v, o, *how), backend=backend)
    assert np.flatnonzero(np.isnan(wanted).any(1)).tolist() == [70]
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)
