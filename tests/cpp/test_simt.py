"""SIMT kernels of C++ programs on the CPU: many in one program, as each compilation takes a while."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from support.simt_programs import HEAD, INDIRECT, INDIRECTLY, KERNELS, MAIN, MORE

from tilewright.cpp.host.build import build_unit
from tilewright.cpp.module import request_of
from tilewright.ir.errors import TileUnsupportedFeatureError


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
// As on GPUs whose warps ran in step.
__device__ void tail(volatile int* s, int t) {
  s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8]; s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1];
}
__global__ void in_step(int* out) {
  __shared__ int s[192];
  int t = threadIdx.x;
  volatile int *v = s, own = t;
  s[t] = own + 1;
  __syncthreads();
  if (t < 32) tail(s, t);
  else for (int half = 16; half > 0; half >>= 1) if (t < 64 + half) v[t] += v[t + half];
  if (t % 64 == 0) out[t / 64] = s[t];
}
"""


def test_functions_of_simt_code(tmp_path: Path) -> None:
    main = """int main() {
  double* worst; int* out; cudaMallocManaged(&worst, 1024); cudaMallocManaged(&out, 12); cudaMemset(out, 0, 12);
  inverses<<<1, 128>>>(worst); integers<<<1, 32>>>(out);
  double most = 0; for (int i = 0; i < 128; ++i) most = worst[i] < most ? most : worst[i];
  printf("%d, %d %d %d\\n", most < 1e-13, out[0], out[1], out[2]);
  in_step<<<1, 96>>>(out); cudaDeviceSynchronize();
  printf("%d %d\\n", out[0], out[1]);
}"""
    done = run(tmp_path / "program.cu", FUNCTIONS + main)
    assert (done.stdout, done.stderr) == (
        f"1, 32 {1 + 3 * (1 + 255 + 2 + 254)} 1\n{64 * 65 // 2} {sum(range(65, 97))}\n",
        "",
    )


HELPERS = r"""#include <cstdio>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cuda_runtime.h>
__global__ void count(int* p) { atomicAdd(p, 1); __syncwarp(); }
static int* total;
static void* launch(void*) {
  for (int i = 0; i < 50; ++i) count<<<20, 32>>>(total);
  return nullptr;
}
int main() {
  cudaMallocManaged(&total, 4); *total = 0;
  pthread_t others[3];
  for (pthread_t& each : others) pthread_create(&each, nullptr, launch, nullptr);
  for (pthread_t each : others) pthread_join(each, nullptr);
  int waits = 0;
  for (int i = 0; i < 20; ++i) {  // with work that is not done yet
    pid_t child = fork();
    if (child == 0) { *total = 0; launch(nullptr); cudaDeviceSynchronize(); _exit(*total == 50 * 640 ? 7 : 1); }
    int status = 0; waitpid(child, &status, 0);
    waits += WEXITSTATUS(status) == 7;
  }
  launch(nullptr);
  cudaDeviceSynchronize();
  printf("%d %d\n", *total == 4 * 50 * 640, waits);
}
"""


def test_launches_of_several_threads_and_processes(tmp_path: Path) -> None:
    done = run(tmp_path / "program.cu", HELPERS)
    assert (done.stdout, done.stderr) == ("1 20\n", "")


TWO_POOLS = r"""#include <cstdio>
#include <thread>
#include "cuda_tile.h"
namespace ct = cuda::tiles;
__global__ void simt(int* now, int* most, float* p) {
  if (threadIdx.x == 0) atomicMax(most, atomicAdd(now, 1) + 1);
  float x = p[threadIdx.x];
  for (int i = 0; i < 5000; ++i) x = x * 0.5f + 1;
  p[threadIdx.x] = x;
  if (threadIdx.x == 0) atomicSub(now, 1);
}
__tile_global__ void tile(int* now, int* most, float* p) {
  ct::memory_order_relaxed_t relaxed;
  ct::atomic_max(most, ct::atomic_add(now, 1, relaxed) + 1, relaxed);
  auto at = p + ct::iota<ct::tile<int, ct::shape<64>>>();
  auto x = ct::load(at);
  for (int i = 0; i < 5000; ++i) x = x * 0.5f + 1.0f;
  ct::store(at, x);
  ct::atomic_sub(now, 1, relaxed);
}
int main() {
  int* counts; float* p;
  cudaMallocManaged(&counts, 8); cudaMallocManaged(&p, 512);
  counts[0] = counts[1] = 0;
  std::thread a([&] { for (int i = 0; i < 8; ++i) simt<<<64, 64>>>(counts, counts + 1, p); });
  std::thread b([&] { for (int i = 0; i < 8; ++i) tile<<<64>>>(counts, counts + 1, p + 64); });
  a.join(); b.join();
  cudaDeviceSynchronize();
  printf("%d %d\n", counts[0], counts[1] <= 2);
}
"""


def test_simt_and_tile_kernels_share_the_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "2")
    done = run(tmp_path / "program.cu", TWO_POOLS)
    assert (done.stdout, done.stderr) == ("0 1\n", "")
    command = [sys.executable, "-m", "tilewright", "c++", str(tmp_path / "program.cu"), "-o", str(tmp_path / "program")]
    subprocess.run(command, check=True, timeout=300)
    assert subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout == "0 1\n"


