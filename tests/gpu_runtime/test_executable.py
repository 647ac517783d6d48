"""What a launch hands to the driver, seen by a driver that only looks."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.driver import Driver, Launch, executable

from tilewright.backends import native
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.gpu_runtime import driver, launch_code, launch_functions
from tilewright.gpu_runtime.driver import CudaError
from tilewright.ir.gpu_parameters import Descriptor

FORMATS = {"u64": "Q", "i32": "q", "f32": "f4x", "bf16": "H6x", "f8e5m2": "B7x"}


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(driver, "load", lambda: found)
    return found


@pytest.fixture
def seen(looking: Driver) -> list[Launch]:
    return looking.launches


@pytest.mark.parametrize(
    ("formats", "choices"),
    [
        (("u64", "i32"), [(1 << 47, -3), (1 << 47, 5), (16, 5)]),
        (("u64", "f32"), [(16, 0.0), (16, -0.0), (16, 1.5)]),
        (("bf16", "i32"), [(0.0, 1), (-0.0, 1), (1.5, 2)]),
        (("u64", "f8e5m2"), [(16, 0.0), (16, -0.0), (16, 1.6)]),
    ],
)
def test_every_launch_has_its_own_numbers(
    seen: list[Launch], formats: tuple[str, ...], choices: list[tuple[Any, ...]]
) -> None:
    run = executable(formats)
    grids, streams = [(1, 1, 1), (2, 3, 1)], [0, 7]
    cases = list(itertools.product(grids, streams, choices))
    for (grid, stream, values), _ in itertools.product(cases + cases[::-1] + cases[::3], range(2)):
        run.launch(grid, LaunchArguments(values, (), stream, 0))
        run.launch(grid, LaunchArguments(values, (), stream, 1))
        run.bind(grid, LaunchArguments(values, (), stream, 0))()
        wanted = [struct.pack("=" + FORMATS[f], _bits(f, v)) for f, v in zip(formats, values)]
        for found in seen[-3:]:
            assert (found[0], found[1], found[2][: len(formats)]) == (grid, stream, wanted)
            assert found[2][len(formats) :] == [bytes(8)] * (4 - len(formats))  # what the compiler added is null


def test_numbers_beyond_the_range_of_their_type(seen: list[Launch]) -> None:
    executable(("f16", "f32", "f64")).launch((1, 1, 1), LaunchArguments((-1e5, 1e300, 1e300), (), 0, 0))
    half, single, double, _ = seen[0][2]
    assert struct.unpack("e6x", half) + struct.unpack("f4x", single) + struct.unpack("d", double) == (
        -math.inf,
        math.inf,
        1e300,
    )


def test_kernels_that_are_new_need_no_machine_code_of_their_own(
    looking: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch_functions.functions()

    def compiler() -> Any:
        raise AssertionError("machine code is compiled")

    monkeypatch.setattr(native, "compiler", compiler)
    monkeypatch.setattr(driver, "device", lambda index: looking)
    d = Descriptor(0, (("p", 2, 3), ("c", 48, 1)), (("w", 2, 1), ("c", 1, 1)), (0, 1), (64, 32), "f16")
    box = {"elem_size": 2, "block_size": [64, 32], "swizzle": 3}
    run = executable(("u64", "f32", "i64", "i32", "f32"), looking, [(d, box)] * 7, depths=(6, 4))
    run.launch((99, 1, 1), LaunchArguments((16, 0.5, 8, 7, 1.5), (), 0, 0))
    assert run.launch_stub(0, (), {}) is not None
    assert len(looking.launches) == 1 and len(looking.maps) == 7


def _bits(f: str, value: Any) -> Any:
    if f == "f8e5m2":
        return int(np.float32(value).astype(ml_dtypes.float8_e5m2).view(np.uint8))
    return int(np.float32(value).view(np.uint32)) >> 16 if f == "bf16" else value


def test_maps_are_made_where_no_context_is_current(looking: Driver) -> None:
    """As in a thread that has not called the driver yet."""
    d = Descriptor(0, (("c", 64, 1), ("c", 48, 1)), (("c", 48, 1), ("c", 1, 1)), (0, 1), (64, 32), "f16")
    run = executable(("u64",), looking, [(d, {"elem_size": 2, "block_size": [64, 32], "swizzle": 3})])
    for i, (launch, entered) in enumerate(
        (
            (lambda: run.launch((1, 1, 1), LaunchArguments((16,), (), 0, 0)), 1),
            (lambda: run.launch((1, 1, 1), LaunchArguments((32,), (), 0, 0)), 1),
            (lambda: run.bind((1, 1, 1), LaunchArguments((48,), (), 0, 0))(), 2),  # for the map, and for the graph
        )
    ):
        looking.codes, looking.entered = [driver.INVALID_CONTEXT], 0
        launch()
        assert (len(looking.launches), looking.entered) == (i + 1, entered)
    looking.codes = [driver.INVALID_VALUE]
    with pytest.raises(CudaError, match="cuTensorMapEncodeTiled"):
        run.launch((1, 1, 1), LaunchArguments((64,), (), 0, 0))


def test_arrays_without_a_tensor_map_are_read_without(looking: Driver) -> None:
    """Rows in reversed order have none, but one row has, whatever its stride."""
    d = Descriptor(0, (("p", 1, 1), ("c", 48, 1)), (("p", 2, 1), ("c", 1, 1)), (0, 1), (64, 32), "f16")
    run = executable(("u64", "i64", "i64"), looking, [(d, {"elem_size": 2, "block_size": [64, 32], "swizzle": 3})])
    arguments = LaunchArguments((32, 64, -48), (), 0, 0)
    for launch in (
        lambda: run.launch((1, 1, 1), arguments),
        lambda: run.bind((1, 1, 1), arguments)(),
    ):
        before = len(looking.launches)
        launch()
        assert len(looking.launches) == before + 1 and not looking.maps
    run.launch((1, 1, 1), LaunchArguments((32, 1, -48), (), 0, 0))
    assert len(looking.maps) == 1


def test_arrays_without_elements_are_described_on_each_device(looking: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their maps are of memory of the device that reads it."""
    monkeypatch.setattr(launch_code, "memory_for_nothing", lambda device: 64 * (1 + device))
    d = Descriptor(0, (("c", 0, 1), ("c", 48, 1)), (("c", 48, 1), ("c", 1, 1)), (0, 1), (64, 32), "f16")
    run = executable(("u64",), looking, [(d, {"elem_size": 2, "block_size": [64, 32], "swizzle": 3})])
    second: Any = SimpleNamespace(index=1)
    run._first._loaded[1].device = second  # type: ignore[attr-defined]
    for device in (0, 1, 0):
        run.launch((1, 1, 1), LaunchArguments((0,), (), 0, device))
    assert [base for _, _, base, *_ in looking.maps] == [64, 128, 64]


