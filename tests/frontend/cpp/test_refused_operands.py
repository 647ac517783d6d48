"""Sections 2.1, 2.2 and 2.9: what operators, functions and conversions refuse names the constraint that is not met."""

from __future__ import annotations

import numpy as np
from cpp_harness import PREAMBLE, refusals, run

from tilewright.frontend.cpp.module import Module

CODE = """
template <typename E, size_t... S> using t = ct::tile<E, ct::shape<S...>>; struct user { int a; };
t<int, 8> x; t<int, 4> x4; t<unsigned, 8> u; t<short, 8> s; t<float, 8> f; t<double, 8> d; t<__half, 8> h; t<bool, 8> b;
t<__nv_bfloat16, 8> bf; t<__nv_fp8_e4m3, 8> e; t<__nv_tf32, 8> tf; t<int*, 8> pp; t<float*, 8> qq; t<void*, 8> vv; t<int const*, 8> cc;
t<int> i0; t<float> f0; user us;"""

NARROWS = "would be narrowing; convert an operand (arithmetic_tile_convertible)"
SHAPES = "the shapes are not mutual broadcast compatible"
NOT_ARITHMETIC = "not an arithmetic tile"
NOT_INTEGRAL = "not an integral tile"
NOT_BASIC = "not a basic floating point tile"

OPERATORS = {
    "x + 2.5;": NARROWS,
    "2.0 * x;": NARROWS,
    "f + 2.5;": NARROWS,
    "x + u;": NARROWS,
    "s - 70000;": NARROWS,
    "x + x4;": SHAPES,
    "h + bf;": "no arithmetic common type (arithmetic_tile_convertible)",
    "h < bf;": "no arithmetic common type (arithmetic_tile_comparable)",
    "u < -1;": "would be narrowing; convert an operand (arithmetic_tile_comparable)",
    "x == x4;": SHAPES,
    "e + e;": NOT_ARITHMETIC,
    "e == e;": NOT_ARITHMETIC,
    "-e;": "takes an arithmetic tile (arithmetic_tile)",
    "+tf;": "takes an arithmetic tile (arithmetic_tile) or a pointer tile",
    "x & f;": NOT_INTEGRAL,
    "f % f;": NOT_INTEGRAL,
    "~f;": "takes an integral tile (integral_tile), and not one of bool",
    "~b;": "not one of bool",
    "b << 1;": "must not be bool",
    "b >> x;": "must not be bool",
    "x << f;": NOT_INTEGRAL,
    "x << x4;": SHAPES,
    "x && us;": "'user' does not satisfy 'bool_tile_convertible'",
    "x || x4;": SHAPES,
    "x + us;": "'user' does not satisfy 'arithmetic_tile'",
    "us + x;": "'user' does not satisfy 'arithmetic_tile'",
    "x += 1;": "tiles have none: write x = x + y",
    "x += 2.5;": "for which arithmetic_tile_convertible must hold",
    "x <<= x4;": "for which broadcast_compatible must hold",
    "++x;": "tiles have none",
    "x--;": "tiles have none",
    "ct::add(x, 2.5);": NARROWS,
    "ct::add(x, x, ct::round_toward_zero_t{});": NOT_BASIC,
    "ct::sub(f, f, ct::round_full_t{});": "a precise rounding mode",
    "ct::mul<ct::rounding_mode::round_approximate>(f, f, {});": "a precise rounding mode",
    "ct::add(h, h, ct::round_toward_zero_t{}, ct::round_subnormals_to_zero_t{});": "for float only",
    "ct::add(f, f, 3);": "needs a ct::rounding_mode_constant, not 'int'",
    "ct::div(h, h, ct::round_approximate_t{});": "for float only",
    "ct::div(x, x, ct::round_full_t{});": NOT_BASIC,
    "ct::ceildiv(f, f);": NOT_INTEGRAL,
    "ct::floordiv(x, 2u);": NARROWS,
    "ct::remainder(e, e);": NOT_ARITHMETIC,
    "ct::mulhi(f, f);": NOT_INTEGRAL,
    "ct::max(x, x, ct::propagate_nan_t{});": NOT_BASIC,
    "ct::min(d, d, ct::propagate_nan_t{}, ct::round_subnormals_to_zero_t{});": "for float only",
    "ct::max(x, 2.5f);": NARROWS,
    "ct::abs(e);": NOT_ARITHMETIC,
    "ct::fma(x, x, x);": NOT_BASIC,
    "ct::fma(f, 1.0, f);": "narrowing (fma_operand)",
    "ct::fma(x, x, f);": "narrowing (fma_operand)",
    "ct::fma(f, f, f0);": "not broadcastable to the shape (fma_operand)",
    "ct::fma(f, f, f, ct::round_full_t{});": "a precise rounding mode",
    "ct::fma(h, h, h, ct::round_ties_to_even_t{}, ct::round_subnormals_to_zero_t{});": "for float only",
}

