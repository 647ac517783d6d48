"""Launches by the threads of an OpenMP runtime."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from support.openmp import team

import tilewright as ct
from tilewright.backends.cpu import openmp
from tilewright.backends.cpu.executable import CpuExecutable
from tilewright.backends.cpu.openmp import note_use  # ``team`` replaces that of the module
from tilewright.ir.errors import TileError

THREADS = 3


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
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "2")
    multiply(512, 512)
    assert not regions


@pytest.mark.parametrize("seconds, shared", [(1e-9, 1), (1e-3, 4)])
def test_blocks_that_take_little_time_are_not_shared(
    seconds: float, shared: int, regions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the launch before tells."""

    @ct.kernel
    def kernel(x: ct.Array, out: ct.Array) -> None:
        ct.store(out, (ct.bid(0),), ct.exp(ct.load(x, (ct.bid(0),), (4096,))))

    learn = CpuExecutable._learn
    monkeypatch.setattr(CpuExecutable, "_learn_from", lambda self, words: learn(self, seconds, 1) or 0.0)
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
    """For longer each time; the launch after that wakes them, and does not count."""
    with team(THREADS) as runtime:
        found = []
        for _ in range(40):
            found.append(openmp.runtime() is not None)
            if found[-1]:
                note_use(0.001, 0.02)
        assert runtime is openmp._STATE.runtime
    assert [i for i, used in enumerate(found) if used] == [0, 2, 3, 6, 7, 12, 13, 22, 23]
