"""What a signal handler raises, and a time limit, end a launch: its blocks stop, and its arrays stay as they are.

The kernels would run for minutes, and would write to ``out`` at their end.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.openmp import team
from support.signals import alarm

import tilewright as ct
from tilewright.system.deadlines import time_limit

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs the timers of POSIX")
LONG = 2**31 - 1
Launch = Callable[[], None]


class Alarm(Exception):
    pass


@pytest.fixture(autouse=True, params=["pool", "team"])
def several_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Those of ours, and those of an OpenMP runtime."""
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "3")
    with team(3) if request.param == "team" else contextlib.nullcontext():
        yield


def raising(*_: Any) -> None:
    raise Alarm


@ct.kernel
def counts(x, out, n):
    total = ct.zeros((16,), ct.float32)
    for _ in range(n):
        total = total * 0.5 + ct.load(x, (0,), (16,))
    ct.store(out, (ct.bid(0),), total + 1)


@ct.kernel
def scalars(x, out, n):
    total = 0
    for i in range(n):
        for j in range(n):
            total = (total ^ (i * j)) * 3
    ct.store(out, (ct.bid(0),), ct.full((16,), total | 1, ct.float32))


@ct.kernel
def halves(x, out, n):
    i = 0
    while i < n:
        j = 0
        while j < n:
            j += 1 + ct.load(x, (0,), (1,)).item().astype(ct.int32)
        i += 1
    ct.store(out, (ct.bid(0),), ct.full((16,), 1, ct.float32))


@ct.kernel
def small(x, out, n):
    i = ct.bid(0)
    if i + ct.bid(1) + ct.bid(2) >= n:
        ct.store(out, (0,), ct.full((16,), 1, ct.float32))


@ct.kernel
def prints(x, out, n):
    for i in range(n):
        ct.printf("%d\n", i)
    ct.store(out, (ct.bid(0),), ct.full((16,), 1, ct.float32))


@ct.kernel
def asserts(x, out, n):
    for i in range(n):
        ct.assert_(ct.load(x, (i % 2,), (16,)).item() >= 0 if ct.static_eval(False) else i >= 0)
    ct.store(out, (ct.bid(0),), ct.full((16,), 1, ct.float32))


@ct.kernel
def lists(arrays, out, n):
    total = ct.zeros((16,), ct.float32)
    for i in range(n):
        total += ct.load(arrays[i % len(arrays)], (0,), (16,))
    ct.store(out, (ct.bid(0),), total + 1)


@ct.kernel
def waits(x, out, n):
    while ct.load(x, (0,), (1,), memory_order="ACQUIRE", memory_scope="DEVICE").item() < n:
        pass
    ct.store(out, (ct.bid(0),), ct.full((16,), 1, ct.float32))


def warm_up(kernel: Any, first: Any, out: np.ndarray, times: int = 1) -> None:
    """So that no signal comes while LLVM compiles."""
    ones = [np.ones_like(a) for a in first] if isinstance(first, list) else np.ones_like(first)
    for _ in range(times):
        ct.launch(None, (1,), kernel, (ones, np.zeros_like(out), 1), backend="cpu")


def plain(kernel: Any, grid: tuple[int, ...], first: Any, out: np.ndarray) -> Launch:
    warm_up(kernel, first, out)
    return lambda: ct.launch(None, grid, kernel, (first, out, LONG), backend="cpu")


def repeated(kernel: Any, grid: tuple[int, ...], first: Any, out: np.ndarray) -> Launch:
    """A launch by machine code, as that of the same kernel after some launches."""
    warm_up(kernel, first, out, 10)
    return plain(kernel, grid, first, out)


def bound(kernel: Any, grid: tuple[int, ...], first: Any, out: np.ndarray) -> Launch:
    with ct.use_backend("cpu"):
        found: Launch = kernel.bind(grid, (first, out, LONG))
    return found


CASES = [
    (counts, (1,)),
    (counts, (7,)),
    (scalars, (2,)),
    (halves, (1,)),
    (small, (2**20, 2**20)),
    (prints, (2,)),
    (asserts, (1,)),
    (asserts, (2,)),
    (lists, (1,)),
    (waits, (1,)),
    (waits, (5,)),
]


