"""Loops of SIMT kernels that threads of a block go through together become the outer loops."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cpp.host.fission import BARRIER
from tilewright.cpp.host.interchange import with_interchange
from tilewright.cpp.host.strides import YIELD
from tilewright.frontend.cpp.optimize import transformed

PRODUCT = """define void @k(ptr %a, ptr %b, i32 %n) {
  %t = call i32 @__tw_simt_index(i32 0)
  %row = call i32 @__tw_simt_index(i32 1)
  br label %header

header:
  %i = phi i32 [ 0, %0 ], [ %next, %body ]
  %sum = phi float [ 0.0, %0 ], [ %more, %body ]
  %goes = icmp slt i32 %i, %n
  br i1 %goes, label %body, label %end

body:
  %r = mul i32 %row, %n
  %left = add i32 %r, %i
  %p = getelementptr float, ptr %a, i32 %left
  %x = load float, ptr %p, align 4
  %c = mul i32 %i, %n
  %right = add i32 %c, %t
  %q = getelementptr float, ptr %b, i32 %right
  %y = load float, ptr %q, align 4
  %z = call float @scaled(float %y)
  %xz = fmul float %x, %z
  %more = fadd float %sum, %xz
  %next = add nsw i32 %i, 1
  br label %header, !llvm.loop !0

end:
  %o = getelementptr float, ptr %b, i32 %t
  store float %sum, ptr %o, align 4
  ret void
}

define float @scaled(float %x) {
  %y = fmul float %x, 2.0
  ret float %y
}

declare i32 @__tw_simt_index(i32)
declare i32 @__tw_simt_barrier(i32, i32, ptr, i32)
declare void @other()

!0 = distinct !{!0}
"""


@pytest.mark.parametrize(
    ("old", "new", "outer"),
    [
        ("", "", True),
        ("%left = add i32 %r, %i", "%left = add i32 %r, 0", True),
        ("%right = add i32 %c, %t", "%right = add i32 %c, 0", True),
        ("%c = mul i32 %i, %n", "%c = mul i32 %t, %n", False),  # from iteration to iteration memory is nearer
        ("%right = add i32 %c, %t", "%right = mul i32 %t, %n", False),
        ("icmp slt i32 %i, %n", "icmp slt i32 %i, %t", False),  # threads leave it one after another
        ("icmp slt i32 %i, %n", "fcmp olt float %sum, 7.0", False),
        ("icmp slt i32 %i, %n", "icmp slt i32 %i, 9", False),  # it is unrolled as a whole
        ("%z = call float @scaled(float %y)", "call void @other()\n  %z = fadd float %y, 0.0", False),
        ("%y = load float, ptr %q", "%y = load volatile float, ptr %q", False),
        ("%y = load float, ptr %q, align 4", "%y = atomicrmw fadd ptr %q, float 1.0 monotonic", False),
    ],
)
def test_loops_become_outer_ones_that_are_nearer_to_the_next_thread(old: str, new: str, outer: bool) -> None:
    text = PRODUCT.replace(old, new) if old else PRODUCT
    made = with_interchange(text, ["k"], BARRIER, transformed)
    assert (made != text) == outer
    calls = [line for line in made.split("\n") if f"call i32 @{BARRIER}(i32 {YIELD}," in line]
    assert len(calls) == (2 if outer else 0), "one in the loop of eight iterations, one in that of those left"
    assert made.count("fmul float %") == (1 + 8 + 1 if outer else 2), "and the function that is called"


PROGRAM = r"""#include <cmath>
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
__global__ void product(int* c, int const* a, int const* b, int n) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n || column >= n) return;
  int sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}
