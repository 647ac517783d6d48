"""Every operation of the reference on small tiles, with the values that it must give (sections 2.2 to 2.6)."""

from __future__ import annotations

import numpy as np
from cpp_harness import check_expressions

I4 = "ct::iota<ct::tile<int, ct::shape<4>>>()"
I24 = "ct::iota<ct::tile<int, ct::shape<2, 4>>>()"
F4 = f"ct::element_cast<float>({I4})"
i4 = np.arange(4, dtype=np.int32)
i24 = np.arange(8, dtype=np.int32).reshape(2, 4)
f4 = i4.astype(np.float32)


def full(type: str, value: str, *shape: int) -> str:
    return f"ct::full<ct::tile<{type}, ct::shape<{', '.join(map(str, shape))}>>>({value})"


def test_arithmetic() -> None:
    big = full("signed char", "100", 2)
    check_expressions(
        [
            (f"5 + {F4}", 5 + f4),
            (f"{I4} - ct::reshape({I4}, ct::shape{{4_ic, 1_ic}})", i4 - i4[:, None]),
            (f"{I4} * short(3) / 2 % 3", i4 * 3 // 2 % 3),
            (f"-{I4} / 2", -i4 // 2 + np.array([0, 1, 0, 1], np.int32)),
            (f"ct::floordiv(-{I4}, 2)", np.floor_divide(-i4, 2)),
            (f"ct::ceildiv({I4}, 2)", -(-i4 // 2)),
            (f"ct::remainder(-{F4}, 2.0f)", np.fmod(-f4, np.float32(2))),
            (f"{I4} + {full('long', '2', 1)}", i4.astype(np.int64) + 2),
            (f"+ct::element_cast<char>({I4})", i4),
            (f"{full('unsigned char', '200', 2)} + {full('unsigned char', '100', 2)}", np.full(2, 44, np.uint8)),
            (f"ct::mulhi({full('unsigned', '4000000000', 2)}, 4u)", np.full(2, 3, np.uint32)),
            (f"ct::mulhi({full('int', '-1', 2)}, 2)", np.full(2, 1, np.int32)),
            (f"ct::abs(-{I4}) + ct::abs({full('int', '-3', 1)})", i4 + 3),
            (f"ct::max({I4}, 2) + ct::min({I4}, 1)", np.maximum(i4, 2) + np.minimum(i4, 1)),
            (f"ct::max(ct::tile<float, ct::shape<>>(0.0f) / 0.0f, {F4})", f4),
            (f"ct::isnan(ct::max({F4} / 0.0f, 1.0f, ct::propagate_nan_t{{}}))", np.array([True, False, False, False])),
            (f"ct::fma({F4}, 2.0f, 1.0f + {F4})", f4 * 2 + 1 + f4),
            ("ct::add(8.0f, 5 * 0x0.000002p0f, ct::round_toward_negative_t{})", np.float32(8)),
            (
                "ct::sub(0x1.1p-126f, 0x1.0p-126f, ct::round_ties_to_even_t{}, ct::round_subnormals_to_zero_t{})",
                np.float32(0),
            ),
            ("ct::add<ct::rounding_mode::round_toward_positive>(1.0, 1e-30, {})", np.nextafter(1.0, 2)),
            ("ct::div(1.0f, 3.0f, ct::round_full_t{}) > 0.33f", np.bool_(True)),
            (f"{big} >> 1", np.full(2, 50, np.int8)),
            (f"{I4} << {I4}", i4 << i4),
            (f"(-{I4}) >> 1u", -i4 >> 1),
        ]
    )


def test_comparison_bitwise_and_logical() -> None:
    check_expressions(
        [
            (f"{I4} < 2", i4 < 2),
            (f"2.5 >= {I4}", i4 <= 2.5),
            (f"{I4} == {F4}", i4 == f4),
            (f"{F4} / 0.0f != {F4} / 0.0f", np.array([True, False, False, False])),
            (f"({I4} & 1) | ({I4} ^ 3)", (i4 & 1) | (i4 ^ 3)),
            (f"~{I4}", ~i4),
            (f"({I4} > 0) && {I4} % 2", (i4 > 0) & (i4 % 2 != 0)),
            (f"!{F4} || ({I4} == 3)", (f4 == 0) | (i4 == 3)),
            (f"ct::select({I4} % 2 == 0, {I4}, -{I4})", np.where(i4 % 2 == 0, i4, -i4)),
            (f"({I4} > 1) + ({I4} > 2)", (i4 > 1) ^ (i4 > 2)),
        ]
    )


def test_creation_and_shape() -> None:
    t3 = "ct::iota<ct::tile<int, ct::shape<4, 2, 2>>>()"
    n3 = np.arange(16, dtype=np.int32).reshape(4, 2, 2)
    check_expressions(
        [
            ("ct::ones<ct::tile<bool, ct::shape<2>>>()", np.ones(2, np.bool_)),
            ("ct::zeros<ct::tile<double, ct::shape<2, 2>>>()", np.zeros((2, 2))),
            ("ct::full<ct::tile<__half, ct::shape<2>>>(1.5f)", np.full(2, 1.5, np.float16)),
            ("ct::iota<ct::tile<bool, ct::shape<2>>>()", np.array([False, True])),
            ("ct::full<int>(3) + ct::iota<int>()", np.int32(3)),
            (f"ct::reshape({I24}, ct::shape{{4_ic, 2_ic}})", i24.reshape(4, 2)),
            (f"ct::permute({t3}, ct::dimension_map{{2_ic, 0_ic, 1_ic}})", n3.transpose(2, 0, 1)),
            (f"ct::transpose({t3})", n3.transpose(1, 0, 2)),
            (f"ct::transpose({I4})", i4),
            (f"ct::cat<0>({I24}, -{I24})", np.concatenate([i24, -i24])),
            (f"ct::cat({I24}, {I24}, 1_ic)", np.concatenate([i24, i24], axis=1)),
            (f"ct::extract({I24}, ct::shape{{1_ic, 2_ic}}, 1, 1u)", i24[1:, 2:]),
            (f"ct::broadcast({I4}, ct::shape{{2_ic, 4_ic}})", np.broadcast_to(i4, (2, 4)).copy()),
            (f"ct::element_cast<double>({I24})", i24.astype(np.float64)),
            (f"ct::element_cast<unsigned char>({F4} + 0.75f)", i4.astype(np.uint8)),
            ("ct::element_bitcast<int>(1.0f)", np.int32(0x3F800000)),
            (f"ct::element_bitcast<float>({I4} + 0x3f800000)", (i4 + 0x3F800000).view(np.float32)),
            (f"ct::isinf(1.0f / {F4})", f4 == 0),
            ("ct::tile<int, ct::shape<>>(7) + 1", np.int32(8)),
            ("int(ct::tile<float, ct::shape<1, 1>>(ct::full<ct::tile<float, ct::shape<1, 1>>>(2.75f)))", np.int32(2)),
            ("float(__nv_fp8_e4m3(1.0625f))", np.float32(1)),
            ("float(__nv_fp8_e5m2(3.0f)) + float(__nv_tf32(1.0f))", np.float32(4)),
        ]
    )


def test_mathematical_functions() -> None:
    # Compared with NumPy's numbers inside the kernel, by a tolerance.
    checks = []
    for name in ("exp", "exp2", "cosh", "cos", "sinh", "sin", "tanh", "tan"):
        for k in range(4):
            number = float(getattr(np, name)(float(k)))
            checks.append(
                (f"ct::abs(ct::{name}({float(k)}) - {number!r}) <= ct::abs(1e-12 * {number!r})", np.bool_(True))
            )
    check_expressions(
        [
            *checks,
            (f"ct::ceil({F4} / 2.0f) - ct::floor({F4} / 2.0f)", np.ceil(f4 / 2) - np.floor(f4 / 2)),
            (f"ct::sqrt({F4} * {F4})", f4),
            (f"ct::rsqrt({F4} * 4.0f) > 0.4f", np.array([True, True, False, False])),
            (f"ct::log2(ct::exp2({F4}))", f4),
            (f"ct::pow({F4}, 2.0f)", f4**2),
            (f"ct::log(1.0f + {F4} * 0.0f) + ct::atan2(0.0f, {F4} + 1.0f)", f4 * 0),
            ("ct::exp<double>(0.0)", np.float64(1)),
            (
                f"ct::sqrt({F4}, ct::round_toward_zero_t{{}}) <= ct::sqrt({F4}, ct::round_toward_positive_t{{}})",
                np.ones(4, np.bool_),
            ),
        ]
    )


def test_matrix_products() -> None:
    a, b = "ct::element_cast<float>(" + I24 + ")", "ct::element_cast<float>(ct::iota<ct::tile<int, ct::shape<4, 2>>>())"
    na, nb = i24.astype(np.float32), np.arange(8, dtype=np.float32).reshape(4, 2)
    acc = "ct::element_cast<float>(ct::iota<ct::tile<int, ct::shape<2, 2>>>())"
    nacc = np.arange(4, dtype=np.float32).reshape(2, 2)
    b3 = "ct::element_cast<float>(ct::cat<0>(ct::iota<ct::tile<int, ct::shape<1, 4, 2>>>(), -ct::iota<ct::tile<int, ct::shape<1, 4, 2>>>()))"
    a3 = "ct::element_cast<float>(ct::iota<ct::tile<int, ct::shape<1, 2, 4>>>())"
    check_expressions(
        [
            (f"ct::mma({a}, {b}, {acc})", na @ nb + nacc),
            (f"ct::matmul({a}, {b})", na @ nb),
            (f"ct::matmul({a3}, {b3})", na @ np.stack([nb, -nb])),
            (
                f"ct::mma(ct::element_cast<signed char>({I24}), ct::element_cast<unsigned char>(ct::iota<ct::tile<int, ct::shape<4, 2>>>()), ct::zeros<ct::tile<int, ct::shape<2, 2>>>())",
                i24 @ nb.astype(np.int32),
            ),
            (
                f"ct::matmul(ct::element_cast<__half>({I24}), ct::element_cast<__half>(ct::transpose({I24})))",
                (na @ na.T).astype(np.float16),
            ),
        ]
    )


def test_reductions_and_scans() -> None:
    check_expressions(
        [
            (f"ct::sum({I24}, 1_ic)", i24.sum(1, keepdims=True, dtype=np.int32)),
            (f"ct::sum<0>({F4})", np.array([6], np.float32)),
            (
                f"ct::sum({F4}, 0_ic, ct::round_toward_zero_t{{}}, ct::preserve_subnormals_t{{}})",
                np.array([6], np.float32),
            ),
            (f"ct::prod({I24} + 1, 0_ic)", (i24 + 1).prod(0, keepdims=True, dtype=np.int32)),
            (f"ct::reduce_max({I24}, 0_ic) - ct::reduce_min({I24}, 0_ic)", np.full((1, 4), 4, np.int32)),
            (f"ct::reduce_max({F4}, 0_ic, ct::propagate_nan_t{{}})", np.array([3], np.float32)),
            (f"ct::all_of({I24}, 1_ic)", np.array([[False], [True]])),
            (f"ct::any_of({I24} > 2, 0_ic)", (i24 > 2).any(0, keepdims=True)),
            (f"ct::reduce_bitand({I24}, 0_ic)", i24[:1] & i24[1:]),
            (f"ct::reduce_bitor({I24}, 0_ic)", i24[:1] | i24[1:]),
            (f"ct::reduce_bitxor({I24}, 1_ic)", np.zeros((2, 1), np.int32)),
            (f"ct::partial_sum({I24}, 1_ic)", i24.cumsum(1, dtype=np.int32)),
            (f"ct::partial_prod({F4} + 1.0f, 0_ic, ct::round_ties_to_even_t{{}})", (f4 + 1).cumprod(dtype=np.float32)),
        ]
    )
