"""SIMT kernels whose threads wait in loops for what others write: those go on meanwhile."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cpp.host.spins import ENTERS, SPIN, with_spins

PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
__global__ void flag(int* data, int volatile* ready, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (threadIdx.x == 0) { while (ready[i / blockDim.x] == 0) {} data[i] = data[i + 1] - 2; }
        if (threadIdx.x == 1) { data[i] = 7; ready[i / blockDim.x] = 1; }
    }
}
__global__ void chain(int* data, int* ready, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (i > 0) while (atomicAdd(ready + i - 1, 0) == 0) {}
        data[i] = i ? data[i - 1] + 1 : 1;
        __threadfence();
        atomicExch(ready + i, 1);
    }
}
__global__ void warps(int* data, int volatile* ready) {
    if (threadIdx.x == 0) { while (*ready == 0) {} data[0] = 5; }
    __syncthreads();
    int all = __syncthreads_count(data[0]);
    if (threadIdx.x == 40) data[1] = all;
}
__global__ void wake(int volatile* ready) {
    __shared__ int volatile seen;
    if (threadIdx.x == 0) seen = 0;
    __syncthreads();
    if (threadIdx.x == 33) { while (seen == 0) {} *ready = 1; }
    if (threadIdx.x == 63) seen = 1;
}
__global__ void lock(int* mutex, int* count) {
    bool done = false;
    while (!done)
        if (atomicCAS(mutex, 0, 1) == 0) {
            ++*count;
            __threadfence();
            atomicExch(mutex, 0);
            done = true;
        }
}
// Other lanes are at the vote before the last one has seen what the second warp writes.
__global__ void vote(int* data, int volatile* ready) {
    if (threadIdx.x < 32) {
        if (threadIdx.x == 31) while (*ready == 0) {}
        data[threadIdx.x] = __ballot_sync(~0u, threadIdx.x & 1);
    } else if (threadIdx.x == 40) *ready = 1;
}
// Each block waits for the sum of those before it.
__global__ void scan(int* data, int volatile* ready) {
    __shared__ int before;
    if (threadIdx.x == 0) {
        if (blockIdx.x > 0) while (ready[blockIdx.x - 1] == 0) {}
        before = blockIdx.x > 0 ? ((int volatile*)data)[blockIdx.x - 1] : 0;
        ((int volatile*)data)[blockIdx.x] = before + 1;
        __threadfence();
        ready[blockIdx.x] = 1;
    }
    __syncthreads();
    if (threadIdx.x == 9 && before != int(blockIdx.x)) data[1000] = 1;
}
int main() {
    int *data, *ready;
    cudaMallocManaged(&data, 8192), cudaMallocManaged(&ready, 8192);
    auto done = [&](int at) {
        printf("%s %d\n", cudaGetErrorName(cudaDeviceSynchronize()), data[at]);
        cudaMemset(data, 0, 8192), cudaMemset(ready, 0, 8192);
    };
    done(0);
    flag<<<1, 64>>>(data, ready, 256), done(192);
    chain<<<1, 64>>>(data, ready, 256), done(255);
    wake<<<1, 64>>>(ready), warps<<<1, 64>>>(data, ready), done(1);
    lock<<<3, 64>>>(ready, data), done(0);
    vote<<<1, 64>>>(data, ready), done(3);
    scan<<<300, 32>>>(data, ready);
    cudaDeviceSynchronize();
    printf("%d %d\n", data[299], data[1000]);
}
"""


