"""The order of work in C++ programs: launches that end after they have returned, and host code that does not wait."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.cpp_programs import run, run_main

SIMT = """struct Box { volatile int asked, answered; volatile float in, out; };
__global__ void server(Box* box) {  // until a negative number comes
    for (int seen = 0; seen >= 0;) {
        while (box->asked == seen) {}
        seen = box->asked;
        box->out = 2 * box->in;
        __threadfence_system();
        box->answered = seen;
    }
}
__global__ void wait_for(volatile int* flag, int* p) { while (*flag == 0) {} *p = 7; }
__global__ void set(int* flag) { atomicExch(flag, 1); }
__global__ void add(int* p, int n) { if (threadIdx.x < n) p[threadIdx.x] += 1; }
"""
TILE = """__tile_global__ void tile_server(int* asked, int* answered, float* data) {
    int seen = 0;
    while (seen >= 0) {
        int now = ct::atomic_load(asked, ct::memory_order_constant<ct::memory_order::acquire>{});
        if (now == seen) continue;
        seen = now;
        auto at = data + ct::iota<ct::tile<int, ct::shape<16>>>();
        ct::store(at, ct::load(at) * 2.0f);
        ct::atomic_store(answered, now, ct::memory_order_constant<ct::memory_order::release>{});
    }
}
"""
LET_GO = """#include <condition_variable>
#include <mutex>
static std::mutex mutex;
static std::condition_variable changed;
static int let_go = 0;
static void until_let_go(void* count) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] { return let_go > 0; });
    ++*(int*)count;
}
static void go() {
    { std::lock_guard<std::mutex> lock(mutex); let_go = 1; }
    changed.notify_all();
}
"""


@pytest.mark.parametrize("how", ["run", "check"])
def test_kernels_that_the_program_serves_after_their_launch(
    tmp_path: Path, environment: dict[str, str], how: str
) -> None:
    body = """
    Box* box; cudaHostAlloc((void**)&box, sizeof *box, cudaHostAllocMapped);
    box->asked = box->answered = 0;
    cudaStream_t s, t;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    int* p; cudaMalloc(&p, 4 * 32); cudaMemsetAsync(p, 0, 4 * 32, t);
    server<<<1, 1, 0, s>>>(box);
    IS(cudaStreamQuery(s), cudaErrorNotReady);
    IS(cudaStreamQuery(t), cudaSuccess);
    for (int i = 1; i <= 20; ++i) {
        box->in = i;
        __sync_synchronize();
        box->asked = i;
        add<<<1, 32, 0, t>>>(p, 32);
        while (box->answered != i) {}
        CHECK(box->out == 2 * i);
    }
    int found[32];
    IS(cudaMemcpyAsync(found, p, sizeof found, cudaMemcpyDeviceToHost, t), cudaSuccess);
    IS(cudaStreamSynchronize(t), cudaSuccess);
    CHECK(found[5] == 20);
    box->asked = -1;
    IS(cudaStreamSynchronize(s), cudaSuccess);
    IS(cudaStreamQuery(s), cudaSuccess);
    CHECK(box->answered == -1);
    """
    head = '#include <cstdio>\n#include "cuda_tile.h"\nnamespace ct = cuda::tiles;\n'
    check = 'static int failures = 0;\n#define CHECK(x) (x) ? (void)0 : (void)(++failures, printf("line %d\\n", __LINE__))\n'
    check += "#define IS(call, code) CHECK((call) == code)\n"
    (tmp_path / "program.cu").write_text(f"{head}{SIMT}{check}int main() {{ {body} return failures; }}\n")
    done = run(tmp_path / "program.cu", environment, how=how)
    said = "" if how == "run" else "21 launches checked: no violation\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", said, 0)


def test_tile_kernels_that_wait_for_the_program(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    int* flags; float* data;
    cudaMallocManaged(&flags, 8); cudaMallocManaged(&data, 64);
    flags[0] = flags[1] = 0;
    for (int i = 0; i < 16; ++i) data[i] = 1;
    cudaStream_t s; cudaStreamCreate(&s);
    tile_server<<<1, 1, 0, s>>>(flags, flags + 1, data);
    for (int i = 1; i <= 3; ++i) {
        __atomic_store_n(flags, i, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(flags + 1, __ATOMIC_SEQ_CST) != i) {}
        CHECK(data[3] == 1 << i);
    }
    __atomic_store_n(flags, -1, __ATOMIC_SEQ_CST);
    IS(cudaDeviceSynchronize(), cudaSuccess);
    """
    assert run_main(tmp_path, environment, body, SIMT + TILE) == ("", "", 0)


