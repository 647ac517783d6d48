"""Kernels compile for every architecture on a machine without a GPU, to the instructions that matter."""

from __future__ import annotations

import importlib
import math
import os
import re
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import ml_dtypes
import numpy as np
import pytest
from backends.cpu.programs import ProgramMaker
from backends.triton.conftest import TARGETS
from support.left_operands import clobbered

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.backend import TritonBackend, compile_for
from tilewright.backends.triton.fallbacks import compiler
from tilewright.backends.triton.ptx import UnexpectedPtx, share_loads
from tilewright.backends.triton.requirements import version
from tilewright.backends.triton.resource_usage import resource_usage
from tilewright.cli.demo import EXAMPLES
from tilewright.cli.files import load_module
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.binary import GpuBinary
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.core import Function
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable

pytest.importorskip("triton", reason="the package triton is not installed")


def compiled(kernel: Launchable, args: tuple[Any, ...], target: str, **options: Any) -> Artifact:
    return compile_for(specialization(kernel, args, "reference").function, parse_target(target), options)


# -- examples

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
    with pytest.MonkeyPatch.context() as patch:
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


# -- products


@ct.kernel
def product(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def attention(q, k, v, out, scale, D: ct.Constant[int], TQ: ct.Constant[int], TK: ct.Constant[int]):
    head, block = ct.bid(1), ct.bid(0)
    queries = ct.load(q, (head, block, 0), (1, TQ, D)).reshape((TQ, D))
    top = ct.full((TQ, 1), -math.inf, ct.float32)
    total = ct.zeros((TQ, 1), ct.float32)
    result = ct.zeros((TQ, D), ct.float32)
    for j in range(k.shape[1] // TK):
        keys = ct.load(k, (head, 0, j), (1, D, TK), order=(0, 2, 1)).reshape((D, TK))
        scores = ct.mma(queries, keys, ct.zeros((TQ, TK), ct.float32))
        new_top = ct.maximum(top, ct.max(scores, axis=1, keepdims=True) * scale)
        weights = ct.exp2(scores * scale - new_top, flush_to_zero=True)
        correction = ct.exp2(top - new_top, flush_to_zero=True)
        total = total * correction + ct.sum(weights, axis=1, keepdims=True)
        values = ct.load(v, (head, j, 0), (1, TK, D)).reshape((TK, D))
        result = ct.mma(weights.astype(q.dtype), values, result * correction)
        top = new_top
    ct.store(out, (head, block, 0), (result / total).reshape((1, TQ, D)).astype(out.dtype))


HALF = np.zeros((512, 512), ml_dtypes.bfloat16)
HEADS = np.zeros((4, 512, 128), np.float16)
PRODUCT_ARGS = (HALF, HALF, HALF, 128, 256, 64)
ATTENTION_ARGS = (HEADS, HEADS, HEADS, HEADS, 0.1, 128, 64, 128)


def spills(binary: GpuBinary) -> bool:
    """Whether what the assembler made keeps values of a thread in memory."""
    return resource_usage(binary, parse_target("sm_90"))["bytes of stack and spilled registers per thread"] > 0


@pytest.mark.parametrize(
    ("kernel", "args", "descriptors"), [(product, PRODUCT_ARGS, 3), (attention, ATTENTION_ARGS, 4)], ids=["mm", "attn"]
)
def test_hopper_uses_its_matrix_units_and_copy_engine(
    kernel: Launchable, args: tuple[Any, ...], descriptors: int
) -> None:
    artifact = compiled(kernel, args, "sm_90")
    ptx = artifact.binary.texts["PTX"]
    assert "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor" in ptx
    assert "mma.sync" not in ptx
    assert not spills(artifact.binary)
    assert len(artifact.descriptors) == len(artifact.binary.descriptors) == descriptors


BENCHMARKS = Path(__file__).parents[3] / "benchmarks" / "gpu_kernels.py"
ROWS, LONG_ROWS = np.empty((64, 4096), np.float16), np.empty((8, 32768), np.float32)
SQUARE, SINGLE = np.empty((2048, 2048), np.float16), np.empty((2048, 2048), np.float32)
Q = np.empty((1, 2, 512, 128), ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("copy", (ROWS[0], ROWS[1], 4096), {}),
        ("transpose", (SINGLE, SINGLE, 64, 64), {}),
        ("softmax", (LONG_ROWS, LONG_ROWS, 32768), {"num_warps": 32}),
        ("layer_norm", (ROWS, ROWS[0], ROWS[0], ROWS, 1e-5, 4096, 4096), {"num_warps": 8}),
        ("matmul", (SQUARE, SQUARE, SQUARE, 128, 256, 64, 8, False), {"num_warps": 8, "num_stages": 4}),
        ("matmul", (SINGLE, SINGLE, SINGLE, 128, 128, 32, 8, True), {"num_warps": 8, "num_stages": 4}),
        ("attention", (Q, Q, Q, Q, 0.1, 2, 128, 128, 128, False), {"num_warps": 8, "num_stages": 2}),
    ],
)
def test_benchmark_kernels_do_not_spill(name: str, args: tuple[Any, ...], options: dict[str, int]) -> None:
    module = types.ModuleType("gpu_kernels", "")
    vars(module).update(ct=ct, INF=math.inf)  # as the benchmark loads it, once for each language
    exec(compile(BENCHMARKS.read_text(), BENCHMARKS, "exec"), vars(module))
    assert not spills(compiled(vars(module)[name], args, "sm_90", **options).binary)


def test_blackwell_uses_its_matrix_units() -> None:
    ptx = compiled(product, PRODUCT_ARGS, "sm_100").binary.texts["PTX"]
    assert "tcgen05.mma" in ptx
    assert "cp.async.bulk.tensor" in ptx


def test_ampere_and_amd_have_no_descriptors() -> None:
    assert "mma.sync" in compiled(product, PRODUCT_ARGS, "sm_80").binary.texts["PTX"]
    artifact = compiled(product, PRODUCT_ARGS, "gfx942")
    assert "v_mfma" in artifact.binary.texts["assembly"]
    assert not artifact.descriptors


@ct.kernel
def product_of_transposed(a, b, c, K: ct.Constant[int], ALONG: ct.Constant[bool], FAST: ct.Constant[bool]):
    x, y = ct.load(a, (0, 0), (128, K)), ct.load(b, (0, 0), (K, 128), order="F" if ALONG else "C")
    ct.store(c, (0, 0), ct.mma(x, y, ct.zeros((128, 128), ct.float32), use_fast_acc=FAST))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_dtypes_of_products_on_hopper(dtype: Any) -> None:
    a, c = np.zeros((256, 256), dtype), np.zeros((256, 256), np.float32)
    fast = a.itemsize == 1
    assert "wgmma.mma_async" in compiled(product_of_transposed, (a, a, c, 64, True, fast), "sm_90").binary.texts["PTX"]


def test_a_stride_that_the_copy_engine_cannot_take() -> None:
    odd = np.zeros((512, 515), ml_dtypes.bfloat16)[:, :512]
    artifact = compiled(product, (odd, odd, HALF, 128, 128, 64), "sm_90")
    assert [d.needs_realign for d in artifact.descriptors] == [True, True, False]
    function = specialization(product, (odd, odd, HALF, 128, 128, 64), "reference").function
    plain = compile_for(function, parse_target("sm_90"), {}, Constraints(realign=False))
    assert [d.needs_realign for d in plain.descriptors] == [False]  # the result


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
    assert widths(copy, x, flat, flat) == ["i64", "i32", "i32", "i32"]
    for stride, width in ((1 << 24, ["i32", "i32"]), (1 << 25, ["i32", "i32"]), (1 << 26, ["i64", "i32", "i32"])):
        found = widths(strided, np.lib.stride_tricks.as_strided(flat, (64, 32), (4 * stride, 4)), flat)
        assert found == width


def test_hints() -> None:
    @ct.kernel(num_worker_warps=16, occupancy=2)
    def copy(x, out):
        ct.store(out, (0,), ct.load(x, (0,), (1024,), latency=3))

    x = np.zeros(1024, np.float32)
    choices = compiled(copy, (x, x.copy()), "sm_90").binary.texts["compile decisions"]
    assert "warps per block: 16" in choices
    assert "registers per thread, at most: 64" in choices
    assert "ignored hints: latency\n" in choices
    amd = compiled(copy, (x, x.copy()), "gfx942").binary.texts["compile decisions"]
    assert "at most: no limit" in amd and "ignored hints: occupancy, latency\n" in amd
    wide = compiled(copy.replace_hints(num_worker_warps=32), (x, x.copy()), "gfx942").binary
    assert wide.num_warps == 16 and "ignored hints: num_worker_warps, " in wide.texts["compile decisions"]
    options = compiled(copy, (x, x.copy()), "sm_90", num_warps=4, maxnreg=48).binary.texts["compile decisions"]
    assert "at most: 48" in options and "ignored hints: num_worker_warps, latency\n" in options


def test_hints_of_accesses() -> None:
    @ct.kernel(num_ctas=ct.ByTarget(sm_100=4), opt_level=2)
    def copy(x, out):
        ct.store(out, (0, 0), ct.load(x, (0, 0), (64, 64), allow_tma=True))

    even, odd = np.zeros((64, 64), np.float32), np.zeros((64, 128), np.float32)[:, ::2]
    for arrays, target, ignored in (
        ((even, even), "sm_90", "opt_level"),
        ((odd, odd), "sm_90", "opt_level, allow_tma"),
        ((even, even), "sm_80", "opt_level, allow_tma"),
        ((even, even), "sm_100", "opt_level"),
    ):
        assert f"ignored hints: {ignored}\n" in compiled(copy, arrays, target).binary.texts["compile decisions"]

    crowded = product.replace_hints(occupancy=8)  # as many blocks as the results of 128x128 have no registers for
    choices = compiled(crowded, (HALF, HALF, HALF, 128, 128, 64), "sm_90").binary.texts["compile decisions"]
    assert "at most: no limit" in choices
    assert "ignored hints: occupancy (needs more than 64 registers per thread)\n" in choices


def test_clusters_where_a_kernel_can_be_divided() -> None:
    @ct.kernel(num_ctas=2)
    def normalize(x, out):
        tile = ct.load(x, (0, 0), (1, 64))
        ct.store(out, (0, 0), tile - ct.max(tile, axis=1, keepdims=True))

    binary = compiled(product.replace_hints(num_ctas=2), PRODUCT_ARGS, "sm_90").binary
    assert binary.num_ctas == 2
    assert "ignored hints: none" in binary.texts["compile decisions"]
    x = np.zeros((64, 64), np.float32)
    binary = compiled(normalize, (x, x), "sm_90").binary
    assert binary.num_ctas == 1
    assert "ignored hints: num_ctas" in binary.texts["compile decisions"]


def test_tiles_that_registers_cannot_hold(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    with pytest.raises(ct.TileError, match=r"f32\[1024,512\] takes 2048 registers .* 256 threads .* which have 255"):
        compiled(product, (HALF, HALF, HALF, 1024, 512, 64), "sm_90")

    def fail(*_: Any, **__: Any) -> None:
        print("a page of PTX")
        raise RuntimeError("ptxas fatal: (C7600) Register allocation failed with register count of '255'")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("triton.compile", fail)
    with pytest.raises(ct.TileError, match=r"more than the 255 registers of a thread, with 8 warps .* compiler is in"):
        compiled(product, PRODUCT_ARGS, "sm_90")
    with pytest.raises(ct.TileError, match=r"more than the 64 registers of a thread that maxnreg .* a larger limit,"):
        compiled(product, PRODUCT_ARGS, "sm_90", maxnreg=64)
    assert capfd.readouterr() == ("", "")
    report = min(tmp_path.glob("tilewright-gpu-*.ttir"), key=lambda p: "maxnreg" in p.read_text())
    assert "// a page of PTX" in report.read_text()
    monkeypatch.undo()
    command = re.search(r"^// (triton\.compile\(.*\))$", report.read_text(), re.MULTILINE)
    assert command is not None
    triton = importlib.import_module("triton")
    repeated = eval(command[1], {"triton": triton, "GPUTarget": triton.backends.compiler.GPUTarget})
    assert "wgmma" in repeated.asm["ptx"]


def test_tiles_that_shared_memory_cannot_hold() -> None:
    @ct.kernel
    def turn(x, out):
        ct.store(out, (0, 0), ct.transpose(ct.load(x, (0, 0), (256, 512))))

    large = np.zeros((1024, 1024), np.float32)
    words = r"operands .* and f32\[{},256\] of an MMA op need {} bytes of shared memory, and this GPU has {} per block"
    for target, depth, *sizes in (("sm_90", 256, 393216, 232448), ("sm_80", 256, 262144, 166912)):
        with pytest.raises(ct.TileError, match=words.format(depth, *sizes)):
            compiled(product, (large, large, large, 256, 256, depth), target)
    with pytest.raises(ct.TileError, match=r"needs 524288 bytes .* has 166912; its largest tile is f32\[256,512\]"):
        compiled(turn, (large, large), "sm_80")
    half = np.zeros((1024, 1024), np.float16)
    with pytest.raises(ct.TileError, match=r"has 232448; its largest tile is f32\[128,256\]\."):
        compiled(persistent, (half, half, half), "sm_90", num_stages=8)
    with pytest.raises(ct.TileError, match=r"the tile f32\[256,256\] takes 512 registers .* of the 128 threads"):
        compiled(carrying, (np.zeros((4096, 4096), np.float32), large), "sm_80", num_warps=4)


@ct.kernel
def carrying(x, out):
    total = ct.zeros((256, 256), ct.float32)
    steps = 0
    for k in range(ct.cdiv(x.shape[1], 256)):
        total = ct.mma(ct.load(x, (0, k), (256, 16)), ct.load(x, (k, 0), (16, 256)), total)
        steps += ct.bid(0)
    ct.store(out, (0, 0), total + steps)


def test_a_compilation_that_takes_too_long_leaves_the_output_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    going, ended = threading.Event(), threading.Event()

    def endless(*_: Any, **__: Any) -> None:
        going.wait(10)
        ended.set()
        raise RuntimeError("nobody listens")

    monkeypatch.setattr("triton.compile", endless)
    with ct.compiler_timeout(0.5), pytest.raises(ct.TileCompilerTimeoutError, match=r"product\(\) took longer"):
        product.compile_for("sm_90", PRODUCT_ARGS)
    print("output")
    os.write(2, b"error")
    assert capfd.readouterr() == ("output\n", "error")
    going.set()
    assert ended.wait(10)


def test_a_process_ends_in_peace_while_a_compilation_goes_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, tilewright as ct\n\n@ct.kernel\ndef waves(x, out):\n    t = ct.load(x, 0, 4096)\n"
        + "    t = ct.sin(t) + t\n" * 6
        + "    ct.store(out, 0, t)\n\nx = np.zeros(4096, np.float32)\nimport triton\n"
        "try:\n    with ct.compiler_timeout(0.3):\n        waves.compile_for('sm_90', (x, x))\n"
        "except ct.TileCompilerTimeoutError:\n    print('late')\n"
    )
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": "off", "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "late\n", ""), done


