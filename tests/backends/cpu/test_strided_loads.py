"""Gathers of elements that are some apart: the same as on ``reference``, and nothing behind the last one is read."""

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
