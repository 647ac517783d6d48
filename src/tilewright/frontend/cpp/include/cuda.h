// The CUDA driver for programs on a CPU: what is made of functions of the runtime, and modules, which hold kernels that
// nvrtc.h compiled. Handles of streams, events, graphs and pools are those of the runtime. The other entries return
// CUDA_ERROR_NOT_SUPPORTED, and say so once.
#pragma once
#pragma clang system_header
#define __cuda_cuda_h__
#define CUDA_VERSION 13030
#define CUDAAPI
#define CUDA_CB
#include "cuda_runtime.h"
#include "tilewright/driver_enums.h"

typedef int CUdevice, CUdevice_v1;
typedef unsigned long long CUdeviceptr, CUdeviceptr_v2, CUtexObject, CUsurfObject, CUmemGenericAllocationHandle;
typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t, CUgraphConditionalHandle;
#define TW_HANDLE(tag, name) typedef struct tag* name;
TW_HANDLE(CUctx_st, CUcontext) TW_HANDLE(CUmod_st, CUmodule) TW_HANDLE(CUfunc_st, CUfunction)
TW_HANDLE(CUlib_st, CUlibrary) TW_HANDLE(CUkern_st, CUkernel) TW_HANDLE(CUstream_st, CUstream)
TW_HANDLE(CUevent_st, CUevent) TW_HANDLE(CUarray_st, CUarray) TW_HANDLE(CUmipmappedArray_st, CUmipmappedArray)
TW_HANDLE(CUgraph_st, CUgraph) TW_HANDLE(CUgraphNode_st, CUgraphNode) TW_HANDLE(CUgraphExec_st, CUgraphExec)
TW_HANDLE(CUtexref_st, CUtexref) TW_HANDLE(CUsurfref_st, CUsurfref) TW_HANDLE(CUlinkState_st, CUlinkState)
TW_HANDLE(CUgraphicsResource_st, CUgraphicsResource) TW_HANDLE(CUextMemory_st, CUexternalMemory)
TW_HANDLE(CUextSemaphore_st, CUexternalSemaphore) TW_HANDLE(CUuserObject_st, CUuserObject)
TW_HANDLE(CUgreenCtx_st, CUgreenCtx) TW_HANDLE(CUdevResourceDesc_st, CUdevResourceDesc)
#undef TW_HANDLE
typedef cudaMemPool_t CUmemoryPool;
typedef cudaHostFn_t CUhostFn;
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void* data);
typedef size_t (*CUoccupancyB2DSize)(int threads);
struct CUipcEventHandle {
    char reserved[64];
};
struct CUipcMemHandle {
    char reserved[64];
};
struct alignas(64) CUtensorMap {
    cuuint64_t opaque[16];
};
struct CUdevprop {
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], sharedMemPerBlock, totalConstantMemory, SIMDWidth;
    int memPitch, regsPerBlock, clockRate, textureAlign;
};
struct CUDA_MEMCPY2D {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    void const* srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch, dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void* dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch, WidthInBytes, Height;
};
struct CUDA_MEMCPY3D {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    void const* srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void* reserved0;
    size_t srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void* dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void* reserved1;
    size_t dstPitch, dstHeight, WidthInBytes, Height, Depth;
};
struct CUDA_ARRAY_DESCRIPTOR {
    size_t Width, Height;
    CUarray_format Format;
    unsigned int NumChannels;
};
struct CUDA_ARRAY3D_DESCRIPTOR {
    size_t Width, Height, Depth;
    CUarray_format Format;
    unsigned int NumChannels, Flags;
};
struct CUmemLocation {
    CUmemLocationType type;
    int id;
};
struct CUmemAccessDesc {
    CUmemLocation location;
    CUmemAccess_flags flags;
};
struct CUmemAllocationProp {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void* win32HandleMetaData;
    struct {
        unsigned char compressionType, gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
};
struct CUmemPoolProps {
    CUmemAllocationType allocType;
    CUmemAllocationHandleType handleTypes;
    CUmemLocation location;
    void* win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};
struct CUDA_KERNEL_NODE_PARAMS {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    CUkernel kern;
    CUcontext ctx;
};
struct CUDA_MEMSET_NODE_PARAMS {
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value, elementSize;
    size_t width, height;
};
struct CUDA_HOST_NODE_PARAMS {
    CUhostFn fn;
    void* userData;
};
struct CUlaunchAttribute {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    cudaLaunchAttributeValue value;
};
struct CUlaunchConfig {
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute* attrs;
    unsigned int numAttrs;
};
// Of entries that are not supported.
#include "tilewright/driver_structs.h"
typedef cudaLaunchAttributeValue CUlaunchAttributeValue, CUkernelNodeAttrValue, CUstreamAttrValue;
typedef CUlaunchAttributeID CUkernelNodeAttrID, CUstreamAttrID;
typedef cudaAccessPolicyWindow CUaccessPolicyWindow;
typedef cudaLaunchMemSyncDomainMap CUlaunchMemSyncDomainMap;
typedef cudaGraphEdgeData CUgraphEdgeData;

extern "C" {
CUresult cuModuleLoadData(CUmodule* module, void const* image);
CUresult cuModuleLoad(CUmodule* module, char const* path);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, char const* name);
CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module, char const* name);
CUresult cuGetProcAddress(char const* name, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* found = nullptr);
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function);
CUresult cuFuncGetName(char const** name, CUfunction function);
CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void** arguments,
                        void** extra);
