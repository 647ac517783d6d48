"""Functors that the host builds and tile kernels call through a pointer, as portability layers launch them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """#include <cuda_tile.h>
#include <cstdio>
#include <type_traits>
namespace ct = cuda::tiles;
#if CUDART_VERSION >= 13000 && defined(__CUDACC__)
constexpr bool has_tiles = true;
#else
constexpr bool has_tiles = false;
#endif
constexpr int half(int x) { return x / 2; }  // of the host, called by tile code
template <typename T> struct View { T* data; short tag; int extent; __tile__ T* at(int i) const { return data + i; } };
struct Axpy {
  View<float const> x;
  char between;
  View<float> y;
  float a;
  __tile__ void operator()(int block) const {
    auto i = block * half(32) + ct::iota<ct::tile<int, ct::shape<half(32)>>>();
    auto inside = i < x.extent;
    auto old = ct::load_masked(y.at(0) + i, inside, 0.0f);
    ct::store_masked(y.at(0) + i, a * ct::load_masked(x.at(0) + i, inside, 0.0f) + old, inside);
  }
};
template <typename F> __tile_global__ void parallel_for(F const* f) {
  if constexpr (has_tiles && std::is_class_v<F>) (*f)(int(ct::bid().x));
}
int main() {
  int n = 40;
  uint32_t wrong = 0;  // nvcc knows it without an include
  float *x, *y;
  cudaMallocManaged(&x, n * 4); cudaMallocManaged(&y, n * 4);
  for (int i = 0; i < n; ++i) { x[i] = i; y[i] = 1; }
  Axpy host{{x, 1, n}, 'b', {y, 2, n}, 3.0f}, *device;
  cudaMalloc(&device, sizeof host);
  cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice);
  parallel_for<<<3>>>(device);
  for (int i = 0; i < n; ++i) wrong += y[i] != 3 * i + 1;
  printf("%u wrong, %s\\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""


@pytest.mark.parametrize("command", ["run", "check"])
def test_functors_in_device_memory(tmp_path: Path, command: str) -> None:
    program = tmp_path / "functor.cu"
    program.write_text(PROGRAM)
    words = [sys.executable, "-m", "tilewright", command, str(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=dict(os.environ))
    assert (done.stdout, done.returncode) == ("0 wrong, cudaSuccess\n", 0)
    assert done.stderr == ("" if command == "run" else "1 launch checked: no violation\n")


def test_lambdas_of_kernels_beside_functors_of_the_host(tmp_path: Path) -> None:
    program = tmp_path / "lambda.cu"
    program.write_text("""#include <cuda_runtime.h>
#include <cstdio>
struct Deleter { void operator()(void* p) const { cudaFree(p); } };
template <typename F> __global__ void each(int* p, F f) { p[threadIdx.x] = f(threadIdx.x); }
int main() {
  int *p, by = 3;
  cudaMallocManaged(&p, 32);
  each<<<1, 8>>>(p, [=] __device__(int i) { return i * by; });
  cudaDeviceSynchronize();
  printf("%d", p[7]);
  Deleter()(p);
}
""")
    words = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("21", "", 0)