__global__ void columns(int* c, int const* a, int const* b, int n) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, own = 0;
  if (column < n && blockIdx.y == 0 && threadIdx.y == 0) {
    for (int k = 0; k < n; k++) {
      int v = a[k * n + column];
      if (v % 3 == 0) continue;
      own = own * 3 + v;
    }
    for (int k = n; k-- > 0;) c[k * n + column] = own + b[k];
  }
}
__global__ void together(int* c, int const* a, int const* b, int n) {  // and barriers that are needed
  __shared__ int part[256];
  int t = threadIdx.y * blockDim.x + threadIdx.x, m = blockDim.x * blockDim.y, i = blockIdx.x * m + t, sum = 0;
  if (blockIdx.y) return;
  for (int from = 0; from < n * n; from += m) {
    part[t] = from + t < n * n ? b[from + t] : 0;
    __syncthreads();
    for (int j = 0; j < m; ++j) sum += (part[j] ^ i) & 7;
    __syncthreads();
  }
  if (i < n * n) c[i] = sum + a[i];
}
__global__ void early(int* c, int const* a, int const* b, int n) {  // some leave in the middle of it
  int q = threadIdx.y * blockDim.x + threadIdx.x, own = 0;
  if (blockIdx.x || blockIdx.y) return;
  for (int k = 0; k < n; ++k) {
    if (q >= n) return;
    own += a[k * n + q];
    if (own > 30 && q % 3 == 0) {
      for (int i = 0; i < n; ++i) c[i * n + q] = -own;
      return;
    }
  }
  for (int k = 0; k < n; ++k) c[k * n + q] = own;
}
__global__ void batches(int* c, int const* a, int const* b, int n) {  // within another loop
  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = 0;
  for (int z = 0; z < 3; ++z)
    if (row < n && column < n) {
      for (int k = 0; k < n; ++k) {
        if (k == z + 3) continue;
        sum += a[row * n + k] * b[k * n + column];
      }
      c[row * n + column] = sum;
    }
}
using kernel = void (*)(int*, int const*, int const*, int);
int main() {
  constexpr int most = 41;
  int *a, *b, *c, wrong = 0;
  for (int** p : {&a, &b, &c}) cudaMallocManaged(p, most * most * sizeof(int));
  for (int i = 0; i < most * most; ++i) a[i] = i * i % 17, b[i] = i * 7 % 23;
  for (int n : {0, 1, 7, 8, 9, 16, 33, most})
    for (dim3 block : {dim3(16, 16), dim3(32, 4), dim3(5, 3), dim3(64)}) {
      dim3 grid(n * n / (block.x * block.y) + n / block.x + 1, n / block.y + 1);
      auto unlike = [&](char const* name, kernel each, auto wanted) {
        for (int i = 0; i < n * n; ++i) c[i] = -1;
        each<<<grid, block>>>(c, a, b, n);
        cudaDeviceSynchronize();
        for (int i = 0; i < n * n; ++i)
          if (c[i] != wanted(i / n, i % n)) { printf("%s %d %d %d\n", name, n, block.x, i), ++wrong; break; }
      };
      unlike("product", product, [&](int row, int column) {
        int sum = 0;
        for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
        return sum;
      });
      unlike("columns", columns, [&](int row, int column) {
        int own = 0;
        for (int k = 0; k < n; ++k) if (a[k * n + column] % 3) own = own * 3 + a[k * n + column];
        return own + b[row];
      });
      unlike("together", together, [&](int row, int column) {
        int i = row * n + column, sum = 0, m = block.x * block.y;
        for (int j = 0; j < (n * n + m - 1) / m * m; ++j) sum += ((j < n * n ? b[j] : 0) ^ i) & 7;
        return sum + a[i];
      });
      unlike("batches", batches, [&](int row, int column) {
        int sum = 0;
        for (int z = 0; z < 3; ++z)
          for (int k = 0; k < n; ++k) sum += k == z + 3 ? 0 : a[row * n + k] * b[k * n + column];
        return sum;
      });
      if (n <= int(block.x * block.y)) unlike("early", early, [&](int row, int column) {
        int own = 0;
        for (int k = 0; k < n; ++k)
          if ((own += a[k * n + column]) > 30 && column % 3 == 0) return -own;
        return own;
      });
    }
  printf("%d wrong, %s\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""


def test_products_and_sums_of_columns(tmp_path: Path) -> None:
    """Of any size, in blocks of any shape, some threads of which have left before."""
    program = tmp_path / "program.cu"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("0 wrong, cudaSuccess\n", "")
