"""Programs that compile kernels while they run, by the functions of nvrtc.h and cuda.h."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cpp import translation
from tilewright.cpp.host import modules

PROGRAM = r"""#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>
#include <cuda.h>
#include <cuda_fp16.h>
#include <nvrtc.h>
#define CU(call) if (CUresult error = (call)) { char const* name; cuGetErrorName(error, &name); printf("%s: %s\n", #call, name); }
static std::string read(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
static std::string compiled(std::string const& text, std::vector<char const*> options) {
  nvrtcProgram program;
  nvrtcCreateProgram(&program, text.c_str(), "scale.cu", 0, nullptr, nullptr);
  nvrtcResult result = nvrtcCompileProgram(program, int(options.size()), options.data());
  size_t size;
  nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0'), image;
  nvrtcGetProgramLog(program, log.data());
  printf("%s %s %.24s\n", options.back(), nvrtcGetErrorString(result), log.c_str());
  if (result == NVRTC_SUCCESS && nvrtcGetTileIRSize(program, &size) == NVRTC_SUCCESS) {
    image.resize(size);
    nvrtcGetTileIR(program, image.data());
  }
  nvrtcDestroyProgram(&program);
  return image;
}
// Through files, as programs do that call the assembler of Tile IR.
static std::string assembled(std::string const& image, std::filesystem::path const& folder) {
  std::ofstream(folder / "kernel.bc", std::ios::binary) << image;
  std::string command = "'" TILEIRAS_PATH "' '-arch=sm_90' '" + (folder / "kernel.bc").string() + "' '-o' '" + (folder / "kernel.cubin").string() + "'";
  return std::system(command.c_str()) == 0 ? read(folder / "kernel.cubin") : "";
}
int main(int, char** argv) {
  CUdevice device; CUcontext context; int major = 0, minor = 0; char name[64];
  CU(cuInit(0)); CU(cuDeviceGet(&device, 0)); CU(cuCtxCreate(&context, nullptr, 0, device));
  CU(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  CU(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  CU(cuDeviceGetName(name, sizeof name, device));
  std::vector<__half> host(100);
  for (int i = 0; i < 100; ++i) host[i] = __float2half(float(i));
  CUdeviceptr data; CU(cuMemAlloc(&data, 200)); CU(cuMemcpyHtoD(data, host.data(), 200));
  auto folder = std::filesystem::path(argv[0]).parent_path();
  std::string text = read(folder / "scale.cu"), arch = "-arch=compute_" + std::to_string(10 * major + minor);
  for (char const* size : {"-DSIZE=32", "-DSIZE=64", "-DSIZE=33"}) {
    std::string image = compiled(text, {"-I", ".", "-std=c++20", "-enable-tile", "-lineinfo", arch.c_str(), size});
    if (image.empty()) continue;
    CUmodule module; CUfunction kernel; CU(cuModuleLoadData(&module, assembled(image, folder).data()));
    CU(cuModuleGetFunction(&kernel, module, "nothing")); CU(cuModuleGetFunction(&kernel, module, "scale"));
    float by = 2; int n = 100;
    void* arguments[] = {&data, &by, &n};
    CU(cuLaunchKernel(kernel, 4, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr)); CU(cuCtxSynchronize());
    CU(cuModuleUnload(module));
  }
  CUmodule module; CU(cuModuleLoadData(&module, "another image"));
  compiled(text, {"--nonsense"});
  CU(cuMemcpyDtoH(host.data(), data, 200)); CU(cuMemFree(data));
  printf("%g %g\n", __half2float(host[3]), __half2float(host[99]));
}
"""
KERNEL = """#include "cuda_tile.h"
#include <cuda_fp16.h>
namespace ct = cuda::tiles;
extern "C" __tile_global__ void scale(__half* p, float by, int n) {
    auto at = int(ct::bid().x) * SIZE + ct::iota<ct::tile<int, ct::shape<SIZE>>>();
    auto x = ct::element_cast<float>(ct::load_masked(p + at, at < n, __half(0.0f)));
    ct::store_masked(p + at, ct::element_cast<__half>(x * by), at < n);
}
"""


@pytest.mark.parametrize("alone", [False, True])
def test_kernels_compiled_by_the_program(tmp_path: Path, alone: bool) -> None:
    (tmp_path / "tune.cpp").write_text(PROGRAM)
    (tmp_path / "scale.cu").write_text(KERNEL)
    tilewright = [sys.executable, "-m", "tilewright"]
    assembler = subprocess.run([*tilewright, "c++", "-print-tileiras"], capture_output=True, text=True, check=True)
    define = f'-DTILEIRAS_PATH="{assembler.stdout.strip()}"'
    command = [*tilewright, "run", str(tmp_path / "tune.cpp"), define]
    if alone:
        subprocess.run([*tilewright, "c++", *command[-2:], "-o", str(tmp_path / "tune")], check=True)
        command = [str(tmp_path / "tune")]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)
    missing = 'cuModuleGetFunction(&kernel, module, "nothing"): CUDA_ERROR_NOT_FOUND'
    assert done.stdout.splitlines() == [
        "-DSIZE=32 NVRTC_SUCCESS ",
        missing,
        "-DSIZE=64 NVRTC_SUCCESS ",
        missing,
        "-DSIZE=33 NVRTC_ERROR_COMPILATION scale.cu:5:54: constrain",
        'cuModuleLoadData(&module, "another image"): CUDA_ERROR_INVALID_IMAGE',
        "--nonsense NVRTC_ERROR_INVALID_OPTION unknown option --nonsens",
        "12 396",
    ]
    assert done.stderr == "tilewright: cuModuleLoadData() takes what nvrtcGetTileIR() gave here, not code for GPUs\n"


HEADERS = r"""#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
#include <cuda.h>
#include <nvrtc.h>
#define IS(call, code) if (int error = int(call); error != (code)) printf("%s: %d\n", #call, error)
char const* names[] = {"parts/scale.cuh", "cuda_fp16.h", "type_traits"};
char const* headers[] = {
    "#pragma once\n#include <cuda_tile.h>\n#include <cuda_fp16.h>\nusing Element = __half;\n"
    "template <typename T, int N> __tile_global__ void scale(T* p, T by) {\n  namespace ct = cuda::tiles;\n"
    "  auto at = p + int(ct::bid().x) * N + ct::iota<ct::tile<int, ct::shape<N>>>();\n  ct::store(at, ct::load(at) * by);\n}\n",
    "#error the header of the toolkit comes first\n", "#error the header of the library comes first\n"};
char const* text =
    "#include <type_traits>\n#include \"parts/scale.cuh\"\n"
    "template __tile_global__ void scale<int, 4>(int*, int);\n#ifdef WRONG\nint x = scale;\n#endif\n";
nvrtcResult compiled(nvrtcProgram program, std::vector<char const*> options) {
  nvrtcResult result = nvrtcCompileProgram(program, int(options.size()), options.data());
  size_t size;
  nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  nvrtcGetProgramLog(program, log.data());
  if (result) printf("%s %.90s\n", nvrtcGetErrorString(result), log.substr(0, log.find('\n')).c_str());
  return result;
}
int main() {
  int count = 0; IS(nvrtcGetNumSupportedArchs(&count), 0); std::vector<int> archs(count); IS(nvrtcGetSupportedArchs(archs.data()), 0);
  std::string arch = "--gpu-architecture=compute_" + std::to_string(archs.back());
  nvrtcProgram program; IS(nvrtcCreateProgram(&program, text, "batch.cu", 3, headers, names), 0);
  char const *four = "&scale<int, 4>", *eight = "scale< float, 8 >", *name;
  IS(nvrtcAddNameExpression(program, four), 0); IS(nvrtcAddNameExpression(program, eight), 0);
  IS(nvrtcGetLoweredName(program, four, &name), NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
  compiled(program, {arch.c_str(), "-std=c++20"});
  IS(nvrtcAddNameExpression(program, "late"), NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
  IS(nvrtcGetLoweredName(program, "late", &name), NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
  size_t size; IS(nvrtcGetTileIRSize(program, &size), 0); std::string image(size, '\0'); IS(nvrtcGetTileIR(program, image.data()), 0);
  IS(nvrtcGetPTXSize(program, &size), NVRTC_ERROR_INVALID_PROGRAM);
  CUmodule module; CUfunction functions[2]; IS(cuInit(0), 0); IS(cuModuleLoadData(&module, image.data()), 0);
  IS(nvrtcGetLoweredName(program, four, &name), 0); IS(cuModuleGetFunction(functions, module, name), 0);
  IS(nvrtcGetLoweredName(program, eight, &name), 0); IS(cuModuleGetFunction(functions + 1, module, name), 0);
  IS(cuModuleGetFunction(functions, module, "scale"), CUDA_ERROR_NOT_FOUND);
  CUdeviceptr p, q; IS(cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL), 0); IS(cuMemAllocManaged(&q, 64, CU_MEM_ATTACH_GLOBAL), 0);
  for (int i = 0; i < 16; ++i) ((int*)p)[i] = i, ((float*)q)[i] = i;
  int by = 3; float factor = 0.5f; void *first[] = {&p, &by}, *second[] = {&q, &factor};
  IS(cuLaunchKernel(functions[0], 4, 1, 1, 1, 1, 1, 0, nullptr, first, nullptr), 0);
  IS(cuLaunchKernel(functions[1], 2, 1, 1, 1, 1, 1, 0, nullptr, second, nullptr), 0);
  printf("%d %g\n", ((int*)p)[15], ((float*)q)[15]);
  IS(nvrtcDestroyProgram(&program), 0); IS(nvrtcDestroyProgram(&program), NVRTC_ERROR_INVALID_PROGRAM);
  IS(nvrtcCreateProgram(&program, text, "batch.cu", 3, headers, names), 0); compiled(program, {"-DWRONG"}); IS(nvrtcDestroyProgram(&program), 0);
  IS(nvrtcCreateProgram(&program, text, "batch.cu", 3, headers, names), 0); IS(nvrtcAddNameExpression(program, "scale<int, 3>"), 0);
  compiled(program, {}); IS(nvrtcDestroyProgram(&program), 0); names[2] = "../outside.h";
  IS(nvrtcCreateProgram(&program, text, "batch.cu", 3, headers, names), 0); compiled(program, {}); IS(nvrtcDestroyProgram(&program), 0);
}
"""


@pytest.mark.parametrize("alone", [False, True])
def test_headers_and_names_that_the_program_gives(tmp_path: Path, alone: bool) -> None:
    (tmp_path / "batch.cpp").write_text(HEADERS)
    command = [sys.executable, "-m", "tilewright", "run", str(tmp_path / "batch.cpp")]
    if alone:
        subprocess.run([*command[:3], "c++", command[-1], "-o", str(tmp_path / "batch")], check=True)
        command = [str(tmp_path / "batch")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[:1] == ["45 7.5"], done.stdout + done.stderr
    assert lines[1].startswith("NVRTC_ERROR_COMPILATION batch.cu:5:")
    assert lines[2].startswith("NVRTC_ERROR_COMPILATION parts/scale.cuh:7:")  # where the tile has three elements
    assert lines[3:] == ["NVRTC_ERROR_INVALID_OPTION the header ../outside.h has no name that programs include it by"]
    assert "nvrtcGetPTXSize() has nothing to give" in done.stderr and len(done.stderr.splitlines()) == 1


def test_folders_of_headers_do_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "compiler_cache", lambda: tmp_path)
    monkeypatch.setattr(translation, "kernel_names", lambda request: ())
    modules.requested("", "a.cu", ["--use_fast_math", "-default-device", "-O3", "--maxrregcount=64", "-w"], [])
    with pytest.raises(modules.OptionError, match="unknown option --nonsense"):
        modules.requested("", "a.cu", ["--nonsense"], [])
    made = [modules.requested("", "a.cu", [], ["a.h", f"int x{i};"]).include_dirs[-1] for i in range(60)]
    first = made[0]
    for i, folder in enumerate(made):  # as clocks of file systems may tick seldom
        os.utime(folder, (1 + i, 1 + i))
    modules.requested("", "a.cu", [], ["a.h", "int x0;"])  # is used again
    last = [modules.requested("", "a.cu", [], ["a.h", f"int y{i};"]).include_dirs[-1] for i in range(30)]
    assert len(list((tmp_path / "headers").iterdir())) == 64
    assert (Path(first) / "a.h").read_text() == "int x0;"
    assert all((Path(folder) / "a.h").is_file() for folder in last)


DRIVER = r"""#include <cstdio>
#include <cstring>
#include <cuda.h>
#define CU(call) if (CUresult error = (call)) { char const *n = "?", *t = "?"; cuGetErrorName(error, &n); cuGetErrorString(error, &t); printf("%s: %s, %s\n", #call, n, t); }
__global__ void twice(int* p) { p[threadIdx.x] *= 2; }
int main() {
  CUdevice device; CUcontext context, before; char name[8]; int count = 0, major = 0; unsigned version = 0, kind = 0; CUuuid uuid; size_t size = 0, total = 0;
  CU(cuInit(0)); CU(cuDeviceGetCount(&count)); CU(cuDeviceGet(&device, 0)); CU(cuDeviceGet(&device, 7)); CU(cuDeviceGetName(name, 8, device));
  CU(cuDeviceGetUuid(&uuid, 0)); CU(cuDeviceTotalMem(&total, 0)); CU(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  CU(cuDevicePrimaryCtxRetain(&context, 0)); CU(cuCtxPushCurrent(context)); CU(cuCtxPopCurrent(&before)); CU(cuCtxGetApiVersion(context, &version)); CU(cuCtxPushCurrent(nullptr));
  CUdeviceptr p, q, base; CUstream stream; CUevent e, f; float ms; int *h, n[4];
  CU(cuMemAlloc(&p, 4096)); CU(cuMemAllocManaged(&q, 4096, CU_MEM_ATTACH_GLOBAL)); CU(cuMemAllocHost((void**)&h, 4096)); CU(cuMemsetD32(p, 0x01020304, 1024)); CU(cuMemsetD16(p, 9, 2)); CU(cuMemsetD2D8(p + 1024, 64, 7, 8, 3)); CU(cuMemsetD32(p + 1, 0, 1));
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)); CU(cuEventCreate(&e, CU_EVENT_DEFAULT)); CU(cuEventCreate(&f, CU_EVENT_DEFAULT)); CU(cuEventRecord(e, stream));
  CU(cuMemcpyDtoDAsync(q, p, 4096, stream)); CU(cuEventRecord(f, stream)); CU(cuStreamWaitEvent(stream, f, 0)); CU(cuStreamSynchronize(stream)); CU(cuEventQuery(f)); CU(cuEventElapsedTime(&ms, e, f));
  twice<<<1, 4>>>((int*)q); CU(cuCtxSynchronize()); CU(cuMemcpyDtoH(h, q, 4096)); CU(cuMemcpyDtoH(n, q, 1 << 20));
  CUDA_MEMCPY2D plane; memset(&plane, 0, sizeof plane); plane.srcMemoryType = CU_MEMORYTYPE_DEVICE; plane.srcDevice = q + 1024; plane.srcPitch = 64; plane.dstMemoryType = CU_MEMORYTYPE_HOST; plane.dstHost = n; plane.WidthInBytes = 4; plane.Height = 3;
  CU(cuMemcpy2D(&plane)); plane.srcXInBytes = 64; CU(cuMemcpy2D(&plane)); CU(cuMemGetAddressRange(&base, &size, q + 100)); CU(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_IS_MANAGED, q));
  printf("%d %d %d %x %x %x %x %d %d %d\n", count, int(strlen(name)), version == CUDA_VERSION, h[0], h[1], h[4], n[2], base == q, int(size), kind);
  CUDA_RESOURCE_DESC resource{}; resource.res.linear.sizeInBytes = sizeof(CUgraphNodeParams) + sizeof(CUDA_LAUNCH_PARAMS);
  CUmodule module; CUtexref texture; CU(cuModuleLoad(&module, "nowhere.cubin")); CU(cuTexRefCreate(&texture)); CU(cuTexRefCreate(&texture));
  CU(cuEventDestroy(e)); CU(cuStreamDestroy(stream)); CU(cuMemFree(p)); CU(cuMemFree(q)); CU(cuMemFree(q)); CU(cuMemFreeHost(h)); CU(cuDevicePrimaryCtxRelease(0));
}
"""


def test_the_driver(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(DRIVER)
    command = [sys.executable, "-m", "tilewright", "run", str(tmp_path / "program.cu")]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)
    assert done.stdout.splitlines() == [
        "cuDeviceGet(&device, 7): CUDA_ERROR_INVALID_DEVICE, invalid device ordinal",
        "cuCtxPushCurrent(nullptr): CUDA_ERROR_INVALID_CONTEXT, invalid device context",
        "cuMemsetD32(p + 1, 0, 1): CUDA_ERROR_INVALID_VALUE, invalid argument",
        "cuMemcpyDtoH(n, q, 1 << 20): CUDA_ERROR_INVALID_VALUE, invalid argument",
        "cuMemcpy2D(&plane): CUDA_ERROR_INVALID_VALUE, invalid argument",
        "1 7 1 120012 2040608 1020304 7070707 1 4096 1",
        'cuModuleLoad(&module, "nowhere.cubin"): CUDA_ERROR_FILE_NOT_FOUND, file not found',
        *["cuTexRefCreate(&texture): CUDA_ERROR_NOT_SUPPORTED, operation not supported"] * 2,
        "cuMemFree(q): CUDA_ERROR_INVALID_VALUE, invalid argument",
    ], done.stderr
    assert done.stderr.count("cuTexRefCreate is not supported; it returns CUDA_ERROR_NOT_SUPPORTED") == 1


SIMT = r"""#include <cstdio>
#include <cstring>
#include <vector>
#include <cuda.h>
#include <cuda_runtime.h>
#include <nvrtc.h>
char const* text = R"(
template <typename T> __device__ T twice(T x) { return x + x; }
extern "C" __global__ void scale(float* p, float by, int n) {
  __shared__ float s[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? p[i] : 0;
  __syncthreads();
  if (i < n) p[i] = by * s[blockDim.x - 1 - threadIdx.x];
}
template <typename T, int N> __global__ void add(T* p) { p[threadIdx.x] = twice(p[threadIdx.x]) + N; }
__global__ void plain(int* p) { atomicAdd(p, 1); }
)";
int main() {
  nvrtcProgram program;
  nvrtcCreateProgram(&program, text, "scale.cu", 0, nullptr, nullptr);
  nvrtcAddNameExpression(program, "add<float, 3>");
  nvrtcAddNameExpression(program, "plain");
  nvrtcResult r = nvrtcCompileProgram(program, 0, nullptr);
  size_t size; nvrtcGetProgramLogSize(program, &size); std::vector<char> log(size); nvrtcGetProgramLog(program, log.data());
  printf("%s %s\n", nvrtcGetErrorString(r), log.data());
  char const *name, *other; printf("%d ", nvrtcGetLoweredName(program, "add<float, 3>", &name)); printf("%d\n", nvrtcGetLoweredName(program, "plain", &other));
  nvrtcGetTileIRSize(program, &size); std::vector<char> image(size); nvrtcGetTileIR(program, image.data());
  CUmodule module; CUfunction f, g, h, none;
  printf("%d ", cuModuleLoadData(&module, image.data()));
  printf("%d ", cuModuleGetFunction(&f, module, "scale")); printf("%d ", cuModuleGetFunction(&g, module, name)); printf("%d ", cuModuleGetFunction(&h, module, other));printf("%d\n", cuModuleGetFunction(&none, module, "nothing"));
  float* p; cudaMallocManaged(&p, 400); for (int i = 0; i < 100; ++i) p[i] = i;
  int* q; cudaMallocManaged(&q, 4); *q = 0;
  float by = 2; int n = 100; void* a[] = {&p, &by, &n}; void* b[] = {&p}; void* c[] = {&q};
  printf("%d ", cuLaunchKernel(f, 2, 1, 1, 64, 1, 1, 0, 0, a, nullptr));
  printf("%d ", cuLaunchKernel(g, 1, 1, 1, 32, 1, 1, 0, 0, b, nullptr));
  printf("%d ", cuLaunchKernel(h, 7, 1, 1, 32, 1, 1, 0, 0, c, nullptr));
  printf("%d\n", cudaDeviceSynchronize());
  printf("%g %g %g %g %d\n", p[0], p[31], p[63], p[64], *q);
  char const* more = "extern \"C\" __global__ void scale(float* p) { *p = 5; }";
  nvrtcCreateProgram(&program, more, "more.cu", 0, nullptr, nullptr); nvrtcCompileProgram(program, 0, nullptr);
  nvrtcGetTileIRSize(program, &size); image.resize(size); nvrtcGetTileIR(program, image.data());
  printf("%d ", cuModuleLoadData(&module, image.data())); printf("%d ", cuModuleGetFunction(&f, module, "scale"));
  printf("%d ", cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, b, nullptr)); printf("%g\n", p[0]);
  q = (int*)16;
  printf("%d\n", cuLaunchKernel(h, 1, 1, 1, 1, 1, 1, 0, 0, c, nullptr));
}
"""


@pytest.mark.parametrize("alone", [False, True])
def test_simt_kernels(tmp_path: Path, alone: bool) -> None:
    """By their names, and by expressions for instances of templates; also in a program that needs no Python to run."""
    source, program = tmp_path / "program.cu", tmp_path / "program"
    source.write_text(SIMT)
    command = [sys.executable, "-m", "tilewright"]
    if alone:
        subprocess.run([*command, "c++", str(source), "-o", str(program)], check=True, timeout=300)
    words = [str(program)] if alone else [*command, "run", str(source)]
    done = subprocess.run(words, capture_output=True, text=True, env=dict(os.environ), timeout=300, check=False)
    lines = ["NVRTC_SUCCESS ", "0 0", "0 0 0 0 500", "0 0 0 0", "255 131 0 0 224", "0 0 0 5", "700"]
    assert done.stdout.splitlines() == lines, done.stderr
    fault = "an access to address 0x10, which is no memory, in block (0, 0, 0) of plain"
    assert done.stderr == f"tilewright: scale.cu:11: {fault}\n"


CLASSES = r"""#include <cstdio>
#include <string>
#include <cuda.h>
#include <cuda_runtime.h>
#include <nvrtc.h>
char const* text = R"(#include <cuda_tile.h>
namespace ct = cuda::tiles;
struct View { float* p; int n; };
struct Scale { char kind; float a, b; };
struct Twice { __tile__ float operator()(float x) const { return 2 * x; } };
template <typename F> __tile_global__ void tile(View v, F f, Scale s) {
  auto part = ct::partition_view{ct::tensor_span{v.p, ct::extents{v.n}}, ct::shape<4>{}};
  part.store_masked(part.load_masked(ct::bid().x) * f(s.a) + s.b, ct::bid().x);
}
extern "C" __constant__ float factor[2] = {1, 1};
template <typename F> __global__ void simt(View v, F, Scale s) { if (threadIdx.x < v.n) v.p[threadIdx.x] += s.b * factor[1]; }
)";
struct { float* p; int n; } v; struct { char kind; float a, b; } s{'s', 1.5f, 1};
int main() {
  nvrtcProgram program; nvrtcCreateProgram(&program, text, "classes.cu", 0, nullptr, nullptr);
  char const *expressions[] = {"tile<Twice>", "simt<Twice>"}, *name; CUmodule module; CUfunction f;
  for (auto each : expressions) nvrtcAddNameExpression(program, each);
  printf("%s\n", nvrtcGetErrorString(nvrtcCompileProgram(program, 0, nullptr)));
  size_t size = 0; nvrtcGetPTXSize(program, &size); std::string ptx(size, 0); nvrtcGetPTX(program, ptx.data());
  cuInit(0); printf("%d\n", cuModuleLoadData(&module, ptx.data()));
  cudaMallocManaged(&v.p, 40); v.n = 10; for (int i = 0; i < 10; ++i) v.p[i] = i;
  CUdeviceptr factor; float three[] = {0, 3}; printf("%d ", cuModuleGetGlobal(&factor, &size, module, "factor"));
  printf("%d %d\n", int(size), cuMemcpyHtoD(factor, three, 8));
  char empty; void* arguments[] = {&v, &empty, &s};
  for (auto each : expressions) {
    nvrtcGetLoweredName(program, each, &name); cuModuleGetFunction(&f, module, name);
    bool tile = each == expressions[0];
    cuLaunchKernel(f, tile ? 3 : 1, 1, 1, tile ? 1 : 32, 1, 1, 0, nullptr, arguments, nullptr); cudaDeviceSynchronize();
    printf("%g %g\n", v.p[1], v.p[9]);
  }
}
"""


@pytest.mark.parametrize("alone", [False, True])
def test_classes_as_parameters_and_template_arguments(tmp_path: Path, alone: bool) -> None:
    source, program = tmp_path / "program.cu", tmp_path / "program"
    source.write_text(CLASSES)
    command = [sys.executable, "-m", "tilewright"]
    if alone:
        subprocess.run([*command, "c++", str(source), "-o", str(program)], check=True, timeout=300)
    words = [str(program)] if alone else [*command, "check", str(source)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["NVRTC_SUCCESS", "0", "0 8 0", "4 28", "7 31"], done.stderr
    assert done.returncode == 0, done.stderr
