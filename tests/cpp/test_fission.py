"""SIMT kernels that are split at their barriers: each gives what its threads give as fibers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cpp.host import fission

# `Fibers` adds a warp operation, with which a kernel is not split.
PROGRAM = """#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
struct Numbers { int a; int b[4]; };
#define KERNEL template <bool Fibers> __global__ void
#define BEGIN if constexpr (Fibers) __syncwarp(); int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)
__device__ int rotate(int* s, int t, int n) { s[t] = t * 3; __syncthreads(); int v = s[(t + 1) % n]; __syncthreads(); return v; }
KERNEL reduce(Numbers n, int* out) {
  BEGIN;
  __shared__ int s[128];
  s[t] = t * n.a;
  __syncthreads();
  for (int d = 64; d > 0; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
  out[blockIdx.x * 128 + t] = s[0] + t;
}
KERNEL nested(Numbers n, int* out) {
  BEGIN;
  __shared__ int s[128];
  int sum = 0, own[5] = {t, t + 1, t * t, 7, n.b[1]};
  for (int i = 0; i < 3; ++i) {
    int before = own[i];
    if (n.a > 2) { sum += rotate(s, t, 128) * before; own[(t + i) % 5] += sum; }
    for (int j = 0; j < i; ++j) { s[127 - t] = sum + j; __syncthreads(); sum ^= s[t]; __syncthreads(); if (n.b[0] == j) break; }
    while (sum % 7 != t % 3) ++sum;
  }
  n.b[2] += t;
  __syncthreads();
  for (int v : own) sum = sum * 31 + v;
  out[blockIdx.x * 128 + t] = sum + n.b[2];
}
KERNEL votes(Numbers n, int* out) {
  BEGIN;
  int found = t;
  for (int i = 0; __syncthreads_or(found < 130) && i < 9; ++i) found += __syncthreads_count(t % (i + 2) == 0);
  if (!__syncthreads_and(t < 128 + n.a)) return;
  double wide = found * 0.5; bool odd = t & 1; char small = char(t);
  __syncthreads();
  out[blockIdx.x * 128 + t] = int(wide * 4) + odd + small;
}
KERNEL left(int* out) {
  BEGIN;
  for (int i = 0; i < t; ++i) { out[t] = i; __syncthreads(); }
}
template <typename K> void both(char const* name, K split, K fibers, dim3 block) {
  int *a, *b; cudaMallocManaged(&a, 2048); cudaMallocManaged(&b, 2048);
  cudaMemset(a, 0, 2048); cudaMemset(b, 0, 2048);
  split<<<4, block>>>(Numbers{3, {1, 2, 3, 4}}, a); fibers<<<4, block>>>(Numbers{3, {1, 2, 3, 4}}, b);
  int sum = 0; for (int i = 0; i < 512; ++i) sum += a[i] != 0;
  printf("%s %s %d %s\\n", name, memcmp(a, b, 2048) ? "differs" : "same", sum > 400, cudaGetErrorName(cudaGetLastError()));
}
int main() {
  both("reduce", reduce<false>, reduce<true>, 128);
  both("nested", nested<false>, nested<true>, dim3(8, 4, 4));
  both("votes", votes<false>, votes<true>, dim3(4, 32));
  int* p; cudaMallocManaged(&p, 1024);
  left<false><<<1, 3>>>(p);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def test_split_kernels_give_what_fibers_give(tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)
    names = ("reduce", "nested", "votes")
    assert done.stdout.splitlines() == [*(f"{name} same 1 cudaSuccess" for name in names), "cudaErrorLaunchFailure"]
    line = next(i for i, text in enumerate(PROGRAM.split("\n"), 1) if "i < t" in text)
    reason = "a barrier that not all threads of the block reach: others have left its loop"
    assert done.stderr.splitlines() == [f"tilewright: {program}:{line}: {reason}"]


BODY = """entry:
  %x = alloca i32, align 4
  %once = alloca i32, align 4
  store i32 %tw.c0, ptr %x, align 4
  store i32 %tw.c1, ptr %x, align 4
  store i32 1, ptr %once, align 4
  br label %loop
loop:
  %wait = call i32 @__tw_simt_barrier(i32 0, i32 0, ptr @file, i32 7)
  %v = load i32, ptr %x, align 4
  %more = icmp ugt i32 %v, %tw.outcome
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def test_what_lives_across_a_barrier_is_kept_for_each_thread() -> None:
    kernel = fission.split(BODY)
    assert kernel is not None
    assert [(b.line, b.result) for b in kernel.barriers] == [(7, "%wait"), (7, None)]  # and the end of the loop
    assert [[block.label for block in region] for region in kernel.regions] == [
        ["entry", "loop"],
        ["tw.after1", "loop", "tw.leave2"],
        ["end"],
    ]
    assert kernel.frame == ["%x"]
    once = fission.split(BODY.replace("  store i32 %tw.c1, ptr %x, align 4\n", ""))
    assert once is not None and once.frame == [] and once.recomputed["%x"] == ["  store i32 %tw.c0, ptr %x"]


@pytest.mark.parametrize("line", ["  %p = phi i32 [ 0, %entry ]", "  %n = alloca i32, i64 %v"])
def test_what_cannot_be_split_is_left_to_fibers(line: str) -> None:
    assert fission.split(BODY.replace("end:\n", f"end:\n{line}\n")) is None
