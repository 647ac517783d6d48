"""What is compiled without a GPU is compiled anew in every test, by this backend, which is not the default one."""

from __future__ import annotations

import pytest

from tilewright.backends import registry

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")


@pytest.fixture(autouse=True)
def triton_cache(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton has a disk cache of its own."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.fixture(autouse=True)
def this_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled for a GPU is so by this backend, where nobody asks for one."""
    monkeypatch.setitem(registry._defaults, "cuda", "triton")
