"""Tests of Tile C++ from Python need a C++ compiler, and get a disk cache of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright as ct
from tilewright.frontend.cpp.toolchain import find_compiler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_compiler() is not None:
        return
    skip = pytest.mark.skip(reason="no C++ compiler: neither the ziglang package nor a recent clang++ is there")
    for item in items:
        if "tests/cpp" in item.path.as_posix() and "needs_no_compiler" not in item.name:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TILEWRIGHT_BACKEND", raising=False)
    return tmp_path / "cache"


@pytest.fixture(params=["reference", "cpu"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with ct.use_backend(request.param):
        yield request.param
