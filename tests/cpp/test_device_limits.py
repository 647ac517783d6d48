"""What programs pass to kernels, and do with variables of the device, that belongs to the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.cu").write_text(text)
    command = [sys.executable, "-m", "tilewright", "run", "program.cu"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)


@pytest.mark.parametrize(("kernel", "what"), [("__global__", "std::vector"), ("__tile_global__", "std::string")])
def test_parameters_own_no_memory_of_the_host(tmp_path: Path, kernel: str, what: str) -> None:
    element = "<int>" if what == "std::vector" else ""
    head = "#include <string>\n#include <vector>\n#include <cuda_tile.h>\nstruct Base { int a; };\n"
    head += f"struct Part : Base {{ {what}{element} const some[2]; {what}{element}* pointer; }};\n"
    code = f"{kernel} void k(int* p, Part part) {{}}\nint main() {{ k<<<1, 1>>>(nullptr, Part{{}}); }}\n"
    done = run(tmp_path, head + code)
    message = f"parameter 2 of the kernel k is, or has, {what}, whose memory is the host's; pass a pointer to"
    assert f"program.cu:6:{len(kernel) + 22}: {message}" in done.stderr and done.returncode != 0


ACCESSES = """#include <cstdio>
#include <cuda_runtime.h>
struct Pair { int a, b; };
__device__ int counter;
__constant__ float table[4] = {0.5f};
__device__ Pair pair;
__managed__ int shared_by_all = 1;
__device__ const int fixed = 3;
__host__ __device__ int both() { return counter; }
__global__ void k(int* o) { *o = both() + int(table[1]) + pair.b + shared_by_all + fixed; }
int main() {
  shared_by_all = 2;
  counter = 10;
  table[1] = 100;
  Pair own = pair;
  printf("%g %d %d\\n", table[0], fixed, own.a);
  int value = 1000, *o;
  cudaMemcpyToSymbol(counter, &value, 4);
  void* at;
  cudaGetSymbolAddress(&at, counter);
  cudaMallocManaged(&o, 4);
  k<<<1, 1>>>(o);
  cudaDeviceSynchronize();
  printf("%d %d\\n", *o, *(int*)at);
}
"""


def test_direct_accesses_of_the_host_are_told_each_time(tmp_path: Path) -> None:
    found = ((13, 11, "writes counter", "To"), (14, 12, "writes table", "To"), (15, 14, "reads pair", "From"))
    wanted = [
        f"tilewright: program.cu:{line}:{column}: warning: main() is for the host and {what}, a variable of the device; "
        f"call cudaMemcpy{how}Symbol"
        for line, column, what, how in (*found, (16, 24, "reads table", "From"))
    ]
    for done in (run(tmp_path, ACCESSES), run(tmp_path, ACCESSES)):  # the second one from the cache
        assert (done.stdout, done.returncode) == ("0.5 3 0\n1105 1000\n", 0)
        assert done.stderr.splitlines() == wanted


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("int& x) { x = 1; }", "2:24: parameter 1 of the kernel k is a reference; pass a pointer, or a value"),
        ("int* p, ...) { *p = 1; }", "2:17: parameter 2 of the kernel k is of a variable number"),
        (
            "int* p) { __shared__ int s[2] = {0, 3}; *p = s[1]; }",
            "2:44: the __shared__ variable s has an initial value",
        ),
        ("int* p) { __shared__ int s = 0; *p = s; }", "2:44: the __shared__ variable s has an initial value"),
        (
            "int* p) { struct Made { int a = 1; }; __shared__ Made s; *p = s.a; }",
            "2:73: the __shared__ variable s has an initial value",
        ),
        ("int* p) { if (--*p > 0) k(p); }", "2:43: the kernel k is called like a function"),
    ],
)
def test_kernels_that_cuda_does_not_have(tmp_path: Path, kernel: str, message: str) -> None:
    done = run(tmp_path, f"#include <cuda_runtime.h>\n__global__ void k({kernel}\nint main() {{}}\n")
    assert f"program.cu:{message}" in done.stderr and done.returncode != 0, done.stderr


CALLS = """#include <cuda_runtime.h>
template <typename T> __global__ void k(T* p, T value = 0) { *p = value; }
struct Value { operator int() const { return 2; } ~Value() {} };
template <int N> int* launched(int* p) { k<<<1, N>>>(p); cudaDeviceSynchronize(); return p; }
int main(int count, char**) {
  int* p; cudaMallocManaged(&p, 4);
  auto launch = [&](int by) { k<<<1, 1>>>(launched<1>(p), *p + by); };
  if (count) k<int><<<1, int(Value{})>>>(p, Value{}); else launch(4);
  k<<<1, *launched<1>(p) + 1>>>(launched<1>(p), *launched<1>(p) + 7);
  LINE
  return cudaDeviceSynchronize() != cudaSuccess || *p != 7;
}
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("launch(7);", ""),
        (
            "k(p);",
            "10:3: the kernel k is called like a function; kernels are launched, by the host: k<<<grid, block>>>",
        ),
        ("if (count > 9) k<int>(launched<1>(p), Value{});", "10:18: the kernel k is called like a function"),
        ("auto own = [=] { __shared__ int s; s = 1; return s; }; own();", ""),
        ("__shared__ int s[2]; *p = s[1];", "10:18: main() is for the host and has the __shared__ variable s"),
        ("int n = count; k<n><<<1, 1>>>(p);", "10:18: no matching function for call to 'k': what is given for 'T' is"),
    ],
)
def test_kernels_are_launched(tmp_path: Path, line: str, message: str) -> None:
    """Not called; what computes the arguments of a launch may launch kernels, too."""
    done = run(tmp_path, CALLS.replace("LINE", line))
    assert (not message and done.returncode == 0) or f"program.cu:{message}" in done.stderr, done.stderr


