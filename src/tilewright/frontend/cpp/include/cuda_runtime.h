// The part of the CUDA runtime that host code next to tile kernels uses. `tilewright run` provides the functions;
// nothing here is called from a kernel.
#pragma once
#pragma clang system_header
// What headers look at to know what was included before them.
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
#define __HOST_DEFINES_H__
#define __DEVICE_TYPES_H__
#define __BUILTIN_TYPES_H__
#define CUDART_VERSION 13030
#define CUDARTAPI
#define CUDART_CB
#include "tilewright/intrinsics.h"

#include "tilewright/errors.h"

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};
#include "tilewright/device.h"
enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3
};
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void* devicePointer;
    void* hostPointer;
};
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#include "tilewright/copies.h"

#include "tilewright/flags.h"
#include "tilewright/textures.h"
#include "tilewright/unsupported_types.h"
#include "tilewright/node_types.h"

// Calls at the ends of branches stay apart: what goes wrong is told by the line of the call.
#pragma clang attribute push(__attribute__((nomerge)), apply_to = function)
extern "C" {
// Memory.
cudaError_t cudaMalloc(void** address, size_t size);
cudaError_t cudaMallocAsync(void** address, size_t size, cudaStream_t stream);
cudaError_t cudaMallocManaged(void** address, size_t size, unsigned int flags = cudaMemAttachGlobal);
cudaError_t cudaMallocHost(void** address, size_t size);
cudaError_t cudaHostAlloc(void** address, size_t size, unsigned int flags);
cudaError_t cudaFree(void* address);
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream);
cudaError_t cudaFreeHost(void* address);
cudaError_t cudaMemcpy(void* target, void const* source, size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* target, void const* source, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* address, int value, size_t size);
cudaError_t cudaMemsetAsync(void* address, int value, size_t size, cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy2D(void* target, size_t target_pitch, void const* source, size_t source_pitch, size_t width,
                         size_t height, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, void const* source, size_t source_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy3D(cudaMemcpy3DParms const* what);
cudaError_t cudaMemcpy3DAsync(cudaMemcpy3DParms const* what, cudaStream_t stream = nullptr);
cudaError_t cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height);
cudaError_t cudaMemset2DAsync(void* address, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream = nullptr);
cudaError_t cudaMemset3D(cudaPitchedPtr at, int value, cudaExtent extent);
cudaError_t cudaMemset3DAsync(cudaPitchedPtr at, int value, cudaExtent extent, cudaStream_t stream = nullptr);
cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height);
cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent extent);
cudaError_t cudaHostRegister(void* address, size_t size, unsigned int flags);
cudaError_t cudaHostUnregister(void* address);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* address);
cudaError_t cudaHostGetFlags(unsigned int* flags, void* address);
cudaError_t cudaMemAdvise(void const* address, size_t size, cudaMemoryAdvise advice, cudaMemLocation location);
cudaError_t cudaMemPrefetchAsync(void const* address, size_t size, cudaMemLocation location, unsigned int flags,
                                 cudaStream_t stream = nullptr);
cudaError_t cudaMemRangeGetAttribute(void* value, size_t bytes, cudaMemRangeAttribute attribute, void const* address,
                                     size_t size);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
// Errors.
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
char const* cudaGetErrorString(cudaError_t error);
char const* cudaGetErrorName(cudaError_t error);
// Devices.
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceReset();
cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** function, unsigned int version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* found = nullptr);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
// Streams and events.
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority);
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id);
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned int flags);
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID id, cudaStreamAttrValue* value);
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID id, cudaStreamAttrValue const* value);
cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags = 0);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaEventDestroy(cudaEvent_t event);

// Notes an error as the last one and returns it.
cudaError_t __tw_host_report(cudaError_t error);
char* __tw_symbol(void const volatile* address, size_t size = 0);
cudaError_t __tw_host_unsupported(char const* name);
// Launches: the configuration of the next one, and a kernel called by its address.
cudaError_t __tw_host_configure(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                size_t shared, cudaStream_t stream);
cudaError_t __tw_host_launch_function(void const* function, void** arguments);
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) && defined(TW_HOST)
void __tw_threads_have_streams();
__attribute__((constructor(101))) static void __tw_use_streams_of_threads() { __tw_threads_have_streams(); }
#endif
}  // extern "C"
#pragma clang attribute pop

// Of all code, tile code too. Of a NaN and a number it is the number.
#define TW_ORDER(T)                                                    \
    inline T min(T a, T b) { return a < b || b != b ? a : b; }         \
    inline T max(T a, T b) { return a < b || a != a ? b : a; }
TW_ORDER(int) TW_ORDER(unsigned) TW_ORDER(long) TW_ORDER(unsigned long) TW_ORDER(long long) TW_ORDER(unsigned long long)
#ifdef TW_SIMT
#include "tilewright/simt.h"
#else
TW_ORDER(float) TW_ORDER(double)
#endif
#undef TW_ORDER
#include "tilewright/functions.h"
#include "tilewright/graphs.h"
#include "tilewright/runtime_helpers.h"
#include "tilewright/unsupported.h"

