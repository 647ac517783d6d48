"""Runs the tests of the CPU backend on a GPU, by hand: ``python -m pytest -p support.gpu tests/conformance``.

Takes the place of the backend ``cpu``: the arrays of each launch are copied to the GPU, and back after it. Tests of what
only the CPU backend promises are skipped. ``GPU_BACKEND=triton`` names another backend of GPUs.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tilewright.backends import cpu, registry
from tilewright.backends.base import Capabilities, Serialization
from tilewright.backends.launch_arguments import Buffer, LaunchArguments, ListTable
from tilewright.gpu_runtime import driver
from tilewright.ir.core import Function
from tilewright.runtime.variants import MultiVersioned

GPU = registry.get_backend(os.environ.get("GPU_BACKEND", "gpu"))
_MARGIN = 256  # keeps the alignment of addresses


def pytest_configure() -> None:
    registry.register_backend(GPU.name, lambda: GPU, default_for="cuda")
    registry.register_backend("cpu", lambda: BACKEND, default_for="cpu")
    cpu.BACKEND = BACKEND  # type: ignore[assignment]
    if importlib.util.find_spec("gmpy2") is not None:  # the tests of accuracy need it
        bounds = importlib.import_module("support.accuracy").BOUNDS
        bounds["cpu"] = bounds[GPU.name]


# ArgumentKey of the name of a test -> why a GPU gives something else.
NOT_ON_A_GPU = {
    "test_orders": "the order of a fold depends on the layout of the tile",
    "test_reduce_and_scan": "the order of a fold depends on the layout of the tile",
    "test_reduce_of_two_tiles": "the order of a fold depends on the layout of the tile",
    "::test_random_program[": "some programs fold with functions that are not associative; test_any_order has others",
    "::test_long_random_program[": "as test_random_program",
    "test_one_operand[cpu-37]": "a fold with a function that is not associative",
    "test_mma_scaled": "the order of the sums of a product is not the reference's",
    "test_strides_and_orders[shape0": "blocks race for one element",
    "2_31_elements": "the array is larger than what can be copied",
    "beyond_int32": "the array is larger than what can be copied",
    "test_augmented_assignment_and_unary": "powers are those of the device math library, a few units of the last place off",
    "test_the_page_is_complete": "the page has the bounds of the CPU backend",
    "truediv, APPROX": "the instruction gives 0 for the largest divisors, and NaN where the dividend is infinite",
    "test_every_float32": "support.accuracy_gpu measures that",
    "test_every_product_of_two_bytes": "the tiles need more shared memory than there is",
    "test_both_backends_agree_where_only_order": "the order of the sums of a product is not the reference's",
    "test_options_of_the_kernel": "the order of a fold depends on the number of warps",
    "test_a_power_with_an_integer_exponent": "powers are those of the device math library, a few units of the last place off",
    "test_flush_to_zero[div": "the hardware flushes before it rounds",
    "keep_small_numbers[cpu-float32": "the hardware adds float32 atomically without subnormal numbers",
    "test_options.py": "options of the CPU backend",
    "test_machine_code_reads_tensors": "launches with copies of arrays are made in Python",
    "test_launches_that_alternate_are_repeated_too": "launches with copies of arrays are made in Python",
    "test_thread_count_must_be_a_number": "an option of the CPU backend",
    "test_numbers_of_threads": "an option of the CPU backend",
    "test_progress.py": "the driver runs as many blocks at once as fit, and reports no deadlock",
    "test_partial_tiles_load_zero": "undefined in the documents; only the CPU backend promises that it clips",
    "test_tiles_wholly_outside": "undefined in the documents; only the CPU backend promises that it clips",
    "test_wrong_options": "an option of the CPU backend",
    "backends/vector/": "the code that LLVM makes for CPUs",
    "cpu/test_launch.py::test_stages": "the stages of the CPU backend",
    "test_listings_are_those_of_the_kernel": "the stages of the CPU backend",
    "test_choice_of_the_backend": "the test tells backends apart by what they return",
    "test_machine_code_runs_what_is_repeated": "backends of arrays that have to be copied do not run launches again",
    "test_launches_of_two_kinds": "backends of arrays that have to be copied do not run launches again",
    "test_machine_code_calls_machine_code": "backends of arrays that have to be copied are called by Python",
    "test_an_export_that_fails[machine code": "backends of arrays that have to be copied do not run launches again",
    "test_lists_are_recognized": "backends of arrays that have to be copied do not run launches again",
    "test_constants_are_recognized": "backends of arrays that have to be copied do not run launches again",
    "test_threads_share_a_bound_launch": "every launch copies its arrays, so that threads undo each other's work",
    "test_violation[cpu-": "blocks run at the same time, and any of them may be the one that is reported",
    "cpu/test_record.py": "the record of a kernel of the CPU backend",
    "cpu/test_perf_map.py": "the machine code of the CPU backend",
    "cpu/test_interrupts.py::test_the_note": "kernels on a GPU are not cancelled",
    "test_a_run_that_takes_too_long_is_cancelled": "kernels on a GPU are not cancelled",
    "test_other_processes_compile": "the processes have the backends without this plugin",
    "test_pages[architecture]": "the stages of the CPU backend",
    "test_streams_do_not_keep_launches": "backends of arrays that have to be copied do not run launches again",
    "test_masks_of_atomics[": "the order in which the elements of a tile update one place is not defined",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for part, reason in NOT_ON_A_GPU.items():
            if part in item.nodeid and "reference" not in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=reason))


class HostExecutable:
    def __init__(self, function: Function, executable: Any, options: Mapping[str, Any], backend: Any) -> None:
        self._function = function
        self.compiled = executable
        self.executable = MultiVersioned(executable, function, backend, options)

    def launch(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> None:
        device = _device()
        with driver.device(device).current():
            self._launch(grid, arguments, device)

    def _launch(self, grid: tuple[int, int, int], arguments: LaunchArguments, device: int) -> None:
        tables = {i: p for i, p in enumerate(self._function.params) if p.role == "table"}
        names = [p.argument for p in tables.values()]
        copies = [_Copy(group) for group in _groups([b for b in arguments.buffers if b.name not in names])]
        values, lists, kept = list(arguments.values), [], []
        for i, parameter in enumerate(self._function.body.args):
            if i in tables:
                table = next(b for b in arguments.buffers if b.address == values[i])
                words = ctypes.string_at(table.low, table.high - table.low)
                rows = np.frombuffer(words, np.int64).reshape(-1, 1 + 2 * (tables[i].axis or 0))
                lists.append(ListTable(rows, [_moved(copies, a) for a in rows[:, 0].view(np.uint64).tolist()]))
                kept.append(lists[-1].filled())
                values[i] = kept[-1].ctypes.data
            elif parameter.tile.is_pointer:
                values[i] = _moved(copies, values[i])
        self.executable.launch(grid, LaunchArguments(values, (), device=device, tables=lists))
        driver.call("cuCtxSynchronize")
        for copy in copies:
            copy.back()

    def bind(self, grid: tuple[int, int, int], arguments: LaunchArguments) -> Callable[[], None]:
        return functools.partial(self.launch, grid, arguments)

    def stages(self) -> Mapping[str, str]:
        return self.executable.stages()


@functools.cache
def _device() -> int:
    """The GPU of this process: those of pytest-xdist take turns."""
    count = ctypes.c_int()
    driver.call("cuDeviceGetCount", ctypes.byref(count))
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % count.value


def _groups(buffers: list[Buffer]) -> list[tuple[int, int]]:
    """Ranges of memory that cover ``buffers``; those that overlap share one."""
    ranges: list[tuple[int, int]] = []
    for low, high in sorted((b.low, b.high) for b in buffers if b.high > b.low):
        if ranges and low < ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(high, ranges[-1][1])
        else:
            ranges.append((low, high))
    return ranges


class _Copy:
    def __init__(self, memory: tuple[int, int]) -> None:
        self.low, self.high = memory
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), self.high - self.low + 2 * _MARGIN)
        self._allocated = address
        self.shift = address.value + _MARGIN + self.low % _MARGIN - self.low
        driver.call("cuMemcpyHtoD_v2", *self._ends())

    def _ends(self) -> tuple[Any, ...]:
        there, here = ctypes.c_uint64(self.low + self.shift), ctypes.c_void_p(self.low)
        return there, here, ctypes.c_size_t(self.high - self.low)

    def back(self) -> None:
        there, here, size = self._ends()
        driver.call("cuMemcpyDtoH_v2", here, there, size)
        driver.call("cuMemFree_v2", self._allocated)


def _moved(copies: list[_Copy], address: int) -> int:
    return next((address + c.shift for c in copies if c.low <= address < c.high), address)


class HostBackend:
    """A backend of GPUs, for arrays in host memory."""

    name = "cpu"
    device = "cpu"

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def unavailable(self) -> str | None:
        return self.inner.unavailable()

    def target(self) -> str:
        return self.inner.target()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(serialization=Serialization(self._to_bytes, self._from_bytes))

    def compile(self, function: Function, options: Mapping[str, Any], variant: Any = None) -> HostExecutable:
        return HostExecutable(function, self.inner.compile(function, {}), {}, self.inner)

    def _to_bytes(self, executable: HostExecutable) -> bytes:
        return self.inner.capabilities.serialization.to_bytes(executable.compiled)

    def _from_bytes(self, function: Function, data: bytes, options: Mapping[str, Any], variant: Any) -> HostExecutable:
        found = self.inner.capabilities.serialization.from_bytes(function, data, {}, None)
        return HostExecutable(function, found, {}, self.inner)


BACKEND = HostBackend(GPU)
