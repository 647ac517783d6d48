"""What headers of CUDA libraries have beside C++: inline PTX, parts for devices only, products of complex numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEADER = """#pragma once
#pragma GCC system_header
namespace lib {
template <typename T> __device__ __forceinline__ T special(T x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(float(x)));
  return y;
}
template <typename T> __device__ bool is_global(T* p) { return ::__isGlobal(p); }
inline __device__ void part() { ::__barrier_sync(1); }
inline __device__ unsigned lane() { unsigned r; asm volatile("mov.u32 %0, %%laneid;" : "=r"(r)); return r; }
inline __device__ unsigned below() { unsigned r; asm("mov.u32 %0, %lanemask_lt;" : "=r"(r)); return r; }
inline __device__ unsigned long long now() { unsigned long long t; asm("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
inline __device__ void prefetch(void const* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p) : "memory"); }
inline __device__ bool unused(float* p) { return is_global(p) && special(*p) > 0; }
}
"""
PROGRAM = """#include "lib.h"
#include <cuda_fp8.h>
#include <cuda_tile.h>
#include <cuda/std/complex>
#include <cstdio>
namespace ct = cuda::tiles;
using complex = cuda::std::complex<float>;
__tile_global__ void architecture(int* p) {
#ifdef __CUDA_ARCH__
  ct::store(p + ct::iota<ct::tile<int, ct::shape<1>>>(), ct::full<ct::tile<int, ct::shape<1>>>(__CUDA_ARCH__));
#endif
}
__global__ void k(unsigned* out, complex* z) {
  __shared__ unsigned turned[64];
  unsigned block;
  cudaGridDependencySynchronize();
  asm volatile("mov.u32 %0, %%ctaid.x;" : [r] "=r"(block)::"memory");
  lib::prefetch(out);
  turned[63 - threadIdx.x] = lib::lane() * 100 + __popc(lib::below()) * (lib::now() > 1'000'000'000'000'000'000ull);
  asm volatile("{\\n\\tbar.sync 0;\\n\\t}" ::: "memory");
  out[block * 64 + threadIdx.x] = turned[threadIdx.x];
  asm volatile("membar.gl;");
  if (threadIdx.x == 0) z[2 + block] = z[block] * complex(0, 1);
}
int main() {
  unsigned* out; int* arch; complex* z;
  cudaMallocManaged(&out, 512); cudaMallocManaged(&arch, 4); cudaMallocManaged(&z, 4 * sizeof *z);
  z[0] = complex(2, 3), z[1] = complex(__builtin_inff(), __builtin_nanf(""));
  k<<<2, 64>>>(out, z); architecture<<<1, 1>>>(arch); cudaDeviceSynchronize();
  int wrong = 0;
  for (unsigned i = 0; i < 128; ++i) wrong += out[i] != 101 * (31 - i % 32);
  bool infinite = z[3].real() - z[3].real() != 0 || z[3].imag() - z[3].imag() != 0;
  float up = float(__nv_fp8_e8m0(3.0f)), none = float(__nv_fp8_e8m0(__builtin_nanf("")));
  printf("%d wrong, %d, %g %g %d, %g %d\\n", wrong, *arch, z[2].real(), z[2].imag(), infinite, up, none != none);
}
"""


# What libraries write as inline PTX: warps, fields of bits, memory with hints, order and types; the host has the results.
PTX = """#include <cstdio>
#include <cuda_runtime.h>
#define ALL 0xffffffffu
__device__ double behind(double x, int by) {
  double sum;
  asm volatile("{ .reg .u32 low, high;  .reg .pred inside;  .reg .f64 other;\\n\\t"
               "mov.b64 {low, high}, %1;  // halves\\n\\t"
               "shfl.sync.down.b32 low|inside, low, %2, 31, 0xffffffff;\\n\\t"
               "shfl.sync.down.b32 high|inside, high, %2, 31, 0xffffffff;\\n\\t"
               "mov.b64 other, {low, high};  mov.f64 %0, %1;  @inside add.f64 %0, %0, other; }"
               : "=d"(sum) : "d"(x), "r"(by));
  return sum;
}
__device__ int before(int x, int by, int last) {
  int r;
  asm("{ .reg .pred p; shfl.sync.up.b32 %0|p, %1, %2, %3, %4; @!p mov.s32 %0, -1; }"
      : "=r"(r) : "r"(x), "r"(by), "r"(last), "r"(ALL));
  return r;
}
__global__ void k(double* sums, unsigned* out, uint4* v, unsigned char* bytes, int* counter) {
  unsigned i = threadIdx.x, *o = out + i; int n;
  sums[i] = behind(i * 0.5, 3);
  o[0] = before(i, 2, 0), o[32] = before(i, 1, 24 << 8);
  asm("shfl.sync.bfly.b32 %0, %1, 5, 31, 0xffffffff;" : "=r"(o[64]) : "r"(i));
  asm("shfl.sync.idx.b32 %0, %1, 9, 0x181f, %2;" : "=r"(o[96]) : "r"(i), "r"(ALL));
  asm("bfe.u32 %0, %1, %2, 12;" : "=r"(o[128]) : "r"(0xabcd1234u), "r"(8));
  asm("bfe.s32 %0, %1, 28, 4;" : "=r"(o[160]) : "r"(0xabcd1234u));
  asm("bfi.b32 %0, %1, %2, 4, 8;" : "=r"(o[192]) : "r"(0xffu), "r"(0x10001u));
  asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(o[224]) : "r"(0x11112222), "r"(0x33334444));
  asm("{ .reg .pred p; setp.lt.u32 p, %1, 5; vote.sync.ballot.b32 %0, p, %2; selp.u32 %0, %0, 7, p; }"
      : "=r"(o[256]) : "r"(i), "r"(ALL));
  asm("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(o[288]) : "r"(i / 8));
  asm("redux.sync.max.s32 %0, %1, %2;" : "=r"(o[320]) : "r"(i - 40), "r"(ALL));
  n = 7; asm("mad.lo.s32 %0, %1, 3, %0;" : "+r"(n) : "r"(i)); o[352] = n;
  float f = i; asm("fma.rn.f32 %0, %0, 0f40000000, %0;" : "+f"(f)); asm("mov.b32 %0, %1;" : "=r"(o[384]) : "f"(f));
  asm("shr.u32 %0, %1, %2;" : "=r"(o[416]) : "r"(ALL), "r"(i + 8));
  uint4 x; asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                        : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(v + i));
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" :: "l"(v + 32 + i), "r"(x.w), "r"(x.z), "r"(x.y), "r"(x.x));
  asm volatile("{ .reg .u8 b; cvt.u8.u16 b, %1; st.wt.u8 [%0+1], b; }" :: "l"(bytes + i), "h"((unsigned short)i));
  asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" :: "l"(counter), "r"(i) : "memory");
  asm volatile("atom.add.release.gpu.u32 %0, [%1], 1;" : "=r"(n) : "l"(counter) : "memory");
  asm volatile("ld.acquire.gpu.u32 %0, [%1+4];" : "=r"(o[448]) : "l"(counter) : "memory");
}
int main() {
  double* sums; unsigned* out; uint4* v; unsigned char* bytes; int* counter;
  cudaMallocManaged(&sums, 256); cudaMallocManaged(&out, 1920); cudaMallocManaged(&v, 1024);
  cudaMallocManaged(&bytes, 33); cudaMallocManaged(&counter, 8);
  for (unsigned i = 0; i < 32; i++) v[i] = {i, 1, 2, 3};
  counter[0] = 0, counter[1] = 77;
  k<<<1, 32>>>(sums, out, v, bytes, counter); cudaDeviceSynchronize();
  for (unsigned i = 0; i < 32; i++) {
    float f = 3.0f * i; unsigned bits; __builtin_memcpy(&bits, &f, 4);
    unsigned wanted[] = {i < 2 ? ALL : i - 2, i % 8 ? i - 1 : ALL, i ^ 5, i / 8 * 8 + 1, 0xd12, unsigned(-6), 0x10ff1,
      0x44442222, i < 5 ? 31u : 7u, 255u << i / 8 * 8, unsigned(-9), 7 + 3 * i, bits, i + 8 < 32 ? ALL >> (i + 8) : 0, 77};
    for (int w = 0; w < 15; w++) if (out[32 * w + i] != wanted[w]) printf("%d of %u: %u\\n", w, i, out[32 * w + i]);
    if (sums[i] != i * 0.5 + (i < 29 ? i * 0.5 + 1.5 : 0)) printf("sum of %u: %g\\n", i, sums[i]);
    if (v[32 + i].x != 3 || v[32 + i].w != i || bytes[i + 1] != i) printf("memory of %u\\n", i);
  }
  printf("%d\\n", counter[0]);
}
"""

SM_NUMBERS = """#include <cstdio>
#include <cuda_runtime.h>
__global__ void k(unsigned* on, unsigned* count) {
  unsigned id; asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  asm("mov.u32 %0, %%nsmid;" : "=r"(*count));
  unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
  on[block * blockDim.x + threadIdx.x] = id;
}
int main() {
  unsigned *on, *count, wrong = 0; cudaMallocManaged(&on, 4 * 12 * 40); cudaMallocManaged(&count, 4);
  k<<<dim3(4, 3), 40>>>(on, count); cudaDeviceSynchronize();
  cudaDeviceProp device; cudaGetDeviceProperties(&device, 0);
  wrong += int(*count) != device.multiProcessorCount;
  for (int i = 0; i < 12 * 40; i++) wrong += on[i] != on[i / 40 * 40] || on[i] >= *count;
  wrong += on[0] == on[40];  // there are two at least
  printf("%u wrong\\n", wrong);
}
"""


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "lib.h").write_text(HEADER)
    (folder / "program.cu").write_text(program)
    command = [sys.executable, "-m", "tilewright", "run", str(folder / "program.cu"), "-I", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_what_any_processor_has(tmp_path: Path) -> None:
    done = run(tmp_path, PROGRAM)
    assert (done.stdout, done.stderr) == ("0 wrong, 900, -3 2 1, 4 1\n", "")


def test_inline_ptx(tmp_path: Path) -> None:
    done = run(tmp_path, PTX)
    assert (done.stdout, done.stderr) == ("528\n", "")


def test_blocks_are_on_sms_of_the_device(tmp_path: Path) -> None:
    """All threads of a block on one, and none on another one than there are."""
    done = run(tmp_path, SM_NUMBERS)
    assert (done.stdout, done.stderr) == ("0 wrong\n", "")


@pytest.mark.parametrize(
    "code",
    [
        "ex2.approx.ftz.f32 %0, %1;",
        "add.ftz.f32 %0, %1, %1;",
        "{ .reg .b128 wide; mov.b32 %0, %1; }",
        "ld.global.u32 %0, [%1];",
        "mov.u32 %0, %%envreg0;",
        "bra there;",
    ],
)
def test_inline_ptx_that_is_refused(tmp_path: Path, code: str) -> None:
    text = f'__global__ void k(int* p) {{\n  asm volatile("{code}" : "=r"(p[0]) : "r"(p[1]));\n}}\nint main() {{}}\n'
    done = run(tmp_path, text)
    assert done.returncode != 0 and "program.cu:2:3: k() runs on the device and uses inline assembly" in done.stderr


def test_what_a_kernel_leads_to_is_refused_where_it_stands(tmp_path: Path) -> None:
    for call, line, message in (
        ("lib::special(1.0f)", 6, "special() runs on the device and uses inline assembly, which is not available"),
        (
            "(lib::part(), 1)",
            10,
            "part() runs on the device and uses a barrier of a part of a block, which is not available",
        ),
        (
            "lib::is_global(p)",
            9,
            "is_global() runs on the device and uses the space of an address, of which a CPU has one",
        ),
    ):
        done = run(tmp_path, f'#include "lib.h"\n__global__ void k(float* p) {{ *p = {call}; }}\nint main() {{}}\n')
        assert done.returncode != 0 and f"lib.h:{line}:" in done.stderr and message in done.stderr


MDSPAN = """#include <array>
#include <cstdio>
#include <cuda/std/mdspan>
namespace std_ = cuda::std;
using Fixed = std_::mdspan<float, std_::extents<int, 4, 6>>;
static_assert(sizeof(Fixed) == sizeof(float*) && Fixed::rank_dynamic() == 0);
template <class A, class B> __global__ void add(A a, B b) {
  static_assert(A::rank() == 2);
  int i = threadIdx.y, j = threadIdx.x;
  if (i < a.extent(0) && j < a.extent(1)) a(i, j) += 100 * b(i, j);
}
int main() {
  float *p, *q; cudaMallocManaged(&p, 96); cudaMallocManaged(&q, 96);
  for (int i = 0; i < 24; i++) p[i] = 0, q[i] = i;
  std_::mdspan deduced(p, 4, 6);
  std_::mdspan<float const, std_::dextents<int, 2>> read = Fixed(q);
  std_::mdspan<float, std_::extents<int, std_::dynamic_extent, 6>, std_::layout_left> left(q, 4);
  std_::layout_stride::mapping<std_::dextents<int, 2>> by(std_::dextents<int, 2>(2, 3), std::array<int, 2>{12, 2});
  add<<<1, dim3(6, 4)>>>(deduced, read);
  add<<<1, dim3(6, 4)>>>(deduced, left);
  add<<<1, dim3(6, 4)>>>(std_::mdspan(p, by), std_::mdspan(q, std_::extents<int, 2, 12>{}));
  printf("%s %zu %d %d %d %d:", cudaGetErrorName(cudaDeviceSynchronize()), deduced.size(), int(left.stride(1)),
         int(by.required_span_size()), deduced.extents() == Fixed::extents_type(), int(deduced(1, 2)));
  for (int i = 0; i < 24; i++) printf(" %g", p[i] / 100);
}
"""


def test_views_of_several_dimensions(tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    program.write_text(MDSPAN)
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    sums = [i * 6 + j + i + 4 * j for i in range(4) for j in range(6)]
    for i, j in ((i, j) for i in range(2) for j in range(3)):
        sums[12 * i + 2 * j] += 12 * i + j
    wanted = f"cudaSuccess 24 4 17 1 {100 * sums[8]}: " + " ".join(map(str, sums))
    assert (done.stdout, done.stderr) == (wanted, "")


FORMS = r"""#include <algorithm>
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime.h>
#include <nv/target>
namespace cg = cooperative_groups;
__constant__ struct { int a; float b[2]; } *unused, settings;
__device__ struct Count { unsigned n; } count = {3}, other{4};
__host__ __device__ int target() {
  NV_DISPATCH_TARGET(NV_IS_HOST, (return 1;), NV_PROVIDES_SM_120, (return 120;), NV_PROVIDES_SM_90, (int a = 45, b = a; return a + b;))
  return 0;
}
__host__ __device__ int branch() {
  int x = 0;
  NV_IF_TARGET(NV_IS_DEVICE, (x = 1; x += 1;))
  NV_IF_ELSE_TARGET(NV_IS_EXACTLY_SM_80, (x += 10;), (x += 20;))
  return x;
}
__global__ void forms(int* out, float big) {
  int a[] = {3, 9, 4}, t = threadIdx.x;
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto part = cg::tiled_partition<8>(warp);
  if (t != 45) return;
  int found[] = {std::ranges::max(a), int(part.meta_group_rank()), int(part.meta_group_size()), int(warp.meta_group_rank()),
                 int(settings.a + settings.b[1]), int(count.n++ + other.n), target(), branch(), __float2int_rn(big),
                 __double2int_rd(-double(big)), int(__float2uint_rz(-big)), __float2int_rz(big - big)};
  for (int i = 0; i < 12; ++i) out[i] = found[i];
}
int main() {
  int* out; cudaMallocManaged(&out, 64);
  struct { int a; float b[2]; } host = {5, {0, 2}};
  cudaMemcpyToSymbol(settings, &host, sizeof host);
  forms<<<1, 64>>>(out, 1e30f);
  cudaDeviceSynchronize();
  for (int i = 0; i < 12; ++i) printf("%d ", out[i]);
  printf("%d %d\n", target(), branch());
}
"""


def test_other_forms(tmp_path: Path) -> None:
    """Objects of the library that are called, partitions of partitions, variables of classes without a name, code by
    target, conversions of what is no integer."""
    done = run(tmp_path, FORMS)
    assert (done.stdout, done.stderr) == (f"9 1 4 1 7 7 90 22 {2**31 - 1} {-(2**31)} 0 0 1 20\n", "")


def test_coordinates_are_named_as_in_cuda(tmp_path: Path) -> None:
    done = run(tmp_path, "__global__ void k(int* p) {\n  *p = blockIdx.w + gridDim.v;\n}\nint main() {}\n")
    assert "program.cu:2:17: no member named 'w' in 'uint3'" in done.stderr