BY_VALUE = """#include <cstdio>
#include <cuda_runtime.h>
struct Pair { float a; int n; float* p; };
struct Three { float x, y, z; };
__global__ void k(float* out, Pair q, int by, Three t) { *out = by * (q.a + q.n + *q.p) + t.x + 2 * t.z; }
int main() {
  float *out, *quarter; cudaMallocManaged(&out, 4); cudaMallocManaged(&quarter, 4); *quarter = 0.25f;
  Pair q{1, 2, quarter}; int by = 4; Three t{16, 0, 32};
  void* slots[] = {&out, &q, &by, &t};
  cudaLaunchKernel((void*)k, 1, 1, slots, 0, 0);
  printf("%g\\n", *out);
}
"""


def test_structs_in_the_table_of_arguments(tmp_path: Path) -> None:
    done = run(tmp_path / "program.cu", BY_VALUE)
    assert (done.stdout, done.stderr) == ("93\n", "")


SPACES = """#include <cuda_runtime.h>
#define HD __host__ __device__
constexpr int three() { return 3; }
HD float both(float x) { return x + 1; }
float host_only(float x) { return x * 2; }
struct V { float x; HD V(float y) : x(y) {} __device__ float get() const; V(V const&) = default; };
__device__ float V::get() const { return x; }
template <typename T> __device__ T same(T x) { return x; }
#define ENTRY(...) __device__ static void entry(__VA_ARGS__)
struct Agent {
  ENTRY(float* p) { p[0] = 4; }
};
__global__ void k(float* p) {
  V v(both(1.0f)), w = v;
  auto f = [&](float x) { return x + w.get(); };
  p[0] = same(f(three()));
  Agent::entry(p);
#ifdef BAD
  p[0] += host_only(p[0]);
#endif
}
int main() { return int(host_only(1)) - 2; }
"""


def test_functions_of_the_host_are_refused_in_kernels(tmp_path: Path) -> None:
    done = run(tmp_path / "program.cu", SPACES)
    assert (done.returncode, done.stderr) == (0, "")
    done = run(tmp_path / "program.cu", "#define BAD\n" + SPACES)
    assert done.returncode != 0
    assert "program.cu:20:11: k() runs on the device and calls host_only(), which is for the host alone" in done.stderr


DEVICE_CODE = """#include <cuda_runtime.h>
#define DEVICE inline __device__
#define HD __host__ __device__
#ifdef __CUDACC__
#define EITHER __device__
#else
#define EITHER
#endif
struct V {
  float x;
  DEVICE float get() const { return x; }
  HD float both() const { return x; }
};
DEVICE float half_of(float x) { return x / 2; }
float half_of(double x) { return float(x / 4); }
template <typename T> __device__ T same(T x) { return x; }
EITHER float either(float x) { return x; }
constexpr __device__ int four() { return 4; }
__global__ void k(float* p) { *p = half_of(V{*p}.get()) + same(1.0f); }
int main() {
  V v{1};
  float found = v.both() + half_of(2.0) + either(1) + four();
#ifdef BAD
  found += BAD;
#endif
  printf("%g\\n", found);
}
"""


@pytest.mark.parametrize(
    ("call", "name"), [("", ""), ("v.get()", "get"), ("half_of(1.0f)", "half_of"), ("same(2)", "same")]
)
def test_functions_of_the_device_alone_are_refused_on_the_host(tmp_path: Path, call: str, name: str) -> None:
    done = run(tmp_path / "program.cu", f"#define BAD {call}\n" * bool(call) + DEVICE_CODE)
    if not call:
        assert (done.returncode, done.stdout, done.stderr) == (0, "6.5\n", "")
    else:
        assert done.returncode != 0
        assert re.search(rf"program.cu:25:\d+: main\(\) is for the host and calls {name}\(\)", done.stderr)


def test_functions_of_the_device_alone_are_refused_in_tile_code(tmp_path: Path) -> None:
    text = """#include <cuda_tile.h>
__device__ int of_threads(int x) { return x + threadIdx.x; }
__tile_global__ void tile(int* p) { *p = of_threads(*p); }
int main() { tile<<<1>>>(nullptr); }
"""
    done = run(tmp_path / "program.cu", text)
    assert "program.cu:3:42: a __device__ function cannot be called from tile code; declare it __tile__" in done.stderr


