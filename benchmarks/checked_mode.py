"""What TILEWRIGHT_CHECK=1 costs: the examples, and kernels in which every element is checked."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import tilewright as ct

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))


@ct.kernel
def divide(x, d, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) // ct.load(d, (i,), (TILE,)))


@ct.kernel
def shift(x, count, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) << ct.load(count, (i,), (TILE,)))


@ct.kernel
def scatter(x, places, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.scatter(out, ct.load(places, (i,), (TILE,)), ct.load(x, (i,), (TILE,)), check_bounds=False)


@ct.kernel
def embed(table, ids, out, TILE: ct.Constant[int], WIDTH: ct.Constant[int]):
    i = ct.bid(0)
    rows, columns = ct.load(ids, (i,), (TILE,)), ct.arange(WIDTH, dtype=ct.int32)
    found = ct.gather(table, (rows[:, None], columns[None, :]), check_bounds=False)
    ct.store(out, (i, 0), found, check_bounds=False)


def kernels() -> Iterator[tuple[str, Callable[[], object]]]:
    """Kernels whose every element needs a check."""
    n, random = 1 << 22, np.random.default_rng(0)
    x, small = random.integers(1, 1000, n, np.int32), random.integers(1, 9, n, np.int32)
    out, places = np.zeros_like(x), random.permutation(n).astype(np.int32)
    for kernel, other in ((divide, small), (shift, small), (scatter, places)):
        yield kernel.name, lambda k=kernel, y=other: ct.launch(None, (n // 1024,), k, (x, y, out, 1024))
    table, ids = random.random((50_000, 256), np.float32), random.integers(0, 50_000, 16_384, np.int32)
    rows = np.zeros((ids.size, 256), np.float32)
    yield "embed", lambda: ct.launch(None, (ids.size // 64,), embed, (table, ids, rows, 64, 256))


def examples() -> Iterator[tuple[str, Callable[[], object]]]:
    for path in sorted(EXAMPLES.glob("*.py")):
        if path.stem != "harness":
            for case in __import__(path.stem).cases():
                yield case.name, case.ours


def fastest(work: Callable[[], object], seconds: float = 0.4) -> float:
    """The shortest time of several runs, after one that compiles."""
    work()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    print(f"{'kernel':<28}{'plain':>12}{'checked':>12}{'ratio':>8}")
    for name, work in (*kernels(), *examples()):
        times = {"0": float("inf"), "1": float("inf")}
        for wanted in ("0", "1") * 3:
            os.environ["TILEWRIGHT_CHECK"] = wanted
            times[wanted] = min(times[wanted], fastest(work))
        plain, checked = times.values()
        print(f"{name:<28}{plain * 1e3:>9.2f} ms{checked * 1e3:>9.2f} ms{checked / plain:>7.2f}x", flush=True)


if __name__ == "__main__":
    main()
