"""Scans across threads and warps combine in order."""

from __future__ import annotations

import numpy as np
import pytest
from support.ptx.backend import ptx_backend

import tilewright as ct


@ct.kernel
def affine(x, y, out, other, REVERSE: ct.Constant[bool], ROWS: ct.Constant[int], T: ct.Constant[int]):
    """Compositions of functions a * x + b modulo 2**32, which do not commute."""
    a, b = ct.load(x, (0, 0), (ROWS, T)), ct.load(y, (0, 0), (ROWS, T))
    c, d = ct.scan((a, b), 1, lambda a, b, c, d: (a * c, b * c + d), (1, 0), reverse=REVERSE)
    ct.store(out, (0, 0), c)
    ct.store(other, (0, 0), d)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "warps"),
    [(1, 2048, 4), (1, 1024, 8), (2, 1024, 8), (1, 512, 2), (4, 256, 2), (1, 64, 4), (1, 4096, 2)],
)
def test_scans_across_warps(rows: int, columns: int, warps: int, reverse: bool) -> None:
    rng = np.random.default_rng(3)
    given = [rng.integers(-9, 9, (rows, columns)).astype(np.int32) | 1 for _ in range(2)]
    found = [[np.zeros((rows, columns), np.int32) for _ in range(2)] for _ in range(2)]
    with ptx_backend(warps, "sm_90") as ptx:
        for backend, outs in zip((ptx, "reference"), found):
            ct.launch(None, (1,), affine, (*given, *outs, reverse, rows, columns), backend=backend)
    for ours, theirs in zip(*found):
        np.testing.assert_array_equal(ours, theirs)
