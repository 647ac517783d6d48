"""Accesses that promise to stay inside of a view, and do not, touch nothing outside of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct


@ct.kernel
def _tiles(x: Any, out: Any, TILE: ct.Constant[int]) -> None:
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (i, j), ct.load(x, (i, j), (8, TILE), check_bounds=False) + 1, check_bounds=False)


@ct.kernel
def _steps(x: Any, out: Any, TILE: ct.Constant[int]) -> None:
    source = x.tiled_view((8, TILE))
    total = ct.zeros((8, TILE), ct.float32)
    for j in range(source.num_tiles(1)):
        total = total + source.load((ct.bid(0), j), check_bounds=False)
    ct.store(out, (ct.bid(0), 0), total, check_bounds=False)


@pytest.mark.parametrize("shape", [(13, 21), (8, 16), (3, 50), (17, 1)], ids=str)
@pytest.mark.parametrize("tile", [4, 16, 32])
def test_partial_tiles_load_zero_and_are_cut_off(shape: tuple[int, int], tile: int) -> None:
    rows, columns = shape
    x = np.arange(rows * columns, dtype=np.float32).reshape(shape) + 1
    around = np.full((rows + 40, columns + 40), -5, np.float32)
    out = around[16 : 16 + rows, 16 : 16 + columns]
    ct.launch(None, (ct.cdiv(rows, 8), ct.cdiv(columns, tile)), _tiles, (x, out, tile), backend="cpu")
    assert np.array_equal(out, x + 1)
    out[...] = -5
    ct.launch(None, (ct.cdiv(rows, 8),), _steps, (x, out, tile), backend="cpu")
    parts = np.pad(x, ((0, 0), (0, -columns % tile))).reshape(rows, -1, tile).sum(axis=1)
    assert np.array_equal(out[:, :tile], parts[:, :columns])
    out[...] = -5
    assert (around == -5).all()


def test_tiles_wholly_outside_store_nothing() -> None:
    x, out = np.ones((8, 16), np.float32), np.full((8, 16), -5, np.float32)
    ct.launch(None, (3, 4), _tiles, (x, out, 16), backend="cpu")
    assert (out == 2).all()
