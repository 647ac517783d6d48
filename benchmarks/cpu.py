"""Tile kernels beside NumPy, torch and Numba on a CPU: a table, and a bar chart.

    pip install numba torch==2.13.0 matplotlib
    python benchmarks/cpu.py --output results          # every row: results/cpu.md, cpu.svg and cpu.png
    python benchmarks/cpu.py --rows 'softmax|norm'     # the rows whose names match

All sides run in one process with the same number of threads. They take turns; the number of a side is its median
over all rounds; every result is compared with the first peer's. Ours binds its launches once (``kernel.bind``), as
programs that repeat them do; peers get arrays for their results where they take any. ``cpu_costs.py`` measures
launches and compilation.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpu_rows import Row, Run, Work

_PAUSE = 0.04  # seconds
_PATIENCE = 6  # pauses, while other programs or the threads of the side before are busy
_STATISTICS = Path("/proc/stat")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "TILEWRIGHT_NUM_THREADS")


@dataclass(frozen=True)
class Outcome:
    """Median seconds of each side; ``ours`` is ``times["tilewright"]``."""

    row: Row
    times: Mapping[str, float]
    correct: bool
    work: tuple[float, float]  # flops and bytes

    @property
    def best(self) -> tuple[str, float]:
        return min(((n, t) for n, t in self.times.items() if n != "tilewright"), key=lambda pair: pair[1])

    @property
    def ratio(self) -> float:
        return self.best[1] / self.times["tilewright"]

    @property
    def verdict(self) -> str:
        if not self.correct:
            return "WRONG"
        return "reached" if self.ratio >= self.row.goal else "short"


def main() -> None:
    options = _options()
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(options.threads)
    # The libraries read the variables when they are imported.
    from cpu_rows import rows  # noqa: PLC0415

    chosen = [row for row in rows() if re.search(options.rows, row.name)]
    if options.list:
        print(*(row.name for row in chosen), sep="\n")
        return
    print(_line("work", "goal", "ratio", "", "ours", "best peer", "rate"))
    outcomes = []
    for row in chosen:
        outcomes.append(measure(row, options.seconds))
        print(describe(outcomes[-1]), flush=True)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "cpu.md").write_text(markdown(outcomes, options.threads))
        chart(outcomes, options.output)
    sys.exit(not all(o.correct for o in outcomes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="", metavar="REGEX", help="only the rows whose names match")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="for every side (default: all)")
    parser.add_argument("--seconds", type=float, default=3.0, help="spent on a row (default: 3)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write cpu.md, cpu.svg and cpu.png there")
    return parser.parse_args()


def measure(row: Row, seconds: float) -> Outcome:
    """All sides in turns until ``seconds`` are over, at least five times each."""
    work = row.make()
    sides: dict[str, Run] = {"tilewright": work.ours, **work.peers}
    correct = is_correct(work)
    found: dict[str, list[float]] = {name: [] for name in sides}
    start = time.perf_counter()
    while len(found["tilewright"]) < 5 or time.perf_counter() - start < seconds:
        for name, run in sides.items():
            rest()
            before = time.perf_counter()
            run()
            found[name].append(time.perf_counter() - before)
    times = {name: statistics.median(side) for name, side in found.items()}
    return Outcome(row, times, correct, (work.flops, work.bytes))


def rest() -> None:
    """Pause until the processors are idle: threads of BLAS and OpenMP wait actively for more work after a call."""
    for _ in range(_PATIENCE):
        before = _busy_ticks()
        time.sleep(_PAUSE)
        if _busy_ticks() - before <= 1:
            return


def _busy_ticks() -> int:
    """How long all processors together have been busy, in hundredths of a second; 0 where this is not told."""
    if not _STATISTICS.exists():
        return 0
    user, nice, system = _STATISTICS.read_text().split(maxsplit=4)[1:4]
    return int(user) + int(nice) + int(system)


def is_correct(work: Work) -> bool:
    """Whether our result is that of the first peer; all sides run once, so that they are compiled."""
    ours = _numbers(work.ours())
    wanted, *_ = [_numbers(run()) for run in work.peers.values()]
    if ours.shape != wanted.shape:
        return False
    import numpy as np  # noqa: PLC0415

    error = float(np.max(np.abs(ours - wanted), initial=0.0))
    return error <= work.tolerance * float(np.max(np.abs(wanted), initial=0.0))


def _numbers(result: Any) -> Any:
    import numpy as np  # noqa: PLC0415

    if hasattr(result, "detach"):  # of torch, whose bfloat16 NumPy lacks
        result = result.detach()
        result = (result.double() if result.is_floating_point() else result).numpy()
    return np.asarray(result).astype(np.float64)


def _line(*cells: str) -> str:
    return "".join(f"{cell:{width}}" for cell, width in zip(cells, ("<34", ">6", ">8", ">9", ">12", ">24", ">14")))


def describe(o: Outcome) -> str:
    peer, seconds = o.best
    ours = o.times["tilewright"]
    return _line(
        o.row.name,
        f"{o.row.goal:.2f}",
        f"{o.ratio:.2f}",
        o.verdict,
        f"{ours * 1e3:.2f} ms",
        f"{peer} {seconds * 1e3:.2f} ms",
        rate(o),
    )


def rate(o: Outcome) -> str:
    """Our throughput in the unit of the row."""
    flops, moved = o.work
    ours = o.times["tilewright"]
    if flops and flops > moved:
        return f"{flops / ours / 1e9:.0f} GFLOP/s"
    return f"{moved / ours / 1e9:.1f} GB/s" if moved else ""


def markdown(outcomes: Sequence[Outcome], threads: int) -> str:
    from importlib.metadata import version  # noqa: PLC0415

    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "torch", "numba", "llvmlite"))
    lines = [
        f"{threads} threads, {platform.machine()}; {versions}. Medians in ms; ratio to the fastest peer.",
        "",
        "| work | goal | ratio | | tilewright | NumPy | torch | Numba | our rate |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|",
    ]
    for o in outcomes:
        peers = [f"{o.times[n] * 1e3:.2f}" if n in o.times else "" for n in ("NumPy", "torch", "Numba")]
        cells = [o.row.name, f"{o.row.goal:.2f}", f"{o.ratio:.2f}", o.verdict, f"{o.times['tilewright'] * 1e3:.2f}"]
        lines.append("| " + " | ".join([*cells, *peers, rate(o)]) + " |")
    return "\n".join(lines) + "\n"


def chart(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Bars: the speed of each row as a multiple of the fastest peer's, with its goal."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(9, 0.26 * len(outcomes) + 1.2), layout="constrained")
    places = range(len(outcomes))
    colors = ["tab:blue" if o.verdict == "reached" else "tab:orange" for o in outcomes]
    axes.barh(places, [o.ratio for o in outcomes], color=colors, height=0.7)
    axes.plot([o.row.goal for o in outcomes], places, "k|", markersize=9, label="goal")
    axes.set_yticks(places, [f"{o.row.name}  ({o.best[0]})" for o in outcomes], fontsize=8)
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xscale("log", base=2)
    axes.set_xlabel("speed, as a multiple of the fastest of NumPy, torch and Numba")
    axes.legend(loc="lower right")
    for kind in ("svg", "png"):
        figure.savefig(folder / f"cpu.{kind}", dpi=130)


if __name__ == "__main__":
    main()
