"""Launches find the arrays of lists in tables among their parameters, whatever launches before had."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backends.gpu.test_lists import Lists
from hypothesis import given, settings
from hypothesis import strategies as st
from support.driver import Driver, encoded, versions

from tilewright.backends import native
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.gpu_runtime import driver, executable, launch_code, tensormap
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.executable import GpuExecutable
from tilewright.ir.core import Function
from tilewright.ir.gpu_parameters import MAP_BYTES, TableParameter

Array = tuple[int, int, int, int]  # address, rows, columns, pitch
Entry = tuple[bytes, bytes]  # map and row


class Looking(Driver):
    """Reads what kernels would find in tables. The memory of the device is that of the host."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: dict[int, GpuExecutable] = {}  # by their handles
        self.local = threading.local()  # what the last launch of the thread had: device, and entries of each list

    def _launch(self, config: Any, handle: Any, pointers: Any, _: None) -> int:
        kernel = self.kernels[handle - handle % 2]
        self.local.seen = handle % 2, [list(self._entries(kernel, t, pointers)) for t in kernel.artifact.tables]
        return 0

    def _entries(self, kernel: GpuExecutable, param: TableParameter, pointers: int) -> Iterator[Entry]:
        parameters = (ctypes.c_uint64 * len(kernel.artifact.formats)).from_address(pointers)
        start = parameters[param.index]
        if param.by_value:
            start += kernel.artifact.capacity * param.map_bytes
        else:
            start = ctypes.c_uint64.from_address(start).value
            assert self.borrowed
        length = ctypes.c_int32.from_address(parameters[param.index + 1]).value
        assert start % 64 == 0 and (length <= kernel.artifact.capacity or not param.by_value)
        for i in range(length):
            row = ctypes.string_at(start + 8 * param.width * i, 8 * param.width)
            yield ctypes.string_at(start - MAP_BYTES * (i + 1), len(NO_MAP)), row


NO_MAP = encoded(0, (), ())
LOOKING = Looking()


@pytest.fixture(scope="module")
def kernel() -> Iterator[GpuExecutable]:
    """Takes 3 arrays of each list; another variant of it takes 6, and the last one any number. The grids of these tests
    take variants with more stages of these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "load", lambda: LOOKING)
        patch.setattr(driver, "device", lambda index: LOOKING)
        patch.setattr(native, "available", lambda: False)
        patch.setattr(tensormap, "memory_for_nothing", lambda device: 64)
        patch.setattr(launch_code, "memory_for_nothing", lambda device: 64)
        patch.setattr(executable, "CAPACITIES", (3, 6))
        patch.setattr(executable, "_MOST_ENTRIES", 4)
        function = Lists(((256, 256, 256),), (64, 64, 32)).function
        yield versions(function, lambda function, variant: made(function, variant or Constraints(capacity=3)))


def made(function: Function, how: Constraints) -> GpuExecutable:
    """The kernel on two GPUs, compiled so."""
    found = GpuExecutable(function, GpuBackend("sm_90").artifact(function, {}, how), how, dict)
    handle = 2 * len(LOOKING.kernels) + 2
    LOOKING.kernels[handle] = found
    for index in (0, 1):
        loaded: Any = SimpleNamespace(handle=ctypes.c_void_p(handle + index), device=LOOKING)
        found._loaded[index] = loaded
    return found


def array(place: int, rows: int, columns: int, padding: int) -> Array:
    return (1 << 30) + 16 * place, 8 * rows, 8 * columns, 8 * max(columns + padding, 1)


@functools.lru_cache(maxsize=8)
def rows_of(layouts: tuple[tuple[int, ...], ...]) -> np.ndarray[Any, Any]:
    """Those that launches share which differ by addresses."""
    return np.array([[0, *layout, 1] for layout in layouts], np.int64)


def table_of(arrays: Sequence[Array]) -> ListTable:
    return ListTable(rows_of(tuple(x[1:] for x in arrays)), [x[0] for x in arrays])


def entry(array: Array) -> Entry:
    address, height, width, pitch = array
    some = encoded(address, (width, height), (2 * pitch,))
    nothing = encoded(64, (1, 1), (16,))  # what an array without elements is described by
    row = np.array([address, height, width, pitch, 1], np.int64)
    return some if height and width else nothing, row.tobytes()


def launch(kernel: GpuExecutable, lists: Sequence[Sequence[Array]], device: int, way: str = "launch") -> None:
    """Launch it in one of the ``WAYS``, and look at what it got."""
    tables, grid = [table_of(x) for x in lists], (4, 1, 1)
    filled = [table.filled() for table in tables]
    values = [v for rows in filled for v in (rows.ctypes.data, len(rows))]
    arguments = LaunchArguments(values, (), 7, device, tables)
    if way == "launch":
        kernel.launch(grid, arguments)
    else:
        bound = kernel.bind(grid, arguments)
        launch(kernel, [x[::-1] for x in lists], device)
        bound()
    assert LOOKING.local.seen == (device, [[entry(x) for x in arrays] for arrays in lists])
    assert not LOOKING.borrowed or threading.active_count() > 1


WAYS = ("launch", "bind")
# Few places and layouts, so that launches have things in common, and lists the same array more than once.
ARRAYS = st.builds(array, st.integers(0, 3), st.integers(0, 2), st.integers(1, 2), st.integers(0, 1))
LISTS = st.tuples(*[st.lists(ARRAYS, min_size=1, max_size=8)] * 3)
LAUNCHES = st.lists(st.tuples(LISTS, st.integers(0, 1), st.sampled_from(WAYS)), max_size=8)


@settings(max_examples=200)
@given(launches=LAUNCHES, moves=st.lists(st.integers(0, 3), max_size=3))
def test_every_launch_finds_its_arrays(kernel: GpuExecutable, launches: list[Any], moves: list[int]) -> None:
    """Lists of any lengths and layouts in turns, and the same arrays at other addresses."""
    for lists, device, way in launches:
        launch(kernel, lists, device, way)
        for n in moves:
            launch(kernel, [[(address + 256 * n, *rest) for address, *rest in x] for x in lists], device, way)


def test_threads_have_tables_of_their_own(kernel: GpuExecutable) -> None:
    def work(number: int) -> None:
        for i in range(50):
            launch(kernel, [[array(number + i % 3, 1, 1, 0)] * (i % 7 + 1)] * 3, number % 2)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))


def test_graphs_take_what_is_passed_by_value(kernel: GpuExecutable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOOKING, "capturing", True)
    one = array(0, 1, 1, 0)
    launch(kernel, [[one] * 3, [one] * 6, [one]], 0)
    with pytest.raises(RuntimeError, match=r"products\(\) cannot be recorded in a CUDA graph"):
        launch(kernel, [[one] * 3, [one] * 7, [one]], 0)
