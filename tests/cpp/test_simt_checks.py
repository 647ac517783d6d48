"""``tilewright check`` of programs with SIMT kernels: each access outside of what its pointer was made from is found."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.simt_programs import HEAD, INDIRECT, INDIRECTLY, KERNELS, MORE, OBJECTS, SPLIT

WRONG = """#include <cstdio>
#include <cuda_runtime.h>
__device__ int table[4];
__device__ float get(float const* p, int i) { return p[i]; }  // 9 threads of 40: 1 past the end
struct Own { float* p; int n; };
template <typename T> __global__ void k(T* p, int n, Own own, float* null) {
  __shared__ float s[32]; extern __shared__ int sized[]; float mine[3] = {1, 2, 3};
  int i = threadIdx.x;
  s[i] = i;  // out-of-bounds 8
  sized[i] = mine[i % 4];  // out-of-bounds 15 10
  __syncthreads();
  int x = table[i & 7];  // out-of-bounds 20
  p[i] = get(p, i + 1);
  if (i > 37) atomicAdd(p + i + 1, T(1));  // out-of-bounds 1
  T* q = s + 1; q[i % 32] = x;  // out-of-bounds 1
  own.p[own.n + i] = 3;
  if (i == 5) null[i] = 1;  // dangling-pointer 1
  if (i == 7) *(int*)&p[38 + i % 2] = __shfl_sync(128u, i, 7);
}
__global__ void barrier(int* p) {
  if (threadIdx.x < 3) __syncthreads();  // deadlock 1
}
int main() {
  float* p; cudaMalloc(&p, 160); cudaMemset(p, 0, 160); int* z; cudaMalloc(&z, 4); cudaMemset(z, 0, 4);
  k<<<1, 40, 100>>>(p, 100, Own{p, 0}, (float*)nullptr);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
  barrier<<<1, 64>>>(z);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def check(program: Path, text: str, command: str = "check") -> subprocess.CompletedProcess[str]:
    program.write_text(text)
    words = [sys.executable, "-m", "tilewright", command, str(program)]
    return subprocess.run(words, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)


def test_accesses_outside(tmp_path: Path) -> None:
    """A comment says which category a line has, and how often each access in it is outside."""
    done = check(tmp_path / "program.cu", WRONG)
    assert done.stdout.splitlines() == ["cudaSuccess", "cudaErrorLaunchFailure"]
    expected = {
        (number, found[1], int(count))
        for number, line in enumerate(WRONG.split("\n"), 1)
        if (found := re.search(r"// ([a-z-]+) ([\d ]+)$", line))
        for count in found[2].split()
    } | {(4, "out-of-bounds", 1)}
    parts = re.split(r"\n(?=\S+program\.cu:\d+:\d+: )", "\n" + done.stderr)[1:]
    found = set()
    for part in parts:
        head = re.match(r"\S+program\.cu:(\d+):\d+: ([a-z-]+): ", part)
        seen = re.search(r"seen: (\d+) times", part)
        assert head is not None
        found.add((int(head[1]), head[2], int(seen[1]) if seen else 1))
    races = {f for f in found if f[1] == "data-race"}  # of what two warps access, with no barrier between them
    assert found >= expected and {f[:2] for f in found - races} == {e[:2] for e in expected}
    assert (
        "thread: (32, 0, 0)" in done.stderr and "store of 4 bytes at byte 128 of a variable of 128 bytes" in done.stderr
    )
    assert "load of 4 bytes at byte 160 of an allocation of 160 bytes" in done.stderr
    assert done.returncode != 0


def test_right_programs_are_clean(tmp_path: Path) -> None:
    """Loops, kernels in parts and fibers; variables of threads, of blocks, and of the program."""
    clean = "\n".join(line for line in SPLIT.split("\n") if not line.startswith("  left<0>"))
    done = check(tmp_path / "split.cu", clean)
    assert done.stderr == "32 launches checked: no violation\n"
    done = check(tmp_path / "program.cu", f"{HEAD}{KERNELS}int main() {{ {MORE} }}\n")
    assert done.stdout.splitlines()[:2] == ["0 wrong, 20 3 1, 1 1 1", "11 4 5 165 1421"]
    assert done.stderr == "5 launches checked: no violation\n"


GLOBAL = """
#include <cuda_runtime.h>
__global__ void shift(int* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 < n) p[i] = p[i + 1];  // races
}
__global__ void sum(int* p, int* total) { *total = *total + p[threadIdx.x]; }  // races
__global__ void sync(int* p, int* q, int* flag) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.x * blockDim.x;
  p[i] = i; *flag = 1;
  __syncthreads();
  q[i] = p[first + (threadIdx.x + 40) % blockDim.x];  // races
  p[i] = i + 1;  // races
}
__global__ void last(int* parts, unsigned* count, int* result) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x;
    __threadfence();
    is_last = atomicInc(count, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x) return;
  for (int i = 0; i < gridDim.x; ++i) *result += parts[i];
}
__global__ void pass(int* data, volatile int* flag) {
  if (blockIdx.x == 0) { data[threadIdx.x] = 7; __threadfence(); __syncthreads(); if (threadIdx.x == 0) *flag = 1; }
  else { while (*flag == 0) {} __threadfence(); data[threadIdx.x + 64] = data[threadIdx.x]; }
}
int main() {
  int* p; cudaMallocManaged(&p, 4096); cudaMemset(p, 0, 4096);
  if (SHIFT) shift<<<2, 64>>>(p, 128);
  if (SUM) sum<<<1, 64>>>(p, p + 200);
  sync<<<2, 64>>>(p, p + 128, p + 300);
  last<<<4, 64>>>(p, (unsigned*)p + 400, p + 401);
  pass<<<2, 64>>>(p, p + 500);
  return cudaDeviceSynchronize() || p[401] != 6 || p[64 + 5] != 7;
}
"""


def test_races_in_memory_of_the_device(tmp_path: Path) -> None:
    """Between blocks, and between threads of one without a barrier; none where blocks wait for each other."""
    done = check(tmp_path / "program.cu", f"#define SHIFT 1\n#define SUM 1\n{GLOBAL}")
    found = set(re.findall(r"^\S*program.cu:(\d+):\d+: data-race: ", done.stderr, re.MULTILINE))
    lines = [str(number) for number, line in enumerate(GLOBAL.split("\n"), 3) if line.endswith("// races")]
    assert done.returncode == 1 and found == set(lines), done.stderr
    right = GLOBAL.replace("  p[i] = i + 1;  // races", "")
    done = check(tmp_path / "right.cu", f"#define SHIFT 0\n#define SUM 0\n{right}")
    assert (done.returncode, done.stderr) == (0, "3 launches checked: no violation\n")


STRUCTS = """
#include <cuda_runtime.h>
struct Seven { unsigned char v[7]; };
struct Named { int n; float scale; };
__constant__ Named named;
__device__ Seven sum(Seven const& a, Seven const& b) {
  Seven s;
  for (int i = 0; i < 7; ++i) s.v[i] = a.v[i] + b.v[i];
  return s;
}
__global__ void add(Seven const* a, Seven* b, float* scale) {
  b[threadIdx.x] = sum(a[threadIdx.x], b[threadIdx.x]);
  if (threadIdx.x == 0) *scale = named.scale;
}
int main() {
  Seven *a, *b; float* f; Named h{1, 2.5f};
  cudaMallocManaged(&a, 70); cudaMallocManaged(&b, 70); cudaMallocManaged(&f, 4);
  cudaMemset(a, 3, 70); cudaMemset(b, 4, 70); cudaMemcpyToSymbol(named, &h, sizeof h);
  add<<<1, 10>>>(a, b, f);
  return cudaDeviceSynchronize() || b[9].v[6] != 7 || *f != 2.5f;
}
"""


def test_structs_of_odd_sizes_and_members_of_constants(tmp_path: Path) -> None:
    done = check(tmp_path / "program.cu", STRUCTS)
    assert (done.returncode, done.stderr) == (0, "1 launch checked: no violation\n")


HALO = """
__global__ void __launch_bounds__(64) blur(float const* x, float* y, int width) {
  __shared__ float s[66];
  int column = (int(blockIdx.x) - 1) * 64 + int(threadIdx.x);
  x += column; y += column;  // before the array for the first block
  s[threadIdx.x + 1] = x[64];
  if (threadIdx.x == 0) s[0] = column + 64 > 0 ? x[63] : 0;
  if (threadIdx.x == 63) s[65] = column + 65 < width ? x[65] : 0;
  __syncthreads();
  float sum = 0;
#pragma unroll 512
  for (int i = 0; i < 3 * 1024; ++i) sum += s[threadIdx.x + i % 3];
  y[64] = sum;
#ifdef WRONG
  y[64 + width] = sum;
#endif
}
int main() {
  float *x, *y; cudaMallocManaged(&x, 512); cudaMallocManaged(&y, 512);
  for (int i = 0; i < 128; ++i) x[i] = i;
  blur<<<2, 64>>>(x, y, 128);
  return cudaDeviceSynchronize() || y[0] != 1024 || y[70] != 1024 * 210;
}
"""


def test_pointers_that_are_moved_before_their_array(tmp_path: Path) -> None:
    """As published stencils do; and loops that a program unrolls far are not, which would take minutes."""
    done = check(tmp_path / "halo.cu", HALO)
    assert (done.returncode, done.stderr) == (0, "1 launch checked: no violation\n")
    done = check(tmp_path / "wrong.cu", f"#define WRONG{HALO}")
    found = re.search(
        r"wrong\.cu:15:17: out-of-bounds: store of 4 bytes at byte (\d+) of an allocation of 512", done.stderr
    )
    assert found and int(found[1]) in range(512, 1024, 4), done.stderr  # by the thread that comes first


ALIGNED = """
struct alignas(32) Wide { double v[4]; };
struct Args { float4 f; Wide w; int k; };
extern float __shared__ dynamic[];
__global__ void widths(float4 const* p, Wide* o, Args a, int which, unsigned short* once, float2* sums) {
  __shared__ float s[32];
  float4 mine[3]; char odd; Wide local[2];
  for (int i = 0; i < 3; ++i) mine[i] = p[(threadIdx.x + i) % 32];
  odd = char(which); local[0].v[which] = mine[which].x; local[1] = a.w; a.k += odd; a.f.x += 1;
  s[threadIdx.x] = mine[which % 3].y;
  dynamic[threadIdx.x] = 0;
  __syncthreads();
  local[1].v[which] += s[31 - threadIdx.x] + mine[(which + 1) % 3].z + a.k + a.f.x + dynamic[which];
  o[threadIdx.x] = local[1]; o[threadIdx.x].v[0] += local[0].v[which];
  atomicCAS(once, (unsigned short)0, (unsigned short)(threadIdx.x + 1));
  atomicAdd(sums, make_float2(1, 0.5f));
}
int main() {
  float4* p; Wide* o; unsigned short* once; float2* sums;
  cudaMallocManaged(&p, 512); cudaMallocManaged(&o, 1024); cudaMallocManaged(&once, 2); cudaMallocManaged(&sums, 8);
  for (int i = 0; i < 32; ++i) p[i] = make_float4(i, 2 * i, 3 * i, 0);
  *once = 0; *sums = make_float2(0, 0); Args a{{1, 0, 0, 0}, {{1, 2, 3, 4}}, 5};
  widths<<<1, 32, 128>>>(p, o, a, 1, once, sums);
  bool right = cudaDeviceSynchronize() == cudaSuccess && *once > 0 && *once <= 32 && sums->x == 32 && sums->y == 16;
  for (int t = 0; t < 32; ++t) {
    double wanted = 2 + 2 * ((32 - t) % 32) + 3 * ((t + 2) % 32) + 6 + 2;
    right &= o[t].v[1] == wanted && o[t].v[0] == 1 + (t + 1) % 32 && o[t].v[3] == 4;
  }
  return !right;
}
"""


def test_variables_in_memory_are_aligned_as_their_types(tmp_path: Path) -> None:
    """Checks keep the variables of threads in memory, where wide accesses fault that are not aligned."""
    done = check(tmp_path / "aligned.cu", ALIGNED)
    assert (done.returncode, done.stderr) == (0, "1 launch checked: no violation\n")


HEAP = """#include <cstdio>
struct Shape { __device__ virtual ~Shape() {} __device__ virtual int area() = 0; };
struct Square : Shape { int side; __device__ Square(int s) : side(s) {} __device__ int area() override { return side * side; } };
__global__ void made(int* out, int n) {
  Shape* shape = new Square(threadIdx.x);
  int* own = (int*)malloc(4 * n);
  for (int i = 0; i < n; ++i) own[i] = i;
  out[threadIdx.x] = shape->area() + own[n - 1];
#ifdef WRONG
  out[threadIdx.x] += own[n];  // out-of-bounds
#endif
  delete shape;
  free(own);
#ifdef WRONG
  if (threadIdx.x == 3) out[3] = *own;  // dangling-pointer
#endif
}
int main() { int* p; cudaMallocManaged(&p, 128); made<<<1, 32>>>(p, 5); printf("%s %d\\n", cudaGetErrorName(cudaDeviceSynchronize()), p[5]); }
"""


def test_memory_that_kernels_allocate(tmp_path: Path) -> None:
    done = check(tmp_path / "program.cu", HEAP)
    assert (done.stdout, done.stderr) == ("cudaSuccess 29\n", "1 launch checked: no violation\n")
    text = "#define WRONG\n" + HEAP
    done = check(tmp_path / "program.cu", text)
    expected = {(n, line.split("// ")[1]) for n, line in enumerate(text.split("\n"), 1) if "// " in line}
    found = {(int(line), what) for line, what in re.findall(r"program\.cu:(\d+):\d+: ([a-z-]+): ", done.stderr)}
    assert found == expected, done.stderr


def test_functions_that_wait_are_called_through_pointers(tmp_path: Path) -> None:
    done = check(tmp_path / "program.cu", INDIRECT)
    assert done.stdout.splitlines() == [f"cudaSuccess {numbers}" for numbers in INDIRECTLY]
    assert done.stderr == "7 launches checked: no violation\n"


SHARED = """#include <cstdio>
#include <cuda_runtime.h>
__global__ void clean(int* out) {
  __shared__ int s[64], total, each[2]; extern __shared__ int sized[];
  int t = threadIdx.x;
  if (t == 0) total = 0;
  s[t] = t; sized[t] = 2 * t;
  __syncthreads();
  atomicAdd(&total, s[63 - t] + sized[(t + 1) % 64]);
  for (int by = 32; by > 0; by /= 2) {
    __syncthreads();
    if (t < by) s[t] += s[t + by];
  }
  __syncthreads();
  if (t < 32) { s[t] = t; __syncwarp(); sized[t] = s[31 - t] + s[t ^ 1]; __syncwarp(); s[t] = 2 * t; __syncwarp(); }
  int sum = t;
  for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(~0u, sum, by);
  if (t % 32 == 0) each[t / 32] = sum;
  __syncthreads();
  out[blockIdx.x * 64 + t] = total + each[0] + each[1] + s[t % 32];
}
__global__ void fibers(int* out) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = t;
#define STEP __syncthreads(); { int x = s[(t + 1) % 64]; __syncthreads(); s[t] = x; }
  STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP
  out[t] = s[t];
}
__global__ void wrong(int* out, int n) {
  __shared__ int s[64], flag, never[64], counts[96]; extern __shared__ int sized[];
  int t = threadIdx.x;
  s[t] = t;  // data-race
  out[t] = s[t ^ 1];  // data-race undefined-value
  __syncthreads();
  flag = t;  // data-race
  __syncthreads();
  out[t] += flag + never[t];  // undefined-value
  atomicExch(&counts[t], 1);
  atomicAdd(&counts[t + 32], 1);  // undefined-value
  for (int i = 0; i < n; ++i) {
    sized[t] = i;  // data-race
    __syncthreads();
    out[t] += sized[63 - t];  // data-race
    if (n < 2) __syncthreads();
  }
  __syncthreads();
  s[t] = t;
  __syncthreads();
  if (t < 32) { int x = s[t + 32]; s[t] = x; out[t] += s[t ^ 32]; }
  if (t >= 32) s[t] = 1;  // data-race
}
int main() {
  int* out; cudaMalloc(&out, 4 * 256); cudaMemset(out, 0, 4 * 256);
  clean<<<4, 64, 256>>>(out);
  clean<<<4, 64, 256>>>(out);
  fibers<<<1, 64>>>(out);
  wrong<<<1, 64, 256>>>(out, 2);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def test_objects_that_are_passed_as_bytes(tmp_path: Path) -> None:
    """Of classes with copy constructors: each thread has its own, by every kind of launch."""
    for command, said in (("run", ""), ("check", "7 launches checked: no violation\n")):
        done = check(tmp_path / "program.cu", OBJECTS, command)
        assert (done.stdout, done.stderr) == ("PASSED\n" * 7, said)
    after = OBJECTS.replace("*v.p +=", "(&v.p)[2 + i] = 0; *v.p +=")
    assert "store of 8 bytes at byte 16 of a variable of 16 bytes" in check(tmp_path / "program.cu", after).stderr


def test_races_in_shared_memory_and_reads_of_what_was_not_written(tmp_path: Path) -> None:
    done = check(tmp_path / "program.cu", SHARED)
    assert done.stdout == "cudaSuccess\n"
    expected = {
        (number, what)
        for number, line in enumerate(SHARED.split("\n"), 1)
        if "// " in line
        for what in line.split("// ")[1].split()
    }
    found = {(int(line), what) for line, what in re.findall(r"program\.cu:(\d+):\d+: ([a-z-]+): ", done.stderr)}
    assert found == expected, done.stderr
    assert "store of 4 bytes of shared memory beside a load by thread (" in done.stderr
    assert "atomic operation on 4 bytes of shared memory that its block has not written" in done.stderr
    assert "load of 4 bytes of shared memory that its block has not written" in done.stderr


OUTSIDE = """#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
struct alignas(16) Box { float a, b, c, d; };
__global__ void copy(float const* in, float* out, int n) {
  int i = threadIdx.x;
  if (i < n) *(float4*)&out[4 * i] = *(float4 const*)&in[4 * i];  // misaligned-access
  out[0] += ((Box const*)in)->b;
}
int main() {
  float* p; cudaMalloc(&p, 1024); cudaMemset(p, 0, 1024);
  std::vector<float> host(256);
  copy<<<1, 32>>>(p, p + 128, 32);
  copy<<<1, 32>>>(p + 1, p + 128, 31);
  cudaError_t stopped = cudaDeviceSynchronize();
  cudaMemcpy(p, host.data(), 1024, cudaMemcpyHostToDevice);
  cudaMemcpy(p + 1, host.data(), 1024, cudaMemcpyHostToDevice);  // out-of-bounds
  cudaMemcpy(p, host.data(), 1024, cudaMemcpyDeviceToHost);  // dangling-pointer
  cudaMemset(p + 250, 0, 32);  // out-of-bounds
  printf("%s\\n", cudaGetErrorName(stopped));
}
"""


def test_vectors_at_wrong_addresses_and_copies_outside(tmp_path: Path) -> None:
    done = check(tmp_path / "program.cu", OUTSIDE)
    assert (done.stdout, done.returncode) == ("cudaSuccess\n", 1)
    lines = enumerate(OUTSIDE.split("\n"), 1)
    expected = {(number, line.split("// ")[1]) for number, line in lines if "// " in line}
    found = {(int(line), what) for line, what in re.findall(r"program\.cu:(\d+):\d+: ([a-z-]+): ", done.stderr)}
    assert found == expected, done.stderr
    assert "load of 16 bytes at an address that is no multiple of 16" in done.stderr
    assert "1024 bytes copied to byte 4 of an allocation of 1024 bytes" in done.stderr
    assert "32 bytes set at byte 1000 of an allocation of 1024 bytes" in done.stderr
    assert "2 launches checked: 4 violations of 3 categories" in done.stderr


ARITHMETIC = """#include <cstdio>
#include <climits>
__device__ int half_of(int x, int by) { return x / by; }  // division-by-zero
template <typename T> __global__ void k(T* out, int const* n, long long const* wide, unsigned u) {
  int i = threadIdx.x;
  out[i] = half_of(100, n[i]);
  out[i] += 7 % n[i];  // division-by-zero
  out[i] ^= (INT_MIN + n[5]) / n[1];  // div-overflow
  out[i] ^= 1 << n[i + 8];  // shift-negative shift-too-wide
  out[i] ^= int(wide[0] >> n[i + 8]);  // shift-negative shift-too-wide
  out[i] ^= 5u / (u - 3);  // division-by-zero
  unsigned fine = 0xffffffffu + u; fine <<= 31; fine = fine * fine - 5;
  int j = i; for (int s = 0; s < 31; ++s) j ^= (1 << s) >> 1;
  out[i] ^= fine + j + __ffs(i) + __brev(i) + __byte_perm(i, j, 0x1234) + __funnelshift_l(i, j, 40) + __vadd2(i, j) + __clz(i);
  char c = char(i); c += 127; c <<= 3; short h = short(c) * 1000; out[i] ^= h;
}
int main() {
  int* n; long long* wide; int* out;
  cudaMallocManaged(&n, 256); cudaMallocManaged(&wide, 16); cudaMallocManaged(&out, 64);
  for (int i = 0; i < 32; ++i) n[i] = i;
  n[1] = -1; n[5] = 0; n[0] = 1; n[8] = -1; n[9] = 32; n[10] = 64; for (int i = 11; i < 32; ++i) n[i] = 3;
  wide[0] = 1;
  k<<<1, 8>>>(out, n, wide, 3);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def test_arithmetic_without_a_result(tmp_path: Path) -> None:
    """Divisions and shifts whose operands leave it undefined; those beside them are clean."""
    done = check(tmp_path / "program.cu", ARITHMETIC)
    assert done.stdout == "cudaSuccess\n"
    lines = enumerate(ARITHMETIC.split("\n"), 1)
    expected = {(number, what) for number, line in lines if "// " in line for what in line.split("// ")[1].split()}
    found = {(int(line), what) for line, what in re.findall(r"program\.cu:(\d+):\d+: ([a-z-]+): ", done.stderr)}
    assert found == expected, done.stderr
    assert "program.cu:7:15: division-by-zero: remainder of 7 by zero" in done.stderr
    assert "-2147483648 / -1 does not fit 32 bits" in done.stderr and "thread: (5, 0, 0)" in done.stderr
    assert "shift by 64, but the number has 64 bits" in done.stderr


MEMORY = """#include <cstdio>
#include <cuda_runtime.h>
__global__ void sum(int* out, int const* in) {
  __shared__ int s[64];
  s[threadIdx.x] = in[threadIdx.x];  // undefined-value
  if (threadIdx.x < 32) __syncthreads();  // deadlock
  out[threadIdx.x] = s[threadIdx.x];
}
__global__ void add(int* p, int4* q) { p[threadIdx.x] += q[threadIdx.x].x; }
int main() {
  int *p, *q, *r; cudaMalloc(&p, 256); cudaMalloc(&q, 256); cudaMalloc(&r, 1024);
  int host[64] = {};
  cudaMemcpy(p, host, 256, cudaMemcpyHostToDevice); cudaMemset(r, 0, 1024);
  add<<<1, 64>>>(p, (int4*)r);
  cudaMemcpy(r, q, 256, cudaMemcpyDeviceToDevice);
  sum<<<1, 64>>>(p, r);
  cudaFree(q);
  cudaFree(q);  // dangling-pointer
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


def test_memory_that_nobody_wrote_or_that_is_freed_twice(tmp_path: Path) -> None:
    """Copies take along what was not written; a barrier that not all reach has its column and its block."""
    done = check(tmp_path / "program.cu", MEMORY)
    lines = enumerate(MEMORY.split("\n"), 1)
    expected = {(number, line.split("// ")[1]) for number, line in lines if "// " in line}
    found = {(int(line), what) for line, what in re.findall(r"program\.cu:(\d+):\d+: ([a-z-]+): ", done.stderr)}
    assert found == expected, done.stderr
    assert "program.cu:5:20: undefined-value: load of 4 bytes of memory that nobody has written" in done.stderr
    assert "program.cu:6:25: deadlock: " in done.stderr and "remedy: let all threads come" in done.stderr


@pytest.mark.parametrize(
    ("end", "status"), [("exit(0);", 1), ("exit(7);", 7), ("assert(cudaDeviceSynchronize());", -signal.SIGABRT)]
)
def test_programs_that_do_not_return_from_main_are_reported(tmp_path: Path, end: str, status: int) -> None:
    (tmp_path / "program.cu").write_text(
        "#include <cassert>\n#include <cstdlib>\n#include <cuda_runtime.h>\n__global__ void k(int* p) { p[2] = 1; }\n"
        f"int main() {{ int* p; cudaMalloc(&p, 8); k<<<1, 1>>>(p); {end} }}\n"
    )
    command = [sys.executable, "-m", "tilewright", "check", "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "program.cu:4:34: out-of-bounds: store of 4 bytes" in done.stderr and done.returncode == status, done.stderr
    assert done.stderr.count("1 launch checked: 1 violation") == 1


def test_traps_are_violations(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(
        "#include <cuda_runtime.h>\n__global__ void k(int* p) {\n  if (blockIdx.x == 3)\n    __trap();\n  *p = 1;\n}\n"
        "int main() {\n  int* p;\n  cudaMalloc(&p, 4);\n  k<<<4, 1>>>(p);\n  return cudaDeviceSynchronize() == cudaErrorLaunchFailure ? 0 : 2;\n}\n"
    )
    command = [sys.executable, "-m", "tilewright", "check", "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "program.cu:4:1: failed-assertion: a trap" in done.stderr and "block: (3, 0, 0)" in done.stderr, done.stderr
    assert done.returncode == 1


def test_launches_that_are_refused_are_reported_at_their_line(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(
        "#include <cuda_runtime.h>\n#include <cuda_tile.h>\n__tile_global__ void t(int* p) { *p = 1; }\n"
        "__global__ void k(int* p) { *p = 1; }\nint main() {\n  int* p;\n  cudaMalloc(&p, 4);\n"
        "  k<<<1, 2048>>>(p);\n  cudaGetLastError();\n  t<<<1, 32>>>(p);\n  k<<<1, 2048>>>(p);\n  int own;\n  t<<<1, 1>>>(&own);\n}\n"
    )
    command = [sys.executable, "-m", "tilewright", "check", "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    found = [line.split(": ")[:2] for line in done.stderr.split("\n") if line.startswith("program.cu:")]
    places = [(place.split(":")[1], category) for place, category in found]
    assert places == [("13", "dangling-pointer"), ("10", "refused-launch"), ("11", "refused-launch")], done.stderr
    assert done.returncode == 1


BRANCHES = """#include <cstdlib>
#include <cuda_runtime.h>
__global__ void k(int* p) { *p = 1; }
int main(int, char** arguments) {
  int what = atoi(arguments[1]), *p, *q, own;
  cudaMalloc(&p, 4), cudaMalloc(&q, 8);
  if (what == 7) k<<<1, 2048>>>(p);
  if (what == 8) k<<<1, 2049>>>(p);
  if (what == 9) { cudaMemcpy(p, q, 8, cudaMemcpyDeviceToDevice); }
  if (what == 10) { cudaMemcpy(&own, p, 4, cudaMemcpyHostToDevice); }
}
"""


@pytest.mark.parametrize("line", [7, 8, 9, 10])
def test_calls_at_the_ends_of_branches_have_their_lines(tmp_path: Path, line: int) -> None:
    """LLVM merges such calls where it may."""
    (tmp_path / "program.cu").write_text(BRANCHES)
    command = [sys.executable, "-m", "tilewright", "check", "program.cu", str(line)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert re.findall(r"^program\.cu:(\d+):", done.stderr, re.M) == [str(line)] and done.returncode == 1, done.stderr


HOSTS = """
#include <cuda_runtime.h>
float of_program[32];
__managed__ float managed[32];
__device__ float on_device[32];
__device__ float* inner = on_device;
struct Values { float v[32]; };
__device__ float read(float const* p, int i) { return p[i]; }
__global__ void step(float* p) { p[threadIdx.x] += 1; }
__global__ void sum(Values by_value, float* out) {
  static __device__ float kept[4];
  float own[8];
  for (int i = 0; i < 8; ++i) own[i] = i;
  int i = threadIdx.x;
  by_value.v[i] = read(by_value.v, i) + read(own, i % 8);
  out[i] = read(by_value.v, i) + read(inner, i) + read(kept, i % 4);
}
int main() {
  float on_stack[32] = {};
  static float of_function[32];
  void* found;
  cudaGetSymbolAddress(&found, on_device);
  step<<<1, 32>>>((float*)found);
  step<<<1, 32>>>(managed);
  Values values{};
  sum<<<1, 32>>>(values, managed);
  for (float* wrong : {on_stack, of_program, of_function}) step<<<1, 32>>>(wrong);
  return cudaDeviceSynchronize() || managed[31] != 8 || on_stack[3] + of_program[3] + of_function[3] != 0;
}
"""


def test_variables_of_the_host_are_no_memory_of_the_device(tmp_path: Path) -> None:
    """Arrays on the stack of the host, of the program, and of a function: 32 loads and stores of each. What devices may
    use is not reported, not even where it begins at the end of another variable."""
    done = check(tmp_path / "hosts.cu", HOSTS)
    assert re.search(r"hosts\.cu:9:\d+: dangling-pointer: load of 4 bytes at \w+, which is no memory of", done.stderr)
    assert "6 launches checked: 1 violation of 1 category, seen 192 times" in done.stderr and done.returncode == 1


USER = """
#include <cuda_runtime.h>
extern float* of_another_file();
__global__ void step(float* p) { p[threadIdx.x] += 1; }
int main() {
  step<<<1, 32>>>(of_another_file());
  return cudaDeviceSynchronize() != 0;
}
"""
OWNER = """
static float of_this_file[32];
float* of_another_file() { return of_this_file; }
"""


def test_variables_of_other_files_are_no_memory_of_the_device(tmp_path: Path) -> None:
    """Nor are those of a file that knows nothing of devices."""
    (tmp_path / "owner.cpp").write_text(OWNER)
    (tmp_path / "user.cu").write_text(USER)
    command = [sys.executable, "-m", "tilewright", "check", "user.cu", "owner.cpp"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert re.search(r"user\.cu:4:\d+: dangling-pointer: load of 4 bytes at \w+, which is no memory of", done.stderr)
    assert "seen 64 times" in done.stderr and done.returncode == 1, done.stderr
