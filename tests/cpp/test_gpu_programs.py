"""SIMT kernels of C++ programs for GPUs: their PTX, which needs no GPU, and their launches by a driver that only listens."""

from __future__ import annotations

import ctypes
import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.simt_programs import OBJECTS

from tilewright.backends import cuda_tools
from tilewright.cpp.gpu import nvcc, nvrtc
from tilewright.cpp.gpu import program as gpu
from tilewright.cpp.gpu import ptx as device_code
from tilewright.cpp.host.build import build_unit, link_units
from tilewright.cpp.host.program import _loaded
from tilewright.cpp.host.units import device_code as code_of_file
from tilewright.cpp.module import request_of
from tilewright.cpp.translation import Request, kernel_key
from tilewright.ir.errors import TileUnsupportedFeatureError

PROGRAM = """#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
struct Pair { float a; int n; float* p; };
struct Base { __device__ virtual float of(float x) { return x; } };
struct Twice : Base { __device__ float of(float x) override { return 2 * x; } };
__constant__ float factors[4];
static __device__ int counter = 3;
template <int N>
__global__ void simt(float* out, Pair pair) {
  __shared__ float tile[N];
  extern __shared__ float more[];
  tile[threadIdx.x] = more[threadIdx.x] = pair.a;
  __syncthreads();
  float v = tile[N - 1 - threadIdx.x] + __shfl_xor_sync(0xffffffffu, sinf(pair.a), 1);
  Twice twice; Base* base = blockIdx.x > 7 ? new Base : &twice;
  v = base->of(v);
  if (__ballot_sync(0xffffffffu, threadIdx.x & 1)) atomicAdd(&counter, 1);
  printf("%d %f\\n", pair.n, double(v));
  out[blockIdx.x * blockDim.x + threadIdx.x] = v * factors[threadIdx.y];
}
extern "C" int start(float* out, float* p) {
  simt<64><<<dim3(2, 3), dim3(64, 2, 1), 256>>>(out, Pair{1.5f, 7, p});
  return int(cudaGetLastError()) + 1000 * counter;
}
"""


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    (tmp_path / "program.cu").write_text(PROGRAM)
    return request_of(tmp_path / "program.cu", "c++20", {}, [])


