"""The kernels of the language tour in Python, on the backends that need no GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.language_tour import TOUR

import tilewright as ct

BACKENDS = ("reference", "cpu", "python")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with ct.use_backend(request.param):
        yield request.param


@pytest.mark.parametrize("name", TOUR)
def test_the_tour(backend: str, name: str) -> None:
    stop = TOUR[name]
    *inputs, out = stop.make()
    for kernel in (stop.python, stop.python.replace_hints(num_ctas=8)) if name == "hinted" else (stop.python,):
        out[...] = stop.make()[-1]
        ct.launch(None, stop.grid, kernel, (*inputs, out, *stop.constants))
        np.testing.assert_array_equal(out, stop.expected(*inputs))


@ct.function
def scaled_sum(x, y):
    return x + 2 * y


@ct.function
def factories():
    zeros, ones = ct.zeros((4, 2), ct.float32), ct.ones((4, 2), ct.float32)
    return zeros + ones + ct.full((4, 2), 0.25, ct.float32)


@ct.kernel
def calls(out):
    ct.store(out, (0, 0), scaled_sum(factories(), ct.full((4, 2), 3.0, dtype=ct.float32)))


@ct.kernel
def positions(out):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (i, j), ct.full((1, 1), i * 10 + j + 100 * ct.num_blocks(1), dtype=ct.int32))


def test_functions_are_called_from_kernels(backend: str) -> None:
    out = np.zeros((4, 2), np.float32)
    ct.launch(None, (1,), calls, (out,))
    np.testing.assert_array_equal(out, np.full((4, 2), 7.25))


def test_blocks_know_where_they_are(backend: str) -> None:
    out = np.zeros((2, 3), np.int32)
    ct.launch(None, (2, 3), positions, (out,))
    np.testing.assert_array_equal(out, np.add.outer(np.arange(2) * 10, np.arange(3)) + 300)