def test_a_first_compilation_does_not_read_all_of_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = importlib.import_module("triton.runtime.cache")
    monkeypatch.setattr(cache, "triton_key", lambda: pytest.fail("it takes longer than the compilation"))
    before = cache.triton_key
    compiled(handshake, (np.zeros(128, np.float32),) * 2 + (64,), "sm_90")
    assert cache.triton_key is before


def test_kernels_that_would_compile_for_minutes() -> None:
    @ct.kernel
    def wave(x, out, N: ct.Constant[int]):
        ct.store(out, 0, ct.sin(ct.load(x, 0, N)))

    x = np.zeros(1 << 20, np.float32)
    with pytest.raises(ct.TileError, match=r"f32\[1048576\] takes 1024 registers .* in each of the 1024 threads"):
        compiled(wave, (x, x, 1 << 20), "sm_90")

    @ct.kernel
    def unrolled(x):
        for i in ct.static_iter(range(200)):
            ct.store(x, i, ct.load(x, i + 1, 16))

    with pytest.raises(ct.TileError, match=r"has 400 loads, .* takes minutes for more than 320; loop over range"):
        compiled(unrolled, (x,), "sm_90")


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="num_warps is 3; it must be 1, 2, 4, 8, 16 or 32"):
        compiled(product, PRODUCT_ARGS, "sm_90", num_warps=3)
    with pytest.raises(ValueError, match="num_warps is 32; a block of gfx942 has at most 16"):
        compiled(product, PRODUCT_ARGS, "gfx942", num_warps=32)
    with pytest.raises(ValueError, match="no option 'warps'; its options are num_warps, num_stages, maxnreg"):
        compiled(product, PRODUCT_ARGS, "sm_90", warps=3)


