"""Environment variables that are switches or limits: which values they take."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.cli import main
from tilewright.runtime.cache import disk_cache
from tilewright.runtime.timeout import limit
from tilewright.system.environment import compiler_timeout, number_of_threads, switch, warn_of_misspelt

SWITCHES = ["CHECK", "CHECK_OVERLAP", "EXPLAIN", "SHOW_IR", "VERIFY"]
ON, OFF = ["1", "true", "yes", "on", "TRUE", " On "], ["0", "false", "no", "off", "OFF", ""]


@ct.kernel
def increment(x):
    ct.store(x, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) + 1)


@ct.kernel
def add_one(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (4,)) + 1)


@pytest.mark.parametrize("value", [*ON, *OFF])
def test_values_of_switches(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CHECK", value)
    assert switch("TILEWRIGHT_CHECK") == (value in ON)


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", ["2", "y", "enabled", "\u00b2", "01"])
@pytest.mark.parametrize("repeated", [0, 8])
def test_other_values_are_an_error(name: str, value: str, repeated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = increment.replace_hints() if name in ("CHECK", "CHECK_OVERLAP") else None
    for _ in range(repeated if kernel else 0):
        ct.launch(None, (1,), kernel, (np.zeros(4),))
    monkeypatch.setenv(f"TILEWRIGHT_{name}", value)
    with pytest.raises(
        ValueError, match=f"TILEWRIGHT_{name}=.* is no switch; it takes 1, true, yes, on or 0, false, no"
    ):
        ct.launch(None, (1,), kernel or increment.replace_hints(), (np.zeros(4),))


@pytest.mark.parametrize("value", ["1", "true", "yes", "on"])
def test_switches_take_effect(value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(8)
    monkeypatch.setenv("TILEWRIGHT_CHECK_OVERLAP", value)
    with pytest.raises(ValueError, match="overlaps"):
        ct.launch(None, (1,), add_one, (x[:4], x[2:6]))
    monkeypatch.setenv("TILEWRIGHT_EXPLAIN", value)
    monkeypatch.setenv("TILEWRIGHT_SHOW_IR", value)
    ct.launch(None, (1,), add_one.replace_hints(), (x[:4], x[4:]))
    said = capsys.readouterr()
    assert "add_one" in said.err and "func @add_one" in said.err + said.out


LIMITS: list[Any] = ["inf", "1e10", "1e300", "Infinity"]


@pytest.mark.parametrize("value", LIMITS)
def test_limits_that_never_come(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_COMPILER_TIMEOUT", value)
    assert limit() == float(value) > threading.TIMEOUT_MAX
    x = np.zeros(4)
    ct.launch(None, (1,), increment.replace_hints(), (x,), backend="cpu")
    monkeypatch.delenv("TILEWRIGHT_COMPILER_TIMEOUT")
    with ct.compiler_timeout(float(value)):
        ct.launch(None, (1,), increment.replace_hints(), (x,), backend="cpu")
    assert (x == 2).all()


@pytest.mark.parametrize("value", ["\u00b2", "0", "-1", "nan", "soon"])
def test_limits_that_are_none(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_COMPILER_TIMEOUT", value)
    with pytest.raises(ValueError, match="TILEWRIGHT_COMPILER_TIMEOUT=.* is not a positive number of seconds"):
        ct.launch(None, (1,), increment.replace_hints(), (np.zeros(4),), backend="cpu")


def test_empty_limits_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    assert disk_cache() is not None
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "")
    monkeypatch.setenv("TILEWRIGHT_COMPILER_TIMEOUT", "")
    assert number_of_threads() is None and compiler_timeout() is None


@pytest.mark.parametrize("value", ["\u00b2", "0", "-1", "many"])
def test_numbers_of_threads(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", value)
    x = np.zeros(1 << 16)
    with pytest.raises(ValueError, match="TILEWRIGHT_NUM_THREADS=.* is not a positive number"):
        ct.launch(None, (1 << 14,), increment, (x,), backend="cpu")
    monkeypatch.delenv("TILEWRIGHT_NUM_THREADS")
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", value if value != "0" else "x")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "/nowhere")
    with pytest.raises(ValueError, match="TILEWRIGHT_CACHE_SIZE: .* is no size"):
        ct.launch(None, (1,), increment.replace_hints(), (np.zeros(4),), backend="reference")


@pytest.mark.parametrize(
    ("name", "value"), [("NUM_THREADS", "many"), ("COMPILER_TIMEOUT", "soon"), ("CHECK", "perhaps")]
)
def test_commands_refuse_what_they_need_not(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"TILEWRIGHT_{name}", value)
    assert main(["cache", "list"]) == 2
    said = capsys.readouterr()
    assert not said.out and re.fullmatch(f"tilewright: TILEWRIGHT_{name}='{value}' is no.*\\n", said.err)


def test_misspelt_names_are_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No name that the documentation lists is noticed, and each is the advice where a letter is missing."""
    table = Path(__file__).parents[2] / "docs" / "api" / "environment.md"
    names = re.findall(r"^\| `(TILEWRIGHT_\w+)` \|", table.read_text(encoding="utf-8"), re.M)
    assert len(names) > 10
    for name in [name for name in os.environ if name.startswith("TILEWRIGHT_")]:
        monkeypatch.delenv(name)
    for name in names:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("TILEWRIGHT_OF_SOMEBODY_ELSE", "1")
    warn_of_misspelt()
    assert not capsys.readouterr().err
    for name in names:
        misspelt = name[:-2] + name[-1]
        monkeypatch.setenv(misspelt, "")
        warn_of_misspelt()
        assert capsys.readouterr().err == f"tilewright: nothing reads {misspelt}; did you mean {name}?\n"
        monkeypatch.delenv(misspelt)
