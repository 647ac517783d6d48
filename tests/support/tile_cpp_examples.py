"""Examples of everything that the reference of Tile C++ describes by one: statements, and what expressions then are.

``p`` points to the integers from 0 to 63, ``n`` is 5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Example(NamedTuple):
    statements: str
    values: dict[str, Any]


def _tile(element: str, *shape: int) -> str:
    return f"ct::tile<{element}, ct::shape<{', '.join(map(str, shape))}>>"


_I8, _I24, _I42, _I44, _CUBE = (_tile("int", *shape) for shape in ((8,), (2, 4), (4, 2), (4, 4), (2, 4, 2)))
_X = f"auto x = ct::iota<{_I24}>();"  # 0 1 2 3 / 4 5 6 7
_ROWS, _WIDE, _DEEP = np.arange(8).reshape(2, 4), np.arange(16).reshape(4, 4), np.arange(16).reshape(2, 4, 2)
_SPAN = "ct::tensor_span s{p, ct::extents{8_ic, 8_ic}};"
_PARTS = f"{_SPAN} ct::partition_view v{{s, ct::shape{{2_ic, 2_ic}}}};"
_RAGGED = "ct::partition_view v{ct::tensor_span{p, ct::extents{n, 3}}, ct::shape{4_ic, 2_ic}};"
_MEMORY = np.arange(64).reshape(8, 8)

EXAMPLES = {
    # -- extents, shapes and mappings
    "extents of both kinds": Example(
        "ct::extents e{8_ic, n, 3_ic};",
        {"e.extent(0)": 8, "e.extent(1)": 5, "e.extent(2)": 3, "e.rank()": 3, "e.rank_dynamic()": 1},
    ),
    "extents by template arguments": Example(
        "ct::extents<unsigned, 4, ct::dynamic_extent> e{9}; ct::shape<16, 2> s;",
        {"e.extent(0)": 4, "e.extent(1)": 9, "s.extent(0)": 16, "s.extent(1)": 2},
    ),
    "integral constants": Example("auto c = 12_ic;", {"c.value": 12, "(-c).value": -12, "(3_ic).value": 3}),
    "row-major": Example("ct::layout_right_mapping m{ct::extents{3_ic, 5_ic}};", {"m.stride(0)": 5, "m.stride(1)": 1}),
    "column-major": Example(
        "ct::layout_left_mapping m{ct::extents{3_ic, 5_ic}};", {"m.stride(0)": 1, "m.stride(1)": 3}
    ),
    "any strides": Example(
        "ct::layout_strided_mapping m{ct::extents{3_ic, 5_ic}, ct::extents{7, 1_ic}};",
        {"m.stride(0)": 7, "m.stride(1)": 1},
    ),
    # -- making tiles
    "factories": Example(
        "",
        {
            f"ct::zeros<{_I24}>()": np.zeros(8),
            f"ct::ones<{_I24}>()": np.ones(8),
            f"ct::full<{_I24}>(-3)": np.full(8, -3),
            f"ct::iota<{_I24}>()": _ROWS,
        },
    ),
    "tiles of numbers": Example("ct::tile x{7};", {"x": 7, "x + 1": 8}),
    "tiles of tiles": Example(f"{_X} {_tile('double', 2, 4)} y{{x}};", {"y": _ROWS}),
    # -- arithmetic
    "numbers and tiles": Example(
        _X, {"10 - x": 10 - _ROWS, "x * x": _ROWS**2, "-x": -_ROWS, "x / 3": _ROWS // 3, "x % 3": _ROWS % 3}
    ),
    "broadcasting": Example(
        f"{_X} auto y = ct::iota<{_tile('int', 2, 1)}>();", {"x + 100 * y": _ROWS + 100 * np.array([[0], [1]])}
    ),
    "bits": Example(
        _X, {"x & 5": _ROWS & 5, "x | 8": _ROWS | 8, "x ^ 3": _ROWS ^ 3, "~x": ~_ROWS, "x << 2": _ROWS << 2}
    ),
    "comparisons": Example(_X, {"x < 3": _ROWS < 3, "x == 5": _ROWS == 5, "!(x >= 6)": _ROWS < 6}),
    "division of every kind": Example(
        f"{_X} auto y = x - 4;", {"ct::floordiv(y, 3)": (_ROWS - 4) // 3, "ct::ceildiv(y, 3)": -(-(_ROWS - 4) // 3)}
    ),
    "least and greatest": Example(
        _X,
        {
            "ct::max(x, 3)": np.maximum(_ROWS, 3),
            "ct::min(x, 3)": np.minimum(_ROWS, 3),
            "ct::abs(x - 5)": abs(_ROWS - 5),
        },
    ),
    "rounding": Example(
        "",
        {
            "ct::add(1.0f, 0x1p-25f, ct::round_toward_positive_t{})": 1 + 2.0**-23,
            "ct::add(1.0f, 0x1p-25f)": 1,
            "ct::sub(1.0f, 0x1p-25f, ct::round_toward_zero_t{})": 1 - 2.0**-24,
        },
    ),
    "multiply and add": Example("auto a = 3.0f, b = 4.0f;", {"ct::fma(a, b, 0.5f)": 12.5}),
    "no numbers": Example(
        f"auto x = ct::element_cast<float>(ct::iota<{_tile('int', 4)}>()); auto y = (x - 1) / (x - 1);",
        {"ct::isnan(y)": [0, 1, 0, 0], "ct::isinf(x / 0.0f)": [0, 1, 1, 1]},
    ),
    # -- changing tiles
    "casts": Example(
        f"{_X} auto y = ct::element_cast<float>(x) / 2;",
        {"ct::element_cast<int>(y)": _ROWS // 2, "ct::element_cast<double>(x)": _ROWS},
    ),
    "bits of other types": Example("", {f"ct::element_bitcast<float>(ct::full<{_I8}>(0x40200000))": np.full(8, 2.5)}),
    "reshape": Example(_X, {"ct::reshape(x, ct::shape{8_ic})": np.arange(8)}),
    "transpose": Example(_X, {"ct::transpose(x)": _ROWS.T}),
    "permute": Example(
        f"auto x = ct::iota<{_CUBE}>();",
        {"ct::permute(x, ct::dimension_map{1_ic, 2_ic, 0_ic})": _DEEP.transpose(1, 2, 0)},
    ),
    "broadcast": Example(
        f"auto x = ct::iota<{_tile('int', 1, 4)}>();",
        {"ct::broadcast(x, ct::shape{2_ic, 4_ic})": np.tile(np.arange(4), 2)},
    ),
    "concatenate": Example(
        f"{_X} auto y = x + 50;",
        {
            "ct::cat(x, y, 0_ic)": np.concatenate([_ROWS, _ROWS + 50]),
            "ct::cat<1>(x, y)": np.hstack([_ROWS, _ROWS + 50]),
        },
    ),
    "extract": Example(f"auto x = ct::iota<{_I44}>();", {"ct::extract(x, ct::shape{2_ic, 2_ic}, 1, 0)": _WIDE[2:, :2]}),
    "select": Example(_X, {"ct::select(x % 2 == 0, x, -x)": np.where(_ROWS % 2 == 0, _ROWS, -_ROWS)}),
    # -- reductions and scans
    "sums": Example(_X, {"ct::sum(x, 0_ic)": _ROWS.sum(0), "ct::sum(x, 1_ic)": _ROWS.sum(1)}),
    "products": Example(f"{_X} auto y = x + 1;", {"ct::prod(y, 1_ic)": (_ROWS + 1).prod(1)}),
    "extremes of rows": Example(
        f"{_X} auto y = (x * 5) % 7;",
        {"ct::reduce_max(y, 1_ic)": (_ROWS * 5 % 7).max(1), "ct::reduce_min(y, 0_ic)": (_ROWS * 5 % 7).min(0)},
    ),
    "all and any": Example(_X, {"ct::all_of(x > 1, 0_ic)": [0, 0, 1, 1], "ct::any_of(x > 5, 0_ic)": [0, 0, 1, 1]}),
    "bits of rows": Example(
        f"{_X} auto y = x + 8;",
        {
            "ct::reduce_bitand(y, 1_ic)": np.bitwise_and.reduce(_ROWS + 8, 1),
            "ct::reduce_bitor(y, 1_ic)": np.bitwise_or.reduce(_ROWS + 8, 1),
            "ct::reduce_bitxor(y, 0_ic)": np.bitwise_xor.reduce(_ROWS + 8, 0),
        },
    ),
    "scans": Example(
        f"{_X} auto y = x + 1;",
        {"ct::partial_sum(y, 1_ic)": (_ROWS + 1).cumsum(1), "ct::partial_prod(y, 0_ic)": (_ROWS + 1).cumprod(0)},
    ),
    # -- matmul
    "matmul": Example(
        f"auto x = ct::element_cast<signed char>(ct::iota<{_I24}>());"
        f" auto y = ct::element_cast<signed char>(ct::iota<{_I42}>());",
        {"ct::matmul(x, y)": _ROWS @ np.arange(8).reshape(4, 2)},
    ),
    "matmul that accumulates": Example(
        f"auto x = ct::element_cast<__half>(ct::iota<{_I24}>()); auto y = ct::element_cast<__half>(ct::iota<{_I42}>());"
        f" auto c = ct::full<{_tile('float', 2, 2)}>(100.0f);",
        {"ct::mma(x, y, c)": _ROWS @ np.arange(8).reshape(4, 2) + 100},
    ),
    # -- memory
    "tiles of pointers": Example(
        f"auto at = p + 3 * ct::iota<{_I8}>();", {"ct::load(at)": 3 * np.arange(8), "at - p": 3 * np.arange(8)}
    ),
    "masked loads": Example(
        f"auto i = ct::iota<{_I8}>();", {"ct::load_masked(p + i, i < 5, -1)": [0, 1, 2, 3, 4, -1, -1, -1]}
    ),
    "stores": Example(f"auto i = ct::iota<{_I8}>(); ct::store(p + i, i * i);", {"ct::load(p + i)": np.arange(8) ** 2}),
    "masked stores": Example(
        f"auto i = ct::iota<{_I8}>(); ct::store_masked(p + i, ct::full<{_I8}>(-9), i % 2 == 0);",
        {"ct::load(p + i)": [-9, 1, -9, 3, -9, 5, -9, 7]},
    ),
    "views": Example(_PARTS, {"v.load(0, 3)": _MEMORY[:2, 6:], "v.load(2, 1)": _MEMORY[4:6, 2:4]}),
    "stores to views": Example(
        f"{_PARTS} v.store(ct::full<{_tile('int', 2, 2)}>(-1), 1, 1);",
        {"v.load(1, 1)": np.full(4, -1), "v.load(1, 2)": _MEMORY[2:4, 4:6]},
    ),
    "views with edges": Example(
        _RAGGED,
        {
            "v.load_masked(1, 1)": [[14, 0], [0, 0], [0, 0], [0, 0]],
            "v.load_masked(0, 0)": [[0, 1], [3, 4], [6, 7], [9, 10]],
        },
    ),
    "stores at edges": Example(
        f"{_RAGGED} v.store_masked(ct::full<{_tile('int', 4, 2)}>(-4), 1, 1);",
        {"v.load_masked(1, 1)": [[-4, 0], [0, 0], [0, 0], [0, 0]], "p[15]": 15},
    ),
    "spans of any strides": Example(
        "ct::tensor_span s{p, ct::layout_strided_mapping{ct::extents{4_ic, 2_ic}, ct::extents{16, 1_ic}}};"
        " ct::partition_view v{s, ct::shape{4_ic, 2_ic}};",
        {"v.load(0, 0)": [[0, 1], [16, 17], [32, 33], [48, 49]]},
    ),
    "atomics": Example(
        f"auto i = ct::iota<{_I8}>(); ct::atomic_add(p + i / 4, i, ct::memory_order_relaxed_t{{}});"
        " ct::atomic_max(p + 7, 70, ct::memory_order_relaxed_t{});",
        {"p[0]": 6, "p[1]": 23, "p[7]": 70},
    ),
    "what is assumed": Example(
        "auto q = ct::assume_aligned(p, 16_ic); auto m = ct::assume_divisible(8 * n, 8_ic);",
        {"q[3]": 3, "m": 40},
    ),
    "hints": Example(
        f"ct::partition_view v{{ct::tensor_span{{p, ct::extents{{64}}}}, ct::shape{{8_ic}}}}; {_I8} x;"
        " [[ cutile::hint(0, latency=3, allow_tma=0) ]] x = v.load(2);",
        {"x": np.arange(16, 24)},
    ),
    # -- control flow
    "loops over ranges": Example(
        "int total = 0; for (auto i : ct::irange(2, n * 4, 5)) total = total * 100 + i;", {"total": 2071217}
    ),
    "branches on numbers": Example(f"{_X} auto y = x; if (n > 3) y = y + 1; else y = y - 1;", {"y": _ROWS + 1}),
}
REFUSED = {  # statement -> what the message names
    f"auto x = ct::iota<{_I8}>(); auto y = x + 1.5;": "arithmetic",
    f"auto x = ct::iota<{_I8}>(); auto y = ct::reshape(x, ct::shape{{4_ic}});": "",
    f"auto x = ct::iota<{_I24}>(); auto y = ct::cat(x, ct::iota<{_I8}>(), 0_ic);": "",
}