# -- every operation


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
        assert re.search(r"\bmax\.", plain) and re.search(r"\bmin\.", plain)
    assert not re.search(r"\b(max|min)\.", kept)


@ct.kernel
def order(flags, data):
    while ct.atomic_cas(flags, 0, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) != 0:
        pass
    tile = ct.load(data, (0,), (128,))
    ct.store(data, (0,), tile + 1)
    ct.atomic_xchg(flags, 0, 0, memory_order=ct.MemoryOrder.RELEASE)


def test_order_of_memory_operations() -> None:
    """A barrier follows the acquire, one parts the load from the store, and one goes before the release."""
    artifact = compiled(order, (np.zeros(1, np.int32), np.zeros(128, np.float32)), "sm_90")
    lines = artifact.binary.texts["TTIR"].splitlines()
    pattern = re.compile(r"(atomic_cas|gpu\.barrier|tt\.load|tt\.store|atomic_rmw)")
    kinds = [found.group(1) for line in lines if (found := pattern.search(line))]
    assert kinds == ["atomic_cas", "gpu.barrier", "tt.load", "gpu.barrier", "tt.store", "gpu.barrier", "atomic_rmw"]
    ptx = artifact.binary.texts["PTX"]
    assert re.search(r"atom\S*acquire\S*cas", ptx)
    assert re.search(r"atom\S*release\S*exch", ptx)


