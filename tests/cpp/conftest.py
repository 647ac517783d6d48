"""Every test gets a disk cache of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cached(cache_folder: Path) -> None:
    """See ``cache_folder``."""
