"""PTX to machine code for every architecture, and failures of ptxas in our words."""

from __future__ import annotations

import functools
import re
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.gpu_attention import attended
from support.kernel_runs import arguments, generated, seeds
from support.ptx.backend import PtxBackend

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends import registry
from tilewright.backends.gpu import assemble
from tilewright.backends.gpu.assemble import Assembled, Resources
from tilewright.backends.gpu.backend import GpuBackend, choose
from tilewright.backends.gpu.compiler import Compiled, compile_to_ptx
from tilewright.backends.gpu.target import architecture
from tilewright.gpu_runtime import executable
from tilewright.gpu_runtime.artifact import APART
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.core import Function
from tilewright.ir.errors import TileCompilerExecutionError, TileError, TileUnsupportedFeatureError
from tilewright.ir.gpu_stage import DEEPER, NUM_STAGES
from tilewright.runtime.launch import specialization
from tilewright.transforms.gpu.lowering import lower_to_gpu
from tilewright.transforms.pipelines import optimize

TARGETS = ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")
_DECISIONS = "compile decisions"
needs_ptxas = pytest.mark.skipif(assemble.missing() is not None, reason=assemble.missing() or "")


class Recorder(PtxBackend):
    """Keeps the functions that launches compile, and runs none."""

    def __init__(self) -> None:
        super().__init__(4, "sm_80")
        self.functions: list[Function] = []

    def compile(self, function: Function, *_: object) -> object:  # type: ignore[override]
        self.functions.append(function)
        return super().compile(function, {})


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    monkeypatch.setitem(registry._loaders, "recorder", lambda: found)
    return found


@ct.kernel
def scale(x, y, factor):  # type: ignore[no-untyped-def]
    i = ct.bid(0)
    tile = ct.load(x, (i,), (128,))
    ct.store(y, (i,), tile * ct.sum(tile) * factor)


@functools.cache
def function() -> Function:
    """The function of ``scale``."""
    found, x = Recorder(), np.ones(256, np.float32)
    registry.register_backend("scale-recorder", lambda: found)
    try:
        ct.launch(None, (2,), scale, (x, np.zeros_like(x), 2.0), backend="scale-recorder")
    finally:
        del registry._loaders["scale-recorder"]
    return found.functions[-1]


def compiled(target: str) -> Compiled:
    return compile_to_ptx(function(), target, 4)


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
def test_every_architecture(target: str) -> None:
    made = compiled(target)
    assembled = assemble.assemble(made.ptx, made.target.name, made.name)
    assert assembled.cubin.startswith(b"\x7fELF") and 0 < assembled.resources.registers <= 255
    assert not assembled.resources.spilled_stores


@needs_ptxas
@pytest.mark.parametrize("seed", seeds(6, 100))
def test_random_kernels(seed: int) -> None:
    kernel = generated(seed)
    try:
        function = specialization(kernel.kernel(), arguments(kernel)[0], "reference").function
        for target in TARGETS[seed % 5 :: 5]:
            made = compile_to_ptx(function, target, 4)
            assert assemble.assemble(made.ptx, made.target.name, made.name).cubin.startswith(b"\x7fELF")
    except TileUnsupportedFeatureError as error:
        assert error.loc is not None and error.loc.line > 0
        raise


@pytest.mark.parametrize(("target", "waits"), [("sm_80", False), ("sm_90", True), ("sm_100", True)])
def test_kernels_wait_for_the_one_before_them_first(target: str, waits: bool) -> None:
    """A launch may start them beside that, so that nothing of what it writes is read or written before."""
    zeros = np.zeros((64, 64), np.float16)
    function = specialization(grid, tuple(zeros.copy() for _ in range(3)), "reference").function
    ptx = compile_to_ptx(function, target, 4).ptx
    first = re.search(r"(ld|st|atom|cp)\.(?!param)\S*|griddepcontrol\.\w+", ptx)
    assert (
        first is not None and (first[0] == "griddepcontrol.wait") == waits == architecture(target).has_dependent_launch
    )
    assert ptx.count("griddepcontrol") == waits


def test_lines_of_the_source() -> None:
    """Profilers show the lines of the kernel; LLVM writes no debug info that ptxas refuses."""
    ptx = compiled("sm_90").ptx
    lines = {int(n) for n in re.findall(r"\.loc\s+\d+ (\d+)", ptx)}
    source = Path(__file__).read_text().splitlines()
    assert any("ct.sum(tile)" in source[n - 1] for n in lines) and any("ct.load(x" in source[n - 1] for n in lines)
    assert ".target sm_90a\n" in ptx and Path(__file__).name in ptx


