"""Measures what the foundation must reach: kernels beside NumPy and torch, cold starts, and the cost of a launch.

    python benchmarks/foundation.py

The two sides of a comparison take turns in one process; every number is a median. torch is used where installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tilewright as ct

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))

import matmul  # noqa: E402
import softmax  # noqa: E402
import vector_add  # noqa: E402
from harness import normal  # noqa: E402

_STARTS = {
    "vector add": """
from vector_add import add
a, out = np.ones(1 << 20, np.float32), np.empty(1 << 20, np.float32)
start = time.perf_counter()
add(a, a, out)
""",
    "matmul": """
from matmul import matmul
a = np.ones((256, 256), np.float32)
start = time.perf_counter()
matmul(a, a)
""",
}


def main() -> None:
    report("import tilewright, after numpy", import_time() * 1e3, "ms", at_most=200)
    compare_kernels()
    for name, cold, stored in (("vector add", 150, 30), ("matmul", 500, 30)):
        with tempfile.TemporaryDirectory() as folder:
            report(f"first {name} of a process", start_time(name, "off") * 1e3, "ms", at_most=cold)
            start_time(name, folder, runs=1)
            report(f"first {name}, from the disk cache", start_time(name, folder) * 1e3, "ms", at_most=stored)
    report("warm launch of one block", launch_time() * 1e6, "us", at_most=25)


def report(what: str, value: float, unit: str, *, at_most: float = 0, at_least: float = 0) -> None:
    """Print a measurement beside its goal."""
    reached = value <= at_most if at_most else value >= at_least
    goal = f"at most {at_most:g}" if at_most else f"at least {at_least:g}"
    print(f"{what:<44}{value:>9.2f} {unit:<3} goal: {goal:<14}{'reached' if reached else 'MISSED'}", flush=True)


def compare_kernels() -> None:
    a, b = normal(1 << 24), normal(1 << 24, seed=1)
    out = np.empty_like(a)
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: vector add is compared with NumPy instead")
        theirs, name = (lambda: np.add(a, b, out=out)), "np.add"
    else:
        torch = importlib.import_module("torch")
        tensors = [torch.from_numpy(x) for x in (a, b, out)]
        theirs, name = (lambda: torch.add(tensors[0], tensors[1], out=tensors[2])), "torch.add"
    ratio = speed_ratio(lambda: vector_add.add(a, b, out), theirs)
    report(f"vector add, 16M f32: speed of {name}", ratio, "x", at_least=0.9)
    x = normal(4096, 1024)
    rows = np.empty_like(x)  # NumPy allocates its temporaries, as in any program
    arguments = (x, rows, 1024)
    ratio = speed_ratio(
        lambda: ct.launch(None, (4096,), softmax.softmax_rows, arguments), lambda: softmax.softmax_numpy(x)
    )
    report("softmax, 4096 x 1024 f32: speed of NumPy", ratio, "x", at_least=3)
    m, n = normal(1024, 1024), normal(1024, 1024, seed=1)
    ratio = speed_ratio(lambda: matmul.matmul(m, n), lambda: m @ n)
    report("matmul, 1024^3 f32: speed of NumPy's BLAS", ratio, "x", at_least=0.5)


def speed_ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 31) -> float:
    """How much faster ``ours`` is than ``theirs``.

    Before each turn there is a pause: the threads of BLAS and torch wait actively for more work after a call, and
    would take the processors from whoever comes next.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 2):
        for work, found in zip((ours, theirs), times):
            time.sleep(0.1)
            start = time.perf_counter()
            work()
            found.append(time.perf_counter() - start)
    mine, other = (statistics.median(found[2:]) for found in times)
    return other / mine


def launch_time() -> float:
    a, out = np.ones(vector_add.TILE, np.float32), np.empty(vector_add.TILE, np.float32)
    args = (a, a, out, 128)
    batches = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(500):
            ct.launch(None, (1,), vector_add.vector_add, args)
        batches.append((time.perf_counter() - start) / 500)
    return statistics.median(batches)


def import_time() -> float:
    program = "import numpy, time; start = time.perf_counter(); import tilewright"
    return _median_of_processes(program, "off", 7)


def start_time(name: str, cache: str, runs: int = 7) -> float:
    """Seconds from the first call of an example to its result, in a process that has imported tilewright."""
    return _median_of_processes(f"import time, numpy as np, tilewright{_STARTS[name]}", cache, runs)


def _median_of_processes(program: str, cache: str, runs: int) -> float:
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "examples"), *sys.path])
    command = [sys.executable, "-c", f"{program}\nprint(time.perf_counter() - start)"]
    results = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(runs)
    ]
    return statistics.median(float(done.stdout) for done in results)


if __name__ == "__main__":
    main()
