"""Machines with two GPUs: each array, stream and thread has its own, and nobody's current device changes."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda import DeviceArray, current_device, recorded, stream, synchronize

import tilewright as ct
from tilewright.gpu_runtime import driver
from tilewright.tune import DirectoryStore, Tuner

N = 1024
TILE = 256
GRID = (N // TILE,)


@ct.kernel
def scaled(x, y, factor):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * factor)


@ct.kernel
def summed(arrays, out):
    total = ct.zeros((TILE,), ct.float32)
    for i in range(len(arrays)):
        total += ct.load(arrays[i], (ct.bid(0),), (TILE,))
    ct.store(out, (ct.bid(0),), total)


@ct.kernel
def product(a, b, c):
    found = ct.mma(ct.load(a, (0, 0), (64, 64)), ct.load(b, (0, 0), (64, 64)), ct.zeros((64, 64), ct.float32))
    ct.store(c, (0, 0), found)


@ct.kernel
def positive(x, y):
    t = ct.load(x, (ct.bid(0),), (TILE,))
    ct.assert_(t >= 0, "negative")
    ct.store(y, (ct.bid(0),), t + 1)


@ct.kernel
def tripled(x, y, T: ct.Constant[int]):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)) * 3)


def numbers(index: int) -> tuple[np.ndarray[Any, Any], DeviceArray, DeviceArray]:
    x = np.arange(N, dtype=np.float32) + index
    return x, DeviceArray.of(x, index), DeviceArray((N,), np.float32, index)


@pytest.fixture(params=[0, 1])
def current(request: pytest.FixtureRequest) -> Any:
    """The device that is current in the thread of the test."""
    with driver.device(request.param).current():
        yield request.param


def test_the_same_kernel_on_both(current: int) -> None:
    for _ in range(20):  # also as machine code runs repeated launches
        for index in (0, 1, 1, 0):
            x, source, target = numbers(index)
            ct.launch(None, GRID, scaled, (source, target, 3.0))
            np.testing.assert_array_equal(target.numpy(), 3 * x)
            assert current_device() == current


@pytest.mark.parametrize("index", [0, 1])
def test_everything_that_needs_memory_of_its_own(current: int, index: int) -> None:
    x, source, target = numbers(index)
    ct.launch(None, GRID, summed, ([source, source, source], target))
    np.testing.assert_array_equal(target.numpy(), 3 * x)
    ct.launch(None, GRID, positive, (source, target))
    np.testing.assert_array_equal(target.numpy(), x + 1)
    with pytest.raises(ct.TileError, match="negative"):
        ct.launch(None, GRID, positive, (DeviceArray.of(x - N, index), target))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    c = DeviceArray((64, 64), np.float32, index)
    ct.launch(None, (1,), product, (DeviceArray.of(a, index), DeviceArray.of(b, index), c))
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float32) @ b.astype(np.float32))
    assert current_device() == current


@pytest.mark.parametrize("index", [0, 1])
def test_streams_graphs_and_bound_launches(current: int, index: int) -> None:
    x, source, target = numbers(index)
    bound = scaled.bind(GRID, (source, target, 2.0))
    bound()
    np.testing.assert_array_equal(target.numpy(), 2 * x)
    with stream(index) as queue:
        launch: Callable[[float], None] = lambda factor: ct.launch(queue, GRID, scaled, (source, target, factor))
        launch(5.0)
        synchronize(queue)
        np.testing.assert_array_equal(target.numpy(), 5 * x)
        again = recorded(queue, lambda: launch(7.0))
        np.testing.assert_array_equal(target.numpy(), 5 * x)
        again()
        synchronize(queue)
        np.testing.assert_array_equal(target.numpy(), 7 * x)
    assert current_device() == current


def test_what_is_on_two_devices_is_refused(current: int) -> None:
    (_, x0, y0), (_, x1, y1) = numbers(0), numbers(1)
    for args in ((x0, y1), (x1, y0)):
        with pytest.raises(
            ValueError, match=r"scaled\(\) are on different devices: 'x' on cuda:[01], 'y' on cuda:[01]"
        ):
            ct.launch(None, GRID, scaled, (*args, 1.0))
    with pytest.raises(ValueError, match=r"different devices: 'arrays\[0\]' on cuda:0, 'arrays\[1\]' on cuda:1"):
        ct.launch(None, GRID, summed, ([x0, x1], y0))
    for index, args in ((0, (x1, y1)), (1, (x0, y0))):
        with (
            stream(index) as queue,
            pytest.raises(ct.TileError, match=f"arrays are on cuda:{1 - index}, and the stream .* none of that device"),
        ):
            ct.launch(queue, GRID, scaled, (*args, 1.0))
    ct.launch(None, GRID, scaled, (x1, y1, 1.0))  # and all goes on
    np.testing.assert_array_equal(y1.numpy(), np.arange(N, dtype=np.float32) + 1)


def test_threads_have_devices_of_their_own() -> None:
    wrong: list[Any] = []

    def work(index: int, entered: bool) -> None:
        before = current_device()
        x, source, target = numbers(index)
        for factor in range(1, 30):
            ct.launch(None, GRID, scaled, (source, target, float(factor)))
            if not np.array_equal(target.numpy(), factor * x):
                wrong.append((index, factor))
        if current_device() != before and not (before is None and index == 0):
            wrong.append((index, before, current_device()))

    threads = [threading.Thread(target=work, args=(i % 2, i // 2)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_current_device_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for index, now in ((0, 1), (1, 0), (1, 1)):
        with torch.cuda.device(now):
            x = torch.arange(N, device=f"cuda:{index}", dtype=torch.float32)
            y = torch.empty_like(x)
            for queue in (None, torch.cuda.current_stream(index)):
                y.zero_()
                torch.cuda.synchronize(index)
                ct.launch(queue, GRID, scaled, (x, y, 2.0))
                torch.cuda.synchronize(index)
                assert torch.equal(y, 2 * x) and torch.cuda.current_device() == now


class Counted(Executor):
    """One worker for a device, which counts what it does."""

    def __init__(self, worker: Executor) -> None:
        self.worker, self.done = worker, 0

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        self.done += 1
        return self.worker.submit(*args, **kwargs)

    def shutdown(self, *args: Any, **kwargs: Any) -> None:
        self.worker.shutdown(*args, **kwargs)


def _use(index: int) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.cuda.set_device(index)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_tuning_measures_on_both(kind: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.cuda.set_device(0)
    x = torch.arange(1 << 20, device="cuda:0", dtype=torch.float32)
    y = torch.zeros_like(x)
    spawn = multiprocessing.get_context("spawn")
    workers = [
        Counted(
            ThreadPoolExecutor(1, initializer=_use, initargs=(i,))
            if kind == "threads"
            else ProcessPoolExecutor(1, mp_context=spawn, initializer=_use, initargs=(i,))
        )
        for i in (0, 1)
    ]
    store = DirectoryStore(tmp_path)
    tuner = Tuner(
        tripled,
        [128, 256, 512, 1024, 2048, 4096],
        lambda tile, x, y: (ct.cdiv(x.numel(), tile),),
        lambda tile, x, y: (x, y, tile),
        devices=workers,
        store=store,
        quiet=True,
    )
    tuner.launch(None, x, y)
    torch.cuda.synchronize()
    assert torch.equal(y, 3 * x)
    found = tuner.search(x, y)
    assert len(found.successes) == 6 and len(store) == 1, found.failures
    assert all(worker.done for worker in workers)
    for worker in workers:
        worker.shutdown()
