"""Launches that are prepared once and run many times."""

from __future__ import annotations

import gc
import os
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends import native
from tilewright.ir.errors import TileError
from tilewright.runtime.numpy_memory import address_of
from tilewright.system.environment import variable

TILE = 16


@ct.kernel
def mix(arrays, first, number, out, FACTOR: ct.Constant[int]):
    """Uses every kind of argument: out = (sum of arrays + first[0] * number) * FACTOR."""
    i = ct.bid(0)
    total = ct.load(out, (i,), (TILE,)) * 0.0
    for k in range(len(arrays)):
        total += ct.load(arrays[k], (i,), (TILE,))
    ct.store(out, (i,), (total + ct.load(first[0], (i,), (TILE,)) * number) * FACTOR)


@ct.kernel
def increment(counts):
    ct.atomic_add(counts, ct.bid(0), 1)


@ct.kernel
def check_positive(x):
    ct.assert_(ct.load(x, (ct.bid(0),), (1,)) > 0, "not positive")


def arguments(n: int = 64) -> tuple[Any, ...]:
    a, b, c = (np.random.default_rng(s).standard_normal(n, dtype=np.float32) for s in range(3))
    return [a, b], (c,), 0.5, np.zeros(n, np.float32), 3


def test_a_bound_launch_does_what_the_launch_does(backend: str) -> None:
    args = arguments()
    ct.launch(None, (4,), mix, args)
    wanted = args[3].copy()
    run = mix.bind((4,), args)
    for _ in range(3):
        args[3][:] = 0
        run()
        np.testing.assert_array_equal(args[3], wanted)


def test_it_reads_the_arrays_of_now_and_the_numbers_of_then(backend: str) -> None:
    args = arguments()
    run = mix.bind((4,), args)
    args[0][0][:] = 1
    run()
    np.testing.assert_allclose(args[3], (1 + args[0][1] + args[1][0] * 0.5) * 3, rtol=1e-5)


def test_it_keeps_the_memory_alive() -> None:
    counts = np.zeros(4, np.int32)
    run = increment.bind((4,), (counts[:],))
    base = counts.ctypes.data
    del counts
    gc.collect()
    run()
    kept = run.owners[0][0]  # type: ignore[attr-defined]
    assert kept.ctypes.data == base and list(kept) == [1, 1, 1, 1]


@pytest.mark.skipif(not native.available(), reason="launches are prepared in Python here")
def test_machine_code_calls_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a step in Python, and it does what Python would do."""
    counts = np.zeros(2, np.int32)
    increment.bind((2,), (counts,))()
    monkeypatch.setattr(native, "available", lambda: False)
    by_python = increment.bind((2,), (counts,))
    monkeypatch.undo()
    by_machine_code = increment.bind((2,), (counts,))
    assert isinstance(by_machine_code.func, types.BuiltinFunctionType)  # type: ignore[attr-defined]
    for run in (by_python, by_machine_code):
        run()
    assert list(counts) == [3, 3]
    before = sys.getrefcount(None), sys.getrefcount(counts)
    for _ in range(10_000):
        by_machine_code()
    assert list(counts) == [10_003] * 2
    assert abs(sys.getrefcount(None) - before[0]) < 1000 and sys.getrefcount(counts) == before[1]


@pytest.mark.parametrize("blocks", [1, 100_000])
def test_it_outlives_its_kernel(blocks: int) -> None:
    counts = np.zeros(blocks, np.int32)
    run = increment.replace_hints(occupancy=2).bind((blocks,), (counts,))
    gc.collect()
    run()
    assert (counts == 1).all()


@pytest.mark.parametrize("blocks", [1, 1000])
def test_threads_share_a_bound_launch(blocks: int) -> None:
    counts = np.zeros(blocks, np.int32)
    run = increment.bind((blocks,), (counts,))
    threads = [threading.Thread(target=lambda: [run() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counts == 200).all()


def test_a_failed_assertion_raises_each_time(backend: str) -> None:
    x = np.array([1, -1], np.float32)
    run = check_positive.bind((2,), (x,))
    for _ in range(2):
        with pytest.raises(TileError, match=r"assertion failed: not positive, in block \(1, 0, 0\)"):
            run()
    x[1] = 1
    run()


def test_mistakes_are_said_when_binding() -> None:
    x = np.zeros(4, np.int32)
    with pytest.raises(ValueError, match="entry 0 of the grid"):
        increment.bind((0,), (x,))
    with pytest.raises(TypeError, match="takes 1 argument"):
        increment.bind((1,), ())
    x.flags.writeable = False
    with pytest.raises(ValueError, match="'counts' of increment.. is read-only"):
        increment.bind((1,), (x,))
    y = np.zeros((2, TILE), np.float32)
    with pytest.raises(ValueError, match="overlaps"):
        mix.bind((1,), ([y[0]], (y[1],), 1.0, y[0], 1), check_overlap=True)


def test_address_of_any_array() -> None:
    base = np.arange(24).reshape(4, 6)
    for array in (base, base[1:], base[::-1, 2::2], base[:0], np.array(1.5), base.view(np.uint8)):
        assert address_of(array) == array.__array_interface__["data"][0]


def test_environment_variables_change_at_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("1", "\xe4\u20ac", ""):
        monkeypatch.setenv("TILEWRIGHT_TEST", value)
        assert variable("TILEWRIGHT_TEST") == value == os.environ["TILEWRIGHT_TEST"]
    monkeypatch.delenv("TILEWRIGHT_TEST")
    assert variable("TILEWRIGHT_TEST") is None
