"""SIMT kernels that are split at their barriers: each gives what its threads give as fibers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.simt_programs import SPLIT

from tilewright.cpp.host import fission, lanes, permutations, strides


def printed(program: Path, text: str) -> tuple[str, str]:
    """What a program prints and reports."""
    program.write_text(text)
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)
    return done.stdout, done.stderr


def test_kernels_give_the_same_in_every_way_of_running_them(tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    out, reports = printed(program, SPLIT)
    names = ("reduce", "nested", "counters", "votes", "lanes", "lanes", "tree", "turns")
    wanted = [f"{name} same 1 cudaSuccess" for name in names for _ in range(2)]
    assert out.splitlines() == [*wanted, "cudaErrorLaunchFailure"]
    line = next(i for i, text in enumerate(SPLIT.split("\n"), 1) if "i < t" in text)
    reason = "a barrier that not all threads of the block reach: others have left its loop"
    assert reports.splitlines() == [f"tilewright: {program}:{line}: {reason}"]


EXCHANGE = """entry:
  br label %tw.wait0
tw.wait0:
  %given = call ptr @__tw_simt_exchange(i32 -1, i64 5, i32 4, ptr @file, i32 3)
  br label %tw.go0
tw.go0:
  {index}
  %at = getelementptr i32, ptr %given, i32 %from
  %word = load i32, ptr %at, align 4
  store i32 %word, ptr %out, align 4
  ret void
