"""Launches by machine code are those that Python would make: same parameters, or none where it takes a closer look."""

from __future__ import annotations

import gc
import struct
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driver import Driver, executable

from tilewright.backends import native
from tilewright.backends.launch_arguments import LaunchArguments
from tilewright.gpu_runtime import driver
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.runtime.arguments import RUNTIME_SLOT, describe
from tilewright.runtime.arrays import RuntimeValues
from tilewright.runtime.backend_choice import force_backend, use_backend
from tilewright.runtime.cached_launch import cached_launch
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.rules import Rule
from tilewright.runtime.streams import stream_handle

RULES = (Rule(), Rule(), Rule(), Rule(constant=True))
TEMPLATE = (RUNTIME_SLOT, 64, RUNTIME_SLOT, RUNTIME_SLOT)
FORMATS, SIZES = ("u64", "i32", "i32", "f32"), (8, 4, 4, 4)
LOOKING = Driver()


@pytest.fixture(autouse=True, scope="module")
def looking() -> Any:
    native.compiler()  # which launches of its own do not load
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "load", lambda: LOOKING)
        yield LOOKING


@pytest.fixture(scope="module")
def ways(looking: Driver) -> tuple[Callable[..., bool], Callable[..., bool]]:
    """The same launch by machine code and in Python."""
    made = executable(FORMATS, looking)
    args = np.zeros(64, np.float32), 1, 1.0, 7
    by_machine_code = cached_launch(None, RULES, args, TEMPLATE, made, 0)
    assert by_machine_code is not None

    def described(given: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        runtime = RuntimeValues()
        return [describe(rule, x, runtime) for rule, x in zip(RULES, given)], runtime.numbers

    def in_python(stream: Any, grid: Any, given: tuple[Any, ...], backend: str | None) -> bool:
        keys, (address, *numbers) = described(given) if list(map(type, given)) == list(map(type, args)) else ([], [0])
        if keys != described(args)[0]:
            return False
        made.launch(checked_grid(grid), LaunchArguments((address, 64, *numbers), (), stream_handle(stream), 0))
        return True

    return by_machine_code, in_python


def outcome(launch: Callable[..., bool], *given: Any) -> Any:
    """What the driver saw; False where the launch wants a closer look; the class of its error."""
    LOOKING.launches.clear()
    try:
        done = launch(*given)
    except (TypeError, ValueError, OverflowError, struct.error) as e:
        return type(e)
    assert done == bool(LOOKING.launches)
    return [(*launch[:2], [word[:n] for word, n in zip(launch[2], SIZES)]) for launch in LOOKING.launches] or False


def closer(found: Any) -> bool:
    return found is False or isinstance(found, type)


STREAMS = [None, 0, 7, 1 << 40, SimpleNamespace(cuda_stream=9), SimpleNamespace(ptr=11), "0", -1, True]
STREAMS += [SimpleNamespace(cuda_stream=None, ptr=3), SimpleNamespace(__cuda_stream__=lambda: (0, 5)), object()]
STREAMS.append(type("CUstream", (), {"__module__": "cuda.bindings.driver", "__int__": lambda self: 13})())
BASE = np.zeros(80, np.float32)
READ_ONLY = BASE[16:]
READ_ONLY.flags.writeable = False
ARRAYS = [BASE[:64], BASE[16:], BASE[1:65], BASE[:32], BASE[::2], READ_ONLY, np.zeros((8, 8), np.float32)]
ARRAYS += [np.zeros(64, np.int32), np.zeros(64, ">f4"), BASE[:64].view(np.recarray), [0.0] * 64, None]
INTEGERS = st.one_of(st.integers(-(1 << 70), 1 << 70), st.integers(-9, 9), st.booleans(), st.sampled_from([1.0, None]))
FLOATS = st.one_of(st.floats(), st.sampled_from([np.float64(1), 1, True]))
GRIDS = st.one_of(
    st.lists(
        st.one_of(st.integers(-1, 1 << 25), st.integers(1, 9), st.integers(0, 9).map(np.int64)), min_size=1, max_size=4
    ).map(tuple),
    st.sampled_from([1, [1], (True,), (1.0,), (1 << 80,), None, (1 << 22, 1 << 21, 1 << 21), ((1 << 24) - 1,) * 3]),
)


CONSTANTS = st.sampled_from([7, 7, 7, 8, 7.0, True])
ARGUMENTS = st.tuples(st.sampled_from(ARRAYS), INTEGERS, FLOATS, CONSTANTS)


@given(stream=st.sampled_from(STREAMS), grid=GRIDS, args=ARGUMENTS)
def test_both_ways_hand_over_the_same(ways: Any, stream: Any, grid: Any, args: tuple[Any, ...]) -> None:
    found, wanted = (outcome(way, stream, grid, args, None) for way in ways)
    assert found == wanted or (closer(found) and closer(wanted))


@pytest.mark.parametrize(
    "change",
    [
        lambda grid, args: ((), args),
        lambda grid, args: (grid, args[:3]),
        lambda grid, args: (grid, (*args, 1)),
        lambda grid, args: (grid, list(args)),
        lambda grid, args: ([1], args),
    ],
)
def test_what_needs_a_closer_look(ways: Any, change: Callable[..., Any]) -> None:
    args = BASE[:64], 1, 1.0, 7
    assert outcome(ways[0], None, (1,), args, None)
    grid, changed = change((1,), args)
    assert outcome(ways[0], None, grid, changed, None) is False
    assert outcome(ways[0], None, (1,), args, "cpu") is False


def test_settings_need_a_closer_look(ways: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def done() -> bool:
        return bool(ways[0](None, (1,), (BASE[:64], 1, 1.0, 7), None))

    assert done()
    with use_backend("cpu"):
        assert not done()
    with force_backend("cpu"):
        assert not done()
    for name in ("TILEWRIGHT_BACKEND", "TILEWRIGHT_CHECK", "TILEWRIGHT_CHECK_OVERLAP"):
        assert done()
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert not done()
    assert done()


def test_what_the_driver_refuses_is_left_to_python(ways: Any) -> None:
    LOOKING.codes = [driver.INVALID_CONTEXT]
    assert outcome(ways[0], None, (1,), (BASE[:64], 1, 1.0, 7), None) is False
    assert outcome(ways[0], None, (1,), (BASE[:64], 1, 1.0, 7), None)


@pytest.mark.parametrize("shape", [(64, 48), (1, 48), (300, 1), (1, 1)])
@pytest.mark.parametrize("rounds", [True, False])
def test_maps(looking: Driver, shape: tuple[int, int], rounds: bool) -> None:
    item, pitch = (4, 1 if 1 in shape else 24) if rounds else (2, 1 if 1 in shape else 24)
    extents, steps = (("p", 1, 1), ("p", 2, 3)), (("p", 3, 2), ("c", 1, 1))
    d = Descriptor(0, extents, steps, (0, 1), (64, 32), "f32" if rounds else "bf16", rounds=rounds)
    made = executable(
        ("u64", "i32", "i64", "i32"), looking, [(d, {"elem_size": item, "block_size": [64, 32], "swizzle": 3})]
    )
    base = np.zeros(80, np.float32)
    args, template = (base[16:],), (RUNTIME_SLOT, *shape, pitch)
    launch = cached_launch(None, RULES[:1], args, template, made, 0)
    assert launch is not None
    step = max(2 * pitch * item, 16) if shape[0] == 1 else 2 * pitch * item
    for array in (base[16:], base[:64]):
        looking.maps.clear()
        assert outcome(launch, None, (1,), (array,), None)
        sizes = [3 * shape[1], shape[0]], [step], [32, 64], [1, 1]
        assert looking.maps == [(11 if rounds else 9, 2, array.ctypes.data, *sizes, (0, 3, 2, 0))]
    looking.codes = [1]
    assert outcome(launch, None, (1,), args, None) is False  # as the driver refuses the map
    empty = cached_launch(None, RULES[:1], args, (RUNTIME_SLOT, 0, 48, 24), made, 0)
    assert empty is not None
    assert outcome(empty, None, (1,), args, None) is False  # Python finds some memory for it


def test_even_numbers_of_blocks_are_launched_in_pairs(looking: Driver) -> None:
    """Along the first axis, of kernels whose pairs share loads."""
    extents, steps = (("c", 64, 1), ("c", 64, 1)), (("c", 72, 1), ("c", 1, 1))
    base = np.zeros(80, np.float32)
    for pairs in (True, False):
        d = Descriptor(0, extents, steps, (0, 1), (64, 32), "f16", pairs=pairs)
        meta = {"elem_size": 2, "block_size": [64, 32], "swizzle": 3}
        made = executable(("u64",), looking, [(d, meta)])
        args = (base[16:80],)
        launch = cached_launch(None, RULES[:1], args, (RUNTIME_SLOT,), made, 0)
        assert launch is not None
        for grid in ((1, 1, 1), (2, 3, 1), (3, 2, 1), (4, 1, 1), (7, 4, 2), (8, 1, 5)):
            looking.attributes.clear()
            assert outcome(launch, None, grid, args, None)
            made.launch(grid, LaunchArguments((args[0].ctypes.data,), (), 0, 1))
            made.bind(grid, LaunchArguments((args[0].ctypes.data,), (), 0, 1))()
            assert looking.attributes == [2 if pairs and grid[0] % 2 == 0 else 0] * 3


def test_an_interrupt_gets_out(ways: Any) -> None:
    class Interrupted:
        @property
        def cuda_stream(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ways[0](Interrupted(), (1,), (BASE[:64], 1, 1.0, 7), None)


def test_nothing_is_kept_or_lost(ways: Any) -> None:
    array, stream, constant = BASE[:64], SimpleNamespace(cuda_stream=1 << 50), 7
    args = array, 1 << 20, 2.5, constant
    watched = [
        array,
        array.dtype,
        np.ndarray,
        args,
        args[1],
        args[2],
        stream,
        stream.cuda_stream,
        True,
        False,
        None,
        int,
    ]
    other = SimpleNamespace(ptr=1 << 50)
    gc.collect()
    before = list(map(sys.getrefcount, watched))
    for _ in range(10_000):
        ways[0](stream, (3,), args, None)
        ways[0](other, (3,), args, None)
        ways[0](stream, (0,), args, None)
        ways[0](object(), (3,), args, None)
    LOOKING.launches.clear()
    after = list(map(sys.getrefcount, watched))
    assert [a - b for a, b in zip(after, before) if abs(a - b) > 1000] == []


def test_it_lives_as_long_as_it_is_used(looking: Driver) -> None:
    args = (np.zeros(4, np.float32),)
    launch = cached_launch(None, RULES[:1], args, (RUNTIME_SLOT,), executable(("u64",), looking), 0)
    assert launch is not None
    gc.collect()
    assert outcome(launch, None, (2,), args, None)
    del launch
    gc.collect()


def test_threads(ways: Any) -> None:
    LOOKING.launches.clear()

    def work(number: int) -> None:
        for i in range(200):
            assert ways[0](number, (number + 1, i + 1), (BASE[:64], i, 0.5, 7), None)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = sorted(
        (grid[0] - 1, stream, grid[1] - 1, struct.unpack("i4x", words[2])[0])
        for grid, stream, words in LOOKING.launches
    )
    assert seen == [(n, n, i, i) for n in range(4) for i in range(200)]
