"""What a few kernels take on a GPU with other values of a constant: where the numbers of its heuristics come from.

    python benchmarks/gpu_constants.py backends.triton.options._WORDS 8 16 32 --rows softmax norm [--backend gpu]

Kernels are compiled anew for each value; then the values take turns, three times, with a cold L2 cache. Times are
microseconds; ``results/gpu_constants.md`` has them. ``constants.py`` is the same for a CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import itertools
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import triton
from constants import setter
from gpu import kernels_for

import tilewright as ct
from tilewright.backends.registry import get_backend

TURNS = 3
LOG2_E = 1 / math.log(2)
Run = Callable[[str], None]  # by a backend
LOCK = Path(tempfile.gettempdir()) / "tilewright-gpu-constants"  # several of these compile at once, one measures


def rows(kernels: Any) -> Iterator[tuple[str, Callable[[], Run]]]:
    """Names, and what makes the arrays of a launch, and the launch."""
    processors = torch.cuda.get_device_properties(0).multi_processor_count

    def random(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=dtype)

    def launch(kernel: str, grid: tuple[int, ...], *args: Any) -> Run:
        made = getattr(kernels, kernel)
        return lambda backend: ct.launch(torch.cuda.current_stream(), grid, made, args, backend=backend)

    def matmul(kernel: str, size: int, dtype: torch.dtype, *tile: int) -> Run:
        a, b = random(size, size, dtype=dtype), random(size, size, dtype=dtype)
        tiles = math.ceil(size / tile[0]) * math.ceil(size / tile[1])
        blocks = min(tiles, processors) if kernel == "matmul_persistent" else tiles
        return launch(kernel, (blocks,), a, b, torch.empty_like(a), *tile, 8, dtype is torch.float32)

    def few_rows() -> Run:
        out = torch.empty(64, 8192, device="cuda", dtype=torch.float16)
        return launch("matmul", (128,), random(64, 4096), random(4096, 8192), out, 64, 64, 64, 8, False)

    def gated() -> Run:
        return launch("gated", (32 * 32,), *(random(4096, 4096) for _ in range(4)), 128, 128, 64, 8)

    def attention(width: int, queries: int, keys: int, causal: bool) -> Run:
        arrays = [random(2, 16, 4096, width, dtype=torch.bfloat16) for _ in range(4)]
        numbers = LOG2_E / math.sqrt(width), 16, width, queries, keys, causal
        return launch("attention", (4096 // queries, 32), *arrays, *numbers)

    x, w, labels = random(16384, 4096), random(4096), torch.zeros(16384, device="cuda", dtype=torch.int32)
    out, flat = torch.empty_like(x), x.view(-1)
    yield "add", lambda: launch("vadd", (x.numel() // 2048,), flat, flat, out.view(-1), 2048)
    yield "softmax", lambda: launch("softmax", (16384,), x, out, 4096)
    yield "persistent softmax", lambda: launch("softmax", (4 * processors,), x, out, 4096)
    yield "layer norm of rows", lambda: launch("layer_norm", (16384,), x, w, w, out, 1e-5, 4096, 4096)
    yield "layer norm in steps", lambda: launch("layer_norm_in_steps", (16384,), x, w, w, out, 1e-5, 1024)
    yield "cross entropy", lambda: launch("cross_entropy", (16384,), x, labels, random(16384), 2048)
    for name, dtype, k in (("f16", torch.float16, 64), ("tf32", torch.float32, 32)):
        for kind, kernel, size, tile in (
            ("matmul 128x128", "matmul", 4096, (128, 128, k)),
            ("matmul 128x256", "matmul", 4096, (128, 256, k)),
            ("small matmul", "matmul", 1024, (64, 64, k)),
            ("matmul of 4097", "matmul", 4097, (128, 256, k)),
            ("persistent matmul", "matmul_persistent", 4096, (128, 256, k)),
        ):
            yield f"{kind} {name}", functools.partial(matmul, kernel, size, dtype, *tile)
    yield "matmul of 64 rows", few_rows
    yield "gated matmul", gated
    for width, queries, keys, causal in itertools.product((64, 128), (128, 64), (64, 128), (False, True)):
        name = f"attention {width}, {queries}x{keys}{', causal' * causal}"
        yield name, functools.partial(attention, width, queries, keys, causal)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", help="module and name, below tilewright")
    parser.add_argument("values", nargs="+", help="the values, as Python writes them")
    parser.add_argument("--rows", nargs="+", default=[""], metavar="TEXT", help="only the rows whose names begin so")
    parser.add_argument("--backend", default="triton")
    o = parser.parse_args()
    os.environ["TILEWRIGHT_CACHE_DIR"] = "off"
    get_backend(o.backend).compile  # noqa: B018 - loads what the constant is in
    set_constant = setter(o.name)
    found: dict[str, dict[str, Run]] = {}

    def launched(run: Run, value: str) -> None:
        set_constant(eval(value))  # launches may ask for it, too
        run(o.backend)

    for value in o.values:
        set_constant(eval(value))
        for row, make in rows(kernels_for(ct)):
            if row.startswith(tuple(o.rows)):
                run = make()
                with contextlib.suppress(ct.TileError):  # a value with which it does not fit
                    run(o.backend)
                    found.setdefault(row, {})[value] = run
    print(f"`{o.name}`, microseconds by the backend {o.backend}:\n\n| row | {' | '.join(o.values)} |")
    print("|---" + "|--:" * len(o.values) + "|")
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for row, runs in found.items():
            times: dict[str, list[float]] = {}
            for value, run in [*runs.items()] * TURNS:
                again = functools.partial(launched, run, value)
                ms = triton.testing.do_bench(again, warmup=5, rep=15, quantiles=[0.5])
                times.setdefault(value, []).append(ms * 1e3)
            cells = (f"{statistics.median(times[v]):.1f}" if v in times else "refused" for v in o.values)
            print(f"| {row} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