@ct.kernel
def publish(flags, data, out, N: ct.Constant[int]):
    for i in range(2):
        ct.store(out, (0, 0), ct.full((64, 64), i, ct.float32))
    ct.atomic_xchg(flags, 0, 0, memory_order=ct.MemoryOrder.RELEASE)
    ct.atomic_add(flags, 0, 0, memory_order=ct.MemoryOrder.ACQUIRE)
    ct.store(out, (0, 1), ct.load(data, (0, 0), (64, 64), allow_tma=True))


def test_order_of_the_copy_engine() -> None:
    """Before it stores to an array again, and before a release, what it stored has arrived; after an acquire it sees
    what other blocks stored."""
    args = (np.zeros(1, np.int32), np.zeros((64, 64), np.float32), np.zeros((64, 128), np.float32), 4)
    lines = compiled(publish, args, "sm_90").binary.texts["TTIR"].splitlines()
    pattern = re.compile(r"(descriptor_\w+|wait_group|gpu\.barrier|atomic_rmw|fence\.proxy)")
    kinds = [found.group(1) for line in lines if (found := pattern.search(line))]
    store, load = ["wait_group", "descriptor_store"], ["gpu.barrier", "fence.proxy", "descriptor_load"]
    atomics = ["atomic_rmw", "gpu.barrier", "atomic_rmw"]
    assert kinds == [*store, "wait_group", "gpu.barrier", *atomics, *load, "descriptor_store"]


