"""Loops without products have loads that run ahead, and keep the order of what they store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled

import tilewright as ct
from tilewright.analysis.gpu.pipelinable_loops import choose_num_stages, find_pipelinable_loops
from tilewright.analysis.gpu.target import parse_target
from tilewright.ir.hints import ByTarget
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
from tilewright.transforms.pipelines import optimize

pytest.importorskip("triton", reason="the package triton is not installed")

HOPPER = parse_target("sm_90")
ROWS, LINE = np.empty((512, 1024), np.float16), np.empty(4096, np.float32)


def scaled_with(latency: Any) -> Launchable:
    @ct.kernel
    def scaled(x, out, N: ct.Constant[int]):
        for i in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
            row = ct.load(x, (i, 0), (1, N), latency=latency).astype(ct.float32)
            ct.store(out, (i, 0), (row / ct.sum(row)).astype(out.dtype), latency=3)

    return scaled


scaled = scaled_with(None)


@ct.kernel
def total(x, out, N: ct.Constant[int]):
    found = ct.zeros((1, N), ct.float32)
    for i in range(ct.cdiv(x.shape[1], N)):
        found = found + ct.load(x, (ct.bid(0), i), (1, N))
    ct.store(out, (ct.bid(0),), ct.sum(found, axis=1))


@ct.kernel
def smoothed(x, out, n, OTHER: ct.Constant[bool]):
    """Each iteration loads what the one before stored, or not."""
    source = x if OTHER else out
    for i in range(n):
        ct.store(out, (i + 1,), ct.load(source, (i,), (1024,)) * 0.5)


@ct.kernel
def copied_first(x, y, out, n, OTHER: ct.Constant[bool]):
    """What is stored before the loop, by threads in another order, is loaded in it, or not."""
    ct.scatter(y, 1023 - ct.arange(1024, dtype=ct.int32), ct.load(x, (0,), (1024,)))
    found = ct.zeros((1024,), ct.float32)
    for i in range(n):
        found = found * 0.5 + ct.load(x if OTHER else y, (i,), (1024,))
    ct.store(out, (0,), found)


@ct.kernel
def overlapping(x, out, n, T: ct.Constant[int]):
    """The rows of the result overlap."""
    for i in range(n):
        ct.scatter(out, i * 32 + (T - 1 - ct.arange(T, dtype=ct.int32)), ct.load(x, (i, 0), (1, T)).reshape((T,)))


@ct.kernel
def product(a, b, c):
    for i in range(ct.bid(0), ct.cdiv(c.shape[0], 64), ct.num_blocks(0)):
        ct.store(c, (i, 0), (ct.load(a, (i, 0), (64, 64)) @ ct.load(b, (0, 0), (64, 64))).astype(c.dtype))


def stages(kernel: Launchable, args: tuple[Any, ...], target: str = "sm_90", **options: Any) -> list[int]:
    """The stages of the loops of ``kernel`` that may run ahead."""
    function = optimize(specialization(kernel, args, "reference").function)
    gpu = parse_target(target)
    streams = find_pipelinable_loops(function, gpu, descriptors=True, realign=True)
    found = choose_num_stages(streams, gpu, options)
    return [found[stream.loop].stages if stream.loop in found else 1 for stream in streams]


def choices(texts: Mapping[str, str]) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in texts["compile decisions"].splitlines())


DEPTH = "pipeline stages of loops without MMA ops"


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("given", [None, 1, 2, 3, 5])
@pytest.mark.parametrize(("kernel", "args"), [(scaled, (ROWS, ROWS, 1024)), (total, (ROWS, LINE, 1024))])
def test_loads_start_as_many_iterations_early_as_there_are_stages(
    kernel: Launchable, args: tuple[Any, ...], given: int | None, target: str
) -> None:
    texts = compiled(kernel, args, target, **({"num_stages": given} if given else {})).binary.texts
    before, inside = texts["TTGIR"].split("scf.for", 1)
    depth = given or 4
    assert choices(texts)[DEPTH] == str(depth)
    assert before.count("ttg.async_copy_global_to_local") == depth - 1
    assert inside.count("ttg.async_copy_global_to_local") == (depth > 1)
    assert ("cp.async." in texts["PTX"]) == (depth > 1)


def test_which_loops_run_ahead() -> None:
    assert stages(smoothed, (LINE, LINE, 3, True)) == [4]
    assert stages(smoothed, (LINE, LINE, 3, False)) == []  # loads what it stored
    assert stages(product, (ROWS[:, :64], ROWS[:64, :64], ROWS[:, :64])) == []  # Triton's own
    assert stages(scaled, (ROWS, ROWS, 1024), "gfx942") == []
    assert stages(scaled, (ROWS, ROWS, 64)) == []  # not worth it


@pytest.mark.parametrize("width", [1024, 2048, 4096, 8192, 16384])
@pytest.mark.parametrize("latency", [None, 1, 5, 6, 10, ByTarget(sm_80=10, default=1)])
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_how_deep_the_pipelines_are(width: int, latency: Any, target: str) -> None:
    """Deeper ones leave room for eight blocks, and are there by default or where the hint asks for them."""
    hint = latency.resolve(target) if isinstance(latency, ByTarget) else latency
    room = 3 * 2 * width <= parse_target(target).shared_memory // 8
    (found,) = stages(scaled_with(latency), (ROWS, ROWS, width), target)
    assert found == (4 if room and (hint is None or hint >= 6) else 3)
    assert stages(scaled_with(latency), (ROWS, ROWS, width), target, num_stages=2) == [2]


@pytest.mark.parametrize(("trip_count", "wanted"), [(1, []), (16, []), (17, ["4"]), (None, ["4", "1"])])
def test_loops_of_few_iterations_are_not_pipelined(trip_count: int | None, wanted: list[str]) -> None:
    """Where their number is not known, the kernel has the loop in both forms."""
    known = trip_count is not None

    @ct.kernel
    def summed(x, out, n):
        found = ct.zeros((1, 1024), ct.float32)
        for i in range(trip_count if known else n):
            found = found + ct.load(x, (ct.bid(0), i), (1, 1024))
        ct.store(out, (ct.bid(0), 0), found.astype(out.dtype))

    texts = compiled(summed, (ROWS, ROWS, 7), "sm_90").binary.texts
    assert re.findall(r"tt.num_stages = (\d+)", texts["TTIR"]) == wanted
    assert choices(texts)[DEPTH] == (wanted or ["1"])[0]
    again = compiled(summed, (ROWS, ROWS, 7), "sm_90", num_stages=3).binary.texts["TTIR"]
    assert re.findall(r"tt.num_stages = (\d+)", again) == ["3"]


@ct.kernel
def entropies(x, out, T: ct.Constant[int]):
    """Each iteration hands on what it has folded."""
    top, total = ct.full((1, 1), -1e30, ct.float32), ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(x.shape[1], T)):
        values = ct.load(x, (ct.bid(0), j), (1, T)).astype(ct.float32)
        new = ct.maximum(top, ct.max(values, axis=1, keepdims=True))
        total = total * ct.exp(top - new) + ct.sum(ct.exp(values - new), axis=1, keepdims=True)
        top = new
    ct.store(out, (ct.bid(0),), (top + ct.log(total)).reshape((1,)))


@pytest.mark.parametrize(("width", "warps"), [(1024, 4), (4096, 4), (8192, 8)])
def test_loops_that_hand_on_folds_leave_the_gaps_to_other_blocks(width: int, warps: int) -> None:
    args = np.empty((64, 1 << 17), np.float16), LINE, width
    assert stages(entropies, args) == []
    assert compiled(entropies, args, "sm_90").binary.num_warps == warps


def test_hints_that_have_an_effect() -> None:
    def ignored(latency: Any, target: str = "sm_90", **options: Any) -> str:
        made = compiled(scaled_with(latency), (ROWS, ROWS, 1024), target, **options)
        return choices(made.binary.texts)["ignored hints"]

    assert ignored(2) == "none"
    assert ignored(2, num_stages=1) == ignored(2, num_stages=3) == "latency"
    assert ignored(2, "gfx942") == "latency"
    assert ignored(None) == "latency"  # that of the store


@pytest.mark.parametrize("other", [False, True])
def test_what_is_stored_before_a_loop_is_waited_for_before_it(other: bool) -> None:
    text = compiled(copied_first, (LINE, LINE.copy(), LINE.copy(), 4, other), "sm_90").binary.texts["TTIR"]
    before, inside = text.split("scf.for", 1)
    body = inside[: inside.index("scf.yield")]
    assert ("gpu.barrier" in before[before.index("tt.store") :]) == (not other)
    assert "tt.load" in body and "gpu.barrier" not in body and "bar.sync" not in body


@pytest.mark.parametrize("given", [1, 3, 4])
def test_stores_of_two_iterations_stay_in_order(given: int) -> None:
    """A barrier is between them in the machine's form, though the loads run ahead of it."""
    texts = compiled(
        overlapping, (ROWS, np.empty(1 << 16, np.float16), 4, 1024), "sm_90", num_stages=given
    ).binary.texts
    assert ("ttg.async_copy_global_to_local" in texts["TTGIR"]) == (given > 1)
    ptx = re.sub(r"//.*", "", texts["PTX"])
    labels = [m.start() for m in re.finditer(r"^\$L__BB0_\d+:", ptx, re.MULTILINE)]
    (back,) = [m for m in re.finditer(r"bra\s+(\$L__BB0_\d+);", ptx) if ptx.index(f"\n{m[1]}:") < m.start()]
    loop = ptx[ptx.index(f"\n{back[1]}:") : back.end()]
    assert labels and "st.global" in loop
    assert re.search(r"bar\.sync\s+0;(?:(?!cp\.async\.c)[\s\S])*st\.global", loop)


def test_tiles_that_leave_no_room_are_loaded_when_they_are_used() -> None:
    rows = np.empty((64, 32768), np.float32)
    texts = compiled(scaled_with(10), (rows, rows, 32768), "sm_90").binary.texts
    assert choices(texts)[DEPTH] == "1" and choices(texts)["ignored hints"] == "latency"
    with pytest.raises(ct.TileError, match="shared memory.*fewer num_stages may do"):
        compiled(scaled_with(10), (rows, rows, 32768), "sm_90", num_stages=4)


@pytest.mark.parametrize(("width", "warps"), [(1024, 4), (4096, 4), (8192, 8), (16384, 8), (32768, 16)])
def test_loops_that_carry_nothing_have_few_warps(width: int, warps: int) -> None:
    texts = compiled(scaled, (ROWS, ROWS, width), "sm_90", **({"num_stages": 3} if width < 32768 else {}))
    assert texts.binary.num_warps == warps
