// Functions of the driver's interface that are more than another name for one of the runtime: see cuda.h.
#include "runtime.h"
#include "cuda.h"

using namespace tilewright;

static cudaError_t fill_on(cudaStream_t stream, cudaMemsetParams const& how);

extern "C" {
int __tw_memory_bounds(void const* address, size_t* bounds);

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
