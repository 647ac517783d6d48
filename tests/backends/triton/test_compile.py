"""Kernels compile for every architecture on a machine without a GPU, to the instructions that matter."""

from __future__ import annotations

import math
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import pytest
from backends.cpu.programs import ProgramMaker
from backends.triton.compiled_kernels import PRODUCT_ARGS, compiled, product, spills
from backends.triton.conftest import TARGETS
from support.left_operands import clobbered

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.backend import compile_for
from tilewright.backends.triton.requirements import version
from tilewright.cli.demo import EXAMPLES
from tilewright.cli.files import load_module
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.ir.core import Function
from tilewright.runtime.launchable import Launchable

pytest.importorskip("triton", reason="the package triton is not installed")

EXAMPLE_FILES = sorted(p for p in EXAMPLES.glob("*.py") if p.stem != "harness")


@pytest.fixture(scope="module")
def example_functions() -> Iterator[dict[str, Function]]:
    """The kernels of the examples, by name, as their small cases launch them."""
    found: dict[str, Function] = {}
    original = Launchable.make_plan

    def make_plan(self: Launchable, requested: Any, keys: Any) -> Any:
        plan = original(self, requested, keys)
        found.setdefault(self.name, plan.specialization.function)
        return plan

    path = list(sys.path)
    with pytest.MonkeyPatch.context() as patch, ct.use_backend("reference"):  # the one that compiles nothing
        patch.setattr(Launchable, "make_plan", make_plan)
        for file in EXAMPLE_FILES:
            module = load_module(file)
            for case in module.cases(small=True):
                case.ours()
                if hasattr(module, "TILE_K"):  # the other products have the same steps, and compile in half the time
                    patch.setattr(module, "TILE_K", 32)
    sys.path[:] = path
    yield found


@pytest.mark.parametrize("target", TARGETS)
def test_examples(example_functions: dict[str, Function], target: str) -> None:
    """Each kernel for one of the architectures."""
    assert len(example_functions) >= 10
    for name in sorted(example_functions)[TARGETS.index(target) :: len(TARGETS)]:
        artifact = compile_for(example_functions[name], parse_target(target), {})
        assert artifact.binary.code, name
        assert artifact.binary.shared_bytes <= parse_target(target).shared_memory, name
        assert not clobbered(artifact.binary.texts.get("PTX", "")), name


BENCHMARKS = Path(__file__).parents[3] / "benchmarks" / "gpu_kernels.py"
ROWS, LONG_ROWS = np.empty((64, 4096), np.float16), np.empty((8, 32768), np.float32)
SQUARE, WIDE_SQUARE = np.empty((2048, 2048), np.float16), np.empty((2048, 2048), np.float32)


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("copy", (ROWS[0], ROWS[1], 4096), {}),
        ("transpose", (WIDE_SQUARE, WIDE_SQUARE, 64, 64), {}),
        ("softmax", (LONG_ROWS, LONG_ROWS, 32768), {"num_warps": 32}),
        ("layer_norm", (ROWS, ROWS[0], ROWS[0], ROWS, 1e-5, 4096, 4096), {"num_warps": 8}),
        ("matmul", (SQUARE, SQUARE, SQUARE, 128, 256, 64, 8, False), {"num_warps": 8, "num_stages": 4}),
        ("matmul", (WIDE_SQUARE, WIDE_SQUARE, WIDE_SQUARE, 128, 128, 32, 8, True), {"num_warps": 8, "num_stages": 4}),
    ],
)
def test_benchmark_kernels_do_not_spill(name: str, args: tuple[Any, ...], options: dict[str, int]) -> None:
    module = types.ModuleType("gpu_kernels", "")
    vars(module).update(ct=ct, INF=math.inf)  # as the benchmark loads it, once for each language
    exec(compile(BENCHMARKS.read_text(), BENCHMARKS, "exec"), vars(module))
    assert not spills(compiled(vars(module)[name], args, "sm_90", **options).binary)


