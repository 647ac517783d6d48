"""The backend ``tileir``: kernels go through CUDA Tile IR and NVIDIA's assembler, without a GPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.kernel_runs import arguments, generated, generated_product, seeds

import tilewright as ct
from tilewright.backends.base import NeedsVariant
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.backends.registry import get_backend
from tilewright.backends.tileir import assembler
from tilewright.backends.tileir.backend import TileIRBackend
from tilewright.cli import main
from tilewright.gpu_runtime import driver
from tilewright.ir.errors import TileError
from tilewright.runtime.launch import specialization
from tilewright.tileir.bytecode import read
from tilewright.tileir.text import print_module

needs_assembler = pytest.mark.skipif(assembler.missing() is not None, reason=str(assembler.missing()))


@ct.kernel
def scaled_sum(x, y, out, factor, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) * factor + ct.load(y, (i,), (TILE,)))


ARGUMENTS = (*(np.ones(64, np.float32) for _ in range(3)), 2.0, 16)


def test_without_a_driver_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler, "tool", lambda name: None)
    with pytest.raises(
        RuntimeError, match=r"the backend 'tileir' cannot be used here: it needs the assembler tileiras"
    ):
        ct.launch(None, (4,), scaled_sum, ARGUMENTS, backend="tileir")
    with pytest.raises(TileError, match=r"scaled_sum cannot be assembled: tileiras is not installed; pip install"):
        TileIRBackend("sm_90").compile(specialization(scaled_sum, ARGUMENTS, "reference").function, {})


@pytest.mark.parametrize(("version", "said"), [(12080, "this one is for CUDA 12.8"), (13000, None), (13010, None)])
def test_old_drivers_are_told_by_their_version(monkeypatch: pytest.MonkeyPatch, version: int, said: str | None) -> None:
    monkeypatch.setattr(assembler, "missing", lambda: None)
    monkeypatch.setattr(driver, "why_not", lambda: None)
    monkeypatch.setattr(driver, "version", lambda: version)
    found = TileIRBackend().unavailable()
    assert found is said is None or (said is not None and found is not None and said in found)


@needs_assembler
@pytest.mark.parametrize("target", ("sm_90", "sm_100"))
def test_kernels_compile_for_gpus_that_are_not_here(target: str) -> None:
    with ct.use_backend("tileir"):
        found = scaled_sum.compile_for(target, ARGUMENTS)
    text = found.stage("CUDA Tile IR")
    assert "entry @scaled_sum(" in text and "load_view_tko" in text
    backend = get_backend("tileir")
    serialization = backend.capabilities.serialization
    assert serialization is not None
    data = serialization.to_bytes(found.executable)
    assert data is not None
    again = serialization.from_bytes(found.function, data, {}, None)
    assert serialization.to_bytes(again) == data
    binary = again.artifact.binary  # type: ignore[attr-defined]
    assert binary.code.startswith(b"\x7fELF") and binary.threads == 1 and binary.symbol == "scaled_sum"


@ct.kernel
def rows(x, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.load(x, (i, 0), (TILE, TILE)))


@needs_assembler
@pytest.mark.parametrize(("role", "value"), (("stride", -32), ("shape", 0)))
def test_negative_strides_and_extents_of_zero_need_a_variant(role: str, value: int) -> None:
    plain = np.ones((32, 32), np.float32)
    function = specialization(rows, (plain, plain, 16), "reference").function
    backend = TileIRBackend("sm_90")
    executable = backend.compile(function, {})
    roles = [p.role for p in function.params]
    values = [value if i == roles.index(role) else 32 for i in range(len(roles))]
    with pytest.raises(NeedsVariant) as needed:
        executable.launch((1, 1, 1), LaunchArguments(values, (), 0, 0))
    variant = backend.compile(function, {}, needed.value.variant)
    text = variant.stages()["CUDA Tile IR"]
    assert text.count("allow_tma = false") == 2 and "strides = [%" in text and ": tile<i64> -> tensor_view" in text
    assert "allow_tma" not in executable.stages()["CUDA Tile IR"]
    assert {roles[i]: bound for i, bound in executable.least} == {"shape": 1, "stride": 0} and not variant.least


def test_what_the_assembler_refuses_is_tried_with_less_freedom(monkeypatch: pytest.MonkeyPatch) -> None:
    """In program order, without the TMA unit, without divisors, not optimized and without hints; what it was is kept
    with the code."""
    accepted, signs = "no TMA", ("occupancy", "warps", "allow_tma = false", "div_by", "-O0")
    tried: list[str] = []

    def assemble(data: bytes, target: str, kernel: str, *, optimized: bool, last: bool) -> bytes:
        text = print_module(read(data)) + ("" if optimized else "-O0")
        tried.append(", ".join(sign for sign in signs if sign in text))
        if tried[-1] != accepted:
            raise TileError(f"refused {len(tried)}")
        return b"code"

    monkeypatch.setattr(assembler, "assemble", assemble)
    function = specialization(scaled_sum.replace_hints(occupancy=32), ARGUMENTS, "reference").function
    backend = TileIRBackend("sm_90")
    with pytest.raises(TileError, match="refused 1"):
        backend.compile(function, {})
    free = ["div_by", "div_by", "allow_tma = false, div_by", "", "div_by", "div_by, -O0", "div_by, -O0", "div_by"]
    assert tried == [*(f"occupancy, {rest}".removesuffix(", ") for rest in free), *free, "warps, div_by"]
    accepted = "allow_tma = false, div_by"
    made = backend.compile(function, {})
    serialization = backend.capabilities.serialization
    assert serialization is not None
    loaded = serialization.from_bytes(function, serialization.to_bytes(made), {}, None)
    for executable in (made, loaded):
        stages = executable.stages()
        assert stages["compile decisions"] == "tileiras compiles it with: no hints, no TMA\n"
        assert "allow_tma = false" in stages["CUDA Tile IR"] and "occupancy" not in stages["CUDA Tile IR"]


def test_what_the_assembler_does_not_end_with_is_tried_in_order_and_not_optimized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With more warps, and without hints before all else."""
    tried: list[str] = []

    def assemble(data: bytes, target: str, kernel: str, *, optimized: bool, last: bool) -> bytes:
        text = print_module(read(data))
        tried.append(", ".join(sign for sign in ("num_cta", "warps") if sign in text) + ("" if last else ", soon"))
        if optimized:
            raise assembler.Unfinished(f"not in time {len(tried)}")
        return b"code"

    monkeypatch.setattr(assembler, "assemble", assemble)
    function = specialization(scaled_sum, ARGUMENTS, "reference").function
    made = TileIRBackend("sm_90").compile(function, {})
    assert tried == [", soon", "warps", ", soon", ""] and made.artifact.fallback == ("no optimization",)
    tried.clear()
    made = TileIRBackend("sm_100").compile(dataclasses.replace(function, hints={"num_ctas": 4}), {})
    assert tried == ["num_cta, soon", ", soon", "warps", "num_cta, soon", "num_cta"]


