"""Warp operations of groups of lanes, each with a mask of its own, that come to one place together, or apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cpp_programs import run

PROGRAM = r"""
#include <cstdio>
// Groups of lanes by a key, most of which are no neighbours; the last warp is a part of one.
__global__ void k(int* out, int keys) {
  int t = threadIdx.x, lane = t & 31, key = lane * lane % keys;
  unsigned mask = __match_any_sync(t < 64 ? ~0u : 0xffffu, key);
  int sum = t;
  for (int by = 0; by < 3; ++by) sum += __shfl_sync(mask, sum, __ffs(mask) - 1) + __popc(__ballot_sync(mask, lane & 1));
  out[t] = sum + __reduce_add_sync(mask, t) + 1000 * __any_sync(mask, lane == 3);
}
__global__ void apart(int* out) {  // lanes of a group that come elsewhere are waited for
  int t = threadIdx.x, lane = t & 31;
  unsigned mask = 0xffu << (lane & 24);
  int v = t;
  if (lane & 8) v += __shfl_xor_sync(mask, v, 3); else v -= __shfl_xor_sync(mask, v, 5);
  __syncwarp(mask);
  out[t] = v + __shfl_sync(mask, v, 1, 8);
}
int main() {
  int *p, wrong = 0; cudaMallocManaged(&p, 4 * 80);
  for (int keys : {1, 2, 5, 7, 31}) {
    k<<<1, 80>>>(p, keys);
    cudaDeviceSynchronize();
    for (int t = 0; t < 80; ++t) {
      int lane = t & 31, first = -1, odd = 0, all = 0, three = 0;
      for (int l = 0; l < (t < 64 ? 32 : 16); ++l)
        if (l * l % keys == lane * lane % keys) { if (first < 0) first = l; odd += l & 1; all += t - lane + l; three |= l == 3; }
      int lead = t - lane + first, sum = t;
      for (int by = 0; by < 3; ++by) { int before = lead; lead += before + odd; sum += before + odd; }
      wrong += p[t] != sum + all + 1000 * three;
    }
  }
  apart<<<1, 64>>>(p);
  cudaDeviceSynchronize();
  auto v = [](int t) { return t & 8 ? t + (t ^ 3) : t - (t ^ 5); };
  for (int t = 0; t < 64; ++t) wrong += p[t] != v(t) + v((t & ~7) + 1);
  printf("%d wrong\n", wrong);
  return wrong;
}
"""


@pytest.mark.parametrize(("how", "said"), [("run", ""), ("check", "6 launches checked: no violation\n")])
def test_groups(tmp_path: Path, environment: dict[str, str], how: str, said: str) -> None:
    (tmp_path / "program.cu").write_text(PROGRAM)
    done = run(tmp_path / "program.cu", environment, how=how)
    assert (done.stdout, done.stderr) == ("0 wrong\n", said)


UNEVEN = r"""#include <cstdio>
#include <cuda_runtime.h>
__device__ int of_warp(int sum) {
  for (int by = 16; by > 0; by >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, by);
  return sum;
}
__global__ void sums(int* out, int const* in, int n, int part) {  // lanes of a part wait in each iteration
  int lane = threadIdx.x & 31, sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int v = in[i];
    if (lane < part) v += __shfl_xor_sync((1ull << part) - 1, v, 1);
    sum += v + i;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = of_warp(sum);
}
__global__ void later(int* out, int const* in, int n) {  // odd threads meet the others one iteration later
  int t = threadIdx.x, sum = 0, odd = t % 2;
  for (int i = t; i < n + odd * blockDim.x; i += blockDim.x) {
    if (odd && i < blockDim.x) continue;
    __syncthreads();
    sum += in[i];
  }
  out[t] = of_warp(sum);
}
int main() {
  int *in, *out, wrong = 0;
  cudaMallocManaged(&in, 4 << 12); cudaMallocManaged(&out, 4 << 12);
  for (int i = 0; i < 1 << 12; ++i) in[i] = i * i % 1001;
  for (int block : {32, 96, 64}) {
    int threads = 3 * block, n = 7 * threads;
    for (int part : {0, 2, 16, 32}) {
      sums<<<3, block>>>(out, in, n, part);
      cudaDeviceSynchronize();
      for (int t = 0; t < threads; ++t) {
        int sum = 0;
        for (int i = 0; i < n; ++i)
          if (i % threads / 32 == t / 32) sum += in[i] + i + (i % 32 < part ? in[i ^ 1] : 0);
        wrong += out[t] != sum;
      }
    }
    later<<<1, block>>>(out, in, n);
    cudaDeviceSynchronize();
    for (int t = 0; t < block; ++t) {
      int sum = 0;
      for (int i = 0; i < n; ++i)
        if (i % block / 32 == t / 32) sum += in[i % 2 ? i + block : i];
      wrong += out[t] != sum;
    }
  }
  printf("%d wrong\n", wrong);
}
"""


def test_lanes_that_have_done_more_iterations_than_others(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "program.cu").write_text(UNEVEN)
    done = run(tmp_path / "program.cu", environment)
    assert (done.stdout, done.stderr, done.returncode) == ("0 wrong\n", "", 0)
