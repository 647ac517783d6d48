"""``tilewright check`` of programs with SIMT kernels: each access outside of what its pointer was made from is found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.simt_programs import HEAD, KERNELS, MORE, SPLIT

WRONG = """#include <cstdio>
#include <cuda_runtime.h>
__device__ int table[4];
__device__ float get(float const* p, int i) { return p[i]; }  // 9 threads of 40: 1 past the end
struct Own { float* p; int n; };
template <typename T> __global__ void k(T* p, int n, Own own, float* null) {
  __shared__ float s[32]; extern __shared__ int sized[]; float mine[3] = {1, 2, 3};
  int i = threadIdx.x;
  s[i] = i;  // out-of-bounds 8
  sized[i] = mine[i % 4];  // out-of-bounds 15 10
  __syncthreads();
  int x = table[i & 7];  // out-of-bounds 20
  p[i] = get(p, i + 1);
  if (i > 37) atomicAdd(p + i + 1, T(1));  // out-of-bounds 2
  T* q = s + 1; q[i % 32] = x;  // out-of-bounds 1
  own.p[own.n + i] = 3;
  if (i == 5) null[i] = 1;  // dangling-pointer 1
  if (i == 7) *(int*)&p[38 + i % 2] = __shfl_sync(128u, i, 7);
}
__global__ void barrier(int* p) {
  if (threadIdx.x < 3) __syncthreads();  // deadlock 1
}
int main() {
  float* p; cudaMalloc(&p, 160); int* z; cudaMalloc(&z, 4); cudaMemset(z, 0, 4);
  k<<<1, 40, 100>>>(p, 100, Own{p, 0}, (float*)nullptr);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
  barrier<<<1, 64>>>(z);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def check(program: Path, text: str) -> subprocess.CompletedProcess[str]:
    program.write_text(text)
    command = [sys.executable, "-m", "tilewright", "check", str(program)]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)


def test_accesses_outside(tmp_path: Path) -> None:
    """A comment says which category a line has, and how often each access in it is outside."""
    done = check(tmp_path / "program.cu", WRONG)
    assert done.stdout.splitlines() == ["cudaSuccess", "cudaErrorLaunchFailure"]
    expected = {
        (number, found[1], int(count))
        for number, line in enumerate(WRONG.split("\n"), 1)
        if (found := re.search(r"// ([a-z-]+) ([\d ]+)$", line))
        for count in found[2].split()
    } | {(4, "out-of-bounds", 1)}
    parts = re.split(r"\n(?=\S+program\.cu:\d+:\d+: )", "\n" + done.stderr)[1:]
    found = set()
    for part in parts:
        head = re.match(r"\S+program\.cu:(\d+):\d+: ([a-z-]+): ", part)
        seen = re.search(r"seen: (\d+) times", part)
        assert head is not None
        found.add((int(head[1]), head[2], int(seen[1]) if seen else 1))
    assert found >= expected and {f[:2] for f in found} == {e[:2] for e in expected}
    assert (
        "thread: (32, 0, 0)" in done.stderr and "store of 4 bytes at byte 128 of a variable of 128 bytes" in done.stderr
    )
    assert "load of 4 bytes at byte 160 of an allocation of 160 bytes" in done.stderr
    assert done.returncode != 0


def test_right_programs_are_clean(tmp_path: Path) -> None:
    """Loops, kernels in parts and fibers; variables of threads, of blocks, and of the program."""
    clean = "\n".join(line for line in SPLIT.split("\n") if not line.startswith("  left<0>"))
    done = check(tmp_path / "split.cu", clean)
    assert done.stderr == "24 launches checked: no violation\n"
    done = check(tmp_path / "program.cu", f"{HEAD}{KERNELS}int main() {{ {MORE} }}\n")
    assert done.stdout.splitlines()[:2] == ["0 wrong, 20 3 1, 1 1 1", "11 4 5 165 1421"]
    assert done.stderr == "5 launches checked: no violation\n"