CUresult cuGetErrorName(CUresult error, char const** name);
CUresult cuGetErrorString(CUresult error, char const** text);
CUresult cuDeviceGetName(char* name, int length, CUdevice device);
CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address);
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address);
CUresult __tw_copy_3d(CUDA_MEMCPY3D const* what, CUstream stream);
CUresult __tw_fill(CUdeviceptr address, size_t pitch, unsigned int value, int bytes, size_t width, size_t height,
                   CUstream stream);
}
// There is one device and one context of it, which is always the current one.
#define TW_CONTEXT ((CUcontext)1)
#define TW_SET(place, value) ((place) ? (void(*(place) = (value)), CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE)
#define TW_OF_DEVICE(device, result) ((device) ? CUDA_ERROR_INVALID_DEVICE : CUresult(result))
// Numbers between are of errors that the runtime alone has.
constexpr CUresult __tw_result(int code) {
    return code > CUDA_ERROR_PROFILER_ALREADY_STOPPED && code < CUDA_ERROR_NO_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUresult(code);
}
#ifndef TW_NOTE
#define TW_NOTE(name, parameters)  // the runtime has a table of them
#endif
#define TW_CALL(name, parameters, result)                           \
    inline CUresult name parameters { return __tw_result(result); } \
    TW_NOTE(name, parameters)
inline CUresult __tw_copy_2d(CUDA_MEMCPY2D const* w, CUstream stream) {
    if (!w) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D whole{w->srcXInBytes, w->srcY, 0, 0, w->srcMemoryType, w->srcHost, w->srcDevice, w->srcArray, nullptr,
                        w->srcPitch, 0, w->dstXInBytes, w->dstY, 0, 0, w->dstMemoryType, w->dstHost, w->dstDevice,
                        w->dstArray, nullptr, w->dstPitch, 0, w->WidthInBytes, w->Height, 1};
    return __tw_copy_3d(&whole, stream);
}
TW_CALL(cuInit, (unsigned int flags), flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS)
TW_CALL(cuDriverGetVersion, (int* version), cudaDriverGetVersion(version))
TW_CALL(cuModuleLoadDataEx, (CUmodule* module, void const* image, unsigned int, CUjit_option*, void**),
        cuModuleLoadData(module, image))
TW_CALL(cuModuleLoadFatBinary, (CUmodule* module, void const* image), cuModuleLoadData(module, image))
TW_CALL(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int), CUDA_SUCCESS)
TW_CALL(cuFuncSetCacheConfig, (CUfunction, CUfunc_cache), CUDA_SUCCESS)
TW_CALL(cuLaunchKernelEx, (CUlaunchConfig const* c, CUfunction f, void** arguments, void** extra),
        cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream, arguments, extra))
TW_CALL(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void* data),
        cudaLaunchHostFunc(stream, function, data))
TW_CALL(cuDeviceGet, (CUdevice* device, int number), TW_OF_DEVICE(number, TW_SET(device, 0)))
TW_CALL(cuDeviceGetCount, (int* count), cudaGetDeviceCount(count))
TW_CALL(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device),
        cudaDeviceGetAttribute(value, cudaDeviceAttr(attribute), device))
TW_CALL(cuDeviceTotalMem, (size_t* bytes, CUdevice device), TW_OF_DEVICE(device, cudaMemGetInfo(nullptr, bytes)))
TW_CALL(cuDeviceGetPCIBusId, (char* text, int length, CUdevice device), cudaDeviceGetPCIBusId(text, length, device))
TW_CALL(cuDeviceGetByPCIBusId, (CUdevice* device, char const* text), cudaDeviceGetByPCIBusId(device, text))
TW_CALL(cuDeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer), cudaDeviceCanAccessPeer(can, device, peer))
TW_CALL(cuDeviceGetDefaultMemPool, (CUmemoryPool* pool, CUdevice device), cudaDeviceGetDefaultMemPool(pool, device))
TW_CALL(cuDeviceGetMemPool, (CUmemoryPool* pool, CUdevice device), cudaDeviceGetMemPool(pool, device))
TW_CALL(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), cudaDeviceSetMemPool(device, pool))
TW_CALL(cuDevicePrimaryCtxRetain, (CUcontext* context, CUdevice device),
        TW_OF_DEVICE(device, TW_SET(context, TW_CONTEXT)))
TW_CALL(cuDevicePrimaryCtxRelease, (CUdevice device), TW_OF_DEVICE(device, CUDA_SUCCESS))
TW_CALL(cuDevicePrimaryCtxReset, (CUdevice device), TW_OF_DEVICE(device, cudaDeviceReset()))
TW_CALL(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned int), TW_OF_DEVICE(device, CUDA_SUCCESS))
TW_CALL(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int* flags, int* active),
        TW_OF_DEVICE(device, TW_SET(flags, 0u) ?: TW_SET(active, 1)))
TW_CALL(cuCtxCreate, (CUcontext* context, CUctxCreateParams*, unsigned int, CUdevice device),
        TW_OF_DEVICE(device, TW_SET(context, TW_CONTEXT)))
TW_CALL(cuCtxCreate, (CUcontext* context, unsigned int, CUdevice device),
        TW_OF_DEVICE(device, TW_SET(context, TW_CONTEXT)))