TILE_CODE = """#include <cuda_tile.h>
namespace ct = cuda::tiles;
__tile__ float twice(float x) { return ct::exp(x) * 2; }
__tile__ float unused(float x) { return twice(x); }
__tile_global__ void tile(float* p) { ct::store(p, twice(ct::load(p))); }
void launch(float* p) { tile<<<1>>>(p); }
#ifdef BAD
BAD
#endif
"""


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, ""),
        (
            "float host() { return twice(1); }",
            r"8:\d+: host\(\) is not tile code and calls twice\(\), which is tile code",
        ),
        ("__global__ void k(int* p) { *p = ct::bid().x; }", r"8:\d+: k\(\) is not tile code and calls .*bid\(\)"),
    ],
)
def test_tile_code_is_refused_elsewhere(bad: str | None, message: str, tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(TILE_CODE.replace("BAD\n#endif", f"{bad}\n#endif"))
    request = request_of(tmp_path / "program.cu", "c++20", {} if bad is None else {"BAD": 1}, [])
    with nullcontext() if bad is None else pytest.raises(TileUnsupportedFeatureError, match=message):
        build_unit(request)


GROUPS = r"""#include <cstdio>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__device__ int next(int* counter) {
  auto group = cg::coalesced_threads();
  int first = 0;
  if (group.thread_rank() == 0) first = atomicAdd(counter, int(group.size()));
  return group.shfl(first, 0) + int(group.thread_rank());
}
__global__ void filter(int* out, int* counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && i % 3 == 0) {
    out[next(counts)] = i;
    if (cg::coalesced_threads().thread_rank() == 0) atomicAdd(counts + 1, 1);
  }
}
__global__ void parts(int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int lane = threadIdx.x;
  auto odd = cg::binary_partition(warp, lane & 1), tens = cg::labeled_partition(warp, lane / 10);
  auto fours = cg::tiled_partition(tens, 4);
  int found[] = {cg::reduce(tens, lane, cg::plus<int>()),
                 int(tens.meta_group_rank() * 100 + tens.meta_group_size() * 10 + tens.size()),
                 odd.shfl_down(lane, 1), int(odd.ballot(lane < 8)), cg::exclusive_scan(odd, 1),
                 int(fours.size() * 100 + fours.thread_rank() * 10 + fours.meta_group_rank()),
                 cg::inclusive_scan(warp, lane, cg::greater<int>()), int(tens.match_any(lane % 5))};
  for (int i = 0; i < 8; ++i) out[32 * i + lane] = found[i];
}
__global__ void active(int* out) {
  int lane = threadIdx.x & 31;
  if (lane < 10) out[threadIdx.x] = __activemask();
  else for (int i = 0; i <= lane / 8; ++i) out[threadIdx.x] = __activemask();
}
__global__ void whole(int* out) {
  auto grid = cg::this_grid();
  if (grid.thread_rank() < grid.size()) out[grid.thread_rank()] = int(grid.block_rank() * 100 + grid.num_threads() + grid.num_blocks());
}
__device__ int depth(int n) { return n == 0 ? __popc(__activemask()) : depth(n - 1); }
__global__ void fibers(int* out) { out[threadIdx.x] = threadIdx.x % 4 ? depth(3) : 0; }
int main() {
  int *out, *counts;
  cudaMallocManaged(&out, 4096); cudaMallocManaged(&counts, 8); counts[0] = counts[1] = 0;
  filter<<<8, 128>>>(out, counts, 1000);
  int sum = 0; for (int i = 0; i < counts[0]; ++i) sum += out[i];
  printf("%d %d %d\n", counts[0], sum, counts[1]);
  parts<<<1, 32>>>(out);
  for (int i = 0; i < 8; ++i) printf("%d %d %d\n", out[32 * i], out[32 * i + 5], out[32 * i + 30]);
  active<<<1, 64>>>(out);
  printf("%x %x %x\n", out[0], out[16], out[63]);
  fibers<<<1, 40>>>(out);
  printf("%d %d %d\n", out[1], out[4], out[39]);
  whole<<<dim3(2, 3), dim3(4, 5)>>>(out);
  printf("%d %d %d\n", out[0], out[39], out[119]);
}
"""


def test_groups_of_lanes(tmp_path: Path) -> None:
    done = run(tmp_path / "program.cu", GROUPS)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "334 166833 32",
        *("45 45 61", "50 50 342", "2 7 30", "15 15 15", "0 2 15", "400 411 200", "0 5 30", "33 33 1"),
        "3ff ffff0000 ff000000",
        "24 0 6",
        "126 226 626",
    ]


ANY_GROUP = r"""#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuComplex.h>
#include <driver_functions.h>
#include <library_types.h>
#include <cstdio>
#if !defined(__NVCC__) || !defined(__CUDACC_EXTENDED_LAMBDA__) || !defined(__BUILTIN_TYPES_H__)
#error what programs test for
#endif
namespace cg = cooperative_groups;
__device__ int sum(cg::thread_group group, int* shared, int value) {
  int rank = group.thread_rank();
  for (int i = group.size() / 2; i > 0; i /= 2) {
    shared[rank] = value;
    group.sync();
    if (rank < i) value += shared[rank + i];
    group.sync();
  }
  return value;
}
__global__ void k(int* out, int const* in) {
  __shared__ int part[128], copy[128];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, copy, in, sizeof(int) * 128);
  cg::wait(block);
  int all = sum(block, part, copy[block.thread_rank()]);
  if (block.thread_rank() == 0) out[0] = all;
  block.sync();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  int some = sum(warp, part + 32 * (threadIdx.x / 32), copy[threadIdx.x]);
  if (warp.thread_rank() == 0) out[1 + threadIdx.x / 32] = some;
  cg::thread_group fours = cg::tiled_partition(block, 4);
  if (threadIdx.x == 5) out[5] = fours.thread_rank() * 10 + fours.size();
  int first = cg::invoke_one_broadcast(warp, [=] { return int(threadIdx.x); });
  if (threadIdx.x == 70) out[6] = first;
  cg::invoke_one(block, [=] { out[7] = threadIdx.x + 7; });
}
__global__ void product(cuFloatComplex* z) { z[2] = cuCdivf(cuCmulf(z[0], z[1]), make_cuComplex(0, 2)); }
int main() {
  int *in, *out; cuFloatComplex* z;
  cudaMallocManaged(&in, 512); cudaMallocManaged(&out, 64); cudaMallocManaged(&z, 24);
  for (int i = 0; i < 128; ++i) in[i] = i;
  z[0] = make_cuFloatComplex(1, 2), z[1] = make_cuFloatComplex(3, -1);
  k<<<1, 128>>>(out, in); product<<<1, 1>>>(z); cudaDeviceSynchronize();
  for (int i = 0; i < 8; ++i) printf("%d ", out[i]);
  printf("%g %g\n", z[2].x, z[2].y);
}
"""


