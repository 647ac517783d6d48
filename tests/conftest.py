"""No test sees the settings of the person who runs it, nor fills or reads that person's disk cache; processes that
tests start import this tilewright, installed or not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright as ct


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
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each of the engines that compile."""
    with ct.use_backend(request.param):
        yield request.param
