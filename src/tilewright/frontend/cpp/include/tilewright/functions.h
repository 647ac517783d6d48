// What programs ask of kernels: their attributes, and how many blocks fit a multiprocessor.
#pragma once
#pragma clang system_header

struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes;
    int preferredShmemCarveout;
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaFuncCache {
    cudaFuncCachePreferNone = 0,
    cudaFuncCachePreferShared = 1,
    cudaFuncCachePreferL1 = 2,
    cudaFuncCachePreferEqual = 3
};
enum cudaLimit { cudaLimitStackSize = 0, cudaLimitPrintfFifoSize = 1, cudaLimitMallocHeapSize = 2 };

extern "C" {
cudaError_t __tw_function_attributes(cudaFuncAttributes* attributes, void const* function);
cudaError_t __tw_set_function_attribute(void const* function, cudaFuncAttribute attribute, int value);
cudaError_t __tw_function_name(char const** name, void const* function);
cudaError_t __tw_occupancy(int* blocks, void const* function, int threads, size_t shared);
}

template <typename T>
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T function) {
    return __tw_function_attributes(attributes, (void const*)function);
}
template <typename T>
inline cudaError_t cudaFuncSetAttribute(T function, cudaFuncAttribute attribute, int value) {
    return __tw_set_function_attribute((void const*)function, attribute, value);
}
template <typename T>
inline cudaError_t cudaFuncGetName(char const** name, T function) {
    return __tw_function_name(name, (void const*)function);
}
template <typename T>
inline cudaError_t cudaFuncSetCacheConfig(T function, cudaFuncCache) {
    return function ? cudaSuccess : __tw_host_report(cudaErrorInvalidValue);
}
template <typename T>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, T function, int threads,
                                                                          size_t shared, unsigned int) {
    return __tw_occupancy(blocks, (void const*)function, threads, shared);
}
template <typename T>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T function, int threads, size_t shared) {
    return __tw_occupancy(blocks, (void const*)function, threads, shared);
}
template <typename T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, T function, size_t shared = 0,
                                                      int limit = 0) {
    if (!grid || !block) return __tw_host_report(cudaErrorInvalidValue);
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    int each = 0, processors = 0;
    cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, function, *block, shared);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    *grid = each * processors;
    return error;
}
inline cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) { return cudaSetDevice(device); }
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    if (!value) return __tw_host_report(cudaErrorInvalidValue);
    *value = limit == cudaLimitStackSize ? 256 << 10 : 8 << 20;
    return cudaSuccess;
}
template <typename... A>
inline cudaError_t cudaMemAdvise(void const*, size_t, A const&...) {
    return cudaSuccess;
}
