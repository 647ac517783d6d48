"""What is done with a module as soon as it is imported."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.system.imports import once_imported


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that can be imported."""
    (tmp_path / "imported_once.py").write_text("NUMBER = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "imported_once", raising=False)
    return "imported_once"


def test_once_imported(name: str) -> None:
    seen: list[ModuleType] = []
    with once_imported(name, seen.append):
        assert importlib.util.find_spec(name) is not None and not seen  # programs look whether a package is there
        module = importlib.import_module(name)
        assert seen == [module] and module.NUMBER == 1
        assert module.__loader__ is module.__spec__.loader and module.__loader__.get_source(name) == "NUMBER = 1\n"
    with once_imported(name, seen.append):
        assert seen == [module, module]


def test_nothing_is_left_where_nobody_imports_it(name: str) -> None:
    before = list(sys.meta_path)
    with once_imported(name, lambda module: pytest.fail("imported")):
        pass
    assert sys.meta_path == before
    importlib.import_module(name)
