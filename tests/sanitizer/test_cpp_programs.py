"""Tile C++ kernels that are launched from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.sanitizer_runs import HAS_COMPILER

import tilewright as ct
from tilewright.cli import main

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="Tile C++ needs a compiler: tilewright[cpp]")

SOURCE = """\
#include "cuda_tile.h"
namespace ct = cuda::tiles;

template <typename T>
__tile__ auto helper(T x) {
    return x / (x - 3);
}

__tile_global__ void k(int* p, int n) {
    using i32x8 = ct::tile<int, ct::shape<8>>;
    auto i = int(ct::bid().x) * 8 + ct::iota<i32x8>();
    auto mask = i < n;
    auto x = ct::load_masked(p + i, mask);
    auto y = helper(i);
    auto z = i / 0;  // tile-check: ignore[division-by-zero]
    for (auto j : ct::irange(0, n)) y = y + j;
    ct::store_masked(p + i, x * y, mask);
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "k.cu"
    path.write_text(SOURCE)
    return path


def test_a_report_shows_the_source(source: Path) -> None:
    kernel = ct.cpp.compile(source).kernel("k")
    with ct.sanitize() as report:
        ct.launch(None, (2,), kernel, (np.arange(12, dtype=np.int32), 12))
    (found,) = report.violations
    assert found.category.name == "division-by-zero" and report.suppressed == 2
    assert [(frame.file, frame.line) for frame in found.loc.chain()] == [(str(source), 6), (str(source), 14)]
    text = found.render()
    for part in (f"{source}:6:", "return x / (x - 3);", "called from", "auto y = helper(i);", "element: (3,)"):
        assert part in text
    p = np.arange(12, dtype=np.int32)
    ct.launch(None, (2,), kernel, (p, 12))  # outside of the context the kernel is compiled as ever
    assert p[4] == 4 * (4 // 1 + 66)


def test_check_runs_programs_with_cpp_kernels(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = source.with_suffix(".py")
    program.write_text(
        "import numpy as np\nimport tilewright as ct\n"
        f"k = ct.cpp.compile({str(source)!r}).kernel('k')\n"
        "ct.launch(None, (2,), k, (np.arange(12, dtype=np.int32), 12))\n"
    )
    assert main(["check", str(program)]) == 1
    assert f"{source}:6:14: division-by-zero" in capsys.readouterr().err


RESTRICTED = """
__tile_global__ void product(float* __restrict__ out, float const* __restrict__ x, float const* __restrict__ y) {
    *out = *x * *y;
}
"""


def test_restricted_pointers_to_what_is_only_read(tmp_path: Path) -> None:
    """Two may be one; what one writes is no other's."""
    (tmp_path / "k.cu").write_text(RESTRICTED)
    kernel = ct.cpp.compile(tmp_path / "k.cu").kernel("product")
    x, out = np.full(1, 3, np.float32), np.zeros(1, np.float32)
    with ct.sanitize() as report:
        ct.launch(None, (1,), kernel, (out, x, x))
    assert report.clean and out[0] == 9
    with ct.sanitize() as report:
        ct.launch(None, (1,), kernel, (x, x, out))
    assert [v.category.name for v in report.violations] == ["overlapping-arguments"]


ONE_ALLOCATION = """#include "cuda_tile.h"
namespace ct = cuda::tiles;
__tile_global__ void add(float* __restrict__ out, float const* __restrict__ x, float const* __restrict__ y) {
    auto at = int(ct::bid().x) * 16 + ct::iota<ct::tile<int, ct::shape<16>>>();
    ct::store(out + at, ct::load(x + at) + ct::load(y + at));
}
int main() {
    float* p;
    cudaMalloc(&p, 96 * sizeof(float));
    cudaMemset(p, 0, 96 * sizeof(float));
    add<<<2, 1>>>(p + OUT, p, p + 32);
    return cudaDeviceSynchronize();
}
"""


@pytest.mark.parametrize(("out", "shares"), [(64, False), (40, True), (0, True)])
def test_restricted_pointers_into_one_allocation(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], out: int, shares: bool
) -> None:
    """What counts is which elements the kernel accesses through them, not that both could reach all of them."""
    program = tmp_path / "program.cu"
    program.write_text(ONE_ALLOCATION)
    assert main(["check", str(program), f"-DOUT={out}"]) == shares
    said = capfd.readouterr().err
    assert ("overlapping-arguments: arguments 'out' and" in said) == shares, said