@pytest.mark.parametrize("kernel", ["__global__", "__tile_global__"])
def test_kernels_are_called_for_no_object(tmp_path: Path, kernel: str) -> None:
    text = "#include <cuda_tile.h>\nstruct S {\n  int a;\n  KIND static void f(int* p) {}\n  KIND void k(int* p) {}\n};\nint main() {}\n"
    done = run(tmp_path, text.replace("KIND", kernel))
    message = f"program.cu:5:{len(kernel) + 9}: the kernel k is a member function of an object, which none can be"
    assert message in done.stderr and done.returncode != 0, done.stderr


def test_writes_of_constants(tmp_path: Path) -> None:
    text = "#include <cuda_runtime.h>\n__constant__ int table[4];\n__device__ int other[4];\n"
    text += "__global__ void k(int* p) {\n  other[*p] = table[1];\n  table[*p] = 2;\n}\nint main() { k<<<1, 1>>>(nullptr); }\n"
    done = run(tmp_path, text)
    assert "program.cu:6:13: k() runs on the device and writes table, a __constant__ variable" in done.stderr


VALUES = """#include <cstdlib>
#include <cuda_runtime.h>
struct Empty { int a; __host__ __device__ Empty() {} };
struct Fixed { int a; __host__ __device__ constexpr Fixed(int x) : a(x) {} };
struct Made { int a; __host__ __device__ Made(int x) : a(rand() + x) {} };
__device__ Empty empty;
__constant__ Fixed fixed{3};
__device__ int zero;
int of_the_host = rand();
int* address = &zero;
DECLARED
__global__ void k(int* p) { __shared__ Empty s[2]; *p = fixed.a + empty.a + zero + s[1].a; }
int main() {}
"""


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("__device__ int value = rand();", "value"),
        ("__constant__ int more = of_the_host;", "more"),
        ("__managed__ Made made{4};", "made"),
        ("", ""),
    ],
)
def test_values_of_variables_of_the_device_are_constants(tmp_path: Path, declared: str, name: str) -> None:
    done = run(tmp_path, VALUES.replace("DECLARED", declared))
    column = declared.find(f"{name}") + 1
    message = f"program.cu:11:{column}: the value of {name}, a variable of the device, is computed when the program"
    assert (message in done.stderr) == (done.returncode != 0) == bool(name), done.stderr


def test_constructs_that_a_cpu_would_name_otherwise(tmp_path: Path) -> None:
    done = run(tmp_path, "#include <cuda_runtime.h>\ntexture<float, 1> table;\nint main() {}\n")
    assert "program.cu:2:1: references to textures and surfaces have left CUDA" in done.stderr
    jump = "__global__ void k(int* p) {\n  if (*p) goto end;\n  int x = 1;\n  *p = x;\nend:\n  *p = 2;\n}\n"
    done = run(tmp_path, f"#include <cuda_runtime.h>\n{jump}int main() {{}}\n")
    assert "program.cu:3:11: cannot jump from this goto statement to its label: jump bypasses variable" in done.stderr