def test_any_group_and_what_programs_include(tmp_path: Path) -> None:
    done = run(tmp_path / "program.cu", ANY_GROUP)
    assert (done.stdout, done.stderr) == ("8128 496 1520 2544 3568 14 64 7 2.5 -2.5\n", "")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('@asm("nop");', "k() runs on the device and uses inline assembly, which is not available"),
        ("k@<<<1, 1>>>(p);", "a kernel that launches a kernel is not available on a CPU"),
        ("@throw 3;", "SIMT code has no exceptions"),
        ("*p = @tex2D<float>(0ull, 1.0f, 2.0f);", "textures and surfaces are not available on a CPU; read the array"),
        ("@surf2Dwrite(1.0f, 0ull, 2, 0);", "textures and surfaces are not available on a CPU; read the array"),
        ("cooperative_groups::this_grid().@sync();", "a barrier of the whole grid is not available on a CPU"),
        (
            "std::vector<int> @own(3); *p = own[1];",
            "k() runs on the device and uses std::vector, which is for the host",
        ),
        ('std::string own = @p[0] ? "a" : "b";', "uses std::basic_string, which is for the host alone"),
        ("std::function<int()> f = @[=] { return *p; };", "uses std::function, which is for the host alone"),
        ("@int own[*p]; p[1] = own[2];", "uses an array of variable length, which SIMT code does not have"),
        ("@static int own = *p; p[1] = own;", "uses a static variable that is initialized when it is reached"),
        ("*p = @dynamic_cast<Derived*>((Base*)p) != nullptr;", "uses dynamic_cast, which SIMT code does not have"),
        (
            "std::shuffle(p, p + 4, @std::minstd_rand(3));",
            "uses std::linear_congruential_engine, which is for the host",
        ),
        ("long double own = @*p; *p = int(own);", "k() runs on the device and uses long double, which devices do not"),
        ("*p = @rand();", "uses rand(), which is for the host alone"),
        (
            "[](int* q) { *q = @rand(); }(p);",
            ": the lambda runs on the device and uses rand(), which is for the host",
        ),
        ("*p = @hosts;", "uses hosts, a variable of the host; declare it __device__, __constant__ or constexpr"),
    ],
)
def test_what_a_cpu_cannot_do_is_refused(tmp_path: Path, statement: str, message: str) -> None:
    """At the place that an @ marks."""
    headers = {"shuffle": "algorithm", "groups": "cooperative_groups.h", "minstd": "random", "vector": "vector"}
    headers |= {"function": "functional", "string": "string"}
    head = "".join(f"#include <{header}>\n" if word in statement else "\n" for word, header in headers.items())
    head += "int hosts;\nstruct Base { virtual ~Base() {} }; struct Derived : Base {};"
    code = statement.replace("@", "")
    done = run(tmp_path / "program.cu", f"{head}\n__global__ void k(int* p) {{\n  {code}\n}}\nint main() {{}}\n")
    place = f"program.cu:10:{3 + statement.index('@')}: "
    assert done.returncode != 0 and place in done.stderr and message in done.stderr


@pytest.mark.parametrize("body", ["x + @hosts", "x + @rand()", "@std::vector<float>(3)[1]", "@y"])
def test_lambdas_of_launches_are_refused_where_they_are_written(tmp_path: Path, body: str) -> None:
    """In host code, at the place that an @ marks."""
    head = f"#include <cstdlib>\n{'#include <vector>' if 'vector' in body else ''}\n#include <cuda_runtime.h>\nint hosts;\n"
    head += "template <typename F> __global__ void apply(float* p, F f) { *p = f(*p); }\n"
    call = f"apply<<<1, 1>>>(nullptr, [=] __device__ (float x) {{ return {body}; }});"
    done = run(tmp_path / "program.cu", f"{head}int main() {{\n  if (hosts) {call.replace('@', '')}\n}}\n")
    assert done.returncode != 0 and f"program.cu:7:{14 + call.index('@')}: " in done.stderr, done.stderr


BOTH_SIDES = """#include <cuda_runtime.h>
#ifdef __CUDA_ARCH__
#define FAIL() __trap()
#else
#define FAIL() throw 1
#endif
__host__ __device__ int asked(int x) { if (x < 0) FAIL(); return x; }
__host__ __device__ int parts(int x) {
#ifndef __CUDA_ARCH__
    if (x < 0) throw 2;
#endif
    return x;
}
__host__ __device__ int unused(int x) { if (x < 0) throw 3; return x; }
__host__ __device__ int thrown(int x) { if (x < 0) @throw 4; return x; }
__global__ void k(int* p) { *p = asked(*p) + parts(*p)@; }
int main() {}
"""