@ct.kernel(num_ctas=2)
def used_in_a_loop(a, b, out, n, WHILE: ct.Constant[bool]):
    product = ct.mma(ct.load(a, (0, 0), (16, 16)), ct.load(b, (0, 0), (16, 16)), ct.zeros((16, 16), ct.float32))
    total, i = ct.zeros((16, 16), ct.float32), 0
    if WHILE:
        while i < n:
            total, i = total + product, i + 1
    else:
        for _ in range(n):
            total += product
    ct.store(out, (0, 0), total)


@pytest.mark.parametrize("target", ("sm_90", "sm_100"))
def test_products_that_are_used_in_loops_without_bounds_are_not_for_several_ctas(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembler, "assemble", lambda *_, **__: b"code")
    arrays = [np.zeros((16, 16), np.float32) for _ in range(3)]
    for loop, kept in ((True, ("one CTA",)), (False, ())):
        function = specialization(used_in_a_loop, (*arrays, 3, loop), "reference").function
        assert TileIRBackend(target).compile(function, {}).artifact.fallback == kept


@ct.kernel(num_ctas=2, num_worker_warps=8, occupancy=1)
def through_memory(x, y, GATHER: ct.Constant[bool]):
    ct.store(y, (0,), ct.load(x, (0,), (64,)))
    if GATHER:
        ct.store(x, (0,), ct.gather(y, ct.arange(64, dtype=ct.int32) * 5 % 64))


@pytest.mark.parametrize("gather, kept", [(True, ("one CTA", "the usual number of worker warps")), (False, ())])
def test_what_threads_hand_on_through_memory_is_not_for_several_ctas_or_more_warps(
    gather: bool, kept: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembler, "assemble", lambda *_, **__: b"code")
    monkeypatch.setattr(assembler, "threads_of_few_registers", lambda _: 0)
    arguments = np.zeros(64, np.float32), np.zeros(64, np.float32), gather
    function = specialization(through_memory, arguments, "reference").function
    assert TileIRBackend("sm_90").compile(function, {}).artifact.fallback == kept


