"""Accumulators are multiplied by what the maxima leave of them where that is another number than one."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_attention import attention
from support.gpu_products import aligned
from support.ptx.backend import PtxBackend, ptx_backend

import tilewright as ct
from tilewright.backends import registry

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


def scaled(q: ct.Array, k: ct.Array, v: ct.Array, o: ct.Array, FLUSHES: ct.Constant[bool]) -> None:
    """Attention of one block, whose accumulator a factor of one may flush."""
    x, total, top = (
        ct.load(q, (0, 0), (128, 128)),
        ct.zeros((128, 128), ct.float32),
        ct.full((128, 1), -1e9, ct.float32),
    )
    for j in range(ct.num_tiles(k, 0, (64, 128))):
        keys = ct.transpose(ct.load(k, (j, 0), (64, 128)))
        scores = ct.mma(x, keys, ct.zeros((128, 64), ct.float32))
        new = ct.maximum(top, ct.max(scores, axis=1, keepdims=True))
        total = ct.mul(total, ct.exp2(top - new), flush_to_zero=FLUSHES)
        total = ct.mma(ct.exp2(scores - new).astype(v.dtype), ct.load(v, (j, 0), (64, 128)), total)
        top = new
    ct.store(o, (0, 0), total)


@pytest.mark.parametrize("flushes", [False, True])
def test_factors_that_flush_are_multiplied_always(flushes: bool) -> None:
    """Times one they make zero of a subnormal number."""
    q, k, v = (aligned((128, WIDTH), np.float16) for _ in range(3))
    for x in (q, k, v):
        x[...] = np.random.default_rng(1).standard_normal(x.shape)
    out = aligned((128, WIDTH), np.float32)
    with ptx_backend(None, "sm_90") as name:
        backend = registry.get_backend(name)
        assert isinstance(backend, PtxBackend)
        ct.launch(None, (1,), ct.kernel(scaled), (q, k, v, out, flushes), backend=name)
    assert ("vote.sync.any" in backend.made[0].compiled.ptx) != flushes
