"""Addresses of rows that lie a number apart that only the launch knows."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.gpu_products import aligned
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.backends.gpu.compiler import compile_to_ptx
from tilewright.runtime.launch import specialization


@ct.kernel
def sums(x: ct.Array, out: ct.Array, M: ct.Constant[int], N: ct.Constant[int]) -> None:
    total = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[0], M)):
        total += ct.load(x, (k, ct.bid(0)), (M, N), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    ct.store(out, (0, ct.bid(0)), ct.sum(total, axis=0, keepdims=True).astype(out.dtype))


@ct.kernel
def moved(x: ct.Array, rows: ct.Array, out: ct.Array, M: ct.Constant[int], N: ct.Constant[int]) -> None:
    i = ct.bid(0) * M + ct.arange(M, dtype=ct.int32)
    j = ct.arange(N, dtype=ct.int32) * 2 + 1
    taken = ct.gather(x, (i[:, None], j[None, :]))
    ct.scatter(out, (ct.load(rows, (ct.bid(0),), (M,))[:, None], j[None, :]), taken)


def text(columns: int) -> str:
    x, out = aligned((100, columns), np.float16), aligned((1, columns), np.float16)
    return compile_to_ptx(specialization(sums, (x, out, 32, 64), "reference").function, "sm_80", None).ptx


def test_each_row_of_a_thread_is_one_addition_away_from_another_one() -> None:
    """Of a loop, which keeps no offset of each of its 16 rows."""
    before, loop = text(95).split("\n$L__BB0_3:", 1)
    loop = loop.split("bra.uni")[0]
    kept = {r for r in re.findall(r"%rd\d+", loop) if re.search(rf"\s{r}[,;]", before)}
    assert len(re.findall(r"ld\.global", loop)) >= 16 and len(kept) <= 8


@pytest.mark.parametrize("columns", [95, 96])
def test_sums_of_rows(columns: int) -> None:
    rng = np.random.default_rng(1)
    x, out = aligned((100, columns), np.float16), aligned((1, columns), np.float16)
    x[...] = rng.integers(-3, 4, x.shape)
    with ptx_backend(None, "sm_80") as name:
        ct.launch(None, (2,), sums, (x, out, 32, 64), backend=name)
    assert (out[0] == x.astype(np.float32).sum(0)).all()


def test_rows_and_columns_apart_by_numbers_and_constants() -> None:
    """Strides of both axes, factors, and rows whose numbers are loaded."""
    rng = np.random.default_rng(2)
    wide = rng.integers(-9, 9, (40, 300)).astype(np.float32)
    x, out = wide[:, ::3], np.zeros((80, 240), np.float32)[::2, ::2]
    rows = rng.permutation(40)[:32].astype(np.int32)
    with ptx_backend(None, "sm_80") as name:
        ct.launch(None, (2,), moved, (x, rows, out, 16, 32), backend=name)
    expected = np.zeros_like(out)
    expected[rows, 1:65:2] = x[:32, 1:65:2]
    assert (out == expected).all()
