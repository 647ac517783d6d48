// What the device says of itself, and functions about kernels. The device is this machine: a processor is a
// multiprocessor. What CPUs have no notion of is as on GPUs of compute capability 9.0, so that programs choose the sizes
// that they choose there.
#include "runtime.h"
#include <sys/utsname.h>
#include <unistd.h>

namespace tilewright {

constexpr int max_grid[] = {0x7fffffff, 65535, 65535}, max_block[] = {max_threads, max_threads, 64};
constexpr int version = CUDART_VERSION;
constexpr size_t max_shared = 227 << 10;

// Programs divide the number of multiprocessors among clusters of two, so there are two at least.
static int multiprocessors() {
    int const count = worker_count();
    return count < 2 ? 2 : count;
}

static cudaDeviceProp properties() {
    cudaDeviceProp p{};
    utsname machine{};
    uname(&machine);
    snprintf(p.name, sizeof p.name, "tilewright on %s", machine.machine);
    p.totalGlobalMem = size_t(sysconf(_SC_PAGESIZE)) * size_t(sysconf(_SC_PHYS_PAGES));
    p.sharedMemPerBlock = shared_memory;
    p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor = max_shared;
    p.memPitch = (size_t(1) << 31) - 1;
    p.totalConstMem = 64 << 10;
    p.textureAlignment = 512;
    p.major = 9;
    p.multiProcessorCount = multiprocessors();
    p.warpSize = 32;
    p.maxThreadsPerBlock = max_threads;
    p.maxThreadsPerMultiProcessor = 2 * max_threads;
    p.maxBlocksPerMultiProcessor = 32;
    p.regsPerBlock = p.regsPerMultiprocessor = 1 << 16;
    p.memoryBusWidth = 128;
    p.l2CacheSize = 32 << 20;
    for (int axis = 0; axis < 3; ++axis) {
        p.maxThreadsDim[axis] = max_block[axis];
        p.maxGridSize[axis] = max_grid[axis];
    }
    p.unifiedAddressing = p.managedMemory = p.integrated = p.canMapHostMemory = p.pageableMemoryAccess = 1;
    p.concurrentManagedAccess = p.asyncEngineCount = p.hostRegisterSupported = p.memoryPoolsSupported = 1;
    p.hostNativeAtomicSupported = p.canUseHostPointerForRegisteredMem = p.globalL1CacheSupported = 1;
    p.cooperativeLaunch = p.localL1CacheSupported = p.pageableMemoryAccessUsesHostPageTables = p.directManagedMemAccessFromHost = 1;
    p.texturePitchAlignment = 32;
    p.surfaceAlignment = 512;
    memcpy(p.uuid.bytes, "tilewright", 10);
    return p;
}

cudaError_t check(configuration const& c) {
    bool fits = double(c.block[0]) * c.block[1] * c.block[2] <= max_threads;
    for (int axis = 0; axis < 3; ++axis)
        fits &= c.grid[axis] - 1 < unsigned(max_grid[axis]) && c.block[axis] - 1 < unsigned(max_block[axis]);
    return fits ? cudaSuccess : cudaErrorInvalidConfiguration;
}

// Kernels of which a launch may ask for more than 48 KiB, as CUDA has programs say it before.
struct allowance {
    kernel const* what;
    size_t shared;
};
static list<allowance> allowances;
size_t shared_room(kernel const& what) {
    locked here;
    for (allowance const& each : allowances)
        if (each.what == &what) return each.shared;
    return what.shared < shared_memory ? shared_memory - what.shared : 0;
}

static cudaError_t answer(int* out, int value) {
    if (!out) return report(cudaErrorInvalidValue);
    *out = value;
    return report(cudaSuccess);
}

}  // namespace tilewright

using namespace tilewright;

