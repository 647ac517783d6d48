"""Captures kernels for the tests that compile without a GPU."""

from __future__ import annotations

import pytest

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")


@pytest.fixture(autouse=True)
def triton_cache(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton keeps what it compiled; the tests want to see it compile."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