TW_CALL(cuCtxDestroy, (CUcontext), CUDA_SUCCESS)
TW_CALL(cuCtxGetCurrent, (CUcontext* context), TW_SET(context, TW_CONTEXT))
TW_CALL(cuCtxSetCurrent, (CUcontext), CUDA_SUCCESS)
TW_CALL(cuCtxPushCurrent, (CUcontext context), context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT)
TW_CALL(cuCtxPopCurrent, (CUcontext* context), context ? TW_SET(context, TW_CONTEXT) : CUDA_SUCCESS)
TW_CALL(cuCtxGetDevice, (CUdevice* device), TW_SET(device, 0))
TW_CALL(cuCtxGetFlags, (unsigned int* flags), TW_SET(flags, 0u))
TW_CALL(cuCtxSetFlags, (unsigned int), CUDA_SUCCESS)
TW_CALL(cuCtxGetId, (CUcontext, unsigned long long* id), TW_SET(id, 1ull))
TW_CALL(cuCtxGetApiVersion, (CUcontext, unsigned int* version), TW_SET(version, unsigned(CUDA_VERSION)))
TW_CALL(cuCtxGetLimit, (size_t* value, CUlimit limit), cudaDeviceGetLimit(value, cudaLimit(limit)))
TW_CALL(cuCtxSetLimit, (CUlimit limit, size_t value), cudaDeviceSetLimit(cudaLimit(limit), value))
TW_CALL(cuCtxGetCacheConfig, (CUfunc_cache* config), TW_SET(config, CU_FUNC_CACHE_PREFER_NONE))
TW_CALL(cuCtxSetCacheConfig, (CUfunc_cache), CUDA_SUCCESS)
TW_CALL(cuCtxGetStreamPriorityRange, (int* least, int* greatest), cudaDeviceGetStreamPriorityRange(least, greatest))
TW_CALL(cuCtxSynchronize, (), cudaDeviceSynchronize())
TW_CALL(cuMemGetInfo, (size_t* free, size_t* total), cudaMemGetInfo(free, total))
TW_CALL(cuMemAlloc, (CUdeviceptr* address, size_t size), cudaMalloc((void**)address, size))
TW_CALL(cuMemAllocAsync, (CUdeviceptr* address, size_t size, CUstream stream),
        cudaMallocAsync((void**)address, size, stream))
TW_CALL(cuMemAllocFromPoolAsync, (CUdeviceptr* address, size_t size, CUmemoryPool pool, CUstream stream),
        cudaMallocFromPoolAsync((void**)address, size, pool, stream))
TW_CALL(cuMemAllocManaged, (CUdeviceptr* address, size_t size, unsigned int flags),
        cudaMallocManaged((void**)address, size, flags))
TW_CALL(cuMemAllocPitch, (CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned int),
        cudaMallocPitch((void**)address, pitch, width, height))
TW_CALL(cuMemAllocHost, (void** address, size_t size), cudaMallocHost(address, size))
TW_CALL(cuMemHostAlloc, (void** address, size_t size, unsigned int flags), cudaHostAlloc(address, size, flags))
TW_CALL(cuMemHostRegister, (void* address, size_t size, unsigned int flags), cudaHostRegister(address, size, flags))
TW_CALL(cuMemHostUnregister, (void* address), cudaHostUnregister(address))
TW_CALL(cuMemHostGetDevicePointer, (CUdeviceptr* device, void* host, unsigned int flags),
        cudaHostGetDevicePointer((void**)device, host, flags))
TW_CALL(cuMemFree, (CUdeviceptr address), cudaFree((void*)address))
TW_CALL(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), cudaFreeAsync((void*)address, stream))
TW_CALL(cuMemFreeHost, (void* address), cudaFreeHost(address))
TW_CALL(cuMemcpy, (CUdeviceptr target, CUdeviceptr source, size_t size),
        cudaMemcpy((void*)target, (void*)source, size, cudaMemcpyDefault))
TW_CALL(cuMemcpyAsync, (CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream),
        cudaMemcpyAsync((void*)target, (void*)source, size, cudaMemcpyDefault, stream))
TW_CALL(cuMemcpyHtoD, (CUdeviceptr target, void const* source, size_t size),
        cudaMemcpy((void*)target, source, size, cudaMemcpyHostToDevice))
TW_CALL(cuMemcpyDtoH, (void* target, CUdeviceptr source, size_t size),
        cudaMemcpy(target, (void*)source, size, cudaMemcpyDeviceToHost))
TW_CALL(cuMemcpyDtoD, (CUdeviceptr target, CUdeviceptr source, size_t size),
        cudaMemcpy((void*)target, (void*)source, size, cudaMemcpyDeviceToDevice))
TW_CALL(cuMemcpyHtoDAsync, (CUdeviceptr target, void const* source, size_t size, CUstream stream),
        cudaMemcpyAsync((void*)target, source, size, cudaMemcpyHostToDevice, stream))
TW_CALL(cuMemcpyDtoHAsync, (void* target, CUdeviceptr source, size_t size, CUstream stream),
        cudaMemcpyAsync(target, (void*)source, size, cudaMemcpyDeviceToHost, stream))
TW_CALL(cuMemcpyDtoDAsync, (CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream),
        cudaMemcpyAsync((void*)target, (void*)source, size, cudaMemcpyDeviceToDevice, stream))
TW_CALL(cuMemcpyPeer, (CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, size_t size),
        cudaMemcpy((void*)target, (void*)source, size, cudaMemcpyDefault))
TW_CALL(cuMemcpy3D, (CUDA_MEMCPY3D const* what), __tw_copy_3d(what, nullptr))
TW_CALL(cuMemcpy3DAsync, (CUDA_MEMCPY3D const* what, CUstream stream), __tw_copy_3d(what, stream))
TW_CALL(cuMemcpy2D, (CUDA_MEMCPY2D const* what), __tw_copy_2d(what, nullptr))
TW_CALL(cuMemcpy2DUnaligned, (CUDA_MEMCPY2D const* what), __tw_copy_2d(what, nullptr))
TW_CALL(cuMemcpy2DAsync, (CUDA_MEMCPY2D const* what, CUstream stream), __tw_copy_2d(what, stream))
TW_CALL(cuMemsetD8, (CUdeviceptr address, unsigned char value, size_t count),
        __tw_fill(address, 0, value, 1, count, 1, nullptr))
TW_CALL(cuMemsetD8Async, (CUdeviceptr address, unsigned char value, size_t count, CUstream stream),
        __tw_fill(address, 0, value, 1, count, 1, stream))
TW_CALL(cuMemsetD2D8, (CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height),
        __tw_fill(address, pitch, value, 1, width, height, nullptr))
TW_CALL(cuMemsetD2D8Async, (CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),
        __tw_fill(address, pitch, value, 1, width, height, stream))
