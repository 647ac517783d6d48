"""Every example agrees with NumPy, alone and in the demo."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilewright as ct
from tilewright.cli import demo, main
from tilewright.cli.demo import EXAMPLES
from tilewright.cli.files import load_module

FILES = sorted(p for p in EXAMPLES.glob("*.py") if p.stem != "harness")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = load_module(EXAMPLES / "harness.py")
    monkeypatch.setattr(found, "_SECONDS", 0.0)
    monkeypatch.setattr(found, "_MIN_RUNS", 1)
    return found


def test_the_promised_examples_exist() -> None:
    names = {p.stem for p in FILES}
    assert {"vector_add", "softmax", "layer_norm", "matmul", "attention", "histogram", "embedding"} <= names


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_example(path: Path, harness: ModuleType) -> None:
    """In Python; the demo compiles them."""
    cases = load_module(path).cases(small=True)
    assert cases
    for case in cases:
        with ct.use_backend("python"):
            outcome = harness.measure(case)
        assert outcome.correct, outcome


def test_harness_finds_wrong_results(harness: ModuleType) -> None:
    for wrong in (1.5, np.nan):
        case = harness.Case("wrong", "1", lambda w=wrong: np.array([w]), lambda: np.array([1.0]), 0.1)
        outcome = harness.measure(case)
        assert not outcome.correct and "WRONG" in str(outcome)


def test_options_of_examples(
    harness: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes: list[bool] = []

    def cases(small: bool) -> list[object]:
        sizes.append(small)
        return []

    for arguments, status in (([], 0), (["--small"], 0), (["--smal2"], 2)):
        monkeypatch.setattr(sys, "argv", ["example.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            harness.main(cases)
        assert ended.value.code == status
    assert sizes == [False, True]
    assert "unrecognized arguments: --smal2" in capsys.readouterr().err


def test_demo(harness: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert {p.stem for p in FILES} == set(demo._SELECTION)
    assert main(["demo", "--small"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["kernel", "size", "time", "NumPy", "ratio", "max", "error"]
    count = len(lines) - 2
    assert count >= 10 and lines[-1] == f"{count} of {count} kernels agree with NumPy"
    assert f"[{count}/{count}] " in err
