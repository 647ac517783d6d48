"""``tilewright check``."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli import main
from tilewright.cli.errors import FAILED, MISUSE
from tilewright.sanitizer.categories import CATEGORIES

PROGRAM = """\
import sys
import numpy as np
import tilewright as ct


def ratio(x, y):
    return x // y


@ct.kernel
def divide(x, out):
    i = ct.bid(0)
    ct.store(out, (i,), ratio(8, ct.load(x, (i,), (4,))))


x = np.arange(-2, 6, dtype=np.int32)
out = np.zeros_like(x)
ct.launch(None, (2,), divide, (x, out))
print("argument", *sys.argv[1:], out[0])
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""


TORCH = """
import torch
import cuda.tile as ct
from torch._subclasses.fake_tensor import FakeTensorMode

with FakeTensorMode():
    assert torch.empty(8).numel() == 8  # without memory, so that nothing can be marked as unwritten

@ct.kernel
def copy(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (8,)))

ct.launch(0, (1,), copy, ({make}, torch.zeros(8, device="cuda")))
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "prog.py"
    path.write_text(PROGRAM)
    return str(path)


def test_text(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program, "one"]) == 1
    out, err = capsys.readouterr()
    assert out == "argument one -4\n"
    for part in (
        f"{program}:7:12: division-by-zero",
        "return x // y",
        f"called from {program}:13:",
        "block: (0, 0, 0)",
        "remedy: divide by 1 where the divisor is 0, and select afterwards",
    ):
        assert part in err, err
    assert "element: (2,)" in err and "annex 3.1 item 6" in err and "1 violation of 1 category" in err


def test_json(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", program]) == 1
    out, err = capsys.readouterr()
    assert "argument" in err
    report = json.loads(out)
    (violation,) = report["violations"]
    assert report["launches"] == 1
    assert violation["category"] == "division-by-zero" and violation["annex_item"] == 6
    assert violation["block"] == [0, 0, 0] and violation["element"] == [2]
    assert violation["operands"] == {"lhs": 8, "rhs": 0}
    assert [(f["file"], f["line"], f["function"]) for f in violation["frames"]] == [
        (program, 7, "ratio"),
        (program, 13, "divide"),
    ]


def test_sarif(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--sarif", "out.sarif", program]) == 1
    log = json.loads((tmp_path / "out.sarif").read_text())
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert rules == list(CATEGORIES)
    assert all(r["help"]["text"] for r in run["tool"]["driver"]["rules"])
    (result,) = run["results"]
    assert rules[result["ruleIndex"]] == result["ruleId"] == "division-by-zero"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "prog.py"
    assert place["region"] == {"startLine": 7, "startColumn": 12, "endLine": 7, "endColumn": 18}
    assert len(result["stacks"][0]["frames"]) == 2


def test_status(program: str) -> None:
    assert main(["check", "--disable", "division-by-zero", program]) == 0
    assert main(["check", "--disable", "division-by-zero", program, "x", "3"]) == 3
    assert main(["check", program, "x", "3"]) == 3


def test_stop(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--stop", program]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "1 violation of 1 category, seen 1 time" in err


def test_a_program_that_fails_is_reported_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "prog.py"
    path.write_text(PROGRAM + "\n")
    path.write_text(PROGRAM.replace("sys.exit(", "1 / 0\nsys.exit("))
    assert main(["check", str(path)]) == FAILED
    said = capsys.readouterr().err
    assert "division-by-zero" in said and "ZeroDivisionError" in said


def test_mistakes(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--disable", "nonsense", program]) == MISUSE
    assert "unknown category 'nonsense'" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none.py")]) == MISUSE
    assert "there is no program" in capsys.readouterr().err
    assert main(["check", "--sarif", str(tmp_path / "no" / "x"), program]) == MISUSE
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("make", ["torch.empty(8)", "torch.ones(1).new_empty(8)", "torch.empty_strided((8,), (1,))"])
def test_tensors_of_a_program_that_imports_torch_itself(make: str, tmp_path: Path) -> None:
    """Nobody wrote what the kernel reads."""
    program = tmp_path / "program.py"
    program.write_text(TORCH.format(make=make))
    command = [sys.executable, "-m", "tilewright", "check", "--device", "cpu", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "this element of 'x' was never written" in done.stderr + done.stdout, done.stderr
