"""Runs the tests of the CPU backend on PTX, by hand: ``python -m pytest -p support.ptx.plugin tests/conformance``.

Takes the place of the backend ``cpu``: the gpu backend's PTX is interpreted, so no GPU is needed. Slow.
``PTX_TARGET=sm_80`` names another architecture than sm_90.
"""

from __future__ import annotations

import os

from support.gpu import pytest_collection_modifyitems
from support.ptx.backend import PtxBackend

from tilewright.backends import cpu, registry

BACKEND = PtxBackend(None, os.environ.get("PTX_TARGET", "sm_90"), realign=True)
BACKEND.name = "cpu"


def pytest_configure() -> None:
    registry.register_backend("cpu", lambda: BACKEND, default_for="cpu")
    cpu.BACKEND = BACKEND  # type: ignore[assignment]


__all__ = ["BACKEND", "pytest_collection_modifyitems"]
