"""``tilewright c++``: programs that run without Python, and CMake projects that are built by it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli.cxx import _parsed
from tilewright.cli.errors import UsageError
from tilewright.frontend.cpp.locations import INCLUDE_DIR
from tilewright.frontend.cpp.toolchain import compiler_command

KERNELS = """
#include <cuda_tile.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include "kernels.h"
namespace ct = cuda::tiles;
__tile_global__ void numbers(double* out, bool a, signed char b, unsigned short c, long d, float e, __half f,
                             __nv_bfloat16 g, __nv_fp8_e4m3 h, __nv_fp8_e5m2 i) {
    ct::store(out, double(a)); ct::store(out + 1, double(b)); ct::store(out + 2, double(c)); ct::store(out + 3, double(d));
    ct::store(out + 4, double(e)); ct::store(out + 5, double(f)); ct::store(out + 6, double(g));
    ct::store(out + 7, double(h)); ct::store(out + 8, double(i));
}
__tile_global__ void talk(int* p) { printf("block %d\\n", ct::load(p)); assert(ct::load(p) < 7); }
__global__ void threads(int* p) { p[blockIdx.x * blockDim.x + threadIdx.x] += N; }
void all(double* out) {
    __nv_fp8_storage_t e4m3 = 0x3a, e5m2 = 0x01;  // 1.25, and the least subnormal number
    numbers<<<1>>>(out, true, -3, 60000, -(1L << 40), 0.25f, __half(1.5f), __nv_bfloat16(2.5f),
                   __builtin_bit_cast(__nv_fp8_e4m3, e4m3), __builtin_bit_cast(__nv_fp8_e5m2, e5m2));
}
void say(int* p) { talk<<<1>>>(p); }
void add(int* p) { threads<<<4, 8>>>(p); shared<2><<<32>>>(p); }
"""
HEADER = """#pragma once
#include <cuda_tile.h>
void all(double*); void say(int*); void add(int*);
using __nv_fp8_storage_t = unsigned char;
template <int M> __tile_global__ void shared(int* p) { auto at = p + cuda::tiles::bid().x; cuda::tiles::store(at, cuda::tiles::load(at) * M); }
"""
MAIN = """
#include "kernels.h"
#include <cstdio>
#include <vector>
#include <string>
extern int status();
int main(int count, char** words) {
    double* out; int* p;
    cudaMallocManaged(&out, 9 * sizeof(double)); cudaMallocManaged(&p, 32 * sizeof(int));
    all(out);
    for (int i = 0; i < 9; ++i) std::printf("%g ", out[i]);
    cudaMemset(p, 0, 128); add(p); shared<2><<<32>>>(p);
    std::vector<int> found(p, p + 32);
    for (int each : found) if (each != 4 * 5) return 1;
    std::printf("%s\\n", std::string(words[count - 1]).c_str());
    *p = 3; say(p); shared<1><<<1>>>((int*)words);
    std::printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
    cudaDeviceReset(); cudaMallocManaged(&p, 4); *p = 7; say(p);
    std::printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
    return status();
}
"""
EXPECTED = [
    "1 -3 60000 -1.09951e+12 0.25 1.5 2.5 1.25 1.52588e-05 last",
    *("block 3", "cudaErrorIllegalAddress", "block 7", "cudaErrorAssert"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "kernels.h").write_text(HEADER)
    (tmp_path / "kernels.cu").write_text(KERNELS)
    (tmp_path / "main.cu").write_text(MAIN)
    (tmp_path / "status.cpp").write_text("int status() { return STATUS; }\n")
    return tmp_path


def run(folder: Path, *words: str, status: int = 0) -> str:
    """What a command prints."""
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=500, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def compiler(folder: Path, *words: str, status: int = 0) -> str:
    return run(folder, sys.executable, "-m", "tilewright", "c++", *words, status=status)


def check(folder: Path, program: Path) -> None:
    """Run ``program`` where there is no Python."""
    done = subprocess.run(
        [program, "last"], capture_output=True, text=True, cwd=folder, timeout=300, check=False, env={"PATH": ""}
    )
    assert (done.stdout.splitlines(), done.returncode) == (EXPECTED, 3)
    said = done.stderr.splitlines()
    assert said[0].startswith("tilewright: argument 0 of shared") and "points to no memory of the device" in said[0]
    assert (
        said[1].startswith("tilewright: kernels.cu:14:") and ": assertion failed: ct::load(p) < 7, in block" in said[1]
    )


def test_a_program_without_python(project: Path) -> None:
    """Files compiled one by one as build systems do, and together."""
    compiler(project, "-c", "kernels.cu", "-Iinclude", "-DN=5", "-MD", "-MF", "k.d", "-MT", "x.o", "-std=c++20", "-O3")
    rule = (project / "k.d").read_text().split()
    assert rule[0] == "x.o:" and "kernels.cu" in rule and any(name.endswith("include/kernels.h") for name in rule)
    words = ["kernels.o", "main.cu", "status.cpp", "-D", "STATUS=3", "-I", "include", "-lm", "-o", "program"]
    compiler(project, *words)
    check(project, project / "program")


LOADER = """
#include <cuda.h>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>
int main() {
    std::ifstream file("kept/scale.tile.cubin", std::ios::binary);
    std::vector<char> image(std::istreambuf_iterator<char>(file), {});
    CUmodule module; CUfunction kernel; CUdeviceptr p; float x = 3, by = 2.5f;
    void* arguments[] = {&p, &by};
    bool done = !cuInit(0) && !cuModuleLoadData(&module, image.data()) && !cuModuleGetFunction(&kernel, module, "scale")
        && !cuMemAlloc_v2(&p, 4) && !cuMemcpyHtoD_v2(p, &x, 4) && !cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0)
        && !cuMemcpyDtoH(&x, p, 4);
    std::printf("%d %g\\n", done, x);
}
"""


def test_code_of_tile_kernels_is_kept_for_programs_that_load_it(tmp_path: Path) -> None:
    """As tuners have nvcc compile kernels while they run."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "scale.cu").write_text(
        'extern "C" __tile_global__ void scale(float* p, float by) { *p = *p * by * N; }'
    )
    (tmp_path / "loader.cpp").write_text(LOADER)
    words = [
        "--enable-tile",
        "-arch=sm_90",
        "-c",
        "scale.cu",
        "-o",
        "kept/s.o",
        "--keep",
        "--keep-dir",
        "kept",
        "-DN=2",
    ]
    compiler(tmp_path, *words)
    compiler(tmp_path, "loader.cpp", "-o", "loader")
    assert run(tmp_path, "./loader") == "1 15\n"
    for command in ("run", "check"):
        assert run(tmp_path, sys.executable, "-m", "tilewright", command, "loader.cpp").startswith("1 15\n")


