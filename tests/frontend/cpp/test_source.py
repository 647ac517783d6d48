"""What happens to the source text before the compiler sees it: hints, SIMT kernels, launches."""

from __future__ import annotations

import pytest
from cpp_harness import PREAMBLE

from tilewright.frontend.cpp.module import Module
from tilewright.frontend.cpp.source import prepare

BEGIN, END = "::__tw_hint_begin", "::__tw_hint_end();"


@pytest.mark.parametrize(
    "text",
    [
        "int a[3]; auto f = a[ [] { return 1; }()];",
        "// [[cutile::hint(0)]]",
        'char const* s = "[[cutile::hint(0, latency=1)]]";',
        "[[nodiscard]] int f(); [[maybe_unused]] int cutile;",
        "auto x = a <<= 3; bool b = c << d < e;",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert prepare(text, "t.cu") == text


@pytest.mark.parametrize(
    "statement",
    [
        "auto x = ct::load(y);",
        "if (auto x = ct::load(y)) { }",
        "return ct::load(y);",
        "ct::tile<int, ct::shape<8>> x = ct::load(y);",
        "T const& x{ct::load(y)};",
        "for (;;) ct::load(y);",
    ],
)
def test_hints_on_other_statements_vanish(statement: str) -> None:
    assert (
        prepare(f"void f() {{ [[cutile::hint(0, latency=4)]] {statement} }}", "t.cu") == f"void f() {{  {statement} }}"
    )


@pytest.mark.parametrize(
    "statement", ["ct::load(y);", "x = ct::load(y);", "a * b;", "x.y[3] = { 1 };", "p->store(f<2>(x), 0);"]
)
def test_hints_on_expression_statements(statement: str) -> None:
    text = prepare(f"void f() {{ [[cutile::hint(0, latency=(4, 3))]] {statement} }}", "t.cu")
    if statement == "a * b;":  # reads like a declaration, and a product that is thrown away needs no hint
        assert BEGIN not in text
    else:
        assert f'{BEGIN}((0), "latency", ((4, 3))); {statement}{END}' in text


def test_a_hint_below_a_condition_stays_below_it() -> None:
    text = prepare(
        "void f() { if (n > 1) [[cutile::hint(0, latency=4)]] x = 1; else [[cutile::hint(0, latency=4)]] y = 2; }",
        "t.cu",
    )
    assert text.count("{" + BEGIN) == text.count(END + "}") == 2


def test_lines_keep_their_numbers() -> None:
    text = "void f() {\n[[ using cutile :\n hint(0, latency=1), // one ]]\n hint(900, latency=2) ]]\nx = 1;\n}\n"
    prepared = prepare(text, "t.cu").splitlines()
    assert prepared[4].startswith("x = 1;")
    assert len(prepared) == 6


def test_simt_bodies_and_launches_are_blanked() -> None:
    text = "__global__ void k(int* p);\n__global__ void k(int* p) {\n p[threadIdx.x] = '}';\n}\nvoid f() {\n k<<<1, 2>>>(p); g();\n}"
    prepared = prepare(text, "t.cu")
    assert "threadIdx" not in prepared
    assert "<<<" not in prepared
    assert prepared.count("\n") == text.count("\n")
    assert prepared.splitlines()[5].replace(" ", "") == "((void)0);g();"


def test_a_pack_of_hints() -> None:
    source = """template <int... Archs>
    [[ cutile::hint(Archs, occupancy = Archs / 100) ... ]]
    __tile_global__ void k(int* p) {}
    [[ cutile::hint(0, num_cta_per_cga=4, occupancy=33) ]]  // a kind and a value that do not exist
    __tile_global__ void plain() {}"""
    module = Module(PREAMBLE + source, "user.cu")
    some, none, plain = module.load("k<900, 1000>", "k<>", "plain")
    assert some.function.hints["occupancy"].values == {"sm_90": 9, "sm_100": 10}
    assert none.function.hints == plain.function.hints == {}
