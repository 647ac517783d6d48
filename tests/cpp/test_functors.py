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
  parallel_for<<<3>>>(device); cudaDeviceSynchronize();
  for (int i = 0; i < n; ++i) wrong += y[i] != 3 * i + 1;
  printf("%u wrong, %s\\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""

# Classes as CUDA passes them: in registers, in memory, as a copy that a constructor makes, and not at all.
BY_VALUE = """#include <cuda_tile.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cstdio>
namespace ct = cuda::tiles;
template <typename T> struct View { T* data; int n; __tile__ T* at(int i) const { return data + i; } };
struct Nothing {};
struct Bits { unsigned a : 3, b : 7; unsigned long long c : 40; };
union Either { float f; unsigned char raw[8]; };
struct Base { short rows; };
struct Copied { int n; Copied(int n) : n(n) {} Copied(Copied const& o) : n(o.n) {} ~Copied() {} };
struct Op : Base {
  enum Kind : char { scale, shift } kind; Either by; float table[2][3]; __half h; bool on; View<float> x;
  __tile__ float at(int i) const { return table[1][i] + (kind == shift ? by.f : 0.0f) + float(h) + float(rows); }
};
template <typename F, typename... V>
__tile_global__ void each(Op op, F f, Nothing, float2 pair, Bits bits, Copied copied, View<float>, View<__nv_fp8_e4m3> quarter, View<float> out, V... v) {
  int block = ct::bid().x;
  auto i = block * 16 + ct::iota<ct::tile<int, ct::shape<16>>>();
  auto sum = ct::full<ct::tile<float, ct::shape<16>>>(op.at(block) + pair.y + float(copied.n));
  sum = sum + float(int(bits.a) + int(bits.b) + int(bits.c)) + ct::element_cast<float>(ct::load(quarter.data));
  ((sum = sum + f(ct::load(v.at(0) + i))), ...);
  ct::store_masked(out.at(0) + i, sum, i < out.n && op.on);
}
int main() {
  float *x, *y;
  __nv_fp8_e4m3* q;
  cudaMallocManaged(&x, 128); cudaMallocManaged(&y, 128); cudaMallocManaged(&q, 1); *q = __nv_fp8_e4m3(0.25f);
  View<__nv_fp8_e4m3> quarter{q, 1};
  for (int i = 0; i < 32; ++i) x[i] = i;
  int by = 3; double more = 0.5;
  auto f = [by, more] __tile__ (auto t) { return t * float(by) + float(more); };
  Op op{}; op.rows = 2; op.kind = Op::shift; op.by.f = 4; op.table[1][1] = 1; op.h = __float2half(0.5f); op.on = true;
  Nothing none; float2 pair{1, 2}; Bits bits{1, 2, 4}; Copied copied(8); View<float> in{x, 32}, out{y, 31};
  int wrong = 0;
  auto check = [&] {
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; ++i) wrong += y[i] != (i == 31 ? 0 : 2 + i / 16 + 4 + 2.75f + 7 + 8 + 2 * (3.0f * i + 0.5f));
    for (int i = 0; i < 32; ++i) y[i] = 0;
  };
  each<<<2>>>(op, f, none, pair, bits, copied, in, quarter, out, in, in); check();
  auto* kernel = (void*)each<decltype(f), View<float>, View<float>>;
  void* arguments[] = {&op, &f, &none, &pair, &bits, &copied, &in, &quarter, &out, &in, &in};
  cudaLaunchKernel(kernel, dim3(2), dim3(1), arguments, 0, 0); check();
  cudaKernelNodeParams node{}; node.func = kernel; node.gridDim = node.blockDim = dim3(2); node.blockDim.x = 1;
  node.gridDim.y = node.gridDim.z = node.blockDim.y = node.blockDim.z = 1; node.kernelParams = arguments;
  cudaGraph_t graph; cudaGraphExec_t ready; cudaGraphNode_t made;
  cudaGraphCreate(&graph, 0); cudaGraphAddKernelNode(&made, graph, nullptr, 0, &node);
  op.on = false; bits = {}; cudaGraphInstantiate(&ready, graph, 0); cudaGraphLaunch(ready, 0); check();
  printf("%d wrong, %s\\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""


@pytest.mark.parametrize(("command", "backend"), [("run", "cpu"), ("run", "reference"), ("check", "")])
def test_classes_by_value(tmp_path: Path, command: str, backend: str) -> None:
    program = tmp_path / "values.cu"
    program.write_text(BY_VALUE)
    words = [sys.executable, "-m", "tilewright", command, str(program)]
    environment = os.environ | ({"TILEWRIGHT_BACKEND": backend} if backend else {})
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert (done.stdout, done.returncode) == ("0 wrong, cudaSuccess\n", 0), done.stderr
    assert done.stderr == ("" if command == "run" else "3 launches checked: no violation\n")


def test_classes_by_value_in_programs_without_python(tmp_path: Path) -> None:
    (tmp_path / "values.cu").write_text(BY_VALUE)
    build = [sys.executable, "-m", "tilewright", "c++", "values.cu", "-o", "values"]
    subprocess.run(build, cwd=tmp_path, check=True, timeout=300, capture_output=True)
    done = subprocess.run([tmp_path / "values"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("0 wrong, cudaSuccess\n", "", 0)


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
