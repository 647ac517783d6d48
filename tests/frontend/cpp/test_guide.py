"""The kernels of the language tour in C++: what they give, and that they are the ops of their form in Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from cpp_harness import PREAMBLE, run
from support.language_tour import CPP_HELPERS, TOUR
from test_same_as_python import essence

from tilewright.frontend.cpp.module import CppKernel, Module
from tilewright.frontend.python.compile import trace
from tilewright.frontend.signature import Signature

HOST = """
__tile__ float scaled_sum(float x, float y) { return x + 2 * y; }
__tile__ auto factories() {
    using table = ct::tile<float, ct::shape<4, 2>>;
    return ct::zeros<table>() + ct::ones<table>() + ct::full<table>(0.25f);
}
__tile_global__ void calls(float* out) {
    auto x = factories();
    ct::store(out + ct::iota<ct::tile<int, ct::shape<4, 2>>>(), x * scaled_sum(1, 3));
}
void launch(int across, int down, float* out) { calls<<<{across, down}>>>(out); }
void cover(int n, int tile, float* out) {
    int blocks = (n + tile - 1) / tile;
    calls<<<blocks>>>(out);
}
"""


@pytest.fixture(scope="module")
def kernels() -> dict[str, CppKernel]:
    text = PREAMBLE + CPP_HELPERS + HOST + "\n".join(stop.cpp for stop in TOUR.values())
    names = [*TOUR, "calls"]
    return dict(zip(names, Module(text, "tour.cu").load(*names)))


@pytest.mark.parametrize("name", TOUR)
def test_the_tour(kernels: dict[str, CppKernel], name: str) -> None:
    stop = TOUR[name]
    *inputs, out = stop.make()
    run(kernels[name], stop.grid, *inputs, out, *stop.numbers)
    np.testing.assert_array_equal(out, stop.expected(*inputs))


def test_functions_and_launches_of_host_code(kernels: dict[str, CppKernel]) -> None:
    out = np.zeros((4, 2), np.float32)
    run(kernels["calls"], (1,), out)
    np.testing.assert_array_equal(out, np.full((4, 2), 8.75))


@pytest.mark.parametrize("name", TOUR)
def test_both_languages_are_the_same_ops(kernels: dict[str, CppKernel], name: str) -> None:
    """In the same order and on the same tiles, but for the differences that have a reason."""
    stop = TOUR[name]
    python = essence(trace(stop.python.function, Signature(stop.signature()), {}))
    cpp = essence(kernels[name].function)
    only_python = sum((Counter(p) for _, p, _ in stop.differences), Counter())
    only_cpp = sum((Counter(c) for _, _, c in stop.differences), Counter())
    if not stop.differences:
        assert cpp == python
    names = [Counter(op for op, _ in ops) for ops in (python, cpp)]
    assert (names[0] - names[1], names[1] - names[0]) == (only_python, only_cpp)
