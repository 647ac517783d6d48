"""``tilewright debug``, with commands for the debugger on standard input."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli import main
from tilewright.cli.errors import MISUSE

PROGRAM = """\
import sys
import numpy as np
import tilewright as ct


@ct.kernel
def other(x):
    ct.store(x, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) + 1)


@ct.kernel
def scale(x, factor):
    block = ct.bid(0)
    tile = ct.load(x, (block,), (4,))
    ct.store(x, (block,), tile * factor)


@ct.kernel
def idle(x):
    pass


if __name__ == "__main__":
    x = np.arange(12, dtype=np.int32)
    ct.launch(None, (3,), other, (x,))
    ct.launch(None, (3,), scale, (x, int(sys.argv[1])))
    print(*x)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def debug(*arguments: object, commands: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright", "debug", *map(str, arguments)]
    return subprocess.run(command, input=commands, capture_output=True, text=True, timeout=300)


def test_one_block_of_a_program(program: Path) -> None:
    done = debug(f"{program}::scale", "10", "--block", "1", commands="n\nn\np tile\nc\n")
    assert done.returncode == 0, done.stderr
    assert f"> {program}(13)scale()" in done.stdout and "Tile([5, 6, 7, 8], dtype=int32)" in done.stdout
    assert done.stdout.endswith("1 2 3 4 50 60 70 80 9 10 11 12\n")


def test_every_block_stops(program: Path) -> None:
    done = debug(f"{program}::scale", "2", commands="c\n" * 3)
    assert done.stdout.count("-> block = ct.bid(0)") == 3 and done.stdout.endswith("22 24\n")


@pytest.mark.parametrize("commands", ["q\n", ""], ids=["q", "end of input"])
def test_quitting_ends_the_program(commands: str, program: Path) -> None:
    program.write_text(PROGRAM.replace("    print(*x)", "    print(*x)\n    sys.exit(5)"))
    done = debug(f"{program}::scale", "2", commands=commands)
    assert done.returncode == 0 and done.stdout.count("-> block = ct.bid(0)") == 1, done.stderr
    assert "1 2 3 4" not in done.stdout


def test_a_kernel_alone(program: Path) -> None:
    arguments = ("--arg", "f16[8]", "--arg", "3", "--grid", "2", "--block", "1,0,0")
    done = debug(f"{program}::scale", *arguments, commands="n\nn\np tile\np factor\nc\n")
    assert done.returncode == 0, done.stderr
    assert "Tile([4., 5., 6., 7.], dtype=float16)" in done.stdout and "Tile(3, dtype=int32)" in done.stdout


def test_nothing_else_of_the_file_runs(program: Path) -> None:
    program.write_text(PROGRAM.replace('if __name__ == "__main__":', "raise OSError('its own')\nif True:"))
    done = debug(f"{program}::scale", "--arg", "f16[4]", "--arg", "3", commands="n\nn\np tile\nc\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("-> block = ct.bid(0)") == 1 and "Tile([0., 1., 2., 3.], dtype=float16)" in done.stdout


def test_mistakes(program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tilewright"])  # which a program that runs finds replaced
    for arguments, words in (
        ([program], f"write FILE::KERNEL, such as {program}::other, not {program}"),
        ([f"{program}::missing", "1"], "defines no function missing; it defines: other, scale, idle"),
        ([f"{program}::idle", "1"], "ended without launching idle"),
        ([f"{program}::scale", "--arg", "f16[8]"], "takes 2 arguments"),
        ([f"{program}::scale", "1", "--block", "7"], "no block (7, 0, 0) in the grid (3, 1, 1)"),
        ([f"{program}::scale", "1", "--block", "1,x"], "up to three numbers"),
        ([f"{program}::scale", "1", "--grid", "2"], "--grid is the grid of a launch with --arg"),
        ([f"{program}::scale", "1", "--arg", "2"], "'1' is for the program, which does not run with --arg"),
        (["nothing.py::scale"], "no program nothing.py"),
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        status, said = main(["debug", *map(str, arguments)]), capsys.readouterr().err
        assert status == MISUSE and words in said and "Traceback" not in said, said
