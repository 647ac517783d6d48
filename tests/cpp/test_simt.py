"""SIMT kernels of C++ programs on the CPU: many in one program, as each compilation takes a while."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """#include <cstdio>
#include "cuda_tile.h"
#include "cuda_fp16.h"
#include "cuda_bf16.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace ct = cuda::tiles;
namespace cg = cooperative_groups;
"""
KERNELS = """
__global__ void fill(float* p, float v, size_t n) { auto i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = v; }
__device__ float twice(float x) { return x * 2 + threadIdx.x; }
__global__ void tr(float* out, float const* in, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
__global__ void sum(float const* in, float* out, int n) {
  extern __shared__ float part[];
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += in[i];
  for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) { float t = 0; for (int i = 0; i < blockDim.x / 32; ++i) t += part[i]; atomicAdd(out, t); }
}
__global__ void half_init(__half* a, float* b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { a[i] = __half{0.5 * i}; b[i] = twice(powf(2.0f, float(i % 4))); } }
__global__ void bad(int* p) { if (threadIdx.x < 3) __syncthreads(); p[threadIdx.x] = 1; }
__global__ void checked(int* p) { assert(p[0] == 7); }
template <typename T> __global__ void votes(T* out) {
  unsigned lane = threadIdx.x % 32;
  out[threadIdx.x] = __ballot_sync(0xffffffffu, lane % 3 == 0) + __any_sync(0xffffffffu, lane == 40)
      + __all_sync(0xffffffffu, lane < 32) + __shfl_xor_sync(0xffffffffu, int(lane), 1)
      + __shfl_up_sync(0xffffffffu, int(lane), 2, 8) + __shfl_sync(0xffffffffu, int(lane), 5, 16);
  if (lane < 4) out[threadIdx.x] += __shfl_down_sync(0xfu, int(lane), 1, 4);
}
__global__ void counted(int* out) {
  int found = __syncthreads_count(threadIdx.x % 5 == 0), all = __syncthreads_and(1), any = __syncthreads_or(threadIdx.x == 77);
  if (threadIdx.x == 0) { atomicMax(out, found); atomicOr(out + 1, all * 2 + any); atomicInc((unsigned*)out + 2, 1u); }
  atomicCAS(out + 3 + blockIdx.x, 0, int(threadIdx.x) + 1);
}
struct Numbers { double a; int b[5]; };
__constant__ int table[4] = {1, 10, 100, 1000};
__device__ __host__ int recursive(int n) { return n <= 1 ? 1 : n * recursive(n - 1); }
__global__ void several(Numbers n, char c, int* out, dim3 wanted) {
  int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  dim3 shape = blockDim;
  out[i] = int(n.a) + n.b[i % 5] + c + table[i % 4] + recursive(i % 5) + (shape.z == wanted.z && gridDim.y == 1);
}
__global__ void groups(__half* h, __nv_bfloat162* b, int* out) {
  auto block = cg::this_thread_block(); auto half = cg::tiled_partition<16>(block);
  int t = block.thread_rank();
  h[t] = __hfma(h[t], __float2half(2.0f), hexp(__half(0.0f)));
  b[t] = __hadd2(b[t], __floats2bfloat162_rn(1.0f, 2.0f));
  out[t] = cg::reduce(half, t, cg::plus<int>()) + 1000 * half.meta_group_rank() + __popc(half.ballot(t % 2))
      + __mulhi(1 << 30, 8) + __float2int_rn(2.5f) + __reduce_max_sync(~0u, t) + __byte_perm(0x0201u, 0, 0x4441);
  block.sync();
}
__tile_global__ void tile(int* p) { ct::store(p, ct::load(p) + 1); }
"""
MAIN = """
  const int n = 512;
  float *a, *b, *s; __half* h;
  cudaMallocManaged(&a, n * n * 4); cudaMallocManaged(&b, n * n * 4); cudaMallocManaged(&s, 4); cudaMallocManaged(&h, 400);
  fill<<<(n * n + 255) / 256, 256>>>(a, 1.0f, n * n);
  for (int i = 0; i < n * n; ++i) a[i] += i % 7;
  tr<<<dim3(n / 32, n / 32), dim3(32, 8)>>>(b, a, n);
  int wrong = 0; double want = 0;
  for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) { wrong += b[i * n + j] != a[j * n + i]; want += a[i * n + j]; }
  *s = 0;
  sum<<<4, 256, 256 * sizeof(float)>>>(a, s, n * n);
  printf("%d wrong, %g %g, %s\\n", wrong, *s, want, cudaGetErrorName(cudaGetLastError()));
  half_init<<<1, 128>>>(h, b, 100);
  printf("%g %g %g\\n", float(h[9]), b[3], b[6]);
  int* q; cudaMallocManaged(&q, 4096);
  bad<<<1, 64>>>(q);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
  cudaDeviceReset(); cudaMallocManaged(&q, 4096); *q = 3;
  checked<<<1, 32>>>(q);
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
"""
MORE = """
  int *p, *host = new int[64];
  cudaMallocManaged(&p, 4096);
  votes<<<1, 64>>>(p);
  tile<<<1>>>(p);
  unsigned ballot = 0, wrong = 0; for (int i = 0; i < 32; i += 3) ballot |= 1u << i;
  for (int t = 0; t < 64; ++t) {
    int lane = t % 32, up = lane % 8 < 2 ? lane : lane - 2;
    wrong += p[t] != int(ballot + 1 + (lane ^ 1) + up + (lane & 16) + 5 + (lane < 3 ? lane + 1 : lane == 3 ? 3 : 0) + (t == 0));
  }
  cudaMemset(p, 0, 4096);
  counted<<<3, 100>>>(p);
  printf("%u wrong, %d %d %d, %d %d %d\\n", wrong, p[0], p[1], p[2], p[3] > 0, p[4] > 0, p[5] > 0);
  several<<<1, dim3(2, 3, 4)>>>(Numbers{7.5, {1, 2, 3, 4, 5}}, 'a', p, dim3(1, 1, 4));
  wrong = 0;
  for (int i = 0; i < 24; ++i) wrong += p[i] != 7 + 1 + i % 5 + 'a' + table[i % 4] + recursive(i % 5) + 1;
  __half* h; __nv_bfloat162* b; cudaMallocManaged(&h, 64); cudaMallocManaged(&b, 128);
  for (int i = 0; i < 32; ++i) { h[i] = __half(i); b[i] = __floats2bfloat162_rn(i, i); }
  groups<<<1, 32>>>(h, b, p);
  printf("%g %g %g %d %d\\n", float(h[5]), float(b[3].x), float(b[3].y), p[0], p[31]);
  fill<<<1, 1025>>>(nullptr, 1, 0);
  printf("%u wrong, %s\\n", wrong, cudaGetErrorName(cudaGetLastError()));