@ct.kernel
def handshake(x, out, N: ct.Constant[int]):
    tile = ct.load(x, 0, N, memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.DEVICE)
    ct.store(out, 0, tile, memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.SYS)


def test_accesses_with_a_memory_order() -> None:
    """A load says its order; a store is an exchange, of the word around it where it is small."""
    wide, narrow = np.zeros(128, np.float32), np.zeros(128, np.int8)
    ptx = compiled(handshake, (wide, wide, 64), "sm_90").binary.texts["PTX"]
    assert "ld.acquire.gpu.global.b32" in ptx
    assert "atom.global.sys.release.exch.b32" in ptx
    for args in ((narrow, narrow, 64), (narrow, narrow, 1)):
        ptx = compiled(handshake, args, "sm_90").binary.texts["PTX"]
        assert "ld.acquire.gpu.global.b8" in ptx
        assert "atom.global.release.sys.cas.b32" in ptx
    assert "global_atomic_cmpswap" in compiled(handshake, (narrow, narrow, 64), "gfx942").binary.texts["assembly"]


@ct.kernel
def waiting(flags, out):
    while ct.load(flags, (0,), (1,), memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.SYS).item() < 4:
        pass
    ct.store(out, (0,), ct.ones((64,), ct.float32))


def test_all_threads_find_the_same_value() -> None:
    """One loads it and tells the others: if each did, some would leave the loop before others, in which all meet."""
    ptx = compiled(waiting, (np.zeros(1, np.int32), np.zeros(64, np.float32)), "sm_90").binary.texts["PTX"]
    loop = ptx[ptx.index("ld.acquire.sys") :]
    loop = loop[: loop.index("bra")]
    assert loop.index("redux.sync.max.u32") < loop.index("st.shared") < loop.index("bar.sync") < loop.index("ld.shared")


def test_gpus_that_cannot_run_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.gpu_runtime.driver.device", lambda _: SimpleNamespace(capability=75))
    with pytest.raises(ct.TileError, match=r"cannot run kernels: sm_75 is not supported: .* sm_80, sm_86, "):
        TritonBackend().compile(specialization(product, PRODUCT_ARGS, "reference").function, {})


def test_artifacts_survive_the_disk_cache() -> None:
    artifact = compiled(product, PRODUCT_ARGS, "sm_90")
    again = Artifact.from_bytes(artifact.to_bytes())
    assert again == artifact


def test_a_failure_of_the_compiler_names_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tilewright.backends.triton.ttir.kernel.entry_name", lambda name: "not a name")
    with pytest.raises(
        ct.TileError, match="the GPU compiler failed on this kernel for sm_90; its report is in"
    ) as error:
        compiled(product, PRODUCT_ARGS, "sm_90")
    report = str(error.value).split()[-1]
    with open(report) as f:
        assert "not a name" in f.read()


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


# -- products of tfloat32


@ct.kernel
def tf32_product(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), total)
    ct.store(c, (i, j), total.astype(c.dtype))


def serialized(ptx: str, folder: Path) -> bool:
    """Whether the assembler waits for each matrix instruction."""
    path = folder / "kernel.ptx"
    path.write_text(ptx)
    command = [
        compiler().assembler(parse_target("sm_90")),
        "--gpu-name=sm_90a",
        "-v",
        str(path),
        "-o",
        str(folder / "kernel.cubin"),
    ]
    report = subprocess.run(command, capture_output=True, text=True, check=True)
    return "are serialized" in report.stdout + report.stderr