@needs_ptxas
def test_a_refusal_repeats_by_one_command() -> None:
    made = compiled("sm_80")
    broken = made.ptx.replace("add.rn.f32", "add.wrong.f32", 1)
    with pytest.raises(TileCompilerExecutionError, match="refuses the kernel scale for sm_80: .*report: ") as failure:
        assemble.assemble(broken, "sm_80", "scale")
    folder = Path(failure.value.message.rpartition("report: ")[2])
    again = subprocess.run([folder / "repeat.sh"], capture_output=True, text=True, check=False)
    assert again.returncode and "wrong" in again.stderr
    assert (folder / "kernel.ptx").read_text() == broken
    (folder / "kernel.ptx").write_text(made.ptx)
    assert subprocess.run([folder / "repeat.sh"], capture_output=True, check=False).returncode == 0


@needs_ptxas
def test_too_much_shared_memory_is_said_in_our_words() -> None:
    ptx = """.version 8.0
.target sm_80
.address_size 64
.visible .entry huge() {
.shared .align 16 .b8 data[200000];
.reg .b32 %r<2>;
mov.u32 %r1, data;
st.shared.b32 [%r1], %r1;
ret;
}
"""
    with pytest.raises(TileError, match="the kernel huge needs 200000 bytes of shared memory, and sm_80 has .*smaller"):
        assemble.assemble(ptx, "sm_80", "huge")


def test_unknown_architectures_and_options() -> None:
    assert architecture("sm_90").name == architecture("sm_90a").name == "sm_90a"
    for name in ("sm_35", "gfx942", "", "90"):
        with pytest.raises(TileUnsupportedFeatureError, match="does not know the architecture"):
            architecture(name)
    with pytest.raises(ValueError, match="sm_35 is not supported: kernels compile for sm_80, "):
        assert GpuBackend().capabilities.for_target is not None
        GpuBackend().capabilities.for_target("sm_35")


def test_options_and_hints() -> None:
    target = parse_target("sm_90")
    assert choose(function(), {}, target) == {"num_warps": None, "num_stages": None}
    assert choose(function(), {"num_warps": 8}, target)["num_warps"] == 8
    for wrong in (3, 64, "4", 0):
        with pytest.raises(ValueError, match="it is a power of two up to 32"):
            choose(function(), {"num_warps": wrong}, target)
    with pytest.raises(ValueError, match="the backend gpu has no option 'speed'; it has num_warps, num_stages"):
        choose(function(), {"speed": 11}, target)
    hints = {"num_worker_warps": ct.ByTarget(default=4, sm_90=8), "num_ctas": 2, "opt_level": 1}
    hinted = replace(function(), hints=hints)
    assert choose(hinted, {}, target)["num_warps"] == 8
    assert "ignored hints: opt_level, num_ctas\n" in compile_to_ptx(hinted, "sm_90", 8).schedule
    schedule = compile_to_ptx(function(), "sm_90", 4).schedule
    assert "ignored hints: none\n" in schedule and "loads 4 bytes a thread at once" in schedule


def test_stages_of_a_cta_that_is_alone() -> None:
    """A CTA leaves shared memory to a second one, where that has registers; grids that need none have a variant."""
    zeros = np.zeros((256, 256 + 8), np.float16)
    function = specialization(grid, tuple(zeros[:, :256] for _ in range(3)), "reference").function
    compiled = {n: compile_to_ptx(function, "sm_90", n) for n in (4, 8)}
    (deeper,) = compiled[4].distributed.hints[DEEPER]
    assert 2 * compiled[4].shared_bytes < 227 * 1024 and DEEPER not in compiled[8].distributed.hints
    alone = compile_to_ptx(function, "sm_90", 4, how=Constraints(realign=False, blocks=1))
    assert f"up to {deeper} ahead" in alone.schedule and DEEPER not in alone.distributed.hints
    assert alone.shared_bytes > compiled[4].shared_bytes
    assert "up to 2 ahead" in compile_to_ptx(function, "sm_90", 4, 2).schedule


