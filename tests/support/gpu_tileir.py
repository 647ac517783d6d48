"""As ``support.gpu``, with NVIDIA's compiler: ``python -m pytest -p support.gpu_tileir tests/conformance``."""

from __future__ import annotations

from support.gpu import HostBackend, pytest_collection_modifyitems

from tilewright.backends import cpu, registry
from tilewright.backends.tileir import BACKEND as TILEIR

__all__ = ["BACKEND", "pytest_collection_modifyitems", "pytest_configure"]
BACKEND = HostBackend(TILEIR)


def pytest_configure() -> None:
    registry.register_backend("cpu", lambda: BACKEND, default_for="cpu")
    cpu.BACKEND = BACKEND  # type: ignore[assignment]
