"""Every example of the reference compiles as printed and gives what it says, where the document is at hand.

All examples that are statements become one program: a kernel for each. Those at file scope get a namespace each.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cpp_harness import PREAMBLE, run

from tilewright.frontend.cpp.module import CppKernel, Module
from tilewright.ir.errors import TileError

REFERENCE = Path(__file__).parents[4] / "shared" / "spec" / "tile-cpp-api-reference.txt"
SHOW = """
template <typename T> __tile__ void show(double* out, T x) {
    ct::store(out + ct::iota<ct::tile<int, ct::tile_shape_t<T>>>(), ct::element_cast<double>(x));
}
"""
SLOTS = 64

pytestmark = pytest.mark.skipif(not REFERENCE.exists(), reason="the documents are not part of the repository")

# A distinctive part of an example that cannot compile, and why.
BROKEN = {
    "tile-hint-kv-pair-list ::=": "a grammar",
    "latency=4, 3)": "says that it is a syntax error",
    "1, 0, 2, 3, ..., N-1": "an ellipsis",
    "ct::memory_order_acquire_t{}),": "one bracket too many in the document",
    "65536, 65536>>>;": "one bracket too many in the document",
    "ct::extents<2, ct::rank_dynamic>": "lacks the index type in the document",
    "SubMode>(": "uses names of the surrounding text",
    "__padded_extents()": "uses names of the surrounding text",
}
# What a fragment leaves to the reader: a distinctive part, and the declarations that it needs.
I44 = "auto x = ct::iota<ct::tile<int, ct::shape<4, 4>>>();"
GIVEN = {
    "ct::assume_b": "auto x = ct::iota<ct::tile<int, ct::shape<8, 8>>>();",
    "ct::assume_divisible": "auto x = ct::iota<ct::tile<int, ct::shape<8, 8>>>();",
    "ct::assume_aligned": "auto x = ptr + ct::iota<ct::tile<int, ct::shape<2, 8>>>();",
    "if (auto x = ct::load(y))": "int* y = ptr;",
    "x = ct::load(y);": "int* y = ptr; int x;",
    "ct::load(x);": "int* x = ptr;",
    "z = ct::load(x) + ct::load(y);": "int *x = ptr, *y = ptr; int z;",
    "p.store_masked(x, 0, 16);": "auto x = ct::zeros<ct::tile<int, ct::shape<4, 2>>>();",
    "p.store(x,": I44,
}
CUBE = np.arange(16).reshape(4, 2, 2)
LEFT, RIGHT = np.arange(8).reshape(2, 4), np.arange(8).reshape(4, 2)
BATCH = (np.stack([LEFT, LEFT]), np.stack([RIGHT, -RIGHT]))
ACC = np.arange(4).reshape(2, 2)
SCAN = np.array([[3, 2, 1, 4], [-3, 2, 1, 5]])
NEXT_LOAD = [2, -3, -22, 8]
# A distinctive part of an example, and the values that it says some expressions have at its end.
RESULTS: dict[str, dict[str, object]] = {
    "f64x2x2 result = x - y": {"result": [[-2, 2], [1, 5]]},
    "ct::add(8.0f, 5 * eps, ct::round_toward_negative_t{})": {"result": 8.0},
    "ct::sub(0x1.1p-126f, 0x1.0p-126f": {"result": 0.0},
    "f32x2x2 result = 5 + x": {"result": [[5, 6.5], [8, 8.5]]},
    "i32x2x2 result = +x": {"result": [[0, 1], [2, 3]]},
    "ct::isinf(x)": {"r": [1, 1, 0, 0]},
    "ct::isnan(x)": {"r": [0, 0, 1, 0]},
    "ct::reshape(x, ct::shape{4_ic, 2_ic})": {"y": np.arange(8)},
    "ct::permute(x, ct::dimension_map{2_ic, 0_ic, 1_ic})": {"r": CUBE.transpose(2, 0, 1)},
    "ct::transpose(x)": {"r": CUBE.transpose(1, 0, 2)},
    "ct::cat(x, y, 1_ic)": {"r": [[0, 0, 1, 1]] * 4},
    "ct::select(c, x, y)": {"r": [0, -1, 2, -3]},
    "ct::extract(x, ct::shape{2_ic, 2_ic}, 0, 1)": {"r": [[2, 3], [6, 7]]},
    "ct::broadcast(x, ct::shape{4_ic, 4_ic})": {"r": np.repeat(np.arange(4), 4)},
    "ct::element_cast<double>(x)": {"r": [0, 1, 2, 3]},
    "ct::element_bitcast<signed char>(x)": {"r": [-1] * 4},
    "auto acc = ct::element_cast<float>(ct::iota<i32x2x2>());": {"r": LEFT @ RIGHT + ACC},
    "-ct::iota<i32x1x2x2>()));": {"r": BATCH[0] @ BATCH[1] + np.stack([ACC, -ACC])},
    "ct::iota<i32x4x2>());\n\nauto r = ct::matmul": {"r": LEFT @ RIGHT},
    "-ct::iota<i32x1x4x2>()));\n\nauto r = ct::matmul": {"r": BATCH[0] @ BATCH[1]},
    "ct::reduce_max(x, 1_ic)": {"r0": [10, 22], "r1": [10, 22]},
    "ct::reduce_min(x, 0_ic)": {"r0": [-3, 2, 2, 5], "r1": [-3, 2, 2, 5]},
    "ct::all_of(x, 0_ic)": {"r": [1, 0, 0, 0]},
    "ct::sum(x, 1_ic)": {"r0": [10, 5], "r1": [10, 5]},
    "ct::prod(x, 1_ic)": {"r0": [24, -30], "r1": [24, -30]},
    "ct::reduce_bitand(x, 0_ic)": {"r": [0x05, 0xA0, 0, 0]},
    "ct::reduce_bitor(x, 0_ic)": {"r": [0x5F, 0xFA, 0, 0]},
    "ct::reduce_bitxor(x, 0_ic)": {"r": [0x5A, 0x5A, 0, 0]},
    "ct::partial_sum(x, 1_ic)": {"r0": SCAN.cumsum(1), "r1": SCAN.cumsum(1)},
    "ct::partial_prod(x, 1_ic); // No": {"r0": SCAN.cumprod(1), "r1": SCAN.cumprod(1)},
    "i32x2x2 idx = (2 + 9": {"r": [2, 11, 4, 13], "idx": [2, 11, 4, 13], "ptrs - &x[0][0]": [2, 11, 4, 13]},
    "auto r0 = ct::load_masked(ptrs, mask, padding)": {"r0": NEXT_LOAD, "r1": NEXT_LOAD},
    "ct::store_masked(ptrs, value, mask);": {"ct::load(ptrs)": [-1, 1, 2, -1]},
    "ct::tile<float, ct::shape<4, 4>> z{y}": {"z": [2] * 16, "x": 2},
    "double y{x}; // Performs scalar conversion": {"y": 2},
    "ct::layout_right_mapping m{ct::extents{2_ic, 3_ic}}": {"m.stride(0)": 3, "m.stride(1)": 1},
    "ct::layout_left_mapping m{ct::extents{2_ic, 3_ic}}": {"m.stride(0)": 1, "m.stride(1)": 2},
    "m1{ct::extents{2_ic, 3_ic}, 4_ic}": {"m1.stride(0)": 4, "m2.stride(0)": 4},
    "m1{ct::extents{4_ic, 2_ic}, 6_ic}": {"m1.stride(1)": 6, "m2.stride(1)": 6},
    "4294967296_ic;": {"(4294967296_ic).value": 4294967296, "(22_ic).value": 22},
}


def text_of_reference() -> str:
    """The document with the code blocks joined that a page break divides, and code lines that were too long."""
    text = re.sub(r"(_?)\n↪ ?(\w)", r"\1\2", REFERENCE.read_text()).replace("__ restrict__", "__restrict__")
    text = re.sub(r"_\n↪ (?=\w)", "_", text).replace("\n↪", "")
    return re.sub(r"```\s*\(continues on next page\)\s*(?:\S+\s+)?\(continued from previous page\)\s*```\n", "", text)


def examples() -> list[str]:
    """The code blocks that are programs and no declarations of the library."""
    found = []
    for block in re.findall(r"```\n(.*?)```", text_of_reference(), re.S):
        program = re.search(r"namespace ct = |using namespace ct|#include|cutile::hint|__tile_global__ void", block)
        declaration = re.match(r"\s*(?:template|__tile__|struct|concept|enum|class|requires|static|constexpr)", block)
        declaration = declaration or re.search(r"requires|__tile__|noexcept|static constexpr", block)
        use = declaration is None and re.search(r"\bct::\w+(?:<[^\n]*>)?[({]", block)
        if (program or use) and not any(part in block for part in BROKEN):
            found.append(block)
    return found


def at_file_scope(example: str) -> bool:
    return re.search(r"^(?:__tile|template|struct|\[\[.*\n__tile|void __tile)", example, re.M) is not None


def program(numbered: list[tuple[int, str]]) -> str:
    """A program with the examples: kernel or namespace ``example<number>``."""
    parts = [PREAMBLE, SHOW]
    for number, example in numbered:
        if at_file_scope(example):
            kept = re.sub(r"^#include.*$", "", example, flags=re.M)
            parts.append(f"namespace example{number} {{\n{kept}\n}}")
            continue
        given = next((code for part, code in GIVEN.items() if part in example), "")
        given = "" if re.search(r"\bauto x =|\bint x\b", example) and "x =" in given else given
        shown = "".join(
            f"show(out + {SLOTS * i}, {expression});\n"
            for part, results in RESULTS.items()
            if part in example
            for i, expression in enumerate(results)
        )
        code = re.sub(r"^.*// \(\d\) ill-formed$", "", example, flags=re.M)
        parts.append(
            f"__tile_global__ void example{number}(int* ptr, double* out) {{ {given}\n{{\n{code}\n{shown}}}\n}}"
        )
    return "\n".join(parts)


@pytest.fixture(scope="module")
def compiled() -> list[tuple[str, CppKernel]]:
    """The examples that are statements, each with its kernel."""
    numbered = list(enumerate(examples()))
    assert len(numbered) >= 125
    statements = [(n, e) for n, e in numbered if not at_file_scope(e)]
    kernels = Module(program(numbered), "examples.cu").load(*(f"example{n}" for n, _ in statements))
    return [(e, kernel) for (_, e), kernel in zip(statements, kernels)]


def test_the_examples_give_what_they_say(compiled: list[tuple[str, CppKernel]]) -> None:
    seen = set()
    for example, kernel in compiled:
        for part, results in RESULTS.items():
            if part not in example:
                continue
            seen.add(part)
            out = np.full(SLOTS * len(results), np.nan)
            run(kernel, (1,), np.zeros(64, np.int32), out)
            for i, (expression, value) in enumerate(results.items()):
                want = np.ravel(np.asarray(value, np.float64))
                got = out[SLOTS * i : SLOTS * i + want.size]
                np.testing.assert_array_equal(got, want, err_msg=f"{expression} in\n{example}")
    assert seen == set(RESULTS), set(RESULTS) - seen


def test_the_kernels_of_the_reference_are_kernels() -> None:
    numbered = [(n, e) for n, e in enumerate(examples()) if at_file_scope(e)]
    names = [
        f"example{n}::{name}"
        for n, e in numbered
        for name in re.findall(r"(?:__tile_global__\s+void|void\s+__tile_global__)\s+(\w+)\(", e)
        if "template" not in e
    ]
    assert len(names) >= 6
    Module(program(numbered), "examples.cu").load(*names)


def test_what_the_reference_calls_ill_formed_is_refused() -> None:
    text = text_of_reference()
    lines = re.findall(r"^(.*;) // \(\d\) ill-formed$", text, re.M)
    assert lines
    for line in lines:
        declared = "auto x = ct::full<ct::tile<int, ct::shape<8>>>(42);"
        with pytest.raises(TileError, match="arithmetic"):
            Module(f"{PREAMBLE}__tile_global__ void k() {{ {declared} {line} }}", "user.cu").kernel("k")
    hint = "[[ cutile::hint(0, latency=4, 3) ]]"
    assert hint in text
    with pytest.raises(TileError, match="hint"):
        Module(f"{PREAMBLE}{hint} __tile_global__ void k() {{}}", "user.cu").kernel("k")
