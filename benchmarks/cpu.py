"""Tile kernels beside NumPy, PyTorch (eager and compiled), JAX and Numba on a CPU: tables, and a chart.

    pip install numba torch==2.13.0 jax matplotlib
    python benchmarks/cpu.py --output results          # every row: results/cpu.md, cpu_cold_mixed.md, cpu.svg, cpu.png
    python benchmarks/cpu.py --rows 'softmax|norm'     # the rows whose names match
    python benchmarks/cpu.py --states hot              # without the tables of cold starts and of mixed programs
    python benchmarks/cpu.py --part 2/6 --output results   # the second sixth of the rows, the others as measured before
    python benchmarks/cpu.py --states hot --processor-time   # of one thread: for a machine that others use as well

All sides run in one process with the same number of threads, in three states: see ``cpu_timing.py``. Beside each row
stands what the machine can do at most: copies are measured before and after each row, and of multiply-adds the fastest
so far counts. Every result is compared with the first peer's. Ours binds its launches once (``kernel.bind``), as
programs that repeat them do. A star marks sides that allocate their result at each call; the others are given arrays.
``cpu_costs.py`` measures launches and compilation. What was measured is kept in ``cpu.json`` beside the tables, and
measured again where machine or versions are others. JAX and Numba are left out where they are not installed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpu_timing import Clock, Times, cold, hot, mixed, rest

from tilewright.backends.cpu.limits import copy_bandwidth, peak

if TYPE_CHECKING:
    from cpu_rows import Run, Work

_OURS = "tilewright"
_PEERS = ("NumPy", "torch", "torch.compile", "JAX", "Numba")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "TILEWRIGHT_NUM_THREADS")
_STATES = {
    "hot": "Hot: blocks of calls of one side",
    "cold": "Cold: idle processors before every call",
    "mixed": "Mixed: another library has just run, and its threads may still spin",
}


def limit_of(work: Work, copy: float, peaks: Mapping[str, float]) -> tuple[str, float]:
    """Which limit binds, and the seconds that the work takes at least. A multiply-add counts two."""
    compute, memory = work.flops / peaks["double" if work.double else "float"], work.bytes / copy
    return ("compute", compute) if compute > memory else ("memory", memory)


@dataclass(frozen=True)
class Outcome:
    """The times of each side of a row in one state."""

    row: str
    state: str
    times: Mapping[str, Times]
    fresh: Sequence[str]  # the sides that allocate their result
    limit: tuple[str, float]  # which one binds, and the seconds that it allows
    copy: float  # bytes per second, beside the row: what else uses the memory changes within minutes
    pattern: float = 0.0  # seconds of the fastest known loop with the same accesses, if the row has one

    @property
    def best(self) -> tuple[str, float]:
        return min(((n, t.median) for n, t in self.times.items() if n != _OURS), key=lambda pair: pair[1])

    @property
    def ours(self) -> Times:
        return self.times[_OURS]

    @property
    def ratio(self) -> float:
        return self.best[1] / self.ours.median

    @property
    def of_limit(self) -> str:
        kind, seconds = self.limit
        parts = [(seconds, kind), (self.pattern, "its pattern")]
        return ", ".join(f"{allowed / self.ours.median:.2f} of {name}" for allowed, name in parts if allowed)


def main() -> None:
    options = _options()
    clock = time.process_time if options.processor_time else time.perf_counter
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(options.threads)
    # The libraries read the variables when they are imported.
    from cpu_rows import rows  # noqa: PLC0415

    names = [row.name for row in rows()]
    part, parts = options.part
    chosen = [row for k, row in enumerate(rows()) if re.search(options.rows, row.name) and k % parts == part - 1]
    if options.list:
        print(*(row.name for row in chosen), sep="\n")
        return
    peaks = {element: peak(options.threads, element) for element in ("float", "double")}
    print(f"limits: {described(peaks)}")
    print(_line("work", "state", "ratio", "ours", "best peer", "spread", "limit"))
    setting = described_setting(options.threads)
    outcomes = {} if options.output is None else read(options.output / "cpu.json", setting)
    wrong = []
    for row in chosen:
        work = row.make()
        if not work.peers:
            print(f"{row.name}: no peer is installed", flush=True)
            continue
        if not is_correct(work):
            wrong.append(row.name)
            print(f"{row.name}: WRONG", flush=True)
            continue
        for state in options.states:
            found = outcomes[row.name, state] = measure(row.name, work, state, options.threads, peaks, clock)
            print(describe(found), flush=True)
    if options.output is not None:
        write(options.output, setting, described(peaks), sorted(outcomes.values(), key=lambda o: names.index(o.row)))
    sys.exit(f"wrong: {', '.join(wrong)}" if wrong else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="", metavar="REGEX", help="only the rows whose names match")
    parser.add_argument("--states", nargs="+", choices=list(_STATES), default=list(_STATES))
    parser.add_argument("--part", type=_part, default=(1, 1), metavar="K/N", help="every N-th row, from the K-th on")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="for every side (default: all)")
    parser.add_argument("--processor-time", action="store_true", help="hot, of one thread, for a busy machine")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write cpu.md, cpu.svg and cpu.png there")
    options = parser.parse_args()
    if options.processor_time:
        if options.states != ["hot"]:
            parser.error("--processor-time is for --states hot: the others are about threads that wait")
        options.threads = 1
    return options


def _part(text: str) -> tuple[int, int]:
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def described_setting(threads: int) -> str:
    """The machine and the versions that numbers hold for."""
    return f"{_processor()}, {threads} threads; Python {platform.python_version()}, {', '.join(_versions())}"


def _versions() -> Iterator[str]:
    for name in ("numpy", "torch", "jax", "numba", "llvmlite"):
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


def read(path: Path, setting: str) -> dict[tuple[str, str], Outcome]:
    """What was measured before in the same ``setting``, by row and state."""
    kept = json.loads(path.read_text()) if path.exists() else {"setting": None}
    found = kept["outcomes"] if kept["setting"] == setting else []
    outcomes = [Outcome(**o | {"times": {n: Times(**t) for n, t in o["times"].items()}}) for o in found]
    return {(o.row, o.state): o for o in outcomes}


def write(folder: Path, setting: str, limits: str, outcomes: Sequence[Outcome]) -> None:
    """The numbers, the tables and the chart."""
    folder.mkdir(parents=True, exist_ok=True)
    hot_rows = [o for o in outcomes if o.state == "hot"]
    kept = {"setting": setting, "outcomes": [dataclasses.asdict(o) for o in outcomes]}
    (folder / "cpu.json").write_text(json.dumps(kept, indent=1) + "\n")
    for name, states in (("cpu.md", ("hot",)), ("cpu_cold_mixed.md", ("cold", "mixed"))):
        tables = {state: [o for o in outcomes if o.state == state] for state in states}
        if any(tables.values()):
            quiet = {o.row: o.ours.median for o in hot_rows}
            (folder / name).write_text(markdown(tables, setting, limits, quiet))
    if hot_rows and find_spec("matplotlib") is None:
        print("no chart: matplotlib is not installed; --rows '^$' draws it from cpu.json")
    elif hot_rows:
        chart(hot_rows, folder)


def described(peaks: Mapping[str, float]) -> str:
    return f"multiply-adds at {peaks['float'] / 1e9:.0f} GFLOP/s in float32, {peaks['double'] / 1e9:.0f} in float64"


def measure(row: str, work: Work, state: str, threads: int, peaks: dict[str, float], clock: Clock) -> Outcome:
    sides: dict[str, Run] = {_OURS: work.ours, **work.peers}
    copies, patterns = [], [0.0]
    limited = work.limited and clock is time.perf_counter  # a busy machine has other limits at each moment

    def look() -> None:
        rest()  # from the threads of others
        copies.append(copy_bandwidth(threads))
        if work.flops:
            peaks.update({element: max(known, peak(threads, element)) for element, known in peaks.items()})
        if work.pattern is not None and limited:
            patterns.append(work.pattern(threads))

    look()
    if state == "mixed":
        times = mixed(sides, {name: _other_library(name) for name in sides})
    else:
        times = hot(sides, clock) if state == "hot" else cold(sides)
    look()
    copy = statistics.mean(copies)
    limit = limit_of(work, copy, peaks) if limited else ("", 0.0)
    pattern = statistics.mean(patterns[1:] or patterns)
    return Outcome(row, state, times, sorted(work.fresh), limit, copy, pattern)


def _other_library(name: str) -> Run:
    """A small product by another library than that of the side: PyTorch, or NumPy beside PyTorch."""
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415

    a = np.ones((256, 256), np.float32)
    b = np.empty_like(a)
    if name.startswith("torch"):
        return lambda: np.matmul(a, a, out=b)
    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    return lambda: torch.matmul(ta, ta, out=tb)


def is_correct(work: Work) -> bool:
    """Whether our result is that of the first peer; all sides run once, so that they are compiled."""
    import numpy as np  # noqa: PLC0415

    ours = _numbers(work.ours())
    wanted, *_ = [_numbers(run()) for run in work.peers.values()]
    if ours.shape != wanted.shape:
        return False
    error = float(np.max(np.abs(ours - wanted), initial=0.0))
    return error <= work.tolerance * float(np.max(np.abs(wanted), initial=0.0))


def _numbers(result: Any) -> Any:
    import numpy as np  # noqa: PLC0415

    if hasattr(result, "detach"):  # of torch, whose bfloat16 NumPy lacks
        result = result.detach()
        result = (result.double() if result.is_floating_point() else result).numpy()
    return np.asarray(result).astype(np.float64)


def _line(*cells: str) -> str:
    return "".join(f"{cell:{width}}" for cell, width in zip(cells, ("<34", "<7", ">7", ">12", ">28", ">9", ">20")))


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.{2 if seconds >= 1e-4 else 4}f}"


def describe(o: Outcome) -> str:
    peer, seconds = o.best
    return _line(
        o.row,
        o.state,
        f"{o.ratio:.2f}",
        f"{_milliseconds(o.ours.median)} ms",
        f"{peer} {_milliseconds(seconds)} ms",
        f"{o.ours.spread:.0%}",
        o.of_limit,
    )


def markdown(
    outcomes: Mapping[str, Sequence[Outcome]], setting: str, limits: str, hot_times: Mapping[str, float]
) -> str:
    """Tables by state; ``hot_times`` are the medians of ours in the first state, by row."""
    copies = sorted(o.copy / 1e9 for rows in outcomes.values() for o in rows)
    parts = [
        f"{setting}. Limits: copies at {copies[0]:.0f} to {copies[-1]:.0f} GB/s, measured beside each row, {limits}. "
        f"Made by `python benchmarks/cpu.py --states {' '.join(outcomes)} --output benchmarks/results`.",
        "",
        "Medians in ms. *Ratio*: the time of the fastest peer over ours. *Spread*: the distance of the quartiles of "
        "our times, over the median. *Limit*: how much of the copy bandwidth or of the multiply-adds we reach, "
        "whichever allows less; *its pattern*: of the fastest loop that is known for accesses like those of the row "
        "(`cpu_patterns.py`). A star: the side allocates its result at each call. *Of hot*: our time over that "
        "of the hot state.",
    ]
    head = ["work", "ratio", _OURS, "spread", "limit", *_PEERS]
    for state, rows in outcomes.items():
        beside = [] if state == "hot" else ["of hot"]
        columns = [*head[:3], *beside, *head[3:]]
        parts += ["", f"## {_STATES[state]}", "", f"| {' | '.join(columns)} |"]
        parts.append("|---" + "|--:" * (len(columns) - 1) + "|")
        for o in rows:
            peers = [
                f"{_milliseconds(o.times[n].median)}{'*' * (n in o.fresh)}" if n in o.times else "" for n in _PEERS
            ]
            cells = [o.row, f"{o.ratio:.2f}", _milliseconds(o.ours.median), f"{o.ours.spread:.0%}", o.of_limit]
            if beside:
                quiet = hot_times.get(o.row)
                cells.insert(3, "" if quiet is None else f"{o.ours.median / quiet:.2f}")
            parts.append("| " + " | ".join([*cells, *peers]) + " |")
    return "\n".join(parts) + "\n"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.+)", information.read_text()) if information.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def chart(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Bars: the speed of each row, hot, as a multiple of the fastest peer's."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(9, 0.26 * len(outcomes) + 1.2), layout="constrained")
    places = range(len(outcomes))
    colors = ["tab:blue" if o.ratio >= 1 else "tab:orange" for o in outcomes]
    axes.barh(places, [o.ratio for o in outcomes], color=colors, height=0.7)
    axes.set_yticks(places, [f"{o.row}  ({o.best[0]})" for o in outcomes], fontsize=8)
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xscale("log", base=2)
    axes.set_xlabel("speed, hot, as a multiple of the fastest of NumPy, PyTorch, JAX and Numba")
    for kind in ("svg", "png"):
        figure.savefig(folder / f"cpu.{kind}", dpi=130)


if __name__ == "__main__":
    main()