"""


@pytest.mark.parametrize(
    ("index", "lanes"),
    [
        ("%from = add i32 %tw.c12, 4", [(lane + 4) % 32 for lane in range(32)]),
        ("%from = xor i32 %tw.c12, 5", [lane ^ 5 for lane in range(32)]),
        ("%from = and i32 %tw.c0, 24", [lane & 24 for lane in range(32)]),
        ("%from = and i32 %by, 31", None),
        ("%from = and i32 %tw.c0, 63", None),
    ],
)
def test_words_that_lanes_read_are_known_where_they_depend_on_the_lane_alone(
    index: str, lanes: list[int] | None
) -> None:
    kernel = fission.split(EXCHANGE.format(index=index))
    assert kernel is not None
    words = {"  %word = load i32, ptr %at, align 4": tuple(lanes)} if lanes else None
    assert permutations.reads(kernel) == ({1: permutations.Reads("i32", words)} if words else {})


STRIDES = r"""#include <cstdio>
#include <cuda_runtime.h>
__global__ void add(float* out, float by, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] += by;
}
__global__ void sum(int* out, int const* in, int n) {
  __shared__ int part[64];
  int mine = 0, stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    if (in[i] % 3 == 0) continue;
    mine += in[i];
  }
  part[threadIdx.x] = mine;
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d >>= 1) {
    if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
__global__ void plane(int* out, int w, int h) {
  for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < h; y += blockDim.y * gridDim.y) {
    int k = 0;
    for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < w; x += blockDim.x * gridDim.x) {
      if (x == 7) break;
      out[y * w + x] = 100 * y + x + 10000 * ++k;
    }
  }
}
__global__ void powers(int* out, int n) {  // of two, as often as a thread iterates: in no thread as often as in another
  int p = 1;
  if (threadIdx.x % 3 == 0)
    for (int i = threadIdx.x; i < n; i += blockDim.x, p *= 2)
      if (i > 90) return;
  out[threadIdx.x] = p;
  __syncthreads();
  int all = __syncthreads_count(p > 4);
  if (threadIdx.x == 0) out[0] = all;
}
#define FOUR __syncthreads(); __syncthreads(); __syncthreads(); __syncthreads();
#define SIXTEEN FOUR FOUR FOUR FOUR
__global__ void fibers(int* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = i;
  SIXTEEN SIXTEEN SIXTEEN SIXTEEN
}
int main() {
  constexpr int n = 1000, w = 43, h = 31;
  float* f; int* p; cudaMallocManaged(&f, n * 4); cudaMallocManaged(&p, w * h * 4);
  for (int blocks : {1, 3, 200}) {
    int bad = 0;
    for (int i = 0; i < n; ++i) f[i] = float(i);
    add<<<blocks, 10>>>(f, 2, n - 1);
    for (int i = 0; i < n; ++i) bad += f[i] != float(i + 2 * (i < n - 1));
    int wanted = 0;
    for (int i = 0; i < n; ++i) p[i] = i, wanted += i % 3 ? i : 0;
    p[n] = 0;
    sum<<<blocks, 64>>>(p + n, p, n);
    printf("%d %d ", bad, p[n] - wanted);
  }
  plane<<<dim3(2, 2), dim3(5, 3)>>>(p, w, h);
  int bad = 0;
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      bool reached = x < 7 || x % 10 != 7;
      if (reached) bad += p[y * w + x] != 100 * y + x + 10000 * (x / 10 + 1);
    }
  powers<<<1, 32>>>(p, 85);
  printf("%d %d %d %d ", bad, p[0], p[3], p[24]);
  fibers<<<2, 32>>>(p, 100);
  printf("%d %s\n", p[99], cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def test_loops_that_stride_by_the_threads(tmp_path: Path) -> None:
    assert printed(tmp_path / "program.cu", STRIDES) == ("0 0 0 0 0 0 0 7 8 4 99 cudaSuccess\n", "")


POINTERS = r"""#include <cstdio>
#include <cuda_runtime.h>
struct Walk { int* at; int left; };
__device__ __forceinline__ void through_a_parameter(int* own, int* shared, int t) {
  shared[t] = own[(t + 1) & 3];
  __syncthreads();
  own[0] += own[t & 3] + shared[t ^ 1];
}
__device__ __noinline__ void note(Walk* walk, int* at) { walk->at = at; walk->left = 2; }
__global__ void local(int* out) {
  __shared__ int shared[64];
  int t = threadIdx.x, own[4] = {1, t, 3, 7};
  through_a_parameter(own, shared, t);
  out[t] = own[0];
}
__global__ void noted(int* out, int n) {
  int t = threadIdx.x, own[4] = {t, t + 1, t + 2, t + 3};
  Walk walk;
  note(&walk, own + (t & 1));
  for (int i = 0; i < n; ++i) {
    __syncthreads();
    *walk.at++ += 10 * i;
  }
  out[t] = own[0] + 1000 * own[1] + 1000000 * own[2];
}
__global__ void lanes(int* out) {
  int t = threadIdx.x, own[2] = {t, -t};
  int* p = t % 3 ? own : own + 1;
  int other = __shfl_xor_sync(~0u, *p, 1);
  *p += other;
  out[t] = own[0] + 100 * own[1];
}
int main() {
  int *p, bad[3] = {};
  cudaMallocManaged(&p, 256);
  local<<<1, 64>>>(p); cudaDeviceSynchronize();
  for (int t = 0; t < 64; ++t) {
    int own[4] = {1, t, 3, 7}, other[4] = {1, t ^ 1, 3, 7};
    bad[0] += p[t] != 1 + own[t & 3] + other[((t ^ 1) + 1) & 3];
  }
  noted<<<1, 64>>>(p, 2); cudaDeviceSynchronize();
  for (int t = 0; t < 64; ++t) bad[1] += p[t] != t + 1000 * (t + 1 + 10 * !(t & 1)) + 1000000 * (t + 2 + 10 * (t & 1));
  lanes<<<1, 64>>>(p); cudaDeviceSynchronize();
  for (int t = 0; t < 64; ++t) {
    int u = t ^ 1, other = u % 3 ? u : -u;
    bad[2] += p[t] != (t % 3 ? t + other - 100 * t : t + 100 * (other - t));
  }
  printf("%d %d %d %s\n", bad[0], bad[1], bad[2], cudaGetErrorName(cudaGetLastError()));
}
"""


def test_each_thread_has_its_own_variable_behind_a_pointer(tmp_path: Path) -> None:
    """Arrays of a thread that a region finds through a pointer, which was made before the barrier that it begins at."""
    assert printed(tmp_path / "program.cu", POINTERS) == ("0 0 0 cudaSuccess\n", "")


LOOP = """define void @k(ptr %p, i32 %n) {
  %first = call i32 @__tw_simt_index(i32 0)
  br label %header

header:
  %i = phi i32 [ %first, %0 ], [ %next, %body ]
  %more = icmp slt i32 %i, %n
  br i1 %more, label %body, label %end

body:
  call void @use(i32 %i)
  %step = call i32 @__tw_simt_index(i32 STEP)
  %next = add nsw i32 %i, %step
  br label %header

end:
  ret void
}
"""


@pytest.mark.parametrize(("step", "yields"), [(6, True), (9, True), (0, False), (3, False)])
def test_loops_yield_that_stride_by_the_size_of_a_block_or_grid(step: int, yields: bool) -> None:
    plain = LOOP.replace("STEP", str(step))
    text = strides.with_yields(plain, ["k"], fission.BARRIER)
    assert (f"call i32 @{fission.BARRIER}(i32 {strides.YIELD}," in text) == yields == (text != plain)
    assert ("call void @use(i32 %tw.stride.header.again)" in text) == yields
    assert fission.BARRIER not in strides.without_yields(text, fission.BARRIER)


SUM = """define void @k(ptr %p, i32 %n, i32 %columns) {
  %first = call i32 @__tw_simt_index(i32 COORDINATE)
  br label %header

header:
  %i = phi i32 [ %first, %0 ], [ %next, %body ]
  %sum = phi i32 [ 0, %0 ], [ %more, %body ]
  %go = icmp slt i32 %i, BOUND
  br i1 %go, label %body, label %end

body:
  %x = call i32 @__tw_simt_index(i32 0)
  %row = mul i32 %i, %columns
  %at = add i32 %row, %x
  %q = getelementptr i32, ptr %p, i32 INDEX
  %v = load i32, ptr %q, align 4
  %more = add i32 %sum, %v
  %next = add i32 %i, STEP
  br label %header

end:
  store i32 %sum, ptr %p, align 4
  ret void
}
"""


@pytest.mark.parametrize(
    ("coordinate", "index", "step", "bound", "yields"),
    [
        (0, "%i", "32", "%n", True),
        (1, "%at", "8", "%n", True),
        (1, "%i", "8", "%n", True),  # the same for neighbours
        (0, "%i", "1", "%n", False),  # from iteration to iteration memory is as near
        (3, "%i", "8", "%n", False),  # all threads do the same
        (0, "%i", "32", "128", False),  # a few iterations
    ],
)
def test_loops_yield_whose_threads_are_nearer_than_iterations(
    coordinate: int, index: str, step: str, bound: str, yields: bool
) -> None:
    plain = SUM
    for word, to in (("COORDINATE", str(coordinate)), ("INDEX", index), ("STEP", step), ("BOUND", bound)):
        plain = plain.replace(word, to)
    text = strides.with_yields(plain, ["k"], fission.BARRIER)
    assert (text != plain) == yields
    # One iteration behind a barrier, and four behind another one, where the four, of which three are asked for, are done.
    assert text.count(f"call i32 @{fission.BARRIER}(") == (2 if yields else 0)
    assert (text.count("= load i32, ptr"), text.count("icmp slt")) == ((5, 8) if yields else (1, 1))


STRAGGLERS = r"""#include <cstdio>
#include <cuda_runtime.h>
__global__ void again(unsigned* out, unsigned n) {  // threads do different numbers of iterations, and meet again
  unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x, b = t, c = 7;
  __shared__ unsigned total;
  for (unsigned k = 0; k < blockIdx.x + 1; ++k) {
    __syncthreads();
    if (t == 0) total = 5;
    __syncthreads();
    atomicAdd(&total, t);
    __syncthreads();
    b ^= total;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) c = c * 5 + i;
  }
  out[blockIdx.x * 30 + t] = b * 31 + c;
}
__global__ void sums(int* out, int const* in, int n, int m) {  // and one that is guarded behind those of a stride
  __shared__ int part[64];
  int t = threadIdx.x, mine = 0, last = -1;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
    if (in[i] % 5) mine += in[i], last = i;
  for (int i = t; i < m; i += 16) mine += 3 * in[i];
  for (int i = t; i < m; i += 64) {
    if (i == 70) break;
    mine ^= in[i];
  }
  part[t] = mine + last;
  __syncthreads();
  for (int d = 32; d > 0; d /= 2) {
    if (t < d) part[t] += part[t + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}
int main() {
  int wrong = 0, *in; unsigned* out;
  cudaMallocManaged(&in, 4096);
  cudaMallocManaged(&out, 4096);
  for (unsigned n : {0u, 3u, 24u, 25u, 99u}) {
    again<<<3, dim3(5, 3, 2)>>>(out, n);
    cudaDeviceSynchronize();
    for (unsigned g = 0; g < 3; ++g)
      for (unsigned t = 0; t < 30; ++t) {
        unsigned b = t, c = 7;
        for (unsigned k = 0; k <= g; ++k) {
          b ^= 5 + 30 * 29 / 2;
          for (unsigned i = t % 5; i < n; i += 5) c = c * 5 + i;
        }
        wrong += out[g * 30 + t] != b * 31 + c;
      }
  }
  for (int i = 0; i < 1024; ++i) in[i] = i * 7 % 31 - 9;
  for (int n : {0, 1, 63, 64, 65, 128, 400, 511, 512, 513, 641, 1024})
    for (int m : {0, 5, 64, 79, 80, 81, 129, 320}) {
      sums<<<2, 64>>>((int*)out, in, n, m);
      cudaDeviceSynchronize();
      for (int g = 0; g < 2; ++g) {
        int sum = 0;
        for (int t = 0; t < 64; ++t) {
          int mine = 0, last = -1;
          for (int i = g * 64 + t; i < n; i += 128)
            if (in[i] % 5) mine += in[i], last = i;
          for (int i = t; i < m; i += 16) mine += 3 * in[i];
          for (int i = t; i < m && i != 70; i += 64) mine ^= in[i];
          sum += mine + last;
        }
        wrong += (int)out[g] != sum;
      }
    }
  printf("%d wrong, %s\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""


def test_threads_that_leave_loops_at_different_iterations_meet_again(tmp_path: Path) -> None:
    assert printed(tmp_path / "program.cu", STRAGGLERS) == ("0 wrong, cudaSuccess\n", "")


EACH_NTH = r"""#include <cstdio>
#include <cuda_runtime.h>
__global__ void modulo(int* out, int const* in, unsigned first, unsigned by) {
  extern __shared__ int part[];
  unsigned t = threadIdx.x, row = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x;
  part[row + t] = in[row + t];
  __syncthreads();
  for (unsigned s = first; s < blockDim.x; s *= by) {
    if (t % (by * s) == 0 && t + s < blockDim.x) part[row + t] += 3 * part[row + t + s];
    __syncthreads();
  }
  out[row + t] = part[row + t];
}
__global__ void multiples(int* out, int const* in, int first, int by) {
  extern __shared__ int part[];
  int t = threadIdx.x, row = threadIdx.y * blockDim.x;
  part[row + t] = in[row + t];
  __syncthreads();
  for (int s = first; s < blockDim.x; s *= by) {
    int at = by * s * t;
    if (at < (int)blockDim.x - s) part[row + at] += part[row + at + s] * (t + 2);
    __syncthreads();
  }
  out[row + t] = part[row + t];
}
int main() {
  int wrong = 0, *in, *out;
  cudaMallocManaged(&in, 4096);
  cudaMallocManaged(&out, 4096);
  for (int i = 0; i < 1024; ++i) in[i] = i * 7 % 31 - 9;
  for (int width : {1, 7, 16, 33, 64, 100, 256})
    for (int height : {1, 3})
      for (int first : {1, 2, 3})
        for (int by : {2, 3, 4, 8}) {
          static int a[1024], b[1024];
          modulo<<<1, dim3(width, height), 4096>>>(out, in, first, by);
          cudaDeviceSynchronize();
          for (int i = 0; i < width * height; ++i) a[i] = b[i] = in[i];
          for (int s = first; s < width; s *= by)
            for (int i = 0; i < width * height; ++i)
              if (i % width % (by * s) == 0 && i % width + s < width) a[i] += 3 * a[i + s];
          for (int i = 0; i < width * height; ++i) wrong += out[i] != a[i];
          multiples<<<1, dim3(width, height), 4096>>>(out, in, first, by);
          cudaDeviceSynchronize();
          for (int s = first; s < width; s *= by)
            for (int i = 0; i < width * height; ++i) {
              int at = by * s * (i % width), row = i / width * width;
              if (at < width - s) b[row + at] += b[row + at + s] * (i % width + 2);
            }
          for (int i = 0; i < width * height; ++i) wrong += out[i] != b[i];
        }
  printf("%d wrong, %s\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""


def test_each_nth_thread_and_those_of_multiples(tmp_path: Path) -> None:
    assert printed(tmp_path / "program.cu", EACH_NTH) == ("0 wrong, cudaSuccess\n", "")


LANES = r"""#include <cstdio>
#include <cuda_runtime.h>
__global__ void rows(int* out, int const* in, int columns) {  // a warp for each
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, sum = 0;
  for (int c = lane; c < columns; c += 32) sum += in[row * columns + c] * (c + 1);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
  if (lane == 0) out[row] = sum;
}
__global__ void lanes(int* out, int const* in) {
  __shared__ int part[32];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, lane = i & 31, warp = t >> 5, own = (i >> 5) * 1000 + in[i];
  own += 7 * __shfl_sync(~0u, own, 31 - (t & 31));
  if ((t & 31) == 31) part[warp] = own;
  __syncthreads();
  out[i] = own * 3 + lane + (warp ? part[warp - 1] : 0);
}
__global__ void plane(int* out, int const* in) {
  int t = threadIdx.y * blockDim.x + threadIdx.x, lane = t & 31, warp = t / 32, x = threadIdx.x / 32;
  int v = in[t] + __shfl_sync(~0u, in[t] * 5, lane ^ 3);
  out[t] = v * 100 + warp * 10 + x + lane;
}
int main() {
  int wrong = 0, *in, *out;
  cudaMallocManaged(&in, 1 << 16); cudaMallocManaged(&out, 1 << 16);
  for (int i = 0; i < 1 << 14; ++i) in[i] = i * 7 % 31 - 9;
  for (int width : {32, 64, 96, 256})
    for (int columns : {0, 1, 31, 32, 100, 128, 160}) {
      rows<<<2, width>>>(out, in, columns); cudaDeviceSynchronize();
      for (int r = 0; r < 2 * width / 32; ++r) { int s = 0; for (int c = 0; c < columns; ++c) s += in[r * columns + c] * (c + 1); wrong += out[r] != s; }
    }
  for (int width : {32, 64, 100, 48, 256}) {
    lanes<<<3, width / 32 * 32 == width ? width : width - width % 32>>>(out, in); cudaDeviceSynchronize();
    int w = width - width % 32;
    auto own = [&](int b, int t) { int i = b * w + t; return i / 32 * 1000 + in[i]; };
    auto all = [&](int b, int t) { return own(b, t) + 7 * own(b, t / 32 * 32 + 31 - t % 32); };
    for (int b = 0; b < 3; ++b) for (int t = 0; t < w; ++t) wrong += out[b * w + t] != all(b, t) * 3 + (b * w + t) % 32 + (t >= 32 ? all(b, t / 32 * 32 - 1) : 0);
  }
  for (int x : {8, 16, 32, 64, 48, 24})
    for (int y : {4, 8, 2}) if (x * y % 32 == 0) {
      plane<<<1, dim3(x, y)>>>(out, in); cudaDeviceSynchronize();
      for (int t = 0; t < x * y; ++t) wrong += out[t] != (in[t] + in[t / 32 * 32 + (t % 32 ^ 3)] * 5) * 100 + t / 32 * 10 + t % x / 32 + t % 32;
    }
  printf("%d wrong, %s\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""


def test_numbers_of_lanes_and_warps_in_rows_planes_and_grids(tmp_path: Path) -> None:
    assert printed(tmp_path / "program.cu", LANES) == ("0 wrong, cudaSuccess\n", "")


@pytest.mark.parametrize(
    ("number", "op", "made", "grid"),
    [
        ("%tw.c0", "lshr i32 N, 5", ["sub i32 N, %tw.within", "lshr i32 F, 5"], False),
        ("%tw.flat", "sdiv i32 N, 64", ["sub i32 N, %tw.within", "sdiv i32 F, 64"], False),
        ("%all", "udiv i32 N, 32", ["sub i32 N, %tw.within", "udiv i32 F, 32"], True),
        ("%all", "and i32 N, 31", ["sub i32 N, %tw.within", "and i32 F, 31", "add i32 G, %tw.within"], True),
        ("%all", "sdiv i32 N, 32", [], False),  # it may be negative
        ("%tw.c0", "lshr i32 N, 4", [], False),
        ("%tw.c0", "and i32 N, 15", [], False),
        ("%tw.c1", "lshr i32 N, 5", [], False),
    ],
)
def test_numbers_of_lanes_and_warps_are_told_by_the_first_one(
    number: str, op: str, made: list[str], grid: bool
) -> None:
    lines = ["  %rows = mul i32 %tw.c3, %tw.c6", "  %all = add i32 %rows, %tw.c0", f"  %x = {op.replace('N', number)}"]
    first, lane = '%"tw.first.x"', '%"tw.first.x.lane"'
    names = {"N": number, "F": first, "G": lane}
    wanted = [
        " ".join(names.get(w, names.get(w[:-1], w[:-1]) + "," if w[-1] == "," else w) for w in m.split()) for m in made
    ]
    given, of_grid = lanes.by_lanes(lines)
    assert [line.partition(" = ")[2] for line in given[2:]] == (wanted or [op.replace("N", number)])
    assert of_grid == grid


BODY = """entry:
  %x = alloca i32, align 4
  %once = alloca i32, align 4
  store i32 %tw.c0, ptr %x, align 4
  store i32 %tw.c1, ptr %x, align 4
  store i32 1, ptr %once, align 4
  br label %loop
loop:
  %wait = call i32 @__tw_simt_barrier(i32 0, i32 0, ptr @file, i32 7)
  %v = load i32, ptr %x, align 4
  %more = icmp ugt i32 %v, %tw.outcome
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def test_what_lives_across_a_barrier_is_kept_for_each_thread() -> None:
    kernel = fission.split(BODY)
    assert kernel is not None
    assert [(b.line, b.result) for b in kernel.barriers] == [(7, "%wait"), (7, "")]  # and the end of the loop
    assert [[block.label for block in region] for region in kernel.regions] == [
        ["entry", "loop"],
        ["tw.after1", "loop", "tw.leave2"],
        ["end"],
    ]
    assert (kernel.frame, kernel.uniform) == (["%x"], [])
    once = fission.split(BODY.replace("  store i32 %tw.c1, ptr %x, align 4\n", ""))
    assert once is not None and once.frame == [] and once.recomputed["%x"] == ["  store i32 %tw.c0, ptr %x"]


@pytest.mark.parametrize(("barriers", "type"), [(31, "i32"), (32, "i64"), (63, "i64"), (64, None)])
def test_sets_of_barriers_are_as_wide_as_there_are_many(barriers: int, type: str | None) -> None:
    waits = "".join(f"  %w{k} = call i32 @__tw_simt_barrier(i32 0, i32 0, ptr @file, i32 7)\n" for k in range(barriers))
    blocks = waits.replace("  %w", "  br label %b\nb:\n  %w").split("  br label %b\nb:\n")
    body = (
        "entry:\n" + "".join(f"  br label %b{k}\nb{k}:\n{line}" for k, line in enumerate(blocks[1:])) + "  ret void\n"
    )
    kernel = fission.split(body)
    assert (kernel and kernel.sets["set"]) == type


MANY = r"""#include <cstdio>
#include <cuda_runtime.h>
template <int N> __global__ void barriers(int* out, int from) {  // some of the threads end at each of them, from `from` on
  __shared__ int part[64];
  int t = threadIdx.x, v = t;
  part[t] = t;
#define STEP __syncthreads(); v = v * 3 + part[(t + 1) % 64]; __syncthreads(); part[t] = v; if (from == 1 && t == 5) return;
#define FIVE STEP STEP STEP STEP STEP
  FIVE FIVE FIVE FIVE
  if (from == 2 && t == 7) return;
  __syncthreads();
  out[t] = v;
}
template <int N> __global__ void lanes(int* out, int from) {
  int t = threadIdx.x, v = t;
#define SUM for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d); v = v % 1000 + t;
  SUM SUM SUM SUM SUM SUM
  if (t % 3 == from) v += __shfl_xor_sync(__activemask(), v, 0);
  else if (t % 3 == 1) v += 2 * __shfl_sync(__activemask(), v, 4 + t / 32);
  SUM SUM SUM
  out[t] = v;
}
int main() {
  int *p, v[64], part[64], bad = 0;
  cudaMallocManaged(&p, 256);
  barriers<1><<<1, 64>>>(p, 0);
  bad += cudaDeviceSynchronize() != cudaSuccess;
  for (int t = 0; t < 64; ++t) v[t] = part[t] = t;
  for (int k = 0; k < 20; ++k) {
    for (int t = 0; t < 64; ++t) v[t] = int(unsigned(v[t]) * 3u + unsigned(part[(t + 1) % 64]));
    for (int t = 0; t < 64; ++t) part[t] = v[t];
  }
  for (int t = 0; t < 64; ++t) bad += p[t] != v[t];
  auto sum = [&](int times) {
    while (times--) {
      for (int d = 16; d > 0; d /= 2) {
        for (int t = 0; t < 64; ++t) part[t] = t % 32 + d < 32 ? v[t + d] : v[t];
        for (int t = 0; t < 64; ++t) v[t] += part[t];
      }
      for (int t = 0; t < 64; ++t) v[t] = v[t] % 1000 + t;
    }
  };
  for (int from : {0, 5}) {
    lanes<1><<<1, 64>>>(p, from);
    bad += cudaDeviceSynchronize() != cudaSuccess;
    for (int t = 0; t < 64; ++t) v[t] = t;
    sum(6);
    for (int t = 0; t < 64; ++t) part[t] = t % 3 == from ? 2 * v[t] : t % 3 == 1 ? v[t] + 2 * v[t / 32 * 33 + 4] : v[t];
    for (int t = 0; t < 64; ++t) v[t] = part[t];
    sum(3);
    for (int t = 0; t < 64; ++t) bad += p[t] != v[t];
  }
  printf("%d bad\n", bad);
  barriers<1><<<1, 64>>>(p, 2);
  puts(cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def test_kernels_with_more_barriers_than_a_word_of_32_bits_has(tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    out, reports = printed(program, MANY)
    line = next(i for i, text in enumerate(MANY.split("\n"), 1) if text == "  __syncthreads();")
    reason = "a barrier that not all threads of the block reach: others have ended"
    assert (out, reports) == ("0 bad\ncudaErrorLaunchFailure\n", f"tilewright: {program}:{line}: {reason}\n")


COUNTER = """entry:
  %d = alloca i32, align 4
  store i32 128, ptr %d, align 4
  br label %loop
loop:
  %wait = call i32 @__tw_simt_barrier(i32 0, i32 0, ptr @file, i32 7)
  %v = load i32, ptr %d, align 4
  %mine = icmp slt i32 %tw.c0, %v
  br i1 %mine, label %some, label %join
some:
  store float 1.0, ptr %p, align 4
  br label %join
join:
  %half = sdiv i32 %v, 2
  store i32 %half, ptr %d, align 4
  %more = icmp sgt i32 %half, %tw.c3
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("", "", True),
        ("sdiv i32 %v, 2", "sdiv i32 %v, %tw.c3", True),
        ("sdiv i32 %v, 2", "add i32 %tw.outcome, %n", True),
        ("sdiv i32 %v, 2", "sdiv i32 %v, %tw.c1", False),
        ("store float 1.0, ptr %p", "store i32 1, ptr %d", False),
        ("%half = sdiv i32 %v, 2", "%half = load i32, ptr %p, align 4", False),
        ("store float 1.0, ptr %p, align 4", "store ptr %d, ptr %p, align 4", False),
        ("br i1 %more, label %loop", "br i1 %mine, label %join", False),
    ],
)
def test_what_is_the_same_for_a_block_is_kept_once(old: str, new: str, same: bool) -> None:
    kernel = fission.split(COUNTER.replace(old, new))
    assert kernel is not None
    assert kernel.uniform == (["%d"] if same else []) and kernel.frame == ([] if same else ["%d"])


@pytest.mark.parametrize("line", ["  %p = phi i32 [ 0, %entry ]", "  %n = alloca i32, i64 %v"])
def test_what_cannot_be_split_is_left_to_fibers(line: str) -> None:
    assert fission.split(BODY.replace("end:\n", f"end:\n{line}\n")) is None


REDUCTIONS = r"""#include <cstdio>
#include <cuda_runtime.h>
__device__ int first(int const* in, int n) {
  int i = blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x, sum = 0;
  for (; i < n; i += gridDim.x * blockDim.x * blockDim.y) sum += in[i];
  return sum;
}
__device__ int over_warp(int v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
  return v;
}
__device__ int crosswise(int v) {
  for (int d = 1; d < 32; d *= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
#define KERNEL(name, ...)                                                     \
  __global__ void name(int* out, int const* in, int n) {                      \
    __shared__ int part[512];                                                 \
    __shared__ int all;                                                       \
    int t = threadIdx.y * blockDim.x + threadIdx.x, m = blockDim.x * blockDim.y, v = first(in, n); \
    (void)part, (void)all, (void)m;                                           \
    __VA_ARGS__;                                                              \
  }
KERNEL(tree, part[t] = v; __syncthreads();
  for (int s = m / 2; s > 0; s >>= 1) { if (t < s) part[t] += part[t + s]; __syncthreads(); }
  if (t == 0) atomicAdd(out, part[0]))
KERNEL(skipping, part[t] = v; __syncthreads();
  for (unsigned s = m / 2; s >= 1; s /= 2) { if (!(unsigned(t) >= s)) part[t] = v = v + part[t + s]; __syncthreads(); }
  if (t == 0) atomicAdd(out, v))
KERNEL(from_the_end, part[t] = v; __syncthreads();
  for (int s = 1; s < m; s *= 2) {
    int at = 2 * s * t;
    if (at + s < m) part[at] += part[at + s];
    __syncthreads();
  }
  if (t <= 0) atomicAdd(out, part[0]))
KERNEL(halves, part[t] = v; __syncthreads();
  if (t <= 63) for (int k = t + 64; k < m; k += 64) part[t] += part[k];
  __syncthreads();
  if (t == 0) for (int k = 1; k < min(m, 64); ++k) part[0] += part[k];
  __syncthreads();
  if (t == 1) atomicAdd(out, part[0]))
KERNEL(warps, v = over_warp(v); if (t % 32 == 0) part[t / 32] = v; __syncthreads();
  v = t < m / 32 ? part[t % 32] : 0; if (t / 32 == 0) v = over_warp(v);
  if (t == 0) atomicAdd(out, v))
KERNEL(across, v = crosswise(v); if (t % 32 == 5) part[t / 32] = v; __syncthreads();
  if (t < 32) { v = crosswise(t < m / 32 ? part[t] : 0); if (t == 9) atomicAdd(out, v); })
KERNEL(volatiles, part[t] = v; __syncthreads();
  for (int s = m / 2; s > 32; s >>= 1) { if (t < s) part[t] += part[t + s]; __syncthreads(); }
  if (t < 32) {
    volatile int* p = part; if (m >= 64) p[t] += p[t + 32];
    p[t] += p[t + 16]; p[t] += p[t + 8]; p[t] += p[t + 4]; p[t] += p[t + 2]; p[t] += p[t + 1];
  }
  if (t == 0) atomicAdd(out, part[0]))
KERNEL(atomics, if (t == 0) all = 0; __syncthreads(); atomicAdd(&all, v); __syncthreads(); if (t == 0) atomicAdd(out, all))
KERNEL(kinds, if (t == 0) part[0] = 7; part[1 + t % 3] = 0; __syncthreads();
  int before = atomicAdd(&part[0], 1);
  atomicMax(&part[1], before); atomicExch(&part[2], 1); atomicCAS(&part[3], 0, m + 7);
  __syncthreads();
  if (t == 0 && part[1] + 1 == part[0] && part[2] == 1 && part[3] == part[0]) all = 0;
  __syncthreads();
  atomicSub(&all, -v); __syncthreads();
  if (t == 0) atomicAdd(out, all))
KERNEL(partly, if (t < m / 2) v += __shfl_xor_sync(__activemask(), v, 0) - v; v = over_warp(v);
  if (t % 32 == 0) atomicAdd(out, v))
KERNEL(cut, __syncwarp(); atomicAdd(out, v))  // the last warp has fewer lanes
int main() {
  constexpr int n = 10007;
  int *in, *out, wanted = 0, bad = 0;
  cudaMallocManaged(&in, n * sizeof(int)); cudaMallocManaged(&out, sizeof(int));
  for (int i = 0; i < n; ++i) wanted += in[i] = i % 23 - 7;
  auto run = [&](char const* name, auto kernel) {
    for (dim3 block : {dim3(32), dim3(64), dim3(256), dim3(512), dim3(16, 16), dim3(64, 2), dim3(8, 8)})
      for (int grid : {1, 5, 70}) {
        *out = 0;
        kernel<<<grid, block>>>(out, in, n);
        if (cudaDeviceSynchronize() != cudaSuccess || *out != wanted) ++bad, printf("%s %d %d: %d\n", name, block.x, grid, *out);
      }
  };
  run("tree", tree); run("skipping", skipping); run("from_the_end", from_the_end); run("halves", halves);
  run("warps", warps); run("across", across); run("volatiles", volatiles); run("atomics", atomics);
  run("kinds", kinds); run("partly", partly);
  for (dim3 block : {dim3(33), dim3(100), dim3(7, 9)}) {
    *out = 0;
    cut<<<5, block>>>(out, in, n);
    if (cudaDeviceSynchronize() != cudaSuccess || *out != wanted) ++bad, printf("cut %d: %d\n", block.x, *out);
  }
  printf("%d bad\n", bad);
}
"""


def test_reductions_of_a_block(tmp_path: Path) -> None:
    """In the forms in which they are written; each runs in another way, and all give the same."""
    assert printed(tmp_path / "program.cu", REDUCTIONS) == ("0 bad\n", "")


EACH_NTH = r"""#include <cstdio>
#include <cuda_runtime.h>
#define KERNEL(name, type, condition) \
    __global__ void name(int* out, type a, type b) { \
        __shared__ int s[512]; \
        int t = threadIdx.x; \
        unsigned u = threadIdx.x; \
        for (int i = t; i < 512; i += blockDim.x) s[i] = 1; \
        __syncthreads(); \
        for (int round = 0; round < 3; ++round, a += a) { \
            if (condition) s[threadIdx.y * blockDim.x + t] += t + 1; \
            __syncthreads(); \
        } \
        out[threadIdx.y * blockDim.x + t] = s[threadIdx.y * blockDim.x + t]; \
    } \
    void host_##name(int* out, type a, type b, unsigned width, unsigned rows) { \
        for (unsigned i = 0; i < width * rows; ++i) out[i] = 1; \
        for (int round = 0; round < 3; ++round, a += a) \
            for (unsigned u = 0; u < width; ++u) \
                for (unsigned y = 0; y < rows; ++y) { \
                    int t = int(u); \
                    if (condition) out[y * width + u] += t + 1; \
                } \
    }
KERNEL(each_signed, int, t % a == 0)
KERNEL(each_unsigned, unsigned, u % a == 0)
KERNEL(not_each, int, t % a != 0)
KERNEL(twice, unsigned, u % (2 * a) == 0)
KERNEL(other, int, t % a == b)
KERNEL(times, int, a * t < b)
KERNEL(times_unsigned, unsigned, 2 * a * u < b)
KERNEL(times_most, unsigned, u * a <= b)
KERNEL(times_least, int, t * a >= b)
KERNEL(swapped, int, b > t * a)
KERNEL(constant, int, t * 3 < b)
template <typename T>
int check(char const* name, void (*k)(int*, T, T), void (*host)(int*, T, T, unsigned, unsigned), T a, T b) {
    static int* out = nullptr;
    if (!out) cudaMallocManaged(&out, 2048);
    int wrong = 0, want[512];
    dim3 blocks[] = {dim3(1), dim3(31), dim3(256), dim3(64, 3)};
    for (dim3 block : blocks) {
        k<<<1, block>>>(out, a, b);
        cudaDeviceSynchronize();
        host(want, a, b, block.x, block.y);
        for (unsigned i = 0; i < block.x * block.y; ++i) wrong += out[i] != want[i];
    }
    if (wrong) printf("%s(%d, %d): %d wrong\n", name, int(a), int(b), wrong);
    return wrong;
}
#define CHECK(name, a, b) wrong += check(#name, name, host_##name, a, b)
int main() {
    int wrong = 0;
    for (int a : {1, 2, 3, 4, 7, 64, 300, -1, -2, -5, 1 << 20, 1 << 29}) {
        CHECK(each_signed, a, 0); CHECK(each_unsigned, unsigned(a), 0u); CHECK(not_each, a, 0);
        CHECK(twice, unsigned(a) * 2 + 1, 0u);
        for (int b : {0, 1, 5, 60, 1000, -3, -1}) {
            CHECK(other, a, b); CHECK(times_unsigned, unsigned(a), unsigned(b)); CHECK(times_most, unsigned(a), unsigned(b));
            CHECK(constant, a, b);
            if (a < 1 << 20) { CHECK(times, a, b); CHECK(times_least, a, b); CHECK(swapped, a, b); }
        }
    }
    for (int b : {0, 5, -4}) { CHECK(times, 0, b); CHECK(times_unsigned, 0u, unsigned(b)); CHECK(times_least, 0, b); }
    printf("%d wrong, %s\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""


def test_threads_of_which_each_nth_or_the_first_by_a_product_do_something(tmp_path: Path) -> None:
    """As trees over a block ask for, with divisors and factors of any sign, and products that are too large."""
    assert printed(tmp_path / "program.cu", EACH_NTH) == ("0 wrong, cudaSuccess\n", "")


FIRST = r"""#include <cstdio>
#include <cooperative_groups.h>
#include <cuda_runtime.h>
namespace cg = cooperative_groups;
#define ROW threadIdx.x
#define PLANE (threadIdx.y * blockDim.x + threadIdx.x)
#define RANK ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x)
#define GROUP cg::this_thread_block().thread_rank()
#define KERNELS(name, number, condition)                                                          \
  __global__ void name##_block(int* out, int n) {                                                 \
    __shared__ int s[256];                                                                        \
    s[RANK] = 0;                                                                                  \
    __syncthreads();                                                                              \
    int t = number;                                                                               \
    if (condition) s[RANK] += 100 + threadIdx.x + 10 * threadIdx.y;                               \
    __syncthreads();                                                                              \
    out[RANK] = s[RANK];                                                                          \
  }                                                                                               \
  __global__ void name##_warps(int* out, int n) {                                                 \
    out[RANK] = 0;                                                                                \
    int v = __shfl_xor_sync(__activemask(), n, 1), u = RANK % 32 < 7 ? out[RANK] : v - n, t = number; \
    if (condition) out[RANK] += 100 + threadIdx.x + 10 * threadIdx.y + u + v - n;                 \
  }
