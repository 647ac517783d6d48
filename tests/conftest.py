"""No test sees the settings of the person who runs it, nor fills or reads that person's disk cache; processes that
tests start import this tilewright, installed or not."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

import tilewright as ct
from tilewright.frontend.cpp.toolchain import find_compiler

# No test is about how long it takes, and all runs have the same examples.
hypothesis.settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("same")

# The collector goes through all objects of a generation, those of all collected tests among them with Python's own
# thresholds. See also pytest_collection_finish.
gc.set_threshold(100_000, 20, 20)

TILE_CPP = ("tests/cpp/", "tests/frontend/cpp/", "tests/fuzz/test_cpp.py", "tests/ops/test_cpp.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = [i for i in items if any(f in i.path.as_posix() for f in TILE_CPP) and "needs_no_compiler" not in i.name]
    if not tests or find_compiler() is not None:
        return
    for test in tests:
        test.add_marker(pytest.mark.skip(reason="no C++ compiler: neither ziglang nor a recent clang++ is there"))


def pytest_collection_finish() -> None:
    gc.freeze()  # modules and tests stay until the end


@pytest.fixture(scope="session", autouse=True)
def default_settings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("TILEWRIGHT_"):
                patch.delenv(name)
        patch.setenv("TILEWRIGHT_CACHE_DIR", "off")
        patch.setenv("PYTHONPATH", str(Path(ct.__file__).parents[1]), prepend=os.pathsep)  # for new processes
        yield


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The disk cache of the test."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["reference", "cpu"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each of the backends that compile."""
    with ct.use_backend(request.param):
        yield request.param


@pytest.fixture
def clean_imports() -> Iterator[None]:
    """Nothing of ``cuda`` is imported, whatever ran before, and afterwards it means what it meant before."""

    def imported() -> dict[str, ModuleType]:
        return {name: m for name, m in sys.modules.items() if name == "cuda" or name.startswith("cuda.")}

    finders, modules = list(sys.meta_path), imported()
    for name in modules:
        del sys.modules[name]
    yield
    sys.meta_path[:] = finders
    for name in imported():
        del sys.modules[name]
    sys.modules.update(modules)
