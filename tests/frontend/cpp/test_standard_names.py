"""Names that programs use without an include, as the original compiler lets them, and next to standard headers."""

from __future__ import annotations

import numpy as np
import pytest
from cpp_harness import PREAMBLE, check_expressions, launch, run

from tilewright.backends.registry import get_backend
from tilewright.frontend.cpp.module import Module
from tilewright.ir.errors import TileError

HEADERS = ("cassert", "climits", "cmath", "cstddef", "cstdint", "cstdlib", "cstring", "limits")
INCLUDES = "".join(f"#include <{header}>\n" for header in HEADERS)


def test_limits_and_constants() -> None:
    int32, float64 = np.iinfo(np.int32), np.float64
    check_expressions(
        [
            ("-INFINITY", np.float32(-np.inf)),
            ("NAN", np.float32(np.nan)),
            ("INT_MIN", np.int32(int32.min)),
            ("UINT32_MAX", np.uint32(0xFFFFFFFF)),
            ("INT64_MIN", np.int64(-(2**63))),
            ("int(CHAR_BIT * sizeof(uintptr_t))", np.int32(64)),
            ("M_PI", float64(np.pi)),
            ("abs(-3 - int(ct::bid().x))", np.int32(3)),
            ("float4{1, 2, 3, 4}.z + make_int2(5, 6).y", np.float32(9)),
            ("int(alignof(float4) + alignof(int2) + alignof(double4) + sizeof(uchar3))", np.int32(16 + 8 + 16 + 3)),
        ]
    )


@pytest.mark.parametrize("text", [INCLUDES + PREAMBLE, PREAMBLE + INCLUDES])
def test_standard_headers_before_and_after(text: str) -> None:
    source = """
    __tile_global__ void k(int* p, float* q) {
        int copy[4] = {}, numbers[4];
        memcpy(numbers, p, sizeof(numbers));
        std::memset(copy, 0xFF, sizeof(copy));
        assert(numbers[0] < 100);
        p[0] = abs(numbers[1]) + copy[2] + std::numeric_limits<signed char>::max();
        q[0] = INFINITY;
    }"""
    run(
        Module(text + source).kernel("k"),
        (1,),
        numbers := np.array([1, -5, 0, 0], np.int32),
        out := np.zeros(1, np.float32),
    )
    assert numbers[0] == 5 - 1 + 127
    assert out[0] == np.inf


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_assert_stops_the_kernel(backend: str) -> None:
    kernel = Module(PREAMBLE + "__tile_global__ void k(int* p) { assert(*p == 1); *p = 2; }").kernel("k")
    launch(get_backend(backend), kernel, (1,), number := np.ones(1, np.int32))
    assert number[0] == 2
    with pytest.raises(TileError, match=r"assertion failed: \*p == 1"):
        launch(get_backend(backend), kernel, (1,), number)
