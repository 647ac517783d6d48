"""Structs of programs: how they are passed, returned, loaded and stored, and pointers to them."""

from __future__ import annotations

import numpy as np
import pytest
from cpp_harness import PREAMBLE, launch, run

from tilewright.backends.registry import get_backend
from tilewright.frontend.cpp.module import Module

MEMBERS = [
    ("float", "float"),
    ("float", "float", "float"),
    ("float", "int"),
    ("int", "float"),
    ("float", "double"),
    ("short", "short", "short"),
    ("char", "float"),
    ("long", "float"),
    ("float", "float", "int", "int"),
    ("int", "int", "int", "int", "int"),
]


def source(number: int, members: tuple[str, ...]) -> str:
    """A kernel that passes a struct to functions and gets it back, in a loop and in a choice."""
    fields = " ".join(f"{type} m{i};" for i, type in enumerate(members))
    sums = ", ".join(f"{type}(a.m{i} + b.m{(i + 1) % len(members)})" for i, type in enumerate(members))
    first = ", ".join(f"{type}({i + 1})" for i, type in enumerate(members))
    stores = " ".join(f"out[{i}] = s.m{i};" for i in range(len(members)))
    return f"""
    namespace n{number} {{
    struct S {{ {fields} }};
    __tile__ S combine(S a, S b) {{ return {{{sums}}}; }}
    __tile__ S choose(S a, S b, bool first) {{ return first ? a : b; }}
    __tile_global__ void k(double* out, int n) {{
        S s{{{first}}}, b = s;
        for (int i = 0; i < n; ++i) s = combine(s, b);
        s = choose(s, b, n > 2);
        {stores}
    }}
    }}"""


def test_structs_are_passed_and_returned() -> None:
    sources = "\n".join(source(i, members) for i, members in enumerate(MEMBERS))
    kernels = Module(PREAMBLE + sources).load(*(f"n{i}::k" for i in range(len(MEMBERS))))
    for members, kernel in zip(MEMBERS, kernels):
        first = np.arange(1.0, len(members) + 1)
        for n in (2, 3):
            run(kernel, (1,), out := np.zeros(len(members)), n)
            np.testing.assert_array_equal(out, first + n * np.roll(first, -1) if n > 2 else first)


def test_pointers_to_structs_and_enumerations_are_parameters() -> None:
    kernels = """
    struct Item { int id; float weight; double sum; };
    enum class Mode : unsigned char { keep, flip };
    __tile_global__ void items(Item* items, int n, Mode mode) {
        for (int i = 0; i < n; ++i) {
            Item item = items[i];
            item.sum = item.id * item.weight;
            if (mode == Mode::flip) item.id = -item.id;
            items[i] = item;
        }
    }
    __tile_global__ void pairs(float2* pairs) { float2 v = pairs[1]; pairs[0] = make_float2(v.y, v.x); }
    """
    items, pairs = Module(PREAMBLE + kernels).load("items", "pairs")
    layout = np.dtype([("id", "i4"), ("weight", "f4"), ("sum", "f8")])
    values = np.array([(1, 2.5, 0), (4, 5, 0)], layout)
    run(items, (1,), values.view(np.uint8), 2, 1)
    assert values.tolist() == [(-1, 2.5, 2.5), (-4, 5, 20)]
    run(pairs, (1,), numbers := np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(numbers, [3, 2, 2, 3])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_complex_numbers_in_loops(backend: str) -> None:
    code = """
    struct Complex {
        float re, im;
        friend __tile__ Complex operator*(Complex a, Complex b) {
            return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
        }
        __tile__ Complex& operator+=(Complex o) { re += o.re; im += o.im; return *this; }
    };
    __tile_global__ void k(Complex* out, int n) {
        Complex z{0, 1}, sum{1, 0};
        for (int i = 0; i < n; ++i) { sum += z; z = z * z; }
        *out = sum;
    }"""
    out = np.zeros(1, np.complex64)
    launch(get_backend(backend), Module(PREAMBLE + code).kernel("k"), (1,), out.view(np.uint8), 3)
    assert out[0] == 1 + 1j - 1 + 1