@ct.kernel
def stored_in_another_shape(x, counts):
    tile = ct.load(x, (1, 0), (128, 32), order="F")
    ct.atomic_add(counts, (0,), 1)
    ct.store(x, (0, 0), ct.reshape(tile, (64, 64)))


@ct.kernel
def running_sum(a, b, out, AXIS: ct.Constant[int]):
    product = ct.zeros((64, 64), ct.float32)
    for k in range(4):
        product = ct.mma(ct.load(a, (0, k), (64, 16)), ct.load(b, (k, 0), (16, 64)), product)
    ct.store(out, (0, 0), ct.cumsum(product, AXIS))


@needs_assembler
@pytest.mark.parametrize("target", ("sm_90", "sm_100"))
def test_what_it_refuses_of_no_rule_is_taken_in_another_form(target: str) -> None:
    backend = TileIRBackend(target)
    odd = np.zeros(1 + 64 * 256, np.float16)[1:].reshape(64, 256)
    moved = specialization(stored_in_another_shape, (odd, np.zeros(1, np.int32)), "reference").function
    assert backend.compile(moved, {}).artifact.fallback == ("loads that are not repeated",)
    half, out = np.zeros((64, 64), ml_dtypes.bfloat16), np.zeros((64, 64), np.float32)
    for axis in (0, 1):
        summed = specialization(running_sum, (half, half, out, axis), "reference").function
        assert backend.compile(summed, {}).artifact.fallback == ()


@ct.kernel(num_ctas=2)
def largest(x, out):
    ct.store(out, (0,), ct.max(ct.load(x, (0, 0), (4, 8)), 0))


@ct.kernel(num_ctas=2)
def add_one(x, out):
    ct.store(out, (0, 0), ct.load(x, (0, 0), (4, 8)) + 1)


@pytest.mark.parametrize(
    ("kernel", "target", "kept"), ((largest, "sm_90", False), (largest, "sm_100", True), (add_one, "sm_90", True))
)
def test_tiles_whose_elements_move_are_not_distributed_over_ctas_on_hopper(
    monkeypatch: pytest.MonkeyPatch, kernel: Any, target: str, kept: bool
) -> None:
    """tileiras 13.5 loses some of them between the CTAs."""
    texts: list[str] = []
    monkeypatch.setattr(assembler, "assemble", lambda data, *_, **__: texts.append(print_module(read(data))) or b"code")
    arrays = (
        np.zeros((4, 8), np.float32),
        np.zeros((4, 8), np.float32) if kernel is add_one else np.zeros(8, np.float32),
    )
    made = TileIRBackend(target).compile(specialization(kernel, arrays, "reference").function, {})
    assert ("num_cta_in_cga = 2" in texts[0]) == kept == (made.artifact.fallback == ())


@ct.kernel(num_worker_warps=8)
def scattered(a, b, out, PRODUCT: ct.Constant[bool], AXES: ct.Constant[int]):
    x, y = ct.load(a, (0, 0), (16, 16)), ct.load(b, (0, 0), (16, 16))
    tile = ct.mma(x, y, ct.zeros((16, 16), ct.float32)) if PRODUCT else x
    i = ct.arange(16, dtype=ct.int32)
    if AXES == 2:
        ct.scatter(out, (i[:, None], i[None, :]), tile)
    else:
        ct.store(a, (0, 0), tile)
        ct.scatter(out, (0, i), ct.sum(tile, 0))


@pytest.mark.parametrize(
    ("product", "axes", "target", "kept"),
    ((True, 2, "sm_90", False), (True, 2, "sm_100", True), (False, 2, "sm_90", True), (True, 1, "sm_90", True)),
)
def test_masks_beside_products_are_for_the_usual_number_of_warps_on_hopper(
    monkeypatch: pytest.MonkeyPatch, product: bool, axes: int, target: str, kept: bool
) -> None:
    """tileiras 13.5 masks two rows alike with 8 worker warps."""
    texts: list[str] = []
    monkeypatch.setattr(assembler, "assemble", lambda data, *_, **__: texts.append(print_module(read(data))) or b"code")
    arrays = [np.zeros((16, 16), np.float32) for _ in range(3)]
    function = specialization(scattered, (*arrays, product, axes), "reference").function
    made = TileIRBackend(target).compile(function, {})
    assert ("num_worker_warps_per_cta = 8" in texts[0]) == kept
    assert made.artifact.fallback == (() if kept else ("the usual number of worker warps",))