def test_what_waits_for_work_that_goes_on(tmp_path: Path, environment: dict[str, str]) -> None:
    """Streams, events, the default streams, copies and graphs wait for a host function that waits for the program."""
    body = """
    cudaStream_t s, t, apart;
    cudaStreamCreate(&s); cudaStreamCreate(&t); cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking);
    cudaEvent_t before, behind; cudaEventCreate(&before); cudaEventCreate(&behind);
    int *p, *pinned, count = 0; cudaMalloc(&p, 4); cudaMallocHost(&pinned, 4); cudaMemset(p, 0, 4); *pinned = 0;
    cudaGraph_t graph; cudaGraphExec_t exec;
    cudaStreamBeginCapture(t, cudaStreamCaptureModeGlobal);
    add<<<1, 1, 0, t>>>(p, 1);
    cudaStreamEndCapture(t, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    IS(cudaEventRecord(before, s), cudaSuccess);
    IS(cudaLaunchHostFunc(s, until_let_go, &count), cudaSuccess);
    add<<<1, 1, 0, s>>>(p, 1);
    IS(cudaEventRecord(behind, s), cudaSuccess);
    IS(cudaEventQuery(before), cudaSuccess);
    IS(cudaEventQuery(behind), cudaErrorNotReady);
    float time; IS(cudaEventElapsedTime(&time, before, behind), cudaErrorNotReady);
    IS(cudaStreamQuery(t), cudaSuccess);
    IS(cudaStreamWaitEvent(t, behind, 0), cudaSuccess);
    IS(cudaGraphLaunch(exec, t), cudaSuccess);
    IS(cudaGraphExecDestroy(exec), cudaSuccess);
    IS(cudaMemcpyAsync(pinned, p, 4, cudaMemcpyDeviceToHost, t), cudaSuccess);
    IS(cudaStreamQuery(t), cudaErrorNotReady);
    add<<<1, 1>>>(p, 1);
    IS(cudaStreamQuery(nullptr), cudaErrorNotReady);
    int *q; cudaMallocManaged(&q, 4); *q = 0;
    add<<<1, 1, 0, apart>>>(q, 1);
    IS(cudaStreamSynchronize(apart), cudaSuccess);
    CHECK(*q == 1 && *pinned == 0 && count == 0);
    go();
    IS(cudaEventSynchronize(behind), cudaSuccess);
    CHECK(count == 1);
    IS(cudaStreamSynchronize(t), cudaSuccess);
    CHECK(*pinned == 2);
    IS(cudaMemcpy(pinned, p, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK(*pinned == 3);
    IS(cudaEventElapsedTime(&time, before, behind), cudaSuccess);
    CHECK(time > 0);
    IS(cudaDeviceSynchronize(), cudaSuccess);
    """
    assert run_main(tmp_path, environment, body, LET_GO + SIMT) == ("", "", 0)


