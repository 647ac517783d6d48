"""Measures Tile C++: compilation, cold and from the disk cache, and kernels beside the same ones in Python.

    python benchmarks/cpp.py

The two sides of a comparison take turns in one process; every number is a median.
"""

from __future__ import annotations

import importlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as ct

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks")]
attention, matmul, harness, foundation = map(importlib.import_module, ("attention", "matmul", "harness", "foundation"))

BACKENDS = ("cpu", "reference")
KERNEL = ROOT / "benchmarks" / "attention.cu"
EXPRESSION = "attend<64, 64, 64, false>"
_START = f"""
import time, tilewright as ct
start = time.perf_counter()
ct.cpp.compile({str(KERNEL)!r}).kernel({EXPRESSION!r})
"""
_HEADER = """
import time
from tilewright.frontend.cpp.toolchain import compile_to_llvm, require_compiler
require_compiler()
start = time.perf_counter()
compile_to_llvm('#include "cuda_tile.h"', "empty.cu")
"""


def main() -> None:
    foundation.report("the header alone", seconds(_HEADER, "off") * 1e3, "ms", at_most=400)
    with tempfile.TemporaryDirectory() as folder:
        foundation.report("a kernel, cold", seconds(_START, "off") * 1e3, "ms", at_most=1500)
        seconds(_START, folder, runs=1)
        foundation.report("a kernel, from the disk cache", seconds(_START, folder) * 1e3, "ms", at_most=30)
    for backend in BACKENDS:
        with ct.use_backend(backend):
            for name, (ours, theirs) in pairs(small=backend == "reference").items():
                ratio = speed_ratio(ours, theirs, 7 if backend == "reference" else 31)
                foundation.report(f"{name} on {backend}: speed of Python's", ratio, "x", at_least=0.95)


def pairs(small: bool) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Launches in C++ and in Python of the same kernels on the same arrays, which have to agree."""
    n, tile = (128, 64) if small else (1024, 128)
    a, b = harness.normal(n, n), harness.normal(n, n, seed=1)
    c, d = np.zeros_like(a), np.zeros_like(a)
    product = ct.cpp.compile(ROOT / "examples" / "matmul.cu").kernel(f"matmul<{tile}, {tile}, {tile}>")
    grid = n // tile, n // tile
    shape = (1, 128, 64) if small else (8, 1024, 64)
    q, k, v = (harness.normal(*shape, seed=seed) for seed in range(3))
    out, want = np.zeros_like(q), np.zeros_like(q)
    attend = ct.cpp.compile(KERNEL)
    plain, causal = attend.kernel(EXPRESSION), attend.kernel(EXPRESSION.replace("false", "true"))
    blocks = shape[1] // 64, shape[0]
    scale = 1 / math.sqrt(64)

    def python_attention(is_causal: bool) -> Callable[[], None]:
        return lambda: ct.launch(None, blocks, attention.attend, (q, k, v, want, scale, 64, 64, 64, is_causal))

    def cpp_attention(kernel: Any) -> Callable[[], None]:
        return lambda: ct.launch(None, blocks, kernel, (q, k, v, out, shape[0], shape[1], scale))

    found: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "matmul": (
            lambda: ct.launch(None, grid, product, (a, b, c, n, n, n)),
            lambda: ct.launch(None, grid, matmul.matmul_plain, (a, b, d, tile, tile, tile)),
        ),
        "attention": (cpp_attention(plain), python_attention(False)),
        "causal attention": (cpp_attention(causal), python_attention(True)),
    }
    for ours, theirs in found.values():
        ours()
        theirs()
        np.testing.assert_allclose(c, d, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
    return found


def speed_ratio(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> float:
    """How much faster ``ours`` is than ``theirs``, the two taking turns in either order.

    Processor time of all threads is what counts: other programs may share the machine.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for i in range(rounds):
        for side in (0, 1) if i % 2 else (1, 0):
            start = time.process_time()
            (ours, theirs)[side]()
            times[side].append(time.process_time() - start)
    return statistics.median(times[1]) / statistics.median(times[0])


def seconds(program: str, cache: str, runs: int = 5) -> float:
    """The median of the seconds that a program measures from ``start`` to its end, each time in a new process."""
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"{program}\nprint(time.perf_counter() - start)"]
    done = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(runs)]
    return statistics.median(float(d.stdout) for d in done)


if __name__ == "__main__":
    main()