"""


def run(program: Path, text: str) -> subprocess.CompletedProcess[str]:
    program.write_text(text)
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)


def test_simt_kernels(tmp_path: Path) -> None:
    """Threads that need not wait, barriers, shared memory of both kinds, warps, atomics, failures."""
    done = run(tmp_path / "program.cu", f"{HEAD}{KERNELS}int main() {{ {{ {MORE} }} {MAIN} }}\n")
    assert done.stdout.splitlines() == [
        "0 wrong, 20 3 1, 1 1 1",
        "11 4 5 165 1421",
        "0 wrong, cudaErrorInvalidConfiguration",
        "0 wrong, 1.04857e+06 1.04857e+06, cudaSuccess",
        "4.5 19 14",
        "cudaErrorLaunchFailure",
        "cudaErrorAssert",
    ]
    lines = (HEAD + KERNELS).split("\n")
    barrier, failed = (
        next(i for i, line in enumerate(lines, 1) if f"void {name}(" in line) for name in ("bad", "checked")
    )
    assert done.stderr.splitlines() == [
        f"tilewright: {tmp_path}/program.cu:{barrier}: a barrier that not all threads of the block reach: others have ended",
        f"tilewright: {tmp_path}/program.cu:{failed}: assertion failed: p[0] == 7",
    ]


FUNCTIONS = """#include <cstdio>
#include <cuda_runtime.h>
#include <math_constants.h>
__noinline__ __device__ double relative(double x, double y) { return fabs(x - y) / fabs(y); }
__global__ void inverses(double* worst) {
  double x = (threadIdx.x + 0.5) / 64 - 1, far = pow(10.0, -double(threadIdx.x) / 8 - 1), s, c, e = 0;
  e = fmax(e, relative(erf(erfinv(x)), x));
  e = fmax(e, relative(erfc(erfcinv(far)), far));
  e = fmax(e, relative(normcdf(normcdfinv(far)), far));
  sincospi(x, &s, &c);
  e = fmax(e, fabs(s * s + c * c - 1) + fabs(s - sin(CUDART_PI * x)));
  worst[threadIdx.x] = e;
}
__global__ void integers(int* out) {
  atomicAdd_system(out, __dp4a(0x01ff02fe, 0x03030303, 1));
  atomicMax_block(out + 1, int(__dp4a(0x01ff02feu, 0x03030303u, 1u)));
  atomicOr(out + 2, int(__activemask() >> (threadIdx.x & 31) & 1) + 2 * (__reduce_add_sync(~0u, 2) != 64));
}
"""


def test_functions_of_simt_code(tmp_path: Path) -> None:
    main = """int main() {
  double* worst; int* out; cudaMallocManaged(&worst, 1024); cudaMallocManaged(&out, 12); cudaMemset(out, 0, 12);
  inverses<<<1, 128>>>(worst); integers<<<1, 32>>>(out);
  double most = 0; for (int i = 0; i < 128; ++i) most = worst[i] < most ? most : worst[i];
  printf("%d, %d %d %d\\n", most < 1e-13, out[0], out[1], out[2]);
}"""
    done = run(tmp_path / "program.cu", FUNCTIONS + main)
    assert (done.stdout, done.stderr) == (f"1, 32 {1 + 3 * (1 + 255 + 2 + 254)} 1\n", "")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('asm("nop");', "inline assembly is not available in SIMT code"),
        ("k<<<1, 1>>>(p);", "a kernel that launches a kernel is not available on a CPU"),
        ("*p = tex2D<float>(0ull, 1.0f, 2.0f);", "textures and surfaces are not available on a CPU; read the array"),
    ],
)
def test_what_a_cpu_cannot_do_is_refused(tmp_path: Path, statement: str, message: str) -> None:
    done = run(tmp_path / "program.cu", f"__global__ void k(int* p) {{\n  {statement}\n}}\nint main() {{}}\n")
    column = 3 + max(statement.find("<<<"), statement.find("tex2D"), 0)
    assert done.returncode != 0 and f"program.cu:2:{column}: " in done.stderr and message in done.stderr
