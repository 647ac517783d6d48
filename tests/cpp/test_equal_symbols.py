"""Kernels of several files of a program that have the same symbol, as those that only their file sees may."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tilewright.backends import cuda_tools
from tilewright.cpp.gpu import nvcc, nvrtc
from tilewright.cpp.gpu import program as gpu
from tilewright.cpp.host.build import build_unit, link_units
from tilewright.cpp.host.program import _loaded
from tilewright.cpp.module import request_of
from tilewright.cpp.translation import Request, kernel_key

LAMBDA = "apply<<<1, 1>>>(p + 3, [] __device__(int x) { return x + VALUE; });"
SIMT = """#include <cuda_runtime.h>
static __device__ int counter = VALUE;
namespace { __constant__ int factor = VALUE; }
static __global__ void own(int* p) { *p = counter * factor + VALUE; counter += 1; }
namespace {
struct Tag {};
__global__ void hidden(int* p) { *p = 10 + VALUE; }
template <class T> __global__ void instance(T* p) { *p = 20 + VALUE; }
}
template <class F> __global__ void apply(int* p, F f) { *p = f(30); }
template <class T> __global__ void tagged(int* p, T) { *p = 40 + VALUE; }
static void launch(int* p) {
  own<<<1, 1>>>(p); hidden<<<1, 1>>>(p + 1); instance<<<1, 1>>>(p + 2);
  APPLY
  tagged<<<1, 1>>>(p + 4, Tag());
}
"""
# What each file adds: by the values at addresses of its variables, too, and by a name that both kernels have.
SHOWS = """#include <cstring>
bool NAME(int* p) {
  launch(p);
  int *at, n = 0, by = 100 * VALUE; char const* name;
  cudaGetSymbolAddress((void**)&at, counter); cudaMemcpy(&n, at, 4, cudaMemcpyDefault); p[5] = n;
  cudaMemcpyToSymbol(factor, &by, 4); own<<<1, 1>>>(p + 6); cudaDeviceSynchronize();
  cudaFuncGetName(&name, own);
  return !strcmp(name, "_ZL3ownPi");
}
"""
TILE = """#include <cuda_tile.h>
#include <cuda_runtime.h>
namespace ct = cuda::tiles;
static __tile_global__ void own(int* p) { ct::store(p, VALUE); }
namespace {
struct Tag {};
__tile_global__ void hidden(int* p) { ct::store(p, 10 + VALUE); }
template <class T> __tile_global__ void instance(T* p) { ct::store(p, 20 + VALUE); }
}
template <class F> __tile_global__ void apply(int* p) { ct::store(p, F()(30)); }
template <class T> __tile_global__ void tagged(int* p) { ct::store(p, 40 + VALUE); }
static void launch(int* p) {
  auto add = [](int x) { return x + VALUE; };
  own<<<1>>>(p); hidden<<<1>>>(p + 1); instance<<<1>>>(p + 2); apply<decltype(add)><<<1>>>(p + 3); tagged<Tag><<<1>>>(p + 4);
}
bool NAME(int* p) { launch(p); cudaDeviceSynchronize(); return true; }
"""
MAIN = """#include <cstdio>
#include <cuda_runtime.h>
bool first(int*); bool second(int*);
int main() {
  int* p; cudaMallocManaged(&p, 64);
  bool named = first(p) & second(p + 8);
  for (int i = 0; i < 16; ++i) printf("%d ", p[i]);
  printf("%d %d\\n", named, cudaGetLastError());
}
"""
EXPECTED = {
    "simt": "2 11 21 31 41 2 201 0 6 12 22 32 42 3 602 0 1 0\n",
    "tile": "1 11 21 31 41 0 0 0 2 12 22 32 42 0 0 0 1 0\n",
}
FILES = {"first": 1, "second": 2}


def files_of(kind: str) -> dict[str, str]:
    text = {"simt": SIMT.replace("APPLY", LAMBDA) + SHOWS, "tile": TILE}[kind]
    return {name: f"#define NAME {name}\n#define VALUE {value}\n{text}" for name, value in FILES.items()}


@pytest.fixture(params=EXPECTED)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "main.cu").write_text(MAIN)
    for name, text in files_of(request.param).items():
        (tmp_path / f"{name}.cu").write_text(text)
    return str(request.param)


def said(folder: Path, *words: str) -> str:
    """What a command prints."""
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tilewright(folder: Path, *words: str) -> str:
    return said(folder, sys.executable, "-m", "tilewright", *words)


@pytest.mark.parametrize("how", ["run", "check"])
def test_under_python(kind: str, tmp_path: Path, how: str) -> None:
    assert tilewright(tmp_path, how, "main.cu", "first.cu", "second.cu") == EXPECTED[kind]


def test_without_python(kind: str, tmp_path: Path) -> None:
    for name in FILES:
        tilewright(tmp_path, "c++", "-c", f"{name}.cu", "-o", f"{name}.o")
    tilewright(tmp_path, "c++", "main.cu", "second.o", "first.o", "-o", "program")
    assert said(tmp_path, "./program") == EXPECTED[kind]


def test_in_shared_libraries(kind: str, tmp_path: Path) -> None:
    for name in FILES:
        tilewright(tmp_path, "c++", "-shared", f"{name}.cu", "-o", f"lib{name}.so")
    libraries = ["-L.", "-lfirst", "-lsecond", "-Wl,-rpath,$ORIGIN"]
    tilewright(tmp_path, "c++", "main.cu", *libraries, "-o", "program")
    assert said(tmp_path, "./program") == EXPECTED[kind]


PLUGIN = """#include <cuda_tile.h>
#include <cuda_runtime.h>
__tile_global__ void k(int* p) { cuda::tiles::store(p, VALUE); }
extern "C" void put(int* p) { k<<<1>>>(p); }
"""
LOADS = """#include <cstdio>
#include <cuda_runtime.h>
#include <dlfcn.h>
int main() {
  int* p; cudaMallocManaged(&p, 8);
  void* libraries[] = {dlopen("./libfirst.so", RTLD_NOW | RTLD_LOCAL), dlopen("./libsecond.so", RTLD_NOW | RTLD_LOCAL)};
  for (int i = 0; i < 2; ++i) ((void (*)(int*))dlsym(libraries[i], "put"))(p + i);
  printf("%d %d\\n", p[0], p[1]);
}
"""


def test_in_libraries_that_do_not_see_each_other(tmp_path: Path) -> None:
    """What all files see, too; both are made of one file."""
    (tmp_path / "plugin.cu").write_text(PLUGIN)
    (tmp_path / "main.cu").write_text(LOADS)
    for name, value in FILES.items():
        tilewright(tmp_path, "c++", "-shared", "plugin.cu", f"-DVALUE={value}", "-o", f"lib{name}.so")
    tilewright(tmp_path, "c++", "main.cu", "-ldl", "-o", "program")
    assert said(tmp_path, "./program") == "1 2\n"


def requests_of(folder: Path, texts: dict[str, str]) -> list[Request]:
    for name, text in texts.items():
        (folder / f"{name}.cu").write_text(text)
    return [request_of(folder / f"{name}.cu", "c++20", {}, []) for name in texts]


class Driver:
    """A driver with modules of texts of PTX: it notes which kernel of which module is launched."""

    def __init__(self) -> None:
        self.modules: list[bytes] = []
        self.functions: list[tuple[int, bytes]] = []
        self.launched: list[tuple[int, bytes]] = []
        self.variables: dict[tuple[int, bytes], ctypes.c_int] = {}

    def call(self, name: str, *arguments: Any) -> None:
        if name == "cuModuleLoadData":
            self.modules.append(arguments[1])
            arguments[0]._obj.value = len(self.modules)
        elif name == "cuModuleGetFunction":
            self.functions.append((arguments[1].value, arguments[2]))
            arguments[0]._obj.value = len(self.functions)
        elif name == "cuLaunchKernel":
            self.launched.append(self.functions[arguments[0].value - 1])
            module = self.launched[-1][0]
            for (owner, _), variable in self.variables.items():
                variable.value += owner == module
        elif name.startswith("cuMemcpy"):
            ctypes.memmove(arguments[0].value, arguments[1].value, arguments[2].value)

    def function(self, name: str) -> Any:
        def find(there: Any, size: Any, module: Any, symbol: bytes) -> int:
            variable = self.variables.setdefault((module.value, symbol), ctypes.c_int(5))
            there._obj.value, size._obj.value = ctypes.addressof(variable), 4
            return 0

        return find

    def device(self) -> Any:
        return type("Device", (), {"current": lambda self: nullcontext(), "capability": 90})()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A GPU where neither nvcc nor NVRTC is installed."""
    made = Driver()
    for name in ("call", "function", "device"):
        monkeypatch.setattr(gpu.driver, name, getattr(made, name))
    monkeypatch.setattr(nvcc, "tool", lambda name: None)
    monkeypatch.setattr(nvrtc, "library", lambda: None)
    return made


