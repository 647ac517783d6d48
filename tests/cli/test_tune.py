"""``tilewright tune``, on kernels of few blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import main
from tilewright.cli.errors import FAILED, MISUSE
from tilewright.cli.roofline import Level, Roof

KERNELS = """
import tilewright as ct

@ct.kernel
def double(x, out, TILE: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * 2)

@ct.kernel
def scaled(x, out, TILE: ct.Constant[int], FACTOR: ct.Constant[int] = 3):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * FACTOR)

@ct.autotune([{"TILE": 64}, ct.tune.Config({"TILE": 128}, num_ctas=2)])
@ct.kernel
def tuned(x, out, TILE: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * 2)
"""
ARRAYS = ["--arg", "f32[256]", "--arg", "f32[256]"]
GRID = ["--grid", "cdiv(x.size, TILE)"]


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Roof, "measure", staticmethod(lambda: Roof((Level("memory", float("inf"), 1e13),), 1e15)))
    (tmp_path / "kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)


def tuned(capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    assert main(["tune", *command, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_arguments_and_hints_vary(capsys: pytest.CaptureFixture[str]) -> None:
    variants = ["--arg", "32|64", "--hint", "occupancy=1|2"]
    found = tuned(capsys, "kernels.py::double", *GRID, *ARRAYS, *variants)
    configs = [m["config"] for m in found["measured"]]
    assert sorted((c["TILE"], c["occupancy"]) for c in configs) == [(32, 1), (32, 2), (64, 1), (64, 2)]
    assert found["best"] == configs[0] and not found["failed"]
    means = [m["mean"] for m in found["measured"]]
    assert means == sorted(means) and all(m["runs"] >= 5 for m in found["measured"])


def test_defaults_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    found = tuned(capsys, "kernels.py::scaled", *GRID, *ARRAYS, "--arg", "32|64")
    assert sorted(m["config"]["TILE"] for m in found["measured"]) == [32, 64] and not found["failed"]
    assert main(["tune", "kernels.py::scaled", *GRID, *ARRAYS]) == MISUSE
    assert "scaled() takes 4 --arg (x, out, TILE, FACTOR), not 2" in capsys.readouterr().err


def test_configurations_of_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    found = tuned(capsys, "kernels.py::tuned", *GRID, *ARRAYS)
    configs = [m["config"] for m in found["measured"]]
    assert {"TILE": 64} in configs and {"TILE": 128, "num_ctas": 2} in configs and len(configs) == 2


def test_a_configuration_that_fails_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = tuned(capsys, "kernels.py::double", *GRID, *ARRAYS, "--arg", "33|64")
    assert found["best"] == {"TILE": 64}
    (failure,) = found["failed"]
    assert failure["config"] == {"TILE": 33} and failure["error"].startswith("Tile")


def test_the_best_is_shown_beside_the_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "kernels.py::double", *GRID, *ARRAYS, "--arg", "64|128"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2 succeeded, 0 failed\n")
    assert "\nbest: TILE=" in said and "% of the limit of memory, 10000.0 GB/s" in said


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (
            ["double", *ARRAYS, "--arg", "64"],
            MISUSE,
            "there is one configuration only; give an argument several values",
        ),
        (["double", *ARRAYS], MISUSE, "double() takes 3 --arg (x, out, TILE), not 2"),
        (["tuned", *ARRAYS, "--arg", "64"], MISUSE, "tuned() takes 2 --arg (x, out), not 3"),
        (
            ["double", *ARRAYS, "--arg", "32|64", "--grid", "cdiv(y.size, 2)"],
            MISUSE,
            "'y' is not defined; it may use x, ",
        ),
        (["double", *ARRAYS, "--arg", "32|64", "--grid", "1,("], MISUSE, "write up to three numbers or expressions"),
        (["double", *ARRAYS, "--arg", "32|64", "--hint", "twice"], MISUSE, "--hint twice: write NAME=A|B"),
        (["double", *ARRAYS, "--arg", "33|65"], FAILED, "none of the 2 configurations works"),
    ],
)
def test_mistakes(arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", f"kernels.py::{arguments[0]}", *arguments[1:]]) == status
    assert words in capsys.readouterr().err