@pytest.mark.parametrize(
    ("hints", "threads", "fallback"),
    (
        ({"occupancy": 2}, 384, ("no hints",)),
        ({"occupancy": 2}, 256, ()),
        ({"occupancy": 2}, 0, ()),  # registers without a limit
        ({"occupancy": 2, "num_worker_warps": 8}, 384, ()),
        ({"occupancy": 2, "num_worker_warps": ct.ByTarget(sm_100=8)}, 384, ("no hints",)),
        ({}, 384, ()),
    ),
)
def test_an_occupancy_that_registers_are_missing_for_is_left_out(
    monkeypatch: pytest.MonkeyPatch, hints: dict[str, Any], threads: int, fallback: tuple[str, ...]
) -> None:
    """tileiras 13.5 counts on four warps beside those that work on tiles; where there are more, the kernel has no
    end."""
    monkeypatch.setattr(assembler, "assemble", lambda *_, **__: b"code")
    monkeypatch.setattr(assembler, "threads_of_few_registers", lambda code: threads)
    function = specialization(ct.kernel(**hints)(scaled_sum.function), ARGUMENTS, "reference").function
    assert TileIRBackend("sm_90").compile(function, {}).artifact.fallback == fallback


@needs_assembler
def test_code_says_how_many_threads_share_registers() -> None:
    for hints, threads in (({"occupancy": 16}, 128), ({}, 0)):
        function = specialization(ct.kernel(**hints)(scaled_sum.function), ARGUMENTS, "reference").function
        code = TileIRBackend("sm_90").compile(function, {}).artifact.binary.code
        assert assembler.threads_of_few_registers(code) == threads


@needs_assembler
def test_what_the_assembler_does_not_know_is_refused() -> None:
    with (
        ct.use_backend("tileir"),
        pytest.raises(ValueError, match=r"sm_70 is not supported: tileiras [\d.]+ knows sm_80"),
    ):
        scaled_sum.compile_for("sm_70", ARGUMENTS)
    with pytest.raises(TileError, match=r"tileiras [\d.]+ refuses the kernel k for sm_90: "):
        assembler.assemble(b"no bytecode", "sm_90", "k")
    with pytest.raises(ValueError, match="has no option 'num_stages'"):
        TileIRBackend("sm_90").compile(specialization(scaled_sum, ARGUMENTS, "reference").function, {"num_stages": 2})


def test_what_the_assembler_lacks_is_named(tmp_path: Path) -> None:
    program, library = tmp_path / "bin" / "ptxas", tmp_path / "lib" / "libnvvm.so.4"
    for file in (program, library):
        file.parent.mkdir()
    said = assembler.lacking(tmp_path / "bin" / "tileiras")
    assert "it lacks" in said and "ptxas, as a program and libnvvm in " in said and "pip install" in said
    program.touch(0o755)
    assert "ptxas" not in assembler.lacking(tmp_path / "bin" / "tileiras")
    library.touch()
    assert not assembler.lacking(tmp_path / "bin" / "tileiras")


@needs_assembler
def test_toolkits_of_other_releases_are_in_nobodys_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        monkeypatch.setenv(name, str(tmp_path))
    function = specialization(scaled_sum, ARGUMENTS, "reference").function
    assert TileIRBackend("sm_90").compile(function, {}).artifact.binary.code.startswith(b"\x7fELF")


@needs_assembler
@pytest.mark.usefixtures("clean_imports")
def test_the_command_shows_what_it_compiles(capsys: pytest.CaptureFixture[str]) -> None:
    options = [o for argument in ("f32[64]", "f32[64]", "f32[64]", "2.0", "16") for o in ("--arg", argument)]
    assert main(["inspect", f"{Path(__file__)}::scaled_sum", *options, "--backend", "tileir", "--target", "sm_90"]) == 0
    assert "==== CUDA Tile IR\nentry @scaled_sum(" in capsys.readouterr().out


@needs_assembler
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_the_assembler_accepts_random_kernels(seed: int) -> None:
    for made in (generated(seed), generated_product(seed)):
        function = specialization(made.kernel(), arguments(made)[0], "reference").function
        for target in ("sm_90", "sm_100"):
            TileIRBackend(target).compile(function, {})
