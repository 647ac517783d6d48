"""Launches by the threads of an OpenMP runtime."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.openmp import team
from support.signals import alarm

import tilewright as ct
from tilewright.backends import native
from tilewright.backends.cpu import openmp, threads
from tilewright.backends.cpu.executable import CpuExecutable
from tilewright.backends.cpu.openmp import note_use  # ``team`` replaces that of the module
from tilewright.ir.errors import TileError

THREADS = 3
TEAM = max(THREADS, (os.cpu_count() or 1) // 2)  # of machine code


def products(a: ct.Array, b: ct.Array, out: ct.Array, scale: float) -> None:
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((32, 32), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 16)):
        total = ct.mma(ct.load(a, (i, k), (32, 16)), ct.load(b, (k, j), (16, 32)), total)
    ct.store(out, (i, j), total * scale)


@ct.kernel
def fails_at(x: ct.Array, out: ct.Array, at: int) -> None:
    value = ct.load(x, (ct.bid(0),), (4096,))
    for _ in range(16):
        value = ct.exp(value) - 1
    ct.assert_(ct.bid(0) != at, "here")
    ct.store(out, (ct.bid(0),), value)


@pytest.fixture
def regions() -> Iterator[list[int]]:
    """Threads of a team of three; gets the number of each parallel region that a launch began."""
    begun: list[int] = []
    with team(THREADS) as runtime:

        def fork(function: int, record: bytes, threads: int, flags: int) -> None:
            begun.append(len(begun))
            runtime.fork(function, record, threads, flags)

        openmp.use(runtime._replace(fork=fork))
        with pytest.MonkeyPatch().context() as patch:
            patch.setattr(openmp.AWAKE, "value", sys.maxsize)
            patch.setenv("TILEWRIGHT_NUM_THREADS", str(THREADS))
            yield begun


def multiply(m: int, n: int) -> None:
    """By a kernel of which nothing is known, such as that its blocks take too little time to be shared."""
    a, b = (
        np.random.default_rng(s).integers(-4, 5, shape).astype(np.float32)
        for s, shape in ((0, (m, 128)), (1, (128, n)))
    )
    out = np.zeros((m, n), np.float32)
    ct.launch(None, (m // 32, n // 32), ct.kernel(products), (a, b, out, 2.0), backend="cpu")
    np.testing.assert_array_equal(out, a @ b * 2)


@pytest.mark.parametrize("m, n", [(64, 32), (96, 32), (512, 512), (2048, 1024)])
def test_all_blocks_run_once(regions: list[int], m: int, n: int) -> None:
    """With fewer, as many and more blocks than threads."""
    for _ in range(3):
        multiply(m, n)
    assert regions


def test_a_failed_assert(regions: list[int]) -> None:
    x, out = np.zeros(64 * 4096, np.float32), np.ones(64 * 4096, np.float32)
    ct.launch(None, (64,), fails_at, (x, out, -1), backend="cpu")
    assert not out.any()
    with pytest.raises(TileError, match=r"here.*in block \(40, 0, 0\)"):
        ct.launch(None, (64,), fails_at, (x, out, 40), backend="cpu")
    assert len(regions) == 2


def test_other_threads_and_other_numbers_of_threads_have_the_pool(
    regions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = threading.Thread(target=multiply, args=(512, 512))
    thread.start()
    thread.join()
    monkeypatch.setattr(openmp, "_member_runs", lambda: False)
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "2")
    multiply(512, 512)
    assert not regions


@pytest.mark.parametrize("cores, used", [(2, False), (3, True), (6, True), (7, False)])
def test_a_team_has_no_more_threads_than_cores_nor_far_fewer(
    cores: int, used: bool, regions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a container's limit is less than what PyTorch has seen of the machine."""
    monkeypatch.delenv("TILEWRIGHT_NUM_THREADS")
    monkeypatch.setattr(threads, "available_processors", lambda: cores)
    monkeypatch.setattr(openmp, "_member_runs", lambda: False)
    multiply(512, 512)
    assert bool(regions) == used


