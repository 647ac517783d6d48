"""Tiles whose elements alternate in memory are moved in words of two, and all others as they were."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_interpreter import interpreter_backend
from support.passes import check
from support.ptx.backend import ptx_backend

import tilewright as ct
from tilewright.transforms.gpu.pair_accesses import PairAccesses

ROWS, PAIRS = 3, 64


@ct.kernel
def turned_columns(x, out, T: ct.Constant[int]):
    """Complex numbers times i + 1: x and out are (rows, T, 2)."""
    row = ct.bid(0)
    a = ct.load(x, (row, 0, 0), (1, T, 1), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    b = ct.load(x, (row, 0, 1), (1, T, 1), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    ct.store(out, (row, 0, 1), (a + b).astype(out.dtype))
    ct.store(out, (row, 0, 0), (a - b).astype(out.dtype))


@ct.kernel
def turned_gathers(x, out, T: ct.Constant[int]):
    """The same by places: x and out are (rows, 2 T)."""
    row, even = ct.bid(0), 2 * ct.arange(T, dtype=ct.int32)
    a = ct.gather(x, (row, even), padding_value=0).astype(ct.float32)
    b = ct.gather(x, (row, even + 1), padding_value=0).astype(ct.float32)
    ct.scatter(out, (row, even), (a - b).astype(out.dtype))
    ct.scatter(out, (row, even + 1), (a + b).astype(out.dtype))


@ct.kernel
def neighbours(x, out, T: ct.Constant[int]):
    """Elements that lie side by side, each of which is loaded twice."""
    i = ct.arange(T, dtype=ct.int32)
    ct.scatter(out, i, ct.gather(x, i) + ct.gather(x, i + 1))


# Where the first pair begins, from row to row, from pair to pair, and how many columns there are.
GEOMETRIES = {
    "pairs on multiples of their size": (0, 128, 2, 2),
    "rows of odd lengths": (0, 129, 2, 2),
    "pairs that are apart": (0, 192, 3, 2),
    "one column": (0, 128, 2, 1),
    "an odd begin": (1, 128, 2, 2),
}


def run(backend: str, kernel: ct.Kernel, dtype: type[np.generic], geometry: tuple[int, ...]) -> np.ndarray:
    """All memory around what ``kernel`` stores."""
    begin, row, pair, columns = geometry
    memory = np.random.default_rng(row).integers(-50, 50, (2, ROWS * row + 8)).astype(dtype)
    strides = [n * memory.itemsize for n in (row, pair, 1)]
    x, out = (np.lib.stride_tricks.as_strided(m[begin:], (ROWS, PAIRS, columns), strides) for m in memory)
    if kernel is turned_gathers:
        x, out = (np.lib.stride_tricks.as_strided(m[begin:], (ROWS, 2 * PAIRS), strides[::2]) for m in memory)
    ct.launch(None, (ROWS,), kernel, (x, out, PAIRS), backend=backend)
    return memory


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32])
@pytest.mark.parametrize("kernel", [turned_columns, turned_gathers])
def test_all_geometries(kernel: ct.Kernel, dtype: type[np.generic], geometry: tuple[int, ...]) -> None:
    expected = run("reference", kernel, dtype, geometry)
    with interpreter_backend(2) as gpu, ptx_backend(1, "sm_80") as ptx:
        for backend in (gpu, ptx):
            np.testing.assert_array_equal(run(backend, kernel, dtype, geometry), expected)