def started(requests: Sequence[Request]) -> tuple[ctypes.CDLL, gpu.SimtPrograms]:
    """A program on the GPU; nothing is said of it."""
    units = [build_unit(request) for request in requests]
    library, _ = _loaded(link_units(units))
    return library, gpu.SimtPrograms(library, gpu.simt_files(requests, units), pytest.fail)


START = '\nextern "C" void NAME(int* p) { launch(p); }\n'
COUNTS = """#include <cuda_runtime.h>
static __device__ int counter = 5;
static __global__ void count() { counter += 1; }
static int counted() {
  count<<<1, 1>>>();
  int n; cudaMemcpyFromSymbol(&n, counter, 4); return n;
}
"""


def test_on_a_gpu(tmp_path: Path, driver: Driver) -> None:
    """Each file launches what its own module has."""
    texts = {
        name: f"#define NAME {name}\n#define VALUE {value}\n{SIMT.replace('APPLY', LAMBDA)}{START}"
        for name, value in FILES.items()
    }
    library, kept = started(requests_of(tmp_path, texts))
    for number, name in enumerate(FILES):
        driver.launched.clear()
        library[name](ctypes.c_void_p(1 << 40))
        assert {module for module, _ in driver.launched} == {number + 1} and len(driver.launched) == 5
    assert kept is not None and len(driver.modules) == 2