extern "C" {
unsigned __tw_simt_sm_count() noexcept { return unsigned(multiprocessors()); }
cudaError_t cudaGetDevice(int* device) { return answer(device, 0); }
cudaError_t cudaSetDevice(int device) { return report(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDeviceCount(int* count) { return answer(count, 1); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
    if (device != 0 || !out) return report(device == 0 ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
    *out = properties();
    return report(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* out) { return answer(out, version); }
cudaError_t cudaRuntimeGetVersion(int* out) { return answer(out, version); }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (device != 0) return report(cudaErrorInvalidDevice);
    cudaDeviceProp p = properties();
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: return answer(value, p.maxThreadsPerBlock);
        case cudaDevAttrMaxBlockDimX:
        case cudaDevAttrMaxBlockDimY:
        case cudaDevAttrMaxBlockDimZ: return answer(value, p.maxThreadsDim[attribute - cudaDevAttrMaxBlockDimX]);
        case cudaDevAttrMaxGridDimX:
        case cudaDevAttrMaxGridDimY:
        case cudaDevAttrMaxGridDimZ: return answer(value, p.maxGridSize[attribute - cudaDevAttrMaxGridDimX]);
        case cudaDevAttrMaxSharedMemoryPerBlock: return answer(value, int(p.sharedMemPerBlock));
        case cudaDevAttrTotalConstantMemory: return answer(value, int(p.totalConstMem));
        case cudaDevAttrWarpSize: return answer(value, p.warpSize);
        case cudaDevAttrMaxPitch: return answer(value, int(p.memPitch));
        case cudaDevAttrMaxRegistersPerBlock: return answer(value, p.regsPerBlock);
        case cudaDevAttrClockRate: return answer(value, 1000000);  // kHz
        case cudaDevAttrTextureAlignment: return answer(value, int(p.textureAlignment));
        case cudaDevAttrGpuOverlap: return answer(value, p.asyncEngineCount);
        case cudaDevAttrMultiProcessorCount: return answer(value, p.multiProcessorCount);
        case cudaDevAttrKernelExecTimeout: return answer(value, 0);
        case cudaDevAttrIntegrated: return answer(value, p.integrated);
        case cudaDevAttrCanMapHostMemory: return answer(value, p.canMapHostMemory);
        case cudaDevAttrComputeMode: return answer(value, cudaComputeModeDefault);
        case cudaDevAttrConcurrentKernels: return answer(value, p.concurrentKernels);
        case cudaDevAttrEccEnabled: return answer(value, p.ECCEnabled);
        case cudaDevAttrPciBusId: return answer(value, p.pciBusID);
        case cudaDevAttrPciDeviceId: return answer(value, p.pciDeviceID);
        case cudaDevAttrPciDomainId: return answer(value, p.pciDomainID);
        case cudaDevAttrTccDriver: return answer(value, p.tccDriver);
        case cudaDevAttrMemoryClockRate: return answer(value, 1600000);  // kHz
        case cudaDevAttrGlobalMemoryBusWidth: return answer(value, p.memoryBusWidth);
        case cudaDevAttrL2CacheSize: return answer(value, p.l2CacheSize);
        case cudaDevAttrMaxThreadsPerMultiProcessor: return answer(value, p.maxThreadsPerMultiProcessor);
        case cudaDevAttrAsyncEngineCount: return answer(value, p.asyncEngineCount);
        case cudaDevAttrUnifiedAddressing: return answer(value, p.unifiedAddressing);
        case cudaDevAttrComputeCapabilityMajor: return answer(value, p.major);
        case cudaDevAttrComputeCapabilityMinor: return answer(value, p.minor);
        case cudaDevAttrStreamPrioritiesSupported: return answer(value, p.streamPrioritiesSupported);
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return answer(value, int(p.sharedMemPerMultiprocessor));
        case cudaDevAttrMaxRegistersPerMultiprocessor: return answer(value, p.regsPerMultiprocessor);
        case cudaDevAttrManagedMemory: return answer(value, p.managedMemory);
        case cudaDevAttrIsMultiGpuBoard: return answer(value, p.isMultiGpuBoard);
        case cudaDevAttrPageableMemoryAccess:
        case cudaDevAttrPageableMemoryAccessUsesHostPageTables: return answer(value, p.pageableMemoryAccess);
        case cudaDevAttrConcurrentManagedAccess:
        case cudaDevAttrDirectManagedMemAccessFromHost: return answer(value, p.concurrentManagedAccess);
        case cudaDevAttrCooperativeLaunch: return answer(value, p.cooperativeLaunch);
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: return answer(value, int(p.sharedMemPerBlockOptin));
        case cudaDevAttrHostRegisterSupported: return answer(value, p.hostRegisterSupported);
        case cudaDevAttrMaxBlocksPerMultiprocessor: return answer(value, p.maxBlocksPerMultiProcessor);
        case cudaDevAttrMemoryPoolsSupported: return answer(value, p.memoryPoolsSupported);
        case cudaDevAttrClusterLaunch: return answer(value, p.clusterLaunch);
        case cudaDevAttrSurfaceAlignment: return answer(value, int(p.surfaceAlignment));
        case cudaDevAttrTexturePitchAlignment: return answer(value, int(p.texturePitchAlignment));
        case cudaDevAttrGlobalL1CacheSupported: return answer(value, p.globalL1CacheSupported);
        case cudaDevAttrLocalL1CacheSupported: return answer(value, p.localL1CacheSupported);
        case cudaDevAttrHostNativeAtomicSupported: return answer(value, p.hostNativeAtomicSupported);
        case cudaDevAttrSingleToDoublePrecisionPerfRatio: return answer(value, 2);
        case cudaDevAttrCanUseHostPointerForRegisteredMem: return answer(value, p.canUseHostPointerForRegisteredMem);
        case cudaDevAttrMultiGpuBoardGroupID:
        case cudaDevAttrComputePreemptionSupported:
        case cudaDevAttrMaxPersistingL2CacheSize:
        case cudaDevAttrMaxAccessPolicyWindowSize:
        case cudaDevAttrReservedSharedMemoryPerBlock:
        case cudaDevAttrSparseCudaArraySupported:
        case cudaDevAttrHostRegisterReadOnlySupported:
        case cudaDevAttrGPUDirectRDMASupported:
        case cudaDevAttrMemoryPoolSupportedHandleTypes:
        case cudaDevAttrIpcEventSupport: return answer(value, 0);
    }
    return report(cudaErrorInvalidValue);
}

// As on an SM of 2048 threads, 32 blocks and 227 KiB.
cudaError_t __tw_occupancy(int* blocks, void const* function, int threads, size_t shared) {
    if (!blocks || threads < 1) return report(cudaErrorInvalidValue);
    kernel const* found = find_kernel(function);
    if (!found) return report(cudaErrorInvalidDeviceFunction);
    shared += found->shared;
    int by_threads = threads > int(found->bound) ? 0 : 2 * max_threads / threads, by_memory = shared ? int(max_shared / shared) : 32;
    int least = by_threads < by_memory ? by_threads : by_memory;
    return answer(blocks, least < 32 ? least : 32);
}
cudaError_t __tw_function_attributes(cudaFuncAttributes* out, void const* function) {
    if (!out) return report(cudaErrorInvalidValue);
    kernel const* found = find_kernel(function);
    if (!found) return report(cudaErrorInvalidDeviceFunction);
    *out = {found->shared, 0, 0, int(found->bound), 32, 90, 90, 0, int(shared_room(*found)), -1};
    return report(cudaSuccess);
}
cudaError_t __tw_set_function_attribute(void const* function, cudaFuncAttribute attribute, int value) {
    kernel const* found = find_kernel(function);
    if (!found) return report(cudaErrorInvalidDeviceFunction);
    bool of_shared = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize;
    bool fits = of_shared ? value >= 0 && value + found->shared <= max_shared : value >= -1 && value <= 100;
    locked here;
    if (fits && of_shared) allowances.insert(0, {found, size_t(value)});
    return report(fits ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t __tw_function_name(char const** name, void const* function) {
    kernel const* found = find_kernel(function);
    if (!found || !name) return report(name ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
    *name = found->symbol;
    return report(cudaSuccess);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
    if (!text || length < 13 || device) return report(device ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    snprintf(text, size_t(length), "0000:00:00.0");
    return report(cudaSuccess);
}
}
