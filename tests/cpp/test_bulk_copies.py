"""Copies that barriers in shared memory wait for, by inline PTX, and what that needs: addresses of 32 bits, elected lanes,
the end of a thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = r"""#include <cuda_runtime.h>
#include <cstdio>
// As headers of CUDA have it: one elected thread starts copies to shared memory, and all wait for their bytes.
__device__ unsigned address(void const* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ bool elect() {
  unsigned found;
  asm volatile("{\n\t.reg .pred P;\n\telect.sync _|P, %1;\n\tselp.b32 %0, 1, 0, P;\n\t}" : "=r"(found) : "r"(~0u));
  return found;
}
__device__ void wait(unsigned long long* bar, unsigned parity) {
  unsigned done;
  do {
    asm volatile("{\n\t.reg .pred P;\n\tmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 P, [%1], %2;\n\t"
                 "selp.b32 %0, 1, 0, P;\n\t}" : "=r"(done) : "r"(address(bar)), "r"(parity) : "memory");
  } while (!done);
}
__global__ void twice(int const* in, int* out, int tiles) {
  __shared__ alignas(16) int tile[64];
  __shared__ unsigned long long bar;
  if (threadIdx.x < 32 && elect()) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(&bar)), "r"(1) : "memory");
  __syncthreads();
  for (int t = 0; t < tiles; ++t) {
    if (threadIdx.x < 32 && elect()) {
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(address(tile)), "l"(in + t * 64), "r"(256), "r"(address(&bar)) : "memory");
      asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1; // 8." ::"r"(address(&bar)), "r"(256) : "memory");
    }
    wait(&bar, t & 1);
    unsigned value;
    asm volatile("ld.shared.u32 %0, [%1 + 0];" : "=r"(value) : "r"(address(tile) + 4 * threadIdx.x));
    out[t * 64 + threadIdx.x] = 2 * value;
    __syncthreads();
    if (out[t * 64 + threadIdx.x] == 2 * 131) asm volatile("exit;");
  }
}
int main() {
  int *in, *out; cudaMallocManaged(&in, 1024); cudaMallocManaged(&out, 1024);
  for (int i = 0; i < 256; ++i) in[i] = i;
  twice<<<1, 64>>>(in, out, 2);
  twice<<<1, 64>>>(in + 128, out + 128, 1);
  int bad = 0;
  printf("%d ", cudaDeviceSynchronize());
  for (int i = 0; i < 256; ++i) bad += out[i] != (i < 192 ? 2 * i : 0);
  printf("%d\n", bad);
}
"""
MASKS = r"""#include <cuda_runtime.h>
#include <cstdio>
__global__ void masks(unsigned* p) {
  unsigned first = threadIdx.x, length = 40 - threadIdx.x;
  asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(p[2 * threadIdx.x]) : "r"(first), "r"(length));
  asm("bmsk.wrap.b32 %0, %1, %2;" : "=r"(p[2 * threadIdx.x + 1]) : "r"(first), "r"(length));
}
int main() {
  unsigned* p;
  cudaMallocManaged(&p, 64 * 4 + 64 * 8);
  masks<<<1, 41>>>(p);
  cudaDeviceSynchronize();
  printf("%x %x, %x %x, %x %x\n", p[0], p[1], p[70], p[71], p[80], p[81]);
}
"""
MARKED = """#include <cuda_runtime.h>
#ifdef __CUDA_ARCH__
__device__ unsigned special() { unsigned r; asm("mov.u32 %0, %pm0;" : "=r"(r)); return r; }
#else
unsigned special() { return 0; }
#endif
__global__ void k(unsigned* p) { *p = special(); }
int main() {}
"""


def _tilewright(folder: Path, command: str, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.cu").write_text(text)
    words = (sys.executable, "-m", "tilewright", command, "program.cu")
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_kernel_waits_for_the_bytes_of_copies(tmp_path: Path, command: str) -> None:
    done = _tilewright(tmp_path, command, PROGRAM)
    assert (done.stdout.startswith("0 0\n"), done.returncode) == (True, 0), done.stdout + done.stderr


def test_masks_of_bits(tmp_path: Path) -> None:
    """bmsk.clamp and bmsk.wrap from bit 0, 35 and 40 on, 40, 5 and 0 bits long."""
    assert _tilewright(tmp_path, "run", MASKS).stdout == "ffffffff ff, 0 f8, 0 0\n"


def test_what_the_pass_for_devices_cannot_do_is_refused(tmp_path: Path) -> None:
    done = _tilewright(tmp_path, "run", MARKED)
    assert "program.cu:3:" in done.stderr and "special() runs on the device and uses inline assembly" in done.stderr
    assert done.returncode != 0
