"""Tests of Tile C++ from Python need a C++ compiler, and get a disk cache of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.frontend.cpp.toolchain import find_compiler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_compiler() is not None:
        return
    skip = pytest.mark.skip(reason="no C++ compiler: neither the ziglang package nor a recent clang++ is there")
    for item in items:
        if "tests/cpp" in item.path.as_posix() and "needs_no_compiler" not in item.name:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def cached(cache_folder: Path) -> None:
    """See ``cache_folder``."""
