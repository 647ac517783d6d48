"""Libraries of kernels in Tile C++ with a C header: ``tilewright c++ -kernel``, and the CMake package."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.cli.errors import FAILED, MISUSE
from tilewright.cpp.host.build import TOOLCHAIN

KERNELS = """
#include "cuda_tile.h"
#include "factor.h"
namespace ct = cuda::tiles;
template <typename T, int N> __tile_global__ void scale(T* values, T factor, int count) {
    auto places = int(ct::bid().x) * N + ct::iota<ct::tile<int, ct::shape<N>>>();
    auto inside = places < count;
    ct::store_masked(values + places, FACTOR * factor * ct::load_masked(values + places, inside), inside);
}
__tile_global__ void pick(double* out, const float* p, bool first) { ct::store(out, double(ct::load(first ? p : p + 1))); }
"""
MAIN = """
#include <stdio.h>
#include "libkernels.h"
int main(void) {
    float x[100]; double p = 0;
    for (int i = 0; i < 100; i++) x[i] = i;
    int bad = scale_f32(2, 1, 1, x, 1.5f, 100) || pick(1, 1, 1, &p, x, 0);
    printf("%d %g %g\\n", bad, x[99], p);
    return bad;
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(uses LANGUAGES C)
find_package(tilewright REQUIRED)
tilewright_add_library(kernels SOURCE kernels.cu KERNELS "scale_f32=scale<float, 64>" pick=pick
                       INCLUDE_DIRECTORIES include COMPILE_DEFINITIONS FACTOR=2)
add_executable(program main.c)
target_link_libraries(program PRIVATE kernels)
"""
NAMED = ["-kernel", "scale_f32=scale<float, 64>", "-kernel", "pick=pick"]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "factor.h").write_text("#pragma once\n")
    (tmp_path / "kernels.cu").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_library_and_its_header(project: Path) -> None:
    words = ["kernels.cu", "-I", "include", "-DFACTOR=2", "-o", "libkernels.so", "-MD", "-MF", "k.d"]
    assert main(["c++", *NAMED, *words]) == 0
    header = (project / "libkernels.h").read_text()
    assert "    float *values,\n    float factor,\n    int32_t count);" in header and "const float *p" in header
    assert "factor.h" in (project / "k.d").read_text()
    library = ctypes.CDLL(str(project / "libkernels.so"))
    x = np.arange(100, dtype=np.float32)
    assert library.scale_f32(2, 1, 1, ctypes.c_void_p(x.ctypes.data), ctypes.c_float(1.5), 100) == 0
    np.testing.assert_array_equal(x, np.arange(100) * 3)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["-kernel", "pick", "kernels.cu", "-o", "x.so"], MISUSE, "-kernel takes SYMBOL=NAME"),
        (["-kernel", "a=pick", "kernels.cu"], MISUSE, "-kernel takes one source file and -o"),
        (["-kernel", "a=pik", "kernels.cu", "-DFACTOR=1", "-Iinclude", "-o", "x.so"], FAILED, "'pik' names no kernel"),
    ],
)
def test_mistakes(words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["c++", *words]) == status
    assert said in capsys.readouterr().err


@pytest.mark.skipif(not all(map(shutil.which, ("cmake", "ninja", "cc"))), reason="needs CMake, Ninja and a C compiler")
def test_the_cmake_package(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command = project / "bin" / "tilewright"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tilewright "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    (project / "CMakeLists.txt").write_text(CMAKE)
    (project / "main.c").write_text(MAIN)
    assert main(["c++", "-print-cmake"]) == 0
    folder = capsys.readouterr().out.strip()
    assert Path(folder) == TOOLCHAIN.parent

    def run(*words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("cmake", "-G", "Ninja", "-S", ".", "-B", "build", f"-Dtilewright_DIR={folder}")
    run("cmake", "--build", "build")
    assert run("build/program") == "0 297 3\n"
    assert "no work to do" in run("cmake", "--build", "build")
    (project / "include" / "factor.h").write_text("#pragma once\n#undef FACTOR\n#define FACTOR 4\n")
    run("cmake", "--build", "build")
    assert run("build/program") == "0 594 6\n"
