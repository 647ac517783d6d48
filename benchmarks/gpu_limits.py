"""How long kernels take to compile by Triton at the limits of ``backends/triton/resources.py``, and beyond.

    python benchmarks/gpu_limits.py [--target sm_90] [--seconds 120]

Each kernel has half as much as a limit allows, as much, and two and four times that, in a process of its own, which may
take so many seconds. No GPU is needed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

import tilewright as ct
from tilewright.backends.registry import get_backend
from tilewright.backends.triton import resources

WARPS = 4
THREADS = 32 * WARPS


@ct.kernel
def add(x, y, out, T: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (T,)) + ct.load(y, (ct.bid(0),), (T,)))


@ct.kernel
def product(x, y, out, T: ct.Constant[int]):
    ct.store(
        out, (0, 0), ct.mma(ct.load(x, (0, 0), (T, 16)), ct.load(y, (0, 0), (16, 256)), ct.zeros((T, 256), ct.float32))
    )


@ct.kernel
def long(x, y, out, T: ct.Constant[int]):
    value = ct.load(x, (ct.bid(0),), (T,))
    ct.store(out, (ct.bid(0),), ct.sin(value) * ct.cos(value))


@ct.kernel
def accesses(x, y, out, N: ct.Constant[int]):
    total = ct.zeros((128,), ct.float32)
    for i in ct.static_iter(range(N)):
        total += ct.load(x, (i,), (128,))
    ct.store(out, (ct.bid(0),), total)


# Of each limit its kernel, and by how much a unit of it makes the tile larger, or the loads more.
KERNELS = {
    "_MOST_WORDS": (add, THREADS),
    "_MOST_WORDS_OF_MMA": (product, THREADS / 256),
    "_MOST_WORDS_OF_LONG_KERNELS": (long, THREADS),
    "_MOST_ACCESSES": (accesses, 1),
}


def compile_one(limit: str, size: int, target: str) -> None:
    """Compile the kernel of ``limit``, which does not hold."""
    get_backend("triton").compile  # noqa: B018 - loads what the limits are in
    for name in KERNELS:
        setattr(resources, name, 1 << 40)
    kernel, _ = KERNELS[limit]
    one, two = np.ones(1 << 22, np.float32), np.ones((2048, 256), np.float16)
    args: tuple[Any, ...] = (two, two[:16], np.ones((2048, 256), np.float32)) if kernel is product else (one, one, one)
    start = time.process_time()
    kernel.replace_options("triton", num_warps=WARPS).compile_for(target, (*args, size))
    print(f"{time.process_time() - start:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.one:
        return compile_one(o.one[0], int(o.one[1]), o.target)
    os.environ.update(TILEWRIGHT_CACHE_DIR="off", TRITON_ALWAYS_COMPILE="1", TILEWRIGHT_BACKEND="triton")
    print("| limit | | half | at it | twice | four times |\n|---|--:|--:|--:|--:|--:|")
    for limit, (_, unit) in KERNELS.items():
        most, cells = getattr(resources, limit), []
        for times in (0.5, 1, 2, 4):
            size = 1 << round(most * times * unit - 1).bit_length() if unit != 1 else round(most * times)
            command = [sys.executable, __file__, "--target", o.target, "--one", limit, str(size)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=o.seconds, check=False)
                cells.append(done.stdout.strip() or done.stderr.strip().splitlines()[-1][:60])
            except subprocess.TimeoutExpired:
                cells.append(f"over {o.seconds:g}")
        print(f"| `{limit}` | {most} | {' | '.join(cells)} |", flush=True)
    return None


if __name__ == "__main__":
    main()
