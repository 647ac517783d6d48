"""Roots, sines and cosines of all elements of a thread: fast, and on the slow path that a rare one leads all to."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.ptx.backend import ptx_backend

import tilewright as ct

ROW = 64


@ct.kernel
def functions(x, root, sine, cosine, T: ct.Constant[int]):
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (1, T))
    ct.store(root, (i, 0), ct.sqrt(v))
    ct.store(sine, (i, 0), ct.sin(v))
    ct.store(cosine, (i, 0), ct.cos(v))


def launched(x: np.ndarray[Any, Any], backend: str) -> list[np.ndarray[Any, Any]]:
    found = [np.zeros_like(x) for _ in range(3)]
    ct.launch(None, (len(x),), functions, (x, *found, ROW), backend=backend)
    return found


def rows() -> np.ndarray[Any, Any]:
    """Usual numbers, and rows with one of which the branch is for."""
    rng = np.random.default_rng(3)
    usual = (rng.standard_normal((8, ROW)) * np.exp2(rng.integers(-20, 14, (8, ROW)))).astype(np.float32)
    usual[1, 3] = 0.0
    for row, rare in zip(usual[2:], (-0.0, np.inf, np.nan, 3e38, 1e-42, -1e9)):
        row[5] = rare
    return usual


def test_as_the_reference() -> None:
    """Roots are rounded correctly, the others within two units in the last place."""
    x = rows()
    with ptx_backend(1, "sm_90") as ptx:
        ours = launched(x, ptx)
    root, sine, cosine = launched(x, "reference")
    same = (ours[0].view(np.uint32) == root.view(np.uint32)) | (np.isnan(ours[0]) & np.isnan(root))
    assert same.all(), (x[~same], ours[0][~same], root[~same])
    for found, exact in zip(ours[1:], (sine, cosine)):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
        with np.errstate(invalid="ignore"):
            assert np.nanmax(np.abs(found.astype(np.float64) - exact) / np.spacing(np.abs(exact))) <= 2
    assert np.signbit(ours[1][2, 5]), "the sign of zero"
