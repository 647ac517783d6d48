"""Runs the tests of the CPU backend on PTX, by hand: ``python -m pytest -p support.ptx.plugin tests/conformance``.

Takes the place of the backend ``cpu``: the gpu backend's PTX is interpreted, so no GPU is needed. Slow.
"""

from __future__ import annotations

from support.gpu import pytest_collection_modifyitems
from support.ptx.backend import PtxBackend

from tilewright.backends import cpu, registry

_BACKEND = PtxBackend(4, "sm_90")
_BACKEND.name = "cpu"


def pytest_configure() -> None:
    registry.register_backend("cpu", lambda: _BACKEND, default_for="cpu")
    cpu.BACKEND = _BACKEND  # type: ignore[assignment]


__all__ = ["pytest_collection_modifyitems"]
