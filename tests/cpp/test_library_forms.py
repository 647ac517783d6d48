"""What headers of CUDA libraries have beside C++: inline PTX, parts for devices only, products of complex numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEADER = """#pragma once
#pragma GCC system_header
namespace lib {
template <typename T> __device__ __forceinline__ T special(T x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(float(x)));
  return y;
}
template <typename T> __device__ bool is_global(T* p) { return ::__isGlobal(p); }
inline __device__ unsigned lane() { unsigned r; asm volatile("mov.u32 %0, %%laneid;" : "=r"(r)); return r; }
inline __device__ unsigned below() { unsigned r; asm("mov.u32 %0, %lanemask_lt;" : "=r"(r)); return r; }
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
  turned[63 - threadIdx.x] = lib::lane() * 100 + __popc(lib::below());
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


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "lib.h").write_text(HEADER)
    (folder / "program.cu").write_text(program)
    command = [sys.executable, "-m", "tilewright", "run", str(folder / "program.cu"), "-I", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_what_any_processor_has(tmp_path: Path) -> None:
    done = run(tmp_path, PROGRAM)
    assert (done.stdout, done.stderr) == ("0 wrong, 900, -3 2 1, 4 1\n", "")


def test_what_a_kernel_leads_to_is_refused_where_it_stands(tmp_path: Path) -> None:
    for call, line, message in (
        ("lib::special(1.0f)", 6, "special() runs on the device and uses inline assembly, which is not available"),
        ("lib::is_global(p)", 9, "is_global() runs on the device and uses the space of an address, of which a CPU has one"),
    ):
        done = run(tmp_path, f'#include "lib.h"\n__global__ void k(float* p) {{ *p = {call}; }}\nint main() {{}}\n')
        assert done.returncode != 0 and f"lib.h:{line}:" in done.stderr and message in done.stderr
