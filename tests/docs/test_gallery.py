"""The gallery: its kernels run without a report, and its pages and pictures show what they did."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct

ROOT = Path(__file__).parents[2]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the generator, which finds the examples."""
    for folder in ("docs/generator", "examples"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
        for path in (ROOT / folder).glob("*.py"):  # commands load the kernels of such a file without the rest
            monkeypatch.delitem(sys.modules, path.stem, raising=False)
    yield importlib.import_module
    for name in ("harness", "gallery", "diagrams", "plots", "svg"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "examples").glob("*.py") if p.stem != "harness"))
def test_examples_are_clean(modules: Any, name: str) -> None:
    module = modules(name)
    try:
        with ct.sanitize() as report:
            for case in module.cases(small=True):
                case.ours()
        assert report.launches and report.clean, report.render()
    finally:
        sys.modules.pop(name, None)


def test_what_a_diagram_says_was_recorded(modules: Any) -> None:
    diagrams = modules("diagrams")
    recording = diagrams.recorded(diagrams._fill, (2, 3), (np.zeros((6, 9), np.float32), 4, 4))
    blocks = diagrams.touched(recording, "out", ("write",))
    assert np.array_equal(blocks, np.add.outer(np.arange(6) // 4, 2 * (np.arange(9) // 4)))
    assert (diagrams.touched(recording, "out", ("read",)) == -1).all()
    assert str(diagrams.blocks_of(recording, "out")).count("<rect") == 6 * 3


def test_diagrams(modules: Any) -> None:
    for name, draw in modules("diagrams").DIAGRAMS.items():
        text = draw()
        assert text.startswith('<figure class="tw-figure"><svg ') and "\n\n" not in text, name
        assert re.search(r'aria-label="\w', text) and ">nan<" not in text, name


def test_a_page_for_each_example(modules: Any) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[docs]'")
    gallery = modules("gallery")
    examples = {p.stem for p in (ROOT / "examples").glob("*.py")} - {"harness"}
    assert {entry.name for entry in gallery.ENTRIES} <= examples and len(gallery.ENTRIES) >= 12
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert all(f"gallery/{entry.name}.md" in navigation for entry in gallery.ENTRIES)
    entry = next(e for e in gallery.ENTRIES if e.name == "softmax")
    module = modules("softmax")
    page = gallery._page(entry, module, gallery._recordings(module)[0])
    assert "def softmax_rows(" in page and "def softmax_numpy(" not in page and "data:image/png;base64," in page
    assert "\n| softmax of rows | 4096 x 1024 f32 | " in page and "softmax-recording.html" in page
    assert "| ratio | tilewright | NumPy | torch | numba |" in page and "`python benchmarks/gallery.py" in page


def test_a_page_says_which_peer_is_faster(modules: Any) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[docs]'")
    said = modules("gallery")._faster_peer
    head = "| kernel | size | ratio | tilewright | NumPy | torch | numba |\n| --- |"
    assert said(head, "| sums | 9 | 0.50 | 2.00 | 3.00 | 1.00 |  |") == (
        "The fastest here is torch: sums takes tilewright 2.00 times as long."
    )
    assert said(head, "| sums | 9 | 0.98 | 1.02 |  | 1.00 | 4.00 |") == ""


def test_plots_have_the_colours_of_the_theme(modules: Any) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[docs]'")
    drawn = modules("plots").plot(lambda axes: axes.plot([0, 1], label="line"), 2, 1, "line", "a < b")
    assert drawn.startswith("<svg ") and drawn.endswith("</svg>") and "\n" not in drawn and 'label="a &lt; b"' in drawn
    assert "var(--md-default-fg-color)" in drawn and not re.search("#ffffff|white|#000000|#010203", drawn)
    assert "<style" not in drawn  # in a page it would be one for all of it


def test_every_case_of_the_gallery_was_measured(modules: Any) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[docs]'")
    gallery = modules("gallery")
    _, _, rows = gallery._results()
    cases = {name for entry in gallery.ENTRIES for name in gallery._cases(modules(entry.name))}
    assert set(rows) == cases
    for name in ("vector_add", "attention", "nbody"):  # and PyTorch and Numba computed most of them, too
        assert all(rows[case].split("|")[-3:-1] != ["  ", "  "] for case in gallery._cases(modules(name)))
