"""``tilewright inspect --perf`` and ``--plot``: how much a kernel does, and how near a run comes to the machine."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import tilewright as ct
from tilewright.cli import main
from tilewright.cli.roofline import Roof, Run, draw

EXAMPLES = Path(__file__).parents[2] / "examples"
ADD = [str(EXAMPLES / "vector_add.py::vector_add"), *["--arg", "f32[1024]"] * 3, "--arg", "256"]


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
    monkeypatch.setattr(Roof, "measure", staticmethod(lambda footprint: Roof(1e10, 1e11)))
    picture = tmp_path / "add.svg"
    assert main(["inspect", *ADD, "--plot", str(picture), "--grid", "4"]) == 0
    assert "of the roof" in capsys.readouterr().out
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_a_copy_has_no_roofline() -> None:
    with pytest.raises(ValueError, match="needs floating-point operations"):
        draw(Run("copy", 0, 100, 1.0), Roof(1, 1))