TW_CALL(cuMemsetD16, (CUdeviceptr address, unsigned short value, size_t count),
        __tw_fill(address, 0, value, 2, count, 1, nullptr))
TW_CALL(cuMemsetD16Async, (CUdeviceptr address, unsigned short value, size_t count, CUstream stream),
        __tw_fill(address, 0, value, 2, count, 1, stream))
TW_CALL(cuMemsetD2D16, (CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t height),
        __tw_fill(address, pitch, value, 2, width, height, nullptr))
TW_CALL(cuMemsetD2D16Async, (CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),
        __tw_fill(address, pitch, value, 2, width, height, stream))
TW_CALL(cuMemsetD32, (CUdeviceptr address, unsigned int value, size_t count),
        __tw_fill(address, 0, value, 4, count, 1, nullptr))
TW_CALL(cuMemsetD32Async, (CUdeviceptr address, unsigned int value, size_t count, CUstream stream),
        __tw_fill(address, 0, value, 4, count, 1, stream))
TW_CALL(cuMemsetD2D32, (CUdeviceptr address, size_t pitch, unsigned int value, size_t width, size_t height),
        __tw_fill(address, pitch, value, 4, width, height, nullptr))
TW_CALL(cuMemsetD2D32Async, (CUdeviceptr address, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream),
        __tw_fill(address, pitch, value, 4, width, height, stream))
TW_CALL(cuStreamCreate, (CUstream* stream, unsigned int flags), cudaStreamCreateWithFlags(stream, flags))
TW_CALL(cuStreamCreateWithPriority, (CUstream* stream, unsigned int flags, int priority),
        cudaStreamCreateWithPriority(stream, flags, priority))
TW_CALL(cuStreamDestroy, (CUstream stream), cudaStreamDestroy(stream))
TW_CALL(cuStreamSynchronize, (CUstream stream), cudaStreamSynchronize(stream))
TW_CALL(cuStreamQuery, (CUstream stream), cudaStreamQuery(stream))
TW_CALL(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
        cudaStreamWaitEvent(stream, event, flags))
TW_CALL(cuStreamGetFlags, (CUstream stream, unsigned int* flags), cudaStreamGetFlags(stream, flags))
TW_CALL(cuStreamGetPriority, (CUstream stream, int* priority), cudaStreamGetPriority(stream, priority))
TW_CALL(cuStreamGetId, (CUstream stream, unsigned long long* id), cudaStreamGetId(stream, id))
TW_CALL(cuStreamGetDevice, (CUstream stream, CUdevice* device), cudaStreamGetDevice(stream, device))
TW_CALL(cuStreamGetCtx, (CUstream, CUcontext* context), TW_SET(context, TW_CONTEXT))
TW_CALL(cuStreamAddCallback, (CUstream stream, CUstreamCallback function, void* data, unsigned int flags),
        cudaStreamAddCallback(stream, (cudaStreamCallback_t)function, data, flags))
TW_CALL(cuStreamAttachMemAsync, (CUstream stream, CUdeviceptr address, size_t size, unsigned int flags),
        cudaStreamAttachMemAsync(stream, (void*)address, size, flags))
TW_CALL(cuStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode),
        cudaStreamBeginCapture(stream, cudaStreamCaptureMode(mode)))
TW_CALL(cuStreamEndCapture, (CUstream stream, CUgraph* graph), cudaStreamEndCapture(stream, graph))
TW_CALL(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus* status),
        cudaStreamIsCapturing(stream, (cudaStreamCaptureStatus*)status))
TW_CALL(cuEventCreate, (CUevent* event, unsigned int flags), cudaEventCreateWithFlags(event, flags))
TW_CALL(cuEventDestroy, (CUevent event), cudaEventDestroy(event))
TW_CALL(cuEventRecord, (CUevent event, CUstream stream), cudaEventRecord(event, stream))
TW_CALL(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int), cudaEventRecord(event, stream))
TW_CALL(cuEventSynchronize, (CUevent event), cudaEventSynchronize(event))
TW_CALL(cuEventQuery, (CUevent event), cudaEventQuery(event))
TW_CALL(cuEventElapsedTime, (float* milliseconds, CUevent begin, CUevent end),
        cudaEventElapsedTime(milliseconds, begin, end))
TW_CALL(cuGraphCreate, (CUgraph* graph, unsigned int flags), cudaGraphCreate(graph, flags))
TW_CALL(cuGraphClone, (CUgraph* clone, CUgraph graph), cudaGraphClone(clone, graph))
TW_CALL(cuGraphDestroy, (CUgraph graph), cudaGraphDestroy(graph))
TW_CALL(cuGraphAddEmptyNode, (CUgraphNode* node, CUgraph graph, CUgraphNode const* after, size_t count),
        cudaGraphAddEmptyNode(node, graph, after, count))
TW_CALL(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, size_t* count), cudaGraphGetNodes(graph, nodes, count))
TW_CALL(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode* nodes, size_t* count),
        cudaGraphGetRootNodes(graph, nodes, count))
TW_CALL(cuGraphInstantiate, (CUgraphExec* exec, CUgraph graph, unsigned long long flags),
        cudaGraphInstantiateWithFlags(exec, graph, flags))
TW_CALL(cuGraphInstantiateWithFlags, (CUgraphExec* exec, CUgraph graph, unsigned long long flags),
        cudaGraphInstantiateWithFlags(exec, graph, flags))
TW_CALL(cuGraphUpload, (CUgraphExec exec, CUstream stream), cudaGraphUpload(exec, stream))
TW_CALL(cuGraphLaunch, (CUgraphExec exec, CUstream stream), cudaGraphLaunch(exec, stream))
TW_CALL(cuGraphExecDestroy, (CUgraphExec exec), cudaGraphExecDestroy(exec))
TW_CALL(cuMemPoolDestroy, (CUmemoryPool pool), cudaMemPoolDestroy(pool))
TW_CALL(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), cudaMemPoolTrimTo(pool, keep))
TW_CALL(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttr(attribute), value))
TW_CALL(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttr(attribute), value))
TW_CALL(cuMemPoolCreate, (CUmemoryPool* pool, CUmemPoolProps const* properties),
        cudaMemPoolCreate(pool, (cudaMemPoolProps const*)properties))
