"""What the sanitizer costs: every example, and kernels of many small operations, against the reference backend.

PYTHONPATH=src:examples python benchmarks/sanitizer.py
"""

from __future__ import annotations

import importlib
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attention
import numpy as np
from harness import normal

import tilewright as ct

EXAMPLES = Path(__file__).parents[1] / "examples"


@ct.kernel
def scalars(out: Any) -> None:
    total = ct.bid(0)
    for i in range(2000):
        total = (total * 5 + i) % 1000 // 3
    ct.scatter(out, ct.bid(0), total)


@ct.kernel
def tickets(counter: Any, out: Any) -> None:
    for _ in range(8):
        ct.scatter(out, ct.atomic_add(counter, 0, 1), ct.bid(0))


@ct.kernel
def edges(x: Any, out: Any) -> None:
    """Every tile has undefined elements, which pass through many operations."""
    t = ct.load(x, (0,), (64,))
    for _ in range(500):
        t = ct.where(t > 0, t + 1, t * 2) - t // 3
    ct.store(out, (0,), t)


@ct.kernel
def scattered(out: Any) -> None:
    place = ct.bid(0) * 1024 + ct.arange(1024, dtype=ct.int32)
    for _ in range(20):
        ct.scatter(out, place, ct.gather(out, place) + 1)


def small() -> list[tuple[str, Callable[[], Any]]]:
    out, counter = np.zeros(1 << 16, np.int32), np.zeros(1, np.int32)
    x, edge = np.arange(50, dtype=np.int32), np.zeros(50, np.int32)

    def count() -> None:
        counter[:] = 0
        ct.launch(None, (256,), tickets, (counter, out))

    return [
        ("scalar operations", lambda: ct.launch(None, (4,), scalars, (out,))),
        ("atomic tickets", count),
        ("undefined elements", lambda: ct.launch(None, (1,), edges, (x, edge))),
        ("gather and scatter", lambda: ct.launch(None, (32,), scattered, (out,))),
    ]


def seconds(work: Callable[[], Any]) -> float:
    work()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    cases = small()
    for path in sorted(EXAMPLES.glob("*.py")):
        if path.stem != "harness":
            cases += [(case.name, case.ours) for case in importlib.import_module(path.stem).cases(small=True)]
    print(f"{'kernel':<28}{'reference':>12}{'sanitized':>12}{'ratio':>8}")
    for name, work in cases:
        with ct.use_backend("reference"):
            plain = seconds(work)
        with ct.sanitize() as report:
            checked = seconds(work)
        assert report.clean, report.render()
        print(f"{name:<28}{plain * 1e3:>9.1f} ms{checked * 1e3:>9.1f} ms{checked / plain:>7.2f}x")
    q, k, v = (normal(8, 512, 64, seed=seed) for seed in range(3))
    with ct.sanitize():
        start = time.perf_counter()
        attention.attention(q, k, v, False)
        print(f"64 blocks of attention: {time.perf_counter() - start:.2f} s")
    print(f"largest memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
