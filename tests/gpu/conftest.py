"""Tests that run kernels on a GPU. Machines without one skip them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import support.gpu

from tilewright.backends import registry
from tilewright.gpu_runtime import driver


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = support.gpu.GPU.unavailable()
    several = driver.device_count() > 1
    for item in items:
        if "tests/gpu/" not in item.path.as_posix():
            continue
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))
        elif "several_gpus" in item.path.name and not several:
            item.add_marker(pytest.mark.skip(reason="needs two GPUs"))


_LOST: list[str] = []  # the test after which the driver does no more work for this process


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    yield
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, driver.CudaError) and error.code in driver.LOST:
        _LOST.append(item.nodeid)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """That test has failed, and is reported so; in this process the others could do nothing but fail as well."""
    if _LOST:
        pytest.skip(f"the kernel of {_LOST[0]} ended all work of this process on the GPU")


@pytest.fixture
def backend_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend that copies arrays to the GPU and back, in the place of the CPU backend."""
    monkeypatch.setitem(registry._loaders, "cpu", lambda: support.gpu.BACKEND)
