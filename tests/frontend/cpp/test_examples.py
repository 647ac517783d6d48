"""The examples of Tile C++ compile as one program, and give what they say."""

from __future__ import annotations

import numpy as np
import pytest
from cpp_harness import PREAMBLE, refused, run
from support.tile_cpp_examples import EXAMPLES, REFUSED

from tilewright.frontend.cpp.module import CppKernel, Module

SHOW = """
template <typename T> __tile__ void show(double* out, T x) {
    ct::store(out + ct::iota<ct::tile<int, ct::tile_shape_t<T>>>(), ct::element_cast<double>(x));
}
"""
SLOTS = 64


@pytest.fixture(scope="module")
def kernels() -> dict[str, CppKernel]:
    parts = [PREAMBLE, SHOW]
    for number, (statements, values) in enumerate(EXAMPLES.values()):
        shown = "".join(f"show(out + {SLOTS * i}, {expression});\n" for i, expression in enumerate(values))
        parts.append(f"__tile_global__ void k{number}(int* p, double* out, int n) {{\n{statements}\n{shown}}}")
    return dict(zip(EXAMPLES, Module("\n".join(parts), "examples.cu").load(*(f"k{i}" for i in range(len(EXAMPLES))))))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_give_what_they_say(kernels: dict[str, CppKernel], name: str) -> None:
    values = EXAMPLES[name].values
    out = np.full(SLOTS * len(values), np.nan)
    run(kernels[name], (1,), np.arange(64, dtype=np.int32), out, 5)
    for i, (expression, value) in enumerate(values.items()):
        wanted = np.ravel(np.asarray(value, np.float64))
        np.testing.assert_array_equal(out[SLOTS * i :][: wanted.size], wanted, err_msg=expression)
        assert np.isnan(out[SLOTS * i + wanted.size : SLOTS * (i + 1)]).all(), expression


@pytest.mark.parametrize("statements", REFUSED)
def test_what_is_ill_formed_is_refused(statements: str) -> None:
    assert REFUSED[statements] in refused(statements).message


# The types that operations on shapes give.
SHAPES = """
template <typename T, typename U> concept same = __is_same(T, U);
template <int... N> using ints = ct::tile<int, ct::shape<N...>>;
static_assert(same<ct::tile_permutation_t<int, ct::dimension_map<>>, int>);
static_assert(same<ct::tile_permutation_t<ints<8, 2, 4>, ct::dimension_map<2, 0, 1>>, ints<4, 8, 2>>);
static_assert(same<ct::tile_transpose_t<int>, int>);
static_assert(same<ct::tile_transpose_t<ints<>>, ints<>>);
static_assert(same<ct::tile_transpose_t<ints<8, 2, 4>>, ints<2, 8, 4>>);
static_assert(!ct::concatenation_compatible<int, int, 0>);
static_assert(!ct::concatenation_compatible<ints<2, 4>, ints<4, 4>, 1>);
static_assert(same<ct::concatenation_t<ints<2, 8>, ints<2, 8>, 0>, ints<4, 8>>);
static_assert(same<ct::concatenation_t<ints<2, 8>, ints<2, 8>, 1>, ints<2, 16>>);
static_assert(ct::extractable_from<ct::shape<>, int>);
static_assert(ct::extractable_from<ct::shape<4, 8>, ints<16, 8>>);
static_assert(!ct::extractable_from<ct::shape<8, 16>, ints<16, 8>>);
"""


def test_shapes_of_results() -> None:
    Module(f"{PREAMBLE}{SHAPES}__tile_global__ void k() {{}}").kernel("k")
