"""The reference: every parameter, result and error of every public name is described, and the errors are raised."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright import compilation, cpp, lib, tune

GENERATOR = Path(__file__).parents[2] / "docs" / "generator"
# Functions that nothing can be wrong with.
_WITHOUT_ERROR = {"static_eval", "static_exception", "static_iter", "grid_dependency_control_launch_dependents"}
_WITHOUT_ERROR |= {"grid_dependency_control_wait"}


def public() -> Iterator[tuple[str, Any]]:
    for prefix, module in (("", ct), ("tune.", tune), ("compilation.", compilation), ("cpp.", cpp), ("lib.", lib)):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) or isinstance(value, type):
                yield prefix + name, value


@pytest.fixture
def parameters(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(GENERATOR))
    return importlib.import_module("parameters")


@pytest.mark.parametrize("name, value", list(public()), ids=[name for name, _ in public()])
def test_every_parameter_is_described(parameters: Any, name: str, value: Any) -> None:
    if isinstance(value, type) and issubclass(value, (BaseException, enum.Enum)):
        return
    text = f"{value.__doc__} {value.__init__.__doc__ if isinstance(value, type) else ''}"
    words = set(re.findall(r"\w+", " ".join(re.findall(r"``([^`]*)``", text))))
    undescribed = {p for p in inspect.signature(value).parameters if parameters.meaning(name, p) is None} - words
    assert not undescribed
    known = [p for p in inspect.signature(value).parameters.values() if parameters.meaning(name, p.name) is not None]
    assert not [p.name for p in known if not parameters.type_of(name, p)]


def test_every_function_of_tiles_has_a_result_and_errors(parameters: Any) -> None:
    functions = {n: v for n, v in public() if inspect.isfunction(v)}
    of_tiles = {n: v for n, v in functions.items() if n in ct.language.__all__ or n.startswith("lib.")}
    without = {n for n, v in of_tiles.items() if inspect.signature(v).return_annotation == "None"} | {"function"}
    assert set(of_tiles) - without == set(parameters.RESULTS)
    documented = {n for n, v in functions.items() if "Error" in (v.__doc__ or "")}
    assert {n for n in of_tiles if not n.startswith("lib.")} - set(parameters.MISTAKES) - documented <= _WITHOUT_ERROR
    assert set(parameters.MISTAKES) | set(parameters.RESULTS) | set(parameters.SPECIAL) <= {n for n, _ in public()}


def test_descriptions_are_of_parameters_that_there_are(parameters: Any) -> None:
    values = dict(public())
    for name, found in parameters.SPECIAL.items():
        assert set(found) <= set(inspect.signature(values[name]).parameters), name
    used = {p for n in {*parameters.RESULTS, *parameters.MISTAKES} for p in inspect.signature(values[n]).parameters}
    assert set(parameters.LANGUAGE) | set(parameters._LIBRARY) <= used


@ct.kernel
def k(x):
    pass


def test_mistakes_are_errors(parameters: Any) -> None:
    f, i = ct.full((4,), 0.5, ct.float32), ct.full((4,), 2, ct.int32)
    known = {"ct": ct, "lib": lib, "np": np, "f": f, "i": i, "b": i > 0, "k": k}
    for name, mistakes in parameters.MISTAKES.items():
        for mistake in mistakes:
            with pytest.raises(Exception) as raised:
                eval(mistake.call, known)
            assert type(raised.value).__name__ == mistake.error, (name, mistake, raised.value)


def test_pages_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(GENERATOR))
    page = importlib.import_module("reference").pages()["api/memory.md"]
    assert "| `padding_mode` | `PaddingMode` or its name | what elements outside of the array are |" in page
    assert "*Result:* of `shape`, with the dtype of the array." in page
    assert "*Errors:* `TileTypeError` for index, shape and array of different ranks, as in" in page
