"""Every test gets a disk cache of its own, and both engines where it asks for ``engine``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright as ct


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TILEWRIGHT_CACHE_SIZE", raising=False)
    monkeypatch.delenv("TILEWRIGHT_BACKEND", raising=False)
    return tmp_path / "cache"


@pytest.fixture(params=["reference", "cpu", "python"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with ct.use_backend(request.param):
        yield request.param
