"""Every example of the reference compiles as printed and gives what it says, where the document is at hand.

All examples that are statements become one program: a kernel for each. Those at file scope get a namespace each.
"""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
from cpp_harness import PREAMBLE, check_expressions, run
from documents import REFERENCE

from tilewright.frontend.cpp.module import CppKernel, Module
from tilewright.ir.errors import TileError

SHOW = """
template <typename T> __tile__ void show(double* out, T x) {
    ct::store(out + ct::iota<ct::tile<int, ct::tile_shape_t<T>>>(), ct::element_cast<double>(x));
}
"""
SLOTS = 64

pytestmark = pytest.mark.skipif(not REFERENCE.exists(), reason="the documents are not part of the repository")

# A distinctive part of a block that is no program, and what it is.
BROKEN = {
    "attribute-argument-clause ::=": "a grammar",
    "nvcc --enable-tile": "a command",
    "latency=4, 3)": "says that it is a syntax error",
    "1, 0, 2, 3, ..., N-1": "an ellipsis",
    "SubMode>(k, v)": "uses names of the surrounding text",
    "__padded_extents()": "uses names of the surrounding text",
}
# What the document has wrong in examples, and what it means.
MISPRINTS = {
    "ct::memory_order_acquire_t{}),": "ct::memory_order_acquire_t{},",
    "65536, 65536>>>;": "65536, 65536>>;",
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
    "ct::tile x{2};": {"x": 2},
    "2.0 == x; // (2) OK": {"2.0 == x": [0] * 8},
    "auto r = p.load(1, 2);": {"r": [[20, 21], [28, 29]]},
    "p.load_masked(ct::view_padding_nan_t{}, 0, 2)": {"r": [[8, 9, 10, np.nan], [19, 20, 21, np.nan]]},
    "p.store(a, 1, 3);": {"p.load(1, 3)": [[0, 100], [200, 300]], "p.load(1, 2)": [[20, 21], [28, 29]]},
    "ct::extents{6_ic, 2_ic}}": {"m.stride(0)": 6, "m.stride(1)": 2, "p.data_handle()[m.stride(0)]": 6},
    "ct::extents{2, 4_ic}};": {"ct::partition_view{t, ct::shape{2_ic, 4_ic}}.load(0, 0)": np.arange(8)},
    "auto result = ct::add(1.0, 2.5": {"result": 3.5},
    "auto result = ct::add(1.0f, 2.5f": {"result": 3.5},
    "auto result = ct::max(1.0, 2.5": {"result": 2.5},
    "auto r1 = y.empty();": {"r0": 1, "r1": 1},
    "> e{42};": {"e.extent(0)": 8, "e.extent(1)": 42, "e.extent(2)": 3},
    "e{8, 42, 3};": {"e.extent(0)": 8, "e.extent(1)": 42, "e.extent(2)": 3},
    "ct::extents x{4_ic, 7};": {"x.extent(0)": 4, "x.extent(1)": 7, "x.rank_dynamic()": 1},
    "ct::shape<33, 0>": {"y.extent(0)": 4, "y.extent(1)": 7, "z.extent(0)": 33, "z.extent(1)": 0},
    "// All runtime dimensions": {"a.extent(1)": 8, "b.extent(0)": 4, "c.extent(1)": 8},
    "4294967296_ic;": {"(4294967296_ic).value": 4294967296, "(22_ic).value": 22},
}


def text_of_reference() -> str:
    """The document with the code blocks joined that a page break divides, and code lines that were too long."""
    text = re.sub(r"(_?)\n↪ ?(\w)", r"\1\2", REFERENCE.read_text()).replace("__ restrict__", "__restrict__")
    text = re.sub(r"_\n↪ (?=\w)", "_", text).replace("\n↪", "")
    return re.sub(r"```\s*\(continues on next page\)\s*(?:\S+\s+)?\(continued from previous page\)\s*```\n", "", text)


def blocks() -> list[str]:
    """The code blocks, with the misprints mended."""
    text = text_of_reference()
    for wrong, right in MISPRINTS.items():
        assert text.count(wrong) == 1
        text = text.replace(wrong, right)
    return re.findall(r"```\n(.*?)```", text, re.S)


def is_declaration(block: str) -> bool:
    """Whether a block says what the library declares: a template, function, member or alias, or the rest of one."""
    start = r"template|__tile__|struct |concept |enum |enumerator |class |requires\b|static |(?:inline )?constexpr |span_type |ct::\w+ \w"
    return (
        re.match(rf"\s*(?:{start}|using [\w]+ ?=|unsigned char __|index_type __)", block) is not None
        or re.search(r"__tile__|\) (?:const )?noexcept", block) is not None
    )


def programs() -> list[str]:
    """The blocks that start as programs, or call the library."""
    found = []
    for block in blocks():
        program = re.search(r"namespace ct = |using namespace ct|#include|cutile::hint|__tile_global__ void", block)
        declaration = re.match(r"\s*(?:template|__tile__|struct|concept|enum|class|requires|static|constexpr)", block)
        declaration = declaration or re.search(r"requires|__tile__|noexcept|static constexpr", block)
        use = declaration is None and re.search(r"\bct::\w+(?:<[^\n]*>)?[({]", block)
        if program or use:
            found.append(block)
    return found


