// What programs hand to the entries for memory and semaphores of other interfaces and for graphics, which return
// cudaErrorNotSupported on a CPU.
#pragma once
#pragma clang system_header

#define cudaExternalMemoryDedicated 0x1
#define cudaExternalSemaphoreSignalSkipNvSciBufMemSync 0x01
#define cudaExternalSemaphoreWaitSkipNvSciBufMemSync 0x02
#define cudaNvSciSyncAttrSignal 0x1
#define cudaNvSciSyncAttrWait 0x2

typedef struct CUexternalMemory_st* cudaExternalMemory_t;
typedef struct CUexternalSemaphore_st* cudaExternalSemaphore_t;
enum cudaExternalMemoryHandleType {
    cudaExternalMemoryHandleTypeOpaqueFd = 1,
    cudaExternalMemoryHandleTypeOpaqueWin32 = 2,
    cudaExternalMemoryHandleTypeOpaqueWin32Kmt = 3,
    cudaExternalMemoryHandleTypeD3D12Heap = 4,
    cudaExternalMemoryHandleTypeD3D12Resource = 5,
    cudaExternalMemoryHandleTypeD3D11Resource = 6,
    cudaExternalMemoryHandleTypeD3D11ResourceKmt = 7,
    cudaExternalMemoryHandleTypeNvSciBuf = 8
};
enum cudaExternalSemaphoreHandleType {
    cudaExternalSemaphoreHandleTypeOpaqueFd = 1,
    cudaExternalSemaphoreHandleTypeOpaqueWin32 = 2,
    cudaExternalSemaphoreHandleTypeOpaqueWin32Kmt = 3,
    cudaExternalSemaphoreHandleTypeD3D12Fence = 4,
    cudaExternalSemaphoreHandleTypeD3D11Fence = 5,
    cudaExternalSemaphoreHandleTypeNvSciSync = 6,
    cudaExternalSemaphoreHandleTypeKeyedMutex = 7,
    cudaExternalSemaphoreHandleTypeKeyedMutexKmt = 8,
    cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd = 9,
    cudaExternalSemaphoreHandleTypeTimelineSemaphoreWin32 = 10
};
struct cudaExternalMemoryHandleDesc {
    cudaExternalMemoryHandleType type;
    union {
        int fd;
        struct {
            void* handle;
            void const* name;
        } win32;
        void const* nvSciBufObject;
    } handle;
    unsigned long long size;
    unsigned int flags, reserved[16];
};
struct cudaExternalMemoryBufferDesc {
    unsigned long long offset, size;
    unsigned int flags, reserved[16];
};
struct cudaExternalMemoryMipmappedArrayDesc {
    unsigned long long offset;
    cudaChannelFormatDesc formatDesc;
    cudaExtent extent;
    unsigned int flags, numLevels, reserved[16];
};
struct cudaExternalSemaphoreHandleDesc {
    cudaExternalSemaphoreHandleType type;
    union {
        int fd;
        struct {
            void* handle;
            void const* name;
        } win32;
        void const* nvSciSyncObj;
    } handle;
    unsigned int flags, reserved[16];
};
struct cudaExternalSemaphoreSignalParams {
    struct {
        struct {
            unsigned long long value;
        } fence;
        union {
            void* fence;
            unsigned long long reserved;
        } nvSciSync;
        struct {
            unsigned long long key;
        } keyedMutex;
        unsigned int reserved[12];
    } params;
    unsigned int flags, reserved[16];
};
struct cudaExternalSemaphoreWaitParams {
    struct {
        struct {
            unsigned long long value;
        } fence;
        union {
            void* fence;
            unsigned long long reserved;
        } nvSciSync;
        struct {
            unsigned long long key;
            unsigned int timeoutMs;
        } keyedMutex;
        unsigned int reserved[10];
    } params;
    unsigned int flags, reserved[16];
};

typedef struct cudaGraphicsResource* cudaGraphicsResource_t;
enum cudaGraphicsRegisterFlags {
    cudaGraphicsRegisterFlagsNone = 0,
    cudaGraphicsRegisterFlagsReadOnly = 1,
    cudaGraphicsRegisterFlagsWriteDiscard = 2,
    cudaGraphicsRegisterFlagsSurfaceLoadStore = 4,
    cudaGraphicsRegisterFlagsTextureGather = 8
};
enum cudaGraphicsMapFlags {
    cudaGraphicsMapFlagsNone = 0,
    cudaGraphicsMapFlagsReadOnly = 1,
    cudaGraphicsMapFlagsWriteDiscard = 2
};
enum cudaGraphicsCubeFace {
    cudaGraphicsCubeFacePositiveX = 0,
    cudaGraphicsCubeFaceNegativeX = 1,
    cudaGraphicsCubeFacePositiveY = 2,
    cudaGraphicsCubeFaceNegativeY = 3,
    cudaGraphicsCubeFacePositiveZ = 4,
    cudaGraphicsCubeFaceNegativeZ = 5
};

