"""All C++ code of the guide compiles as printed and gives what it says, where the documents are at hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpp_harness import PREAMBLE, run
from documents import GUIDE, guide_fragment, guide_functions, guide_kernels

from tilewright.frontend.cpp.module import CppKernel, Module
from tilewright.ir.errors import TileError

INCLUDES = "".join(f'#include "cuda_{name}.h"\n' for name in ("tile", "fp16", "bf16", "fp8", "tf32"))

pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="the documents are not part of the repository")


@pytest.fixture(scope="module")
def guide() -> dict[str, CppKernel]:
    found = guide_kernels()
    module = Module(INCLUDES + "\n\n".join(found.values()), "guide.cu")
    return dict(zip(found, module.load(*found)))


def test_the_kernels_of_the_guide(guide: dict[str, CppKernel]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, 128).astype(np.float32) for _ in range(2))
    out = np.zeros(128, np.float32)
    run(guide["vec_add"], (16,), a, b, out)
    np.testing.assert_array_equal(out, a + b)
    run(guide["elementwise"], (16,), a, b, out, 128)
    np.testing.assert_array_equal(out, 2 * a + b)
    run(guide["edge_safe"], (1,), a[:100].copy(), short := np.zeros(100, np.float32), 100)
    np.testing.assert_array_equal(short, a[:100])
    run(guide["tile_sum"], (1,), a, eight := np.zeros(8, np.float32), 16)
    np.testing.assert_array_equal(eight, a.reshape(16, 8).sum(0))
    run(guide["conditional_load"], (13,), a[:100].copy(), short, 100)
    np.testing.assert_array_equal(short, np.where(np.arange(100) < 96, a[:100], 0))
    n = a.astype(np.int32)
    run(guide["vec_add_gather"], (2,), n[:16].copy(), n[16:32].copy(), sums := np.zeros(16, np.int32))
    np.testing.assert_array_equal(sums, n[:16] + n[16:32])
    run(guide["gather_safe"], (2,), n[:13].copy(), copied := np.zeros(13, np.int32), 13)
    np.testing.assert_array_equal(copied, n[:13])
    run(guide["block_sum"], (7,), n[:100].copy(), total := np.zeros(1, np.int32), 100)
    assert total[0] == n[:100].sum()
    run(guide["optimization_hints"], (16,), a, out)
    np.testing.assert_array_equal(out, a)
    x, y = a[:100].reshape(5, 20).astype(np.float16), b[:60].reshape(20, 3).astype(np.float16)
    run(guide["gemm"], (1, 1), x, y, product := np.zeros((5, 3), np.float32), 5, 20, 3)
    np.testing.assert_array_equal(product, x.astype(np.float32) @ y.astype(np.float32))
    run(guide["tile_elementwise_copy"], (2,), out, a)
    np.testing.assert_array_equal(out, a)
    run(guide["foo"], (1,), np.zeros((256, 256), np.float32))


_ROWS, _FOUR = np.arange(8).reshape(2, 4), np.array([1, 1, -1, -1])
# How each fragment starts, what it leaves to the reader, and the values that it gives.
FRAGMENTS: dict[str, tuple[str, dict[str, np.ndarray]]] = {
    "auto shape2d": ("int length = 5;", {"shape2d.extent(0)": np.array(8), "shape2d.extent(1)": np.array(5)}),
    "auto x = ct::iota<ct::tile<int, ct::shape<8, 2>>>": (
        "",
        {"z": np.arange(16).reshape(8, 2) + np.arange(8).reshape(4, 1, 2)},
    ),
    "using i32x8 = ct::tile<int, ct::shape<8>>;\ni32x8 x": ("", {"x + 2": np.full(8, 5)}),
    "using namespace ct::literals;\nusing i32x2x4": ("", {"row_sums": _ROWS.sum(1, keepdims=True)}),
    "using namespace ct::literals;\nusing t2d": (
        "",
        {"ty": _ROWS.T, "tw": np.arange(8).reshape(2, 2, 2).transpose(2, 0, 1)},
    ),
    "using namespace ct::literals;\nauto cond": ("", {"cond": _FOUR > 0, "r": _FOUR}),
    "using i32x16": ("", {"*slot": np.array(120)}),
    "for (auto idx": ("int lowerBound = 2, upperBound = 9, step = 3, n = 0;", {"n": np.array(2 + 5 + 8)}),
}
# What stands for something that the reader is to write.
PLACEHOLDERS = {"/* pointer to the contended location */": "counter", "    // ...\n}": "    n += idx;\n}"}
SHOW = """
template <typename T> __tile__ void show(double* out, T x) {
    ct::store(out + ct::iota<ct::tile<int, ct::tile_shape_t<T>>>(), ct::element_cast<double>(x));
}
"""
SLOTS = 64


def fragment(start: str) -> str:
    given, expected = FRAGMENTS[start]
    code = guide_fragment(start)
    for placeholder, written in PLACEHOLDERS.items():
        code = code.replace(placeholder, written)
    code = "\n".join(line for line in code.split("\n") if "ill-formed" not in line)
    shown = "".join(f"show(out + {SLOTS * i}, {expression});\n" for i, expression in enumerate(expected))
    return f"{{ {given}\n{code}\n{shown} }}"


def test_the_fragments_of_the_guide() -> None:
    sources = [f"__tile_global__ void k{i}(double* out, int* counter) {fragment(f)}" for i, f in enumerate(FRAGMENTS)]
    kernels = Module(PREAMBLE + SHOW + "\n".join(sources), "guide.cu").load(*(f"k{i}" for i in range(len(sources))))
    for kernel, (_, expected) in zip(kernels, FRAGMENTS.values()):
        run(kernel, (1,), out := np.zeros(SLOTS * len(expected)), np.zeros(1, np.int32))
        for i, (expression, value) in enumerate(expected.items()):
            np.testing.assert_array_equal(out[SLOTS * i :][: value.size], value.ravel(), err_msg=expression)


def test_what_the_guide_calls_ill_formed_is_refused() -> None:
    code = guide_fragment("using i32x8 = ct::tile<int, ct::shape<8>>;\ni32x8 x")
    assert "x + 2.5;     // ill-formed" in code
    with pytest.raises(TileError, match="arithmetic"):
        Module(f"{PREAMBLE}__tile_global__ void k() {{ {code} }}", "guide.cu").kernel("k")


def test_the_functions_and_the_launches_of_the_guide() -> None:
    functions = guide_functions()
    assert len(functions) == 3
    launches = (guide_fragment("my_kernel<<<"), guide_fragment("int num_blocks = "))
    host = (
        f"void launch(int num_blocks_x, int num_blocks_y, float* a, float* b, float* c) {{ {launches[0]} }}\n"
        f"void cover(int N, int tile_size, float* in, float* out) {{ {launches[1]} }}\n"
    )
    kernels = "__tile_global__ void my_kernel(float* a, float* b, float* c) { *c = helper(*a, *b); factories(); concat_demo(); }"
    other = "__tile_global__ void kernel(float* in, float* out, int N) {}"
    module = Module("\n".join([PREAMBLE, *functions, kernels, other, host]), "guide.cu")
    three = [np.array([value], np.float32) for value in (1, 2, 0)]
    run(module.kernel("my_kernel"), (1,), *three)
    assert three[2] == 3


def test_no_code_of_the_guide_is_left_out() -> None:
    tested = "\n".join([*guide_kernels().values(), *guide_functions(), *map(guide_fragment, FRAGMENTS)])
    tested += "\n" + guide_fragment("my_kernel<<<") + guide_fragment("int num_blocks = ")
    known = set(tested.split("\n")) | {'#include "cuda_tile.h"', "namespace ct = cuda::tiles;"}
    starts = r"(?:namespace|auto|using|int|__tile\w*|for|ct::\w+|\w+<<<|#include|\[\[) *[^\n]*"
    code = re.findall(rf"^{starts}(?:[;{{,]|//[^\n]*|\]\])$", GUIDE.read_text(), re.M)
    assert len(code) > 40
    left = [line for line in code if line not in known]
    assert left == [
        "__tile_global__ void my_kernel(float* a, float* b, float* c) {",  # its body is an ellipsis
        "__tile_global__ void my_kernel(float* a, float* b, float* c) {",  # reads positions into unused variables
        "[[ cutile::hint(arch, kind1=value1, kind2=value2, ...) ]]",  # a grammar
    ]
