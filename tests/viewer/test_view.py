"""``ct.view``, and what notebooks show."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest

import tilewright as ct
from tilewright.sanitizer import Report
from tilewright.viewer import progress


@ct.kernel
def double(x):
    ct.store(x, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,), padding_mode=ct.PaddingMode.ZERO) * 2)


@ct.kernel
def racy(x):
    ct.store(x, (0,), ct.load(x, (ct.bid(0) * 0,), (4,)))


def test_a_block_and_a_call_record_the_same(tmp_path: Path) -> None:
    x = np.arange(8.0)
    with ct.view(title="two & more") as seen:
        ct.launch(None, (2,), double, (x,))
    assert list(x) == [0, 2, 4, 6, 8, 10, 12, 14], "the launch happens"
    other = ct.view(lambda: ct.launch(None, (2,), double, (np.arange(8.0),)), title="two & more")
    assert seen.page() == other.page()
    assert repr(seen) == "<view of 1 launch, 4 accesses; 1 launch checked: no violation>"
    assert seen.save(tmp_path / "page.html").read_text() == seen.page()
    (frame,) = re.findall(r'srcdoc="([^"]*)"', seen._repr_html_())
    assert html.unescape(frame) == seen.page()


def test_the_page_is_written_when_the_block_fails(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    with pytest.raises(KeyError), ct.view(output=file) as seen:
        ct.launch(None, (2,), racy, (np.arange(8.0),))
        raise KeyError
    assert "racy" in file.read_text() and not seen.report.clean


def test_mistakes() -> None:
    with pytest.raises(TypeError, match="records the launches of a function without parameters, not 3; pass a lambda"):
        ct.view(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="limit is 0; it must be 1 or more"):
        ct.view(limit=0)
    with pytest.raises(ValueError, match="schedule"), ct.view(schedule="sideways"):
        pass
    with ct.view() as seen:
        pass
    with pytest.raises(ValueError, match="no kernel was launched"):
        seen.page()
    assert seen._repr_html_() == "<pre>&lt;view of 0 launches, 0 accesses; 0 launches checked: no violation&gt;</pre>"


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    ct.view(lambda: ct.launch(None, (2,), double, (np.arange(8.0),)))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    ct.view(lambda: ct.launch(None, (2,), double, (np.arange(8.0),)))
    said = capsys.readouterr().err
    assert "recording double [############............] 1/2 blocks" in said and said.endswith("\r\033[K")


def test_displays_of_kernels_functions_and_reports() -> None:
    ct.launch(None, (2,), double, (np.arange(8.0),))
    (found, *_) = double.inspect().specializations
    assert "double(x)" in double._repr_html_() and ". optimized Tile IR</summary>" in double._repr_html_()
    function = found.function
    assert repr(function).startswith("<IR function double of 2 parameters, ")
    assert function._repr_html_() == f"<pre>{html.escape(str(function))}</pre>" and "load_view" in str(function)
    assert Report()._repr_html_() == "<p>0 launches checked: no violation</p>"
    with ct.sanitize() as report:
        ct.launch(None, (2,), racy, (np.arange(8.0),))
    shown = report._repr_html_()
    assert shown.count("<details open>") == 1 and html.escape(report.violations[0].render()) in shown
    assert repr(report) == f"<report of {report.summary()}>"


CELL = """
import numpy as np, tilewright as ct

@ct.kernel
def wrong(x):
    ct.store(x, (0,), ct.load(x, (0,), (3,)))

ct.launch(None, (1,), wrong, (np.ones(8),))
"""


def test_errors_in_a_cell_show_its_lines_only(capsys: pytest.CaptureFixture[str]) -> None:
    shell = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed").InteractiveShell()
    shell.run_cell(CELL, store_history=True)
    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "ct.store(x, (0,), ct.load(x, (0,), (3,)))" in said and "ct.launch(None, (1,), wrong" in said
    assert "dimension 0 of the tile shape" in said
    inside = Path(ct.__file__).parent
    assert str(inside) not in said and len(said.splitlines()) < 14, said