template <typename T>
inline cudaError_t cudaMalloc(T** address, size_t size) {
    return cudaMalloc((void**)address, size);
}
template <typename T>
inline cudaError_t cudaMallocAsync(T** address, size_t size, cudaStream_t stream) {
    return cudaMallocAsync((void**)address, size, stream);
}
template <typename T>
inline cudaError_t cudaMallocFromPoolAsync(T** address, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    return cudaMallocFromPoolAsync((void**)address, size, pool, stream);
}
template <typename T>
inline cudaError_t cudaMallocAsync(T** address, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    return cudaMallocFromPoolAsync((void**)address, size, pool, stream);
}
template <typename T>
inline cudaError_t cudaMallocManaged(T** address, size_t size, unsigned int flags = cudaMemAttachGlobal) {
    return cudaMallocManaged((void**)address, size, flags);
}
template <typename T>
inline cudaError_t cudaMallocHost(T** address, size_t size, unsigned int = cudaHostAllocDefault) {
    return cudaMallocHost((void**)address, size);
}
template <typename T>
inline cudaError_t cudaHostAlloc(T** address, size_t size, unsigned int flags) {
    return cudaHostAlloc((void**)address, size, flags);
}

inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned int flags) {
    return cudaEventCreateWithFlags(event, flags);
}

namespace __tw_host {
inline cudaError_t configure(dim3 grid, dim3 block = dim3(1), size_t shared = 0, cudaStream_t stream = nullptr) {
    return __tw_host_configure(grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream);
}
}  // namespace __tw_host

inline cudaError_t cudaLaunchKernel(void const* function, dim3 grid, dim3 block, void** arguments, size_t shared = 0,
                                    cudaStream_t stream = nullptr) {
    __tw_host::configure(grid, block, shared, stream);
    return __tw_host_launch_function(function, arguments);
}
template <typename... A>
inline cudaError_t cudaLaunchKernel(void (*function)(A...), dim3 grid, dim3 block, void** arguments, size_t shared = 0,
                                    cudaStream_t stream = nullptr) {
    return cudaLaunchKernel((void const*)function, grid, block, arguments, shared, stream);
}

namespace __tw_host {
// All blocks of a cooperative launch are on the device at once, as on SMs of 2048 threads.
inline cudaError_t fits_at_once(void const* function, dim3 grid, dim3 block, size_t shared) {
    int each = 0, processors = 0;
    cudaError_t error = __tw_occupancy(&each, function, int(block.x * block.y * block.z), shared);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    bool const fits = double(grid.x) * grid.y * grid.z <= double(each) * processors;
    return error != cudaSuccess || fits ? error : __tw_host_report(cudaErrorCooperativeLaunchTooLarge);
}
}  // namespace __tw_host
inline cudaError_t cudaLaunchCooperativeKernel(void const* function, dim3 grid, dim3 block, void** arguments,
                                               size_t shared, cudaStream_t stream) {
    cudaError_t error = __tw_host::fits_at_once(function, grid, block, shared);
    return error != cudaSuccess ? error : cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}
template <typename... A>
inline cudaError_t cudaLaunchCooperativeKernel(void (*function)(A...), dim3 grid, dim3 block, void** arguments,
                                               size_t shared = 0, cudaStream_t stream = nullptr) {
    return cudaLaunchCooperativeKernel((void const*)function, grid, block, arguments, shared, stream);
}

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned int numAttrs;
};
namespace __tw_host {
// What is wrong with the attributes of a launch. Blocks of a cluster could reach each other's memory, which they cannot here.
inline cudaError_t attributes(cudaLaunchConfig_t const* config, void const* function) {
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        auto const& [id, value] = config->attrs[i];
        auto const& [x, y, z] = value.clusterDim;
        if (id == cudaLaunchAttributeClusterDimension && x * y * z > 1) return __tw_host_report(cudaErrorNotSupported);
        if (id != cudaLaunchAttributeCooperative || !value.cooperative) continue;
        cudaError_t error = fits_at_once(function, config->gridDim, config->blockDim, config->dynamicSmemBytes);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
}  // namespace __tw_host
template <typename... P, typename... A>
inline cudaError_t cudaLaunchKernelEx(cudaLaunchConfig_t const* config, void (*kernel)(P...), A&&... arguments) {
    cudaError_t error = __tw_host::attributes(config, (void const*)kernel);
    if (error != cudaSuccess) return error;
    __tw_host::configure(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
    cudaError_t before = cudaGetLastError();
    kernel(static_cast<A&&>(arguments)...);
    error = cudaPeekAtLastError();
    if (error == cudaSuccess && before != cudaSuccess) __tw_host_report(before);
    return error;
}
inline cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, void const* function, void** arguments) {
    if (cudaError_t error = __tw_host::attributes(config, function)) return error;
    return cudaLaunchKernel(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                            config->stream);
}
