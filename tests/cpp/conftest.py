"""The tests share a disk cache, which keeps the runtime of C++ programs; the C++ standard library is built before the
first one. On Linux processes of ``tilewright`` are forked, but for those of the tests with ``own_processes``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import forked

from tilewright.frontend.cpp.toolchain import find_compiler, library_is_built


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cached(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the cache itself have ``cache_folder``."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(shared_cache))


@pytest.fixture(scope="session", autouse=True)
def standard_library(tmp_path_factory: pytest.TempPathFactory) -> None:
    """That it is built is said once, and no test is to find that beside what its program says."""
    if find_compiler() is None or library_is_built():
        return
    folder = tmp_path_factory.mktemp("library")
    (folder / "text.cpp").write_text(
        "#include <string>\nint main(int n, char**) { return std::string(n, 'x').empty(); }\n"
    )
    command = [sys.executable, "-m", "tilewright", "c++", "text.cpp", "-o", "text"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    assert library_is_built()


@pytest.fixture(scope="session")
def server() -> Iterator[forked.Server]:
    with forked.server() as made:
        yield made


@pytest.fixture(autouse=True)
def forked_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "linux" and request.node.get_closest_marker("own_processes") is None:
        monkeypatch.setattr(subprocess, "run", request.getfixturevalue("server").run)


@pytest.fixture
def environment() -> dict[str, str]:
    return dict(os.environ)
