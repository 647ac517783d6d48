"""``tilewright inspect --perf`` and ``--plot``: how much a kernel does, and how near a run comes to the machine."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import limits
from tilewright.cli import main
from tilewright.cli.errors import MISUSE
from tilewright.cli.roofline import Level, Roof, Run, draw, least_traffic, roof_above

EXAMPLES = Path(__file__).parents[2] / "examples"
ADD = [str(EXAMPLES / "vector_add.py::vector_add"), *["--arg", "f32[1024]"] * 3, "--arg", "256"]

ROOF = Roof((Level("L1", 1 << 16, 1e11), Level("memory", float("inf"), 1e10)), 1e12)


@ct.kernel
def product(a, b, c, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((T, T), ct.float32)
    for k in range(ct.num_tiles(a, 1, (T, T))):
        total = ct.mma(ct.load(a, (i, k), (T, T)), ct.load(b, (k, j), (T, T)), total)
    ct.store(c, (i, j), total)


@ct.kernel
def as_often_as_it_says(counts, out):
    total = ct.zeros((16,), ct.float32)
    for _ in range(ct.gather(counts, 0)):
        total += 1
    ct.store(out, (0,), total)


def test_work_of_a_matrix_product() -> None:
    a, b, c = np.ones((64, 96), np.float32), np.ones((96, 32), np.float32), np.ones((64, 32), np.float32)
    work = product.work((4, 2), (a, b, c, 16))
    assert work.flops == 2 * 64 * 32 * 96
    assert work.moved == 4 * (64 * 96 * 2 + 96 * 32 * 4 + 64 * 32)


def test_work_that_is_not_known() -> None:
    args = np.ones(1, np.int32), np.ones(16, np.float32)
    with pytest.raises(ValueError, match="a loop runs as often as"):
        as_often_as_it_says.work((1,), args)
    with pytest.raises(ValueError, match="does not tell how much a kernel computes"):
        as_often_as_it_says.work((1,), args, "reference")


def test_perf_lists_the_loop_nests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *ADD, "--perf"]) == 0
    shown = capsys.readouterr().out
    (row,) = re.findall(r"^ +1 .*$", shown, re.MULTILINE)
    number, _, elements, lanes, bits, flops, moved, spills, *rest = row.split()
    assert (number, elements, flops, moved) == ("1", "256", "256", "3072")
    assert int(bits.rstrip("b")) == 32 * int(lanes) and int(spills) >= 0
    assert " ".join(rest) == "once a block load_view load_view add store_view"
    assert re.search(r"peak memory: \d+ bytes of scratch memory for each thread", shown)


def test_plot_runs_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Roof, "measure", staticmethod(lambda: ROOF))
    picture = tmp_path / "add.svg"
    assert main(["inspect", *ADD, "--plot", str(picture), "--grid", "4"]) == 0
    assert "% of the limit of L1, 100.0 GB/s" in capsys.readouterr().out
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_a_copy_has_no_roofline() -> None:
    with pytest.raises(ValueError, match="needs floating-point operations"):
        draw(Run("copy", 0, 100, 1.0), ROOF)


def test_a_run_is_bounded_by_the_level_that_holds_its_arrays_or_by_arithmetic() -> None:
    assert ROOF.limit(Run("near", 1e3, 1 << 16, 1.0)) == ("L1, 100.0 GB/s", (1 << 16) / 1e11)
    assert ROOF.limit(Run("far", 1e3, 1 << 17, 1.0)) == ("memory, 10.0 GB/s", (1 << 17) / 1e10)
    assert ROOF.limit(Run("busy", 1e12, 1 << 17, 1.0)) == ("arithmetic, 1000 GFLOP/s", 1.0)
    x = np.ones(100, np.float32)
    assert (least_traffic(1e6, (x, x, 3)), least_traffic(100, (x,))) == (800, 100)


def test_a_roof_below_the_run_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    roofs = [Roof((Level("memory", float("inf"), speed),), 1e3) for speed in (1.0, 50.0, 20.0)]
    monkeypatch.setattr(Roof, "measure", staticmethod(lambda: roofs.pop(0)))
    assert roof_above(Run("run", 1, 100, 4.0)).levels[0].bandwidth == 50.0
    assert len(roofs) == 1, "no more than it takes"


def test_no_run_is_above_the_roof_however_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Roof, "measure", staticmethod(lambda: ROOF))
    for run in (Run("near", 1e3, 1 << 16, 1e-9), Run("far", 1e3, 1 << 17, 1e-9), Run("arithmetic", 1e13, 1 << 17, 1.0)):
        roof = roof_above(run)
        assert roof.limit(run)[1] == pytest.approx(run.seconds)
        assert sum(a is not b for a, b in zip(roof.levels, ROOF.levels)) <= 1, "of its own level only"


def test_the_picture_has_a_slope_for_each_level_and_the_point_below(tmp_path: Path) -> None:
    run = Run("a<b", 1e9, 1e8, 0.5)
    root = ElementTree.fromstring(draw(run, ROOF))
    texts = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert {"L1: 100.0 GB/s", "memory: 10.0 GB/s, which holds the arrays", "a<b: 2.0 GFLOP/s"} <= set(texts)
    (circle,) = (e for e in root.iter() if e.tag.endswith("circle"))
    (dashed,) = (e for e in root.iter() if "stroke-dasharray" in e.attrib)
    assert float(dashed.attrib["y1"]) == float(circle.attrib["cy"]) > float(dashed.attrib["y2"]), "y grows downwards"


def test_the_limits_of_this_machine() -> None:

    levels = limits.levels(1)
    assert [level.name for level in levels][-1] == "memory" and all(level.bandwidth > 0 for level in levels)
    assert [level.holds for level in levels] == sorted(level.holds for level in levels)


BENCH = ["bench", *ADD, "--grid", "4", "--seconds", "0.01"]


def test_bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Roof, "measure", staticmethod(lambda: ROOF))
    assert main([*BENCH, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kernel"], found["flops"], found["bytes"], found["grid"]) == ("vector_add", 1024, 12288, [4, 1, 1])
    assert found["calls"] >= 5 and 0 < found["low"] <= found["median"] <= found["high"]
    assert main([*BENCH, "--backend", "reference"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("vector_add: median ") and "no limit is known: the backend does not tell" in said


def test_bench_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", ADD[0], "--arg", "f32[8]"]) == MISUSE
    assert "takes 4 --arg (a, b, out, TILE), not 1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*BENCH, "--seconds", "soon"])
    assert "'soon' is no time; write seconds" in capsys.readouterr().err
