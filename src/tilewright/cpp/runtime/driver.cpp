// Functions of the driver's interface that are more than another name for one of the runtime: see cuda.h.
#include "runtime.h"

namespace tilewright {
// What programs find by name. Functions that are made of others are noted where cuda.h defines them.
struct entry_point {
    char const* name;
    void* function;
};
static list<entry_point> entry_points;
struct noted {
    noted(char const* name, void* function) { entry_points.add({name, function}); }
};
}  // namespace tilewright
#define TW_NOTED_AT(line, name, type) static tilewright::noted __tw_noted_##line(#name, (void*)(type)name);
#define TW_NOTED(line, name, type) TW_NOTED_AT(line, name, type)
#define TW_NOTE(name, parameters) TW_NOTED(__COUNTER__, name, CUresult (*) parameters)
#include "cuda.h"

TW_NOTE(cuModuleLoadData, (CUmodule*, void const*))
TW_NOTE(cuModuleLoad, (CUmodule*, char const*))
TW_NOTE(cuModuleUnload, (CUmodule))
TW_NOTE(cuModuleGetFunction, (CUfunction*, CUmodule, char const*))
TW_NOTE(cuFuncGetAttribute, (int*, CUfunction_attribute, CUfunction))
TW_NOTE(cuFuncGetName, (char const**, CUfunction))
TW_NOTE(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**))
TW_NOTE(cuGetErrorName, (CUresult, char const**))
TW_NOTE(cuGetErrorString, (CUresult, char const**))
TW_NOTE(cuDeviceGetName, (char*, int, CUdevice))
TW_NOTE(cuDeviceGetUuid, (CUuuid*, CUdevice))
TW_NOTE(cuMemGetAddressRange, (CUdeviceptr*, size_t*, CUdeviceptr))
TW_NOTE(cuPointerGetAttribute, (void*, CUpointer_attribute, CUdeviceptr))
TW_NOTE(cuGetProcAddress, (char const*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*))

using namespace tilewright;

static cudaError_t fill_on(cudaStream_t stream, cudaMemsetParams const& how);

extern "C" {
int __tw_memory_bounds(void const* address, size_t* bounds);

// The newest form of each function is there: a program that asks for one of an older version gets it, too.
CUresult cuGetProcAddress(char const* name, void** function, int, cuuint64_t, CUdriverProcAddressQueryResult* found) {
    if (!name || !function) return CUDA_ERROR_INVALID_VALUE;
    *function = nullptr;
    locked here;
    for (entry_point const& each : entry_points)
        if (!*function && strcmp(each.name, name) == 0) *function = each.function;
    if (found) *found = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function || found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** function, unsigned int, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
    CUdriverProcAddressQueryResult how{};
    cudaError_t error = cudaError_t(cuGetProcAddress(name, function, 0, 0, &how));
    if (found) *found = cudaDriverEntryPointQueryResult(how);
    return report(error == cudaSuccess && !found && !*function ? cudaErrorSymbolNotFound : error);
}
CUresult cuGetErrorName(CUresult error, char const** name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    switch (error) {
#define TW_NAMED(result, code) \
    case result: *name = #result; return CUDA_SUCCESS;
        TW_RESULTS(TW_NAMED)
#undef TW_NAMED
    }
    *name = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult error, char const** text) {
    CUresult known = cuGetErrorName(error, text);
    if (known == CUDA_SUCCESS) *text = cudaGetErrorString(cudaError_t(error));
    return known;
}
CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    cudaDeviceProp about;
    cudaError_t error = cudaGetDeviceProperties(&about, device);
    if (error != cudaSuccess || !name || length < 1) return error ? CUresult(error) : CUDA_ERROR_INVALID_VALUE;
    strncpy(name, about.name, size_t(length));
    name[length - 1] = 0;
    return CUDA_SUCCESS;
}
CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
    size_t bounds[2];
    if (!__tw_memory_bounds((void const*)address, bounds)) return CUDA_ERROR_INVALID_VALUE;
    if (base) *base = bounds[0];
    if (size) *size = bounds[1] - bounds[0];
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
    size_t bounds[2];
    if (!value || !__tw_memory_bounds((void const*)address, bounds)) return CUDA_ERROR_INVALID_VALUE;
    cudaPointerAttributes found;
    cudaError_t error = cudaPointerGetAttributes(&found, (void const*)address);
    if (error != cudaSuccess) return CUresult(error);
    auto set = [&](auto known) {
        memcpy(value, &known, sizeof known);
        return CUDA_SUCCESS;
    };
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: return set(TW_CONTEXT);
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return set(found.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: return set(address);
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: return set(unsigned(found.type == cudaMemoryTypeManaged));
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return set(0);
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return set(bounds[0]);
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return set(bounds[1] - bounds[0]);
        case CU_POINTER_ATTRIBUTE_MAPPED: return set(1u);
        default: return CUresult(__tw_host_unsupported("cuPointerGetAttribute"));
    }
}
CUresult __tw_copy_3d(CUDA_MEMCPY3D const* w, CUstream stream) {
    if (!w) return CUDA_ERROR_INVALID_VALUE;
    if (w->srcMemoryType == CU_MEMORYTYPE_ARRAY || w->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return CUresult(__tw_host_unsupported("a copy of a CUarray"));
    // A pitch of 0 says that rows follow each other.
    auto place = [&](CUmemorytype kind, void const* host, CUdeviceptr device, size_t pitch, size_t height) {
        void* start = kind == CU_MEMORYTYPE_HOST ? (void*)host : (void*)device;
        return make_cudaPitchedPtr(start, pitch ? pitch : w->WidthInBytes, pitch ? pitch : w->WidthInBytes, height ? height : w->Height);
    };
    cudaMemcpy3DParms what{};
    what.srcPtr = place(w->srcMemoryType, w->srcHost, w->srcDevice, w->srcPitch, w->srcHeight);
    what.dstPtr = place(w->dstMemoryType, w->dstHost, w->dstDevice, w->dstPitch, w->dstHeight);
    what.srcPos = make_cudaPos(w->srcXInBytes, w->srcY, w->srcZ);
    what.dstPos = make_cudaPos(w->dstXInBytes, w->dstY, w->dstZ);
    what.extent = make_cudaExtent(w->WidthInBytes, w->Height, w->Depth);
    what.kind = cudaMemcpyDefault;
    return __tw_result(cudaMemcpy3DAsync(&what, stream));
}
CUresult __tw_fill(CUdeviceptr address, size_t pitch, unsigned value, int bytes, size_t width, size_t height,
                   CUstream stream) {
    if (address % unsigned(bytes) || (height > 1 && pitch < width * unsigned(bytes))) return CUDA_ERROR_INVALID_VALUE;
    return __tw_result(fill_on(stream, {(void*)address, pitch ? pitch : width * unsigned(bytes), value, unsigned(bytes), width, height}));
}
}