@ct.kernel
def two_products(a, b, c, d, START: ct.Constant[float]):
    """Loops over tiles and K, then one over K."""
    for i in range(ct.bid(0), ct.cdiv(c.shape[0], 128), ct.num_blocks(0)):
        total = ct.full((128, 128), START, ct.float32)
        for k in range(ct.cdiv(a.shape[1], 32)):
            x, y = ct.load(a, (i, k), (128, 32)), ct.load(b, (k, 0), (32, 128))
            total = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), total)
        ct.store(c, (i, 0), total)
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 32)):
        x, y = ct.load(a, (0, k), (64, 32)), ct.load(b, (k, 0), (32, 64))
        total = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), total)
    ct.store(d, (0, 0), total)


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_sums_that_start_with_zeros_stay_in_their_registers(start: float) -> None:
    texts = compiled(two_products, (SINGLE, SINGLE, SINGLE, SINGLE, start), "sm_90", num_warps=8).binary.texts
    chosen = re.findall(r"arith\.select .* : tensor<128x128xf32", texts["TTGIR"])
    assert len(chosen) == (start != 0)


def test_loops_with_one_product_each_have_deep_pipelines() -> None:
    choices = compiled(two_products, (SINGLE, SINGLE, SINGLE, SINGLE, 0.0), "sm_90").binary.texts["compile decisions"]
    assert "pipeline stages: 3" in choices
    assert "warps per block: 8" in choices


def test_each_step_of_a_product_loads_its_own_registers(tmp_path: Path) -> None:
    """In every loop of a kernel, though the loops use the same names."""
    a = np.zeros((512, 512), np.float32)
    binary = compiled(two_products, (a, a, a, a, 0.0), "sm_90", num_warps=8).binary
    lines = binary.texts["TTGIR"].splitlines()
    steps = [at for at, line in enumerate(lines) if "ttng.warp_group_dot " in line]
    loops = 3  # over tiles and K as one, as two, and the last one
    per_loop, pending = (4, 3) if version() < (3, 7) else (2, 1)  # Triton takes 8 or 16 of K in a step
    assert len(steps) == loops * per_loop
    for at in steps:
        assert "ttg.local_load" in lines[at - 1]
        assert f"pendings = {pending}" in lines[at + 1]
    assert not serialized(binary.texts["PTX"], tmp_path)
    assert not spills(binary)


# -- loads by 2-CTA clusters


