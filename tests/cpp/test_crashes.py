"""Programs that crash, and SIMT kernels that do: the line is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>
#include <cuda_runtime.h>
__global__ void plain(int* p) {
    p[threadIdx.x] = 1;  // store
}
template <typename T>
__device__ T divided(T a, T b) {
    return a / b;  // division
}
__global__ void split(int* p, int n) {
    __shared__ int s[64];
    for (int i = 0; i < n; ++i) {
        s[threadIdx.x] = i;
        __syncthreads();
        if (i == 2) *(volatile int*)(p + 1024 * (s[63 - threadIdx.x] - 1)) = i;  // after a barrier
        __syncthreads();
    }
    p[threadIdx.x] = divided(s[threadIdx.x], n);
}
__global__ void warps(int* p) {
    int sum = threadIdx.x;
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(~0u, sum, by);
    p[threadIdx.x] = sum;  // after shuffles
}
__global__ void shares(int* p, int n, int d) {
    for (int i = 0; i < n; ++i)
        p[threadIdx.x] += i
            * (n / d);  // out of a loop
}
__global__ void beyond(int* p, int n) {
    __shared__ int s[64];
    for (int i = threadIdx.x; i < n; i += 64) s[i] = i;  // past an array
    __syncthreads();
    p[threadIdx.x] = s[63 - threadIdx.x];
}
__device__ int deep(int n) {
    volatile int own[64];
    own[n & 63] = n;
    return n < 0 ? 0 : deep(n + 1) + own[n & 63];  // no end
}
__global__ void alone(int* p) { *p = 2; }  // no launch
__global__ void calls(int* p) { *p = deep(*p & 1); }
__tile_global__ void tile(int* p) { *p = 1; }  // a tile
__tile_global__ void follow(int** p) { **p = 1; }  // found in memory
int inner(int* p) {
    return *(volatile int*)p;  // load
}
int outer(int* p) {
    int found = inner(p);  // call
    return found + 1;
}
bool nothing(int* p) { p[0] = 0; }
int main(int argc, char** argv) {
    int *p, what = atoi(argv[1]);
    cudaMalloc(&p, 256);
    if (what == 0) plain<<<1, 64>>>((int*)64);
    if (what == 1) split<<<2, 64>>>((int*)64, 5);
    if (what == 2) split<<<1, 64>>>(p, 0);
    if (what == 3) warps<<<1, 64>>>((int*)64);
    if (what == 4) return outer((int*)64);
    if (what == 5) throw std::runtime_error("no");  // throw
    if (what == 7) tile<<<1>>>(nullptr);
    if (what == 8) { cudaMemset(p, 1, 8); follow<<<1>>>((int**)p); }
    if (what == 9) { int* none = nullptr; nothing((int*)argv[1]); *none = 1; }  // null
    if (what == 10) shares<<<1, 64>>>(p, 3, 0);
    if (what == 11) beyond<<<4, 64>>>(p, 1 << 20);
    if (what == 12) calls<<<1, 1>>>(p);
    if (what == 13) { void (*called)(int*) = alone; called(p); }
    if (what == 6) return std::vector<int>(3).at(what);  // in a library
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s %s\\n", cudaGetErrorName(error), cudaGetErrorName(cudaGetLastError()));
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crashes") / "program.cu"
    path.write_text(PROGRAM)
    return path


def line(comment: str) -> int:
    return 1 + next(i for i, text in enumerate(PROGRAM.split("\n")) if f"// {comment}" in text)


def run(program: Path, what: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright", "run", str(program), str(what)]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)


@pytest.mark.parametrize(
    "what, comment, kernel, error",
    [
        (0, "store", "plain", "cudaErrorIllegalAddress"),
        (1, "after a barrier", "split", "cudaErrorIllegalAddress"),
        (2, "division", "split", "cudaErrorLaunchFailure"),
        (3, "after shuffles", "warps", "cudaErrorIllegalAddress"),
        (10, "out of a loop", "shares", "cudaErrorLaunchFailure"),
        (11, "past an array", "beyond", "cudaErrorIllegalAddress"),
    ],
)
def test_a_fault_of_a_kernel_is_an_error_that_names_its_line(
    program: Path, what: int, comment: str, kernel: str, error: str
) -> None:
    done = run(program, what)
    assert done.stdout == f"{error} {error}\n" and done.returncode == 0, done.stderr
    assert f"tilewright: {program}:{line(comment)}: " in done.stderr and f" of {kernel}\n" in done.stderr


def test_a_kernel_that_is_called_like_a_function_is_named(program: Path) -> None:
    done = run(program, 13)
    assert done.stdout == "cudaSuccess cudaErrorMissingConfiguration\n" and done.returncode == 0, done.stderr
    assert f"tilewright: {program}:{line('no launch')}: alone() is called like a function" in done.stderr


def test_calls_without_end_are_an_error_of_their_kernel(program: Path) -> None:
    done = run(program, 12)
    assert done.stdout == "cudaErrorIllegalAddress cudaErrorIllegalAddress\n" and done.returncode == 0, done.stderr
    assert "an access outside of the stack of a thread: " in done.stderr and " of calls\n" in done.stderr


@pytest.mark.parametrize(
    "what, number, lines",
    [
        (4, signal.SIGSEGV, ["load", "call"]),
        (9, signal.SIGSEGV, ["null"]),
        (5, signal.SIGABRT, ["throw"]),
        (6, signal.SIGABRT, ["in a library"]),
    ],
)
def test_a_crash_of_host_code_names_its_line_and_ends_as_before(
    program: Path, what: int, number: int, lines: list[str]
) -> None:
    done = run(program, what)
    assert done.returncode == -number, done.stderr
    first, *callers = [f"{program}:{line(comment)}" for comment in lines]
    assert f"tilewright: {first}: the program crashes: " in done.stderr
    assert all(f"called at {caller}\n" in done.stderr for caller in callers), done.stderr


def test_an_access_of_a_tile_kernel_through_a_null_pointer_is_an_error_that_names_its_line(program: Path) -> None:
    done = run(program, 7)
    assert done.stdout == "cudaErrorIllegalAddress cudaErrorIllegalAddress\n" and done.returncode == 0, done.stderr
    assert f"tilewright: {program}:{line('a tile')}:" in done.stderr
    assert "store through 'p', which is a null pointer, in block (0, 0, 0)" in done.stderr


def test_a_crash_in_a_tile_kernel_names_it_and_its_line(program: Path) -> None:
    done = run(program, 8)
    where = f"tilewright: {program}:{line('found in memory')}: the program crashes: "
    assert done.returncode == -signal.SIGSEGV and where in done.stderr
    assert ", in the tile kernel follow()\n" in done.stderr


def test_programs_without_python_name_lines_where_the_compiler_is_still_there(program: Path) -> None:
    command = [sys.executable, "-m", "tilewright", "c++", str(program), "-o", str(program.with_suffix(""))]
    subprocess.run(command, check=True, timeout=300)
    said = {}
    for what in (0, 4, 7, 8, 11):
        native = [str(program.with_suffix("")), str(what)]
        done = subprocess.run(native, capture_output=True, text=True, timeout=300, check=False)
        said[what] = done.returncode, done.stdout, done.stderr
    error = "cudaErrorIllegalAddress cudaErrorIllegalAddress\n"
    assert [code for code, _, _ in said.values()] == [0, -signal.SIGSEGV, 0, -signal.SIGSEGV, 0], said
    assert said[0][1] == said[7][1] == error
    assert f"tilewright: {program}:{line('store')}: an access to address" in said[0][2]
    assert (
        f"tilewright: {program}:{line('past an array')}: an access outside of the variables of a block" in said[11][2]
    )
    assert f"tilewright: {program}:{line('load')}: the program crashes: " in said[4][2]
    assert f"{program}:{line('a tile')}:" in said[7][2] and "through 'p', which is a null pointer" in said[7][2]
    assert f"tilewright: {program}:{line('found in memory')}: the program crashes: " in said[8][2]