TW_CALL(cuMemPoolSetAccess, (CUmemoryPool pool, CUmemAccessDesc const* list, size_t count),
        cudaMemPoolSetAccess(pool, (cudaMemAccessDesc const*)list, count))
TW_CALL(cuMemAdvise, (CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location),
        cudaMemAdvise((void*)address, size, cudaMemoryAdvise(advice), {cudaMemLocationType(location.type), location.id}))
TW_CALL(cuMemAdvise, (CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device),
        cudaMemAdvise((void*)address, size, cudaMemoryAdvise(advice), device))
TW_CALL(cuMemPrefetchAsync, (CUdeviceptr address, size_t size, CUmemLocation location, unsigned int flags, CUstream stream),
        cudaMemPrefetchAsync((void*)address, size, {cudaMemLocationType(location.type), location.id}, flags, stream))
TW_CALL(cuMemPrefetchAsync, (CUdeviceptr address, size_t size, CUdevice device, CUstream stream),
        cudaMemPrefetchAsync((void*)address, size, device, stream))
TW_CALL(cuMemRangeGetAttribute, (void* value, size_t bytes, CUmem_range_attribute attribute, CUdeviceptr address, size_t size),
        cudaMemRangeGetAttribute(value, bytes, cudaMemRangeAttribute(attribute), (void*)address, size))
TW_CALL(cuMemHostGetFlags, (unsigned int* flags, void* address), cudaHostGetFlags(flags, address))
TW_CALL(cuMemcpyPeerAsync, (CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, size_t size, CUstream stream),
        cudaMemcpyAsync((void*)target, (void*)source, size, cudaMemcpyDefault, stream))
TW_CALL(cuCtxResetPersistingL2Cache, (), CUDA_SUCCESS)
TW_CALL(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode* mode),
        cudaThreadExchangeStreamCaptureMode((cudaStreamCaptureMode*)mode))
TW_CALL(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, CUgraphNode const** after, CUgraphEdgeData const** edges, size_t* count),
        cudaStreamGetCaptureInfo(stream, (cudaStreamCaptureStatus*)status, id, graph, after, edges, count))
TW_CALL(cuStreamUpdateCaptureDependencies, (CUstream stream, CUgraphNode* nodes, CUgraphEdgeData const* edges, size_t count, unsigned int flags),
        cudaStreamUpdateCaptureDependencies(stream, nodes, edges, count, flags))
TW_CALL(cuStreamGetAttribute, (CUstream stream, CUstreamAttrID id, CUstreamAttrValue* value),
        cudaStreamGetAttribute(stream, cudaStreamAttrID(id), value))
TW_CALL(cuStreamSetAttribute, (CUstream stream, CUstreamAttrID id, CUstreamAttrValue const* value),
        cudaStreamSetAttribute(stream, cudaStreamAttrID(id), value))
TW_CALL(cuStreamCopyAttributes, (CUstream to, CUstream from), cudaStreamCopyAttributes(to, from))
TW_CALL(cuGraphDebugDotPrint, (CUgraph graph, char const* path, unsigned int flags),
        cudaGraphDebugDotPrint(graph, path, flags))
TW_CALL(cuGraphDestroyNode, (CUgraphNode node), cudaGraphDestroyNode(node))
TW_CALL(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* type), cudaGraphNodeGetType(node, (cudaGraphNodeType*)type))
TW_CALL(cuGraphAddChildGraphNode, (CUgraphNode* node, CUgraph graph, CUgraphNode const* after, size_t count, CUgraph child),
        cudaGraphAddChildGraphNode(node, graph, after, count, child))
TW_CALL(cuGraphAddHostNode, (CUgraphNode* node, CUgraph graph, CUgraphNode const* after, size_t count, CUDA_HOST_NODE_PARAMS const* what),
        cudaGraphAddHostNode(node, graph, after, count, (cudaHostNodeParams const*)what))
TW_CALL(cuGraphAddMemsetNode, (CUgraphNode* node, CUgraph graph, CUgraphNode const* after, size_t count, CUDA_MEMSET_NODE_PARAMS const* what, CUcontext),
        cudaGraphAddMemsetNode(node, graph, after, count, (cudaMemsetParams const*)what))
inline cudaKernelNodeParams __tw_kernel_node(CUDA_KERNEL_NODE_PARAMS const& p) {
    return {p.func ? (void*)p.func : (void*)p.kern, dim3(p.gridDimX, p.gridDimY, p.gridDimZ),
            dim3(p.blockDimX, p.blockDimY, p.blockDimZ), p.sharedMemBytes, p.kernelParams, p.extra};
}
inline CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, CUgraphNode const* after, size_t count,
                                     CUDA_KERNEL_NODE_PARAMS const* what) {
    if (!what) return CUDA_ERROR_INVALID_VALUE;
    cudaKernelNodeParams made = __tw_kernel_node(*what);
    return __tw_result(cudaGraphAddKernelNode(node, graph, after, count, &made));
}
inline CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, CUDA_KERNEL_NODE_PARAMS const* what) {
    if (!what) return CUDA_ERROR_INVALID_VALUE;
    cudaKernelNodeParams made = __tw_kernel_node(*what);
    return __tw_result(cudaGraphExecKernelNodeSetParams(exec, node, &made));
}
TW_CALL(cuGraphAddDependencies, (CUgraph graph, CUgraphNode const* from, CUgraphNode const* to, size_t count),
        cudaGraphAddDependencies(graph, from, to, count))
TW_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* blocks, CUfunction function, int threads, size_t shared),
        __tw_occupancy(blocks, (void const*)function, threads, shared))