def test_a_kernel_that_waits_for_one_of_another_stream(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    cudaStream_t s, t; cudaStreamCreate(&s); cudaStreamCreate(&t);
    int *flag, *p; cudaMalloc(&flag, 4); cudaMallocManaged(&p, 4); cudaMemset(flag, 0, 4); *p = 0;
    wait_for<<<1, 1, 0, s>>>(flag, p);
    set<<<1, 1, 0, t>>>(flag);
    IS(cudaDeviceSynchronize(), cudaSuccess);
    CHECK(*p == 7);
    """
    assert run_main(tmp_path, environment, body, SIMT) == ("", "", 0)


def test_threads_that_use_one_stream_take_turns(tmp_path: Path, environment: dict[str, str]) -> None:
    kernels = (
        "#include <thread>\n__global__ void count(int* p) { for (int i = 0; i < 1000; ++i) ++*(volatile int*)p; }\n"
    )
    body = """
    int* p; cudaMallocManaged(&p, 4); *p = 0;
    auto work = [=] { for (int i = 0; i < 100; ++i) count<<<1, 1>>>(p); cudaDeviceSynchronize(); };
    std::thread one(work), other(work);
    one.join(); other.join();
    printf("%d", *p);
    """
    assert run_main(tmp_path, environment, body, kernels) == ("200000", "", 0)


EARLY = """#include <cstdio>
#include <cuda_runtime.h>
__global__ void scale(float* p, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] *= 2; }
__global__ void tell(float* p, volatile int* done) { p[0] = 3; __threadfence_system(); *done = 1; }
int main() {
    float *p, *d, *h; int* done;
    cudaMallocManaged(&p, 4000); cudaMalloc(&d, 4000); cudaMallocHost(&h, 4000); cudaMallocManaged(&done, 4);
    cudaStream_t s; cudaStreamCreate(&s); cudaEvent_t e; cudaEventCreate(&e);
    for (int i = 0; i < 1000; ++i) p[i] = 1;
    scale<<<4, 256>>>(p, 1000);
    printf("%g\\n", p[5]);                     // reads
    cudaDeviceSynchronize();
    printf("%g\\n", p[5]);
    cudaMemset(d, 0, 4000);
    cudaMemcpyAsync(h, d, 4000, cudaMemcpyDeviceToHost, s);
    float early = h[999];                     // reads
    cudaStreamSynchronize(s);
    scale<<<4, 256, 0, s>>>(p, 1000);
    cudaEventRecord(e, s);
    p[3] = early;                             // writes
    cudaEventSynchronize(e);
    scale<<<2, 256, 0, s>>>(p, 500);
    p[700] = 3;                               // which it does not write
    cudaStreamSynchronize(s);
    scale<<<4, 256, 0, s>>>(p, 1000);
    cudaMemcpy(d, p, 4000, cudaMemcpyDefault);
    printf("%g\\n", p[5] + h[5]);
    *done = 0;
    tell<<<1, 1>>>(p, done);
    while (*(volatile int*)done == 0) {}      // the kernel says that it has
    return p[0] != 3;
}
"""


def test_host_code_that_does_not_wait_for_work(tmp_path: Path, environment: dict[str, str]) -> None:
    program = tmp_path / "program.cu"
    program.write_text(EARLY)
    done = run(program, environment, how="check")
    found = re.findall(
        r"program\.cu:(\d+):\d+: unfinished-work: host code (reads|writes) memory that (.*) writes,", done.stderr
    )
    lines = EARLY.split("\n")
    assert [(lines[int(line) - 1].split("// ")[1], use) for line, use, _ in found] == [
        (use, use) for use in ("reads", "reads", "writes")
    ], done.stderr
    assert [by for *_, by in found] == ["scale", "a copy", "scale"] and "3 violations" in done.stderr
    assert run(program, environment).returncode == 0


DEVICE = """#include <cstdio>
#include <cstring>
__global__ void add(int* p, int n) { if (threadIdx.x < n) p[threadIdx.x] += 1; }
static void look(void* p) {
    *((int**)p)[1] = **(int**)p;              // reads
}
static int sum(int const* p, int n) {
    int s = 0;
    for (int i = 0; i < n; ++i) s += p[i];    // reads
    return s;
}
int main() {
    cudaStream_t s; cudaStreamCreate(&s);
    int *d, *q, *m, *h, found[64];
    cudaMalloc(&d, 256); cudaMallocAsync(&q, 256, s); cudaMallocManaged(&m, 256); cudaMallocHost(&h, 256);
    for (int i = 0; i < 64; ++i) m[i] = h[i] = 1;
    for (int i = 0; i < 64; ++i) d[i] = 2;    // writes
    add<<<1, 64>>>(d, 64); add<<<1, 64>>>(m, 64); add<<<1, 64>>>(h, 64);
    cudaMemcpy(found, d, 256, cudaMemcpyDeviceToHost);
    int total = sum(found, 64) + sum(m, 64) + sum(h, 64) + sum(d, 64);
    cudaMemcpyAsync(q, h, 256, cudaMemcpyHostToDevice, s);
    cudaStreamSynchronize(s);
    int same = memcmp(q, h, 256);             // reads
    int* both[] = {d, m};
    cudaLaunchHostFunc(s, look, both);
    cudaStreamSynchronize(s);
    cudaFree(d); cudaFreeAsync(q, s); cudaFreeHost(h);
    printf("%d %d %d\\n", total, same, m[0]);
}
"""


def test_host_code_that_uses_memory_of_the_device(tmp_path: Path, environment: dict[str, str]) -> None:
    program = tmp_path / "program.cu"
    program.write_text(DEVICE)
    done = run(program, environment, how="check")
    found = re.findall(r"program\.cu:(\d+):\d+: ([a-z-]+): host code (reads|writes) memory of the device", done.stderr)
    lines = DEVICE.split("\n")
    assert [(lines[int(line) - 1].split("// ")[1], category) for line, category, _ in found] == [
        (use, "host-access") for *_, use in found
    ], done.stderr
    assert len(found) == 4 and "4 violations of 1 category" in done.stderr
    alone = run(program, environment)
    assert alone.stdout == done.stdout == "640 0 3\n" and (alone.stderr, alone.returncode) == ("", 0)


QUEUED = """#include <cstdio>
#include <cuda_tile.h>
__global__ void waits(int volatile* flag) { while (*flag == 0) {} }
__tile_global__ void tile(int* p) { cuda::tiles::store(p, 1); }
static void ask(int* d, int* h, cudaStream_t s) {
    cudaMemcpyAsync(d, h, 404, cudaMemcpyHostToDevice, s);  // out-of-bounds
    tile<<<1, 1, 0, s>>>(h + 1000000);                      // dangling-pointer
    cudaMemsetAsync(d + 90, 0, 44, s);                      // out-of-bounds
}
int main() {
    int *flag, *d, *h; cudaMallocManaged(&flag, 4); *flag = 0; cudaMalloc(&d, 400); cudaMallocHost(&h, 404);
    cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    waits<<<1, 1, 0, s>>>(flag);
    ask(d, h, s);
    *(int volatile*)flag = 1;
    return cudaStreamSynchronize(s) == cudaSuccess;
}
"""


def test_errors_of_work_that_is_done_later_stand_where_it_was_asked_for(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    program = tmp_path / "program.cu"
    program.write_text(QUEUED)
    done = run(program, environment, how="check")
    found = re.findall(r"program\.cu:(\d+):\d+: ([a-z-]+): ", done.stderr)
    wanted = [(str(i), line.split("// ")[1]) for i, line in enumerate(QUEUED.split("\n"), 1) if "// " in line]
    assert found == wanted, done.stderr


def test_a_program_without_python_serves_a_kernel(tmp_path: Path, environment: dict[str, str]) -> None:
    """And the threads of one have default streams of their own, where it is compiled so."""
    body = """
    Box* box; cudaMallocManaged(&box, sizeof *box); box->asked = 0;
    std::thread([=] { server<<<1, 1>>>(box); }).join();
    int* p; cudaMallocManaged(&p, 4); *p = 0;
    add<<<1, 1>>>(p, 1);
    cudaStreamSynchronize(nullptr);
    box->in = 4; __sync_synchronize(); box->asked = -1;
    int e = cudaDeviceSynchronize(); printf("%d %g %d", e, box->out, *p);
    """
    head = "#include <cstdio>\n#include <thread>\n#include <cuda_runtime.h>\n"
    (tmp_path / "program.cu").write_text(f"{head}{SIMT}int main() {{ {body} }}\n")
    command = [
        sys.executable,
        "-m",
        "tilewright",
        "c++",
        "--default-stream",
        "per-thread",
        "program.cu",
        "-o",
        "program",
    ]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("0 8 1", 0)
