"""The C++ kernels of the guide compile as printed, where the documents are at hand."""

from __future__ import annotations

import numpy as np
import pytest
from cpp_harness import run
from documents import GUIDE, guide_kernels

from tilewright.frontend.cpp.module import CppKernel, Module

INCLUDES = "".join(f'#include "cuda_{name}.h"\n' for name in ("tile", "fp16", "bf16", "fp8", "tf32"))

pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="the documents are not part of the repository")


@pytest.fixture(scope="module")
def guide() -> dict[str, CppKernel]:
    found = guide_kernels()
    module = Module(INCLUDES + "\n\n".join(found.values()), "guide.cu")
    return dict(zip(found, module.load(*found)))


def test_the_kernels_of_the_guide(guide: dict[str, CppKernel]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, 128).astype(np.float32) for _ in range(2))
    out = np.zeros(128, np.float32)
    run(guide["vec_add"], (16,), a, b, out)
    np.testing.assert_array_equal(out, a + b)
    run(guide["elementwise"], (16,), a, b, out, 128)
    np.testing.assert_array_equal(out, 2 * a + b)
    run(guide["edge_safe"], (1,), a[:100].copy(), short := np.zeros(100, np.float32), 100)
    np.testing.assert_array_equal(short, a[:100])
    run(guide["tile_sum"], (1,), a, eight := np.zeros(8, np.float32), 16)
    np.testing.assert_array_equal(eight, a.reshape(16, 8).sum(0))
    run(guide["conditional_load"], (13,), a[:100].copy(), short, 100)
    np.testing.assert_array_equal(short, np.where(np.arange(100) < 96, a[:100], 0))
    n = a.astype(np.int32)
    run(guide["vec_add_gather"], (2,), n[:16].copy(), n[16:32].copy(), sums := np.zeros(16, np.int32))
    np.testing.assert_array_equal(sums, n[:16] + n[16:32])
    run(guide["gather_safe"], (2,), n[:13].copy(), copied := np.zeros(13, np.int32), 13)
    np.testing.assert_array_equal(copied, n[:13])
    run(guide["block_sum"], (7,), n[:100].copy(), total := np.zeros(1, np.int32), 100)
    assert total[0] == n[:100].sum()
    run(guide["optimization_hints"], (16,), a, out)
    np.testing.assert_array_equal(out, a)
    x, y = a[:100].reshape(5, 20).astype(np.float16), b[:60].reshape(20, 3).astype(np.float16)
    run(guide["gemm"], (1, 1), x, y, product := np.zeros((5, 3), np.float32), 5, 20, 3)
    np.testing.assert_array_equal(product, x.astype(np.float32) @ y.astype(np.float32))
