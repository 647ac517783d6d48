"""Launches in C++ programs with a main: their forms, where they stand, and which kernels they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.cpp_programs import KERNELS, run, run_main

from tilewright.frontend.cpp.launches import launches_as_calls, without_launches
from tilewright.ir.errors import TileSyntaxError


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
    a::add<int, 1><<<1, 1>>>(freed.p, 2);
    std::vector<int> added(1, 4);
    a::add<int, 1><<<1, 1>>>(freed.p, added[0]);
    printf("%d", *freed.p);
    """
    assert run_main(tmp_path, environment, body, f"#include <vector>\n{KERNELS}") == ("7", "", 0)


def test_a_kernel_that_is_called_beside_objects_that_are_destroyed(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    struct Freed { int* p; ~Freed() { cudaFree(p); } } freed{};
    a::add<int, 1>(freed.p, 5);
    """
    out, err, status = run_main(tmp_path, environment, body)
    assert (out, status) == ("", 3)
    assert "the kernel a::add is called like a function" in err
    assert "a::add<int, 1>(freed.p, 5);" in err


def test_what_the_program_and_its_kernels_print_keeps_its_order(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    int* p;
    cudaMallocManaged(&p, 4);
    for (*p = 0; *p < 3; ++*p) { printf("launch %d\\n", *p); talk<<<1, 1>>>(p); }
    printf("end\\n");
    """
    out, err, status = run_main(tmp_path, environment, body)
    assert (out, err, status) == ("launch 0\nblock 0\nlaunch 1\nblock 1\nlaunch 2\nblock 2\nend\n", "", 0)


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


LAUNCHES = {
    "k<<<1, 1>>>(x);": "(::__tw_host::configure(1, 1), k(x));",
    "if (a < b) ::s::k<T, (N > 2)><<<dim3(f<3>(x)), 1>>>(g(x, 1), y);": "if (a < b) (::__tw_host::configure(dim3(f<3>(x)), 1), ::s::k<T, (N > 2)>(g(x, 1), y));",
    "return ::k<<<1, 1>>>(x);": "return (::__tw_host::configure(1, 1), ::k(x));",
    "(*f)<<<1, 1>>>\n(x);": "(::__tw_host::configure(1, 1), (*f)\n(x));",
    "T::template k<a<b>><<<1, 1>>>();": "(::__tw_host::configure(1, 1), T::template k<a<b>>());",
    "k<1 << 3, [](int x) -> int { return x; }><<<1, 1>>>();": "(::__tw_host::configure(1, 1), k<1 << 3, [](int x) -> int { return x; }>());",
    "#define K(x) k<<<1, 1>>>(x)": "#define K(x) (::__tw_host::configure(1, 1), k(x))",
    "if (m) kernels.at[n](2)->k[0]<<<1, 1>>>();": "if (m) (::__tw_host::configure(1, 1), kernels.at[n](2)->k[0]());",
    "else get<3>(a)<<<1, 1>>>(x);": "else (::__tw_host::configure(1, 1), get<3>(a)(x));",
    'f("<<<"); // <<<': 'f("<<<"); // <<<',
}


@pytest.mark.parametrize(("text", "expected"), LAUNCHES.items())
def test_launches_needs_no_compiler(text: str, expected: str) -> None:
    directive = re.compile(r'\n#line (\d+) "t\.cu"\n( *)(.{0,4})')
    called = launches_as_calls(text, "t.cu")
    assert directive.sub(r"\3", called) == expected
    lines = text.split("\n")
    for line, column, part in directive.findall(called):  # what follows is where it was
        assert lines[int(line) - 1][len(column) :].startswith(part.rstrip("),"))
    assert without_launches(text, "t.cu").count("\n") == text.count("\n")
    assert "<<<1" not in without_launches(text, "t.cu")


@pytest.mark.parametrize("text", ["<<<1, 1>>>(x)", "k<<<1, 1>>>;", "k<<<1, 1>>(x);", "{ k<<<1, 1 } >>>(x)"])
def test_launches_with_missing_parts_needs_no_compiler(text: str) -> None:
    with pytest.raises(TileSyntaxError, match="a launch is written"):
        launches_as_calls(text, "t.cu")


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


@pytest.mark.parametrize(
    ("kernel", "host", "message"),
    [
        ("*p = 1;", "if (p) @k<<<1, 1>>>(p, 3);", "requires single argument 'p', but 2 arguments were provided"),
        ("*p = 1;", "if (p) @k<<<1, 1>>>(3.5f);", "no known conversion from 'float' to 'int *' for 1st argument"),
        ("*p = 1;", "if (p) k<<<1, @absent>>>(p);", "use of undeclared identifier 'absent'"),
        ("@LAUNCH(k, p);", "", "a kernel that launches a kernel is not available on a CPU"),
        ("if (*p) { @ASSEMBLY(p); }", "k<<<1, 1>>>(p);", "k() runs on the device and uses inline assembly"),
    ],
)
def test_what_is_wrong_in_a_launch_or_a_macro_is_told_where_it_is(
    tmp_path: Path, environment: dict[str, str], kernel: str, host: str, message: str
) -> None:
    """At the place that an @ marks."""
    head = "#include <cuda_runtime.h>\n#define LAUNCH(kernel, ...) kernel<<<1, 1>>>(__VA_ARGS__)\n"
    head += '#define ASSEMBLY(p) asm volatile("wgmma.fence.sync.aligned;" :: "l"(p) : "memory")\n'
    lines = [
        *head.splitlines(),
        "__global__ void k(int* p) {",
        f"  {kernel}",
        "}",
        "int main() {",
        "  int* p = nullptr;",
    ]
    lines += [f"  {host}", "}"]
    line = next(number for number, each in enumerate(lines, 1) if "@" in each)
    (tmp_path / "program.cu").write_text("\n".join(lines).replace("@", ""))
    done = run(tmp_path / "program.cu", environment)
    place = f"program.cu:{line}:{lines[line - 1].index('@') + 1}: "
    assert done.returncode == 3 and place in done.stderr and message in done.stderr, done.stderr


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
extern "C" __tile_global__ void $of$generators(float* p) { ct::store(p, 13.0f); }
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
  $of$generators<<<1>>>(p + 13);
  for (int k = 0; k < 14; ++k) printf("%g ", p[k]);
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
"""
    out, err, status = run_main(tmp_path, environment, body, NAMED_KERNELS)
    assert (err, status) == ("", 0)
    assert out == "0.1 0.25 2.5 4 5 97 6 8 6 11 10 11 12 13 cudaSuccess\n"
