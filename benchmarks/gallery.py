"""Times the kernels of the gallery beside NumPy, and PyTorch and Numba where they are installed.

    python benchmarks/gallery.py --output benchmarks/results/gallery.md
    python benchmarks/gallery.py --only softmax --small

The sides take turns in blocks of calls, as in ``benchmarks/cpu.py``, each with one thread, and what counts is the time
of the processor, so that other work on the machine matters little. Each result is compared with NumPy's.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
from cpu_timing import hot

NAMES = (
    *("vector_add", "transpose", "softmax", "layer_norm", "matmul", "attention", "histogram", "embedding"),
    *("convolution", "mandelbrot", "heat", "prefix_sum", "monte_carlo", "nbody"),
)
PEERS = ("torch", "numba")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "TILEWRIGHT")}


def _available(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def rows(name: str, small: bool) -> list[list[str]]:
    """A row for each case of an example. RuntimeError where a side computes something else than NumPy."""
    available = [peer for peer in PEERS if _available(peer)]
    sides = {peer: importlib.import_module(f"gallery_{peer}").sides(name, small) for peer in available}
    found = []
    for case in importlib.import_module(name).cases(small=small):
        runs = {"tilewright": case.ours, "NumPy": case.numpy}
        runs |= {peer: of[case.name] for peer, of in sides.items() if case.name in of}
        wanted = np.asarray(case.numpy(), np.float64)
        for side, run in runs.items():
            error = np.abs(np.asarray(run(), np.float64) - wanted).max()
            if error > max(case.tolerance, 1e-4) * np.abs(wanted).max():
                raise RuntimeError(f"{case.name}: {side} differs from NumPy by {error}")
        times = {side: t.median * 1e3 for side, t in hot(runs, time.process_time).items()}
        best = min(t for side, t in times.items() if side != "tilewright")
        cells = [f"{times[s]:.2f}" if s in times else "" for s in ("tilewright", "NumPy", *PEERS)]
        found.append([case.name, case.size, f"{best / times['tilewright']:.2f}", *cells])
        print(*found[-1], sep="\t", flush=True)
    return found


def document(table: list[list[str]]) -> str:
    """The results in Markdown, with the machine and the command."""
    versions = [f"{p} {importlib.import_module(p).__version__}" for p in ("numpy", *PEERS) if _available(p)]
    head = ["kernel", "size", "ratio", "tilewright", "NumPy", *PEERS]
    lines = [head, ["---", "---", *["--:"] * (len(head) - 2)], *table]
    return (
        f"{platform.machine()}, one thread; Python {platform.python_version()}, {', '.join(versions)}. Made by "
        "`python benchmarks/gallery.py --output benchmarks/results/gallery.md`.\n\n"
        "Medians of the processor's time, in ms. *Ratio*: that of the fastest peer over ours.\n\n"
        + "".join(f"| {' | '.join(line)} |\n" for line in lines)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", action="append", choices=NAMES, help="an example; may be repeated")
    parser.add_argument("--small", action="store_true", help="small inputs")
    parser.add_argument("--output", type=Path, help="the file for the results")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):  # read when libraries are loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    text = document([row for name in options.only or NAMES for row in rows(name, options.small)])
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
