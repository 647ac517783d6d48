"""Programs of the second generator: the reference as the NumPy model says, the CPU as the reference."""

from __future__ import annotations

import pytest
from fuzz.__main__ import main
from fuzz.check import faults
from fuzz.programs import program
from support.kernel_runs import seeds


@pytest.mark.parametrize("seed", seeds(16))
def test_random_program(seed: int) -> None:
    p = program(seed)
    print(p.source)
    assert not faults(p, ("reference", "cpu"))


def test_a_seed_has_one_program_and_most_are_modelled() -> None:
    assert program(3).source == program(3).source
    assert sum(program(seed).predict() is not None for seed in range(10)) >= 8


def test_a_wrong_result_is_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    p = program(5)
    launch = type(p).launch

    def wrong(self: object, backend: str | None) -> object:
        found = launch(p, backend)
        if backend == "cpu":
            next(iter(found.values())).reshape(-1)[:1] += 1
        return found

    monkeypatch.setattr(type(p), "launch", wrong)
    assert faults(p, ("reference", "cpu"))


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["0", "2", "-j", "1", "--backends", "reference"]) == 0
    assert "2 programs" in capsys.readouterr().out
