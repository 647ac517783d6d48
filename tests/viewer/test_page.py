"""The page of ``tilewright view``, in a real browser without a window.

The tests look for Chromium or Chrome on the path, and are skipped where there is none.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.png import read_png

from tilewright.cli import main
from tilewright.cli.errors import FAILED, MISUSE

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium or Chrome on the path")

PROGRAM = """\
import sys
import numpy as np
import tilewright as ct


@ct.kernel
def transposed(x, out):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (i, j), (16, 16), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (j, i), ct.transpose(tile))


@ct.kernel
def racy(total):
    ct.scatter(total, 1, ct.gather(total, 1) + ct.bid(0))
    ct.atomic_add(total, 0, 1)


x = np.zeros((100, 60), np.float32)
ct.launch(None, (7, 4), transposed, (x, np.zeros((60, 100), np.float32)))
ct.launch(None, (4,), racy, (np.zeros(4, np.int32),))
if len(sys.argv) > 1:
    n = int(sys.argv[1])
    ct.launch(None, (n // 16, n // 16), transposed, (np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)))
"""
READ, WRITE, BOTH, ATOMIC, BAD, VOID = (0x0072B2, 0xE69F00, 0x009E73, 0xCC79A7, 0xD12B00, 0xE8EBF0)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def view(program: Path, *arguments: str) -> Path:
    output = program.with_suffix(".html")
    assert main(["view", "-o", str(output), str(program), *arguments]) == 0
    return output


def browse(page: Path, state: str, *options: str) -> str:
    assert BROWSER is not None
    command = [
        BROWSER,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1400,900",
    ]
    command += [f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=20000", "--enable-logging=stderr"]
    done = subprocess.run([*command, *options, f"file://{page}#{state}"], capture_output=True, text=True, timeout=300)
    assert "Uncaught" not in done.stderr, done.stderr
    return done.stdout


def text_of(page: Path, state: str, script: str = "") -> str:
    """The text of the page at ``state``, after ``script`` has done what a reader might."""
    if script:
        body = page.read_text().replace("start();\n\n</script>", f"start();\n{script}\n</script>")
        assert script in body
        page = page.with_name("driven.html")
        page.write_text(body)
    dom = browse(page, state, "--dump-dom")
    assert 'data-ready="yes"' in dom
    dom = re.sub(r"<(script|style|select|pre).*?</\1>", "", dom, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", dom)).split())


def colours(page: Path, state: str) -> dict[int, int]:
    """How many pixels of a screenshot have each colour."""
    picture = page.with_suffix(".png")
    browse(page, state, f"--screenshot={picture}")
    image = read_png(picture)[..., :3].astype(np.int64)
    found, counts = np.unique(image @ [65536, 256, 1], return_counts=True)
    return dict(zip(found.tolist(), counts.tolist()))


def test_the_page_is_self_contained(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = view(program)
    text = page.read_text()
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://|fetch\(""", text)
    assert "2 launches, 68 accesses; 2 launches checked: 2 violations" in capsys.readouterr().out


@needs_browser
def test_what_the_page_says(program: Path) -> None:
    page = view(program)
    text = text_of(page, "launch=0&step=13")
    assert "grid (7, 4, 1) · 56 accesses · no violation" in text
    assert "x float32 (100, 60) 1,600 of 6,000 elements touched" in text  # six tiles and one cut off below
    assert "block (6, 0, 0) read 64 elements of x padding 192 elements of the tile outside" in text
    assert "program.py:9 in transposed" in text and "13 of 56" in text
    text = text_of(page, "")  # the first launch with violations, at its end
    assert "6 violations" in text and "data-race line 15 · block (1, 0, 0) · 1 of 3" in text
    assert "2 of 4 elements touched" in text


@needs_browser
def test_pictures(program: Path) -> None:
    page = view(program)
    seen = colours(page, "launch=0&step=56")
    assert seen[READ] > 20_000 and seen[WRITE] > 20_000 and BAD not in [c for c, n in seen.items() if n > 300]
    seen = colours(page, "launch=0&step=1")
    assert seen[READ] > 500 and seen[VOID] > 40_000  # one tile of x, and nothing of the other array
    seen = colours(page, "launch=1")
    assert seen[ATOMIC] > 5_000 and seen[BAD] > 5_000


@needs_browser
def test_stepping_zooming_and_pointing(program: Path) -> None:
    script = """
    setTimeout(() => {
      const press = key => dispatchEvent(new KeyboardEvent("keydown", { key }));
      const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
      const at = { clientX: box.left + 3, clientY: box.top + 3, deltaY: -600, bubbles: true, cancelable: true };
      press("Home"); press("ArrowRight"); press("ArrowRight"); press("ArrowRight"); press("ArrowLeft");
      canvas.dispatchEvent(new WheelEvent("wheel", at));
      canvas.dispatchEvent(new PointerEvent("pointermove", at));
      const shown = document.createElement("p");
      shown.textContent = `zoom ${view.pictures[0].zoom > 4}; moment ${view.recording.now}`;
      document.body.append(shown);
    }, 3000);
    """
    text = text_of(view(program), "launch=0", script)
    assert "zoom true; moment 2" in text and "2 of 56" in text
    assert re.search(r"x\[0, 0\] = \S+ after the launch read by block \(0, 0, 0\), access 1, line 9", text)


@needs_browser
def test_a_million_elements(program: Path) -> None:
    """Every moment is computed anew from the stored ones, also backwards."""
    script = """
    setTimeout(() => {
      const { recording } = view, sums = [];
      for (const moment of [recording.size, 4000, 100, 8000, 0]) {
        recording.seek(moment);
        sums.push(recording.arrays[0].last.reduce((n, e) => n + (e >= 0), 0));
      }
      const shown = document.createElement("p");
      shown.textContent = `touched ${sums.join(" ")}`;
      document.body.append(shown);
    }, 5000);
    """
    page = view(program, "1024")
    assert page.stat().st_size < 500_000
    text = text_of(page, "launch=2", script)
    assert "1,048,576 of 1,048,576 elements touched" in text
    assert f"touched {1024 * 1024} {2000 * 256} {50 * 256} {4000 * 256} 0" in text


def test_a_program_that_fails_is_shown_too(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(PROGRAM + "\nraise KeyError('late')\n")
    output = program.with_suffix(".html")
    assert main(["view", "-o", str(output), str(program)]) == FAILED
    said = capsys.readouterr().err
    assert said.startswith(f'Traceback (most recent call last):\n  File "{program}"') and "KeyError: 'late'" in said
    assert "transposed" in output.read_text()


def test_mistakes(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(program.with_name("missing.py"))]) == MISUSE
    assert "there is no program" in capsys.readouterr().err
    assert main(["view", "-o", str(program / "no" / "folder.html"), str(program)]) == MISUSE
    assert "cannot write" in capsys.readouterr().err
    program.write_text("print('nothing to see')")
    assert main(["view", str(program)]) == MISUSE
    assert "launched no kernel" in capsys.readouterr().err
