"""Structs that the compiler passes as one number of an unusual width, and other such numbers."""

from __future__ import annotations

import numpy as np
import pytest
from cpp_harness import PREAMBLE, refused, run

from tilewright.frontend.cpp.module import CppKernel, Module

SOURCE = (
    PREAMBLE
    + """
struct rgb { unsigned char r, g, b; };
__tile__ rgb mix(rgb x, rgb y, bool f) { return f ? x : y; }
__tile__ int total(rgb x) { return x.r + x.g * 1000 + x.b * 1000000; }
struct five { signed char v[5]; };
struct six { short a, b, c; };
__tile__ five reversed(five x) { return {x.v[4], x.v[3], x.v[2], x.v[1], x.v[0]}; }
__tile__ six turned(six x, int n) { while (n-- > 0) x = {x.b, x.c, x.a}; return x; }
template <typename A, typename B> struct pair { A a[4]; B b; };

__tile_global__ void structs(int* out, int a, int b, int c, int n) {
    rgb x{(unsigned char)a, (unsigned char)b, (unsigned char)c}, y{(unsigned char)n, 250, 7};
    out[0] = total(mix(x, y, a > b));
    for (int i = 0; i < n; ++i) { x = mix(y, x, out[i] > 3); x.g += 1; }
    out[1] = total(x);
    five f{{(signed char)a, (signed char)b, (signed char)c, -1, -100}};
    f = reversed(n > 2 ? reversed(f) : f);
    out[2] = f.v[0] * 1000 + f.v[1]; out[3] = f.v[2] * 1000 + f.v[3]; out[4] = f.v[4];
    six s = turned({(short)a, (short)(b - 1000), (short)(c * 100)}, n);
    out[5] = s.a; out[6] = s.b; out[7] = s.c;
    pair<short, int> p{{1, 2, 3, 4}, n};
    for (int i = 0; i < n; ++i) out[8 + i % 4] += p.a[(i + n) % 4] * p.b;
}
struct f2 { float x, y; }; struct f4 { float x, y, z, w; }; struct h2 { __half x, y; }; struct h3 { __half x, y, z; };
struct mixed { __half h; char c; float f; int i; };
template <typename T> __tile__ T pick(T a, T b, bool f) { return f ? a : b; }
__tile__ f2 add(f2 a, f2 b) { return {a.x + b.x, a.y + b.y}; } __tile__ f4 add(f4 a, f4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__tile__ h2 add(h2 a, h2 b) { return {a.x + b.x, a.y + b.y}; } __tile__ h3 add(h3 a, h3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
// Structs that the target passes in vector registers.
__tile_global__ void floats(float* out, float a, float b, int n) {
    auto turn = [&](auto x, auto y) { for (int i = 0; i < n; ++i) x = pick(add(x, y), y, i != 1); return x; };
    auto v = turn(f2{a, 2}, f2{3, b}); auto w = turn(f4{a, 2, b, 4}, f4{3, b, 1, 1});
    auto h = turn(h2{__half(a), __half(2)}, h2{__half(3), __half(b)}); auto t = turn(h3{__half(a), h.x, h.y}, h3{__half(1), __half(b), h.x});
    auto m = pick(mixed{__half(a), 'a', b, n}, mixed{__half(b), 'b', a, 7}, a < b);
    float all[] = {v.x, v.y, w.x, w.y, w.z, w.w, h.x, h.y, t.x, t.y, t.z, m.h, (float)m.c, m.f, (float)m.i};
    for (int i = 0; i < 15; ++i) out[i] = all[i];
}
// Extents and strides that are indexed at run time.
__tile_global__ void dimensions(int* out, int a, int b, int n) {
    ct::layout_right_padded_mapping m{ct::extents<short, ct::dynamic_extent, 5, ct::dynamic_extent>(a, b), 4_ic};
    ct::layout_left_mapping<ct::extents<signed char, ct::dynamic_extent, ct::dynamic_extent, 3>> l{
        ct::extents<signed char, ct::dynamic_extent, ct::dynamic_extent, 3>(a, b)};
    for (int i = 0; i < n; ++i) {
        out[4 * i] = m.extents().extent(i); out[4 * i + 1] = m.stride(i); out[4 * i + 2] = l.stride(i);
        out[4 * i + 3] = (int)m.static_stride(i);
    }
}
"""
)


@pytest.fixture(scope="module")
def kernels() -> list[CppKernel]:
    return Module(SOURCE, "widths.cu").load("structs", "dimensions", "floats")


@pytest.mark.parametrize(("a", "b", "c", "n"), [(1, 2, 3, 4), (9, 2, 255, 1), (100, 99, -128, 3)])
def test_small_structs_are_values(kernels: list[CppKernel], a: int, b: int, c: int, n: int) -> None:
    out = np.zeros(12, np.int32)
    run(kernels[0], (1,), out, a, b, c, n)

    def total(x: list[int]) -> int:
        return x[0] + x[1] * 1000 + x[2] * 1000000

    x, y = [a, b, c & 255], [n, 250, 7]
    want = [total(x if a > b else y)] + [0] * 11
    for i in range(n):
        x = list(y if want[i] > 3 else x)
        x[1] = (x[1] + 1) & 255
    want[1] = total(x)
    f = [a, b, (c + 128) % 256 - 128, -1, -100]
    f = f if n > 2 else f[::-1]
    want[2:5] = [f[0] * 1000 + f[1], f[2] * 1000 + f[3], f[4]]
    s = [a, b - 1000, c * 100]
    want[5:8] = s[n % 3 :] + s[: n % 3]
    for i in range(n):
        want[8 + i % 4] += (1 + (i + n) % 4) * n
    assert out.tolist() == want


def test_extents_and_strides_take_indices_of_run_time(kernels: list[CppKernel]) -> None:
    out = np.zeros((3, 4), np.int32)
    run(kernels[1], (1,), out, 6, 7, 3)
    assert out.tolist() == [[6, 40, 1, -1], [5, 8, 6, -1], [7, 1, 42, 1]]


@pytest.mark.parametrize(("a", "b", "n"), [(1.5, 4.0, 4), (5.0, 0.25, 1), (2.0, 3.0, 0)])
def test_small_structs_of_floats_are_values(kernels: list[CppKernel], a: float, b: float, n: int) -> None:
    def turn(x: list[float], y: list[float]) -> list[float]:
        for i in range(n):
            x = [p + q for p, q in zip(x, y)] if i != 1 else y
        return x

    out = np.zeros(15, np.float32)
    run(kernels[2], (1,), out, a, b, n)
    h = turn([a, 2], [3, b])
    want = [*turn([a, 2], [3, b]), *turn([a, 2, b, 4], [3, b, 1, 1]), *h, *turn([a, *h], [1, b, h[0]])]
    assert out.tolist() == [*want, *((a, ord("a"), b, n) if a < b else (b, ord("b"), a, 7))]


def test_numbers_that_are_too_wide_are_refused() -> None:
    error = refused("__int128 x = n; for (__int128 i = 0; i < n; ++i) x *= i + p[0]; p[0] = (int)(x >> 70);")
    assert "i128" in error.message