POINTERS = {
    "vv + x;": "pointers to void have no elements",
    "vv - 1;": "pointers to void have no elements",
    "1 + vv;": "pointers to void have no elements",
    "pp + f;": NOT_INTEGRAL,
    "pp + x4;": SHAPES,
    "pp + pp;": "does not satisfy 'arithmetic_tile'",
    "x - pp;": "does not satisfy 'arithmetic_tile'",
    "pp * 2;": "does not satisfy 'arithmetic_tile'",
    "pp - qq;": "builtin difference is not defined",
    "pp < qq;": "builtin comparisons are not defined",
    "pp == f;": "not a pointer tile",
    "pp < nullptr;": "does not satisfy",
    "pp += x4;": "tiles have none",
    "*pp;": "ct::load and ct::store go through tiles of pointers",
    "x[0];": "ct::extract yields parts of a tile",
}

CONVERSIONS = {
    "t<int, 8> y = f;": "narrowing, so it must be explicit (non_narrowing_tile_convertible_to)",
    "x = f;": "narrowing, so it must be explicit (non_narrowing_tile_convertible_to)",
    "x = x4;": "no tile conversion to the type that is assigned to (tile_convertible_to)",
    "x = 3;": "no tile conversion to the type that is assigned to (tile_convertible_to)",
    "t<int, 8> y{x4};": "the shapes are not shape equivalent (tile_convertible_to)",
    "t<int, 8> y(us);": "'user' does not satisfy 'tile_like'",
    "pp = cc;": "no tile conversion to the type that is assigned to (tile_convertible_to)",
    "t<int*, 8> y = vv;": "no scalar conversion between the element types (tile_convertible_to)",
    "int y = f0;": "narrowing, so it must be explicit (non_narrowing_scalar_convertible_to)",
    "short y = i0;": "narrowing, so it must be explicit (non_narrowing_scalar_convertible_to)",
    "int y(x);": "only a singleton tile",
    "n = f0;": "only a singleton tile",
    "if (x > 1) {}": "from 'ct::tile<bool, ct::shape<8>>' to 'bool': only a singleton tile",
    "(int)x;": "only a singleton tile",
    "ct::tile y{us};": "'user' does not satisfy 'scalar'",
    "t<int, 7> y;": "powers of two, and at most 2^24 elements (tile_shape)",
    "t<int, 0> y;": "powers of two, and at most 2^24 elements (tile_shape)",
    "t<int, 16777216, 2> y;": "powers of two, and at most 2^24 elements (tile_shape)",
    "t<int**, 8> y;": "'int **' does not satisfy 'scalar'",
    "t<long double, 8> y;": "'long double' does not satisfy 'scalar'",
    "ct::tile<int const, ct::shape<2>> y;": "the element type of a tile must not be cv-qualified",
    "ct::tile<int, ct::shape<8> const> y;": "the shape of a tile must not be cv-qualified",
    "ct::tile<int, ct::extents<int, 8>> y;": "(tile_shape)",
    "ct::tile<int, ct::extents<unsigned, ct::dynamic_extent>> y;": "does not satisfy 'tile_shape'",
    "ct::tile_element_t<user> y;": "'user' does not satisfy 'tile_like'",
    "ct::tile_with_element_t<int, user> y;": "'user' does not satisfy 'scalar'",
    "ct::mutual_broadcast_t<t<int, 4>, t<int, 8>, int> y;": SHAPES,
    "ct::arithmetic_tile_conversion_t<t<int, 4>, float> y;": NARROWS,
    "ct::arithmetic_tile_comparison_t<t<int, 4>, unsigned> y;": "would be narrowing; convert an operand (arithmetic_tile_comparable)",
    "ct::shape_broadcast_t<ct::shape<3>, ct::shape<4>> y;": SHAPES,
    "ct::arithmetic_tile_promotion_t<int*> y;": "'int *' does not satisfy 'arithmetic_tile'",
    "ct::shape_size_v<ct::extents<int, ct::dynamic_extent>>;": "is not shape like",
    "ct::extents_equal(x, x);": "is not extents like",
    "t<int, 4194304, 1> l; t<int, 1, 8> r; l + r;": "more than 2^24 elements",
}


def test_refused() -> None:
    cases = {**OPERATORS, **POINTERS, **CONVERSIONS}
    for error, (statement, words) in zip(refusals(list(cases), code=CODE), cases.items()):
        assert words in error.message, (statement, error.message)
        assert len(error.message) < 400, error.message


OWN_OPERATORS = """
template <typename E, typename S, typename R> __tile__ ct::tile<E, S>& operator+=(ct::tile<E, S>& x, R y) { return x = x + y; }
template <ct::tile_like T, ct::tile_like U> __tile__ T& operator*=(T& x, U const& y) { return x = x * y; }
template <ct::tile_like T> __tile__ T& operator++(T& x) { return x = x + 1; }
template <ct::restricted_floating_point_tile T> __tile__ T operator-(T x) { return T(-ct::element_cast<float>(x)); }
template <typename S> __tile__ ct::tile<bool, S> operator~(ct::tile<bool, S> x) { return !x; }
__tile_global__ void k(int* p) {
    auto x = ct::iota<ct::tile<int, ct::shape<4>>>(), i = x;
    x += 5;
    x *= x;
    ++x;
    auto e = -ct::element_cast<__nv_fp8_e4m3>(i);
    ct::store(p + i, ct::select(~(i > 1), x, ct::element_cast<int>(e)));
}
"""


def test_programs_may_add_operators() -> None:
    p = np.zeros(4, np.int32)
    run(Module(PREAMBLE + OWN_OPERATORS).kernel("k"), (1,), p)
    np.testing.assert_array_equal(p, [26, 37, -2, -3])
