"""Tests that run kernels on a GPU. Machines without one skip them."""

from __future__ import annotations

import pytest
import support.gpu

from tilewright.backends import base
from tilewright.backends.triton import BACKEND, driver


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = BACKEND.unavailable()
    several = driver.device_count() > 1
    for item in items:
        if "tests/gpu/" not in item.path.as_posix():
            continue
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))
        elif "several_gpus" in item.path.name and not several:
            item.add_marker(pytest.mark.skip(reason="needs two GPUs"))


@pytest.fixture
def engine_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine that copies arrays to the GPU and back, in the place of the CPU engine."""
    monkeypatch.setitem(base._MODULES, "cpu", support.gpu.__name__)
