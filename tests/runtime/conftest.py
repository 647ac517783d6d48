"""Every test gets a disk cache of its own, and every backend of the CPU where it asks for ``backend``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright as ct


@pytest.fixture(autouse=True)
def cached(cache_folder: Path) -> None:
    """See ``cache_folder``."""


@pytest.fixture(params=["reference", "cpu", "python"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with ct.use_backend(request.param):
        yield request.param
