"""A launch ends when all of its threads have, whatever is raised meanwhile."""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.cpu import threads
from tilewright.backends.cpu.team import TeamMemory
from tilewright.backends.cpu.threads import Pool, Scratch


def resident(start: int, size: int) -> int:
    """How many bytes of so many from ``start`` on have a place in memory."""
    first, page = start // mmap.PAGESIZE * mmap.PAGESIZE, mmap.PAGESIZE
    found = (ctypes.c_ubyte * (-(-(start + size - first) // page)))()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(first), ctypes.c_size_t(start + size - first), found) == 0
    return sum(state & 1 for state in found) * page


@pytest.mark.skipif(sys.platform != "linux", reason="needs mincore() as Linux has it")
def test_scratch_memory_is_placed_by_the_thread_that_writes_to_it_first() -> None:
    """Machines with several memories place a page where the thread runs that touches it first."""
    size, threads, seen = 64 << 20, 4, []

    def look() -> None:
        memory, layout = Scratch(size), TeamMemory.of(threads, size // threads, True)
        taken = layout.take()  # which lives as long as its memory is looked at
        scratch = layout.scratch(taken)
        assert not scratch % mmap.PAGESIZE and not layout.stride % mmap.PAGESIZE  # threads share no page of it
        for start in (memory.address, scratch):
            seen.append(resident(start, size))
            ctypes.memset(start, 1, size)
            seen.append(resident(start, size))

    thread = threading.Thread(target=look)  # a new one keeps no memory of other launches
    thread.start()
    thread.join()
    before, after = seen[::2], seen[1::2]
    assert len(before) == len(after) == 2
    assert max(before) < size // 8  # the records are before it, perhaps in the same huge page
    assert min(after) >= size


class Late(BaseException):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs the timers of POSIX")
@pytest.mark.parametrize("alarms", [1, 3])
def test_what_a_signal_handler_raises_waits_for_the_threads(alarms: int) -> None:
    pool, joined = Pool(), threading.Barrier(4)
    raised, ended, enough = [], [], threading.Event()

    def late(*_: Any) -> None:
        raised.append(True)
        if len(raised) == alarms:
            signal.setitimer(signal.ITIMER_REAL, 0)
            enough.set()
        raise Late

    def work() -> None:
        joined.wait()
        enough.wait(300)
        time.sleep(0.1)
        ended.append(True)

    def own() -> None:
        joined.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        time.sleep(30)

    kept = signal.signal(signal.SIGALRM, late)
    try:
        with pytest.raises(Late):
            pool.run(work, 4, own)
    finally:
        signal.signal(signal.SIGALRM, kept)
    assert len(ended) == 3
    pool.run(lambda: ended.append(True), 2, lambda: ended.append(True))
    assert len(ended) in (4, 5)  # a thread that comes too late has nothing to do


def test_threads_wake_each_other() -> None:
    """The launching one wakes two, and all of them are there at the same time."""
    pool, together = Pool(), threading.Barrier(9)
    for _ in range(3):
        pool.run(lambda: together.wait(300), 9, lambda: together.wait(300))


def test_a_signal_handler_may_launch_while_threads_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a handler that is called where the pool has its lock."""
    pool, start, calls = Pool(), threading.Thread.start, []

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if not calls:
            calls.append("handler")
            pool.run(lambda: None, 2, lambda: calls.append("its launch"))

    caller = threading.Thread(target=pool.run, args=(lambda: None, 3, lambda: calls.append("launch")), daemon=True)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        start(caller)
        caller.join(300)
    assert calls == ["handler", "its launch", "launch"]


def test_a_caller_that_has_waited_for_the_work_waits_for_no_thread() -> None:
    """Threads whose work is done may still have to get Python's lock."""
    pool, began, over, ended = Pool(), threading.Event(), threading.Event(), []

    def work() -> None:
        began.set()
        ended.append(over.wait(300))

    pool.run(work, 2, lambda: began.wait(300))
    assert not ended
    over.set()
    pool.run(lambda: None, 2, lambda: None)


def test_what_the_work_raises_waits_for_the_threads() -> None:
    pool, joined, ended = Pool(), threading.Barrier(2), []

    def work() -> None:
        joined.wait()
        time.sleep(0.1)
        ended.append(True)

    def own() -> None:
        joined.wait()
        raise Late

    with pytest.raises(Late):
        pool.run(work, 2, own)
    assert ended


def test_a_signal_where_the_end_of_a_launch_begins_does_not_leave_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler raises on the way into a function ends that before its first line."""
    pool, joined, ended = Pool(), threading.Barrier(2), []

    def interrupted(*_: Any) -> None:
        raise Late

    def work() -> None:
        joined.wait()
        time.sleep(0.1)
        ended.append(True)

    def own() -> None:
        joined.wait()
        raise Late

    monkeypatch.setattr(Pool, "_finish", interrupted)
    with pytest.raises(Late):
        pool.run(work, 2, own)
    assert ended


def test_the_caller_works_alone_where_the_system_gives_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, calls = Pool(), []

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        for _ in range(3):
            pool.run(lambda: calls.append(0), 4, lambda: calls.append(threading.get_ident()))
        assert calls == [threading.get_ident()] * 3
        pool.supervise(lambda: calls.append(1), 4, None, lambda: None)
        assert len(calls) == 4
        with pytest.raises(RuntimeError, match="need more than 0 threads, but the system gives no more"):
            pool.supervise(lambda: calls.append(2), 4, lambda workers: 0, lambda: None)
    assert len(calls) == 4
    together = threading.Barrier(4)
    pool.supervise(
        lambda: together.wait(300) and None, 4, lambda workers: 0, lambda: None
    )  # those that were refused are there


def test_blocks_that_wait_are_looked_at_in_as_few_threads_as_the_system_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    @ct.kernel
    def meet(arrived):
        ct.atomic_add(arrived, 0, 1, memory_order="RELEASE")
        while ct.atomic_add(arrived, 0, 0, memory_order="ACQUIRE") < ct.num_blocks(0):
            pass

    starts, start = [], threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        starts.append(thread)
        if len(starts) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threads, "POOL", Pool())
    monkeypatch.setattr(threading.Thread, "start", limited)
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "4")
    arrived = np.zeros(1, np.int32)
    ct.launch(None, (4,), meet, (arrived,), backend="cpu")
    assert arrived[0] == 4 and len(starts) > 2


def test_threads_may_come_while_the_last_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """However that falls together with the end of waiting for them, no thread fails."""
    pool, failures = Pool(), []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    for _ in range(10_000):
        pool.supervise(lambda: None, 8, lambda started: 0, lambda: None)
        assert not failures
