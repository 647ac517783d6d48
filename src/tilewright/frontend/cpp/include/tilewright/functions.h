// What programs ask of kernels: their attributes, and how many blocks fit an SM.
#pragma once
#pragma clang system_header

struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes;
    int preferredShmemCarveout;
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
    cudaFuncAttributeClusterDimMustBeSet = 10,
    cudaFuncAttributeRequiredClusterWidth = 11,
    cudaFuncAttributeRequiredClusterHeight = 12,
    cudaFuncAttributeRequiredClusterDepth = 13,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
    cudaFuncAttributeClusterSchedulingPolicyPreference = 15
};
enum cudaFuncCache {
    cudaFuncCachePreferNone = 0,
    cudaFuncCachePreferShared = 1,
    cudaFuncCachePreferL1 = 2,
    cudaFuncCachePreferEqual = 3
};
enum cudaLimit {
    cudaLimitStackSize = 0,
    cudaLimitPrintfFifoSize = 1,
    cudaLimitMallocHeapSize = 2,
    cudaLimitDevRuntimeSyncDepth = 3,
    cudaLimitDevRuntimePendingLaunchCount = 4,
    cudaLimitMaxL2FetchGranularity = 5,
    cudaLimitPersistingL2CacheSize = 6
};

extern "C" {
cudaError_t __tw_function_attributes(cudaFuncAttributes* attributes, void const* function);
cudaError_t __tw_set_function_attribute(void const* function, cudaFuncAttribute attribute, int value);
cudaError_t __tw_function_name(char const** name, void const* function);
cudaError_t __tw_occupancy(int* blocks, void const* function, int threads, size_t shared);
cudaError_t cudaGetKernel(cudaKernel_t* kernel, void const* function);
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, void const* image, cudaJitOption*, void**, unsigned int,
                                cudaLibraryOption*, void**, unsigned int);
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, char const* path, cudaJitOption*, void**, unsigned int,
                                    cudaLibraryOption*, void**, unsigned int);
cudaError_t cudaLibraryUnload(cudaLibrary_t library);
cudaError_t cudaLibraryGetGlobal(void** address, size_t* bytes, cudaLibrary_t library, char const* name);
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, char const* name);
}
// Functions and kernels are handles of the same thing, which launches take as they take the address of a kernel.
template <typename T>
inline cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, T* kernel) {
    return cudaGetKernel((cudaKernel_t*)function, (void const*)kernel);
}
template <typename T>
inline cudaError_t cudaGetKernel(cudaKernel_t* kernel, T* function) {
    return cudaGetKernel(kernel, (void const*)function);
}
inline cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value,
                                                   int device) {
    if (device) return __tw_host_report(cudaErrorInvalidDevice);
    return __tw_set_function_attribute((void const*)kernel, attribute, value);
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
// `shared_of` gives the shared memory of a block of so many threads.
template <typename T, typename F>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid, int* block, T function, F shared_of,
                                                                  int limit = 0) {
    if (!grid || !block) return __tw_host_report(cudaErrorInvalidValue);
    int processors = 0, most = 0;
    cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    *block = 0;
    *grid = 0;
    for (int threads = limit > 0 && limit < 1024 ? limit : 1024; threads > 0; threads = (threads - 1) / 32 * 32) {
        int each = 0;
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, function, threads, shared_of(threads));
        if (error != cudaSuccess) return error;
        if (each * threads <= most) continue;
        most = each * threads;
        *block = threads;
        *grid = each * processors;
    }
    return error;
}
template <typename T, typename F>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int* grid, int* block, T function, F shared_of,
                                                                           int limit = 0, unsigned int = 0) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, function, shared_of, limit);
}
template <typename T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, T function, size_t shared = 0,
                                                      int limit = 0) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, function, [=](int) { return shared; }, limit);
}
template <typename T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, T function, size_t shared = 0,
                                                               int limit = 0, unsigned int = cudaOccupancyDefault) {
    return cudaOccupancyMaxPotentialBlockSize(grid, block, function, shared, limit);
}
// What a block can have so that `blocks` of them fit an SM.
template <typename T>
inline cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared, T function, int blocks, int threads) {
    int most = 0, room = 0;
    if (!shared || blocks < 1) return __tw_host_report(cudaErrorInvalidValue);
    cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&most, function, threads, 0);
    if (error == cudaSuccess && most < blocks) error = __tw_host_report(cudaErrorInvalidValue);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0);
    *shared = error == cudaSuccess ? size_t(room / blocks) : 0;
    return error;
}
inline cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) { return cudaSetDevice(device); }
// Limits bound nothing here; a program gets what it has set.
inline size_t __tw_limits[] = {256 << 10, 8 << 20, 8 << 20, 8 << 20, 8 << 20, 8 << 20, 8 << 20};
inline cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    if (unsigned(limit) >= sizeof __tw_limits / sizeof(size_t)) return __tw_host_report(cudaErrorUnsupportedLimit);
    __tw_limits[limit] = value;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    if (!value) return __tw_host_report(cudaErrorInvalidValue);
    if (unsigned(limit) >= sizeof __tw_limits / sizeof(size_t)) return __tw_host_report(cudaErrorUnsupportedLimit);
    *value = __tw_limits[limit];
    return cudaSuccess;
}
