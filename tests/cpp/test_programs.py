"""C++ programs with a main, run as a person runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cpp.host.build import RUNTIME_DIR
from tilewright.frontend.cpp.launches import launches_as_calls, without_launches
from tilewright.frontend.cpp.locations import INCLUDE_DIR
from tilewright.ir.errors import TileSyntaxError

EXAMPLES = Path(__file__).parents[2] / "examples"
HEAD = """#include <cstdio>
#include "cuda_tile.h"
#include "cuda_fp16.h"
namespace ct = cuda::tiles;
using namespace ct::literals;
"""
KERNELS = """
namespace a { namespace {
template <typename T, int N>
__tile_global__ void add(T* p, T by) {
    auto at = p + ct::bid().x * N + ct::iota<ct::tile<int, ct::shape<N>>>();
    ct::store(at, by + ct::load(at));
}
} }
__tile_global__ void mark(int* p) { ct::store(p, 1); }
__tile_global__ void mark(float* p) { ct::store(p, 2.0f); }
__tile_global__ void numbers(double* out, bool a, signed char b, unsigned short c, long d, float e, __half f) {
    ct::store(out, double(a)); ct::store(out + 1, double(b)); ct::store(out + 2, double(c));
    ct::store(out + 3, double(d)); ct::store(out + 4, double(e)); ct::store(out + 5, double(float(f)));
}
__tile_global__ void talk(int* p) { printf("block %d\\n", ct::load(p)); }
"""
CHECK = """
static int failures = 0;
#define CHECK(x) (x) ? (void)0 : (void)(++failures, printf("line %d: %s\\n", __LINE__, #x))
#define IS(call, code) CHECK((call) == code)
"""


@pytest.fixture
def environment() -> dict[str, str]:
    return dict(os.environ)


def run(
    program: Path, environment: dict[str, str], *arguments: str, options: tuple[str, ...] = (), how: str = "run"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright", how, *options, str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def run_main(tmp_path: Path, environment: dict[str, str], body: str, kernels: str = KERNELS) -> tuple[str, str, int]:
    """What a program prints, and how it ends; ``body`` are the statements of its main."""
    source = f"{HEAD}{kernels}{CHECK}int main(int argc, char** argv) {{\n{body}\nreturn failures; }}\n"
    (tmp_path / "program.cu").write_text(source)
    done = run(tmp_path / "program.cu", environment)
    return done.stdout, done.stderr, done.returncode


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_launches_of_every_form(tmp_path: Path, environment: dict[str, str], backend: str) -> None:
    body = """
    int host[8] = {0, 1, 2, 3, 4, 5, 6, 7}, *p;
    IS(cudaMalloc(&p, sizeof host), cudaSuccess);
    IS(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice), cudaSuccess);
    a::add<int, 4><<<2, 1>>>(p, 10);
    a::add<int, 4> <<< dim3(1), dim3(1, 1, 1), 0, 0 >>>
        (p + 4, 'd');                              // deduced nothing, converted by the parameter
    if (argc > 100) a::add<int, 4><<<2, 1>>>(p, 1); else for (int i = 0; i < 3; ++i) a::add<int, 2><<<1, 1>>>(p, 1);
    void (*chosen)(int*) = mark;
    chosen<<<1, 1>>>(p + 3);
    int seven = 7;
    void* slots[] = {&p, &seven};
    IS(cudaLaunchKernel(a::add<int, 1>, dim3(1), dim3(1), slots), cudaSuccess);
    cudaLaunchConfig_t config{};
    config.gridDim = 1; config.blockDim = 1;
    IS(cudaLaunchKernelEx(&config, a::add<int, 1>, p + 1, 100), cudaSuccess);
    float* q;
    IS(cudaMallocManaged(&q, 4), cudaSuccess);
    mark<<<1, 1>>>(q);
    CHECK(*q == 2);
    IS(cudaGetLastError(), cudaSuccess);
    IS(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int n : host) printf("%d ", n);
    double* d;
    IS(cudaMallocManaged(&d, 6 * sizeof *d), cudaSuccess);
    numbers<<<1, 1>>>(d, true, -3, 60000, -(1L << 40), 0.25f, __half(1.5f));
    for (int i = 0; i < 6; ++i) printf("%g ", d[i]);
    """
    out, err, status = run_main(tmp_path, {**environment, "TILEWRIGHT_BACKEND": backend}, body)
    assert (err, status) == ("", 0)
    assert out == "20 114 12 1 114 115 116 117 1 -3 60000 -1.09951e+12 0.25 1.5 "


def test_launches_beside_objects_that_are_destroyed(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    struct Freed { int* p; ~Freed() { cudaFree(p); } } freed;
    cudaMallocManaged(&freed.p, 4);
    mark<<<1, 1>>>(freed.p);
    printf("%d", *freed.p);
    """
    assert run_main(tmp_path, environment, body) == ("1", "", 0)