@ct.kernel
def persistent(a, b, c):
    columns = ct.cdiv(c.shape[1], 256)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], 128) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((128, 256), ct.float32)
        for k in range(ct.cdiv(a.shape[1], 64)):
            x = ct.load(a, (i, k), (128, 64), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(x, ct.load(b, (k, j), (64, 256), padding_mode=ct.PaddingMode.ZERO), total)
        ct.store(c, (i, j), total.astype(c.dtype))


def test_pairs_of_blocks_share_loads_of_rows_that_start_inside_sectors(tmp_path: Path) -> None:
    options = {"num_warps": 8, "num_stages": 4}
    for n, shared in ((520, 1), (528, 0)):  # rows of 1040 and of 1056 bytes
        half = np.zeros((n, n), np.float16)
        artifact = compiled(persistent, (half, half, half), "sm_90", **options)
        ptx = artifact.binary.texts["PTX"]
        assert sum(d.pairs for d in artifact.descriptors) == shared
        assert ("multicast::cluster" in ptx) == (shared > 0)
        assert ptx.count("barrier.cluster.wait") == 2 * shared  # at the start, and in the loop
        assert "wgmma.wait_group.sync.aligned 1;" in ptx
        assert not serialized(ptx, tmp_path)
        assert not spills(artifact.binary)
    assert not any(d.pairs for d in compiled(persistent, (half, half, half), "sm_100").descriptors)


@ct.kernel
def one_tile(a, b, c, SWIZZLED: ct.Constant[bool]):
    i, j = ct.bid(0), ct.bid(1)
    if SWIZZLED:
        wide = 8 * ct.cdiv(c.shape[1], 256)
        first = ct.bid(0) // wide * 8
        height = min(ct.cdiv(c.shape[0], 128) - first, 8)
        i, j = first + ct.bid(0) % wide % height, ct.bid(0) % wide // height
    total = ct.zeros((128, 256), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        x = ct.load(a, (i, k), (128, 64), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, ct.load(b, (k, j), (64, 256), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@pytest.mark.parametrize("swizzled", [False, True])
def test_pairs_of_blocks_share_loads_in_kernels_with_a_tile_for_each_block(swizzled: bool, tmp_path: Path) -> None:
    options = {"num_warps": 8, "num_stages": 4}
    for n, shared in ((520, 1 + swizzled), (528, 0)):  # rows of 1040 and of 1056 bytes
        half = np.zeros((n, n), np.float16)
        artifact = compiled(one_tile, (half, half, half, swizzled), "sm_90", **options)
        ptx = artifact.binary.texts["PTX"]
        assert sum(d.pairs for d in artifact.descriptors) == shared
        assert ("multicast::cluster" in ptx) == (shared > 0)
        assert ptx.count("barrier.cluster.wait") == 2 * bool(shared)  # at the start, and in the loop
        assert "wgmma.wait_group.sync.aligned 1;" in ptx
        assert not serialized(ptx, tmp_path)
        assert not spills(artifact.binary)


@ct.kernel
def halves(a, b, c):
    """Two loops, of which the second takes the memory of the first, and of what was stored between."""
    steps, total = ct.cdiv(a.shape[1], 64), ct.zeros((64, 128), ct.float32)
    for k in range(steps // 2, steps):
        x = ct.load(a, (ct.bid(1), k), (64, 64), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, ct.bid(0)), (64, 128), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (ct.bid(1), ct.bid(0)), total.astype(c.dtype))
    for k in range(steps // 2):
        x = ct.load(a, (ct.bid(1), k), (64, 64), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, ct.bid(0)), (64, 128), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (ct.bid(1), ct.bid(0)), total.astype(c.dtype))


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_pairs_meet_before_a_loop_in_the_memory_of_another(stages: int) -> None:
    """When both blocks are done with what was in it, and have made the barriers of the loop."""
    half = np.zeros((520, 520), np.float16)
    artifact = compiled(halves, (half, half, half.copy()), "sm_90", num_stages=stages)
    assert any(d.pairs for d in artifact.descriptors)
    ptx = artifact.binary.texts["PTX"]
    meetings = re.findall(r"mbarrier\.init|cluster\.(?:arrive|wait)\.\w+|multicast", ptx)
    assert re.fullmatch("(i+ARm+(rwm+))+", "".join(MEETING[m] for m in meetings)), meetings
    for between in re.findall(r"cluster\.arrive\.relaxed(.*?)cluster\.wait", ptx, re.DOTALL):
        assert not re.search(r"mbarrier\.in|\.shared\.|bulk_group", between.replace("expect_tx.shared", ""))


MEETING = {"mbarrier.init": "i", "cluster.arrive.release": "A", "cluster.wait.acquire": "R", "multicast": "m"}
MEETING |= {"cluster.arrive.relaxed": "r", "cluster.wait.aligned": "w"}


def test_where_a_step_waits_for_its_loads_they_are_not_shared() -> None:
    half = np.zeros((520, 520), np.float16)
    assert not any(d.pairs for d in compiled(one_tile, (half, half, half, False), "sm_90", num_stages=1).descriptors)


def test_loads_of_another_form_are_not_shared() -> None:
    with pytest.raises(UnexpectedPtx, match="0 uses of shared maps"):
        share_loads("ret;", [3])


SINGLE = np.zeros((512, 512), np.float32)


@pytest.mark.parametrize(
    ("a", "b", "shape", "register_operand"),
    [
        (SINGLE, SINGLE, (256, 128, 32), True),
        (SINGLE, SINGLE, (128, 128, 64), True),
        (SINGLE, SINGLE.T, (256, 128, 32), False),
        (SINGLE.T, SINGLE.T, (128, 128, 32), True),
    ],
)
def test_tf32_operands_are_rounded_by_the_copy_engine(
    a: Any, b: Any, shape: tuple[int, int, int], register_operand: bool, tmp_path: Path
) -> None:
    """At most one operand passes through registers, each step of a product has a load of its own, and steps overlap."""
    artifact = compiled(tf32_product, (a, b, SINGLE, *shape), "sm_90", num_stages=3)
    assert [d.rounds for d in artifact.descriptors] == [True, True, False]
    texts = artifact.binary.texts
    loop = texts["TTGIR"].partition("scf.for")[2].partition("scf.yield")[0]
    assert "local_alloc" not in loop
    ops = re.findall(r"ttg\.local_load|ttng\.warp_group_dot ", loop)
    assert ops[::2] == ["ttg.local_load"] * (len(ops) // 2) if register_operand else "ttg.local_load" not in ops
    assert not serialized(texts["PTX"], tmp_path)


@pytest.mark.parametrize("name", ["tf32_product", "persistent_product"])
def test_products_of_clusters(name: str) -> None:
    kernel = globals()[name].replace_hints(num_ctas=2)
    array = SINGLE if name == "tf32_product" else HALF
    for b in (array, array.T):
        binary = compiled(kernel, (array, b, array.copy(), 128, 128, 32), "sm_90").binary
        assert "wgmma.mma_async" in binary.texts["PTX"]
        assert binary.num_ctas == 2
        assert "ignored hints: none" in binary.texts["compile decisions"]


@ct.kernel
def rounded(x, out):
    ct.store(out, (0, 0), ct.load(x, (0, 0), (64, 64), allow_tma=True).astype(ct.tfloat32).astype(ct.float32))


def test_conversions_that_are_seen_are_not_left_to_the_copy_engine() -> None:
    """It does not keep the bits of NaN."""
    assert [d.rounds for d in compiled(rounded, (SINGLE, SINGLE.copy()), "sm_90").descriptors] == [False, False]


# -- results that a loop stores


@ct.kernel
def flat_product(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """All steps of all tiles of a block in one loop."""
    columns, steps = ct.cdiv(c.shape[1], TN), ct.cdiv(a.shape[1], TK)
    tiles = ct.cdiv(ct.cdiv(c.shape[0], TM) * columns - ct.bid(0), ct.num_blocks(0))
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(tiles * steps):
        tile, k = ct.bid(0) + step // steps * ct.num_blocks(0), step % steps
        i, j = tile // columns, tile % columns
        total = ct.mma(ct.load(a, (i, k), (TM, TK)), ct.load(b, (k, j), (TK, TN)), total)
        if k == steps - 1:
            ct.store(c, (i, j), total.astype(c.dtype))
            total = ct.zeros((TM, TN), ct.float32)


def test_a_store_in_a_loop_overlaps_with_its_loads(tmp_path: Path) -> None:
    """It goes in pieces that leave room for a fourth stage, without a barrier, which would end the pipeline."""
    artifact = compiled(flat_product, PRODUCT_ARGS, "sm_90", num_stages=4)
    assert [d.block for d in artifact.descriptors] == [(128, 64), (64, 256), (128, 128)]
    assert artifact.binary.shared_bytes <= parse_target("sm_90").shared_memory
    loop = artifact.binary.texts["TTGIR"].partition("scf.for")[2]
    assert "gpu.barrier" not in loop
    assert loop.count("ttng.async_tma_copy_local_to_global") == 2
    assert "pendings = 1" in loop
    assert not serialized(artifact.binary.texts["PTX"], tmp_path)


@ct.kernel
def scaled_product(a, b, c):
    total = ct.zeros((128, 128), ct.float32)
    for k in range(ct.num_tiles(a, 1, (128, 64))):
        x = ct.load(a, (0, k), (128, 64)).astype(ct.float16)
        total = ct.mma(x, ct.load(b, (k, 0), (64, 128)), total)
    ct.store(c, (0, 0), total)


def test_a_computed_operand_stays_until_its_product_has_ended(tmp_path: Path) -> None:
    half = np.zeros((512, 512), np.float16)
    texts = compiled(scaled_product, (half.astype(np.int8), half, SINGLE), "sm_90", num_stages=3).binary.texts
    loop = texts["TTGIR"].partition("scf.for")[2].partition("scf.yield")[0]
    assert re.findall(r"pendings = (\d)", loop)[-1] == "0"
    assert not serialized(texts["PTX"], tmp_path)


# -- loops over tiles


@ct.kernel
def persistent_product(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    columns = ct.cdiv(c.shape[1], TN)
    for tile in range(ct.bid(0), ct.cdiv(c.shape[0], TM) * columns, ct.num_blocks(0)):
        i, j = tile // columns, tile % columns
        total = ct.zeros((TM, TN), ct.float32)
        for k in range(ct.cdiv(a.shape[1], TK)):
            x = ct.load(a, (i, k), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, (k, j), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(x, y, total)
        ct.store(c, (i, j), total.astype(c.dtype))


def test_a_loop_over_tiles_becomes_one_with_that_of_products() -> None:
    """The store is inside the loop of the products, and the loop over tiles is left for sums of nothing."""
    texts = compiled(persistent_product, PRODUCT_ARGS, "sm_90", num_stages=4).binary.texts
    ttir = texts["TTIR"]
    body = ttir[ttir.index("scf.for") : ttir.index("scf.yield", ttir.index("tt.dot "))]
    assert body.count("scf.for") == 1
    assert ttir.count("tt.dot ") == 1
    assert ttir.count("tt.descriptor_store") == 3
    assert "ttng.async_tma_copy_local_to_global" in texts["TTGIR"].partition("ttng.warp_group_dot ")[2]