def test_matrix_units() -> None:
    """Those of warp groups are left alone: ptxas compiles some of their MMA ops wrongly."""
    for target, instruction in (("sm_80", "mma.sync"), ("sm_90", "mma.sync"), ("sm_100", "tcgen05.mma")):
        ptx = compiled(product, PRODUCT_ARGS, target).binary.texts["PTX"]
        assert instruction in ptx and "wgmma" not in ptx and "cp.async.bulk.tensor" not in ptx
    assert "v_mfma" in compiled(product, PRODUCT_ARGS, "gfx942").binary.texts["assembly"]


def test_offsets_inside_a_tile_take_32_bits_only_where_they_fit() -> None:
    @ct.kernel
    def copy(x, y, out):
        a = ct.load(x, (0, 0), (64, 32), allow_tma=False)  # any row stride
        ct.store(out, 0, a.reshape((2048,)) + ct.load(y, 0, 2048))  # strides of 1

    @ct.kernel
    def strided(x: Annotated[Any, ct.ArrayAnnotation(static_stride_dims=(0, 1))], out):
        ct.store(out, 0, ct.load(x, (0, 0), (64, 32)).reshape((2048,)))

    def widths(kernel: Launchable, *arrays: Any) -> list[str]:
        text = compiled(kernel, arrays, "gfx942").binary.texts["TTIR"]
        return re.findall(r"tt\.addptr .*, tensor<[x0-9]*x(i\d+)>", text)

    x, flat = np.zeros((64, 32), np.float32), np.zeros(2048, np.float32)
    assert widths(copy, x, flat, flat) == ["i64", "i32", "i32"]
    for stride, width in ((1 << 24, ["i32", "i32"]), (1 << 25, ["i32", "i32"]), (1 << 26, ["i64", "i32"])):
        found = widths(strided, np.lib.stride_tricks.as_strided(flat, (64, 32), (4 * stride, 4)), flat)
        assert found == width


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(3))
def test_random_programs(seed: int, target: str) -> None:
    function, _ = ProgramMaker(seed).make(16)
    assert compile_for(function, parse_target(target), {}).binary.code


@ct.kernel
def rounding(x, y, out):
    a, b = ct.load(x, (0,), (128,)), ct.load(y, (0,), (128,))
    total = a
    for mode in ct.static_iter((ct.RoundingMode.RZ, ct.RoundingMode.RM, ct.RoundingMode.RP)):
        total = total + ct.add(a, b, rounding_mode=mode) + ct.mul(a, b, rounding_mode=mode)
        total = total + ct.truediv(a, b, rounding_mode=mode) + ct.sqrt(a, rounding_mode=mode)
    total = total + ct.add(a, b, flush_to_zero=True) + ct.exp2(a, flush_to_zero=True)
    ct.store(out, (0,), total)


def test_rounding_modes() -> None:
    x = np.zeros(128, np.float32)
    ptx = compiled(rounding, (x, x, x), "sm_90").binary.texts["PTX"]
    for instruction in (
        "add.rz.f32",
        "mul.rm.f32",
        "div.rp.f32",
        "sqrt.rz.f32",
        "add.rn.ftz.f32",
        "ex2.approx.ftz.f32",
    ):
        assert instruction in ptx
    assembly = compiled(rounding, (x, x, x), "gfx942").binary.texts["assembly"]
    assert assembly.count("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0") >= 6


@ct.kernel
def converted_product(x, y, out, K: ct.Constant[int], dtype: ct.Constant):
    a, b = ct.load(x, (0, 0), (16, K)).astype(dtype), ct.load(y, (0, 0), (K, 16)).astype(dtype)
    ct.store(out, (0, 0), ct.mma(a, b, ct.zeros((16, 16), out.dtype)))


