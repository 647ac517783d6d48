"""Tile operations, reductions and scans on every dimension and kind of element, against NumPy (sections 2.3, 2.4, 2.6)."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from cpp_harness import C_TYPES, PREAMBLE, check_expressions, run

from tilewright.frontend.cpp.module import Module

SHAPE = (2, 4, 8)
CUBE = f"(ct::iota<ct::tile<int, ct::shape<{', '.join(map(str, SHAPE))}>>>() * 7 % 5)"
cube = (np.arange(64, dtype=np.int32) * 7 % 5).reshape(SHAPE)
POINTERS = "ct::tile<int*, ct::shape<4>>"


def test_permutations_extractions_and_concatenations() -> None:
    four = "ct::iota<ct::tile<int, ct::shape<4, 2, 8, 1>>>()"
    n4 = np.arange(64, dtype=np.int32).reshape(4, 2, 8, 1)
    cases: list[tuple[str, Any]] = [
        (f"ct::permute({four}, ct::dimension_map<{', '.join(map(str, axes))}>{{}})", n4.transpose(axes).copy())
        for axes in list(permutations(range(4)))[::5]
    ]
    cases += [(f"ct::cat<{axis}>({CUBE}, {CUBE} + 5)", np.concatenate([cube, cube + 5], axis)) for axis in range(3)]
    cases += [
        (
            f"ct::extract({four}, ct::shape<2, 1, 4, 1>{{}}, {i}, {j}u, {k}.9f, false)",
            n4[2 * i :, j : j + 1, 4 * k :][:2, :, :4].copy(),
        )
        for i, j, k in [(0, 0, 0), (1, 0, 1), (0, 1, 1)]
    ]
    cases += [
        ("ct::reshape(7, ct::shape<1, 1>{})", np.array([[7]], np.int32)),
        (
            "ct::reshape(ct::tile<float, ct::shape<1, 1>>(ct::ones<ct::tile<float, ct::shape<1, 1>>>()), ct::shape<>{})",
            np.float32(1),
        ),
        ("ct::broadcast(2.5, ct::shape<2, 2>{})", np.full((2, 2), 2.5)),
        ("ct::extract(3, ct::shape<>{})", np.int32(3)),
    ]
    check_expressions(cases)


def test_tiles_of_sixteen_dimensions() -> None:
    shape = (2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 4, 1, 1, 2, 1)
    n = np.arange(64, dtype=np.int32).reshape(shape)
    x = f"ct::iota<ct::tile<int, ct::shape<{', '.join(map(str, shape))}>>>()"
    axes = (15, 3, 1, 0, 2, 5, 4, 6, 7, 8, 9, 14, 10, 13, 11, 12)
    check_expressions(
        [
            (f"ct::permute({x}, ct::dimension_map<{', '.join(map(str, axes))}>{{}}) + 1", n.transpose(axes) + 1),
            (f"ct::sum<11>({x})", n.sum(11, keepdims=True, dtype=np.int32)),
            (f"ct::partial_sum<14>({x})", n.cumsum(14, dtype=np.int32)),
        ]
    )


def test_selections_by_any_kind_of_condition() -> None:
    x, n = "ct::iota<ct::tile<int, ct::shape<2, 4>>>()", np.arange(8, dtype=np.int32).reshape(2, 4)
    check_expressions(
        [
            (
                f"ct::select(ct::iota<ct::tile<unsigned char, ct::shape<4>>>() * (unsigned char)128, {x}, -{x})",
                np.where([0, 1, 0, 1], n, -n),
            ),
            (
                f"ct::select(ct::reshape(ct::iota<ct::tile<int, ct::shape<2>>>(), ct::shape<2, 1>{{}}), {x}, -{x})",
                np.where([[0], [1]], n, -n),
            ),
            ("ct::select(-0.0, 1, 2)", np.int32(2)),
            ("ct::select(0.0f / 0.0f, 1, 2)", np.int32(1)),
            ("ct::select(__half(6e-8f), 1, 2)", np.int32(1)),
            ("ct::select(__nv_fp8_e4m3(-0.0f), 1, 2)", np.int32(2)),
            ("ct::select((void*)nullptr, 1, 2)", np.int32(2)),
            (f"ct::select(({x} > 3) + out, {x}, -{x})", n),
        ]
    )


def test_bits_of_pointers() -> None:
    """Pointers as integers and floats of their size, and back."""
    iota = "ct::iota<ct::tile<int, ct::shape<4>>>()"
    source = f"""{PREAMBLE}
    __tile_global__ void k(int* p, int* out) {{
        {POINTERS} ptrs = p + {iota};
        auto numbers = ct::element_bitcast<unsigned long>(ptrs);
        auto floats = ct::element_bitcast<double>(ptrs);
        auto back = ct::element_bitcast<int*>(ct::element_bitcast<void const*>(numbers + 4ul));
        auto sum = ct::load(back) + 10 * ct::load(ct::element_bitcast<int*>(floats));
        ct::store(out + {iota}, sum + ct::element_cast<int>(numbers - ct::element_bitcast<unsigned long>(p)) * 100);
    }}"""
    data, out = np.arange(5, dtype=np.int32), np.zeros(4, np.int32)
    (kernel,) = Module(source).load("k")
    run(kernel, (1,), data, out)
    np.testing.assert_array_equal(out, data[1:] + 10 * data[:4] + 400 * np.arange(4))


@pytest.mark.parametrize("element", ["__nv_fp8_e4m3", "__nv_fp8_e5m2"])
def test_every_code_of_a_byte_format_survives_bit_casts(element: str) -> None:
    codes = "ct::iota<ct::tile<unsigned char, ct::shape<256>>>()"
    bits = f"ct::element_bitcast<unsigned char>(ct::reshape(ct::element_bitcast<{element}>({codes}), ct::shape<2, 128>{{}}))"
    check_expressions([(bits, np.arange(256, dtype=np.uint8).reshape(2, 128))])


FOLDS = {
    "sum": lambda x, d: x.sum(d, keepdims=True),
    "prod": lambda x, d: x.prod(d, keepdims=True),
    "partial_sum": lambda x, d: x.cumsum(d),
    "partial_prod": lambda x, d: x.cumprod(d),
    "reduce_max": lambda x, d: x.max(d, keepdims=True),
    "reduce_min": lambda x, d: x.min(d, keepdims=True),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.float64], ids=lambda dtype: dtype.__name__)
def test_folds_of_each_dimension(dtype: type[np.generic]) -> None:
    x = cube.astype(dtype)
    expression = f"ct::element_cast<{C_TYPES[np.dtype(dtype).name]}>({CUBE})"
    check_expressions(
        [
            (f"ct::{name}({expression}, {axis}_ic)", np.asarray(fold(x, axis)).astype(dtype))
            for name, fold in FOLDS.items()
            for axis in range(3)
        ]
    )


def test_folds_of_bool_are_modulo_two() -> None:
    x = cube == 1
    b = f"({CUBE} == 1)"
    check_expressions(
        [
            (f"ct::sum<2>({b})", np.logical_xor.reduce(x, 2, keepdims=True)),
            (f"ct::prod<1>({b})", x.all(1, keepdims=True)),
            (f"ct::partial_sum<1>({b})", np.logical_xor.accumulate(x, 1)),
            (f"ct::reduce_max<0>({b})", x.any(0, keepdims=True)),
            (f"ct::reduce_bitxor<2>({b})", np.logical_xor.reduce(x, 2, keepdims=True)),
            (f"ct::reduce_bitand<1>({b})", x.all(1, keepdims=True)),
        ]
    )


def test_modes_of_folds_and_roots_in_both_spellings() -> None:
    """Two elements leave no choice of grouping, so that the rounding of one operation shows."""
    pair = "ct::select(ct::iota<ct::tile<int, ct::shape<2>>>() == 0, ct::full<ct::tile<{0}, ct::shape<2>>>({1}), ct::full<ct::tile<{0}, ct::shape<2>>>({2}))"
    floats, tiny = pair.format("float", "1.0f", "1e-10f"), pair.format("float", "1e-40f", "-2e-40f")
    nans = pair.format("float", "0.0f / 0.0f", "2.0f")
    one, two, above = np.float32(1), np.float32(2), np.nextafter(np.float32(1), np.float32(2))
    root, below = np.float32(np.sqrt(2)), np.nextafter(np.float32(np.sqrt(2)), np.float32(0))
    rounded = {
        "round_ties_to_even": (one, root),
        "round_toward_zero": (one, min(root, below) if root > np.sqrt(2.0) else root),
        "round_toward_negative": (one, below if root > np.sqrt(2.0) else root),
        "round_toward_positive": (above, root if root > np.sqrt(2.0) else np.nextafter(root, two)),
    }
    cases: list[tuple[str, Any]] = []
    for mode, (total, square_root) in rounded.items():
        cases += [
            (f"ct::sum({floats}, 0_ic, ct::{mode}_t{{}})", np.array([total])),
            (f"ct::sum<0, ct::rounding_mode::{mode}>({floats}, {{}}, {{}})", np.array([total])),
            (f"ct::partial_sum({floats}, 0_ic, ct::{mode}_t{{}})", np.array([one, total])),
            (f"ct::sqrt(2.0f, ct::{mode}_t{{}})", square_root),
            (f"ct::sqrt<ct::rounding_mode::{mode}>(2.0f)", square_root),
        ]
    flush, zero = "ct::round_subnormals_to_zero_t{}", np.float32(0)
    kept = np.float32(1e-40) + np.float32(-2e-40)
    cases += [
        (f"ct::sum({tiny}, 0_ic, {{}}, {flush})", np.array([zero])),
        (f"ct::sum({tiny}, 0_ic, {{}})", np.array([kept])),
        (f"ct::reduce_min({tiny}, 0_ic, {{}}, {flush}) == 0.0f", np.array([True])),
        (f"ct::reduce_min({tiny}, 0_ic)", np.array([-2e-40], np.float32)),
        (f"ct::reduce_max({nans}, 0_ic)", np.array([two])),
        (f"ct::isnan(ct::reduce_max({nans}, 0_ic, ct::propagate_nan_t{{}}))", np.array([True])),
        (
            f"ct::isnan(ct::reduce_min<0, ct::nan_propagation_mode::propagate_nan>({nans}, {{}}, {{}}))",
            np.array([True]),
        ),
        (f"ct::exp2(-130.0f, {flush})", zero),
        ("ct::exp2(-130.0f)", np.float32(2.0**-130)),
        ("ct::rsqrt<ct::subnormals_rounding_mode::round_subnormals_to_zero>(1e-40f)", np.float32(np.inf)),
        (f"ct::sqrt(1e-40f, {{}}, {flush})", zero),
    ]
    check_expressions(cases)
