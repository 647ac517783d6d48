"""How launches on a CPU scale with threads: a simulation of how they share blocks, and what this machine measures.

    python benchmarks/cpu_scale.py --output benchmarks/results      # cpu_scale.md, .svg and .png

The simulation has the rules of the runtime (``blocks_together``, ``codegen/shares.py``), and takes from the command
line what a thread costs until it begins and what taking blocks costs. Its speedup is that over one thread, of work that
no memory limits. The measurement is that of a matmul, up to the processors there are.
"""

from __future__ import annotations

import argparse
import heapq
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import tilewright as ct
from tilewright.backends.cpu.context import blocks_together
from tilewright.backends.cpu.threads import INVITED
from tilewright.system.processors import available_processors

THREADS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
_ROUNDS = 9
_LAUNCHES = 4
Blocks = Sequence[float]  # the seconds that each takes


def launch_seconds(blocks: Blocks, threads: int, wake: float, take: float) -> float:
    """The time of a launch: each thread wakes INVITED others, which begin ``wake`` seconds later, and it costs ``take``
    to take a chunk, or to find none left in a range."""
    chunk, size = blocks_together(len(blocks), threads), -(-len(blocks) // threads)
    ready = [(0.0, 0, 0)]  # when each thread takes blocks, its number, and that of the range that it takes them of
    for k in range(1, threads):
        ready.append((ready[(k - 1) // INVITED][0] + wake, k, k))
    left = [list(blocks[k * size : (k + 1) * size]) for k in range(threads)]
    end = 0.0
    while any(left):
        now, thread, of = heapq.heappop(ready)
        while not left[of]:
            now, of = now + take, (of + 1) % threads
        now += take + sum(left[of][:chunk])
        del left[of][:chunk]
        end = max(end, now)
        heapq.heappush(ready, (now, thread, of))
    return end


def kinds(count: int, seconds: float) -> dict[str, list[float]]:
    """Blocks that take so many seconds on average: even ones, ones that grow as those of causal attention do, and ones
    of which few take long."""
    draw = np.random.default_rng(0).lognormal(0, 1, count)
    return {
        "even": [seconds] * count,
        "growing (causal attention)": [2 * seconds * (k + 0.5) / count for k in range(count)],
        "uneven (lognormal)": list(draw / draw.mean() * seconds),
    }


@ct.kernel
def matmul(a: ct.Array, b: ct.Array, out: ct.Array) -> None:
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((64, 64), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 64)):
        total = ct.mma(ct.load(a, (i, k), (64, 64)), ct.load(b, (k, j), (64, 64)), total)
    ct.store(out, (i, j), total)


def measured() -> dict[int, float]:
    """The speedup of a matmul of 1024 over one thread, for each number of threads that the machine has processors for,
    in turns of several launches each, of which the first one does not count."""
    a, b = (np.random.default_rng(s).standard_normal((1024, 1024), dtype=np.float32) for s in range(2))
    out, counts = np.empty_like(a), [n for n in THREADS if n <= available_processors()]
    times: dict[int, list[float]] = {n: [] for n in counts}
    for _ in range(_ROUNDS):
        for n in counts:
            os.environ["TILEWRIGHT_NUM_THREADS"] = str(n)
            for launch in range(_LAUNCHES):
                before = time.perf_counter()
                ct.launch(None, (16, 16), matmul, (a, b, out), backend="cpu")
                if launch:
                    times[n].append(time.perf_counter() - before)
    best = {n: statistics.median(t) for n, t in times.items()}
    return {n: best[1] / t for n, t in best.items()}


def table(rows: dict[str, Callable[[int], float | None]]) -> str:
    lines = ["| blocks | " + " | ".join(map(str, THREADS)) + " |", "|---" + "|--:" * len(THREADS) + "|"]
    for name, speedup in rows.items():
        found = [speedup(n) for n in THREADS]
        lines.append(f"| {name} | " + " | ".join("" if s is None else f"{s:.1f}" for s in found) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--blocks", type=int, default=1024)
    parser.add_argument("--block-us", type=float, default=50.0, help="microseconds that a block takes on average")
    parser.add_argument("--wake-us", type=float, default=30.0, help="from waking a thread until it begins")
    parser.add_argument("--take-us", type=float, default=0.2, help="to take a chunk: a contended atomic operation")
    parser.add_argument("--simulate", action="store_true", help="measure nothing, as on a busy machine")
    parser.add_argument("--output", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    wake, take = given.wake_us * 1e-6, given.take_us * 1e-6
    rows: dict[str, Callable[[int], float | None]] = {}
    for name, blocks in kinds(given.blocks, given.block_us * 1e-6).items():
        alone = launch_seconds(blocks, 1, wake, take)
        rows[name] = lambda n, b=blocks, a=alone: a / launch_seconds(b, n, wake, take)  # type: ignore[misc]
    if not given.simulate:
        rows[f"measured: matmul 1024, {available_processors()} processors"] = measured().get
    text = (
        f"{given.blocks} blocks of {given.block_us:g} us on average, {given.wake_us:g} us from waking a thread until "
        f"it begins, {given.take_us:g} us to take a chunk. The speedup over one thread by the number of threads.\n"
        f"Made by `python benchmarks/cpu_scale.py{' --simulate' * given.simulate} --output benchmarks/results`.\n\n"
        f"{table(rows)}\n"
    )
    print(text)
    if given.output is not None:
        given.output.mkdir(parents=True, exist_ok=True)
        (given.output / "cpu_scale.md").write_text(text)
        plot(rows, given.output)


def plot(rows: dict[str, Callable[[int], float | None]], folder: Path) -> None:
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(6, 4.5), layout="constrained")
    axes.plot(THREADS, THREADS, color="grey", linewidth=0.8, label="ideal")
    for name, speedup in rows.items():
        points = [(n, s) for n in THREADS if (s := speedup(n)) is not None]
        axes.plot(*zip(*points), marker="o", markersize=3, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("threads")
    axes.set_ylabel("speedup over one")
    axes.legend(frameon=False, fontsize=8)
    for kind in ("svg", "png"):
        figure.savefig(folder / f"cpu_scale.{kind}", dpi=130)


if __name__ == "__main__":
    main()
