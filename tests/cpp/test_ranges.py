"""SIMT kernels that know a thread by its number in the grid alone run in ranges of threads, whatever the blocks are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tilewright.cpp.host.ranges import with_ranges

PROGRAM = r"""#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#define KERNEL template <bool shared> __global__ void
template <bool shared> __device__ void add(int* p, int n) { if (shared) atomicAdd(p, n); else *p += n; }
KERNEL below(int* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) add<shared>(o + i, 1); }
KERNEL above(int* o, int n) { int i = threadIdx.x + blockDim.x * blockIdx.x; if (n > i) add<shared>(o + i, 1); }
KERNEL last(int* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i <= n - 1) add<shared>(o + i, 1); }
KERNEL leaves(int* o, int n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size_t(n)) return;
  add<shared>(o + i, 1);
}
KERNEL wide(int* o, int n) { unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < size_t(n)) add<shared>(o + i, 1); }
KERNEL longs(int* o, int n) { long i = blockIdx.x * (long)blockDim.x + threadIdx.x; if (!(i >= n)) add<shared>(o + i, 1); }
KERNEL several(int* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && o[i] >= 0) add<shared>(o + i, i % 3 ? 1 : o[i] < 5 ? 1 : 7);
}
KERNEL strided(int* o, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) add<shared>(o + i, 1);
}
KERNEL strides(int* o, int n) {
  size_t all = (size_t)gridDim.x * blockDim.x;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += all) add<shared>(o + i, 1);
}
KERNEL backwards(int* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) add<shared>(o + n - 1 - i, 1); }
__global__ void otherwise(int* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) atomicAdd(o, 1); }
__global__ void all(unsigned* o) { atomicAdd(o, blockIdx.x * blockDim.x + threadIdx.x); }
__global__ void signs(int* o, int n) {  // of numbers that have become negative
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(o + (i < 0), 1);
}
__global__ void fixed(int* o, int n) { int i = blockIdx.x * 96 + threadIdx.x; if (i < n) atomicAdd(o + i, 1); }
__global__ void shifted(int* o, int n) {
  for (size_t i = blockIdx.x * 64ull + threadIdx.x; i < n; i += gridDim.x * 64ull) atomicAdd(o + i, 1);
}
using kernel = void (*)(int*, int);
// The numbers that threads have where blocks are `width` apart, and how often, beside what a kernel made of them.
int unlike(kernel each, int* o, int n, int width, int block, bool strides) {
  static int wanted[1 << 16];
  for (int i = 0; i < 1 << 16; ++i) o[i] = wanted[i] = 0;
  int const grid = 5;
  for (int b = 0; b < grid; ++b)
    for (int t = 0; t < block; ++t)
      for (int i = b * width + t; i < n; i += strides ? grid * width : n) wanted[i] += 4;
  each<<<dim3(grid, 2), dim3(block, 1, 2)>>>(o, n);
  cudaDeviceSynchronize();
  for (int i = 0; i < 1 << 16; ++i) if (o[i] != wanted[i]) return printf("%d of %d wide\n", block, width);
  return 0;
}
// By one thread for each number, and by several.
template <bool shared> struct of { static constexpr kernel each[] = {
  below<shared>, above<shared>, last<shared>, leaves<shared>, wide<shared>, longs<shared>, several<shared>,
  strided<shared>, strides<shared>, backwards<shared>}; };
kernel const* const kernels[] = {of<false>::each, of<true>::each};
int main() {
  int *o, wrong = 0;
  cudaMallocManaged(&o, 4 << 16);
  for (int which = 0; which < 20; ++which) {
    kernel const each = kernels[which / 10][which % 10];
    int const deep = 1 + which / 10, times = deep * deep;
    for (int n : {0, 1, 15, 1000, 5000, 40000})
      for (int block : {1, 7, 96, 256}) {
        for (int i = 0; i < 1 << 16; ++i) o[i] = 0;
        bool many = which % 10 == 7 || which % 10 == 8;  // with strides
        dim3 grid(many ? 3 : (n + block) / block, deep);
        each<<<grid, dim3(block, 1, deep)>>>(o, n);
        cudaDeviceSynchronize();
        for (int i = 0; i < 1 << 16; ++i)
          if (o[i] != (i < n ? times : 0)) { ++wrong; printf("%d: n %d block %d at %d: %d\n", which, n, block, i, o[i]); break; }
      }
  }
  for (int n : {0, 1, 250, 400, 5000})
    for (int block : {1, 64, 96, 256}) wrong += !!unlike(fixed, o, n, 96, block, false) + !!unlike(shifted, o, n, 64, block, true);
  o[0] = 0; otherwise<<<10, 100>>>(o, 250); cudaDeviceSynchronize(); wrong += o[0] != 750;
  o[0] = 0; otherwise<<<10, 100>>>(o, -1); cudaDeviceSynchronize(); wrong += o[0] != 1000;
  o[0] = 0; all<<<100, 37>>>((unsigned*)o); cudaDeviceSynchronize(); wrong += o[0] != 3700 * 3699 / 2;
  o[0] = o[1] = 0; signs<<<(1u << 23) + 3, 256>>>(o, 1000); cudaDeviceSynchronize();
  wrong += o[0] != 1000 || o[1] != 768;
  o[0] = o[1] = 0; signs<<<(1u << 23) + 3, 256>>>(o, -(1 << 30)); cudaDeviceSynchronize();
  wrong += o[0] != 0 || o[1] != 768;
  printf("%d wrong\n", wrong);
}
"""


def test_all_forms_of_bounds_select_the_threads_that_they_say(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(PROGRAM)
    command = [sys.executable, "-m", "tilewright", "run", "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("0 wrong\n", "", 0)


def code(name: str, *lines: str) -> str:
    calls = [f"  %{axis} = call i32 @__tw_simt_index(i32 {k})" for axis, k in (("t", 0), ("b", 3), ("w", 6))]
    return "\n".join([f"define void @{name}(ptr %o) {{", *calls, *lines, "  ret void", "}", ""])


def test_only_kernels_that_use_nothing_else_of_their_place_are_such() -> None:
    number = ("  %m = mul i32 %b, %w", "  %i = add i32 %t, %m")
    text = code("plain", *number) + code("thread", *number, "  store i32 %t, ptr %o")
    text += code("block", *number, "  store i32 %b, ptr %o") + code("first", *number, "  store i32 %m, ptr %o")
    text += code("other", "  %m = mul i32 %b, %t", "  %i = add i32 %w, %m")
    text += code("fixed", "  %m = shl i32 %b, 7", "  %i = add i32 %t, %m")
    text += code(
        "mixed", "  %m = shl i32 %b, 7", "  %i = add i32 %t, %m", "  %k = mul i32 %b, %w", "  %j = add i32 %t, %k"
    )
    edited, found = with_ranges(text, ["plain", "thread", "block", "first", "other", "fixed", "mixed"])
    assert found == {"plain": 0, "fixed": 128}
    assert "%m = call i32 @__tw_simt_index(i32 3)" in edited.split("@thread")[0]
    assert "%m = mul i32 %b, %w" in edited.split("@thread")[1].split("@block")[0]