TW_CALL(cuOccupancyMaxPotentialBlockSize, (int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared, int limit),
        cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, function, [=](int n) { return shared_of ? shared_of(n) : shared; }, limit))
TW_CALL(cuLaunchCooperativeKernel, (CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void** arguments),
        cudaLaunchCooperativeKernel((void const*)function, dim3(gx, gy, gz), dim3(bx, by, bz), arguments, shared, stream))
TW_CALL(cuLibraryLoadData, (CUlibrary* library, void const* image, CUjit_option*, void**, unsigned int, CUlibraryOption*, void**, unsigned int),
        cuModuleLoadData((CUmodule*)library, image))
TW_CALL(cuLibraryLoadFromFile, (CUlibrary* library, char const* path, CUjit_option*, void**, unsigned int, CUlibraryOption*, void**, unsigned int),
        cuModuleLoad((CUmodule*)library, path))
TW_CALL(cuLibraryUnload, (CUlibrary library), cuModuleUnload((CUmodule)library))
TW_CALL(cuLibraryGetKernel, (CUkernel* kernel, CUlibrary library, char const* name),
        cuModuleGetFunction((CUfunction*)kernel, (CUmodule)library, name))
TW_CALL(cuLibraryGetModule, (CUmodule* module, CUlibrary library), TW_SET(module, (CUmodule)library))
TW_CALL(cuKernelGetFunction, (CUfunction* function, CUkernel kernel), TW_SET(function, (CUfunction)kernel))
TW_CALL(cuKernelGetName, (char const** name, CUkernel kernel), cuFuncGetName(name, (CUfunction)kernel))
TW_CALL(cuFuncLoad, (CUfunction), CUDA_SUCCESS)
TW_CALL(cuFuncIsLoaded, (CUfunctionLoadingState* state, CUfunction), TW_SET(state, CU_FUNCTION_LOADING_STATE_LOADED))
TW_CALL(cuModuleGetLoadingMode, (CUmoduleLoadingMode* mode), TW_SET(mode, CU_MODULE_EAGER_LOADING))
TW_CALL(cuProfilerStart, (), CUDA_SUCCESS)
TW_CALL(cuProfilerStop, (), CUDA_SUCCESS)
inline CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
    CUresult error = cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    return error ? error : cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}
inline CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    cudaDeviceProp about;
    cudaError_t error = cudaGetDeviceProperties(&about, device);
    return error ? CUresult(error) : TW_SET(uuid, about.uuid);
}
#undef TW_CALL

