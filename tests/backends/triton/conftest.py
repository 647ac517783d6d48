"""What is compiled without a GPU is compiled anew in every test, by this backend also where another one takes a kernel."""

from __future__ import annotations

import pytest

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")


@pytest.fixture(autouse=True)
def triton_cache(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton has a disk cache of its own."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.fixture(autouse=True)
def this_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of kernels that the backend ``gpu`` takes stay with ``triton``."""
    monkeypatch.setattr(
        "tilewright.runtime.launchable.Launchable._taking", lambda self, signature, backend, find: backend
    )