def test_what_functions_for_both_sides_throw(tmp_path: Path) -> None:
    """It is refused where a kernel leads to it, unless it may be the host's part of the function."""
    assert run(tmp_path / "program.cu", BOTH_SIDES.replace("@", "")).stderr == ""
    done = run(tmp_path / "program.cu", BOTH_SIDES.replace(")@;", ") + thrown(*p);").replace("@", ""))
    assert "program.cu:15:52: thrown() runs on the device and uses throw" in done.stderr


def test_a_kernel_without_its_closing_brace(tmp_path: Path) -> None:
    text = "__global__ void k(int* p) {\n  if (*p) {\n}\nint main() {\n  k<<<1, 1>>>(nullptr);\n}\n"
    assert "program.cu:4:12: function definition is not allowed here" in run(tmp_path / "program.cu", text).stderr


ON_A_DEVICE = r"""#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <cuda/std/array>
#include <cuda/std/optional>
#include <cuda_runtime.h>
#define TABLE(name) __device__ int name[4]
#define DEV __device__
TABLE(table);
DEV int one = 1;
__constant__ float thirds[3] = {1, 2, 3};
__managed__ int managed = 2;
const int limit = 7;
constexpr int list[] = {1, 2};
int hosts = 4;
namespace far { __device__
  int away = 5; }
struct S { static __device__ int member; };
__device__ int S::member = 9;
template <class T> __device__ T variable = T(3);
__host__ __device__ int both(int x) {
#ifdef __CUDA_ARCH__
  return x;
#else
  if (x > 1000) fprintf(stderr, "x"), exit(3);
  return x + hosts - 4;
#endif
}
struct Shape {
  int x;
  __device__ Shape(int v) : x(v) {}
  __device__ virtual ~Shape() { x = -1; }
  __device__ virtual int get() const { return x; }
};
struct Twice : Shape {
  using Shape::Shape;
  __device__ int get() const override { return 2 * x; }
};
__global__ void k(int* p) {
  static int calls = 0;
  std::array<int, 3> a = {3, 2, 1};
  cuda::std::array<int, 3> b = {1, 2, 3};
  cuda::std::optional<int> o = 3;
  std::sort(a.begin(), a.end());
  auto [x, y] = std::pair<int, float>(1, 2.f);
  Shape* shape = threadIdx.x % 2 ? new Shape(threadIdx.x) : new Twice(threadIdx.x);
  int *many = new int[4], *raw = (int*)malloc(16);
  many[3] = raw[2] = 5;
  p[threadIdx.x] = a[2] + b.at(2) + o.value() + std::max(x, 2) + int(y) + limit + list[1] + table[0] + one + int(thirds[0])
      + managed + far::away + S::member + variable<int> + both(3) + many[3] + raw[2] + 100 * shape->get();
  delete shape; delete[] many; free(raw);
  printf("");
  ++calls;
}
int main() {
  int* p; cudaMallocManaged(&p, 16);
  k<<<1, 4>>>(p);
  printf("%d %d %d %d %d\n", cudaDeviceSynchronize(), p[0], p[1], p[2], p[3]);
}
"""


def test_what_code_of_the_device_may_use(tmp_path: Path) -> None:
    done = run(tmp_path / "program.cu", ON_A_DEVICE)
    assert (done.stdout, done.stderr) == ("0 56 156 456 356\n", "")


