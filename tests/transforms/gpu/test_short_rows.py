"""Kernels whose rows are shorter than their tiles leave out the registers behind them: the same results, less code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import Compiled, compile_to_ptx
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.runtime.launch import specialization

T = 4096


@ct.kernel
def softmax(x, w, out):
    """Padded with what counts for nothing."""
    row = ct.bid(0)
    v = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
    v = ct.exp(v - ct.max(v, axis=1, keepdims=True))
    ct.store(out, (row, 0), (v / ct.sum(v, axis=1, keepdims=True)).astype(ct.float16))


@ct.kernel
def normed(x, w, out):
    """With a condition of its own, and a vector that may be of another length."""
    row, n = ct.bid(0), x.shape[1]
    v = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO)
    d = ct.where(ct.arange(T, dtype=ct.int32)[None, :] < n, v - ct.sum(v, axis=1, keepdims=True) / n, 0.0)
    scale = ct.rsqrt(ct.sum(d * d, axis=1, keepdims=True) / n)
    ct.store(out, (row, 0), (d * scale * ct.load(w, (0,), (T,))[None, :]).astype(ct.float16))


@ct.kernel
def padded(x, w, out):
    """What there is none of decides about the result: it is greater than the numbers."""
    row, at = ct.bid(0), ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, (row, at), padding_value=9)
    ct.scatter(out, (row, at), (v + ct.max(v) + ct.sum(v * 0 + 1)).astype(ct.float16))


def arrays(n: int, weights: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(n)
    x, w = rng.normal(size=(3, n)).astype(np.float32), rng.normal(size=weights or n).astype(np.float32)
    return x, w, np.full((3, n), 7, np.float16)


@pytest.mark.parametrize("kernel", [softmax, normed, padded])
@pytest.mark.parametrize(
    ("n", "weights"), [(2400, 0), (2560, 0), (2561, 0), (3584, 0), (2080, 4096), (160, 0), (4096, 0)]
)
@pytest.mark.parametrize("warps", [None, 4])
def test_results(kernel: ct.Kernel, n: int, weights: int, warps: int | None) -> None:
    x, w, wanted = arrays(n, weights)
    out = wanted.copy()
    ct.launch(None, (3,), kernel, (x, w, wanted), backend="reference")
    with ptx_backend(warps, "sm_90") as ptx:
        ct.launch(None, (3,), kernel, (x, w, out), backend=ptx)
    np.testing.assert_allclose(out, wanted, rtol=2e-3, atol=1e-6)


def compiled(kernel: ct.Kernel, warps: int | None = None, **how: Any) -> Compiled:
    function = specialization(kernel, arrays(2400), "reference").function
    return compile_to_ptx(function, "sm_90", warps, None, Constraints(realign=False, **how))


@pytest.mark.parametrize("kernel", [softmax, normed, padded])
def test_less_is_computed(kernel: ct.Kernel) -> None:
    size, *lengths = compiled(kernel).short_rows
    assert size == T and len(lengths) == {softmax: 2, normed: 3, padded: 2}[kernel]
    whole, short = compiled(kernel, 4), compiled(kernel, 4, rows=(2560, *lengths))
    assert not short.short_rows
    loads = [len([line for line in c.ptx.splitlines() if "ld.global" in line]) for c in (whole, short)]
    assert loads[1] <= loads[0] * 3 // 4 and len(short.ptx) < len(whole.ptx)


def test_rows_of_any_length() -> None:
    """Nothing is known of tiles that lie somewhere in a row."""

    @ct.kernel
    def part(x, w, out):
        v = ct.load(x, (0, ct.bid(0)), (1, T), padding_mode=ct.PaddingMode.ZERO)
        ct.store(out, (0, ct.bid(0)), (v / ct.sum(v, axis=1, keepdims=True)).astype(ct.float16))

    assert not compiled(part).short_rows
