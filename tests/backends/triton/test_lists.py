"""Kernels find the arrays of lists in tables among their parameters, whatever launches before had."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backends.triton.compiled_kernels import compiled, spills
from hypothesis import given, settings
from hypothesis import strategies as st
from support.driver import Driver, encoded, versions

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends import native
from tilewright.backends.launch_arguments import LaunchArguments, ListTable
from tilewright.backends.triton import ptx
from tilewright.backends.triton.backend import compile_for
from tilewright.backends.triton.ptx import UnexpectedPtx, with_by_value_parameters
from tilewright.backends.triton.tma_boxes import boxes
from tilewright.gpu_runtime import driver, executable, launch_parameters, tensormap
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.executable import CAPACITIES, GpuExecutable
from tilewright.ir.core import Function
from tilewright.ir.gpu_parameters import TableParameter
from tilewright.runtime.launch import specialization

pytest.importorskip("triton", reason="the package triton is not installed")

HOPPER = parse_target("sm_90")
HALF = np.zeros((256, 256), np.float16)


@ct.kernel
def products(a, b, c, T: ct.Constant[int], K: ct.Constant[int]):
    """Products of the arrays of lists, spread over the blocks."""
    first = ct.bid(0)
    for g in range(len(a)):
        across = ct.num_tiles(c[g], 1, (T, T))
        for tile in range(first, ct.num_tiles(c[g], 0, (T, T)) * across, ct.num_blocks(0)):
            total = ct.zeros((T, T), ct.float32)
            for k in range(ct.num_tiles(a[g], 1, (T, K))):
                x = ct.load(a[g], (tile // across, k), (T, K), padding_mode=ct.PaddingMode.ZERO)
                y = ct.load(b[g], (k, tile % across), (K, T), padding_mode=ct.PaddingMode.ZERO)
                total = ct.mma(x, y, total)
            ct.store(c[g], (tile // across, tile % across), total.astype(ct.float16))


@ct.kernel
def one_of_two(a, b, out, flag):
    chosen = a
    if flag > 0:
        chosen = b
    ct.store(out, (0,), ct.load(chosen[1], (0,), (64,)))


def function_of(arrays: Sequence[Any], size: int = 64) -> Function:
    return specialization(products, (list(arrays),) * 3 + (size, 32), "reference").function


@pytest.mark.parametrize("capacity", [*CAPACITIES, 0])
def test_hopper_uses_its_matrix_units_and_copy_engine(capacity: int) -> None:
    artifact = compile_for(function_of([HALF], 128), HOPPER, {}, Constraints(capacity=capacity))
    ptx = artifact.binary.texts["PTX"]
    assert "wgmma.mma_async" in ptx and "mma.sync" not in ptx
    assert ptx.count("cp.async.bulk.tensor") >= 3
    assert not spills(artifact.binary)
    assert [len(t.descriptors) for t in artifact.tables] == [1, 1, 1] and not artifact.descriptors
    assert [t.by_value for t in artifact.tables] == [capacity > 0] * 3
    assert 0 <= artifact.capacity <= capacity
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact


@pytest.mark.parametrize("target", ["sm_80", "sm_100", "gfx942"])
def test_other_architectures(target: str) -> None:
    artifact = compile_for(function_of([HALF]), parse_target(target), {}, Constraints(capacity=CAPACITIES[0]))
    assert artifact.binary.code
    assert all(t.by_value == target.startswith("sm") for t in artifact.tables)


def test_arrays_that_the_copy_engine_cannot_take() -> None:
    odd = np.zeros((9, 257), np.float16)[:, 1:]
    artifact = compile_for(function_of([HALF, odd]), HOPPER, {}, Constraints(capacity=CAPACITIES[0]))
    assert [t.descriptors for t in artifact.tables] == [()] * 3
    assert all(t.by_value for t in artifact.tables)


def test_lists_that_the_kernel_chooses_between_are_passed_by_address() -> None:
    ones = [np.zeros(64, np.float32)] * 2
    artifact = compiled(one_of_two, (ones, ones, ones[0], 1), "sm_90")
    assert [t.by_value for t in artifact.tables] == [False, False]


def test_the_copy_engine_leaves_lists_alone_that_are_loaded_and_stored() -> None:
    @ct.kernel
    def in_place(xs):
        x = ct.load(xs[1], (0, 0), (64, 64))
        ct.store(xs[0], (0, 0), ct.mma(x, x, ct.zeros((64, 64), ct.float32)).astype(ct.float16))

    artifact = compiled(in_place, ([HALF, HALF],), "sm_90")
    assert artifact.tables[0].descriptors == ()


def test_stores_to_lists_are_not_divided_among_blocks() -> None:
    artifact = compiled(products.replace_hints(num_ctas=2), ([HALF], [HALF], [HALF], 256, 64), "sm_90")
    assert artifact.binary.num_ctas == 1


# -- what a launch hands over

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
        if not param.by_value:
            start = ctypes.c_uint64.from_address(start).value
            assert self.borrowed
        length = ctypes.c_int32.from_address(parameters[param.index + 1]).value
        assert start % 64 == 0 and (length <= kernel.artifact.capacity or not param.by_value)
        for place in range(start, start + length * param.entry_bytes, param.entry_bytes):
            yield ctypes.string_at(place, len(NO_MAP)), ctypes.string_at(place + param.row_offset, 8 * param.width)

    def cuMemcpyHtoDAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> int:
        ctypes.memmove(to.value, source.value, size.value)
        return 0


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
        patch.setattr(tensormap, "_nothing", lambda device: 64)
        patch.setattr(executable, "CAPACITIES", (3, 6))
        patch.setattr(launch_parameters, "_MAX_TABLES", 4)
        yield versions(
            function_of([HALF]), lambda function, variant: made(function, variant or Constraints(capacity=3))
        )


def made(function: Function, how: Constraints) -> GpuExecutable:
    """The kernel on two GPUs, compiled so."""
    found = GpuExecutable(function, compile_for(function, HOPPER, {}, how), how, dict)
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
    values = [v for table in tables for v in (table, len(table.rows))]
    arguments = LaunchArguments(values, (), 7, device)
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


@settings(max_examples=200, deadline=None)
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


# -- what Triton may do otherwise one day


def test_parameters_that_are_read_in_another_way() -> None:
    text = ".visible .entry f(\n\t.param .u64 .ptr .global .align 16 f_param_0,\n\t.param .u32 f_param_1\n)\n{\n"
    read = "\tld.param.b64 \t%rd1, [f_param_0];\n"
    passed = with_by_value_parameters(text + read, {0: 640})
    assert ".param .align 64 .b8 f_param_0[640]" in passed and "mov.b64 \t%rd1, f_param_0;" in passed
    with pytest.raises(UnexpectedPtx):
        with_by_value_parameters(text + read.replace("b64", "v2.b64"), {0: 640})
    with pytest.raises(UnexpectedPtx):
        with_by_value_parameters(text, {2: 640})


MODULE = """
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>
#other = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
  %1 = ttng.reinterpret_tensor_descriptor %0 : !tt.ptr<i8> to !tt.tensordesc<tensor<64x64xf16, #shared>>
"""
AGAIN = MODULE.splitlines()[-1]


def test_maps_of_one_kind_of_tiles() -> None:
    wanted = {"64x64xf16": {"swizzle": 2, "elem_size": 2, "block_size": [64, 32]}}
    newer = MODULE.replace("tensor<64x64xf16, #shared>", "64x64xf16, #shared")
    assert boxes(MODULE) == boxes(MODULE + AGAIN) == boxes(newer) == wanted
    for layout in ("#other", "#unknown", "none"):
        line = AGAIN.replace("#shared", layout)
        with pytest.raises(UnexpectedPtx):
            boxes(MODULE + line)


def test_kernels_do_without_what_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(text: str, by_value_parameters: Mapping[int, int]) -> str:
        raise UnexpectedPtx("something new")

    monkeypatch.setattr(ptx, "with_by_value_parameters", unknown)
    artifact = compile_for(function_of([HALF]), HOPPER, {}, Constraints(capacity=3))
    assert [(t.by_value, t.descriptors) for t in artifact.tables] == [(False, ())] * 3
