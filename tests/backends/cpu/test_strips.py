"""Loops that carry tiles in registers, a strip after the other: the same bits as on ``reference``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import target
from tilewright.backends.cpu.codegen.kernel import lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.runtime.launch import specialization

F32, ZERO = ct.float32, ct.PaddingMode.ZERO


@ct.kernel
def products(x, y, out, R: ct.Constant[int], T: ct.Constant[int]):
    i, total = ct.bid(0), ct.zeros((R, T), F32)
    for k in range(ct.num_tiles(x, 1, (R, T))):
        row = ct.load(y, (0, k), (1, T), padding_mode=ZERO)
        total += ct.load(x, (i, k), (R, T), padding_mode=ZERO) * row
    ct.store(out, (i, 0), total)


@ct.kernel
def moments(x, y, out, R: ct.Constant[int], T: ct.Constant[int]):
    """Three sums, of which the second needs what the first one has become."""
    i, total, squares, largest = ct.bid(0), ct.ones((R, T), F32), ct.zeros((R, T), F32), ct.zeros((R, T), F32)
    for k in range(1, ct.num_tiles(x, 1, (R, T))):
        tile = ct.load(x, (i, k), (R, T), padding_mode=ZERO)
        total = total + tile
        squares = squares * 0.5 + total * tile
        largest = ct.maximum(largest, tile)
    ct.store(out, (i, 0), total - squares + largest)


@ct.kernel
def weighted(x, y, out, R: ct.Constant[int], T: ct.Constant[int]):
    """Each iteration loads one element beside the tile."""
    i, total = ct.bid(0), ct.zeros((R, T), F32)
    for k in range(ct.num_tiles(x, 1, (R, T))):
        total += ct.load(x, (i, k), (R, T), padding_mode=ZERO) * ct.gather(y, (0, 3 * k))
    ct.store(out, (i, 0), total)


@ct.kernel
def filtered(x, y, out, R: ct.Constant[int], T: ct.Constant[int]):
    """Tiles leave the array at both ends of its rows, most strips do not."""
    i, total = ct.bid(0), ct.zeros((R, T), F32)
    rows, columns = (i * R + ct.arange(R, dtype=ct.int32))[:, None], ct.arange(T, dtype=ct.int32)[None, :]
    for k in range(ct.num_tiles(y, 1, (1, 4))):
        shifted = ct.gather(x, (rows, columns + 3 * k - 9), padding_value=0)
        total += ct.astype(shifted, F32) * ct.astype(ct.gather(y, (0, k)), F32)
    ct.store(out, (i, 0), total)


@ct.kernel
def down(x, y, out, R: ct.Constant[int], T: ct.Constant[int]):
    """Along the columns: a strip after the other would go through the whole array each."""
    j, total = ct.bid(0), ct.zeros((R, T), F32)
    for k in range(ct.num_tiles(x, 0, (R, T))):
        total += ct.load(x, (k, j), (R, T), padding_mode=ZERO)
    ct.store(out, (j, 0), total)


@ct.kernel
def exchanged(x, y, out, R: ct.Constant[int], T: ct.Constant[int]):
    """Elements are needed elsewhere than where they are."""
    i, total = ct.bid(0), ct.zeros((R, T), F32)
    for k in range(ct.num_tiles(x, 1, (R, T))):
        tile = ct.load(x, (i, k), (R, T), padding_mode=ZERO)
        total = tile + ct.sum(total, axis=1, keepdims=True)
    ct.store(out, (i, 0), total)


@ct.kernel
def branched(x, y, out, R: ct.Constant[int], T: ct.Constant[int]):
    """A branch computes a tile of its own."""
    i, total = ct.bid(0), ct.zeros((R, T), F32)
    for k in range(ct.num_tiles(x, 1, (R, T))):
        tile = ct.load(x, (i, k), (R, T), padding_mode=ZERO)
        if k % 2 == 0:
            tile = tile * tile + 1
        total = total + tile
    ct.store(out, (i, 0), total)


def numbers(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    return np.random.default_rng(0).integers(-9, 10, shape).astype(dtype)


@pytest.mark.parametrize(
    "kernel", [products, moments, weighted, filtered, down, exchanged, branched], ids=lambda k: k.name
)
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("columns", [16, 128, 512])
def test_strips(kernel: Any, rows: int, columns: int) -> None:
    for dtype, width in (("float32", 4 * columns), ("float16", 3 * columns + 5), ("int8", columns - 1)):
        x, y, outs = numbers((3 * rows - rows // 2, width), dtype), numbers((1, width), dtype), []
        for backend in ("cpu", "reference"):
            outs.append(np.zeros((3 * rows, columns), np.float32))
            ct.launch(None, (3,), kernel, (x, y, outs[-1], rows, columns), backend=backend)
        np.testing.assert_array_equal(*outs)


@pytest.mark.parametrize(
    "kernel, rows, goes",
    [(products, 4, True), (moments, 1, True), (weighted, 4, True), (filtered, 4, True), (down, 4, False)]
    + [(branched, 4, False)],
)
def test_which_loops_go_by_strips(kernel: Any, rows: int, goes: bool) -> None:
    arrays = [np.zeros((64, 1024), np.float32) for _ in range(3)]
    function = optimize(specialization(kernel, (*arrays, rows, 128), "cpu").function)
    assert ("strip.loop" in lower(function, target.host()).text) == (goes and rows > 1)