def test_on_a_gpu_equal_code_has_variables_of_its_own(tmp_path: Path, driver: Driver) -> None:
    (tmp_path / "counts.h").write_text(COUNTS)
    texts = {name: f'#include "counts.h"\nextern "C" int {name}() {{ return counted(); }}\n' for name in FILES}
    library, kept = started(requests_of(tmp_path, texts))
    assert driver.modules[0] == driver.modules[1]
    assert [library["first"](), library["first"](), library["second"]()] == [6, 7, 6]
    assert kept is not None


def test_on_a_gpu_kernels_of_a_shared_library_are_named(tmp_path: Path, driver: Driver) -> None:
    """Of the second file, the program on the GPU has no code."""
    (tmp_path / "counts.h").write_text(COUNTS)
    texts = {name: f'#include "counts.h"\nextern "C" int {name}() {{ return counted(); }}\n' for name in FILES}
    requests = requests_of(tmp_path, texts)
    units, said = [build_unit(request) for request in requests], list[str]()
    library, _ = _loaded(link_units(units))
    kept = gpu.SimtPrograms(library, gpu.simt_files(requests[:1], units[:1]), said.append)
    assert (library["first"](), said, library["second"](), library["cudaGetLastError"]()) == (6, said, 5, 98)
    assert said[0].startswith("count() is a kernel of a shared library, of which a GPU has no code; run its files as")
    assert kept is not None


@pytest.mark.skipif(cuda_tools.tool("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_links_equal_symbols(tmp_path: Path, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one module every kernel and variable has a name of its own. Lambdas of functions that only one file sees are
    not among them: what nvcc calls these is not certain."""
    monkeypatch.setattr(nvcc, "tool", cuda_tools.tool)
    texts = {
        name: f"#define NAME {name}\n#define VALUE {value}\nextern __device__ int both;\n"
        f"{SIMT.replace('counter * factor', 'both * counter * factor').replace('APPLY', '')}{START}"
        for name, value in FILES.items()
    }
    texts["second"] += "__device__ int both = 1;\n"
    requests = requests_of(tmp_path, texts)
    units = [build_unit(request) for request in requests]
    files = gpu.simt_files(requests, units)
    assert files[0].code is files[1].code
    for names in ([each.kernels for each in files], [each.variables for each in files]):
        assert len({*names[0].values(), *names[1].values()}) == len(names[0]) + len(names[1])
    assert all(kernel_key(unit.number, "_ZL3ownPi") in file.kernels for unit, file in zip(units, files))
    assert all(len(file.kernels) == 4 for file in files)