def examples() -> list[str]:
    """The programs that can be compiled."""
    return [block for block in programs() if not any(part in block for part in BROKEN)]


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


def test_every_block_is_an_example_or_a_declaration() -> None:
    known = set(examples())
    calls = set(programs())
    left = [b for b in blocks() if b not in known and (b in calls or not is_declaration(b))]
    for part in BROKEN:
        assert sum(part in b for b in left) >= 1, part
    assert [b for b in left if not any(part in b for part in BROKEN)] == []
    assert len(blocks()) > 460


@pytest.fixture(scope="module")
def compiled() -> list[tuple[str, CppKernel]]:
    """The examples that are statements, each with its kernel."""
    numbered = list(enumerate(examples()))
    assert len(numbered) >= 128
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


def test_the_matrices_of_the_reference() -> None:
    found = re.findall(
        r"The code `([^`]*)` produces the following matrix:\n\n.*?pmatrix}(.*?)\\end", text_of_reference(), re.S
    )
    assert len(found) == 4
    cases = []
    for code, matrix in found:
        code = code if "full" in code else code.replace("(42)", "()")  # zeros and ones take no value
        dtype = np.float64 if "double" in code else np.int32
        cases.append((code, np.array([row.split("&") for row in matrix.split(r"\\")]).astype(np.float64).astype(dtype)))
    check_expressions(cases)


def test_loops_of_the_reference_print_their_sequences(capfd: pytest.CaptureFixture[str]) -> None:
    loops = [block for block in examples() if "for (auto idx" in block]
    assert len(loops) == 2
    sources = [f"__tile_global__ void loop{i}() {{ {loop} }}" for i, loop in enumerate(loops)]
    for kernel, printed in zip(
        Module(PREAMBLE + "\n".join(sources)).load("loop0", "loop1"), ("5 7 9 11", "-10 -9 -8 -7")
    ):
        run(kernel, (1,))
        assert capfd.readouterr().out.split() == printed.split() * 2


def test_the_tables_of_conversions_in_the_reference() -> None:
    rows = re.findall(
        r"^Example ([A-D])\s*\n\$T\$\t<code>(.*?)</code>\n\$U\$\t<code>(.*?)</code>\n"
        r"<b>Arith. Tile Conversion</b>\t(.*)\n<b>Arith. Comp. Conversion</b>\t(.*)$",
        html.unescape(text_of_reference()),
        re.M,
    )
    assert "".join(row[0] for row in rows) == "ABCD"
    checks = []
    for _, t, u, conversion, comparison in rows:
        for concept, result, said in (
            ("arithmetic_tile_convertible", "arithmetic_tile_conversion_t", conversion),
            ("arithmetic_tile_comparable", "arithmetic_comparison_conversion_t", comparison),
        ):
            if "illformed" in said.replace("-", ""):
                checks.append(f"static_assert(!ct::{concept}<{t}, {u}>);")
            elif concept == "arithmetic_tile_convertible":
                checks.append(f"static_assert(__is_same(ct::{result}<{t}, {u}>, {said[6:-7]}));")
            else:
                checks.append(f"static_assert(ct::{concept}<{t}, {u}>);")
    assert len(checks) == 8
    Module(PREAMBLE + "\n".join(checks) + "\n__tile_global__ void k() {}").kernel("k")


# The other tables: the types that operations on shapes give.
SHAPES = """
template <typename T, typename U> concept same = __is_same(T, U);
template <int... N> using ints = ct::tile<int, ct::shape<N...>>;
static_assert(same<ct::tile_permutation_t<int, ct::dimension_map<>>, int>);
static_assert(same<ct::tile_permutation_t<ints<>, ct::dimension_map<>>, ints<>>);
static_assert(same<ct::tile_permutation_t<ints<4, 2, 16, 8>, ct::dimension_map<2, 1, 3, 0>>, ints<16, 2, 8, 4>>);
static_assert(same<ct::tile_transpose_t<int>, int>);
static_assert(same<ct::tile_transpose_t<ints<>>, ints<>>);
static_assert(same<ct::tile_transpose_t<ints<4, 2, 16, 8>>, ints<2, 4, 16, 8>>);
static_assert(!ct::concatenation_compatible<int, int, 0>);
static_assert(same<ct::concatenation_t<ints<2, 4>, ints<2, 4>, 0>, ints<4, 4>>);
static_assert(same<ct::concatenation_t<ints<2, 4>, ints<2, 4>, 1>, ints<2, 8>>);
static_assert(ct::extractable_from<ct::shape<>, int>);
static_assert(ct::extractable_from<ct::shape<16, 2>, ints<32, 8>>);
static_assert(!ct::extractable_from<ct::shape<2, 16>, ints<32, 8>>);
"""


def test_the_tables_of_shapes_in_the_reference() -> None:
    Module(PREAMBLE + SHAPES + "__tile_global__ void k() {}").kernel("k")