@pytest.mark.parametrize("how", ["machine code", "Python"])
def test_a_bound_launch_fails_as_launches_do(looking: Driver, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "Python":
        monkeypatch.setattr(native, "available", lambda: False)
    run = executable(("u64",), looking).bind((1, 1, 1), LaunchArguments((16,), (), 0, 0))
    refusals = 2 if how == "machine code" else 1  # of which Python makes another attempt
    looking.codes = [driver.INVALID_CONTEXT] * refusals
    looking.entered = 0
    run()  # the last attempt, after the context was made current, succeeds
    assert (len(looking.launches), looking.entered) == (1, 1)
    looking.codes = [2] * refusals
    with pytest.raises(CudaError, match="the launch of kernel") as error:
        run()
    assert error.value.code == 2 and len(looking.launches) == 1
    run()
    assert len(looking.launches) == 2


def bound(on: Driver, stream: int = 0) -> Callable[[], None]:
    return executable(("u64",), on).bind((2, 3, 1), LaunchArguments((16,), (), stream, 0))


def test_bound_launches_are_graphs_where_they_can_be(looking: Driver) -> None:
    run = bound(looking, 7)
    run()
    looking.capturing = True  # the graph that is recorded takes a launch
    run()
    looking.capturing, looking.context = False, looking.context + 8  # of another device
    run()
    looking.context -= 8
    run()
    assert looking.launched_graphs == 2 and looking.launches == [looking.launches[0]] * 4
    assert looking.launches[0][:2] == ((2, 3, 1), 7)
    del run
    gc.collect()
    assert not looking.graphs


def test_launches_that_no_graph_can_be_made_of(looking: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "owns", lambda self, stream: False)
    bound(looking, 7)()
    monkeypatch.setattr(Driver, "cuGraphInstantiateWithFlags", lambda *_: 2)
    bound(looking)()
    assert looking.launched_graphs == 0 and [stream for _, stream, _ in looking.launches] == [7, 0]


def test_a_graph_is_launched_by_one_thread_at_once(looking: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[Callable[[], None]] = []
    once = looking.cuGraphLaunch

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def launch(graph: int, stream: int | None) -> int:
        inside.pop()()
        return once(graph, stream)

    monkeypatch.setattr(looking, "cuGraphLaunch", launch)
    run = bound(looking)
    for _ in range(2):
        inside.append(run)
        run()
    assert (len(looking.launches), looking.launched_graphs) == (4, 2)


def test_memory_of_blocks_is_borrowed_for_each_launch(looking: Driver) -> None:
    run = executable(("u64", "u64"), looking, local_bytes=48)
    arguments = LaunchArguments((16,), (), 7, 0)
    stub = run.launch_stub(0, (), {})
    assert stub is not None
    enter = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 4)(stub.addresses[0])
    values = (ctypes.c_int64 * 2)(16)
    for launch in (
        lambda: run.launch((2, 3, 1), arguments),
        run.bind((2, 3, 1), arguments),
        lambda: enter(stub.addresses[1], values, 2, 3, 1, 7),
    ):
        looking.lent.clear()
        launch()
        ((address, size),) = looking.lent
        assert size == 48 * 6 and not looking.borrowed
        assert looking.launches.pop()[1:] == (7, [struct.pack("=Q", n) for n in (16, address, 0, 0)])
    looking.context += 8  # of another device, of which the stream may be
    assert enter(stub.addresses[1], values, 2, 3, 1, 7) == 1 and len(looking.lent) == 1
    looking.context -= 8
    looking.codes = [2]
    with pytest.raises(CudaError, match="the launch of kernel"):
        run.launch((2, 3, 1), arguments)