def test_command_lines_that_are_wrong(project: Path) -> None:
    assert "tilewright c++ has no option --nonsense" in compiler(project, "main.cu", "--nonsense", status=2)
    (project / "part.c").write_text("int part;\n")
    assert "part.c is C; compile it by a C compiler" in compiler(project, "main.cu", "part.c", status=2)
    assert "there is no file missing.o" in compiler(project, "main.cu", "missing.o", status=2)
    assert "no file to compile" in compiler(project, "-c", status=2)
    wrong = compiler(project, "-c", "status.cpp", status=3)
    assert "status.cpp:1:23: use of undeclared identifier 'STATUS'" in wrong
    undefined = compiler(project, "status.cpp", "-DSTATUS=main(0,0);}int main(int,char**);int f(){return 0", status=3)
    assert "status.cpp:1:" in undefined and "main" in undefined
    (project / "empty.cpp").write_text("int main() {}\n")
    library = compiler(project, "empty.cpp", "-Lparts", "-lnothere", "-o", "empty", status=3)
    assert (
        "there is no library libnothere.so or libnothere.a, for -lnothere, in parts, the folders of the system"
        in library
    )


def test_options_of_nvcc(tmp_path: Path) -> None:
    (tmp_path / "part.cu").write_text("__global__ void k(int* p) { *p = N; }\nvoid start(int* p) { k<<<1, 1>>>(p); }\n")
    (tmp_path / "main.cu").write_text(
        "#ifdef WRONG\n#error\n#endif\nvoid start(int*);\n"
        "int main() { int* p; cudaMallocManaged(&p, 4); start(p); cudaDeviceSynchronize(); return *p; }\n"
    )
    words = "-dc -std=c++17 -arch=sm_90 -gencode arch=compute_90,code=sm_90 --ptxas-options=-v -maxrregcount 64 --fmad=false"
    words += " -prec-div=true --default-stream per-thread -Werror all-warnings -Xcompiler -Wall,-fopenmp -rdc=true"
    compiler(tmp_path, *words.split(), "--define-macro", "N=6", "part.cu", "-o", "part.o")
    words = "-DWRONG -UWRONG -Xlinker -rpath=/nowhere --extended-lambda -lineinfo -O3 --output-file program"
    compiler(tmp_path, "part.o", "main.cu", *words.split())
    run(tmp_path, "./program", status=6)
    (tmp_path / "tile.cu").write_text("__tile_global__ void k(int* p) { *p = 1; }\n")
    assert "tile.cu has tile code, which needs std='c++20' or later, not 'c++14'" in compiler(
        tmp_path, "-c", "-std=c++14", "tile.cu", status=2
    )


