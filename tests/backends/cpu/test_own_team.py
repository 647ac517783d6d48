"""Launches by a team of threads of our own in machine code."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.openmp import team

import tilewright as ct
from tilewright.backends import native
from tilewright.backends.cpu import openmp, threads
from tilewright.backends.cpu.own_team import OwnTeam

_VISIT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# Without Python's lock, which those need that it calls here.
_FORK = ctypes.CFUNCTYPE(None, _VISIT, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
_PROGRAM = """
import numpy as np
import tilewright as ct
from tilewright.backends import native
from tilewright.backends.cpu import openmp

@ct.kernel
def halves(x, out):
    ct.store(out, (ct.bid(0),), ct.exp(ct.load(x, (ct.bid(0),), (1024,))))

native.compiler()
x, out = np.zeros(1 << 18, np.float32), np.zeros(1 << 18, np.float32)
for _ in range(20):
    ct.launch(None, (256,), halves, (x, out), backend="cpu")
assert (out == 1).all() and openmp._STATE.own._started == 3
"""


def halves(x: ct.Array, out: ct.Array) -> None:
    value = ct.load(x, (ct.bid(0),), (256,))
    for _ in range(50):
        value = value * 0.5 + 1
    ct.store(out, (ct.bid(0),), value)


@pytest.fixture
def own() -> Iterator[OwnTeam]:
    """The team of this process, as it is used without PyTorch."""
    openmp.use(None)
    if native.available():
        native.compiler()  # loads LLVM
    if not any(openmp.runtime(1) for _ in range(2)):  # the first launch goes without
        pytest.skip("needs functions in machine code, and Linux")
    yield openmp._STATE.own
    openmp.use(None)


def visitors(own: OwnTeam) -> list[int]:
    """The numbers of the threads that a parallel region finds."""
    found: list[int] = []
    size = own.runtime.threads()
    number = ctypes.CFUNCTYPE(ctypes.c_int)(own.runtime.number)
    together = threading.Event()

    def visit(_: object) -> None:
        found.append(number())
        if len(found) == size:
            together.set()
        together.wait(300)

    visitor = _VISIT(visit)
    address = ctypes.cast(own.runtime.fork, ctypes.c_void_p).value or 0
    _FORK(address)(visitor, None, 0, 0)
    return found


def test_a_region_has_each_thread_once(own: OwnTeam) -> None:
    """Also after there were more, and fewer, and where a thread comes so late that it finds the next region."""
    for size in (3, 5, 2, 4):
        assert own.resize(size) == size == own.runtime.threads()
        for _ in range(250):
            assert sorted(visitors(own)) == [*range(size)]
        assert not own.runtime.in_parallel()


@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda _: ())(0)) < 2, reason="needs two processors")
def test_threads_follow_the_affinity_of_the_one_that_launches(own: OwnTeam) -> None:
    """A team that was made for another one has no threads in machine code, until it is asked for again."""
    before, number = os.sched_getaffinity(0), ctypes.CFUNCTYPE(ctypes.c_int)(own.runtime.number)
    seen: dict[int, set[int]] = {}
    together = threading.Event()

    def visit(_: object) -> None:
        seen[number()] = os.sched_getaffinity(0)
        if len(seen) == 2:
            together.set()
        together.wait(300)

    visitor, fork = _VISIT(visit), _FORK(ctypes.cast(own.runtime.fork, ctypes.c_void_p).value or 0)
    try:
        for allowed in ({min(before)}, {max(before)}, before):
            os.sched_setaffinity(0, allowed)
            assert min(own.runtime.threads() for _ in range(100)) == 1  # it is not asked for at each launch
            assert own.resize(2) == own.runtime.threads() == 2
            seen.clear()
            together.clear()
            fork(visitor, None, 0, 0)
            assert seen[0] == allowed and seen[1] and seen[1] <= allowed
    finally:
        os.sched_setaffinity(0, before)


def test_a_thread_that_loses_its_processor_takes_turns(own: OwnTeam) -> None:
    """It gives that up for a while after each turn, as long as others are known to want it."""
    is_over = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        own._code.address("is_over")
    )
    times, second = (ctypes.c_int64 * 4)(0, 0, 0, 0), 10**9

    def over(milliseconds: float, lost: float = 0) -> bool:
        return is_over(times, second + int(milliseconds * 1e6), int(lost * 1e6))

    assert not over(0) and not over(100, 0.1)  # nobody has taken it
    assert not over(104, 4)  # back again
    assert not over(106) and over(108)  # a turn
    assert over(120)
    assert not over(200)  # long ago


def test_fewer_threads_where_the_system_gives_no_more(own: OwnTeam, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    there = own.resize(2)
    started = own._started
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        assert own.resize(started + 9) == started + 1
    assert own.resize(there) == there


def test_a_thread_whose_start_was_interrupted_shares_its_number_with_none(
    own: OwnTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by what the handler of Ctrl-C raises."""
    start, more = threading.Thread.start, own._started + 3

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(threading.Thread, "start", interrupted)
        own.resize(more)
    assert own.resize(more) == more
    for _ in range(20):
        assert sorted(visitors(own)) == [*range(more)]


def test_launches_from_the_main_thread_use_it_until_there_is_another_runtime(
    own: OwnTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "3")
    assert openmp.runtime(3) == (own.runtime, 3)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(openmp.runtime(3)))
    thread.start()
    thread.join()
    monkeypatch.setattr(threads.POOL, "is_shared", True)
    found.append(openmp.runtime(3))
    monkeypatch.setattr(threads.POOL, "is_shared", False)
    assert found == [None, None]
    with team(2) as other:
        assert openmp.runtime(3) == (other, 2)
        assert openmp.CURRENT.value == other.number  # which machine code that was made before asks
    assert openmp.runtime(3) == (own.runtime, 3)


def test_lateness_does_not_count(own: OwnTeam) -> None:
    openmp.NOTED[:] = (1_000_000, 20_000_000)
    assert openmp.runtime(2) == (own.runtime, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_has_a_team_of_its_own(own: OwnTeam, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches in machine code go on there."""
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "3")
    kernel, x = ct.kernel(halves), np.ones(1024 * 256, np.float32)

    def run() -> None:
        for _ in range(10):
            out = np.zeros_like(x)
            ct.launch(None, (1024,), kernel, (x, out), backend="cpu")
            np.testing.assert_allclose(out, 2, rtol=1e-6)

    run()
    child = os.fork()
    if not child:
        try:
            before = own._started
            run()
            os._exit(0 if (before, own._started) == (0, 2) else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    run()


def test_a_process_ends_while_threads_look_for_work(own: OwnTeam, tmp_path: Path) -> None:
    environment, program = {**os.environ, "TILEWRIGHT_NUM_THREADS": "4"}, tmp_path / "program.py"
    program.write_text(_PROGRAM)
    for _ in range(3):
        done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