KERNELS(row_first, ROW, t == 0)
KERNELS(row_few, ROW, t < n)
KERNELS(plane_first, PLANE, t == 0)
KERNELS(plane_few, PLANE, t < n)
KERNELS(rank_first, RANK, t == 0)
KERNELS(rank_few, RANK, t < n)
KERNELS(rank_most, RANK, t >= n)
KERNELS(group_first, GROUP, t == 0)
KERNELS(group_few, GROUP, t < n)
int main() {
  int *out, wrong = 0;
  cudaMallocManaged(&out, 1024);
  auto check = [&](char const* name, auto kernel, int which, auto condition) {
    for (dim3 b : {dim3(64), dim3(40), dim3(8, 8), dim3(32, 2), dim3(16, 4), dim3(4, 4, 4), dim3(64, 1, 2), dim3(96, 2)})
      for (int n : {0, 5, 33, 70}) {
        kernel<<<1, b>>>(out, n);
        wrong += cudaDeviceSynchronize() != cudaSuccess;
        for (unsigned z = 0, i = 0; z < b.z; ++z)
          for (unsigned y = 0; y < b.y; ++y)
            for (unsigned x = 0; x < b.x; ++x, ++i) {
              int numbers[] = {int(x), int(y * b.x + x), int(i)};
              int want = condition(numbers[which], n) ? 100 + x + 10 * y : 0;
              if (out[i] != want) { ++wrong; if (wrong < 9) printf("%s %d %d %d: %d\n", name, b.x, b.y, n, i); }
            }
      }
  };
#define CHECK(name, which, condition) \
  check(#name, name##_block, which, [](int t, int n) { return condition; }); \
  check(#name " by warps", name##_warps, which, [](int t, int n) { return condition; });
  CHECK(row_first, 0, t == 0) CHECK(row_few, 0, t < n) CHECK(plane_first, 1, t == 0) CHECK(plane_few, 1, t < n)
  CHECK(rank_first, 2, t == 0) CHECK(rank_few, 2, t < n) CHECK(rank_most, 2, t >= n)
  CHECK(group_first, 2, t == 0) CHECK(group_few, 2, t < n)
  printf("%d wrong\n", wrong);
}
"""


def test_the_first_threads_of_a_row_a_plane_and_a_block(tmp_path: Path) -> None:
    assert printed(tmp_path / "program.cu", FIRST) == ("0 wrong\n", "")


def test_a_distance_of_zero_divides_by_it(tmp_path: Path) -> None:
    text = """#include <cstdio>
#include <cuda_runtime.h>
__global__ void k(int* out, int a) {
    __shared__ int s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x % a == 0) s[threadIdx.x] += 2;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
int main() {
    int* out; cudaMallocManaged(&out, 256);
    k<<<1, 64>>>(out, 0);
    puts(cudaGetErrorName(cudaDeviceSynchronize()));
}
"""
    out, reports = printed(tmp_path / "program.cu", text)
    assert out == "cudaErrorLaunchFailure\n" and "program.cu:7" in reports


def test_barriers_between_branches_by_one_condition(tmp_path: Path) -> None:
    """They stay one barrier each where lanes of a warp exchange values, too, though LLVM could copy them."""
    text = """#include <cstdio>
#include <cuda_runtime.h>
__global__ void ranks(unsigned const* in, unsigned* out, int n) {
    __shared__ unsigned before[4];
    if (threadIdx.x < 4) before[threadIdx.x] = 0;
    for (int round = 0; round < 2; round++) {
        int i = round * 64 + threadIdx.x;
        bool some = i < n;
        unsigned digit = some ? in[i] : 4;
        __syncthreads();
        unsigned same = __match_any_sync(0xffffffffu, digit);
        if (some) out[i] = __popc(same) + before[digit];
        __syncthreads();
        if (some) atomicAdd(&before[digit], 1);
        __syncthreads();
    }
}
int main() {
    unsigned *in, *out; cudaMallocManaged(&in, 400); cudaMallocManaged(&out, 400);
    unsigned all[4] = {}, sum = 0;
    for (int i = 0; i < 100; i++) in[i] = i * i % 4;
    ranks<<<1, 64>>>(in, out, 100);
    puts(cudaGetErrorName(cudaDeviceSynchronize()));
    for (int i = 0; i < 100; i++) {
        if (i == 64) for (int k = 0; k < 64; k++) all[in[k]]++;
        unsigned warp = 0;
        for (int k = i / 32 * 32; k < 100 && k / 32 == i / 32; k++) warp += in[k] == in[i];
        sum += out[i] != warp + (i < 64 ? 0 : all[in[i]]);
    }
    printf("%u wrong\\n", sum);
}
"""
    assert printed(tmp_path / "program.cu", text) == ("cudaSuccess\n0 wrong\n", "")


def test_lanes_that_have_ended_give_zero(tmp_path: Path) -> None:
    """As published reductions expect, whose last step shuffles from lanes that are not in its mask."""
    text = """#include <cstdio>
#include <cuda_runtime.h>
template <class T> __device__ T sum_of(unsigned mask, T v) {
    for (int by = warpSize / 2; by > 0; by /= 2) v += __shfl_down_sync(mask, v, by);
    return v;
}
template <class T> __global__ void sum(T const* in, T* out, unsigned n) {
    extern __shared__ double memory[];
    T* part = (T*)memory;
    unsigned t = threadIdx.x, mask = blockDim.x < 32 ? (1u << blockDim.x) - 1 : ~0u;
    T mine = 0;
    for (unsigned i = t; i < n; i += blockDim.x) mine += in[i];
    mine = sum_of(mask, mine);
    if (t % warpSize == 0) part[t / warpSize] = mine;
    __syncthreads();
    unsigned count = blockDim.x < 32 ? 1 : blockDim.x / 32, few = __ballot_sync(mask, t < count);
    if (t < count) mine = sum_of(few, part[t]);
    if (t == 0) *out = mine;
}
template <class T> void try_out(int threads) {
    T *in, *out; cudaMallocManaged(&in, 1000 * sizeof(T)); cudaMallocManaged(&out, sizeof(T));
    for (int i = 0; i < 1000; i++) in[i] = T(i);
    sum<<<1, threads, 32 * sizeof(T)>>>(in, out, 1000);
    printf("%d ", cudaDeviceSynchronize() == cudaSuccess && *out == T(499500));
}
int main() {
    for (int threads : {16, 64, 256, 512}) { try_out<int>(threads); try_out<float>(threads); try_out<double>(threads); }
}
"""
    assert printed(tmp_path / "program.cu", text) == ("1 " * 12, "")
