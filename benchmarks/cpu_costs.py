"""What a launch and a compilation cost on a CPU, how launches share the processors, and whether they allocate.

python benchmarks/cpu_costs.py [--rows REGEX]
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cpu_kernels as kernels
import numpy as np

import tilewright as ct
from tilewright.backends.cpu.threads import Pool

HERE = Path(__file__).parent
F32 = ct.float32
BYTECODE = tempfile.TemporaryDirectory()


@dataclass(frozen=True)
class Cost:
    """``measure`` returns a number in ``unit`` that should be at most (or at least) ``goal``."""

    name: str
    unit: str
    goal: float
    measure: Callable[[], float]
    at_least: bool = False

    def line(self) -> str:
        value = self.measure()
        reached = value >= self.goal if self.at_least else value <= self.goal
        sense = "at least" if self.at_least else "at most"
        verdict = "reached" if reached else "short"
        return f"{self.name:<52}{value:>10.2f} {self.unit:<14}{sense} {self.goal:<8g}{verdict}"


def per_call(run: Callable[[], object], calls: int = 2000) -> float:
    """Median microseconds of a call."""
    batches = []
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        batches.append((time.perf_counter() - start) / calls)
    return statistics.median(batches) * 1e6


def small() -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]]:
    x, out = np.ones(1024, np.float32), np.empty(1024, np.float32)
    return x, out, (x, x, out, 1024)


def through_launch() -> float:
    *_, args = small()
    return per_call(lambda: ct.launch(None, (1,), kernels.add, args))


def through_launch_of_any_length() -> float:
    """Of arrays whose length no launch had before, and the slices that these are."""
    x, out = np.ones(1 << 17, np.float32), np.empty(1 << 17, np.float32)
    lengths = itertools.count(1024)

    def run() -> None:
        n = next(lengths)
        ct.launch(None, (1,), kernels.add, (x[:n], x[:n], out[:n], 1024))

    return per_call(run)


def bound() -> float:
    *_, args = small()
    return per_call(kernels.add.bind((1,), args))


def beside_numpy() -> float:
    x, out, _ = small()
    return bound() / per_call(lambda: np.add(x, x, out=out))


def per_tiny_block() -> float:
    out, blocks = np.zeros(1, np.int32), 1_000_000
    run = kernels.tiny.bind((blocks,), (out,))
    return per_call(run, 1) * 1e3 / blocks


def timed(run: Callable[[], object], rounds: int = 15) -> float:
    run()
    times = []
    for _ in range(rounds):
        time.sleep(0.02)
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def with_threads(count: int, run: Callable[[], object]) -> float:
    os.environ["TILEWRIGHT_NUM_THREADS"] = str(count)
    try:
        return timed(run)
    finally:
        del os.environ["TILEWRIGHT_NUM_THREADS"]


def speedup(kind: str) -> float:
    """One thread to two."""
    if kind == "matmul":
        a, c = np.ones((1024, 1024), np.float32), np.empty((1024, 1024), np.float32)
        args: tuple[Any, ...] = (a, a, c, 128, 128, 256, F32)
        grid: tuple[int, ...] = (8, 8)
        kernel = kernels.matmul
    elif kind == "pow":
        x = np.full(1 << 22, 1.5, np.float32)
        kernel, grid, args = kernels.power, (512,), (x, x, np.empty_like(x), 8192)
    else:
        kernel, grid, args = kernels.uneven, (4096,), (np.empty(4096, np.float32), 100, 1)
    return with_threads(1, lambda: ct.launch(None, grid, kernel, args)) / with_threads(
        2, lambda: ct.launch(None, grid, kernel, args)
    )


def beside_blas() -> float:
    """Products of ours and of NumPy at the same time, each as a share of what it does in that time alone; the sum."""
    a = np.ones((1024, 1024), np.float32)
    ours, theirs = np.empty_like(a), np.empty_like(a)
    product = kernels.matmul.bind((4, 8), (a, a, ours, 256, 128, 256, F32))
    sides = product, lambda: np.matmul(a, a, out=theirs)
    alone = [timed(run) for run in sides]
    counts = [0, 0]
    end = time.perf_counter() + 2

    def repeat(side: int) -> None:
        while time.perf_counter() < end:
            sides[side]()
            counts[side] += 1

    workers = [threading.Thread(target=repeat, args=(side,)) for side in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(count * seconds for count, seconds in zip(counts, alone)) / 2


def waking() -> float:
    """Median microseconds until a thread that a launch wakes has begun."""
    pool, woken, found = Pool(), threading.Event(), []

    def work() -> None:
        found.append(time.perf_counter() - start)
        woken.set()

    for _ in range(2000):
        woken.clear()
        start = time.perf_counter()
        pool.run(work, 2, lambda: woken.wait(1))
    return statistics.median(found) * 1e6


def allocated() -> float:
    """Bytes that a thousand launches leave behind."""
    x = np.ones((1024, 1024), np.float32)
    run = kernels.softmax.bind((256,), (x, np.empty_like(x), 4, 1024))
    run()
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    for _ in range(1000):
        run()
    growth = sum(
        d.size_diff for d in tracemalloc.take_snapshot().compare_to(before, "filename") if "tracemalloc" not in str(d)
    )
    tracemalloc.stop()
    return max(growth, 0)


_STARTS = {
    "vadd": "a = np.ones(1 << 16, np.float32); args = (4,), k.add, (a, a, np.empty_like(a), 16384)",
    "softmax": "a = np.ones((64, 1024), np.float32); args = (16,), k.softmax, (a, np.empty_like(a), 4, 1024)",
    "matmul": "a = np.ones((256, 256), np.float32);"
    "args = (2, 2), k.matmul, (a, a, np.empty_like(a), 128, 128, 256, ct.float32)",
    "attention": "a = np.ones((1, 256, 64), np.float32);"
    "args = (2, 1), k.attention, (a, a, a, np.empty_like(a), 0.125, 64, 128, 128, True)",
}


def start(name: str, cache: str, runs: int = 5) -> float:
    """Milliseconds of the first launch in a process that has imported tilewright."""
    program = f"import time, numpy as np, tilewright as ct, cpu_kernels as k\n{_STARTS[name]}\n"
    program += "start = time.perf_counter(); ct.launch(None, *args); print(time.perf_counter() - start)"
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    # As installed packages have it, Python's own bytecode is there; the first run writes it.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = BYTECODE.name
    command = [sys.executable, "-c", program]
    found = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(runs + 1)
    ]
    return statistics.median(float(done.stdout) for done in found[1:]) * 1e3


def stored(name: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start(name, folder, 1)
        return start(name, folder)


def costs() -> Iterator[Cost]:
    yield Cost("launch of one block, ct.launch", "us", 6, through_launch)
    yield Cost("launch of one block of any length, ct.launch", "us", 6, through_launch_of_any_length)
    yield Cost("launch of one block, bound", "us", 2, bound)
    yield Cost("launch of one block of 1024, bound", "x np.add", 6, beside_numpy)
    yield Cost("a block of a million", "ns", 50, per_tiny_block)
    for name, goal in (("vadd", 80), ("softmax", 150), ("matmul", 300), ("attention", 500)):
        yield Cost(f"first launch, {name}", "ms", goal, lambda n=name: start(n, "off"))
        yield Cost(f"first launch, {name}, from the disk cache", "ms", 15, lambda n=name: stored(n))
    if (os.cpu_count() or 1) > 1:
        for kind in ("matmul", "pow", "blocks that differ 100 times"):
            yield Cost(f"two threads for one, {kind}", "x", 1.8, lambda k=kind: speedup(k), at_least=True)
    yield Cost("until a woken thread begins", "us", 100, waking)
    yield Cost("products beside NumPy's, in shares of alone", "x", 0.9, beside_blas, at_least=True)
    yield Cost("kept by 1000 launches", "bytes", 1024, allocated)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="", metavar="REGEX", help="only the rows whose names match")
    options = parser.parse_args()
    for cost in costs():
        if re.search(options.rows, cost.name):
            print(cost.line(), flush=True)


if __name__ == "__main__":
    main()
