"""What is said of drivers that cannot launch kernels."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import pytest

from tilewright.gpu_runtime import driver


class Library:
    """A driver of this version of CUDA, whose calls return ``code``."""

    def __init__(self, version: int, code: int = 0, devices: int = 1) -> None:
        self.version, self.code, self.devices = version, code, devices

    def cuDriverGetVersion(self, found: Any) -> int:
        found._obj.value = self.version
        return 0

    def cuInit(self, flags: int) -> int:
        return self.code

    def cuDeviceGetCount(self, found: Any) -> int:
        found._obj.value = self.devices
        return 0

    def cuGetErrorString(self, code: int, found: Any) -> int:
        found._obj.value = b"what the driver says"
        return 0

    def cuModuleLoadData(self, module: Any, code: bytes) -> int:
        return self.code


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (
            Library(11080),
            "driver of this machine is for CUDA 11.8, and kernels need one for CUDA 12.0 or later; update",
        ),
        (Library(12040, code=999), r"does not start: what the driver says \(CUDA error 999\); is there a GPU"),
        (Library(12040, devices=0), "the NVIDIA driver finds no GPU; does CUDA_VISIBLE_DEVICES hide it"),
        (None, "there is no NVIDIA driver on this machine"),
    ],
)
def test_drivers_that_cannot_be_used(library: Library | None, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> Any:
        if library is None:
            raise OSError(name)
        return library

    monkeypatch.setattr(driver.ctypes, "CDLL", load)
    found = driver._library.__wrapped__()
    assert re.search(words, found)


def test_machine_code_that_the_driver_is_too_old_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "load", lambda: Library(12020, code=222))
    with pytest.raises(driver.CudaError, match=r"says \(CUDA error 222\): .* for CUDA 12.2, does not take .*; update"):
        driver._load_module(ctypes.c_void_p(), b"")
    monkeypatch.setattr(driver, "load", lambda: Library(12020, code=2))
    with pytest.raises(driver.CudaError, match=r"cuModuleLoadData: what the driver says \(CUDA error 2\)$"):
        driver._load_module(ctypes.c_void_p(), b"")
