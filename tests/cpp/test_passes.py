"""Code for devices sees __CUDA_ARCH__, and code for the host does not: a file that asks has both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cpp.gpu import nvcc, nvrtc
from tilewright.cpp.host.units import device_code
from tilewright.cpp.module import request_of

# As libraries tune their kernels: the host chooses by the architectures of the program and what it is told of a
# kernel, which chooses by the one that it is compiled for.
TUNED = r"""#include <cuda_runtime.h>
#include <cstdio>
struct Policy { int threads, items; };
__host__ __device__ constexpr Policy chosen(int arch) { return arch >= 900 ? Policy{64, 3} : Policy{32, 1}; }
template <class T, class U> struct Bounds {
#ifdef __CUDA_ARCH__
  static constexpr int arch = __CUDA_ARCH__;
#else
  static constexpr int arch = 0;
#endif
  static constexpr int threads() { return arch == 0 ? throw 1 : chosen(arch).threads; }
};
template <class T> __global__ void empty() {}
struct Plus {
  __device__ int operator()(int a, int b) const { return a + b; }
};
struct Shape {
  int x;
  __host__ __device__ Shape(int v) : x(v) {}
  __host__ __device__ virtual int scaled() const {
#ifdef __CUDA_ARCH__
    return x;
#else
    return -1;
#endif
  }
  __host__ __device__ virtual ~Shape() {}
};
__host__ __device__ int side() {
#ifdef __CUDA_ARCH__
  return 1;
#else
  return 2;
#endif
}
static __device__ int blocks;
template <class T> __device__ int counted = 5;
template <class T, class Op>
__global__ void __launch_bounds__(Bounds<T, Op>::threads(), 1) reduce(T const* in, T* out, int n, Op op) {
  static int calls = 0;
  constexpr Policy own = chosen(Bounds<T, Op>::arch);
  __shared__ T parts[own.threads];
  extern __shared__ T more[];
  T sum = 0;
  Shape shape(1);
  Shape const* virtual_one = &shape;
  for (int k = 0; k < own.items; ++k) {
    int i = (blockIdx.x * own.items + k) * own.threads + threadIdx.x;
    if (i < n) sum = op(sum, in[i] * virtual_one->scaled() * side());
  }
  parts[threadIdx.x] = more[threadIdx.x] = sum;
  __syncthreads();
  for (int step = own.threads / 2; step > 0; step /= 2) {
    if (int(threadIdx.x) < step) parts[threadIdx.x] = op(parts[threadIdx.x], parts[threadIdx.x + step]);
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, parts[0]), atomicAdd(&blocks, 1), atomicAdd(&calls, 1), counted<T> += 1;
}
__global__ void newer(int* p) {
#if __CUDA_ARCH__ >= 700
  *p = 7;
#else
  *p = 6;
#endif
}
template <int... Known> int known(int asked) { return (0 + ... + (Known == asked ? Known : 0)); }
int main() {
  cudaFuncAttributes asked;
  cudaFuncGetAttributes(&asked, empty<void>);
  Policy policy = chosen(known<__CUDA_ARCH_LIST__>(asked.ptxVersion * 10));
  int n = 1000, *in, *out, found;
  cudaMallocManaged(&in, n * sizeof(int)), cudaMallocManaged(&out, 8);
  for (int i = 0; i < n; ++i) in[i] = i;
  int tile = policy.threads * policy.items, grid = (n + tile - 1) / tile;
  reduce<<<grid, policy.threads, policy.threads * sizeof(int)>>>(in, out, n, Plus());
  newer<<<1, 1>>>(out + 1);
  cudaError_t error = cudaDeviceSynchronize();
  reduce<<<grid, 128>>>(in, out, n, Plus());
  if (cudaGetLastError() != cudaErrorInvalidValue) return 1;
  cudaMemcpyFromSymbol(&found, blocks, 4);
  printf("%d %d of %d, %d of %d blocks, %d, host %d %d\n", error, *out, n * (n - 1) / 2, found, grid, out[1], side(),
         Shape(3).scaled());
}
"""
ONE_SIDED = """#include <cuda_runtime.h>
template <class T> __global__ void hosts(T* p) { *p = 1; }
int main() {
#ifndef __CUDA_ARCH__
  hosts<<<1, 1>>>((int*)nullptr);
#endif
}
"""


BY_ARCHITECTURE = """#include <cuda_runtime.h>
__global__ void k(int* p) {
#if __CUDA_ARCH__ == 800
  *p = 12345;
#else
  *p = 6789;
#endif
}
int main() {}
"""


def _tilewright(folder: Path, command: str, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.cu").write_text(text)
    words = (sys.executable, "-m", "tilewright", command, "program.cu", *words)
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["run", "check"])
def test_host_and_device_see_the_same_tuning(tmp_path: Path, command: str) -> None:
    done = _tilewright(tmp_path, command, TUNED)
    assert done.stdout.startswith("0 499500 of 499500, 6 of 6 blocks, 7, host 2 -1\n"), done.stderr
    assert done.returncode == 0


def test_a_program_without_python(tmp_path: Path) -> None:
    assert _tilewright(tmp_path, "c++", TUNED, "-o", "program").stderr == ""
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert done.stdout == "0 499500 of 499500, 6 of 6 blocks, 7, host 2 -1\n"


def test_a_kernel_for_one_side(tmp_path: Path) -> None:
    done = _tilewright(tmp_path, "run", ONE_SIDED)
    assert "program.cu:2:1: hosts() has no code for devices, where __CUDA_ARCH__ is defined; define or" in done.stderr
    assert done.returncode != 0


def test_clang_compiles_for_the_architecture_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "available", lambda: False)
    monkeypatch.setattr(nvrtc, "available", lambda: False)
    for target, ours in (("sm_80", b"12345"), ("sm_90", b"6789")):
        ptx, _ = device_code(request_of(BY_ARCHITECTURE), target)
        assert [number for number in (b"12345", b"6789") if number in ptx] == [ours]
