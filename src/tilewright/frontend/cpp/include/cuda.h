// The CUDA driver for programs on a CPU: what is made of functions of the runtime, and modules, which hold kernels that
// nvrtc.h compiled. Handles of streams and events are those of the runtime.
#pragma once
#pragma clang system_header
#define __cuda_cuda_h__
#define CUDA_VERSION 13030
#include "cuda_runtime.h"

typedef enum cudaError_enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_UNKNOWN = 999
} CUresult;
// Attributes and modes have the numbers that the runtime gives them.
typedef enum CUdevice_attribute_enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
} CUdevice_attribute;
typedef enum CUcomputemode_enum { CU_COMPUTEMODE_DEFAULT = 0, CU_COMPUTEMODE_PROHIBITED = 2 } CUcomputemode;
typedef enum CUjit_option_enum { CU_JIT_GENERATE_DEBUG_INFO = 11, CU_JIT_GENERATE_LINE_INFO = 13 } CUjit_option;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUlib_st* CUlibrary;
typedef struct CUkern_st* CUkernel;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;

extern "C" {
CUresult cuModuleLoadData(CUmodule* module, void const* image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, char const* name);
CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void** arguments,
                        void** extra);
CUresult cuGetErrorName(CUresult error, char const** name);
CUresult cuGetErrorString(CUresult error, char const** text);
}
inline CUresult cuModuleLoadDataEx(CUmodule* module, void const* image, unsigned int, CUjit_option*, void**) {
    return cuModuleLoadData(module, image);
}

inline CUresult cuInit(unsigned int flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
inline CUresult cuDriverGetVersion(int* version) { return CUresult(cudaDriverGetVersion(version)); }
inline CUresult cuDeviceGet(CUdevice* device, int number) {
    if (number != 0 || !device) return number ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}
inline CUresult cuDeviceGetCount(int* count) { return CUresult(cudaGetDeviceCount(count)); }
inline CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    return CUresult(cudaDeviceGetAttribute(value, cudaDeviceAttr(attribute), device));
}
inline CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    cudaDeviceProp about;
    cudaError_t error = cudaGetDeviceProperties(&about, device);
    if (error != cudaSuccess || !name || length < 1) return error ? CUresult(error) : CUDA_ERROR_INVALID_VALUE;
    int i = 0;
    for (; i < length - 1 && about.name[i]; ++i) name[i] = about.name[i];
    name[i] = 0;
    return CUDA_SUCCESS;
}
inline CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
    size_t free;
    return device ? CUDA_ERROR_INVALID_DEVICE : CUresult(cudaMemGetInfo(&free, bytes));
}
// There is one context, which is always the current one.
#define TW_CONTEXT ((CUcontext)1)
inline CUresult cuCtxGetCurrent(CUcontext* context) {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = TW_CONTEXT;
    return CUDA_SUCCESS;
}
inline CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams*, unsigned int, CUdevice device) {
    return device ? CUDA_ERROR_INVALID_DEVICE : cuCtxGetCurrent(context);
}
inline CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
    return cuCtxCreate(context, nullptr, flags, device);
}
inline CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) { return cuCtxCreate(context, 0, device); }
inline CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
inline CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
inline CUresult cuCtxDestroy(CUcontext) { return CUDA_SUCCESS; }
inline CUresult cuCtxSynchronize() { return CUresult(cudaDeviceSynchronize()); }

inline CUresult cuMemAlloc(CUdeviceptr* address, size_t size) { return CUresult(cudaMalloc((void**)address, size)); }
inline CUresult cuMemFree(CUdeviceptr address) { return CUresult(cudaFree((void*)address)); }
inline CUresult cuMemGetInfo(size_t* free, size_t* total) { return CUresult(cudaMemGetInfo(free, total)); }
inline CUresult cuMemcpyHtoD(CUdeviceptr target, void const* source, size_t size) {
    return CUresult(cudaMemcpy((void*)target, source, size, cudaMemcpyHostToDevice));
}
inline CUresult cuMemcpyDtoH(void* target, CUdeviceptr source, size_t size) {
    return CUresult(cudaMemcpy(target, (void const*)source, size, cudaMemcpyDeviceToHost));
}
inline CUresult cuMemcpyDtoD(CUdeviceptr target, CUdeviceptr source, size_t size) {
    return CUresult(cudaMemcpy((void*)target, (void const*)source, size, cudaMemcpyDeviceToDevice));
}
inline CUresult cuMemsetD8(CUdeviceptr address, unsigned char value, size_t count) {
    return CUresult(cudaMemset((void*)address, value, count));
}
inline CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
    return CUresult(cudaStreamCreateWithFlags(stream, flags));
}
inline CUresult cuStreamSynchronize(CUstream stream) { return CUresult(cudaStreamSynchronize(stream)); }
inline CUresult cuStreamDestroy(CUstream stream) { return CUresult(cudaStreamDestroy(stream)); }
inline CUresult cuEventCreate(CUevent* event, unsigned int flags) {
    return CUresult(cudaEventCreateWithFlags(event, flags));
}
inline CUresult cuEventRecord(CUevent event, CUstream stream) { return CUresult(cudaEventRecord(event, stream)); }
inline CUresult cuEventSynchronize(CUevent event) { return CUresult(cudaEventSynchronize(event)); }
inline CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
    return CUresult(cudaEventElapsedTime(milliseconds, begin, end));
}
inline CUresult cuEventDestroy(CUevent event) { return CUresult(cudaEventDestroy(event)); }
