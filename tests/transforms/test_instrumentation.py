"""What happens after each pass: printing, observers, the verifier."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from tilewright.ir.core import Function
from tilewright.ir.opdef import IRError
from tilewright.ir.parser import parse_function
from tilewright.ir.rewrite import clone_function
from tilewright.runtime.cache import disk_cache
from tilewright.transforms.instrumentation import observed_passes
from tilewright.transforms.pipelines import OPTIMIZE, optimize, run_passes

NAMES = [p.name for p in OPTIMIZE]
FUNCTION = """func @twice(%n: i32[] = "n".scalar) {
  %s = add(%n, %n) : i32[]
  return()
}
"""


@dataclass(frozen=True)
class Unfinished:
    """Leaves the terminator out."""

    name: ClassVar[str] = "dce"

    def run(self, function: Function) -> Function:
        found = clone_function(function)
        found.body.terminator.erase()
        return found


def test_what_passes_give_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEWRIGHT_PRINT_IR", "all")
    optimize(parse_function(FUNCTION))
    heads = [line for line in capsys.readouterr().err.splitlines() if line.startswith("//")]
    assert heads == [f"// twice after {name}" for name in NAMES]


def test_one_pass_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEWRIGHT_PRINT_IR", "licm, dce")
    optimize(parse_function(FUNCTION))
    first, second = capsys.readouterr().err.split("// twice after ")[1:]
    assert first.startswith("licm\nfunc @twice")
    assert "add" in first
    assert second.startswith("dce\nfunc @twice")
    assert "add" not in second


def test_a_misspelled_pass_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_PRINT_IR", "lcim")
    with pytest.raises(ValueError, match="no pass is called 'lcim'; all, or canonicalize, cse, licm"):
        optimize(parse_function(FUNCTION))


def test_observers_see_every_pass() -> None:
    seen: list[str] = []
    with observed_passes(lambda name, function: seen.append(f"{name} {function.name}")):
        optimize(parse_function(FUNCTION))
    optimize(parse_function(FUNCTION))
    assert seen == [f"{name} twice" for name in NAMES]


def test_nothing_comes_from_the_disk_cache_then(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    assert disk_cache() is not None
    with observed_passes(lambda *_: None):
        assert disk_cache() is None
    monkeypatch.setenv("TILEWRIGHT_PRINT_IR", "dce")
    assert disk_cache() is None


def test_what_a_pass_breaks_is_found_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")
    with pytest.raises(IRError, match="add ends a block"):
        run_passes(parse_function(FUNCTION), (Unfinished(),))