STEPS = r"""#include <algorithm>
#include <cstdio>
#include <cuda/atomic>
#include <cuda_runtime.h>
template <typename T, typename F> unsigned halves(unsigned x, unsigned y, unsigned z, F f) {
  unsigned found = 0;
  for (int at : {0, 16}) found |= unsigned((unsigned short)f(T(x >> at), T(y >> at), T(z >> at))) << at;
  return found;
}
#define ALL(X) X(__viaddmax, std::max<T>(T(unsigned(a) + unsigned(b)), c)) X(__viaddmin, std::min<T>(T(unsigned(a) + unsigned(b)), c)) \
  X(__vimax3, std::max<T>({a, b, c})) X(__vimin3, std::min<T>({a, b, c}))
#define GIVEN(name, f) *out++ = name##_s32(x, y, z), *out++ = name##_s32_relu(x, y, z), *out++ = name##_u32(x, y, z), \
  *out++ = name##_s16x2(x, y, z), *out++ = name##_s16x2_relu(x, y, z), *out++ = name##_u16x2(x, y, z);
#define WANTED(name, f) { auto step = []<typename T>(T a, T b, T c) -> T { return f; }; auto relu = [=]<typename T>(T a, T b, T c) -> T { return std::max<T>(step(a, b, c), 0); }; \
  *out++ = step(int(x), int(y), int(z)), *out++ = relu(int(x), int(y), int(z)), *out++ = step(x, y, z), \
  *out++ = halves<short>(x, y, z, step), *out++ = halves<short>(x, y, z, relu), *out++ = halves<unsigned short>(x, y, z, step); }
constexpr int many = 64, each = 24;
__global__ void given(unsigned* out, unsigned const* in) {
  unsigned t = threadIdx.x, x = in[t], y = in[t + 1], z = in[t + 2];
  out += t * each;
  ALL(GIVEN)
}
__global__ void chosen(unsigned* out, int a, int b) {
  bool h, l;
  out[0] = __vibmax_s32(a, b, &h), out[1] = h, out[2] = __vibmin_u32(a, b, &h), out[3] = h;
  out[4] = __vibmax_s16x2(a, b, &h, &l), out[5] = h * 2 + l, out[6] = __vibmin_u16x2(a, b, &h, &l), out[7] = h * 2 + l;
  out[8] = __vimax_s32_relu(a, -1), out[9] = __vimin_s16x2_relu(a, b);
}
__global__ void refs(int* sum, float* least) {
  cuda::atomic_ref<int, cuda::thread_scope_device>(*sum).fetch_add(threadIdx.x, cuda::std::memory_order_relaxed);
  cuda::atomic_ref<float, cuda::thread_scope_block>(*least).fetch_min(-float(threadIdx.x));
  __shared__ cuda::atomic<int, cuda::thread_scope_block>* all;
  __shared__ int count;
  if (threadIdx.x == 0) all = new cuda::atomic<int, cuda::thread_scope_block>(5);
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  ++*all; all->fetch_max(threadIdx.x); cuda::atomic_ref(count)++;
  __syncthreads();
  if (threadIdx.x == 0) *sum += 100000 * count + 10000000 * (all->load() == 69), delete all;
}
int main() {
  unsigned *in, *out, wanted[each]; cudaMallocManaged(&in, 4 * (many + 2)); cudaMallocManaged(&out, 4 * many * each);
  for (unsigned i = 0; i < many + 2; ++i) in[i] = (i * 2654435761u) ^ (i % 3 ? 0 : 0x80008000u);
  given<<<1, many>>>(out, in); cudaDeviceSynchronize();
  int bad = 0;
  for (int t = 0; t < many; ++t) {
    unsigned x = in[t], y = in[t + 1], z = in[t + 2], *found = out + t * each;
    { unsigned* out = wanted;    ALL(WANTED) }
    for (int i = 0; i < each; ++i) bad += found[i] != wanted[i];
  }
  printf("%d:", bad);
  chosen<<<1, 1>>>(out, int(0xfffe0005), int(0x0003fff6)); cudaDeviceSynchronize();
  for (int i = 0; i < 10; ++i) printf(" %x", out[i]);
  int* sum; float* least; cudaMallocManaged(&sum, 4); cudaMallocManaged(&least, 4); *sum = 0, *least = 3;
  refs<<<1, 64>>>(sum, least); cudaDeviceSynchronize();
  printf(" %d %g\n", *sum, *least);
}
"""


def test_steps_of_dynamic_programming_and_atomic_objects(tmp_path: Path) -> None:
    """The steps of random numbers as the host computes them; what else there is of each, by hand."""
    done = run(tmp_path / "program.cu", STEPS)
    assert (done.stdout, done.stderr) == ("0: 3fff6 0 3fff6 0 30005 1 30005 1 0 0 16402016 -63\n", "")


def test_functions_that_wait_are_called_through_pointers(tmp_path: Path) -> None:
    done = run(tmp_path / "program.cu", INDIRECT)
    assert (done.stdout.splitlines(), done.stderr) == ([f"cudaSuccess {numbers}" for numbers in INDIRECTLY], "")


ONE = """#include <cstdio>
extern __device__ int turned(int* s, int v);
__device__ int own(int v);
extern __constant__ int factors[2];
__global__ void k(int* out) { __shared__ int s[64]; out[threadIdx.x] = turned(s, threadIdx.x) * factors[1] + own(threadIdx.x); }
void set();
int main() { int* p; cudaMallocManaged(&p, 256); set(); k<<<1, 64>>>(p); printf("%s %d\\n", cudaGetErrorName(cudaDeviceSynchronize()), p[37]); }
"""
OTHER = """__constant__ int factors[2];
__device__ int turned(int* s, int v) { s[threadIdx.x] = v; __syncthreads(); return s[blockDim.x - 1 - threadIdx.x]; }
__device__ int own(int v) { return v + threadIdx.x; }
void set() { int h[2] = {1, 2}; cudaMemcpyToSymbol(factors, h, 8); }
"""