struct cudaExternalSemaphoreSignalNodeParams {
    cudaExternalSemaphore_t* extSemArray;
    cudaExternalSemaphoreSignalParams const* paramsArray;
    unsigned int numExtSems;
};
struct cudaExternalSemaphoreWaitNodeParams {
    cudaExternalSemaphore_t* extSemArray;
    cudaExternalSemaphoreWaitParams const* paramsArray;
    unsigned int numExtSems;
};
// Enumerations and types of entries that are not supported.
enum cudaFlushGPUDirectRDMAWritesOptions { cudaFlushGPUDirectRDMAWritesOptionHost = 1,
    cudaFlushGPUDirectRDMAWritesOptionMemOps };
enum cudaGPUDirectRDMAWritesOrdering { cudaGPUDirectRDMAWritesOrderingNone, cudaGPUDirectRDMAWritesOrderingOwner = 100,
    cudaGPUDirectRDMAWritesOrderingAllDevices = 200 };
enum cudaFlushGPUDirectRDMAWritesScope { cudaFlushGPUDirectRDMAWritesToOwner = 100,
    cudaFlushGPUDirectRDMAWritesToAllDevices = 200 };
enum cudaFlushGPUDirectRDMAWritesTarget { cudaFlushGPUDirectRDMAWritesTargetCurrentDevice };
enum cudaAtomicOperation { cudaAtomicOperationIntegerAdd, cudaAtomicOperationIntegerMin, cudaAtomicOperationIntegerMax,
    cudaAtomicOperationIntegerIncrement, cudaAtomicOperationIntegerDecrement, cudaAtomicOperationAnd,
    cudaAtomicOperationOr, cudaAtomicOperationXOR, cudaAtomicOperationExchange, cudaAtomicOperationCAS,
    cudaAtomicOperationFloatAdd, cudaAtomicOperationFloatMin, cudaAtomicOperationFloatMax };
enum cudaAtomicOperationCapability { cudaAtomicCapabilitySigned = 1, cudaAtomicCapabilityUnsigned,
    cudaAtomicCapabilityReduction = 4, cudaAtomicCapabilityScalar32 = 8, cudaAtomicCapabilityScalar64 = 16,
    cudaAtomicCapabilityScalar128 = 32, cudaAtomicCapabilityVector32x4 = 64 };
enum cudaJitOption { cudaJitMaxRegisters, cudaJitThreadsPerBlock, cudaJitWallTime, cudaJitInfoLogBuffer,
    cudaJitInfoLogBufferSizeBytes, cudaJitErrorLogBuffer, cudaJitErrorLogBufferSizeBytes, cudaJitOptimizationLevel,
    cudaJitFallbackStrategy = 10, cudaJitGenerateDebugInfo, cudaJitLogVerbose, cudaJitGenerateLineInfo,
    cudaJitCacheMode, cudaJitPositionIndependentCode = 30, cudaJitMinCtaPerSm, cudaJitMaxThreadsPerBlock,
    cudaJitOverrideDirectiveValues };
enum cudaLibraryOption { cudaLibraryHostUniversalFunctionAndDataTable, cudaLibraryBinaryIsPreserved };
enum cudaJit_CacheMode { cudaJitCacheOptionNone, cudaJitCacheOptionCG, cudaJitCacheOptionCA };
enum cudaJit_Fallback { cudaPreferPtx, cudaPreferBinary };
enum cudaCGScope { cudaCGScopeInvalid, cudaCGScopeGrid, cudaCGScopeReserved };
enum cudaGraphKernelNodeField { cudaGraphKernelNodeFieldInvalid, cudaGraphKernelNodeFieldGridDim,
    cudaGraphKernelNodeFieldParam, cudaGraphKernelNodeFieldEnabled };
enum cudaDeviceNumaConfig { cudaDeviceNumaConfigNone, cudaDeviceNumaConfigNumaNode };
enum cudaAsyncNotificationType { cudaAsyncNotificationTypeOverBudget = 1 };
enum cudaLogLevel { cudaLogLevelError, cudaLogLevelWarning };
struct cudaAsyncNotificationInfo; struct cudaGraphKernelNodeUpdate; struct cudaMemPoolPtrExportData;
struct cudalibraryHostUniversalFunctionAndDataTable;
typedef struct cudaAsyncCallbackEntry* cudaAsyncCallbackHandle_t;
typedef struct CUgraphDeviceUpdatableNode_st* cudaGraphDeviceNode_t;
