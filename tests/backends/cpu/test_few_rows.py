"""Products whose left operand has one row inside its array, or few: the right one is read where it lies."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import target
from tilewright.backends.cpu.codegen.kernel import lower
from tilewright.backends.cpu.codegen.pipeline import optimize
from tilewright.runtime.launch import specialization

ZERO = ct.PaddingMode.ZERO
ROWS = [(1, 1), (1, 16), (3, 4), (2, 16), (16, 16), (17, 16)]


@ct.kernel
def products(x, w, y, M: ct.Constant[int], K: ct.Constant[int], start: ct.Constant[float]):
    total = ct.full((M, 64), start, y.dtype)
    for k in range(ct.num_tiles(w, 0, (K, 64))):
        left = ct.load(x, (ct.bid(0), k), (M, K), padding_mode=ZERO)
        total = ct.mma(left, ct.load(w, (k, ct.bid(1)), (K, 64), padding_mode=ZERO), total)
    ct.store(y, (ct.bid(0), ct.bid(1)), total)


@ct.kernel
def of_transposes(x, w, y, M: ct.Constant[int], K: ct.Constant[int], start: ct.Constant[float]):
    total = ct.full((M, 64), start, y.dtype)
    for k in range(ct.num_tiles(w, 1, (64, K))):
        left = ct.load(x, (ct.bid(0), k), (M, K), padding_mode=ZERO)
        total = ct.mma(left, ct.load(w, (ct.bid(1), k), (64, K), padding_mode=ZERO).transpose(), total)
    ct.store(y, (ct.bid(0), ct.bid(1)), total)


@ct.kernel
def once(x, w, y, M: ct.Constant[int], K: ct.Constant[int], start: ct.Constant[float]):
    """Of one step, in place: what is stored is read again."""
    left = ct.load(x, (ct.bid(0), 0), (M, K), padding_mode=ZERO)
    right = ct.load(w, (0, ct.bid(1)), (K, 64), padding_mode=ZERO)
    ct.store(w, (0, ct.bid(1)), right * 2)
    ct.store(y, (ct.bid(0), ct.bid(1)), ct.mma(left, right, ct.zeros((M, 64), y.dtype)))


def numbers(shape: tuple[int, int], dtype: Any, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("kernel", [products, of_transposes, once], ids=lambda k: k.name)
@pytest.mark.parametrize("rows, tile", ROWS)
def test_as_the_reference_computes(kernel: Any, rows: int, tile: int) -> None:
    """float32 in all of them; each other dtype with every kernel and with every number of rows, not in all pairs."""
    turn = (ROWS.index((rows, tile)) + (products, of_transposes, once).index(kernel)) % 3
    rows = min(rows, tile) if kernel is once else rows  # blocks would race
    others = (
        ("float64", np.float64, (64, 64)),
        (ml_dtypes.bfloat16, np.float32, (128, 64)),
        ("float16", np.float32, (100, 64)),
    )
    for dtype, out, (k, n) in (
        ("float32", np.float32, (192, 128)),
        ("float32", np.float32, (150, 100)),
        others[turn],
    ):
        results = []
        for backend in ("cpu", "reference"):
            x, w = numbers((rows, k), dtype, 1), numbers((k, n), dtype, 2)
            w = np.ascontiguousarray(w.T) if kernel is of_transposes else w
            y = np.zeros((tile * -(-rows // tile), n), out)  # also what is behind the rows of x
            ct.launch(None, (-(-rows // tile), -(-n // 64)), kernel, (x, w, y, tile, 64, 1.0), backend=backend)
            results.append((y, w))
        for mine, right in zip(*results):
            np.testing.assert_array_equal(mine, right)


@pytest.mark.parametrize("kernel", [products, of_transposes], ids=lambda k: k.name)
def test_rows_behind_the_array(kernel: Any) -> None:
    """Zeros times what is not finite are NaN, and times negative numbers make no zeros of sums negative or positive."""
    x, w, y = np.ones((1, 64), np.float32), -np.ones((64, 64), np.float32), np.zeros((16, 64), np.float32)
    w[3, 5], w[7, 9] = np.inf, np.nan
    w = np.ascontiguousarray(w.T) if kernel is of_transposes else w
    ct.launch(None, (1, 1), kernel, (x, w, y, 16, 64, 2.0), backend="cpu")
    wanted = np.full((16, 64), 2.0, np.float32)
    wanted[0] = -62
    wanted[:, 9] = wanted[1:, 5] = np.nan
    wanted[0, 5] = np.inf
    np.testing.assert_array_equal(y, wanted)
    w[...] = np.where(np.isfinite(w), w, 1)
    ct.launch(None, (1, 1), kernel, (x, w, y, 16, 64, -0.0), backend="cpu")
    some = np.any(w > 0, axis=1 if kernel is of_transposes else 0)
    np.testing.assert_array_equal(np.signbit(y[1:]), np.broadcast_to(~some, (15, 64)))


@pytest.mark.parametrize("kernel, tile, one", [(products, 16, True), (of_transposes, 16, True), (once, 16, False)])
def test_which_products_read_arrays(kernel: Any, tile: int, one: bool) -> None:
    x, w, y = (np.zeros((128, 128), np.float32) for _ in range(3))
    function = optimize(specialization(kernel, (x, w, y, tile, 64, 1.0), "cpu").function)
    kind = "transposed." if kernel is of_transposes else "rows."
    assert (f"tw.mma.{kind}" in lower(function, target.host()).text) == one
