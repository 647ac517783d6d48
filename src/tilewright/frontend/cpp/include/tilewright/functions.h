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

template <typename T>
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T function) {
    if (!attributes || !function) return __tw_host_report(cudaErrorInvalidValue);
    *attributes = {0, 0, 0, 1024, 32, 90, 90, 0, 48 << 10, -1};
    return cudaSuccess;
}
template <typename T>
inline cudaError_t cudaFuncSetAttribute(T function, cudaFuncAttribute attribute, int value) {
    bool fits = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize ? value >= 0 && value <= 227 << 10
                                                                         : value >= -1 && value <= 100;
    return function && fits ? cudaSuccess : __tw_host_report(cudaErrorInvalidValue);
}
template <typename T>
inline cudaError_t cudaFuncSetCacheConfig(T function, cudaFuncCache) {
    return function ? cudaSuccess : __tw_host_report(cudaErrorInvalidValue);
}
// As on a multiprocessor of 2048 threads, 32 blocks and 227 KiB.
template <typename T>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, T function, int threads,
                                                                          size_t shared, unsigned int) {
    if (!blocks || !function || threads < 1) return __tw_host_report(cudaErrorInvalidValue);
    int by_threads = threads > 1024 ? 0 : 2048 / threads, by_memory = shared ? int((227 << 10) / shared) : 32;
    int least = by_threads < by_memory ? by_threads : by_memory;
    *blocks = least < 32 ? least : 32;
    return cudaSuccess;
}
template <typename T>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T function, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
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