LIBRARY = """
#include "kernels.h"
extern "C" int doubled(int* p, cudaStream_t stream) {
    shared<2><<<32, 1, 0, stream>>>(p);
    return cudaStreamSynchronize(stream);
}
"""
USER = """
#include <cuda_runtime.h>
extern "C" int doubled(int*, cudaStream_t);
int main() {
    int* p; cudaStream_t stream;
    cudaMallocManaged(reinterpret_cast<void**>(&p), 128); cudaStreamCreate(&stream);
    p[31] = 21;
    if (doubled(p, stream) || doubled(p, cudaStream_t(p)) != cudaErrorInvalidResourceHandle) return 1;
    return cudaGetLastError() == cudaErrorInvalidResourceHandle ? p[31] : 2;
}
"""


def test_a_program_and_its_libraries_have_one_device(project: Path) -> None:
    """Memory, streams and errors of one are those of the other."""
    (project / "library.cu").write_text(LIBRARY)
    (project / "user.cu").write_text(USER)
    compiler(project, "-shared", "library.cu", "-Iinclude", "-o", "libpart.so")
    compiler(project, "user.cu", "-L.", "-lpart", "-Wl,-rpath,$ORIGIN", "-o", "program")
    run(project, "./program", status=42)
    run(project, sys.executable, "-m", "tilewright", "run", "user.cu", f"-L{project}", "-lpart", status=42)


CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(programs LANGUAGES CXX CUDA)
if(NOT "cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
    message(FATAL_ERROR "no C++20")
endif()
find_package(CUDAToolkit REQUIRED)
add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-U_FORTIFY_SOURCE>)
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} --enable-tile -lineinfo")
set_source_files_properties(status.cpp PROPERTIES LANGUAGE CUDA)
add_library(kernels STATIC kernels.cu)
target_compile_definitions(kernels PRIVATE N=5)
target_include_directories(kernels PUBLIC include)
set_target_properties(kernels PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
add_executable(program main.cu status.cpp)
target_compile_features(program PRIVATE cuda_std_20)
target_compile_definitions(program PRIVATE STATUS=3)
target_link_libraries(program PRIVATE kernels CUDA::cudart CUDA::cuda_driver CUDA::nvrtc)
add_library(part SHARED library.cu)
target_include_directories(part PRIVATE include)
add_library(calls SHARED calls.cpp)
target_link_libraries(calls PUBLIC part PRIVATE CUDA::cudart)
add_executable(user user.cpp)
target_link_libraries(user PRIVATE calls)
set_target_properties(part PROPERTIES CUDA_ARCHITECTURES native)
install(TARGETS user calls part)
"""


@pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("ninja")), reason="needs CMake and Ninja")
def test_a_project_of_cmake(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = project / "bin" / "tilewright"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tilewright "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    (project / "CMakeLists.txt").write_text(CMAKE)
    (project / "library.cu").write_text(LIBRARY)
    (project / "calls.cpp").write_text(USER.replace("main()", "calls()"))
    (project / "user.cpp").write_text("int calls();\nint main() { return calls(); }\n")
    toolchain = compiler(project, "-print-toolchain").strip()
    run(project, "cmake", "-G", "Ninja", "-S", ".", "-B", "build", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}")
    run(project, "cmake", "--build", "build")
    done = subprocess.run(
        [project / "build" / "program", "last"], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout.splitlines(), done.returncode) == (EXPECTED, 3)
    run(project, "build/user", status=42)
    run(project, "cmake", "--install", "build", "--prefix", "installed")
    assert (project / "installed" / "lib" / "libpart.so").is_file()
    identified = list((project / "build").glob("CMakeFiles/*/CompilerIdCXX/a.out"))
    assert not identified or len(compiler_command()) == 1  # Zig would build a standard library for it
    assert "no work to do" in run(project, "ninja", "-C", "build")
    (project / "include" / "kernels.h").write_text(HEADER + "// changed\n")
    assert "Building CUDA object" in run(project, "ninja", "-C", "build", "-n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-Xcompiler", "-DN=9 -fopenmp,-O2", "a.cu"], {"defines": {"N": "9"}, "sources": ["a.cu"]}),
        (
            ["@words.rsp", "-gencode", "arch=compute_90,code=sm_90"],
            {"defines": {"N": "7"}, "sources": ["a.cu", "b.cpp"]},
        ),
        (["--options-file", "words.rsp", "-o", "p"], {"output": "p", "includes": ["in clude"]}),
        (["-x", "cu", "a.inc", "-dc"], {"sources": ["a.inc"], "compile_only": True}),
        (["-arch=sm_90", "-t0", "-dlink", "a.o"], {"files": ["a.o"], "device_link": True}),
        (["--generate-dependencies-with-compile", "--dependency-output", "a.d", "-c", "a.cu"], {"depends": "a.d"}),
    ],
)
def test_words_as_nvcc_takes_them_needs_no_compiler(
    words: list[str], said: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.rsp").write_text("-DN=7 a.cu\n'-Iin clude' b.cpp\n")
    for name in ("a.inc", "a.o"):
        (tmp_path / name).touch()
    job = _parsed(words)
    assert {name: getattr(job, name) for name in said} == said


@pytest.mark.parametrize("word", ["-lib", "-M", "-ptx", "-cubin", "@none.rsp"])
def test_words_that_are_refused_by_name_needs_no_compiler(word: str) -> None:
    with pytest.raises(UsageError, match=re.escape(word)):
        _parsed([word, "a.cu"])


def test_the_folder_of_our_headers_may_be_named(tmp_path: Path) -> None:
    """As CUDA::cudart of CMake does."""
    text = "#include <cuda_tile.h>\n#include <cuda_runtime.h>\n__tile_global__ void k(int* p) { *p = 1; }\n"
    (tmp_path / "kernels.cu").write_text(text + "void run(int* p) { k<<<1, 1>>>(p); }\n")
    command = [sys.executable, "-m", "tilewright", "c++", f"-I{INCLUDE_DIR}", "-c", "kernels.cu", "-o", "kernels.o"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.stderr, done.returncode) == ("", 0) and (tmp_path / "kernels.o").stat().st_size > 0
