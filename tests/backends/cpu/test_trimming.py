"""Tiles that end behind their arrays: the same results as on ``reference``, and nothing beside them is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as ct

R, C = 4, 64
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def biased(x, y, out):
    i, j = ct.bid(0), ct.bid(1)
    row, column = ct.load(y, (0, j), (1, C), padding_mode=ZERO), ct.load(y, (i, 0), (R, 1), padding_mode=ZERO)
    ct.store(out, (i, j), ct.load(x, (i, j), (R, C), padding_mode=ZERO) * row + column)


@ct.kernel
def turned(x, y, out):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.transpose(ct.load(x, (j, i), (C, R), padding_mode=ZERO))
    ct.store(out, (i, j), tile + ct.arange(C, dtype=ct.int32)[None, :])


@ct.kernel
def in_place(x, y, out):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (i, j), ct.load(out, (i, j), (R, C)) * 3 + 1)


@ct.kernel
def halves(x, y, out):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (i, j), (R, 2 * C), padding_mode=ZERO)
    ct.store(out, (i, j), ct.extract(tile, (0, 1), (R, C)))


@ct.kernel
def gathered(x, y, out):
    i, j = ct.bid(0), ct.bid(1)
    columns = j * C + ct.arange(C, dtype=ct.int32)
    rows = i * R + ct.arange(R, dtype=ct.int32)
    ct.store(out, (i, j), ct.gather(x, (rows[:, None], columns[None, :]), padding_value=7))


@ct.kernel
def before_the_start(x, y, out):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (i - 1, j - 1), ct.load(x, (i, j), (R, C), padding_mode=ZERO))


def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


@pytest.mark.parametrize("columns", [3, 16, 17, 63, 64, 100, 130])
@pytest.mark.parametrize("kernel", [biased, turned, in_place, halves, gathered, before_the_start])
@pytest.mark.parametrize("read", [0, 2], ids=["all is read", "less is there to read"])
def test_results(kernel: Any, columns: int, read: int) -> None:
    rows, outs = 6, {}
    x, y = numbers((rows - read, columns - read), 1), numbers((rows, columns), 2)
    x = np.ascontiguousarray(x.T) if kernel is turned else x
    for backend in ("reference", "cpu"):
        outs[backend] = numbers((rows + 2, columns + 20), 3)
        out = outs[backend][:rows, :columns]
        ct.launch(None, (-(-rows // R) + 1, -(-columns // C) + 1), kernel, (x, y, out), backend=backend)
    np.testing.assert_array_equal(outs["cpu"], outs["reference"])


@ct.kernel
def shifted(x, out):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (256,), padding_mode=ZERO) + 1)


@pytest.mark.parametrize("offset", [0, 1, 16, 40])
@pytest.mark.parametrize("swapped", [False, True])
def test_stores_over_what_is_loaded(offset: int, swapped: bool) -> None:
    memory = numbers((300,), 4)
    x, out = memory[:250], memory[offset : offset + 250]
    x, out = (out, x) if swapped else (x, out)
    wanted = x + 1
    ct.launch(None, (1,), shifted, (x, out), backend="cpu")
    np.testing.assert_array_equal(out, wanted)
