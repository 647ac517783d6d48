"""How long a program in Tile C++ takes from its start to its main: python benchmarks/cpp_start.py

The wall clock and the processor time of the whole process, until ``main`` is reached, with what is compiled in the
cache and Python's byte code on disk; beside them what Python takes to import NumPy, in turns. Medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_MARK = """
#include <ctime>
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>
int main() {
    timespec now;
    rusage used;
    clock_gettime(CLOCK_MONOTONIC, &now);
    getrusage(RUSAGE_SELF, &used);
    printf("%.6f %.6f\\n", now.tv_sec + now.tv_nsec * 1e-9,
           used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6);
}
"""
_KERNELS = {
    "no kernel": "",
    "one kernel": """
#include <cuda_tile.h>
namespace ct = cuda::tiles;
__tile_global__ void one(float* p) { ct::store(p, ct::load(p) + 1.0f); }
void use(float* p) { one<<<1>>>(p); }
""",
    "eight kernels, iostream": """
#include <iostream>
#include <vector>
#include <cuda_tile.h>
namespace ct = cuda::tiles;
template <typename T, int N>
__tile_global__ void scale(T* p, T by) {
    auto at = p + ct::bid().x * N + ct::iota<ct::tile<int, ct::shape<N>>>();
    ct::store(at, ct::load(at) * by);
}
template <int... N>
void all(float* p) { (scale<float, N><<<4>>>(p, 2.0f), ...); }
void use(float* p) { all<1, 2, 4, 8, 16, 32, 64, 128>(p); std::cout << "done\\n"; }
""",
    "SIMT with a barrier": """
#include <cuda_runtime.h>
__global__ void turned(int* p) {
    __shared__ int s[64];
    s[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = s[63 - threadIdx.x];
}
void use(int* p) { turned<<<1, 64>>>(p); }
""",
}


def started(command: list[str]) -> tuple[float, float]:
    """Seconds until what ``command`` runs says that it has begun, and of the processor."""
    before = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_ENVIRONMENT)
    now, used = map(float, done.stdout.split()[-2:])
    return now - before, used


_ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
_NUMPY = "import numpy, time, resource as r; u = r.getrusage(0); print(time.monotonic(), u.ru_utime + u.ru_stime)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands = {"NumPy alone": [sys.executable, "-c", _NUMPY]}
        for number, (name, text) in enumerate(_KERNELS.items()):
            path = Path(folder) / f"{number}.cu"
            path.write_text(text + _MARK)
            commands[name] = [sys.executable, "-m", "tilewright", "run", str(path)]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for round in range(options.rounds + 1):
            for name, command in commands.items():
                found = started(command)
                if round:  # the first one fills the caches
                    times[name].append(found)
    print(f"{'program':<26}{'to main, s':>12}{'processor, s':>14}")
    for name, found in times.items():
        wall, used = (statistics.median(each) for each in zip(*found))
        print(f"{name:<26}{wall:>12.3f}{used:>14.3f}")


if __name__ == "__main__":
    main()
