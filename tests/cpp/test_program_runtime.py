"""The CUDA runtime in C++ programs with a main: errors, streams, copies, graphs, and what it declares."""

from __future__ import annotations

import re
from pathlib import Path

from support.cpp_programs import KERNELS, run, run_main

from tilewright.cpp.host.build import RUNTIME_DIR
from tilewright.frontend.cpp.locations import INCLUDE_DIR


def test_error_codes(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    int host[4] = {}, *p, device, *none = nullptr;
    IS(cudaMalloc(&p, size_t(1) << 60), cudaErrorMemoryAllocation);
    IS(cudaMalloc(&p, 16), cudaSuccess);
    IS(cudaMalloc((void**)nullptr, 16), cudaErrorInvalidValue);
    IS(cudaMemcpy(p, host, 17, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    IS(cudaMemcpy(p, host, size_t(-4), cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    IS(cudaMemcpy(host, p + 1, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    IS(cudaMemcpy(host, host, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    IS(cudaMemcpy(p, none, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    IS(cudaMemcpy(p, host, 16, cudaMemcpyKind(9)), cudaErrorInvalidMemcpyDirection);
    IS(cudaMemcpyAsync(p, host, 16, cudaMemcpyDefault), cudaSuccess);
    IS(cudaMemset(p, 0, 17), cudaErrorInvalidValue);
    IS(cudaMemset(p, 255, 16), cudaSuccess);
    IS(cudaPeekAtLastError(), cudaErrorInvalidValue);
    IS(cudaGetLastError(), cudaErrorInvalidValue);
    IS(cudaGetLastError(), cudaSuccess);
    IS(cudaFree(p + 1), cudaErrorInvalidValue);
    IS(cudaFree(nullptr), cudaSuccess);
    mark<<<0, 1>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidConfiguration);
    mark<<<1, 32>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidConfiguration);
    mark<<<dim3(1, 1, 1u << 30), 1>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidConfiguration);
    mark<<<dim3(1u << 22, 1u << 21, 1u << 21), 1>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidConfiguration);
    mark<<<1, 1, 0, (cudaStream_t)99>>>(p);
    IS(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    void* slots[] = {&p};
    IS(cudaLaunchKernel((void*)&host, 1, 1, slots), cudaErrorInvalidDeviceFunction);
    IS(cudaLaunchKernel((void*)(void (*)(int*))mark, 1, 7, slots), cudaErrorInvalidConfiguration);
    IS(cudaGetDevice(&device), cudaSuccess);
    IS(cudaSetDevice(1), cudaErrorInvalidDevice);
    printf("%s, %s, %s\\n", cudaGetErrorString(cudaErrorMemoryAllocation), cudaGetErrorName(cudaErrorNotReady),
           cudaGetErrorString(cudaError_t(12345)));
    IS(cudaFree(p), cudaSuccess);
    IS(cudaFree(p), cudaErrorInvalidValue);
    """
    out, err, status = run_main(tmp_path, environment, body)
    assert (out, status) == ("out of memory, cudaErrorNotReady, unrecognized error code\n", 0)
    assert (
        err == "tilewright: mark() is a tile kernel: its block is 1, and the first extent of its grid below 2^24\n" * 2
    )


def test_streams_events_and_devices(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    cudaStream_t stream; cudaEvent_t begin, end; float ms = -1; int n, *p; size_t left, total; cudaDeviceProp about;
    IS(cudaStreamCreate(&stream), cudaSuccess);
    IS(cudaEventCreate(&begin), cudaSuccess); IS(cudaEventCreate(&end), cudaSuccess);
    IS(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle);
    IS(cudaMallocAsync(&p, 4, stream), cudaSuccess);
    IS(cudaEventRecord(begin, stream), cudaSuccess);
    mark<<<1, 1, 0, stream>>>(p);
    IS(cudaEventRecord(end, stream), cudaSuccess);
    IS(cudaStreamWaitEvent(stream, end), cudaSuccess); IS(cudaEventSynchronize(end), cudaSuccess);
    IS(cudaEventElapsedTime(&ms, begin, end), cudaSuccess); CHECK(ms > 0);
    IS(cudaStreamSynchronize(stream), cudaSuccess); IS(cudaStreamDestroy(stream), cudaSuccess);
    IS(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle); IS(cudaEventDestroy(end), cudaSuccess);
    IS(cudaGetDeviceCount(&n), cudaSuccess); CHECK(n == 1);
    IS(cudaGetDeviceProperties(&about, 0), cudaSuccess);
    CHECK(about.multiProcessorCount >= 1 && about.maxGridSize[2] > 0 && about.integrated == 1);
    IS(cudaMemGetInfo(&left, &total), cudaSuccess); CHECK(left <= total && about.totalGlobalMem == total);
    IS(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
    IS(cudaRuntimeGetVersion(&n), cudaSuccess); CHECK(n >= 13000);
    """
    assert run_main(tmp_path, environment, body) == ("", "", 0)


FAULTS = (
    (
        "int* p = new int; mark<<<1, 1>>>(p);",
        "argument 'p' of mark() points to no memory of the device",
        "cudaErrorIllegalAddress",
    ),
    (
        "char* p; cudaMalloc(&p, 8); mark<<<1, 1>>>((int*)(p + 1));",
        "is no multiple of its element size, 4",
        "cudaErrorMisalignedAddress",
    ),
    (
        "int* p; cudaMalloc(&p, 8); mark<<<1, 1>>>(p + 2);",
        "program.cu:14:37: store of 4 bytes outside argument 'p'",
        "cudaErrorIllegalAddress",
    ),
)


def test_failed_launches_stay_errors(tmp_path: Path, environment: dict[str, str]) -> None:
    """Until the device is reset."""
    body = "".join(
        f"{{ {launch} IS(cudaGetLastError(), {name}); IS(cudaDeviceSynchronize(), {name}); "
        f"IS(cudaMemset(p, 0, 1), {name}); IS(cudaDeviceReset(), cudaSuccess); }}"
        for launch, _, name in FAULTS
    )
    out, err, status = run_main(tmp_path, {**environment, "TILEWRIGHT_BACKEND": "reference"}, body)
    assert (out, status) == ("", 0)
    assert all(words in err for _, words, _ in FAULTS)


SIMT = """
__constant__ float weights[4];
__device__ volatile int watched;
__device__ int counter = 3;
template <typename T> struct Sum { T x; __device__ Sum(T x) : x{x} {} __device__ T shuffled() const { return __shfl_down_sync(~0u, x, 1); } };
static __device__ __forceinline__ float scaled(float x) { return x * threadIdx.x * weights[0]; }
__global__ void __launch_bounds__(128) simt(int* p) {
    extern __shared__ int buffer[];
    buffer[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = atomicAdd(&counter, 1);
}
"""


def test_pitched_memory_symbols_and_callbacks(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    float host[6][10], back[6][10] = {};
    for (int i = 0; i < 60; ++i) host[i / 10][i % 10] = i;
    float* p;
    size_t pitch, rows = 6, width = 10 * sizeof(float);
    IS(cudaMallocPitch(&p, &pitch, width, rows), cudaSuccess);
    CHECK(pitch >= width && pitch % 256 == 0);
    IS(cudaMemcpy2D(p, pitch, host, width, width, rows, cudaMemcpyHostToDevice), cudaSuccess);
    IS(cudaMemset2D(p, pitch, 0, 4, rows), cudaSuccess);
    IS(cudaMemcpy2DAsync(back, width, p, pitch, width, rows, cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
    CHECK(back[0][0] == 0 && back[5][0] == 0 && back[5][1] == 51 && back[5][9] == 59);
    IS(cudaMemcpy2D(p, 4, host, width, width, rows, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
    IS(cudaGetLastError(), cudaErrorInvalidPitchValue);
    IS(cudaMemcpy2D(p, pitch, host, width, width, rows + 1000, cudaMemcpyHostToDevice), cudaErrorInvalidValue);

    float four[4] = {1, 2, 3, 4}, found[4];
    IS(cudaMemcpyToSymbol(weights, four, sizeof four), cudaSuccess);
    IS(cudaMemcpyToSymbol(weights, four, sizeof four, 4), cudaErrorInvalidValue);
    IS(cudaMemcpyToSymbol(watched, four, sizeof watched), cudaSuccess);
    IS(cudaMemcpyFromSymbol(found, weights, 8, 8), cudaSuccess);
    CHECK(found[0] == 3 && found[1] == 4);
    size_t size; void* address;
    IS(cudaGetSymbolSize(&size, weights), cudaSuccess);
    IS(cudaGetSymbolAddress(&address, counter), cudaSuccess);
    CHECK(size == 16 && *(int*)address == 3);
    IS(cudaMemset(address, 0, 4), cudaSuccess);
    CHECK(*(int*)address == 0);
    mark<<<1, 1>>>((int*)address);
    CHECK(*(int*)address == 1);
    IS(cudaMemset(address, 0, 8), cudaErrorInvalidValue);
    *(int*)address = 3;

    IS(cudaDeviceSetLimit(cudaLimitStackSize, 4096), cudaSuccess);
    IS(cudaDeviceGetLimit(&size, cudaLimitStackSize), cudaSuccess);
    CHECK(size == 4096);
    IS(cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize), cudaSuccess);
    CHECK(size == 8 << 20);
    IS(cudaDeviceSetLimit(cudaLimit(77), 1), cudaErrorUnsupportedLimit);

    cudaPointerAttributes attributes;
    int *pinned, *mapped;
    IS(cudaHostAlloc(&pinned, 16, cudaHostAllocMapped), cudaSuccess);
    IS(cudaHostGetDevicePointer(&mapped, pinned, 0), cudaSuccess);
    mark<<<1, 1>>>(mapped);
    IS(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
    CHECK(*pinned == 1 && attributes.type == cudaMemoryTypeHost);
    IS(cudaPointerGetAttributes(&attributes, p + 1), cudaSuccess);
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == p + 1 && !attributes.hostPointer);
    IS(cudaPointerGetAttributes(&attributes, four), cudaSuccess);
    CHECK(attributes.type == cudaMemoryTypeUnregistered);

    int calls = 0;
    IS(cudaLaunchHostFunc(nullptr, [](void* n) { ++*(int*)n; }, &calls), cudaSuccess);
    IS(cudaStreamAddCallback(nullptr, [](cudaStream_t, cudaError_t, void* n) { ++*(int*)n; }, &calls, 0), cudaSuccess);
    CHECK(calls == 2);
    """
    out, err, status = run_main(tmp_path, environment, body, KERNELS + SIMT)
    assert (out, status) == ("", 0)
    assert err == ""


def test_the_runtime_has_what_the_headers_declare_needs_no_compiler() -> None:
    declared, defined = set(), set()
    for header in ("cuda_runtime.h", "cuda.h", "nvrtc.h", "tilewright/graphs.h", "tilewright/functions.h"):
        for part in re.findall(r'extern "C" \{(.*?)^}', (INCLUDE_DIR / header).read_text(), re.S | re.M):
            declared |= set(re.findall(r"^\w[\w ]*[ *]((?:cuda?|nvrtc|__tw_)\w+)\(", part, re.M))
    for source in RUNTIME_DIR.glob("*.cpp"):
        defined |= set(re.findall(r"^\w[\w ]*[ *](\w+)\([^;]*?\) \{", source.read_text(), re.M))
    assert len(declared) > 100
    assert declared <= defined


def test_types_of_functions_of_the_driver(tmp_path: Path, environment: dict[str, str]) -> None:
    """Those that are not supported have one, too."""
    text = """#include <cudaTypedefs.h>
#include <cuda_runtime.h>
int main() {
    void* found;
    cudaGetDriverEntryPoint("cuDeviceGetCount", &found, cudaEnableDefault);
    PFN_cuDeviceGetCount_v2000 count = (PFN_cuDeviceGetCount_v2000)found;
    PFN_cuTensorMapEncodeTiled_v12000 unsupported = nullptr;
    int devices = 0;
    return unsupported != nullptr || count(&devices) != CUDA_SUCCESS || devices != 1;
}
"""
    (tmp_path / "program.cu").write_text(text)
    done = run(tmp_path / "program.cu", environment)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


TOOLKIT = """
#include <crt/cuda_tile.h>
#include <driver_types.h>
#include <cuda.h>
#include <cuda_profiler_api.h>
#if defined(__DRIVER_TYPES_H__) && defined(__CUDA_RUNTIME_H__) && CUDART_VERSION >= 13000 && CUDA_VERSION >= 13000
template <typename T> void check(T result, char const* what) { if (result) printf("%s: %s\\n", what, cudaGetErrorName(result)); }
#define checked(call) check((call), #call)
#endif
"""


def test_what_headers_of_programs_look_at(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    cudaDeviceProp about; int value[3] = {};
    checked(cudaGetDeviceProperties(&about, 0));
    checked(cudaDeviceGetAttribute(&value[0], cudaDevAttrComputeMode, 0));
    checked(cudaDeviceGetAttribute(&value[1], cudaDevAttrWarpSize, 0));
    checked(cudaDeviceGetAttribute(&value[2], cudaDevAttrMaxBlockDimZ, 0));
    checked(cudaSetDevice(7));
    CUdevice device = 0; CUresult result = CUDA_SUCCESS;
    CHECK(value[0] == cudaComputeModeDefault && value[1] == about.warpSize && value[2] == about.maxThreadsDim[2]);
    CHECK(about.sharedMemPerBlock == 49152 && about.clusterLaunch == 0 && about.maxThreadsPerBlock == 1024);
    CHECK(device == result);
    unsigned flags = 7; int own = 7; cudaFuncCache cache; cudaUUID_t id = about.uuid; char bus[16];
    IS(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost), cudaSuccess);
    IS(cudaGetDeviceFlags(&flags), cudaSuccess);
    IS(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1), cudaSuccess);
    IS(cudaDeviceGetCacheConfig(&cache), cudaSuccess);
    IS(cudaDeviceGetPCIBusId(bus, sizeof bus, 0), cudaSuccess);
    IS(cudaDeviceGetByPCIBusId(&own, bus), cudaSuccess);
    IS(cudaDeviceGetByPCIBusId(&own, "0000:01:00.0"), cudaErrorInvalidDevice);
    IS(cudaDeviceGetAttribute(&value[0], cudaDevAttrSurfaceAlignment, 0), cudaSuccess);
    CHECK(flags == cudaDeviceMapHost && own == 0 && id.bytes[0] == 't' && value[0] == int(about.surfaceAlignment));
    IS(cudaProfilerStart(), cudaSuccess);
    """
    out, err, status = run_main(tmp_path, environment, body, TOOLKIT)
    assert (out, err, status) == ("cudaSetDevice(7): cudaErrorInvalidDevice\n", "", 0)


def test_entries_that_are_not_supported_say_so_once(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    cudaArray_t array; int blocks, grid, block; cudaFuncAttributes about;
    for (int i = 0; i < 2; ++i) IS(cudaFreeArray(array), cudaErrorNotSupported);
    IS(cudaGetLastError(), cudaErrorNotSupported);
    auto* k = (void (*)(int*))mark;
    IS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 256, 0), cudaSuccess);
    IS(cudaOccupancyMaxPotentialBlockSize(&grid, &block, k), cudaSuccess);
    IS(cudaFuncGetAttributes(&about, k), cudaSuccess);
    IS(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20), cudaErrorInvalidValue);
    CHECK(blocks == 8 && block == 1024 && grid >= 2 && about.maxThreadsPerBlock == 1024);
    cudaChannelFormatDesc one = cudaCreateChannelDesc<float>(), four = cudaCreateChannelDesc<uchar4>();
    CHECK(one.x == 32 && one.y == 0 && one.f == cudaChannelFormatKindFloat && four.w == 8);
    CHECK(four.f == cudaChannelFormatKindUnsigned && cudaCreateChannelDesc<short2>().f == cudaChannelFormatKindSigned);
    cudaResourceDesc resource{}; cudaTextureDesc texture{}; cudaTextureObject_t object;
    resource.resType = cudaResourceTypePitch2D, resource.res.pitch2D.desc = one;
    texture.addressMode[0] = cudaAddressModeClamp, texture.filterMode = cudaFilterModeLinear;
    IS(cudaCreateTextureObject(&object, &resource, &texture, nullptr), cudaErrorNotSupported);
    size_t room;
    IS(cudaOccupancyAvailableDynamicSMemPerBlock(&room, k, 2, 1024), cudaSuccess);
    CHECK(room == (227 << 10) / 2);
    IS(cudaOccupancyAvailableDynamicSMemPerBlock(&room, k, 3, 1024), cudaErrorInvalidValue);
    IS(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, k, [](int n) { return n > 640 ? 200 << 10 : n * 64; }),
       cudaSuccess);
    CHECK(block == 512 && grid >= 8);
    IS(cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(&grid, &block, k, [](int) { return 0; }, 64), cudaSuccess);
    CHECK(block == 64);
    cudaExternalMemoryHandleDesc handle = {}; cudaExternalMemory_t memory;
    handle.type = cudaExternalMemoryHandleTypeOpaqueFd, handle.handle.fd = 3, handle.flags = cudaExternalMemoryDedicated;
    IS(cudaImportExternalMemory(&memory, &handle), cudaErrorNotSupported);
    cudaExternalSemaphoreSignalParams signal = {}; cudaExternalSemaphore_t semaphore; cudaGraphicsResource_t resources;
    signal.params.fence.value = 1;
    IS(cudaSignalExternalSemaphoresAsync(&semaphore, &signal, 1, 0), cudaErrorNotSupported);
    IS(cudaGraphicsMapResources(1, &resources, 0), cudaErrorNotSupported);
    int* x; cudaLaunchConfig_t config = {}; config.gridDim = config.blockDim = 1;
    cudaMalloc(&x, sizeof(int));
    IS(cudaLaunchKernelEx(&config, k, x), cudaSuccess);  // the error before is not its own
    IS(cudaGetLastError(), cudaErrorNotSupported);
    """
    out, err, status = run_main(tmp_path, environment, body)
    assert (out, status) == ("", 0)
    entries = ("cudaFreeArray", "cudaCreateTextureObject", "cudaImportExternalMemory")
    entries += ("cudaSignalExternalSemaphoresAsync", "cudaGraphicsMapResources")
    assert err == "".join(f"tilewright: {e} is not supported; it returns cudaErrorNotSupported\n" for e in entries)


def test_graphs_pools_and_copies_in_three_dimensions(tmp_path: Path, environment: dict[str, str]) -> None:
    body = """
    int *p, host[8] = {}, calls = 0, one = 1;
    IS(cudaMalloc(&p, sizeof host), cudaSuccess);
    cudaStream_t stream, other; cudaGraph_t graph; cudaGraphExec_t exec; cudaEvent_t fork; cudaStreamCaptureStatus status;
    IS(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1), cudaSuccess);
    IS(cudaStreamCreate(&other), cudaSuccess); IS(cudaEventCreate(&fork), cudaSuccess);
    IS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    IS(cudaMemsetAsync(p, 0, sizeof host, stream), cudaSuccess);
    for (int i = 0; i < 3; ++i) a::add<int, 4><<<2, 1, 0, stream>>>(p, 10 + i);
    IS(cudaEventRecord(fork, stream), cudaSuccess); IS(cudaStreamWaitEvent(other, fork), cudaSuccess);
    simt<<<1, 8, 0, other>>>(p, one);
    one = 5;                                          // arguments are copied when they are captured
    IS(cudaEventRecord(fork, other), cudaSuccess); IS(cudaStreamWaitEvent(stream, fork), cudaSuccess);
    IS(cudaLaunchHostFunc(stream, [](void* n) { ++*(int*)n; }, &calls), cudaSuccess);
    IS(cudaMemcpyAsync(host, p, sizeof host, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    IS(cudaStreamIsCapturing(other, &status), cudaSuccess); CHECK(status == cudaStreamCaptureStatusActive);
    IS(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    CHECK(host[0] == 0 && calls == 0);
    size_t count = 0; cudaGraphNode_t nodes[7]; cudaGraphNodeType type;
    IS(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess); CHECK(count == 7);
    IS(cudaGraphGetNodes(graph, nodes, &count), cudaSuccess);
    IS(cudaGraphNodeGetType(nodes[4], &type), cudaSuccess); CHECK(type == cudaGraphNodeTypeKernel);
    IS(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    for (int i = 0; i < 2; ++i) IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    for (int i = 0; i < 8; ++i) CHECK(host[i] == 33 + i + 1);
    CHECK(calls == 2);
    cudaKernelNodeParams params; int by = 100; void* slots[] = {&p, &by};
    IS(cudaGraphKernelNodeGetParams(nodes[4], &params), cudaSuccess);
    params.kernelParams = slots;
    IS(cudaGraphExecKernelNodeSetParams(exec, nodes[4], &params), cudaSuccess);
    IS(cudaGraphLaunch(exec, nullptr), cudaSuccess);
    CHECK(host[7] == 33 + 107);
    IS(cudaGraphExecDestroy(exec), cudaSuccess); IS(cudaGraphDestroy(graph), cudaSuccess);
    IS(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);

    cudaGraphNode_t first, second, third; cudaMemsetParams zero{p, 0, 0x01010101, 4, 8, 1};
    IS(cudaGraphCreate(&graph, 0), cudaSuccess);
    IS(cudaGraphAddMemcpyNode1D(&third, graph, nullptr, 0, host, p, sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
    IS(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &zero), cudaSuccess);
    IS(cudaGraphAddKernelNode(&second, graph, &first, 1, &params), cudaSuccess);
    IS(cudaGraphAddDependencies(graph, &second, &third, 1), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0), cudaSuccess);
    IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    CHECK(host[3] == 0x01010101 + 103);
    int back2[8] = {}; cudaMemsetParams found; cudaGraphExecUpdateResultInfo update;
    zero.value = 0;
    IS(cudaGraphExecMemsetNodeSetParams(exec, first, &zero), cudaSuccess);
    IS(cudaGraphExecMemcpyNodeSetParams1D(exec, third, back2, p, sizeof back2, cudaMemcpyDeviceToHost), cudaSuccess);
    IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    CHECK(host[3] == 0x01010101 + 103 && back2[3] == 103);
    IS(cudaGraphExecUpdate(exec, graph, &update), cudaSuccess);  // what the nodes of the graph say still
    IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    IS(cudaGraphMemsetNodeGetParams(first, &found), cudaSuccess);
    CHECK(back2[3] == 103 && host[3] == 0x01010101 + 103 && found.value == 0x01010101);
    IS(cudaGraphMemsetNodeSetParams(third, &zero), cudaErrorInvalidValue);  // it copies
    IS(cudaGraphRemoveDependencies(graph, &second, &third, 1), cudaSuccess);
    IS(cudaGraphExecUpdate(exec, graph, &update), cudaErrorGraphExecUpdateFailure);
    CHECK(update.result == cudaGraphExecUpdateErrorTopologyChanged);
    IS(cudaGraphAddDependencies(graph, &second, &third, 1), cudaSuccess);

    cudaGraphNode_t from[3], to[3], some[3], mark, part, copy; cudaGraph_t whole, inner; unsigned enabled = 7;
    cudaGraphInstantiateParams how{}; unsigned long long flags; float span; cudaEvent_t begin, seen;
    count = 3; IS(cudaGraphGetEdges(graph, from, to, &count), cudaSuccess);
    CHECK(count == 2 && from[0] == second && to[0] == third && from[1] == first && to[1] == second && !from[2]);
    count = 3; IS(cudaGraphNodeGetDependencies(second, some, &count), cudaSuccess); CHECK(count == 1 && some[0] == first);
    count = 3; IS(cudaGraphNodeGetDependentNodes(second, some, &count), cudaSuccess); CHECK(count == 1 && some[0] == third);
    IS(cudaEventCreate(&begin), cudaSuccess); IS(cudaGraphCreate(&whole, 0), cudaSuccess);
    IS(cudaGraphAddEventRecordNode(&mark, whole, nullptr, 0, begin), cudaSuccess);
    IS(cudaGraphAddChildGraphNode(&part, whole, &mark, 1, graph), cudaSuccess);
    IS(cudaGraphAddEventRecordNode(&some[0], whole, &part, 1, fork), cudaSuccess);
    IS(cudaGraphEventRecordNodeGetEvent(mark, &seen), cudaSuccess); CHECK(seen == begin);
    IS(cudaGraphEventWaitNodeSetEvent(mark, fork), cudaErrorInvalidValue);
    IS(cudaGraphChildGraphNodeGetGraph(part, &inner), cudaSuccess); IS(cudaGraphDestroy(inner), cudaErrorInvalidValue);
    count = 0; IS(cudaGraphGetNodes(inner, nullptr, &count), cudaSuccess); CHECK(count == 3);
    how.flags = cudaGraphInstantiateFlagUpload; IS(cudaGraphInstantiateWithParams(&exec, whole, &how), cudaSuccess);
    IS(cudaGraphExecGetFlags(exec, &flags), cudaSuccess);
    CHECK(how.result_out == cudaGraphInstantiateSuccess && flags == cudaGraphInstantiateFlagUpload);
    host[3] = 0; IS(cudaGraphLaunch(exec, stream), cudaSuccess); CHECK(host[3] == 0x01010101 + 103);
    IS(cudaEventElapsedTime(&span, begin, fork), cudaSuccess); CHECK(span >= 0);
    IS(cudaGraphClone(&inner, whole), cudaSuccess); IS(cudaGraphNodeFindInClone(&copy, part, inner), cudaSuccess);
    IS(cudaGraphNodeFindInClone(&copy, first, inner), cudaErrorInvalidValue); IS(cudaGraphDestroy(inner), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    IS(cudaGraphNodeSetEnabled(exec, first, 0), cudaSuccess); IS(cudaGraphNodeGetEnabled(exec, first, &enabled), cudaSuccess);
    IS(cudaMemset(p, 0, sizeof host), cudaSuccess); IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    CHECK(!enabled && host[3] == 103);
    IS(cudaGraphDestroyNode(part), cudaSuccess); count = 3; IS(cudaGraphGetNodes(whole, some, &count), cudaSuccess);
    CHECK(count == 2); count = 3; IS(cudaGraphGetRootNodes(whole, some, &count), cudaSuccess); CHECK(count == 2);
    IS(cudaGraphDestroyNode(part), cudaErrorInvalidValue); IS(cudaGraphDestroy(whole), cudaSuccess);

    IS(cudaGraphAddDependencies(graph, &third, &first, 1), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph), cudaErrorInvalidValue);  // a circle

    cudaMemPool_t pool; cudaMemPoolProps about{}; unsigned long long used = 0; int* q;
    about.allocType = cudaMemAllocationTypePinned; about.location.type = cudaMemLocationTypeDevice;
    IS(cudaMemPoolCreate(&pool, &about), cudaSuccess);
    IS(cudaMallocFromPoolAsync((void**)&q, 4000, pool, stream), cudaSuccess);
    IS(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess); CHECK(used >= 4000);
    IS(cudaFreeAsync(q, stream), cudaSuccess); IS(cudaMemPoolDestroy(pool), cudaSuccess);
    IS(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);

    unsigned char box[4][3][5], back[4][3][5] = {}; cudaPitchedPtr at; cudaMemcpy3DParms move{};
    for (int i = 0; i < 60; ++i) box[0][0][i] = i;
    IS(cudaMalloc3D(&at, make_cudaExtent(5, 3, 4)), cudaSuccess); CHECK(at.pitch >= 5 && at.ysize == 3);
    move.srcPtr = make_cudaPitchedPtr(box, 5, 5, 3); move.dstPtr = at; move.extent = make_cudaExtent(5, 3, 4);
    move.kind = cudaMemcpyHostToDevice;
    IS(cudaMemcpy3D(&move), cudaSuccess);
    IS(cudaMemset3D(at, 99, make_cudaExtent(1, 1, 4)), cudaSuccess);
    cudaMemcpy3DParms out{};
    out.srcPtr = at; out.srcPos = make_cudaPos(0, 0, 1); out.dstPtr = make_cudaPitchedPtr(back, 5, 5, 3);
    out.extent = make_cudaExtent(4, 3, 3); out.kind = cudaMemcpyDeviceToHost;
    IS(cudaMemcpy3D(&out), cudaSuccess);
    CHECK(back[0][0][0] == 99 && back[0][0][1] == 16 && back[2][2][3] == 58 && back[2][2][4] == 0);
    """
    simt = "__global__ void simt(int* p, int by) { p[threadIdx.x] += by + threadIdx.x; }\n"
    out, err, status = run_main(tmp_path, environment, body, KERNELS + simt)
    assert (out, err, status) == ("", "", 0)