@pytest.mark.parametrize("how", ["run", "check"])
def test_threads_that_wait_for_others_of_their_block_and_grid_let_them_run(tmp_path: Path, how: str) -> None:
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    command = [sys.executable, "-m", "tilewright", how, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    first, *lines = done.stdout.splitlines()
    answers = [
        "cudaSuccess 5",
        "cudaSuccess 256",
        "cudaSuccess 64",
        "cudaSuccess 192",
        "cudaSuccess -1431655766",
        "300 0",
    ]
    assert first.startswith("cudaSuccess ") and lines[:6] == answers, (done.stdout, done.stderr)


MEETING = r"""
#include <cstdio>
#include <cuda_runtime.h>
__device__ int arrived;
// Blocks of which more than the machine has cores wait for all others.
__global__ void rounds(int* data, int n) {
    for (int i = 0; i < n; ++i) {
        int before = data[(blockIdx.x + i % 2 * gridDim.x + 1) % gridDim.x + i % 2 * gridDim.x];
        data[blockIdx.x + (i + 1) % 2 * gridDim.x] = before + 1;
        __threadfence();
        atomicAdd(&arrived, 1);
        while (*(int volatile*)&arrived < int(gridDim.x) * (i + 1)) {}
    }
}
int main() {
    int *data, wrong = 0;
    cudaMallocManaged(&data, 800);
    for (int i = 0; i < 200; ++i) data[i] = 0;
    rounds<<<100, 1>>>(data, 6);
    cudaError_t status = cudaDeviceSynchronize();
    for (int i = 0; i < 100; ++i) wrong += data[i] != 6;
    printf("%d %s\n", wrong, cudaGetErrorName(status));
}
"""


@pytest.mark.parametrize("how", ["run", "check"])
def test_blocks_that_wait_for_later_ones(tmp_path: Path, how: str) -> None:
    (tmp_path / "program.cu").write_text(MEETING)
    command = [sys.executable, "-m", "tilewright", how, "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("0 cudaSuccess\n", 0), done.stderr


COUNTING = r"""
#include <cstdio>
#include <cuda_runtime.h>
// Blocks that count how often they look, until the last one comes; and blocks that take work from a counter.
__global__ void counts(int* flag, unsigned* looks, int* out) {
    if (threadIdx.x == 0) {
        if (blockIdx.x + 1 < gridDim.x) while (atomicAdd(flag, 0) == 0) atomicAdd(looks + blockIdx.x, 1u);
        else atomicExch(flag, 1);
    }
    __syncthreads();
    if (threadIdx.x == 5) out[blockIdx.x] = 1;
}
__global__ void works(int* counter, int* out) {
    for (int i; (i = atomicAdd(counter, 1)) < 1000;) out[i] = i;
}
int main() {
    int *data, wrong = 0;
    cudaMallocManaged(&data, 8192), cudaMemset(data, 0, 8192);
    counts<<<12, 32>>>(data, (unsigned*)data + 20, data + 40);
    cudaDeviceSynchronize();
    for (int i = 0; i < 12; ++i) wrong += data[40 + i] != 1;
    works<<<12, 32>>>(data + 1, data + 100);
    printf("%s ", cudaGetErrorName(cudaDeviceSynchronize()));
    for (int i = 0; i < 1000; ++i) wrong += data[100 + i] != i;
    printf("%d\n", wrong);
}
"""


@pytest.mark.parametrize("how", ["run", "check"])
def test_blocks_that_count_how_often_they_look_let_others_begin(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More threads are started for those, although their loops change memory; not for loops that go on by that."""
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "2")
    (tmp_path / "program.cu").write_text(COUNTING)
    command = [sys.executable, "-m", "tilewright", how, "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("cudaSuccess 0\n", 0), done.stderr


NEVER = r"""
#include <cstdio>
#include <cuda_runtime.h>
__global__ void waits(int volatile* flag, int* out) {
    if (threadIdx.x == 33)
        while (flag[blockIdx.x] == 0) {}  // nobody
    out[threadIdx.x] = 1;
}
int main() {
    int *flag, *out;
    cudaMalloc(&flag, 64), cudaMalloc(&out, 256), cudaMemset(flag, 0, 64);
    waits<<<3, 64>>>(flag, out);
    return cudaDeviceSynchronize() != cudaErrorLaunchFailure;
}
"""


@pytest.mark.parametrize(("how", "status"), [("run", 0), ("check", 1)])
def test_waiting_for_what_nobody_writes_is_an_error_that_names_the_line(tmp_path: Path, how: str, status: int) -> None:
    (tmp_path / "program.cu").write_text(NEVER)
    command = [sys.executable, "-m", "tilewright", how, "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert "program.cu:6:" in done.stderr and "waits for memory that none of them changes" in done.stderr
    assert done.returncode == status, done.stderr


EACH_OTHER = r"""
#include <cstdio>
#include <cuda_tile.h>
namespace ct = cuda::tiles;
__global__ void threads(int* from, int volatile* to) {
    if (threadIdx.x == 0) while (atomicAdd(from + blockIdx.x, 0) == 0) {}  // SIMT
    __syncthreads();
    to[blockIdx.x] = 1;
}
__tile_global__ void tiles(int* from, int* to) {
    int seen = 0;
    while (seen == 0)
        seen = ct::atomic_load(from, ct::memory_order_constant<ct::memory_order::acquire>{});  // tile
    ct::store(to, seen);
}
int main() {
    int* flags; cudaMalloc(&flags, 64), cudaMemset(flags, 0, 64);
    cudaStream_t s, t; cudaStreamCreate(&s), cudaStreamCreate(&t);
    threads<<<3, 64, 0, s>>>(flags, flags + 8);
    tiles<<<1, 1, 0, t>>>(flags + 9, flags + 1);
    return cudaDeviceSynchronize() != cudaErrorLaunchFailure;
}
"""


@pytest.mark.parametrize(("how", "status"), [("run", 0), ("check", 1)])
def test_kernels_that_wait_for_each_other_for_ever(tmp_path: Path, how: str, status: int) -> None:
    (tmp_path / "program.cu").write_text(EACH_OTHER)
    command = [sys.executable, "-m", "tilewright", how, "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    lines = EACH_OTHER.split("\n")
    found = re.findall(r"^(?:tilewright: )?program\.cu:(\d+):.* memory that none of them changes", done.stderr, re.M)
    assert {lines[int(line) - 1].split("// ")[1] for line in found} == {"SIMT", "tile"}, done.stderr
    assert done.returncode == status, done.stderr


BY_REFERENCES = r"""
#include <cuda/atomic>
#include <cuda_runtime.h>
template <typename T> using ref = cuda::atomic_ref<T, cuda::thread_scope_device>;
__device__ bool ready(int* p) { return ref<int>(*p).load(cuda::memory_order_acquire) == 3; }
__global__ void loads(int* p) { while (ref<int>(*p) == 0) {} }  // waits
__global__ void calls(int* p) { while (!ready(p)) {} }  // waits
__global__ void adds(int* p) { ref<int> r{*p}; while (r.fetch_add(0) != 7) __nanosleep(10); }  // waits
__global__ void exchanges(int* p) { ref<int> r{*p}; while (r.exchange(1, cuda::memory_order_acquire)) {} }  // waits
__global__ void compares(int* p) { ref<int> r{*p}; for (int e = 0; !r.compare_exchange_weak(e, 1); e = 0) {} }  // waits
__global__ void floats(float* p) { ref<float> r{*p}; while (r.load(cuda::memory_order_relaxed) < 1) {} }  // waits
__global__ void waits(cuda::atomic<int>* p) { p->wait(1); }  // waits
int main() {
    int *p, one = 1; cudaMalloc(&p, 64), cudaMemset(p, 0, 64), cudaMemcpy(p + 1, &one, 4, cudaMemcpyHostToDevice);
    cudaStream_t s[7];
    for (cudaStream_t& each : s) cudaStreamCreate(&each);
    loads<<<1, 1, 0, s[0]>>>(p), calls<<<1, 1, 0, s[1]>>>(p), adds<<<1, 1, 0, s[2]>>>(p);
    exchanges<<<1, 1, 0, s[3]>>>(p + 1), compares<<<1, 1, 0, s[4]>>>(p + 1);
    floats<<<1, 1, 0, s[5]>>>((float*)p), waits<<<1, 1, 0, s[6]>>>((cuda::atomic<int>*)(p + 1));
    return cudaDeviceSynchronize() != cudaErrorLaunchFailure;
}
"""


def test_loops_of_atomic_references_wait(tmp_path: Path) -> None:
    """The library has temporary variables for what it reads, in functions of its own."""
    (tmp_path / "program.cu").write_text(BY_REFERENCES)
    command = [sys.executable, "-m", "tilewright", "run", "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    found = re.findall(r"^(?:tilewright: )?program\.cu:(\d+):.* memory that none of them changes", done.stderr, re.M)
    lines = enumerate(BY_REFERENCES.split("\n"), 1)
    assert {*map(int, found)} == {n for n, line in lines if line.endswith("// waits")} and not done.returncode, (
        done.stderr
    )


LATER = r"""
#include <chrono>
#include <cstdio>
#include <thread>
#include <cuda_tile.h>
namespace ct = cuda::tiles;
__global__ void threads(int volatile* flag, int* out) {
    while (*flag == 0) {}
    *out = *flag;
}
__tile_global__ void tiles(int* flag, int* out) {
    int seen = 0;
    while (seen == 0) seen = ct::atomic_load(flag, ct::memory_order_constant<ct::memory_order::acquire>{});
    ct::store(out, seen);
}
int main() {
    int *flag, *out;
    cudaMallocManaged(&flag, 4), cudaMallocManaged(&out, 8), *flag = 0;
    cudaStream_t s, t; cudaStreamCreate(&s), cudaStreamCreate(&t);
    threads<<<1, 1, 0, s>>>(flag, out), tiles<<<1, 1, 0, t>>>(flag, out + 1);
    std::thread other([=] { std::this_thread::sleep_for(std::chrono::milliseconds(6500)), *(int volatile*)flag = 7; });
    cudaError_t status = cudaDeviceSynchronize();
    other.join();
    printf("%d %d %s\n", out[0], out[1], cudaGetErrorName(status));
}
"""


@pytest.mark.parametrize("how", ["run", "check", "c++"])
def test_what_another_thread_of_the_program_writes_is_waited_for(tmp_path: Path, how: str) -> None:
    """Also for longer than what nobody writes."""
    (tmp_path / "program.cu").write_text(LATER.replace("6500", "500") if how == "check" else LATER)
    command = [sys.executable, "-m", "tilewright", how, "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    if how == "c++":
        done = subprocess.run("./a.out", capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("7 7 cudaSuccess\n", 0), done.stderr


LOOP = """define void @kernel(ptr %p, i32 %n) {
entry:
  br label %loop

loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %found = load volatile i32, ptr %p
  %next = add i32 %i, 1
  %more = icmp ult i32 CONDITION, %n
  br i1 %more, label %loop, label %end

end:
  ret void
}
"""


BARRIERS = r"""
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cstdio>
namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void turns(int* data) {
    __shared__ Barrier bar;
    __shared__ int s[64];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        s[threadIdx.x] = data[threadIdx.x];
        Barrier::arrival_token token = bar.arrive();
        bar.wait(std::move(token));
        int v = s[(threadIdx.x + 1) % 64];
        bar.arrive_and_wait();
        data[threadIdx.x] = v;
    }
}
__global__ void sides(int* data) {  // one warp fills what the other one empties
    __shared__ Barrier ready[2], filled[2];
    __shared__ alignas(16) int buffer[2][32];
    if (threadIdx.x < 4) init(threadIdx.x < 2 ? ready + threadIdx.x : filled + threadIdx.x - 2, 64);
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int i = 0; i < 5; ++i) {
            ready[i % 2].arrive_and_wait();
            buffer[i % 2][threadIdx.x] = data[i * 32 + threadIdx.x];
            (void)filled[i % 2].arrive();
        }
        return;
    }
    (void)ready[0].arrive();
    (void)ready[1].arrive();
    for (int i = 0; i < 5; ++i) {
        filled[i % 2].arrive_and_wait();
        data[i * 32 + threadIdx.x - 32] = buffer[i % 2][63 - threadIdx.x] + 1;
        (void)ready[i % 2].arrive();
    }
}
__global__ void stages(int const* in, int* out, int batches) {
    auto block = cg::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int staged[2][64];
    auto pipeline = cuda::make_pipeline(block, &state);
    for (int done = 0, fetched = 0; done < batches; ++done) {
        for (; fetched < batches && fetched < done + 2; ++fetched) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, staged[fetched % 2], in + 64 * fetched, cuda::aligned_size_t<16>(256), pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        out[64 * done + threadIdx.x] = staged[done % 2][63 - threadIdx.x];
        pipeline.consumer_release();
    }
}
__global__ void one_by_one(cuda::binary_semaphore<cuda::thread_scope_device>* may, int* count) {
    if (threadIdx.x == 0) { may->acquire(); ++*count; may->release(); }
}
int main() {
    int *a, *b, wrong = 0;
    cudaMallocManaged(&a, 4096);
    cudaMallocManaged(&b, 4096);
    for (int i = 0; i < 640; ++i) a[i] = i;
    stages<<<1, 64>>>(a, b, 10);
    for (int i = 0; i < 640; ++i) wrong += b[i] != i / 64 * 64 + 63 - i % 64;
    turns<<<1, 64>>>(a);
    for (int i = 0; i < 64; ++i) wrong += a[i] != (i + 3) % 64;
    for (int i = 0; i < 160; ++i) a[i] = i;
    sides<<<1, 64>>>(a);
    for (int i = 0; i < 160; ++i) wrong += a[i] != i / 32 * 32 + 32 - i % 32;
    auto* may = new (b) cuda::binary_semaphore<cuda::thread_scope_device>(1);
    a[0] = 0;
    one_by_one<<<20, 32>>>(may, a);
    printf("%d wrong, %d, %s\n", wrong, a[0], cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


@pytest.mark.parametrize("how", ["run", "check"])
def test_barriers_and_pipelines_of_the_library(tmp_path: Path, how: str) -> None:
    """Their loops wait in functions, and are between what a warp or thread does and what others do."""
    (tmp_path / "program.cu").write_text(BARRIERS)
    command = [sys.executable, "-m", "tilewright", how, "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert done.stdout.startswith("0 wrong, 20, cudaSuccess\n"), done.stderr
    assert done.returncode == 0, done.stdout + done.stderr


PLACE = """!1 = !DILocation(line: 9, column: 5, scope: !2)
!2 = distinct !DISubprogram(name: "kernel", file: !3, line: 1)
!3 = !DIFile(filename: "a.cu", directory: "")
"""


CALLED = """
define void @called(ptr %p) {
  %own = alloca ptr
  store ptr %p, ptr %own
  BODY
  ret void
}
"""


@pytest.mark.parametrize(
    ("operation", "body", "line"),
    [
        ("add ptr %p, i32 0", "fence seq_cst", 9 | 5 << 20),  # line 9, column 5
        ("add ptr %p, i32 1", "fence seq_cst", 0),
        ("or ptr %p, i32 0", "store i32 1, ptr %p", -1),
        ("or ptr %p, i32 0", "%c = cmpxchg ptr %p, i32 0, i32 1 seq_cst seq_cst", -1),
        ("or ptr %p, i32 0", "call void @elsewhere()", -1),
    ],
)
def test_loops_that_change_nothing_only_wait(operation: str, body: str, line: int) -> None:
    """Nor do the functions that they call. Those that go on by what they change themselves have no line, others -1."""
    loop = LOOP.replace("CONDITION", "%found").replace(
        "load volatile i32, ptr %p", f"atomicrmw {operation} seq_cst\n  call void @called(ptr %p)"
    )
    loop = loop.replace("label %end\n", "label %end, !dbg !1\n") + CALLED.replace("BODY", body)
    edited, _ = with_spins(f"{loop}\ndeclare void @elsewhere()\n{PLACE}", {"kernel"}, "barrier")
    assert re.search(rf"@barrier\(i32 {SPIN}, i32 0, ptr \S+, i32 {line}\)", edited)


@pytest.mark.parametrize(("condition", "waits"), [("%found", True), ("%next", False)])
def test_loops_that_count_do_not_wait(condition: str, waits: bool) -> None:
    text = LOOP.replace("CONDITION", condition)
    edited, changed = with_spins(text, {"kernel"}, "barrier")
    calls = [line for line in edited.split("\n") if " call " in line or line.startswith("@")]
    assert "\n".join(line for line in edited.split("\n") if line not in calls) == text
    assert changed == ({"kernel"} if waits else set()) and len(calls) == 3 * waits
    assert not waits or (f"@{ENTERS}()" in calls[0] and f"@barrier(i32 {SPIN}, " in calls[1])


RETRY = """define void @kernel(ptr %p, i32 %n) {
entry:
  %first = load i32, ptr %p, align 4
  br label %loop

loop:
  %old = phi i32 [ %first, %entry ], [ %found, %loop ]
  %new = add i32 %old, %n
  %r = cmpxchg ptr %p, i32 %old, i32 %new monotonic monotonic, align 4
  %found = extractvalue { i32, i1 } %r, 0
  %done = extractvalue { i32, i1 } %r, 1
  %same = icmp eq i32 %found, %old
  %other = icmp eq i32 %found, %first
  br i1 CONDITION, label %end, label %loop

end:
  ret void
}
"""


@pytest.mark.parametrize(
    ("old", "new", "waits"),
    [
        ("i1 CONDITION", "i1 %done", False),
        ("i1 CONDITION", "i1 %same", False),
        ("i1 CONDITION, label %end, label %loop", "i1 %same, label %loop, label %end", True),  # until it changes
        ("i1 CONDITION", "i1 %other", True),
        ("i32 %old, i32 %new monotonic", "i32 0, i32 %new monotonic", True),  # as a lock
        ("[ %found, %loop ]", "[ %new, %loop ]", True),
        ("%new = add", "%v = load volatile i32, ptr %p\n  %new = add", True),
    ],
)
def test_loops_that_exchange_what_they_have_read_do_not_wait(old: str, new: str, waits: bool) -> None:
    text = RETRY.replace(old, new).replace("CONDITION", "%done")
    assert with_spins(text, {"kernel"}, "barrier")[1] == ({"kernel"} if waits else set())