@pytest.mark.parametrize("verb", ["run", "check"])
def test_functions_and_variables_of_the_device_in_other_files(tmp_path: Path, verb: str) -> None:
    (tmp_path / "one.cu").write_text(ONE)
    (tmp_path / "other.cu").write_text(OTHER)
    command = [sys.executable, "-m", "tilewright", verb, "one.cu", "other.cu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert done.stdout == "cudaSuccess 126\n", done.stderr
    assert done.stderr == ("1 launch checked: no violation\n" if verb == "check" else "")


def test_clusters_are_refused(tmp_path: Path) -> None:
    text = "template <int N>\n__global__ void __cluster_dims__(N) k(int* p) { *p = N; }\nint main() {}\n"
    done = run(tmp_path / "program.cu", text)
    assert done.returncode != 0 and "program.cu:2:17: clusters of blocks are not available on a CPU" in done.stderr


def test_launches_in_tile_kernels_are_refused(tmp_path: Path) -> None:
    text = "__global__ void s(int* p) {}\n__tile_global__ void k(int* p) { s<<<1, 1>>>(p); }\nint main() { throw 1; }\n"
    done = run(tmp_path / "program.cu", text)
    message = "program.cu:2:35: a kernel that launches a kernel is not available on a CPU; launch it from the host"
    assert done.returncode != 0 and message in done.stderr


def test_limits_of_launches(tmp_path: Path) -> None:
    text = """#include <cstdio>
template <int N> __global__ void __launch_bounds__(N, 1) reverse(int* p) {
    __shared__ int s[N];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    p[threadIdx.x] = s[N - 1 - threadIdx.x];
}
#define KERNEL __attribute__((global))
__attribute__((device)) int twice(int x) { return 2 * x; }
KERNEL void __maxnreg__(32) sized(int* p) {
    extern __attribute__((shared)) int s[];
    __attribute__ ((shared)) int one[1];
    s[threadIdx.x] = one[0] = 3;
    __syncthreads();
    p[threadIdx.x] = twice(s[63 - threadIdx.x]);
}
__global__ void far(int* p) { p[blockIdx.x * 64 + threadIdx.x] = 1; }
constexpr int warp = 32;
__launch_bounds__(2 * warp) __global__ void swap(int* p) { p[threadIdx.x] = __shfl_xor_sync(~0u, threadIdx.x, 1); }
int main() {
    int *p, grid, block;
    cudaMallocManaged(&p, 4096);
    auto done = [&] { printf("%s %d\\n", cudaGetErrorName(cudaGetLastError()), p[0]); };
    reverse<64><<<1, 64>>>(p); done();
    reverse<64><<<1, 65>>>(p); done();
    swap<<<2, 64>>>(p); done();
    swap<<<1, dim3(64, 2)>>>(p); done();
    cudaFuncAttributes about, before, after;
    cudaFuncGetAttributes(&about, reverse<64>);
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, swap);
    printf("%d %d %zu\\n", about.maxThreadsPerBlock, block, about.sharedSizeBytes);
    swap<<<dim3(1, 65536), 32>>>(p); done();
    cudaFuncGetAttributes(&before, sized);
    sized<<<1, 64, 50000>>>(p); done();
    cudaFuncSetAttribute(sized, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000);
    sized<<<1, 64, 50000>>>(p); done();
    cudaFuncGetAttributes(&after, sized);
    printf("%d %d\\n", before.maxDynamicSharedSizeBytes, after.maxDynamicSharedSizeBytes);
    cudaMemPool_t pool; int* q;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cudaMallocFromPoolAsync(&q, 4, pool, 0);
    cudaMallocAsync(&q, 4, pool, 0); done();
    reverse<12289><<<1, 64>>>(p); done();
    far<<<17, 64>>>(p); done();
}
"""
    done = run(tmp_path / "program.cu", text)
    answers = ["cudaSuccess 63", "cudaErrorInvalidValue 63", "cudaSuccess 1", "cudaErrorInvalidValue 1", "64 64 256"]
    answers += [
        "cudaErrorInvalidConfiguration 1",
        "cudaErrorInvalidValue 1",
        "cudaSuccess 6",
        "49148 50000",
        "cudaSuccess 6",
        "cudaErrorInvalidValue 6",
        "cudaErrorIllegalAddress 1",
    ]
    assert done.stdout.splitlines() == answers, done.stderr
    assert "50000 bytes of dynamic shared memory for sized(), which may have 49148: allow more by" in done.stderr
    assert (
        "program.cu:2: reverse<12289>() has 49156 bytes of static shared memory, where a kernel may have 49152: make it"
        in done.stderr
    )
    assert ", which is no memory, in block (16, 0, 0) of far\n" in done.stderr
    assert "a block of 65 threads of reverse<64>(), whose __launch_bounds__ allow 64\n" in done.stderr


SHUFFLES = r"""#include <cstdio>
#include <cuda_runtime.h>
constexpr int deltas[] = {0, 1, 2, 3, 5, 8, 16, 31, 32, 40};
// Each thread writes what each form gives for each distance, be that known when the program is compiled or not.
template <bool known, typename T>
__global__ void all(T* out, int const* at, int width) {
    int t = threadIdx.x + blockDim.x * threadIdx.y;
    T mine = T(t * 3 + 1);
    for (int i = 0; i < 10; ++i) {
        int d = known ? deltas[i] : at[i];
        T* o = out + (t * 10 + i) * 4;
        o[0] = __shfl_down_sync(~0u, mine, d, width);
        o[1] = __shfl_up_sync(~0u, mine, d, width);
        o[2] = __shfl_xor_sync(~0u, mine, d, width);
        o[3] = __shfl_sync(~0u, mine, d, width);
    }
}
__global__ void parted(int* out) {
    int t = threadIdx.x, sum = t;
    if (t % 32 < 16) for (int d = 8; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffu, sum, d);
    else for (int d = 8; d > 0; d >>= 1) sum += __shfl_down_sync(0xffff0000u, sum, d, 16);
    out[t] = sum;
    unsigned odd = __ballot_sync(~0u, t & 1), on = __activemask();
    if (t == 0) out[0] += odd == 0xaaaaaaaau && on == ~0u ? 1000 : 0;
}
__global__ void before(int* data) {
    data[threadIdx.x] = __shfl_up_sync(~0u, data[threadIdx.x], 1);
}
// Sums of all numbers up to each, of warps first.
__global__ void scan(int* data) {
    __shared__ int sums[32];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, sum = data[t];
    auto up_to = [&](int& x) {
        for (int d = 1; d < 32; d <<= 1) {
            int other = __shfl_up_sync(~0u, x, d);
            if (lane >= d) x += other;
        }
    };
    up_to(sum);
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int x = lane < int(blockDim.x / 32) ? sums[lane] : 0;
        up_to(x);
        sums[lane] = x;
    }
    __syncthreads();
    data[t] = sum + (warp ? sums[warp - 1] : 0);
}
template <typename T>
int wrong(T* out, int threads, int width) {
    int bad = 0;
    for (int t = 0; t < threads; ++t)
        for (int i = 0; i < 10; ++i) {
            int lane = t & 31, d = deltas[i], within = lane & (width - 1), first = lane - within;
            int from[] = {within + d < width ? lane + d : lane, within >= d ? lane - d : lane,
                          (lane ^ d) < first + width ? lane ^ d : lane, first | (d & (width - 1))};
            for (int k = 0; k < 4; ++k) {
                T expected = T((t - lane + from[k]) * 3 + 1);
                if (t - lane + from[k] < threads && out[(t * 10 + i) * 4 + k] != expected && ++bad < 3)
                    printf("%d %d %d %d\n", t, i, k, width);
            }
        }
    return bad;
}
template <typename T>
int forms(int* at) {
    T* out;
    int bad = 0;
    cudaMallocManaged(&out, 128 * 40 * sizeof(T));
    for (int width = 1; width <= 32; width *= 2)
        for (int shape = 0; shape < 3; ++shape) {
            dim3 block = shape == 0 ? dim3(96) : shape == 1 ? dim3(16, 6) : dim3(40);
            int threads = block.x * block.y;
            all<true><<<1, block>>>(out, at, width); bad += wrong(out, threads, width);
            all<false><<<1, block>>>(out, at, width); bad += wrong(out, threads, width);
        }
    return bad;
}
int main() {
    int *at, *out;
    cudaMallocManaged(&at, 64), cudaMallocManaged(&out, 256);
    for (int i = 0; i < 10; ++i) at[i] = deltas[i];
    printf("%d %d\n", forms<float>(at), forms<long long>(at));
    parted<<<1, 32>>>(out);
    printf("%s %d %d %d\n", cudaGetErrorName(cudaDeviceSynchronize()), out[0], out[15], out[16]);
    cudaMallocManaged(&out, 2048);
    for (int i = 0; i < 512; ++i) out[i] = i;
    scan<<<1, 512>>>(out), before<<<1, 512>>>(out);
    cudaDeviceSynchronize();
    int bad = 0;
    for (int i = 0; i < 512; ++i) bad += out[i] != (i % 32 ? i * (i - 1) / 2 : i * (i + 1) / 2);
    printf("%d\n", bad);
}
"""


def test_shuffles_by_known_and_unknown_distances_in_segments_of_each_width(tmp_path: Path) -> None:
    done = run(tmp_path / "program.cu", SHUFFLES)
    assert (done.stdout, done.stderr) == ("0 0\ncudaSuccess 1120 120 376\n0\n", "")


def test_an_atomic_operation_that_has_no_plain_form_stays_atomic(tmp_path: Path) -> None:
    text = """#include <cstdio>
__global__ void k(unsigned* out) {
    __shared__ unsigned s;
    if (threadIdx.x == 0) s = 5;
    __syncthreads();
    __atomic_fetch_nand(&s, 6u, __ATOMIC_RELAXED);
    __syncthreads();
    if (threadIdx.x == 0) *out = s;
}
int main() {
    unsigned* out;
    cudaMallocManaged(&out, 4);
    k<<<1, 3>>>(out);
    cudaDeviceSynchronize();
    printf("%x\\n", *out);
}
"""
    expected = 5
    for _ in range(3):
        expected = ~(expected & 6) & 0xFFFFFFFF
    done = run(tmp_path / "program.cu", text)
    assert (done.returncode, done.stdout) == (0, f"{expected:x}\n"), done.stderr


STENCILS = """#include <cstdio>
constexpr int N = 4096, R = 1;
__global__ void stencil(float* out, float const* in) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float const w[] = {-3, -2, -1};
  float s = 0;
  for (int k = -R; k <= R; ++k) if (i + k >= 0 && i + k < N) s += w[k + R] * in[i + k];
  out[i] = s;
}
int main() {
  float *in, *out, w[2 * R + 1];
  for (int k = 0; k <= 2 * R; ++k) w[k] = k - 3;
  cudaMallocManaged(&in, N * sizeof(float));
  cudaMallocManaged(&out, N * sizeof(float));
  for (int i = 0; i < N; ++i) in[i] = i % 7;
  stencil<<<N / 256, 256>>>(out, in);
  int bad = cudaDeviceSynchronize();
  for (int i = 0; i < N; ++i) {
    float s = 0;
    for (int k = -R; k <= R; ++k) if (i + k >= 0 && i + k < N) s += w[k + R] * in[i + k];
    bad += out[i] != s;
  }
  std::printf("%d bad\\n", bad);
}
"""


def test_loads_under_a_test_stay_in_their_array(tmp_path: Path) -> None:
    """Neither threads nor the host touch what is before an array, where there is no memory, though the compiler makes
    vectors of the loads and of the tests that guard them."""
    done = run(tmp_path / "program.cu", STENCILS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 bad\n", "")
