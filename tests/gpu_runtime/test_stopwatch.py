"""Timing launches: the calls of the driver, in order."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.gpu_runtime import driver, stopwatch


class Driver:
    """Records calls, and answers them for a GPU on which the launch takes 2.5 ms."""

    def __init__(self, cache: int) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.answers = {
            "cuDeviceGetAttribute": ctypes.c_int(cache),
            "cuMemAlloc_v2": ctypes.c_uint64(4096),
            "cuEventElapsedTime": ctypes.c_float(2.5),
        }

    def __call__(self, name: str, *arguments: Any) -> None:
        shown = tuple(getattr(a, "value", a) for a in arguments if isinstance(a, (int, ctypes._SimpleCData)))
        self.calls.append((name, shown))
        answer = self.answers.get(name)
        for a in arguments:
            if answer is not None and not isinstance(a, (int, ctypes._SimpleCData)):
                a._obj.value = answer.value

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@pytest.fixture
def device(gpu: Driver) -> Any:
    @contextlib.contextmanager
    def current() -> Iterator[None]:
        gpu("ENTER")
        try:
            yield
        finally:
            gpu("LEAVE")

    return SimpleNamespace(index=1, current=current)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    found = Driver(cache=1000)
    monkeypatch.setattr(driver, "call", found)
    stopwatch._scratch.cache_clear()
    yield found
    stopwatch._scratch.cache_clear()


def test_the_launch_lies_between_two_events(gpu: Driver, device: Any) -> None:
    seconds = stopwatch.elapsed(lambda: gpu("LAUNCH"), 0, device, flush_cache=False)
    assert seconds == pytest.approx(2.5e-3)
    assert gpu.names() == [
        "ENTER",
        *["cuEventCreate"] * 2,
        *("cuEventRecord", "LAUNCH", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime"),
        *["cuEventDestroy_v2"] * 2,
        "LEAVE",
    ]


def test_the_cache_is_flushed_before_the_first_event(gpu: Driver, device: Any) -> None:
    for _ in range(2):
        gpu.calls.clear()
        stopwatch.elapsed(lambda: gpu("LAUNCH"), 99, device, flush_cache=True)
        names = gpu.names()
        assert names.index("cuMemsetD8Async") < names.index("cuEventRecord") < names.index("LAUNCH")
        assert ("cuMemsetD8Async", (4096, 0, 2000, 99)) in gpu.calls
    assert "cuMemAlloc_v2" not in names, "the memory is kept"


def test_events_go_when_the_launch_fails(gpu: Driver, device: Any) -> None:
    def launch() -> None:
        raise driver.CudaError("refused", 1)

    with pytest.raises(driver.CudaError, match="refused"):
        stopwatch.elapsed(launch, 0, device, flush_cache=False)
    assert gpu.names()[-3:] == ["cuEventDestroy_v2", "cuEventDestroy_v2", "LEAVE"]
