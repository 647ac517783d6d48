"""Accesses to elements that are some apart, and to short rows: the same as on ``reference``, and nothing behind the last
element is read or written."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

import tilewright as ct

N = 64


@ct.kernel
def every(x, out, first, STEP: ct.Constant[int]):
    i = ct.bid(0) * N + ct.arange(N, dtype=ct.int32)
    ct.store(out, (ct.bid(0),), ct.gather(x, i * STEP + first, padding_value=3))


@ct.kernel
def backwards(x, out, first, STEP: ct.Constant[int]):
    i = ct.bid(0) * N + ct.arange(N, dtype=ct.int32)
    ct.store(out, (ct.bid(0),), ct.gather(x, first + 2 * N * STEP - STEP * i, padding_value=3))


@ct.kernel
def of_few_bits(x, out, first, STEP: ct.Constant[int]):
    """The numbers wrap around within a tile."""
    i = ct.arange(N, dtype=ct.int8) * STEP
    ct.store(out, (ct.bid(0),), ct.gather(x, i.astype(ct.int32) + first + 2 * N, padding_value=3))


@ct.kernel
def largest(x, out, first, STEP: ct.Constant[int]):
    """Of neighbours, as in pooling."""
    i = ct.bid(0) * N + ct.arange(N, dtype=ct.int32)
    best = ct.gather(x, i * STEP + first, padding_value=3)
    for k in range(1, STEP):
        best = ct.maximum(best, ct.gather(x, i * STEP + k + first, padding_value=3))
    ct.store(out, (ct.bid(0),), best)


def at_the_end_of_a_page(values: np.ndarray) -> np.ndarray:
    """A copy behind which no memory may be read; the mapping lives as long as the process."""
    size = -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = getattr(ctypes.CDLL(None), "mprotect", None)
    if protect is None or protect(ctypes.c_void_p(address + size), ctypes.c_size_t(mmap.PAGESIZE), 0):
        pytest.skip("needs memory that nobody may read")
    found = np.frombuffer(memory, values.dtype, len(values), size - values.nbytes)
    found[:] = values
    return found


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float16", "int32", "float32", "float64"])
@pytest.mark.parametrize("kernel", [every, backwards, of_few_bits, largest], ids=lambda k: k.name)
def test_strided_loads(kernel: Any, dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 100, 5 * 2 * N).astype(dtype)
    for step in (1, 2, 3, 4, 5):
        for count, first in ((2 * N * step, 0), ((2 * N - 1) * step + 1, 0), (2 * N * step - 5, -step - 1)):
            x, outs = at_the_end_of_a_page(values[:count]), []
            for backend in ("cpu", "reference"):
                outs.append(np.zeros(2 * N, dtype))
                ct.launch(None, (2,), kernel, (x, outs[-1], first, step), backend=backend)
            np.testing.assert_array_equal(*outs)


@ct.kernel
def into_every(x, out, first, STEP: ct.Constant[int]):
    i = ct.bid(0) * N + ct.arange(N, dtype=ct.int32)
    ct.scatter(out, i * STEP + first, ct.load(x, (ct.bid(0),), (N,)))


@ct.kernel
def into_some(x, out, first, STEP: ct.Constant[int]):
    i, tile = ct.bid(0) * N + ct.arange(N, dtype=ct.int32), ct.load(x, (ct.bid(0),), (N,))
    ct.scatter(out, i * STEP + first, tile, mask=tile % 3 == 1)


@ct.kernel
def pairs(x, out, first, STEP: ct.Constant[int]):
    """``first`` of each 2 * STEP, and the one behind it, take each other's place."""
    i = ct.bid(0) * N + ct.arange(N, dtype=ct.int32)
    ct.scatter(out, i * STEP + first, ct.gather(x, i * STEP + 1))
    ct.scatter(out, i * STEP + first + 1, ct.gather(x, i * STEP))


@ct.kernel
def interleaved(x, out, first, STEP: ct.Constant[int]):
    """The columns of pairs and of fours take each other's place."""
    tile = ct.load(x, (ct.bid(0),), (N * 4,)).reshape((N, 4))
    a, b = ct.extract(tile, (0, 3), (N, 1)), ct.extract(tile, (0, 1), (N, 1))
    c, d = ct.extract(tile, (0, 0), (N, 1)), ct.extract(tile, (0, 2), (N, 1))
    joined = ct.cat((ct.cat((a, b), axis=1), ct.cat((c, d), axis=1)), axis=1)
    ct.store(out, (ct.bid(0),), joined.reshape((N * 4,)))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float16", "int32", "float32", "float64"])
@pytest.mark.parametrize("kernel", [into_every, into_some, pairs, interleaved], ids=lambda k: k.name)
def test_strided_stores(kernel: Any, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, 2 * N * 5 + 1).astype(dtype)
    for step in (1, 2, 3, 4, 5):
        for count, first in ((2 * N * step, 0), ((2 * N - 1) * step + 1, 0), (2 * N * step - 5, -step - 1)):
            outs = [at_the_end_of_a_page(np.full(max(count, 8 * N), 101, dtype)) for _ in range(2)]
            for backend, out in zip(("cpu", "reference"), outs):
                ct.launch(None, (2,), kernel, (x, out[-count:], first, step), backend=backend)
            np.testing.assert_array_equal(*outs)


@ct.kernel
def short_rows(x, out, ROWS: ct.Constant[int], COLUMNS: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0), ct.bid(1), 0), (ROWS, 1, COLUMNS))
    ct.store(out, (ct.bid(0), ct.bid(1), 0), tile + tile)


@ct.kernel
def products(x, out, ROWS: ct.Constant[int], COLUMNS: ct.Constant[int]):
    """Of each first and second column, and of all others."""
    tile = ct.load(x, (ct.bid(0), ct.bid(1), 0), (ROWS, 1, COLUMNS)).reshape((ROWS, COLUMNS))
    a, b = ct.extract(tile, (0, 0), (ROWS, COLUMNS // 2)), ct.extract(tile, (0, 1), (ROWS, COLUMNS // 2))
    joined = ct.cat((a * a - b, a + b * b), axis=1)
    ct.store(out, (ct.bid(0), ct.bid(1), 0), joined.reshape((ROWS, 1, COLUMNS)))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("columns", [2, 4, 8, 16])
@pytest.mark.parametrize("kernel", [short_rows, products], ids=lambda k: k.name)
def test_short_rows(kernel: Any, dtype: str, columns: int) -> None:
    """Rows of a part of a vector, apart from each other, and one behind the other."""
    for rows, apart, width in ((64, 3, columns), (50, 3, columns), (50, 3, columns - 1), (64, 1, columns)):
        x, outs = np.random.default_rng(0).integers(0, 9, (rows, apart, width)).astype(dtype), []
        for backend in ("cpu", "reference"):
            outs.append(np.zeros((rows, apart, width), dtype))
            ct.launch(None, (2, apart), kernel, (x, outs[-1], 32, columns), backend=backend)
        np.testing.assert_array_equal(*outs)