inline CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
    if (green) *green = nullptr;
    return cuStreamGetCtx(stream, context);
}
#define TW_NONE(name) \
    inline CUresult name(...) { return CUresult(__tw_host_unsupported(#name)); }
TW_NONE(cuArray3DCreate) TW_NONE(cuArray3DGetDescriptor) TW_NONE(cuArrayCreate) TW_NONE(cuArrayDestroy)
TW_NONE(cuArrayGetDescriptor) TW_NONE(cuArrayGetMemoryRequirements) TW_NONE(cuArrayGetPlane)
TW_NONE(cuArrayGetSparseProperties) TW_NONE(cuCheckpointProcessCheckpoint)
TW_NONE(cuCheckpointProcessGetRestoreThreadId) TW_NONE(cuCheckpointProcessGetState) TW_NONE(cuCheckpointProcessLock)
TW_NONE(cuCheckpointProcessRestore) TW_NONE(cuCheckpointProcessUnlock) TW_NONE(cuCtxAttach) TW_NONE(cuCtxDetach)
TW_NONE(cuCtxDisablePeerAccess) TW_NONE(cuCtxEnablePeerAccess) TW_NONE(cuCtxFromGreenCtx) TW_NONE(cuCtxGetDevResource)
TW_NONE(cuCtxGetExecAffinity) TW_NONE(cuCtxGetSharedMemConfig) TW_NONE(cuCtxRecordEvent)
TW_NONE(cuCtxSetSharedMemConfig) TW_NONE(cuCtxWaitEvent) TW_NONE(cuDestroyExternalMemory)
TW_NONE(cuDestroyExternalSemaphore) TW_NONE(cuDevResourceGenerateDesc) TW_NONE(cuDevSmResourceSplitByCount)
TW_NONE(cuDeviceGetDevResource) TW_NONE(cuDeviceGetExecAffinitySupport) TW_NONE(cuDeviceGetGraphMemAttribute)
TW_NONE(cuDeviceGetHostAtomicCapabilities) TW_NONE(cuDeviceGetLuid) TW_NONE(cuDeviceGetNvSciSyncAttributes)
TW_NONE(cuDeviceGetP2PAtomicCapabilities) TW_NONE(cuDeviceGetP2PAttribute) TW_NONE(cuDeviceGetProperties)
TW_NONE(cuDeviceGetTexture1DLinearMaxWidth) TW_NONE(cuDeviceGraphMemTrim) TW_NONE(cuDeviceRegisterAsyncNotification)
TW_NONE(cuDeviceSetGraphMemAttribute) TW_NONE(cuDeviceUnregisterAsyncNotification)
TW_NONE(cuExternalMemoryGetMappedBuffer) TW_NONE(cuExternalMemoryGetMappedMipmappedArray)
TW_NONE(cuFlushGPUDirectRDMAWrites) TW_NONE(cuFuncGetModule) TW_NONE(cuFuncGetParamInfo) TW_NONE(cuFuncSetBlockShape)
TW_NONE(cuFuncSetSharedMemConfig) TW_NONE(cuFuncSetSharedSize) TW_NONE(cuGetExportTable)
TW_NONE(cuGraphAddBatchMemOpNode) TW_NONE(cuGraphAddEventRecordNode) TW_NONE(cuGraphAddEventWaitNode)
TW_NONE(cuGraphAddExternalSemaphoresSignalNode) TW_NONE(cuGraphAddExternalSemaphoresWaitNode)
TW_NONE(cuGraphAddMemAllocNode) TW_NONE(cuGraphAddMemFreeNode) TW_NONE(cuGraphAddMemcpyNode) TW_NONE(cuGraphAddNode)
TW_NONE(cuGraphBatchMemOpNodeGetParams) TW_NONE(cuGraphBatchMemOpNodeSetParams) TW_NONE(cuGraphChildGraphNodeGetGraph)
TW_NONE(cuGraphConditionalHandleCreate) TW_NONE(cuGraphEventRecordNodeGetEvent)
TW_NONE(cuGraphEventRecordNodeSetEvent) TW_NONE(cuGraphEventWaitNodeGetEvent) TW_NONE(cuGraphEventWaitNodeSetEvent)
TW_NONE(cuGraphExecBatchMemOpNodeSetParams) TW_NONE(cuGraphExecChildGraphNodeSetParams)
TW_NONE(cuGraphExecEventRecordNodeSetEvent) TW_NONE(cuGraphExecEventWaitNodeSetEvent)
TW_NONE(cuGraphExecExternalSemaphoresSignalNodeSetParams) TW_NONE(cuGraphExecExternalSemaphoresWaitNodeSetParams)
TW_NONE(cuGraphExecGetFlags) TW_NONE(cuGraphExecHostNodeSetParams) TW_NONE(cuGraphExecMemcpyNodeSetParams)
TW_NONE(cuGraphExecMemsetNodeSetParams) TW_NONE(cuGraphExecNodeSetParams) TW_NONE(cuGraphExecUpdate)
TW_NONE(cuGraphExternalSemaphoresSignalNodeGetParams) TW_NONE(cuGraphExternalSemaphoresSignalNodeSetParams)
TW_NONE(cuGraphExternalSemaphoresWaitNodeGetParams) TW_NONE(cuGraphExternalSemaphoresWaitNodeSetParams)
TW_NONE(cuGraphGetEdges) TW_NONE(cuGraphHostNodeGetParams) TW_NONE(cuGraphHostNodeSetParams)
TW_NONE(cuGraphInstantiateWithParams) TW_NONE(cuGraphKernelNodeCopyAttributes) TW_NONE(cuGraphKernelNodeGetAttribute)
TW_NONE(cuGraphKernelNodeGetParams) TW_NONE(cuGraphKernelNodeSetAttribute) TW_NONE(cuGraphKernelNodeSetParams)
TW_NONE(cuGraphMemAllocNodeGetParams) TW_NONE(cuGraphMemFreeNodeGetParams) TW_NONE(cuGraphMemcpyNodeGetParams)
TW_NONE(cuGraphMemcpyNodeSetParams) TW_NONE(cuGraphMemsetNodeGetParams) TW_NONE(cuGraphMemsetNodeSetParams)
TW_NONE(cuGraphNodeFindInClone) TW_NONE(cuGraphNodeGetDependencies) TW_NONE(cuGraphNodeGetDependentNodes)
TW_NONE(cuGraphNodeGetEnabled) TW_NONE(cuGraphNodeSetEnabled) TW_NONE(cuGraphNodeSetParams)
TW_NONE(cuGraphReleaseUserObject) TW_NONE(cuGraphRemoveDependencies) TW_NONE(cuGraphRetainUserObject)
TW_NONE(cuGraphicsMapResources) TW_NONE(cuGraphicsResourceGetMappedMipmappedArray)
TW_NONE(cuGraphicsResourceGetMappedPointer) TW_NONE(cuGraphicsResourceSetMapFlags)
TW_NONE(cuGraphicsSubResourceGetMappedArray) TW_NONE(cuGraphicsUnmapResources) TW_NONE(cuGraphicsUnregisterResource)
TW_NONE(cuGreenCtxCreate) TW_NONE(cuGreenCtxDestroy) TW_NONE(cuGreenCtxGetDevResource) TW_NONE(cuGreenCtxGetId)
TW_NONE(cuGreenCtxRecordEvent) TW_NONE(cuGreenCtxStreamCreate) TW_NONE(cuGreenCtxWaitEvent)
TW_NONE(cuImportExternalMemory) TW_NONE(cuImportExternalSemaphore) TW_NONE(cuIpcCloseMemHandle)
TW_NONE(cuIpcGetEventHandle) TW_NONE(cuIpcGetMemHandle) TW_NONE(cuIpcOpenEventHandle) TW_NONE(cuIpcOpenMemHandle)
TW_NONE(cuKernelGetAttribute) TW_NONE(cuKernelGetLibrary) TW_NONE(cuKernelGetParamInfo) TW_NONE(cuKernelSetAttribute)
TW_NONE(cuKernelSetCacheConfig) TW_NONE(cuLaunch) TW_NONE(cuLaunchCooperativeKernelMultiDevice) TW_NONE(cuLaunchGrid)
TW_NONE(cuLaunchGridAsync) TW_NONE(cuLibraryEnumerateKernels) TW_NONE(cuLibraryGetGlobal)
TW_NONE(cuLibraryGetKernelCount) TW_NONE(cuLibraryGetManaged) TW_NONE(cuLibraryGetUnifiedFunction)
TW_NONE(cuLinkAddData) TW_NONE(cuLinkAddFile) TW_NONE(cuLinkComplete) TW_NONE(cuLinkCreate) TW_NONE(cuLinkDestroy)
TW_NONE(cuMemAddressFree) TW_NONE(cuMemAddressReserve) TW_NONE(cuMemBatchDecompressAsync) TW_NONE(cuMemCreate)
TW_NONE(cuMemDiscardAndPrefetchBatchAsync) TW_NONE(cuMemDiscardBatchAsync) TW_NONE(cuMemExportToShareableHandle)
TW_NONE(cuMemGetAccess) TW_NONE(cuMemGetAllocationGranularity) TW_NONE(cuMemGetAllocationPropertiesFromHandle)
TW_NONE(cuMemGetDefaultMemPool) TW_NONE(cuMemGetHandleForAddressRange) TW_NONE(cuMemGetMemPool)
TW_NONE(cuMemImportFromShareableHandle) TW_NONE(cuMemMap) TW_NONE(cuMemMapArrayAsync) TW_NONE(cuMemPoolExportPointer)
TW_NONE(cuMemPoolExportToShareableHandle) TW_NONE(cuMemPoolGetAccess) TW_NONE(cuMemPoolImportFromShareableHandle)
TW_NONE(cuMemPoolImportPointer) TW_NONE(cuMemPrefetchBatchAsync) TW_NONE(cuMemRangeGetAttributes)
TW_NONE(cuMemRelease) TW_NONE(cuMemRetainAllocationHandle) TW_NONE(cuMemSetAccess) TW_NONE(cuMemSetMemPool)
TW_NONE(cuMemUnmap) TW_NONE(cuMemcpy3DBatchAsync) TW_NONE(cuMemcpy3DPeer) TW_NONE(cuMemcpy3DPeerAsync)
TW_NONE(cuMemcpyAtoA) TW_NONE(cuMemcpyAtoD) TW_NONE(cuMemcpyAtoH) TW_NONE(cuMemcpyAtoHAsync)
TW_NONE(cuMemcpyBatchAsync) TW_NONE(cuMemcpyDtoA) TW_NONE(cuMemcpyHtoA) TW_NONE(cuMemcpyHtoAAsync)
TW_NONE(cuMipmappedArrayCreate) TW_NONE(cuMipmappedArrayDestroy) TW_NONE(cuMipmappedArrayGetLevel)
TW_NONE(cuMipmappedArrayGetMemoryRequirements) TW_NONE(cuMipmappedArrayGetSparseProperties)
TW_NONE(cuModuleEnumerateFunctions) TW_NONE(cuModuleGetFunctionCount)
TW_NONE(cuModuleGetSurfRef) TW_NONE(cuModuleGetTexRef) TW_NONE(cuMulticastAddDevice) TW_NONE(cuMulticastBindAddr)
TW_NONE(cuMulticastBindMem) TW_NONE(cuMulticastCreate) TW_NONE(cuMulticastGetGranularity) TW_NONE(cuMulticastUnbind)
TW_NONE(cuOccupancyAvailableDynamicSMemPerBlock) TW_NONE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
TW_NONE(cuOccupancyMaxActiveClusters) TW_NONE(cuOccupancyMaxPotentialBlockSizeWithFlags)
TW_NONE(cuOccupancyMaxPotentialClusterSize) TW_NONE(cuParamSetSize) TW_NONE(cuParamSetTexRef) TW_NONE(cuParamSetf)
TW_NONE(cuParamSeti) TW_NONE(cuParamSetv) TW_NONE(cuPointerGetAttributes) TW_NONE(cuPointerSetAttribute)
TW_NONE(cuSignalExternalSemaphoresAsync) TW_NONE(cuStreamBatchMemOp) TW_NONE(cuStreamBeginCaptureToGraph)
TW_NONE(cuStreamGetGreenCtx) TW_NONE(cuStreamWaitValue32) TW_NONE(cuStreamWaitValue64) TW_NONE(cuStreamWriteValue32)
TW_NONE(cuStreamWriteValue64) TW_NONE(cuSurfObjectCreate) TW_NONE(cuSurfObjectDestroy)
TW_NONE(cuSurfObjectGetResourceDesc) TW_NONE(cuSurfRefGetArray) TW_NONE(cuSurfRefSetArray)
TW_NONE(cuTensorMapEncodeIm2col) TW_NONE(cuTensorMapEncodeIm2colWide) TW_NONE(cuTensorMapEncodeTiled)
TW_NONE(cuTensorMapReplaceAddress) TW_NONE(cuTexObjectCreate) TW_NONE(cuTexObjectDestroy)
TW_NONE(cuTexObjectGetResourceDesc) TW_NONE(cuTexObjectGetResourceViewDesc) TW_NONE(cuTexObjectGetTextureDesc)
TW_NONE(cuTexRefCreate) TW_NONE(cuTexRefDestroy) TW_NONE(cuTexRefGetAddress) TW_NONE(cuTexRefGetAddressMode)
TW_NONE(cuTexRefGetArray) TW_NONE(cuTexRefGetBorderColor) TW_NONE(cuTexRefGetFilterMode) TW_NONE(cuTexRefGetFlags)
TW_NONE(cuTexRefGetFormat) TW_NONE(cuTexRefGetMaxAnisotropy) TW_NONE(cuTexRefGetMipmapFilterMode)
TW_NONE(cuTexRefGetMipmapLevelBias) TW_NONE(cuTexRefGetMipmapLevelClamp) TW_NONE(cuTexRefGetMipmappedArray)
TW_NONE(cuTexRefSetAddress) TW_NONE(cuTexRefSetAddress2D) TW_NONE(cuTexRefSetAddressMode) TW_NONE(cuTexRefSetArray)
TW_NONE(cuTexRefSetBorderColor) TW_NONE(cuTexRefSetFilterMode) TW_NONE(cuTexRefSetFlags) TW_NONE(cuTexRefSetFormat)
TW_NONE(cuTexRefSetMaxAnisotropy) TW_NONE(cuTexRefSetMipmapFilterMode) TW_NONE(cuTexRefSetMipmapLevelBias)
TW_NONE(cuTexRefSetMipmapLevelClamp) TW_NONE(cuTexRefSetMipmappedArray) TW_NONE(cuUserObjectCreate)
TW_NONE(cuUserObjectRelease) TW_NONE(cuUserObjectRetain) TW_NONE(cuWaitExternalSemaphoresAsync)
#undef TW_NONE
#include "tilewright/driver_versions.h"