@pytest.mark.parametrize("seconds, shared", [(1e-9, 1), (1e-3, 4)])
def test_blocks_that_take_little_time_are_not_shared(
    seconds: float, shared: int, regions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the launch before tells."""

    @ct.kernel
    def kernel(x: ct.Array, out: ct.Array) -> None:
        ct.store(out, (ct.bid(0),), ct.exp(ct.load(x, (ct.bid(0),), (4096,))))

    learn = CpuExecutable._learn
    monkeypatch.setattr(CpuExecutable, "_learn", lambda self, own, blocks: learn(self, seconds, 1))
    x = np.zeros(64 * 4096, np.float32)
    for _ in range(4):
        out = np.zeros_like(x)
        ct.launch(None, (64,), kernel, (x, out), backend="cpu")
        assert (out == 1).all()
    assert len(regions) == shared


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_has_threads_of_its_own(regions: list[int]) -> None:
    """Also if it uses the runtime itself: nothing of its parent's threads is left there."""
    multiply(512, 512)
    child = os.fork()
    if not child:
        try:
            multiply(512, 512)
            openmp._STATE.forked = False
            multiply(2048, 1024)
            os._exit(0 if len(regions) == 2 else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    multiply(512, 512)
    assert len(regions) == 2


def test_late_teams_are_left_alone() -> None:
    """For longer each time."""
    with team(THREADS) as runtime:
        found = []
        for _ in range(40):
            found.append((openmp.runtime(THREADS) or [None])[0] is runtime)
            if found[-1]:
                note_use(runtime, 0.001, 0.02)
    assert [i for i, used in enumerate(found) if used] == [0, 2, 5, 10, 19, 36]


def halves(x: ct.Array, out: ct.Array, steps: int) -> None:
    total = ct.zeros((256,), ct.float32)
    for _ in range(steps):
        total = total * 0.5 + ct.load(x, (ct.bid(0),), (256,))
    ct.store(out, (ct.bid(0),), total)


@pytest.fixture(params=[False, True], ids=["OpenMP", "own"])
def own(request: pytest.FixtureRequest) -> bool:
    """Whether the team is our own."""
    found: bool = request.param
    if found and not any(openmp.runtime(1) for _ in range(2)):  # the first launch makes none
        pytest.skip("needs functions in machine code, and Linux")
    return found


@contextlib.contextmanager
def machine_code(monkeypatch: pytest.MonkeyPatch, own: bool = False) -> Iterator[list[int]]:
    """A team that machine code may use; gets the numbers of blocks of the launches that Python runs all the same."""
    if not native.available():
        pytest.skip("needs functions in machine code")
    native.compiler()  # loads LLVM: else they are made after many more launches
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", str(TEAM))
    by_python: list[int] = []
    run = CpuExecutable._run

    def noted(self: CpuExecutable, grid: tuple[int, int, int], total: int, count: int, packed: bytes) -> None:
        by_python.append(total)
        run(self, grid, total, count, packed)

    monkeypatch.setattr(CpuExecutable, "_run", noted)
    if own:
        openmp.use(None)
    with contextlib.nullcontext() if own else team(TEAM):
        yield by_python


def launches(kernel: ct.kernel, x: np.ndarray, out: np.ndarray, steps: int) -> list[Callable[[], object]]:
    """``ct.launch`` and a bound launch of ``kernel``, which each have run several times."""
    grid, given = (len(x) // 256,), (x, out, steps)
    found: list[Callable[[], object]] = [lambda: ct.launch(None, grid, kernel, given), kernel.bind(grid, given)]
    for run in found:
        for _ in range(6):  # machine code is made for launches that repeat
            run()
    return found


@pytest.mark.parametrize("blocks, wanted", [(1024, True), (1001, False), (64, True)])
def test_machine_code_has_a_team_run_all_blocks(
    blocks: int, wanted: bool, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``wanted``: so many threads are set by the user."""
    x = np.random.default_rng(0).normal(size=blocks * 256).astype(np.float32)
    out, kernel = np.zeros_like(x), ct.kernel(halves)
    with machine_code(monkeypatch, own) as by_python:
        if not wanted:
            monkeypatch.delenv("TILEWRIGHT_NUM_THREADS")
            monkeypatch.setattr(threads, "available_processors", lambda: TEAM)
        for run in launches(kernel, x, out, 400):
            by_python.clear()
            for _ in range(20):
                out[:] = 0
                openmp.FREE.value = 1
                run()
                np.testing.assert_allclose(out, 2 * x, rtol=1e-6)
            assert not by_python


def test_machine_code_leaves_the_team_alone_where_it_must(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In other threads, with another number of threads, and as long as threads of the team were late."""
    x = np.ones(1024 * 256, np.float32)
    out, kernel = np.zeros_like(x), ct.kernel(halves)

    def check(run: Callable[[], object], expected: int, *, elsewhere: bool = False) -> None:
        by_python.clear()
        out[:] = 0
        if elsewhere:
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        else:
            run()
        assert (out == 2).all() and len(by_python) == expected

    with machine_code(monkeypatch, own) as by_python:
        for run in launches(kernel, x, out, 400):
            openmp.FREE.value = 1
            check(run, 0)
            openmp.FREE.value = 1
            check(run, 1, elsewhere=True)
            openmp.FREE.value = 0
            check(run, 1)
        openmp.FREE.value = 1
        launch, _ = launches(kernel, x, out, 400)
        monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "2")
        check(launch, 1)


def test_launches_wait_for_no_threads_that_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where they sleep, nor where others have their processors: our own team runs these launches."""
    x = np.ones(1024 * 256, np.float32)
    out, kernel = np.zeros_like(x), ct.kernel(halves)
    sleeps, runs = -1, openmp.thread_clock(threading.get_native_id())
    monkeypatch.setattr(openmp, "find_members", lambda *_: None)
    with machine_code(monkeypatch) as by_python:
        prepared = launches(kernel, x, out, 400)
        (runtime, _), (own, _) = (found for found in (openmp.runtime(TEAM), openmp.own_runtime(TEAM)) if found)
        monkeypatch.setattr(openmp.AWAKE, "value", -1)
        for run in prepared:
            for member in (sleeps, runs):
                by_python.clear()
                out[:] = openmp.LAST.value = 0
                openmp.MEMBER.value = member
                run()
                assert (out == 2).all() and not by_python
                assert (openmp.runtime(TEAM) or [None])[0] is (runtime if member == runs else own)
                assert (openmp.LAST.value > 0) == (member == runs)


def test_a_launch_in_machine_code_is_interrupted(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Alarm(Exception):
        pass

    def stop(*_: object) -> None:
        raise Alarm

    if not hasattr(signal, "setitimer"):
        pytest.skip("needs the timers of POSIX")
    x = np.ones(1024 * 256, np.float32)
    out, kernel = np.zeros_like(x), ct.kernel(halves)
    with machine_code(monkeypatch, own) as by_python:
        launches(kernel, x, out, 400)
        forever = (x, out, 2**31 - 1)
        for run in (lambda: ct.launch(None, (1024,), kernel, forever), kernel.bind((1024,), forever)):
            by_python.clear()
            openmp.FREE.value = 1
            with pytest.raises(Alarm) as raised, alarm(stop):
                run()
            assert not by_python
            if hasattr(raised.value, "__notes__"):
                assert "the launch of halves() was cancelled in block" in raised.value.__notes__[0]
        launches(kernel, x, out, 400)
    assert (out == 2).all()


def test_lateness_that_machine_code_has_seen_counts() -> None:
    with team(THREADS) as theirs, pytest.MonkeyPatch().context() as patch:
        patch.setattr(openmp, "note_use", note_use)
        assert openmp.runtime(THREADS) == (theirs, THREADS)
        openmp.NOTED[:] = (1_000_000, 20_000_000)
        assert openmp.runtime(THREADS) != (theirs, THREADS)
        assert openmp.runtime(THREADS) == (theirs, THREADS)