@pytest.fixture(autouse=True)
def clang(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where neither nvcc nor NVRTC is installed."""
    monkeypatch.setattr(nvcc, "tool", lambda name: None)
    monkeypatch.setattr(nvrtc, "library", lambda: None)


@pytest.fixture
def mathematics() -> None:
    try:
        device_code._library()
    except TileUnsupportedFeatureError as e:
        pytest.skip(str(e))


def test_ptx(request_: Request, mathematics: None) -> None:
    head, _, ptx = code_of_file(request_, "sm_90")[0].decode().partition("\n")
    (symbol,), variables = json.loads(head)
    assert set(variables) == {"factors", "_ZL7counter"}
    assert f".visible .entry {symbol}(" in ptx and ptx.count(".entry") == 1
    for wanted in (r"\.shared .*tile\[256\]", r"\.extern \.shared .* more\[\]", r"bar\.red", r"shfl\.sync\.idx"):
        assert re.search(wanted, ptx), wanted
    for wanted in (r"vote\.sync\.ballot", r"vprintf", r"\.visible \.global .* factors\[16\]", r"%ctaid\.x"):
        assert re.search(wanted, ptx), wanted
    assert "__nv_sinf" not in ptx and "sinf," not in ptx  # the code of the library, not a call


def test_ptx_of_a_file_with_headers(tmp_path: Path) -> None:
    """Such a file is expanded before it is compiled, but for our headers, which have other code for GPUs."""
    (tmp_path / "sums.cuh").write_text("template <class F> __global__ void apply(int* p, F f) { *p = f(*p); }\n")
    (tmp_path / "program.cu").write_text(
        '#include "sums.cuh"\n#include <cuda_runtime.h>\n'
        "__global__ void sum(int* p) {\n  int v = p[threadIdx.x];\n"
        "  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);\n  p[threadIdx.x] = v;\n}\n"
    )
    ptx = code_of_file(request_of(tmp_path / "program.cu", "c++20", {}, []), "sm_90")[0].decode()
    assert ptx.count("shfl.sync") >= 5 and "st.global" in ptx


def test_ptx_of_kernels_that_get_objects(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(OBJECTS)
    ptx = code_of_file(request_of(tmp_path / "program.cu", "c++20", {}, []), "sm_90")[0].decode()
    sizes = re.findall(r"\.param \.align 64 \.b8 _Z3add\w+_param_\d\[(\d+)\]", ptx)
    assert sizes == ["16", "64", "16"]


POINTERS = """#include <cstdio>
#include <cuda_runtime.h>
struct Shape { __device__ virtual int sides() const = 0; };
struct Square : Shape { __device__ int sides() const override { return 4; } };
typedef int (*function)(int);
__device__ int twice(int n) { return 2 * n; }
__device__ function by_name = twice;
static __device__ function by_template[2] = {twice, twice};
__device__ int only_host = 3;
static int (*of_host)(char const*) = puts;
template <class T> void fetch(T& found, T const& symbol) { cudaMemcpyFromSymbol(&found, symbol, sizeof found); }
void say(int (**how)(char const*)) { int n; cudaMemcpyFromSymbol(&n, only_host, 4); if (n != 3) (*how)("no"); }
__global__ void apply(function f, int* p) { Square square; Shape* shape = &square; *p = f(*p) + shape->sides(); }
int main() {
  function one, two[2]; int* p; cudaMallocManaged(&p, 4);
  cudaMemcpyFromSymbol(&one, by_name, sizeof one); fetch(two, by_template); say(&of_host);
  apply<<<1, 1>>>(one, p); apply<<<1, 1>>>(two[1], p);
}
"""


def test_variables_with_addresses_that_only_the_host_copies(tmp_path: Path) -> None:
    """Their values are addresses of the GPU, which the host passes to kernels."""
    (tmp_path / "program.cu").write_text(POINTERS)
    made = code_of_file(request_of(tmp_path / "program.cu", "c++20", {}, []), "sm_90")[0]
    head, _, ptx = made.decode().partition("\n")
    assert set(json.loads(head)[1]) == {"by_name", "_ZL11by_template"}
    assert re.search(r"\.global [^\n]* by_name = _Z5twicei;", ptx)
    assert re.search(r"\.global [^\n]* _ZL11by_template\[2\] = \{_Z5twicei, _Z5twicei\};", ptx)


def test_what_a_gpu_does_not_have(tmp_path: Path) -> None:
    text = (
        "#include <cuda_runtime.h>\n__device__ int elsewhere(int);\n__global__ void k(int* p) { *p = elsewhere(1); }\n"
    )
    (tmp_path / "program.cu").write_text(text)
    with pytest.raises(TileUnsupportedFeatureError, match=r"calls _Z9elsewherei\(\), which a GPU does not have"):
        code_of_file(request_of(tmp_path / "program.cu", "c++20", {}, []), "sm_90")


def test_mathematics_without_the_library(request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_code, "tool", lambda name: None)
    monkeypatch.setattr(device_code, "_PACKAGES", ())
    device_code._library.cache_clear()
    with pytest.raises(TileUnsupportedFeatureError, match=r"need libdevice.*pip install nvidia-cuda-nvcc"):
        code_of_file(request_, "sm_90")
    device_code._library.cache_clear()


class Listener:
    """A driver that notes calls, gives numbers for handles, and has a kernel add one to the counter."""

    def __init__(self, device: ctypes.Array[ctypes.c_char]) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._device = device

    def call(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, *arguments))
        if name.startswith("cuMemcpy"):
            ctypes.memmove(arguments[0].value, arguments[1].value, arguments[2].value)
        if name == "cuLaunchKernel":
            slots = ctypes.cast(arguments[9], ctypes.POINTER(ctypes.c_size_t))
            self.shape = [getattr(argument, "value", argument) for argument in arguments[1:8]]
            self.out = ctypes.c_size_t.from_address(slots[0]).value
            self.first = ctypes.c_float.from_address(slots[1]).value
            ctypes.c_int.from_buffer(self._device, 64).value += 1

    def function(self, name: str) -> Any:
        assert name == "cuModuleGetGlobal_v2"

        def find(there: Any, size: Any, module: Any, symbol: bytes) -> int:
            at, bytes_ = {b"factors": (0, 16), b"_ZL7counter": (64, 4)}[symbol]
            there._obj.value, size._obj.value = ctypes.addressof(self._device) + at, bytes_
            return 0

        return find

    def device(self) -> Any:
        return type("Device", (), {"current": lambda self: nullcontext(), "capability": 90})()


def test_launches(request_: Request, mathematics: None, monkeypatch: pytest.MonkeyPatch) -> None:
    device = ctypes.create_string_buffer(128)  # as if the variables began with other values there
    listener = Listener(device)
    for name in ("call", "function", "device"):
        monkeypatch.setattr(gpu.driver, name, getattr(listener, name))
    monkeypatch.setattr(gpu, "allocate", lambda size: 0)
    units = [build_unit(request_)]
    library, _ = _loaded(link_units(units))
    said: list[str] = []
    files = gpu.simt_files([request_], units)
    kept = gpu.SimtPrograms(library, files, said.append)
    start = library["start"]
    start.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    assert start(1 << 40, 1 << 41) == 1000  # no error, and the variable of the device came back
    assert start(1 << 40, 1 << 41) == 2000
    assert (listener.shape, listener.out, listener.first) == ([2, 3, 1, 64, 2, 1, 256], 1 << 40, 1.5)
    assert said == [] and kept is not None


def test_the_table_of_a_file_is_its_own(tmp_path: Path) -> None:
    names = set()
    for name in ("a.cu", "b.cu"):
        (tmp_path / name).write_text("#include <cuda_runtime.h>\n")
        names.add(build_unit(request_of(tmp_path / name, "c++20", {}, [])).number)
    assert len(names) == 2


# Kernels and variables that only their file sees, and closures, as Clang and as nvcc 13 name them.
SYMBOLS = {
    "_ZL4statPi": "_Z4statPi",
    "_ZN1aL2skEPi": "_ZN1a2skEPi",
    "_ZN12_GLOBAL__N_14anonEPi": "_ZN38_GLOBAL__N__839df06b_6_mix_cu_66806b754anonEPi",
    "_Z2lkITnDaXtlZ4mainE3$_0EEEvPi": "_Z2lkIXtlZ4mainEUliE_EEEvPi",
    "_Z2fkIZ4mainE3$_9EvPiT_": "_Z2fkIZ4mainEUliE0_EvPiT_",
    "_Z2fkIZ4mainE4$_10EvPiT_": "_Z2fkIZ4mainEUliE1_EvPiT_",
    "_Z2tkILi38EEvPi": "_Z2tkILi38EEvPi",
    "_Z5kpackIJfiEEvPfDprPKT_": "_Z5kpackIJfiEEvPfDpPKT_",
    "_ZL7counter": "counter",
    "_ZZL2sfPiE1z": "_ZZN36_INTERNAL_b60961dd_7_vars_cu__Z2k2Pi2sfEPiE1z",
    "_ZN1a12_GLOBAL__N_11dE": "_ZN36_INTERNAL_b60961dd_7_vars_cu__Z2k2Pi1a38_GLOBAL__N__b60961dd_7_vars_cu__Z2k2Pi1dE",
}


def test_what_nvcc_calls_kernels_and_variables() -> None:
    assert nvcc.paired(SYMBOLS, sorted(SYMBOLS.values())) == SYMBOLS
    closures = ["_Z1kIZ4mainEUliE_EvT_", "_Z1kIZ4mainEUlfE_EvT_"]  # of two types: which is first is not known
    assert nvcc.paired(["_Z1kIZ4mainE3$_0EvT_", "_Z1kIZ4mainE3$_1EvT_"], closures) == {}


def test_clang_compiles_what_nvcc_does_not(
    request_: Request,
    mathematics: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "nvcc").write_text("#!/bin/sh\necho 'program.cu(3): error: not this' >&2\nexit 1\n")
    (tmp_path / "nvcc").chmod(0o700)
    monkeypatch.setattr(nvcc, "tool", lambda name: tmp_path / name)
    assert b".entry" in code_of_file(request_, "sm_90")[0]
    assert re.search(r"are compiled by Clang, as nvcc does not do it: .*error: not this", capsys.readouterr().err)


CONDITION = """#include <cuda_runtime.h>
__global__ void k(cudaGraphConditionalHandle handle) { cudaGraphSetConditional(handle, 1); }
int main() { k<<<1, 1>>>(cudaGraphConditionalHandle{}); }
"""


def test_clang_compiles_conditions_of_graphs(
    mathematics: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "program.cu").write_text(CONDITION)
    monkeypatch.setattr(nvcc, "tool", lambda name: tmp_path / name)
    assert b".entry" in code_of_file(request_of(tmp_path / "program.cu", "c++20", {}, []), "sm_90")[0]
    assert "its cudaGraphSetConditional sets are not those of graphs here" in capsys.readouterr().err


@pytest.mark.skipif(cuda_tools.tool("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_compiles_where_it_is_installed(
    request_: Request, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nvcc, "tool", cuda_tools.tool)
    head, _, code = code_of_file(request_, "sm_90")[0].partition(b"\n")
    kernels, variables = json.loads(head)
    assert capsys.readouterr().err == "" and code.startswith(b"\x7fELF")
    assert variables == {"factors": "factors", "_ZL7counter": "counter"} and list(kernels) == list(kernels.values())


@pytest.mark.skipif(cuda_tools.tool("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_has_variables_that_only_the_host_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "tool", cuda_tools.tool)
    (tmp_path / "program.cu").write_text(POINTERS)
    made = code_of_file(request_of(tmp_path / "program.cu", "c++20", {}, []), "sm_90")[0]
    assert json.loads(made.partition(b"\n")[0])[1] == {"by_name": "by_name", "_ZL11by_template": "by_template"}


MIXED = """#include <cstdio>
#include <vector>
#include <cuda_tile.h>
#include <cuda_fp16.h>
namespace ct = cuda::tiles; namespace cg = cooperative_groups;
using View = ct::tile<int>; using Real = float;
std::vector<int> held; const int N = 4; constexpr std::size_t wide = N; enum Way { up, down };
struct Pair { public: Pair(float v) : a(v) { puts("host"); } __device__ float twice() const { return 2 * a; } float a; };
namespace inner { inline void host() { if (N) { puts("}"); } } __device__ int there[2] = {1, 2}; }
__tile_global__ void tile(int* p) { ct::store(p, ct::load(p)); }
template <int M> __global__ void simt(Real* p, Pair v) { p[threadIdx.x] = v.twice() * M; }
int main() { simt<N><<<1, 32>>>(nullptr, Pair{1}); }
"""


def test_nvrtc_gets_code_of_the_device(tmp_path: Path) -> None:
    (tmp_path / "cuda_fp16.h").write_text("")
    text = nvrtc.device_text(MIXED, [tmp_path])
    lines = text[text.index("#line 1\n") :].splitlines()[1:]
    shown = [re.sub(" +", " ", line).strip() for line in lines]
    kept = "struct Pair { public: __device__ float twice() const { return 2 * a; } float a; };"
    assert "typedef signed char int8_t;" in text
    assert shown == [
        *("", "", "", "#include <cuda_fp16.h>", "namespace cg = cooperative_groups;", "using Real = float;"),
        *(
            "const int N = 4; constexpr std::size_t wide = N; enum Way { up, down };",
            kept,
            "namespace inner { __device__ int there[2] = {1, 2}; }",
            "",
        ),
        *("template <int M> __global__ void simt(Real* p, Pair v) { p[threadIdx.x] = v.twice() * M; }", ""),
    ]


@pytest.mark.skipif(nvrtc.library() is None, reason="NVRTC is not installed")
def test_nvrtc_compiles_where_there_is_no_nvcc(
    request_: Request, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(nvcc, "tool", lambda name: None)
    head, _, code = code_of_file(request_, "sm_90")[0].partition(b"\n")
    kernels, variables = json.loads(head)
    assert capsys.readouterr().err == "" and code.startswith(b"\x7fELF")
    assert variables == {"factors": "factors", "_ZL7counter": "counter"} and list(kernels) == list(kernels.values())


LINKED = {
    "shared.h": """#pragma once
#include <cuda_runtime.h>
extern __device__ int base, counter;
__device__ int scaled(int x);
void other(int* p);
""",
    "a.cu": """#include <cstdio>
#include "shared.h"
static __global__ void k(int* p) { p[threadIdx.x] = scaled(threadIdx.x) + base; if (threadIdx.x == 0) counter += 1; }
int main() {
  int *p, n = 0; cudaMallocManaged(&p, 128); k<<<1, 32>>>(p); other(p + 16); cudaDeviceSynchronize();
  cudaMemcpyFromSymbol(&n, counter, 4); printf("%d %d %d\\n", p[3], p[17], n);
}
""",
    "b.cu": """#include "shared.h"
__device__ int base = 1, counter;
__constant__ int factor = 2;
__device__ int scaled(int x) { return x * factor; }
static __global__ void k(int* p) { p[threadIdx.x] = 100 + threadIdx.x + base; }
void other(int* p) { int n = 7; cudaMemcpyToSymbol(base, &n, 4); k<<<1, 16>>>(p); }
""",
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """A program whose files use functions and variables of each other's, on a machine with an H200."""
    monkeypatch.setattr(gpu.driver, "device", lambda: type("Device", (), {"capability": 90}))
    for name, text in LINKED.items():
        (tmp_path / name).write_text(text)
    return [request_of(tmp_path / name, "c++20", {}, []) for name in ("a.cu", "b.cu")]


def test_files_that_use_each_other_need_nvcc(files: list[Request]) -> None:
    with pytest.raises(
        TileUnsupportedFeatureError, match=r"a\.cu and of other files call each other.*install the CUDA"
    ):
        gpu.simt_files(files, [build_unit(file) for file in files])


@pytest.mark.skipif(cuda_tools.tool("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_links_files_that_use_each_other(files: list[Request], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "tool", cuda_tools.tool)
    units = [build_unit(file) for file in files]
    a, b = gpu.simt_files(files, units)
    assert a.code is b.code and a.table != b.table
    assert [*a.kernels, *b.kernels] == [kernel_key(unit.number, "_ZL1kPi") for unit in units]
    assert len({*a.kernels.values(), *b.kernels.values()}) == 2
    assert set(b.variables) >= {"base", "counter", "factor"} and not a.variables


def test_linked_files_share_a_module(files: list[Request], monkeypatch: pytest.MonkeyPatch) -> None:
    """What one file launches sees the variables of the other, which the host has changed."""
    there, launched = {name: ctypes.c_int(-1) for name in (b"base", b"counter", b"factor")}, []

    def call(name: str, *arguments: Any) -> None:
        if name.startswith("cuMemcpy"):
            ctypes.memmove(arguments[0].value, arguments[1].value, arguments[2].value)
        launched.extend([there[b"base"].value] if name == "cuLaunchKernel" else [])
        loaded.extend([arguments[1]] if name == "cuModuleLoadData" else [])

    def find(address: Any, size: Any, module: Any, symbol: bytes) -> int:
        address._obj.value, size._obj.value = ctypes.addressof(there[symbol]), 4
        return 0

    loaded: list[bytes] = []
    device = type("Device", (), {"current": staticmethod(nullcontext)})
    for name, value in (("call", call), ("function", lambda name: find), ("device", lambda: device)):
        monkeypatch.setattr(gpu.driver, name, value)
    units = [build_unit(file) for file in files]
    keys = [kernel_key(unit.number, "_ZL1kPi") for unit in units]
    variables = [{}, {"base": "base", "counter": "counter", "factor": "factor"}]
    code = [
        gpu.SimtFile({key: "k"}, names, b"code", f"__tw_variables_{unit.number}", 0)
        for key, names, unit in zip(keys, variables, units)
    ]
    library, _ = _loaded(link_units(units))
    kept = gpu.SimtPrograms(library, code, print)
    there[b"base"].value = 41
    ctypes.c_int.in_dll(library, "base").value = 5
    kept._guarded(keys[0].encode(), (ctypes.c_uint * 6)(1, 1, 1, 1, 1, 1), 0, None)
    assert (loaded, launched) == ([b"code"], [5])
