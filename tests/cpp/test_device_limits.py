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
        ("int* p, ...) { *p = 1; }", "2:1: parameter 2 of the kernel k is of a variable number"),
        ("int* p) { __shared__ int s[2] = {0, 3}; *p = s[1]; }", "2:1: the __shared__ variable s has an initial value"),
    ],
)
def test_kernels_that_cuda_does_not_have(tmp_path: Path, kernel: str, message: str) -> None:
    done = run(tmp_path, f"#include <cuda_runtime.h>\n__global__ void k({kernel}\nint main() {{}}\n")
    assert f"program.cu:{message}" in done.stderr and done.returncode != 0, done.stderr
