"""Errors that nothing catches are shown with the lines of the program, and nothing of this package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as ct
from tilewright.ir.diagnostics import colored, render, wants_full_traceback
from tilewright.ir.location import Loc

PROGRAM = """\
import numpy as np, tilewright as ct

@ct.kernel
def k(x):
    ct.store(x, (0,), ct.laod(x, (0,), (16,)))

def main():
    ct.launch(None, (1,), k, (np.zeros(16, np.float32),))

{run}
"""
SHORT = """\
Traceback (most recent call last):
  File "PROGRAM", line 10, in <module>
    main()
  File "PROGRAM", line 8, in main
    ct.launch(None, (1,), k, (np.zeros(16, np.float32),))
TileTypeError: PROGRAM:5:23: the module tilewright has no 'laod'; did you mean ct.load?
  --> PROGRAM:5 in k
    5 |     ct.store(x, (0,), ct.laod(x, (0,), (16,)))
      |                       ^^^^^^^
"""


def shown(folder: Path, run: str = "main()", **environment: str) -> str:
    program = folder / "program.py"
    program.write_text(PROGRAM.format(run=run))
    variables = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | environment
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, env=variables, timeout=300)
    assert done.returncode == 1 and not done.stdout
    return re.sub(r"\n +~*\^+~*(?=\n  File|\n(?:\x1b\[[\d;]*m)?Tile)", "", done.stderr.replace(str(program), "PROGRAM"))


def test_lines_of_the_program_only(tmp_path: Path) -> None:
    assert shown(tmp_path) == SHORT


def test_colours_where_they_are_asked_for(tmp_path: Path) -> None:
    text = shown(tmp_path, FORCE_COLOR="1")
    assert "\x1b[1;31mTileTypeError\x1b[0m" in text and re.sub(r"\x1b\[[\d;]*m", "", text) == SHORT
    assert shown(tmp_path, FORCE_COLOR="1", NO_COLOR="1") == SHORT


MISUSES = {
    "ct.launch((1,), k, (1,))": "TypeError: ct.launch() takes four arguments",
    "ct.launch(None, (1,), k, 1, 2)": "TypeError: ct.launch() takes the arguments of k as one tuple: ",
    "ct.launch((1,), k, np.ones(2), 1)": "TypeError: the grid comes before the kernel: ct.launch(stream, grid, k, ",
    "ct.launch(None, k, (1,), (1,))": "TypeError: the grid comes before the kernel: ct.launch(stream, (1,), k, ",
    "k[(1,)](1)": "TypeError: k[(1,)](...) is Triton's way",
    "k.launch((1,), 1)": "AttributeError: 'kernel' object has no attribute 'launch'; write ct.launch(stream, grid, k, ",
    "ct.launch(None, (1,), k, (1, 2))": "TypeError: k() takes 1 argument (x), but 2 were given",
    "ct.launch(None, (1,), k, ('text',))": "TypeError: argument 'x' of k() is a string",
    "ct.launch(None, (-1,), k, (1,))": "OverflowError: entry 0 of the grid (-1,) is negative",
    "ct.dot": "AttributeError: module 'tilewright' has no attribute 'dot'; write ct.mma",
}
# Runs programs one after the other, and has the hook show what each raises, as if it had ended with that.
ONE_BY_ONE = """\
import os, sys
for path in sys.argv[1:]:
    for os.environ["TILEWRIGHT_TRACEBACK"] in ("short", "full"):
        try:
            exec(compile(open(path).read(), path, "exec"), {"__name__": "__main__"})
        except Exception as e:
            sys.excepthook(type(e), e.with_traceback(e.__traceback__.tb_next), e.__traceback__)
        sys.stderr.write("\\0")
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What is shown of each misuse, and what is with all frames."""
    folder = tmp_path_factory.mktemp("misuses")
    paths = [folder / f"program{i}.py" for i in range(len(MISUSES))]
    for path, run in zip(paths, MISUSES):
        path.write_text(PROGRAM.format(run=run))
    variables = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-c", ONE_BY_ONE, *paths]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=300, check=True)
    texts = done.stderr.split("\0")
    return {run: (texts[2 * i], texts[2 * i + 1]) for i, run in enumerate(MISUSES)}


@pytest.mark.parametrize("run", MISUSES)
def test_misuse_on_the_host_shows_lines_of_the_program_only(said: dict[str, tuple[str, str]], run: str) -> None:
    text, full = said[run]
    frames = re.findall(r"^  File .*\n    (.*)", text, re.M)
    assert frames == [run] and text.splitlines()[-1].startswith(MISUSES[run])
    assert f"{os.sep}tilewright{os.sep}" in full


def test_errors_that_others_raise_below_ours_keep_all_frames(tmp_path: Path) -> None:
    assert f"{os.sep}view.py" in shown(tmp_path, "ct.view(lambda: int('text'))")


def test_all_frames_where_they_are_asked_for(tmp_path: Path) -> None:
    text = shown(tmp_path, TILEWRIGHT_TRACEBACK="full")
    assert text.count("tilewright/") > 5 and text.endswith(SHORT.partition("TileTypeError")[2])


def test_what_led_to_an_error_stays(tmp_path: Path) -> None:
    raising = "try:\n    {}['key']\nexcept KeyError as e:\n    raise ct.TileValueError('wrong') from e"
    assert re.search(
        r"KeyError: 'key'\n\nWhich led to:\n\nTraceback.*\nTileValueError: wrong\n$", shown(tmp_path, raising), re.S
    )


def test_hooks_and_errors_of_others_stay(tmp_path: Path) -> None:
    assert shown(tmp_path, "import sys; sys.excepthook = lambda *_: sys.stderr.write('mine'); main()") == "mine"
    assert shown(tmp_path, "raise ct.TileInternalError('defect')").endswith(
        "tilewright.ir.errors.TileInternalError: defect\n"
    )


def test_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    error = ct.TileTypeError("wrong", Loc(__file__, 1, 0, function="k"))
    assert error._render_traceback_()[0] == f"TileTypeError: {__file__}:1:1: wrong"
    monkeypatch.setenv("TILEWRIGHT_TRACEBACK", "full")
    assert error._render_traceback_()[0].startswith("tilewright.ir.errors.TileTypeError: ")


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("statement", ["ct.launch(None, (1,), k, ('text',))", "ct.launch(None, (-1,), k, (1,))"])
def test_ipython_shows_lines_of_the_program_only(tmp_path: Path, statement: str, full: bool) -> None:
    pytest.importorskip("IPython", reason="IPython is not installed")
    source = f"""
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.run_cell("import tilewright as ct\\n@ct.kernel\\ndef k(x):\\n    pass")
shell.run_cell({statement!r})
shell.run_cell("int('mine')")
"""
    environment = {**os.environ, "NO_COLOR": "1", "IPYTHONDIR": str(tmp_path), "TILEWRIGHT_TRACEBACK": "full" * full}
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, env=environment, check=True)
    text = re.sub("\x1b\\[[0-9;]*m", "", done.stdout + done.stderr)
    ours, theirs = text.split("ValueError: invalid literal")[0].rpartition("ValueError ")[::2]
    assert (f"{os.sep}runtime{os.sep}" in ours) is full
    assert statement in ours and "int('mine')" in theirs


def test_the_variable_takes_two_values(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEWRIGHT_TRACEBACK", "long")
    assert not wants_full_traceback()
    assert capsys.readouterr().err == "tilewright: TILEWRIGHT_TRACEBACK='long' is neither 'short' nor 'full'\n"


def test_terminals_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def __init__(self, terminal: bool) -> None:
            self.isatty = lambda: terminal

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colored(Stream(True)) and not colored(Stream(False)) and not colored(object())
    monkeypatch.setenv("TERM", "dumb")
    assert not colored(Stream(True))


def test_of_a_long_line_the_part_around_the_caret_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "long.cu"
    file.write_text(f"\t{'a' * 499}WRONG{'b' * 500}\n{'c' * 140}\n{'d' * 200}\n")
    shown, carets = render("message", Loc(str(file), 1, 500, 1, 505)).split("\n")[1:]
    assert len(shown) < 180 and shown.index("WRONG") == carets.index("^^^^^")
    assert shown.startswith("    1 | ... aaa") and shown.endswith("bbb ...")
    assert render("message", Loc(str(file), 2, 0)).split("\n")[1:] == [f"    2 | {'c' * 140}", f"      | {'^' * 140}"]
    shown, carets = render("message", Loc(str(file), 3, 190)).split("\n")[1:]
    assert shown == f"    3 | ... {'d' * 60}" and carets == f"      | {' ' * 54}{'^' * 10}"