@ct.kernel
def grid(x, y, z):  # type: ignore[no-untyped-def]
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((128, 64), ct.float32)
    for k in range(ct.num_tiles(x, 1, (128, 64))):
        left = ct.load(x, (i, k), (128, 64), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(y, (k, j), (64, 64), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(z, (i, j), total.astype(z.dtype))


@ct.kernel
def product(x, y, z, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    total = ct.zeros((T, T), ct.float32)
    for k in range(ct.num_tiles(x, 1, (T, T))):
        left = ct.load(x, (0, k), (T, T), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(y, (k, 0), (T, T), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(z, (0, 0), total)


@ct.kernel
def narrow(x, y, z):  # type: ignore[no-untyped-def]
    left, right = ct.load(x, (0, 0), (64, 16)), ct.load(y, (0, 0), (16, 64))
    ct.store(z, (0, 0), ct.mma(left, right, ct.zeros((64, 64), ct.float32)))


@ct.kernel
def rows(x, y, T: ct.Constant[int]):  # type: ignore[no-untyped-def]
    tile = ct.load(x, (0, 0), (64, T))
    ct.store(y, (0, 0), tile - ct.max(tile))


def test_what_does_not_fit_is_compiled_with_less_or_named(recorder: Recorder) -> None:
    x, y, z = (np.zeros(shape, np.float16) for shape in ((64, 512), (512, 64), (64, 64)))
    ct.launch(None, (1,), product, (x, y, z.astype(np.float32), 64), backend="recorder")
    ct.launch(None, (1,), narrow, (x, y, z.astype(np.float32)), backend="recorder")
    optimized = optimize(recorder.functions[0])
    lowered = [lower_to_gpu(optimized, 4, 3, None, room) for room in (50000, 40000, 20000)]
    stages = [made.hints.get(NUM_STAGES, 1) for made in lowered]
    assert stages == [3, 2, 1], "a stage is of 16384 bytes"
    large = optimize(recorder.functions[1])
    assert all(lower_to_gpu(large, 4, 1, None, room) for room in (16384, 16383)), "the result has 16384 bytes"
    with pytest.raises(TileError, match="bytes of shared memory .* of 8000 bytes that a block can have"):
        lower_to_gpu(optimized, 4, 3, None, 8000)
    wide = np.zeros((64, 1 << 16), np.float32)
    with pytest.raises(TileError, match=r"the tile .*64,65536.* takes 32768 registers .* of the 128 threads") as error:
        ct.launch(None, (1,), rows, (wide, wide.copy(), 1 << 16), backend="recorder")
    assert error.value.loc is not None and error.value.loc.file == __file__


@pytest.mark.parametrize(("spills", "why"), [(None, ", for Insufficient registers"), (68, ", with which 68 bytes are")])
def test_an_occupancy_beyond_the_registers_is_given_up(
    spills: int | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ptxas refuses products of warp groups where threads may have few registers, or spills."""
    asked: list[bool] = []

    def assembled(ptx: str, target: str, kernel: str) -> Assembled:
        asked.append(".minnctapersm 4" in ptx)
        if asked[-1] and spills is None:
            raise assemble.OutOfRegisters("Insufficient registers")
        return Assembled(b"", Resources(0, spills or 0, 0, 0))

    monkeypatch.setattr(assemble, "missing", lambda: None)
    monkeypatch.setattr(assemble, "assemble", assembled)
    hinted = replace(function(), hints={"occupancy": 4})
    stages = GpuBackend("sm_90").compile(hinted, {}).stages()
    assert asked == [True, False]
    assert f"compiled again: without the hint occupancy{why}" in stages["compile decisions"]


def test_attention_that_spills_has_two_ctas_on_an_sm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of warps that load for themselves, before each CTA is alone."""
    asked: list[str] = []

    def assembled(ptx: str, target: str, kernel: str) -> Assembled:
        asked.append(re.findall(r"\.minnctapersm (\d)", ptx)[0])
        return Assembled(b"", Resources(0, 68 if int(asked[-1]) > 2 else 0, 0, 0))

    monkeypatch.setattr(assemble, "missing", lambda: None)
    monkeypatch.setattr(assemble, "assemble", assembled)
    stages = GpuBackend("sm_90").compile(attended(64, 64, 64, occupancy=2), {}).stages()
    assert asked[1:] == ["2"] and int(asked[0]) > 2
    assert "compiled again: with two CTAs on an SM, as 68 bytes are spilled" in stages["compile decisions"]


@pytest.mark.parametrize("suffices", [True, False])
def test_where_registers_do_not_suffice_a_cta_is_alone(suffices: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without the hint, as passes choose how many CTAs share an SM."""
    asked: list[str] = []

    def assembled(ptx: str, target: str, kernel: str) -> Assembled:
        asked.append(ptx)
        if len(asked) == 1 or not suffices:
            raise assemble.OutOfRegisters("Insufficient registers")
        return Assembled(b"", Resources(0, 0, 0, 0))

    monkeypatch.setattr(assemble, "missing", lambda: None)
    monkeypatch.setattr(assemble, "assemble", assembled)
    with nullcontext() if suffices else pytest.raises(TileError, match="Insufficient registers"):
        GpuBackend("sm_90").compile(function(), {})
    assert len(asked) == 2 and ".minnctapersm 1" in asked[1]


def test_products_whose_blocks_may_be_joined_are_compiled_for_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: by a launch, or by what shows their stages."""
    asked: list[str] = []

    def assembled(ptx: str, target: str, kernel: str) -> Assembled:
        asked.append(ptx)
        return Assembled(b"", Resources(0, 0, 0, 0))

    monkeypatch.setattr(assemble, "missing", lambda: None)
    monkeypatch.setattr(assemble, "assemble", assembled)
    x, y, z = (np.zeros(shape, np.float16) for shape in ((1024, 512), (512, 1024), (1024, 1024)))
    multiplied = specialization(grid, (x, y, z), "reference").function
    backend = GpuBackend("sm_90")
    chooses = backend.compile(multiplied, {})
    wanted = [chooses.variant_for(blocks, 132) for blocks in ((66, 16, 1), (66, 15, 1))]
    assert not asked and [how and how.join for how in wanted] == [(1, 8, 1), APART]
    for how in wanted:
        made = backend.compile(multiplied, {}, how)
        assert made.artifact.joined == how.join and made.variant_for((66, 16, 1), 132) is None
    assert (
        len(asked) == 2 and "blocks that a CTA of a variant for large grids runs: 1x2x1" in chooses.stages()[_DECISIONS]
    )
    assert chooses.stages()["PTX"] == asked[1] and len(asked) == 3


def test_what_launches_choose_from_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches that Python makes ask for each grid."""
    made: list[int] = []

    class Counted(executable.Choices):
        def __init__(self, *args: Any) -> None:
            made.append(1)
            super().__init__(*args)

    monkeypatch.setattr(executable, "Choices", Counted)
    x = np.zeros((1024, 1024), np.float16)
    chooses = GpuBackend("sm_90").compile(specialization(grid, (x, x, x), "reference").function, {})
    assert len({chooses.variant_for((66, n, 1), 132) for n in (16, 15, 14)}) > 1 and len(made) == 1


def test_spills_with_all_registers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CTA alone would have no more of them."""
    asked: list[str] = []

    def assembled(ptx: str, target: str, kernel: str) -> Assembled:
        asked.append(ptx)
        return Assembled(b"", Resources(255, 128, 0, 0))

    monkeypatch.setattr(assemble, "missing", lambda: None)
    monkeypatch.setattr(assemble, "assemble", assembled)
    GpuBackend("sm_90").compile(replace(function(), hints={"occupancy": 2}), {})
    assert len(asked) == 1 and ".minnctapersm 2" in asked[0]


@ct.kernel
def scattered(x, small, y, out, small_out, y_out):  # type: ignore[no-untyped-def]
    rows = ct.arange(32, dtype=ct.int32) * 3
    for source, target in ct.static_iter(((x, out), (small, small_out), (y, y_out))):
        ct.scatter(target, rows, ct.gather(source, rows) + 1)


def test_narrow_words_are_in_wide_registers() -> None:
    """ptxas spills registers of 16 bits wrongly that share one of 32: kernel 753411 stored every other row twice."""
    arrays = [np.zeros(96, dtype) for dtype in (np.float16, np.int8, ml_dtypes.bfloat16)]
    ptx = compile_to_ptx(specialization(scattered, (*arrays, *arrays), "cpu").function, "sm_90", 4).ptx
    accesses = re.findall(r"(?:ld|st)\.global\.b(?:8|16)\b.*", ptx)
    assert len(accesses) >= 6 and not [line for line in accesses if "%rs" in line]


@ct.kernel
def arithmetic(x, y, out, total):  # type: ignore[no-untyped-def]
    a, b = ct.load(x, (0, 0), (16, 64)), ct.load(y, (0, 0), (16, 64))
    number = ct.broadcast_to(ct.arange(64, dtype=x.dtype), (16, 64))
    for _ in range(3):
        a = ct.where(a > b, a * b + number, ct.maximum(-a, b // 3) >> 2) ^ (a % 5)
    ct.store(out, (0, 0), abs(a) - (b << 1))
    ct.store(
        total, (0, 0), ct.cumsum(a, 1) + ct.max(a, 1, keepdims=True) + (a.astype(ct.float32) * 0.5).astype(x.dtype)
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_narrow_integers_are_in_wide_registers(dtype: type) -> None:
    arrays = [np.zeros((16, 64), dtype) for _ in range(4)]
    ptx = compile_to_ptx(specialization(arithmetic, tuple(arrays), "cpu").function, "sm_90", 4).ptx
    assert not [line for line in ptx.splitlines() if "%rs" in line]
