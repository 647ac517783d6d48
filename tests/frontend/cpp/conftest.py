"""Tests of Tile C++ need a C++ compiler."""

from __future__ import annotations

import pytest

from tilewright.frontend.cpp.toolchain import find_compiler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_compiler() is not None:
        return
    skip = pytest.mark.skip(reason="no C++ compiler: neither the ziglang package nor a recent clang++ is there")
    for item in items:
        if "frontend/cpp" in item.path.as_posix():
            item.add_marker(skip)