@pytest.mark.parametrize("depth", [1, 8])
@pytest.mark.parametrize("source", [np.int8, np.float16, np.float32])
def test_threads_of_a_row_share_a_short_product(source: Any, depth: int) -> None:
    """Four threads with the elements that Triton gives each: if those are more than there are, some count twice."""
    x = np.zeros((64, 64), source)
    for dtype in (ct.float16, ct.float32, ct.float64):
        out = np.zeros((16, 16), np.float64 if dtype is ct.float64 else np.float32)
        found = compiled(converted_product, (x, x, out, depth, dtype), "sm_90").binary.texts
        for k, width in re.findall(
            r"tensor<16x(\d+)xf\d+, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = (\d)", found["TTGIR"]
        ):
            assert int(k) >= 4 * int(width), (dtype, k, width)


@ct.kernel
def zeros_of_a_sign(x, y, above: ct.Constant[float], below: ct.Constant[float]):
    t = ct.load(x, (0,), (128,))
    high, low = ct.full((), above, x.dtype), ct.full((), below, x.dtype)
    ct.store(y, (0,), ct.where(t > high, t, high))
    ct.store(y, (1,), ct.where(high < t, t, high))
    ct.store(y, (2,), ct.where(low > t, t, low))
    ct.store(y, (3,), ct.where(t > low, low, t))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_the_sign_of_a_zero_is_kept(dtype: Any) -> None:
    """The larger of 0.0 and -0.0 is 0.0, but neither ``>`` the other: a maximum must not stand for the choice."""
    x = np.zeros(512, dtype)
    plain, kept = (
        compiled(zeros_of_a_sign, (x, x, *c), "sm_90").binary.texts["PTX"] for c in ((0.0, -0.0), (-0.0, 0.0))
    )
    if version() < (3, 8):  # the LLVM of later ones does not
        assert re.search(r"\bmax\.f", plain) and re.search(r"\bmin\.f", plain)
    assert not re.search(r"\b(max|min)\.\w*[bf]", kept)


def test_artifacts_survive_the_disk_cache() -> None:
    artifact = compiled(product, PRODUCT_ARGS, "sm_90")
    again = Artifact.from_bytes(artifact.to_bytes())
    assert again == artifact


@ct.kernel
def place_of_the_largest(x, out):
    ct.store(out, (0,), ct.argmax(ct.load(x, (0, 0), (64, 128))))


def test_flattened_tiles_keep_the_order_of_pairs() -> None:
    """Triton lets a flattened tile change its order for a fold, and then a value does not meet its own position."""
    arrays = (np.zeros((64, 128), np.float32), np.zeros(1, np.int32))
    text = compiled(place_of_the_largest, arrays, "sm_90").binary.texts["TTGIR"]
    assert "tt.reshape" in text
    assert "allow_reorder" not in text


@pytest.mark.parametrize("target", TARGETS)
def test_odd_folds_and_products(target: str) -> None:
    """8-bit floats in a reduction of the user, and a product whose K the tensor cores do not have."""

    @ct.kernel
    def fold(x, y, out):
        tile = ct.load(x, (0,), (64,))
        least = ct.reduce(tile, 0, lambda a, b: ct.where(a < b, a, b), 0.0)
        product = ct.mma(ct.load(y, (0, 0), (16, 8)), ct.load(y, (0, 0), (8, 16)), ct.zeros((16, 16), ct.float64))
        ct.store(out, (0, 0), product + least.astype(ct.float64))

    y = np.zeros((64, 64))
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        assert compiled(fold, (np.zeros(64, dtype), y, y.copy()), target).binary.code


@ct.kernel
def talk(x, n):
    tile = ct.load(x, (0, 0), (4, 8))
    ct.print("block", ct.bid(0), tile, sep=" ")
    if n > 3:
        ct.assert_(tile > 0, "positive")
    ct.printf("%d of %5.2f\n", n, ct.sum(tile))


@pytest.mark.parametrize("target", TARGETS)
def test_prints_and_asserts(target: str) -> None:
    artifact = compiled(talk, (np.zeros((4, 8), np.float32), 5), target)
    assert artifact.reports
    assert artifact.formats[-1] == "u64"
