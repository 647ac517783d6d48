"""What it costs on a CPU that accesses which promise to stay inside their views are clipped where they do not.

    python benchmarks/clipping.py

Kernels whose tiles are all whole, and whose accesses all promise it: as they are compiled, where ``ClipViews`` takes
the promises back, and as they would be without that pass. The two take turns in one process; the number is the median
of the ratios of neighbours.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import cpu_kernels as kernels
import numpy as np

import tilewright as ct
from tilewright.backends.cpu.codegen import pipeline
from tilewright.ir.core import Function
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.transforms.base import Pass
from tilewright.transforms.clip_views import ClipViews
from tilewright.transforms.pipelines import run_passes

F32 = ct.float32
_TURNS = 41
_SECONDS = 0.02  # of calls in a turn


def promising(function: Function) -> Function:
    """``function``, in which every load and store promises to stay inside its view."""
    for op in function.walk():
        if isinstance(op, (LoadView, StoreView)):
            op.in_bounds = (True,) * len(op.in_bounds)
    return function


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def rows() -> Iterator[tuple[str, Any, tuple[int, ...], tuple[Any, ...]]]:
    """Name, kernel, grid and arguments; tiles divide the arrays."""
    for n in (1 << 16, 1 << 22):
        x = normal(n)
        yield f"copy of {n}", kernels.copy, (n // 1024,), (x, np.empty_like(x), 1024)
        yield f"add of {n}", kernels.add, (n // 1024,), (x, x, np.empty_like(x), 1024)
    x, width = normal(1024, 1024), normal(1024)
    yield "transpose 1024", kernels.transpose, (16, 16), (x, np.empty_like(x), 64)
    yield "softmax 1024x1024", kernels.softmax, (1024,), (x, np.empty_like(x), 1, 1024)
    yield "layer norm 1024x1024", kernels.layer_norm, (1024,), (x, width, width, np.empty_like(x), 1e-5, 1, 1024)
    yield "RMS norm 1024x1024", kernels.rms_norm, (1024,), (x, width, np.empty_like(x), 1e-5, 1, 1024)
    yield "matmul 1024", kernels.matmul, (8, 8), (x, x, np.empty_like(x), 128, 128, 64, F32)
    small = normal(256, 256)
    yield "matmul 256", kernels.matmul, (4, 4), (small, small, np.empty_like(small), 64, 64, 64, F32)
    q = normal(8, 512, 64)
    for causal in (False, True):
        name = f"attention 8x512x64{' causal' * causal}"
        yield name, kernels.attention, (8, 8), (q, q, q, np.empty_like(q), 0.125, 64, 64, 64, causal)


def launched(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], passes: Sequence[Pass]
) -> Callable[[], Any]:
    """A bound launch of ``kernel``, whose accesses all promise to stay inside, compiled anew with ``passes``."""
    with mock.patch.object(pipeline, "run_passes", lambda function, _: run_passes(promising(function), passes)):
        run = kernel.replace_hints().bind(grid, arguments, backend="cpu")
        run()
    return run


def seconds(run: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return time.perf_counter() - start


def main() -> None:
    others = tuple(p for p in pipeline.PASSES if not isinstance(p, ClipViews))
    assert len(others) + 1 == len(pipeline.PASSES)
    print(f"{'kernel':<28}{'clipped / promised':>20}")
    ratios = []
    os.environ["TILEWRIGHT_CACHE_DIR"] = "off"
    for name, kernel, grid, arguments in rows():
        clipped = launched(kernel, grid, arguments, pipeline.PASSES)
        promised = launched(kernel, grid, arguments, others)
        calls = max(1, int(_SECONDS / seconds(promised, 1)))
        turns = [seconds(clipped, calls) / seconds(promised, calls) for _ in range(_TURNS)]
        ratios.append(statistics.median(turns))
        print(f"{name:<28}{ratios[-1]:>20.3f}", flush=True)
    print(f"{'median of all':<28}{statistics.median(ratios):>20.3f}")


if __name__ == "__main__":
    main()
