"""Tests that run kernels on a GPU. Machines without one skip them."""

from __future__ import annotations

import pytest

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
