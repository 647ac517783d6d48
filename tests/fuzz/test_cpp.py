"""Programs of the generator for Tile C++: both backends compute what the NumPy model says."""

from __future__ import annotations

import pytest
from fuzz import cpp
from fuzz.cpp_programs import CppProgram, cpp_program


def test_random_kernels() -> None:
    programs = [cpp_program(seed) for seed in range(5)]  # more each day: .ci/run
    found = [f"{fault}\n{p.source}" for p, fault in cpp.faults(programs)]
    assert not found, found[0]


def test_a_seed_has_one_program() -> None:
    assert cpp_program(3).source == cpp_program(3).source != cpp_program(4).source


def test_what_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A result that the model does not expect, and a kernel that the compiler refuses among others."""
    predict, source = CppProgram.predict, cpp_program(2).source

    def wrong(p: CppProgram) -> object:
        found = predict(p)
        found[0][:1] += p.name == "k1"
        return found

    def program(seed: int) -> CppProgram:
        p = cpp_program(seed)
        if seed == 2:
            return CppProgram(p.name, source.replace("int const b", "int const c"), p.inputs, p.outputs, p.body)
        return p

    monkeypatch.setattr(CppProgram, "predict", wrong)
    monkeypatch.setattr(cpp, "cpp_program", program)
    assert cpp.main(["1", "2"]) == 1
    said = capsys.readouterr().out
    assert "k1: reference: o0[0] of 1 is" in said and "k2: TileTypeError" in said and "2 with faults" in said


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cpp.main(["5", "2"]) == 0
    assert "fuzz.cpp: 2 kernels" in capsys.readouterr().out