def test_what_the_program_and_its_kernels_print_keeps_its_order(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    int* p;
    cudaMallocManaged(&p, 4);
    for (*p = 0; *p < 3; ++*p) { printf("launch %d\\n", *p); talk<<<1, 1>>>(p); }
    printf("end\\n");
    """
    out, err, status = run_main(tmp_path, environment, body)
    assert (out, err, status) == ("launch 0\nblock 0\nlaunch 1\nblock 1\nlaunch 2\nblock 2\nend\n", "", 0)


def test_error_codes(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    int host[4] = {}, *p, device, *none = nullptr;
    IS(cudaMalloc(&p, size_t(1) << 60), cudaErrorMemoryAllocation);
    IS(cudaMalloc(&p, 16), cudaSuccess);
    IS(cudaMalloc((void**)nullptr, 16), cudaErrorInvalidValue);
    IS(cudaMemcpy(p, host, 17, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    IS(cudaMemcpy(p, host, size_t(-4), cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    IS(cudaMemcpy(host, p + 1, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    IS(cudaMemcpy(host, host, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    IS(cudaMemcpy(p, none, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    IS(cudaMemcpy(p, host, 16, cudaMemcpyKind(9)), cudaErrorInvalidMemcpyDirection);
    IS(cudaMemcpyAsync(p, host, 16, cudaMemcpyDefault), cudaSuccess);
    IS(cudaMemset(p, 0, 17), cudaErrorInvalidValue);
    IS(cudaMemset(p, 255, 16), cudaSuccess);
    IS(cudaPeekAtLastError(), cudaErrorInvalidValue);
    IS(cudaGetLastError(), cudaErrorInvalidValue);
    IS(cudaGetLastError(), cudaSuccess);
    IS(cudaFree(p + 1), cudaErrorInvalidValue);
    IS(cudaFree(nullptr), cudaSuccess);
    mark<<<0, 1>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidConfiguration);
    mark<<<1, 32>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidConfiguration);
    mark<<<dim3(1, 1, 1u << 30), 1>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidConfiguration);
    mark<<<dim3(1u << 22, 1u << 21, 1u << 21), 1>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidConfiguration);
    mark<<<1, 1, 0, (cudaStream_t)99>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    void* slots[] = {&p};
    IS(cudaLaunchKernel((void*)&host, 1, 1, slots), cudaErrorInvalidDeviceFunction);
    IS(cudaLaunchKernel((void*)(void (*)(int*))mark, 1, 7, slots), cudaErrorInvalidConfiguration);
    IS(cudaGetDevice(&device), cudaSuccess);
    IS(cudaSetDevice(1), cudaErrorInvalidDevice);
    printf("%s, %s, %s\\n", cudaGetErrorString(cudaErrorMemoryAllocation), cudaGetErrorName(cudaErrorNotReady),
           cudaGetErrorString(cudaError_t(12345)));
    IS(cudaFree(p), cudaSuccess);
    IS(cudaFree(p), cudaErrorInvalidValue);
    """
    out, err, status = run_main(tmp_path, environment, body)
    assert (out, err, status) == ("out of memory, cudaErrorNotReady, unrecognized error code\n", "", 0)


def test_streams_events_and_devices(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    cudaStream_t stream; cudaEvent_t begin, end; float ms = -1; int n, *p; size_t left, total; cudaDeviceProp about;
    IS(cudaStreamCreate(&stream), cudaSuccess);
    IS(cudaEventCreate(&begin), cudaSuccess); IS(cudaEventCreate(&end), cudaSuccess);
    IS(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle);
    IS(cudaMallocAsync(&p, 4, stream), cudaSuccess);
    IS(cudaEventRecord(begin, stream), cudaSuccess);
    mark<<<1, 1, 0, stream>>>(p);
    IS(cudaEventRecord(end, stream), cudaSuccess);
    IS(cudaStreamWaitEvent(stream, end), cudaSuccess); IS(cudaEventSynchronize(end), cudaSuccess);
    IS(cudaEventElapsedTime(&ms, begin, end), cudaSuccess); CHECK(ms > 0);
    IS(cudaStreamSynchronize(stream), cudaSuccess); IS(cudaStreamDestroy(stream), cudaSuccess);
    IS(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle); IS(cudaEventDestroy(end), cudaSuccess);
    IS(cudaGetDeviceCount(&n), cudaSuccess); CHECK(n == 1);
    IS(cudaGetDeviceProperties(&about, 0), cudaSuccess);
    CHECK(about.multiProcessorCount >= 1 && about.maxGridSize[2] > 0 && about.integrated == 1);
    IS(cudaMemGetInfo(&left, &total), cudaSuccess); CHECK(left <= total && about.totalGlobalMem == total);
    IS(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
    IS(cudaRuntimeGetVersion(&n), cudaSuccess); CHECK(n >= 13000);
    """
    assert run_main(tmp_path, environment, body) == ("", "", 0)


FAULTS = (
    (
        "int* p = new int; mark<<<1, 1>>>(p);",
        "argument 'p' of mark() points to no memory of the device",
        "cudaErrorIllegalAddress",
    ),
    (
        "char* p; cudaMalloc(&p, 8); mark<<<1, 1>>>((int*)(p + 1));",
        "is no multiple of its element size, 4",
        "cudaErrorMisalignedAddress",
    ),
    (
        "int* p; cudaMalloc(&p, 8); mark<<<1, 1>>>(p + 2);",
        "program.cu:14:37: store of 4 bytes outside argument 'p'",
        "cudaErrorIllegalAddress",
    ),
)


def test_failed_launches_stay_errors(tmp_path: Path, environment: dict[str, str]) -> None:
    """Until the device is reset."""
    body = "".join(
        f"{{ {launch} IS(cudaGetLastError(), {name}); IS(cudaDeviceSynchronize(), {name}); "
        f"IS(cudaMemset(p, 0, 1), {name}); IS(cudaDeviceReset(), cudaSuccess); }}"
        for launch, _, name in FAULTS
    )
    out, err, status = run_main(tmp_path, {**environment, "TILEWRIGHT_BACKEND": "reference"}, body)
    assert (out, status) == ("", 0)
    assert all(words in err for _, words, _ in FAULTS)


SIMT = """
__constant__ float weights[4];
__device__ int counter = 3;
template <typename T> struct Sum { T x; __device__ Sum(T x) : x{x} {} __device__ T shuffled() const { return __shfl_down_sync(~0u, x, 1); } };
static __device__ __forceinline__ float scaled(float x) { return x * threadIdx.x * weights[0]; }
__global__ void __launch_bounds__(128) simt(int* p) {
    extern __shared__ int buffer[];
    buffer[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = atomicAdd(&counter, 1);
}
"""


def test_pitched_memory_symbols_and_callbacks(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    float host[6][10], back[6][10] = {};
    for (int i = 0; i < 60; ++i) host[i / 10][i % 10] = i;
    float* p;
    size_t pitch, rows = 6, width = 10 * sizeof(float);
    IS(cudaMallocPitch(&p, &pitch, width, rows), cudaSuccess);
    CHECK(pitch >= width && pitch % 256 == 0);
    IS(cudaMemcpy2D(p, pitch, host, width, width, rows, cudaMemcpyHostToDevice), cudaSuccess);
    IS(cudaMemset2D(p, pitch, 0, 4, rows), cudaSuccess);
    IS(cudaMemcpy2DAsync(back, width, p, pitch, width, rows, cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
    CHECK(back[0][0] == 0 && back[5][0] == 0 && back[5][1] == 51 && back[5][9] == 59);
    IS(cudaMemcpy2D(p, 4, host, width, width, rows, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
    IS(cudaGetLastError(), cudaErrorInvalidPitchValue);
    IS(cudaMemcpy2D(p, pitch, host, width, width, rows + 1000, cudaMemcpyHostToDevice), cudaErrorInvalidValue);

    float four[4] = {1, 2, 3, 4}, found[4];
    IS(cudaMemcpyToSymbol(weights, four, sizeof four), cudaSuccess);
    IS(cudaMemcpyToSymbol(weights, four, sizeof four, 4), cudaErrorInvalidValue);
    IS(cudaMemcpyFromSymbol(found, weights, 8, 8), cudaSuccess);
    CHECK(found[0] == 3 && found[1] == 4);
    size_t size; void* address;
    IS(cudaGetSymbolSize(&size, weights), cudaSuccess);
    IS(cudaGetSymbolAddress(&address, counter), cudaSuccess);
    CHECK(size == 16 && *(int*)address == 3);
    IS(cudaMemset(address, 0, 4), cudaSuccess);
    CHECK(*(int*)address == 0);
    mark<<<1, 1>>>((int*)address);
    CHECK(*(int*)address == 1);
    IS(cudaMemset(address, 0, 8), cudaErrorInvalidValue);
    *(int*)address = 3;

    IS(cudaDeviceSetLimit(cudaLimitStackSize, 4096), cudaSuccess);
    IS(cudaDeviceGetLimit(&size, cudaLimitStackSize), cudaSuccess);
    CHECK(size == 4096);
    IS(cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize), cudaSuccess);
    CHECK(size == 8 << 20);
    IS(cudaDeviceSetLimit(cudaLimit(77), 1), cudaErrorUnsupportedLimit);

    cudaPointerAttributes attributes;
    int *pinned, *mapped;
    IS(cudaHostAlloc(&pinned, 16, cudaHostAllocMapped), cudaSuccess);
    IS(cudaHostGetDevicePointer(&mapped, pinned, 0), cudaSuccess);
    mark<<<1, 1>>>(mapped);
    IS(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
    CHECK(*pinned == 1 && attributes.type == cudaMemoryTypeHost);
    IS(cudaPointerGetAttributes(&attributes, p + 1), cudaSuccess);
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == p + 1 && !attributes.hostPointer);
    IS(cudaPointerGetAttributes(&attributes, four), cudaSuccess);
    CHECK(attributes.type == cudaMemoryTypeUnregistered);

    int calls = 0;
    IS(cudaLaunchHostFunc(nullptr, [](void* n) { ++*(int*)n; }, &calls), cudaSuccess);
    IS(cudaStreamAddCallback(nullptr, [](cudaStream_t, cudaError_t, void* n) { ++*(int*)n; }, &calls, 0), cudaSuccess);
    CHECK(calls == 2);
    """
    out, err, status = run_main(tmp_path, environment, body, KERNELS + SIMT)
    assert (out, status) == ("", 0)
    assert err == ""


def test_launches_in_headers_of_the_program_and_in_threads(tmp_path: Path, environment: dict[str, str]) -> None:
    header = """#pragma once
    #include "cuda_tile.h"
    #include <stdexcept>
    #define START(kernel, grid) kernel<<<grid, 1>>>
    template <typename T> __tile_global__ void add(T* p, T by) {
        auto at = p + cuda::tiles::iota<cuda::tiles::tile<int, cuda::tiles::shape<4>>>();
        cuda::tiles::store(at, by + cuda::tiles::load(at));
    }
    template <typename T> struct Buffer {
        T* p;
        explicit Buffer(size_t n) { if (cudaMallocManaged(&p, n * sizeof(T))) throw std::bad_alloc(); }
        ~Buffer() { cudaFree(p); }
        void add(T by) { ::add<T><<<1, 1>>>(p, by); }
    };
    """
    (tmp_path / "buffer.cuh").write_text(header)
    kernels = '#include "buffer.cuh"\n#include <thread>\n#include <cassert>\n'
    body = """
    Buffer<int> buffer(4);
    for (int i = 0; i < 4; ++i) buffer.p[i] = i;
    buffer.add(10);
    std::thread([&] { buffer.add(100); IS(cudaGetLastError(), cudaSuccess); }).join();
    START(add<int>, 1)(buffer.p, 1000);
    for (int i = 0; i < 4; ++i) printf("%d ", buffer.p[i]);
    try { Buffer<int> large(size_t(1) << 60); } catch (std::bad_alloc const&) { printf("caught"); }
    bool evaluated = false;
    assert((evaluated = true));
    CHECK(evaluated);
    """
    out, err, status = run_main(tmp_path, environment, body, kernels)
    assert (out, err, status) == ("1110 1111 1112 1113 caught", "", 0)


def test_programs_that_are_wrong(tmp_path: Path, environment: dict[str, str]) -> None:
    for body, words in (
        ("undeclared();", f"{tmp_path}/program.cu:26:1: use of undeclared identifier 'undeclared'"),
        ("int* p;\n mark<<<1, 1>>(p);", "program.cu:27:6: a launch is written kernel<<<grid>>>(arguments)"),
        ("extern void elsewhere(); elsewhere();", "elsewhere"),
    ):
        out, err, status = run_main(tmp_path, environment, body)
        assert (out, status) == ("", 3)
        assert words in err
    out, err, status = run_main(tmp_path, environment, "k<<<1, 1>>>();", "__tile_global__ void k() { throw 1; }\n")
    assert (out, status) == ("", 3)
    assert "program.cu:6:28: exceptions are not available in tile code" in err
    (tmp_path / "kernels.cu").write_text(HEAD + KERNELS)
    alone = run(tmp_path / "kernels.cu", environment)
    assert alone.returncode == 3 and "kernels.cu has no function main" in alone.stderr
    missing = run(tmp_path / "nowhere.cu", environment)
    assert (missing.returncode, missing.stdout) == (2, "") and "there is no file" in missing.stderr


def test_columns_are_those_of_the_program(tmp_path: Path, environment: dict[str, str]) -> None:
    """Not those of launches and macros as they are compiled."""
    (tmp_path / "own.h").write_text("#define OWN(x) do { if ((x) != cudaSuccess) return 1; } while (0)\n")
    head = '#include "own.h"\n__global__ void k(int* p, int n) { *p = n; }\nint main() { int* p; int big = 3;\n'
    for line, place in {
        "  OWN(cudaMalloc(&p, sizeof(itn)));": "4:29",
        "  OWN(cudaMalloc(&p, 4)); k<<<big, 1>>>(p, bgi);": "4:44",
        "  k<<<big, 1>>>(p);": "4:3",
        "  k<<<1, 1>>>(p, big); k<<<1, 1>>>(p, big, big); undeclared();": "4:24",
    }.items():
        for first in (head, head.replace('#include "own.h"', "#define OWN(x) (x)")):
            (tmp_path / "program.cu").write_text(f"{first}{line}\n}}\n")
            done = run(tmp_path / "program.cu", environment, options=("-I", str(tmp_path)))
            assert done.returncode == 3 and f"program.cu:{place}: " in done.stderr, done.stderr


def test_exit_status_arguments_and_macros(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "p.cu").write_text(
        '#include <cstdlib>\n#include <cstdio>\n#include "cuda_runtime.h"\n'
        'int main(int argc, char** argv) { printf("%d %s", argc, argv[1]); std::exit(argc + CODE); }\n'
    )
    done = run(tmp_path / "p.cu", environment, "x y", options=("-D", "CODE=40"))
    assert (done.stdout, done.stderr, done.returncode) == ("2 x y", "", 42)


@pytest.mark.parametrize("name", ["scale", "matmul"])
def test_examples(name: str, environment: dict[str, str]) -> None:
    done = run(EXAMPLES / f"{name}.cu", environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 are wrong" in done.stdout


LAUNCHES = {
    "k<<<1, 1>>>(x);": "(::__tw_host::configure(1, 1), k(x));",
    "if (a < b) ::s::k<T, (N > 2)><<<dim3(f<3>(x)), 1>>>(g(x, 1), y);": "if (a < b) (::__tw_host::configure(dim3(f<3>(x)), 1), ::s::k<T, (N > 2)>(g(x, 1), y));",
    "return ::k<<<1, 1>>>(x);": "return (::__tw_host::configure(1, 1), ::k(x));",
    "(*f)<<<1, 1>>>\n(x);": "(::__tw_host::configure(1, 1), (*f)\n(x));",
    "T::template k<a<b>><<<1, 1>>>();": "(::__tw_host::configure(1, 1), T::template k<a<b>>());",
    "k<1 << 3, [](int x) -> int { return x; }><<<1, 1>>>();": "(::__tw_host::configure(1, 1), k<1 << 3, [](int x) -> int { return x; }>());",
    "if (m) kernels.at[n](2)->k[0]<<<1, 1>>>();": "if (m) (::__tw_host::configure(1, 1), kernels.at[n](2)->k[0]());",
    "else get<3>(a)<<<1, 1>>>(x);": "else (::__tw_host::configure(1, 1), get<3>(a)(x));",
    'f("<<<"); // <<<': 'f("<<<"); // <<<',
}


@pytest.mark.parametrize(("text", "expected"), LAUNCHES.items())
def test_launches_needs_no_compiler(text: str, expected: str) -> None:
    assert launches_as_calls(text, "t.cu") == expected
    assert without_launches(text, "t.cu").count("\n") == text.count("\n")
    assert "<<<1" not in without_launches(text, "t.cu")


@pytest.mark.parametrize("text", ["<<<1, 1>>>(x)", "k<<<1, 1>>>;", "k<<<1, 1>>(x);", "{ k<<<1, 1 } >>>(x)"])
def test_launches_with_missing_parts_needs_no_compiler(text: str) -> None:
    with pytest.raises(TileSyntaxError, match="a launch is written"):
        launches_as_calls(text, "t.cu")


def test_the_runtime_has_what_the_headers_declare_needs_no_compiler() -> None:
    declared, defined = set(), set()
    for header in ("cuda_runtime.h", "cuda.h", "nvrtc.h", "tilewright/graphs.h", "tilewright/functions.h"):
        for part in re.findall(r'extern "C" \{(.*?)^}', (INCLUDE_DIR / header).read_text(), re.S | re.M):
            declared |= set(re.findall(r"^\w[\w ]*[ *]((?:cuda?|nvrtc|__tw_)\w+)\(", part, re.M))
    for source in RUNTIME_DIR.glob("*.cpp"):
        defined |= set(re.findall(r"^\w[\w ]*[ *](\w+)\([^;]*?\) \{", source.read_text(), re.M))
    assert len(declared) > 100
    assert declared <= defined


def test_the_standard_library(tmp_path: Path, environment: dict[str, str]) -> None:
    """The first such program on a machine takes as long as building that library does."""
    kernels = "#include <vector>\n#include <iostream>\n#include <stdexcept>\n#include <cuda/std/array>\n" + KERNELS
    body = """
    static_assert(cuda::std::array<int, 3>{1, 2, 3}[1] == 2);
    std::vector<float> host(64, 2);
    float* p;
    cudaMalloc(&p, 256);
    cudaMemcpy(p, host.data(), 256, cudaMemcpyHostToDevice);
    a::add<float, 16><<<4, 1>>>(p, 3);
    cudaMemcpy(host.data(), p, 256, cudaMemcpyDeviceToHost);
    try { host.at(64) = 1; } catch (std::out_of_range const&) { std::cout << host.back() << std::endl; }
    throw std::runtime_error("the end");
    """
    out, err, status = run_main(tmp_path, environment, body, kernels)
    assert (out, status) == ("5\n", -6)
    assert "the end" in err


def test_the_runtime_and_the_keywords_need_no_include(tmp_path: Path, environment: dict[str, str]) -> None:
    program = tmp_path / "bare.cu"
    program.write_text(
        "#define N 8\n__tile_global__ void k(int* p) { p[0] = N; }\n"
        "int main() { int *p, h = 0; cudaMalloc(&p, 4); k<<<1, 1>>>(p);"
        " cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost); return h; }"
    )
    assert run(program, environment).returncode == 8


def test_names_that_nothing_defines(tmp_path: Path, environment: dict[str, str]) -> None:
    text = "template <typename T> struct S { void go(T); };\nint main() {\n  S<int> s;\n  s.go(3);\n}\n"
    (tmp_path / "program.cu").write_text(text)
    done = run(tmp_path / "program.cu", environment)
    assert "program.cu:4:5: nothing defines S<int>::go(int); define it" in done.stderr
    assert done.stderr.splitlines()[1:] == ["    4 |   s.go(3);", "      |     ^^"]
    assert "Traceback" not in done.stderr and done.returncode != 0


def test_names_that_two_files_define(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "program.cu").write_text("int main() { return 0; }\nint twice(int x) {\n  return 2 * x;\n}\n")
    (tmp_path / "other.cpp").write_text("\nint twice(int x) { return x + x; }\n")
    done = run(tmp_path / "program.cu", environment, str(tmp_path / "other.cpp"))
    said = done.stderr.splitlines()[0]
    at = re.escape(str(tmp_path))
    assert re.search(
        rf"{at}/other.cpp:2:5: twice\(int\) is defined here and at {at}/program.cu:2; make one static", said
    )
    assert done.returncode != 0


def test_names_that_are_not_ascii(tmp_path: Path, environment: dict[str, str]) -> None:
    text = """
__tile__ int hälfte(int x) { assert(x > 1); return x / 2; }
namespace maße { template <class T> __tile_global__ void größe(T* höhe, T n) { *höhe = hälfte(2 * n); } }
extern "C" __tile_global__ void fläche(int* p) { *p += 1; }
__global__ void länge(int* p) { *p *= 2; }
int main() {
    int* p; cudaMallocManaged(&p, 4);
    maße::größe<int><<<1>>>(p, 3); fläche<<<1>>>(p); länge<<<1, 1>>>(p); cudaDeviceSynchronize();
    maße::größe<int><<<1>>>((int*)8, 3);
    return *p;
}
"""
    (tmp_path / "program.cu").write_text(text)
    done = run(tmp_path / "program.cu", environment)
    assert done.returncode == 8 and "argument 'höhe' of größe<int>() points to no memory" in done.stderr


def test_macros_that_stand_for_a_part_of_a_launch(tmp_path: Path, environment: dict[str, str]) -> None:
    text = """
#define LAUNCH(kernel, grid, ...) kernel<<<grid, ##__VA_ARGS__>>>
#define WITH(...) \\
    <<< __VA_ARGS__ >>>
__tile_global__ void tile(int* p, int v) { *p += v; }
__global__ void simt(int* p, int v) { *p *= v; }
int main() {
    int* p; cudaMallocManaged(&p, 4); *p = 1;
    LAUNCH(tile, 1)(p, 2); simt WITH(dim3(1), 2 - 1)(p, 5); LAUNCH(simt, 1, 1, 0)(p, 2);
    return *p;
}
"""
    (tmp_path / "program.cu").write_text(text)
    done = run(tmp_path / "program.cu", environment)
    assert (done.stderr, done.returncode) == ("", 30)


@pytest.mark.parametrize("how", ["run", "check"])
def test_kernels_that_static_objects_launch(tmp_path: Path, environment: dict[str, str], how: str) -> None:
    """Before main and behind its end, tile and SIMT kernels run as ever; constructors run in the order of priorities."""
    text = """#include <cstdio>
#include <cstdlib>
__tile_global__ void tile(int* p) { *p += 5; }
__global__ void simt(int* p) { *p *= 2; }
static int* p;
struct Last { ~Last() { tile<<<1>>>(p); printf("%s %d\\n", cudaGetErrorName(cudaGetLastError()), *p); } } last;
struct First { First() { tile<<<1>>>(p); simt<<<1, 1>>>(p); puts(cudaGetErrorName(cudaGetLastError())); } } first;
__attribute__((constructor(200))) static void earlier(int count, char** words) {
    cudaMallocManaged(&p, 4);
    *p = count;
    puts(words[1]);
}
int main() { atexit([] { puts("atexit"); }); printf("main %d\\n", *p); return 9; }
"""
    (tmp_path / "program.cu").write_text(text)
    done = run(tmp_path / "program.cu", environment, "word", how=how)
    said = ["word", "cudaSuccess", "main 14", "atexit", "cudaSuccess 19"]
    assert done.stdout.splitlines()[: len(said)] == said, done.stderr
    assert how == "check" or (done.stderr, done.returncode) == ("", 9)


def test_types_of_functions_of_the_driver(tmp_path: Path, environment: dict[str, str]) -> None:
    """Those that are not supported have one, too."""
    text = """#include <cudaTypedefs.h>
#include <cuda_runtime.h>
int main() {
    void* found;
    cudaGetDriverEntryPoint("cuDeviceGetCount", &found, cudaEnableDefault);
    PFN_cuDeviceGetCount_v2000 count = (PFN_cuDeviceGetCount_v2000)found;
    PFN_cuTensorMapEncodeTiled_v12000 unsupported = nullptr;
    int devices = 0;
    return unsupported != nullptr || count(&devices) != CUDA_SUCCESS || devices != 1;
}
"""
    (tmp_path / "program.cu").write_text(text)
    done = run(tmp_path / "program.cu", environment)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_headers_that_say_they_are_of_the_system(tmp_path: Path, environment: dict[str, str]) -> None:
    """Those of libraries do, and those that they include are then, too."""
    pragma = "#pragma once\n#  pragma GCC system_header\n"
    (tmp_path / "inner.h").write_text(pragma + "inline int inner() { return 4; }\n")
    (tmp_path / "outer.h").write_text(pragma + '#include "inner.h"\ninline int outer() { return inner() + 1; }\n')
    (tmp_path / "program.cu").write_text(
        '#include "outer.h"\n__device__ int one() { return 1; }\n__global__ void k(int* p) { *p += one(); }\n'
        "int main() { int* p; cudaMallocManaged(&p, 4); *p = outer(); k<<<1, 1>>>(p); return *p; }\n"
    )
    done = run(tmp_path / "program.cu", environment)
    assert (done.stderr, done.returncode) == ("", 6)


NAMED_KERNELS = """
struct Scale { float by; constexpr Scale(float b) : by(b) {} };
enum class Mode : short { add, mul };
template <float F> __tile_global__ void by_float(float* p) { ct::store(p, F); }
template <double D> __tile_global__ void by_double(float* p) { ct::store(p, float(D)); }
template <Scale S> __tile_global__ void by_class(float* p) { ct::store(p, S.by); }
template <Mode M> __tile_global__ void by_enum(float* p) { ct::store(p, M == Mode::mul ? 4.0f : 3.0f); }
template <auto A> __tile_global__ void by_auto(float* p) { ct::store(p, float(A)); }
__device__ int symbol;
template <int* P> __tile_global__ void by_pointer(float* p) { ct::store(p, 6.0f); }
template <template <typename> class C> __tile_global__ void by_template(float* p) { ct::store(p, float(sizeof(C<int>))); }
template <typename T> struct Pair { T a, b; };
template <typename F> __tile_global__ void by_lambda(float* p) { ct::store(p, F{}(3.0f)); }
template <typename... Ins> __tile_global__ void pack(float* p, const Ins* __restrict__... ins) { ct::store(p, (float(ct::load(ins)) + ...)); }
namespace { __tile_global__ void hidden(float* p) { ct::store(p, 10.0f); } }
struct Host { static __tile_global__ void member(float* p) { ct::store(p, 11.0f); } };
static __tile_global__ void own(float* __restrict__ p, Mode m) { ct::store(p, m == Mode::mul ? 12.0f : 0.0f); }
"""


def test_kernels_are_known_by_their_symbols(tmp_path: Path, environment: dict[str, str]) -> None:
    """Template arguments of every kind, which no name that a compiler prints stands for; launches of every length."""
    body = """
  float* p; int* i;
  cudaMallocManaged(&p, 64 * 4); cudaMallocManaged(&i, 4); *i = 5;
  auto twice = [](auto x) { return x * 2; };
  by_float<0.1f><<<1>>>(p);
  by_double<0.25><<<1, 1>>>(p + 1);
  by_class<Scale{2.5f}><<<1, 1, 0>>>(p + 2);
  by_enum<Mode::mul><<<1, 1, 0, nullptr>>>(p + 3);
  by_auto<5u><<<dim3(1)>>>(p + 4);
  by_auto<'a'><<<{1}>>>(p + 5);
  by_pointer<&symbol><<<1>>>(p + 6);
  by_template<Pair><<<1>>>(p + 7);
  by_lambda<decltype(twice)><<<1>>>(p + 8);
  pack<<<1>>>(p + 9, (float const*)(p + 8), i);
  hidden<<<1>>>(p + 10);
  Host::member<<<1>>>(p + 11);
  own<<<1>>>(p + 12, Mode::mul);
  for (int k = 0; k < 13; ++k) printf("%g ", p[k]);
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
"""
    out, err, status = run_main(tmp_path, environment, body, NAMED_KERNELS)
    assert (err, status) == ("", 0)
    assert out == "0.1 0.25 2.5 4 5 97 6 8 6 11 10 11 12 cudaSuccess\n"


TOOLKIT = """
#include <crt/cuda_tile.h>
#include <driver_types.h>
#include <cuda.h>
#include <cuda_profiler_api.h>
#if defined(__DRIVER_TYPES_H__) && defined(__CUDA_RUNTIME_H__) && CUDART_VERSION >= 13000 && CUDA_VERSION >= 13000
template <typename T> void check(T result, char const* what) { if (result) printf("%s: %s\\n", what, cudaGetErrorName(result)); }
#define checked(call) check((call), #call)
#endif
"""


def test_what_headers_of_programs_look_at(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    cudaDeviceProp about; int value[3] = {};
    checked(cudaGetDeviceProperties(&about, 0));
    checked(cudaDeviceGetAttribute(&value[0], cudaDevAttrComputeMode, 0));
    checked(cudaDeviceGetAttribute(&value[1], cudaDevAttrWarpSize, 0));
    checked(cudaDeviceGetAttribute(&value[2], cudaDevAttrMaxBlockDimZ, 0));
    checked(cudaSetDevice(7));
    CUdevice device = 0; CUresult result = CUDA_SUCCESS;
    CHECK(value[0] == cudaComputeModeDefault && value[1] == about.warpSize && value[2] == about.maxThreadsDim[2]);
    CHECK(about.sharedMemPerBlock == 49152 && about.clusterLaunch == 0 && about.maxThreadsPerBlock == 1024);
    CHECK(device == result);
    unsigned flags = 7; int own = 7; cudaFuncCache cache; cudaUUID_t id = about.uuid; char bus[16];
    IS(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost), cudaSuccess);
    IS(cudaGetDeviceFlags(&flags), cudaSuccess);
    IS(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1), cudaSuccess);
    IS(cudaDeviceGetCacheConfig(&cache), cudaSuccess);
    IS(cudaDeviceGetPCIBusId(bus, sizeof bus, 0), cudaSuccess);
    IS(cudaDeviceGetByPCIBusId(&own, bus), cudaSuccess);
    IS(cudaDeviceGetByPCIBusId(&own, "0000:01:00.0"), cudaErrorInvalidDevice);
    IS(cudaDeviceGetAttribute(&value[0], cudaDevAttrSurfaceAlignment, 0), cudaSuccess);
    CHECK(flags == cudaDeviceMapHost && own == 0 && id.bytes[0] == 't' && value[0] == int(about.surfaceAlignment));
    IS(cudaProfilerStart(), cudaSuccess);
    """
    out, err, status = run_main(tmp_path, environment, body, TOOLKIT)
    assert (out, err, status) == ("cudaSetDevice(7): cudaErrorInvalidDevice\n", "", 0)


def test_entries_that_are_not_supported_say_so_once(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    cudaArray_t array; int blocks, grid, block; cudaFuncAttributes about;
    for (int i = 0; i < 2; ++i) IS(cudaFreeArray(array), cudaErrorNotSupported);
    IS(cudaGetLastError(), cudaErrorNotSupported);
    auto* k = (void (*)(int*))mark;
    IS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 256, 0), cudaSuccess);
    IS(cudaOccupancyMaxPotentialBlockSize(&grid, &block, k), cudaSuccess);
    IS(cudaFuncGetAttributes(&about, k), cudaSuccess);
    IS(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20), cudaErrorInvalidValue);
    CHECK(blocks == 8 && block == 1024 && grid >= 2 && about.maxThreadsPerBlock == 1024);
    cudaChannelFormatDesc one = cudaCreateChannelDesc<float>(), four = cudaCreateChannelDesc<uchar4>();
    CHECK(one.x == 32 && one.y == 0 && one.f == cudaChannelFormatKindFloat && four.w == 8);
    CHECK(four.f == cudaChannelFormatKindUnsigned && cudaCreateChannelDesc<short2>().f == cudaChannelFormatKindSigned);
    cudaResourceDesc resource{}; cudaTextureDesc texture{}; cudaTextureObject_t object;
    resource.resType = cudaResourceTypePitch2D, resource.res.pitch2D.desc = one;
    texture.addressMode[0] = cudaAddressModeClamp, texture.filterMode = cudaFilterModeLinear;
    IS(cudaCreateTextureObject(&object, &resource, &texture, nullptr), cudaErrorNotSupported);
    size_t room;
    IS(cudaOccupancyAvailableDynamicSMemPerBlock(&room, k, 2, 1024), cudaSuccess);
    CHECK(room == (227 << 10) / 2);
    IS(cudaOccupancyAvailableDynamicSMemPerBlock(&room, k, 3, 1024), cudaErrorInvalidValue);
    IS(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, k, [](int n) { return n > 640 ? 200 << 10 : n * 64; }),
       cudaSuccess);
    CHECK(block == 512 && grid >= 8);
    IS(cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(&grid, &block, k, [](int) { return 0; }, 64), cudaSuccess);
    CHECK(block == 64);
    cudaExternalMemoryHandleDesc handle = {}; cudaExternalMemory_t memory;
    handle.type = cudaExternalMemoryHandleTypeOpaqueFd, handle.handle.fd = 3, handle.flags = cudaExternalMemoryDedicated;
    IS(cudaImportExternalMemory(&memory, &handle), cudaErrorNotSupported);
    cudaExternalSemaphoreSignalParams signal = {}; cudaExternalSemaphore_t semaphore; cudaGraphicsResource_t resources;
    signal.params.fence.value = 1;
    IS(cudaSignalExternalSemaphoresAsync(&semaphore, &signal, 1, 0), cudaErrorNotSupported);
    IS(cudaGraphicsMapResources(1, &resources, 0), cudaErrorNotSupported);
    int* x; cudaLaunchConfig_t config = {}; config.gridDim = config.blockDim = 1;
    cudaMalloc(&x, sizeof(int));
    IS(cudaLaunchKernelEx(&config, k, x), cudaSuccess);  // the error before is not its own
    IS(cudaGetLastError(), cudaErrorNotSupported);
    """
    out, err, status = run_main(tmp_path, environment, body)
    assert (out, status) == ("", 0)
    entries = ("cudaFreeArray", "cudaCreateTextureObject", "cudaImportExternalMemory")
    entries += ("cudaSignalExternalSemaphoresAsync", "cudaGraphicsMapResources")
    assert err == "".join(f"tilewright: {e} is not supported; it returns cudaErrorNotSupported\n" for e in entries)


def test_graphs_pools_and_copies_in_three_dimensions(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    int *p, host[8] = {}, calls = 0, one = 1;
    IS(cudaMalloc(&p, sizeof host), cudaSuccess);
    cudaStream_t stream, other; cudaGraph_t graph; cudaGraphExec_t exec; cudaEvent_t fork; cudaStreamCaptureStatus status;
    IS(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1), cudaSuccess);
    IS(cudaStreamCreate(&other), cudaSuccess); IS(cudaEventCreate(&fork), cudaSuccess);
    IS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    IS(cudaMemsetAsync(p, 0, sizeof host, stream), cudaSuccess);
    for (int i = 0; i < 3; ++i) a::add<int, 4><<<2, 1, 0, stream>>>(p, 10 + i);
    IS(cudaEventRecord(fork, stream), cudaSuccess); IS(cudaStreamWaitEvent(other, fork), cudaSuccess);
    simt<<<1, 8, 0, other>>>(p, one);
    one = 5;                                          // arguments are copied when they are captured
    IS(cudaEventRecord(fork, other), cudaSuccess); IS(cudaStreamWaitEvent(stream, fork), cudaSuccess);
    IS(cudaLaunchHostFunc(stream, [](void* n) { ++*(int*)n; }, &calls), cudaSuccess);
    IS(cudaMemcpyAsync(host, p, sizeof host, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    IS(cudaStreamIsCapturing(other, &status), cudaSuccess); CHECK(status == cudaStreamCaptureStatusActive);
    IS(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    CHECK(host[0] == 0 && calls == 0);
    size_t count = 0; cudaGraphNode_t nodes[7]; cudaGraphNodeType type;
    IS(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess); CHECK(count == 7);
    IS(cudaGraphGetNodes(graph, nodes, &count), cudaSuccess);
    IS(cudaGraphNodeGetType(nodes[4], &type), cudaSuccess); CHECK(type == cudaGraphNodeTypeKernel);
    IS(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    for (int i = 0; i < 2; ++i) IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    for (int i = 0; i < 8; ++i) CHECK(host[i] == 33 + i + 1);
    CHECK(calls == 2);
    cudaKernelNodeParams params; int by = 100; void* slots[] = {&p, &by};
    IS(cudaGraphKernelNodeGetParams(nodes[4], &params), cudaSuccess);
    params.kernelParams = slots;
    IS(cudaGraphExecKernelNodeSetParams(exec, nodes[4], &params), cudaSuccess);
    IS(cudaGraphLaunch(exec, nullptr), cudaSuccess);
    CHECK(host[7] == 33 + 107);
    IS(cudaGraphExecDestroy(exec), cudaSuccess); IS(cudaGraphDestroy(graph), cudaSuccess);
    IS(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);

    cudaGraphNode_t first, second, third; cudaMemsetParams zero{p, 0, 0x01010101, 4, 8, 1};
    IS(cudaGraphCreate(&graph, 0), cudaSuccess);
    IS(cudaGraphAddMemcpyNode1D(&third, graph, nullptr, 0, host, p, sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
    IS(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &zero), cudaSuccess);
    IS(cudaGraphAddKernelNode(&second, graph, &first, 1, &params), cudaSuccess);
    IS(cudaGraphAddDependencies(graph, &second, &third, 1), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0), cudaSuccess);
    IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    CHECK(host[3] == 0x01010101 + 103);
    int back2[8] = {}; cudaMemsetParams found; cudaGraphExecUpdateResultInfo update;
    zero.value = 0;
    IS(cudaGraphExecMemsetNodeSetParams(exec, first, &zero), cudaSuccess);
    IS(cudaGraphExecMemcpyNodeSetParams1D(exec, third, back2, p, sizeof back2, cudaMemcpyDeviceToHost), cudaSuccess);
    IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    CHECK(host[3] == 0x01010101 + 103 && back2[3] == 103);
    IS(cudaGraphExecUpdate(exec, graph, &update), cudaSuccess);  // what the nodes of the graph say still
    IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    IS(cudaGraphMemsetNodeGetParams(first, &found), cudaSuccess);
    CHECK(back2[3] == 103 && host[3] == 0x01010101 + 103 && found.value == 0x01010101);
    IS(cudaGraphMemsetNodeSetParams(third, &zero), cudaErrorInvalidValue);  // it copies
    IS(cudaGraphRemoveDependencies(graph, &second, &third, 1), cudaSuccess);
    IS(cudaGraphExecUpdate(exec, graph, &update), cudaErrorGraphExecUpdateFailure);
    CHECK(update.result == cudaGraphExecUpdateErrorTopologyChanged);
    IS(cudaGraphAddDependencies(graph, &second, &third, 1), cudaSuccess);

    cudaGraphNode_t from[3], to[3], some[3], mark, part, copy; cudaGraph_t whole, inner; unsigned enabled = 7;
    cudaGraphInstantiateParams how{}; unsigned long long flags; float span; cudaEvent_t begin, seen;
    count = 3; IS(cudaGraphGetEdges(graph, from, to, &count), cudaSuccess);
    CHECK(count == 2 && from[0] == second && to[0] == third && from[1] == first && to[1] == second && !from[2]);
    count = 3; IS(cudaGraphNodeGetDependencies(second, some, &count), cudaSuccess); CHECK(count == 1 && some[0] == first);
    count = 3; IS(cudaGraphNodeGetDependentNodes(second, some, &count), cudaSuccess); CHECK(count == 1 && some[0] == third);
    IS(cudaEventCreate(&begin), cudaSuccess); IS(cudaGraphCreate(&whole, 0), cudaSuccess);
    IS(cudaGraphAddEventRecordNode(&mark, whole, nullptr, 0, begin), cudaSuccess);
    IS(cudaGraphAddChildGraphNode(&part, whole, &mark, 1, graph), cudaSuccess);
    IS(cudaGraphAddEventRecordNode(&some[0], whole, &part, 1, fork), cudaSuccess);
    IS(cudaGraphEventRecordNodeGetEvent(mark, &seen), cudaSuccess); CHECK(seen == begin);
    IS(cudaGraphEventWaitNodeSetEvent(mark, fork), cudaErrorInvalidValue);
    IS(cudaGraphChildGraphNodeGetGraph(part, &inner), cudaSuccess); IS(cudaGraphDestroy(inner), cudaErrorInvalidValue);
    count = 0; IS(cudaGraphGetNodes(inner, nullptr, &count), cudaSuccess); CHECK(count == 3);
    how.flags = cudaGraphInstantiateFlagUpload; IS(cudaGraphInstantiateWithParams(&exec, whole, &how), cudaSuccess);
    IS(cudaGraphExecGetFlags(exec, &flags), cudaSuccess);
    CHECK(how.result_out == cudaGraphInstantiateSuccess && flags == cudaGraphInstantiateFlagUpload);
    host[3] = 0; IS(cudaGraphLaunch(exec, stream), cudaSuccess); CHECK(host[3] == 0x01010101 + 103);
    IS(cudaEventElapsedTime(&span, begin, fork), cudaSuccess); CHECK(span >= 0);
    IS(cudaGraphClone(&inner, whole), cudaSuccess); IS(cudaGraphNodeFindInClone(&copy, part, inner), cudaSuccess);
    IS(cudaGraphNodeFindInClone(&copy, first, inner), cudaErrorInvalidValue); IS(cudaGraphDestroy(inner), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    IS(cudaGraphNodeSetEnabled(exec, first, 0), cudaSuccess); IS(cudaGraphNodeGetEnabled(exec, first, &enabled), cudaSuccess);
    IS(cudaMemset(p, 0, sizeof host), cudaSuccess); IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    CHECK(!enabled && host[3] == 103);
    IS(cudaGraphDestroyNode(part), cudaSuccess); count = 3; IS(cudaGraphGetNodes(whole, some, &count), cudaSuccess);
    CHECK(count == 2); count = 3; IS(cudaGraphGetRootNodes(whole, some, &count), cudaSuccess); CHECK(count == 2);
    IS(cudaGraphDestroyNode(part), cudaErrorInvalidValue); IS(cudaGraphDestroy(whole), cudaSuccess);

    IS(cudaGraphAddDependencies(graph, &third, &first, 1), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph), cudaErrorInvalidValue);  // a circle

    cudaMemPool_t pool; cudaMemPoolProps about{}; unsigned long long used = 0; int* q;
    about.allocType = cudaMemAllocationTypePinned; about.location.type = cudaMemLocationTypeDevice;
    IS(cudaMemPoolCreate(&pool, &about), cudaSuccess);
    IS(cudaMallocFromPoolAsync((void**)&q, 4000, pool, stream), cudaSuccess);
    IS(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess); CHECK(used >= 4000);
    IS(cudaFreeAsync(q, stream), cudaSuccess); IS(cudaMemPoolDestroy(pool), cudaSuccess);
    IS(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);

    unsigned char box[4][3][5], back[4][3][5] = {}; cudaPitchedPtr at; cudaMemcpy3DParms move{};
    for (int i = 0; i < 60; ++i) box[0][0][i] = i;
    IS(cudaMalloc3D(&at, make_cudaExtent(5, 3, 4)), cudaSuccess); CHECK(at.pitch >= 5 && at.ysize == 3);
    move.srcPtr = make_cudaPitchedPtr(box, 5, 5, 3); move.dstPtr = at; move.extent = make_cudaExtent(5, 3, 4);
    move.kind = cudaMemcpyHostToDevice;
    IS(cudaMemcpy3D(&move), cudaSuccess);
    IS(cudaMemset3D(at, 99, make_cudaExtent(1, 1, 4)), cudaSuccess);
    cudaMemcpy3DParms out{};
    out.srcPtr = at; out.srcPos = make_cudaPos(0, 0, 1); out.dstPtr = make_cudaPitchedPtr(back, 5, 5, 3);
    out.extent = make_cudaExtent(4, 3, 3); out.kind = cudaMemcpyDeviceToHost;
    IS(cudaMemcpy3D(&out), cudaSuccess);
    CHECK(back[0][0][0] == 99 && back[0][0][1] == 16 && back[2][2][3] == 58 && back[2][2][4] == 0);
    """
    simt = "__global__ void simt(int* p, int by) { p[threadIdx.x] += by + threadIdx.x; }\n"
    out, err, status = run_main(tmp_path, environment, body, KERNELS + simt)
    assert (out, err, status) == ("", "", 0)


def test_several_files_and_options_after_the_program(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "scale.h").write_text(
        "#pragma once\n#include <cuda_tile.h>\nvoid scale(int*, int);\n"
        "template <int N> __tile_global__ void shared(int* p) { cuda::tiles::store(p, cuda::tiles::load(p) + N); }\n"
    )
    (tmp_path / "scale.cu").write_text(
        '#include "scale.h"\n__tile_global__ void k(int* p, int by) { *p = *p * by; }\n'
        "void scale(int* p, int by) try { k<<<1>>>(p, by); shared<1><<<1>>>(p); if (by == 0) throw by; }\n"
        "catch (int) { *p = -1; throw; }\n"
    )
    (tmp_path / "plain.cpp").write_text("extern const int factor;\nconst int factor = FACTOR;\n")
    (tmp_path / "main.cu").write_text(
        '#include "scale.h"\n#include <cstdio>\n#include <cstring>\nextern const int factor;\n'
        "__tile_global__ void k(int* p) { *p = 5; }\n"
        "int* p;\nint main(int n, char** words) try {\n  cudaMallocManaged(&p, 4);\n  k<<<1>>>(p);\n"
        '  scale(p, factor);\n  shared<1><<<1>>>(p);\n  printf("%d %d %s\\n", *p, n, words[1]);\n  scale(p, 0);\n'
        "} catch (int) { return *p; }\n"
    )
    words = [
        "scale.cu",
        "plain.cpp",
        "-Iheaders",
        "-D",
        "FACTOR=7",
        "-std=c++23",
        "-lm",
        "-lcudart",
        "-lcuda",
        "-lnvrtc",
        "--",
        "-Iargument",
    ]
    command = [sys.executable, "-m", "tilewright", "run", "main.cu", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False, cwd=tmp_path
    )
    assert (done.stdout, done.stderr, done.returncode) == ("37 2 -Iargument\n", "", 255)


def test_arguments_that_are_named_like_files_of_a_program(tmp_path: Path, environment: dict[str, str]) -> None:
    """Behind --, they are for the program, also where nothing else comes before it."""
    (tmp_path / "program.cu").write_text("int main(int n, char** w) { return w[1][0] == 'p' ? n : 0; }\n")
    done = run(tmp_path / "program.cu", environment, "--", "plugin.so", "-Ifolder", "--", "data.cu")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 5)
