"""C++ programs with a main, run as a person runs them: files, options, messages, exit status."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.cpp_programs import HEAD, KERNELS, run, run_main

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.own_processes


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