@pytest.mark.parametrize("way", (plain, repeated, bound), ids=lambda way: way.__name__)
@pytest.mark.parametrize("kernel, grid", CASES, ids=lambda v: getattr(v, "name", str(v)))
def test_what_a_signal_handler_raises_ends_the_launch(
    kernel: Any, grid: tuple[int, ...], way: Callable[..., Launch], capsys: pytest.CaptureFixture[str]
) -> None:
    out, x = np.zeros(16 * 8, np.float32), np.zeros(32, np.float32)
    run = way(kernel, grid, [x, x] if kernel is lists else x, out)
    for _ in range(2):
        with pytest.raises(Alarm) as caught, alarm(raising):
            run()
        assert not out.any()
        for note in getattr(caught.value, "__notes__", []):  # none where no block had begun, and before Python 3.11
            assert kernel.name in note and "block (" in note and __file__ in note


def test_the_note_says_where_each_worker_was() -> None:
    @ct.kernel
    def kernel(started, out, n):
        total = ct.atomic_add(started, 0, 1)
        for i in range(n):
            total = total * 3 + i
        ct.store(out, (ct.bid(0),), ct.full((16,), total | 1, ct.float32))

    started, out = np.zeros(1, np.int32), np.zeros(16 * 3, np.float32)

    def raises_when_all_run(*_: Any) -> None:
        if started[0] == 4:
            signal.setitimer(signal.ITIMER_REAL, 0)  # a second one could come while the note is written
            raise Alarm

    ct.launch(None, (1,), kernel, (started, np.zeros_like(out), 1), backend="cpu")
    with pytest.raises(Alarm) as caught, alarm(raises_when_all_run, repeat=0.02):
        ct.launch(None, (3,), kernel, (started, out, LONG), backend="cpu")
    if sys.version_info < (3, 11):
        pytest.skip("exceptions have notes from Python 3.11 on")
    line = kernel.__wrapped__.__code__.co_firstlineno + 3
    places = [f"block ({i}, 0, 0) at {__file__}:{line}:18 (for)" for i in range(3)]
    assert caught.value.__notes__ == [f"the launch of kernel() was cancelled in {'; '.join(places)}"]
    assert not out.any()


def test_control_c() -> None:
    """The signal comes from another thread."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in their background jobs
    to_main = threading.main_thread().ident, signal.SIGINT
    out, x = np.zeros(16 * 8, np.float32), np.zeros(32, np.float32)
    run = plain(waits, (5,), x, out)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            alarm(lambda *_: threading.Thread(target=signal.pthread_kill, args=to_main).start()),
        ):
            run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not out.any()


def test_a_handler_that_raises_nothing_ends_nothing() -> None:
    """It may even launch kernels, also the one that is running."""
    x, seen, inside = np.ones(32, np.float32), [], []

    def launches(*_: Any) -> None:
        if inside or len(seen) > 3:
            return
        inside.append(True)
        out = np.zeros(16 * 8, np.float32)
        ct.launch(None, (8,), counts, (x, out, 5), backend="cpu")
        seen.append(out)
        inside.clear()

    n, out = (1 << 23) - 1, np.zeros(16 * 8, np.float32)
    warm_up(counts, x, out)
    for grid in ((1,), (8,)):
        seen.clear()
        with alarm(launches, repeat=0.02):
            while not seen:
                ct.launch(None, grid, counts, (x, out, n), backend="cpu")
        np.testing.assert_array_equal(out[: 16 * grid[0]], 3)
        assert all((found == 2.9375).all() for found in seen)


@pytest.mark.parametrize(
    "kernel, grid", [c for c in CASES if c[0] not in (prints,)], ids=lambda v: getattr(v, "name", str(v))
)
def test_a_time_limit_ends_the_launch(kernel: Any, grid: tuple[int, ...]) -> None:
    out, x = np.zeros(16 * 8, np.float32), np.zeros(32, np.float32)
    for way in (plain, bound):
        run = way(kernel, grid, [x, x] if kernel is lists else x, out)
        with pytest.raises(TimeoutError, match="cancelled at its time limit"), time_limit(0.05):
            run()
        assert not out.any()
    with time_limit(60):
        ct.launch(None, (8,), counts, (x, out, 3), backend="cpu")
    np.testing.assert_array_equal(out, 1)


def test_a_time_limit_of_one_thread_is_not_that_of_another() -> None:
    x, out, ended = np.zeros(32, np.float32), np.zeros(16 * 8, np.float32), threading.Event()

    warm_up(counts, x, out)

    def limited() -> None:
        with contextlib.suppress(TimeoutError), time_limit(0.05):
            ct.launch(None, (2,), counts, (x, np.zeros_like(out), LONG), backend="cpu")
        ended.set()

    thread = threading.Thread(target=limited)
    thread.start()
    while True:  # at least once, however late this thread is
        over = ended.is_set()
        ct.launch(None, (8,), counts, (x, out, 1001), backend="cpu")
        if over:
            break
    thread.join()
    np.testing.assert_array_equal(out, 1)
