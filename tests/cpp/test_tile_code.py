"""What code of CUDA has without an include, in tile code; clusters of one block."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ORDER = r"""#include <cuda_tile.h>
#include <cstdio>
namespace ct = cuda::tiles;
__tile__ int clamped(int a, int n) { return max(0, min(a, n)); }
template <class T> __tile__ void put(T* out, int i, T value) {
  ct::store(out + i + ct::iota<ct::tile<int, ct::shape<1>>>(), ct::full<ct::tile<T, ct::shape<1>>>(value));
}
__tile_global__ void order(double* out, int a, float b, unsigned c, long long d, double nan) {
  put(out, 0, double(clamped(a, 4)));
  put(out, 1, double(max(-1, -2)));
  put(out, 2, double(min(c, 3000000001u)));
  put(out, 3, double(max(b, 1.0f)));
  put(out, 4, double(max(d, -5ll)));
  put(out, 5, min(nan, 2.0));
  put(out, 6, max(3.0, nan));
}
HERE
int main() {
  double* out;
  cudaMallocManaged(&out, 64);
  order<<<1, 1>>>(out, 5, 0.5f, 4000000000u, -9ll, __builtin_nan(""));
  printf("%d:", cudaDeviceSynchronize());
  for (int i = 0; i < 7; ++i) printf(" %.0f", out[i]);
}
"""
CLUSTERS = r"""#include <cuda_runtime.h>
#include <cstdio>
__global__ void __cluster_dims__(1, 1, 1) one(int* p) { p[blockIdx.x] = blockIdx.x; }
__global__ void __cluster_dims__( 1 ) plain(int* p, int v) { p[blockIdx.x] = v; }
int main() {
  int* p;
  cudaMallocManaged(&p, 16);
  one<<<4, 1>>>(p), cudaDeviceSynchronize();
  printf("%d ", p[3]);
  cudaLaunchAttribute asked[2];
  asked[0].id = cudaLaunchAttributeClusterDimension;
  asked[0].val.clusterDim = {1, 1, 1};
  asked[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  asked[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {4, 1, 0, nullptr, asked, 2};
  printf("%d ", cudaLaunchKernelEx(&config, plain, p, 9)), cudaDeviceSynchronize();
  printf("%d ", p[3]);
  asked[0].val.clusterDim = {2, 1, 1};
  printf("%d ", cudaLaunchKernelEx(&config, plain, p, 8) == cudaErrorNotSupported), cudaDeviceSynchronize();
  printf("%d %s\n", p[3], cudaGetErrorName(cudaGetLastError()));
}
"""


def _run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.cu").write_text(text)
    words = (sys.executable, "-m", "tilewright", "run", "program.cu")
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("beside", ["", "__global__ void simt(int* p) { *p = min(*p, max(1, 2)); }"])
def test_the_lesser_and_the_greater_of_numbers(tmp_path: Path, beside: str) -> None:
    done = _run(tmp_path, ORDER.replace("HERE", beside))
    assert done.stdout == "0: 4 -1 3000000001 1 -5 2 3", done.stderr


def test_clusters_of_one_block(tmp_path: Path) -> None:
    """Those of more, which a launch asks for, are an error; what a kernel declares is refused where it is written."""
    assert _run(tmp_path, CLUSTERS).stdout == "3 0 9 1 9 cudaErrorNotSupported\n"
    done = _run(tmp_path, CLUSTERS.replace("(1, 1, 1) one", "(1, 2, 1) one"))
    assert "program.cu:3:17: clusters of blocks are not available on a CPU" in done.stderr
