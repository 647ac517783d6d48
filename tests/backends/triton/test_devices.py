"""Machines with several GPUs, as a driver shows them that only answers."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.driver import executable

import tilewright as ct
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.backends.triton import backend as triton_backend
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.launch_code import LAUNCH
from tilewright.runtime import launchable
from tilewright.runtime.arrays import RuntimeValues

CAPABILITIES = (90, 90, 80)
GIB = 1 << 30


class Machine:
    """Contexts are 100 + the index of their device; device ``i`` has the memory from ``i + 1`` GiB on."""

    def __init__(self) -> None:
        self.current: int | None = None

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(CAPABILITIES)
        return 0

    def cuDeviceGet(self, handle: Any, index: int) -> int:
        handle._obj.value = index
        return 0

    def cuDeviceGetAttribute(self, value: Any, which: int, device: Any) -> int:
        capability = CAPABILITIES[device.value]
        value._obj.value = {75: capability // 10, 76: capability % 10, 97: 200000, 16: 100}[which]
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        context._obj.value = 100 + device.value
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        context._obj.value = self.current
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.current = context.value
        return 0

    def cuStreamGetCtx(self, stream: Any, context: Any) -> int:
        context._obj.value = stream.value
        return 0 if stream.value in range(100, 103) else 400

    def cuPointerGetAttribute(self, value: Any, which: int, address: Any) -> int:
        index = address.value // GIB - 1
        value._obj.value = index
        return 0 if 0 <= index < len(CAPABILITIES) else 1

    def cuGetErrorString(self, code: int, text: Any) -> int:
        text._obj.value = b"invalid resource handle" if code == 400 else b"an illegal memory access was encountered"
        return 0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    found = Machine()
    monkeypatch.setattr(driver, "load", lambda: found)
    monkeypatch.setattr(driver, "why_not", lambda: None)
    monkeypatch.setattr(driver, "_devices", {})
    monkeypatch.setattr(triton_backend, "compiler_missing", lambda: None)
    monkeypatch.setattr(triton_backend, "version_text", lambda: "3.6.0")
    triton_backend._gpu_of_this_machine.cache_clear()
    yield found
    triton_backend._gpu_of_this_machine.cache_clear()


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("before", [None, 100, 101, 999])
def test_the_current_device_of_other_libraries_stays(machine: Machine, index: int, before: int | None) -> None:
    machine.current = before
    with pytest.raises(KeyError), driver.device(index).current():
        assert machine.current == 100 + index
        raise KeyError
    assert machine.current == (100 if before is None and index == 0 else before)


class OnGpu:
    """An array that does not tell its device."""

    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {"shape": (64,), "typestr": "<f4", "data": (address, False), "version": 3}


@ct.kernel
def doubled(x, y):
    ct.store(y, (0,), ct.load(x, (0,), (64,)) * 2)


def arrays(*devices: int) -> tuple[OnGpu, ...]:
    return tuple(OnGpu((d + 1) * GIB + 256 * i) for i, d in enumerate(devices))


def test_each_architecture_has_code_of_its_own(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_(function: Any, backend: Any, options: Any) -> tuple[Any, str]:
        compiled.append(backend.target().split()[-1])
        return SimpleNamespace(stages=dict, launch=None, bind=None), "compiled"

    monkeypatch.setattr(launchable, "compiled", compile_)
    for index in (2, 0, 1, 0, 2):
        prepared = doubled.plan_for(arrays(index, index), None, RuntimeValues())
        assert prepared._device == index
        assert doubled.described(arrays(index, index), None)[1].target().endswith(f"sm_{CAPABILITIES[index]}")
    assert compiled == ["sm_80", "sm_90"]


def test_arrays_are_looked_up_in_the_memory_of_the_devices(machine: Machine) -> None:
    with pytest.raises(ValueError, match="different devices: 'x' on cuda:1, 'y' on cuda:2"):
        ct.launch(None, (1,), doubled, arrays(1, 2))
    with pytest.raises(
        ValueError, match=r"argument 'y' of doubled\(\) has the address 0x280000100, .* the driver knows of none there"
    ):
        ct.launch(None, (1,), doubled, arrays(1, 9))


@pytest.mark.parametrize(
    ("code", "stream", "words"),
    [
        (1, 0, "the grid (1, 65536, 1) has more than 65535 blocks along its second or third axis"),
        (400, 101, "its arrays are on cuda:0, and the stream 0x65 is none of that device"),
        (400, 7, "its arrays are on cuda:0, and the stream 0x7 is none of that device, or was destroyed"),
        (400, 100, "the launch of kernel(): invalid resource handle"),
        (700, 0, "(CUDA error 700). A kernel that this process launched before has failed"),
    ],
)
def test_refused_launches_say_why(machine: Machine, code: int, stream: int, words: str) -> None:
    machine.cuLaunchKernelEx = LAUNCH(lambda *_: code)  # type: ignore[attr-defined]
    run = executable(("u64",), driver.device(0))
    with pytest.raises(driver.CudaError) as caught:
        run.launch((1, 65536, 1), LaunchArguments((16,), (), stream, 0))
    assert words in str(caught.value) and caught.value.code == code


def test_a_grid_without_blocks_runs_none(machine: Machine) -> None:
    machine.cuLaunchKernelEx = LAUNCH(lambda *_: driver.INVALID_VALUE)  # type: ignore[attr-defined]
    run = executable(("u64",), driver.device(0))
    run.launch((3, 0, 1), LaunchArguments((16,), (), 0, 0))
