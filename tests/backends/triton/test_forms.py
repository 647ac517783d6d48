"""Products have forms with more stages for grids that put few blocks on an SM."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.driver import Driver, executable

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.backends.triton import backend
from tilewright.backends.triton.resources import OutOfSharedMemory
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.executable import GpuExecutable
from tilewright.runtime.arguments import RUNTIME_SLOT
from tilewright.runtime.cached_launch import cached_launch
from tilewright.runtime.compiling import compiled
from tilewright.runtime.launch import specialization
from tilewright.runtime.rules import Rule

DEFAULT, SHARED = 16, 300  # the handle and the bytes of the form for many blocks
GRIDS = [
    (1, 1, 1),
    (132, 1, 1),
    (66, 2, 1),
    (133, 1, 1),
    (11, 12, 2),
    (3, 89, 1),
    (264, 1, 1),
    (265, 1, 1),
    (500, 9, 9),
]


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(driver, "load", lambda: found)
    monkeypatch.setattr(driver, "device", lambda index: found)
    return found


def wanted(grid: tuple[int, int, int], depths: tuple[int, int]) -> tuple[int, int]:
    per_processor = -(-int(np.prod(grid)) // 132)
    stages = depths[per_processor - 1] if per_processor <= 2 else 0
    return (stages, 100 * stages) if stages else (DEFAULT, SHARED)


@pytest.mark.parametrize("depths", [(8, 4), (8, 0), (0, 5), (6, 6), (0, 0)])
def test_the_form_is_that_for_the_grid(looking: Driver, depths: tuple[int, int]) -> None:
    made = executable(("u64", "i32"), looking, depths=depths, shared=SHARED)
    for grid in GRIDS + GRIDS[::-1]:
        arguments = LaunchArguments((64, 5), (), 0, 0)
        made.launch(grid, LaunchArguments((64, 5), (), 0, 0))
        made.launch(grid, arguments)
        made.bind(grid, arguments)()
        assert looking.forms[-3:] == [wanted(grid, depths)] * 3, grid
        assert [launch[0] for launch in looking.launches[-3:]] == [grid] * 3


def by_machine_code(made: Any) -> Callable[..., bool]:
    rules, template = (Rule(), Rule()), (RUNTIME_SLOT, RUNTIME_SLOT)
    found = cached_launch(None, rules, (np.zeros(64, np.float32), 1), template, made, 0)
    assert found is not None
    return found


@pytest.mark.parametrize("depths", [(8, 4), (8, 0), (0, 5), (6, 6)])
def test_machine_code_starts_the_forms_that_are_there(looking: Driver, depths: tuple[int, int]) -> None:
    args = np.zeros(64, np.float32), 1
    made = executable(("u64", "i32"), looking, depths=depths, shared=SHARED)
    launch = by_machine_code(made)
    for grid in GRIDS:
        assert launch(None, grid, args, None) == (wanted(grid, depths)[0] == DEFAULT), grid
    for grid in GRIDS:
        made.launch(grid, LaunchArguments((64, 1), (), 0, 0))
    launch = by_machine_code(made)
    looking.forms.clear()
    for grid in GRIDS:
        assert launch(None, grid, args, None)
    assert looking.forms == [wanted(grid, depths) for grid in GRIDS]


@ct.kernel
def skinny(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    j, i = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(a.shape[1], TK)):
        x, y = ct.load(a, (i, k), (TM, TK)), ct.load(b, (k, j), (TK, TN))
        if a.dtype == ct.float32:
            x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


HALF, SINGLE = (np.zeros((512, 512), dtype) for dtype in (np.float16, np.float32))


def depth(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"^pipeline stages(?: with .*)?: (\d+)$", text, re.MULTILINE)]


@pytest.mark.parametrize(
    ("array", "shape", "stages"),
    [
        (HALF, (64, 64, 64), [3, 8, 7]),
        (HALF, (64, 128, 64), [3, 8, 4]),
        (HALF, (64, 64, 128), [3, 7]),
        (HALF, (128, 256, 64), [4]),
        (SINGLE, (64, 64, 32), [3, 8, 8]),  # whose right operands go through registers
        (SINGLE, (128, 64, 32), [3, 8, 5]),
    ],
)
def test_forms_of_a_product(array: Any, shape: tuple[int, int, int], stages: list[int]) -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    made = skinny.compile_for("sm_90", (array, array, array, *shape))
    assert depth(made.stage("compile decisions")) == stages


@ct.kernel
def few_steps(a, b, c):
    total = ct.zeros((64, 64), ct.float32)
    for k in range(5):
        total = ct.mma(ct.load(a, (0, k), (64, 64)), ct.load(b, (k, 0), (64, 64)), total)
    ct.store(c, (0, 0), total.astype(c.dtype))


def test_no_more_stages_than_steps() -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    assert depth(few_steps.compile_for("sm_90", (HALF, HALF, HALF)).stage("compile decisions")) == [3, 5, 5]


def test_a_form_has_no_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the tiles do not fit, and the kernel is compiled in simpler ways."""
    pytest.importorskip("triton", reason="the package triton is not installed")
    function = specialization(skinny, (HALF, HALF, HALF, 64, 64, 64), "reference").function
    fit, tried = backend.compile_with_fallbacks, list[str]()

    def failing(*arguments: Any) -> Any:
        tried.append("another way")
        if len(tried) == 1:
            raise OutOfSharedMemory(1 << 20)
        return fit(*arguments)

    monkeypatch.setattr(backend, "compile_with_fallbacks", failing)
    made = backend.compile_for(function, parse_target("sm_90"), {}, Constraints(stages=8))
    assert len(tried) == 2 and made.descriptors
    assert made.depths == (0, 0) and depth(made.binary.texts["compile decisions"]) == [8]


def test_who_asks_for_stages_gets_them() -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    asked = skinny.replace_options("triton", num_stages=5).compile_for("sm_90", (HALF, HALF, HALF, 64, 64, 64))
    assert depth(asked.stage("compile decisions")) == [5]


def test_what_the_disk_cache_holds_has_forms() -> None:
    made = executable(("u64",), Driver(), depths=(8, 4))._first.artifact
    assert Artifact.from_bytes(made.to_bytes()).depths == (8, 4)


def test_forms_are_kept_for_later_processes(tmp_path: Path, looking: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="the package triton is not installed")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    compiling = backend.TritonBackend(parse_target("sm_90"))
    function = specialization(skinny, (HALF, HALF, HALF, 64, 64, 64), "reference").function

    def form() -> GpuExecutable:
        made: Any = compiled(function, compiling, {})[0]
        variant = made.variant_for((8, 1, 1), looking.processors)
        assert variant is not None
        found, _ = compiled(function, compiling, {}, variant)
        assert isinstance(found, GpuExecutable)
        return found

    first = form()
    assert first.artifact.depths == (0, 0) and first.artifact.binary.shared_bytes > 8 * 16384
    monkeypatch.setattr(backend, "compile_for", lambda *_, **__: pytest.fail("compiled again"))
    assert form().artifact == replace(first.artifact, binary=replace(first.artifact.binary, texts={}))
