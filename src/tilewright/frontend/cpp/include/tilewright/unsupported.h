// Entries of the CUDA runtime that do nothing sensible on a CPU: they take what they are given, say so once, and
// return cudaErrorNotSupported. Code in templates and headers that names them compiles.
#pragma once
#pragma clang system_header

#define TW_ENTRY(name)                                                  \
    template <typename... A>                                            \
    inline cudaError_t name(A const&...) {                              \
        return __tw_host_unsupported(#name);                            \
    }
#define TW_UNSUPPORTED_ENTRIES \
    TW_ENTRY(cudaArrayGetInfo) TW_ENTRY(cudaArrayGetMemoryRequirements) TW_ENTRY(cudaArrayGetPlane) \
    TW_ENTRY(cudaArrayGetSparseProperties) TW_ENTRY(cudaCreateSurfaceObject) TW_ENTRY(cudaCreateTextureObject) \
    TW_ENTRY(cudaDestroyExternalMemory) TW_ENTRY(cudaDestroyExternalSemaphore) TW_ENTRY(cudaDestroySurfaceObject) \
    TW_ENTRY(cudaDestroyTextureObject) TW_ENTRY(cudaDevResourceGenerateDesc) TW_ENTRY(cudaDevSmResourceSplit) \
    TW_ENTRY(cudaDevSmResourceSplitByCount) TW_ENTRY(cudaDeviceFlushGPUDirectRDMAWrites) \
    TW_ENTRY(cudaDeviceGetDevResource) TW_ENTRY(cudaDeviceGetExecutionCtx) \
    TW_ENTRY(cudaDeviceGetHostAtomicCapabilities) TW_ENTRY(cudaDeviceGetNvSciSyncAttributes) \
    TW_ENTRY(cudaDeviceGetP2PAtomicCapabilities) TW_ENTRY(cudaDeviceGetTexture1DLinearMaxWidth) \
    TW_ENTRY(cudaDeviceRegisterAsyncNotification) TW_ENTRY(cudaDeviceUnregisterAsyncNotification) \
    TW_ENTRY(cudaExecutionCtxDestroy) TW_ENTRY(cudaExecutionCtxGetDevResource) TW_ENTRY(cudaExecutionCtxGetDevice) \
    TW_ENTRY(cudaExecutionCtxGetId) TW_ENTRY(cudaExecutionCtxRecordEvent) TW_ENTRY(cudaExecutionCtxStreamCreate) \
    TW_ENTRY(cudaExecutionCtxSynchronize) TW_ENTRY(cudaExecutionCtxWaitEvent) \
    TW_ENTRY(cudaExternalMemoryGetMappedBuffer) TW_ENTRY(cudaExternalMemoryGetMappedMipmappedArray) \
    TW_ENTRY(cudaFreeArray) TW_ENTRY(cudaFreeMipmappedArray) TW_ENTRY(cudaFuncGetParamCount) \
    TW_ENTRY(cudaFuncGetParamInfo) TW_ENTRY(cudaGetChannelDesc) TW_ENTRY(cudaGetExportTable) \
    TW_ENTRY(cudaGetMipmappedArrayLevel) TW_ENTRY(cudaGetSurfaceObjectResourceDesc) \
    TW_ENTRY(cudaGetTextureObjectResourceDesc) TW_ENTRY(cudaGetTextureObjectResourceViewDesc) \
    TW_ENTRY(cudaGetTextureObjectTextureDesc) TW_ENTRY(cudaGraphAddExternalSemaphoresSignalNode) \
    TW_ENTRY(cudaGraphAddExternalSemaphoresWaitNode) TW_ENTRY(cudaGraphExecExternalSemaphoresSignalNodeSetParams) \
    TW_ENTRY(cudaGraphExecExternalSemaphoresWaitNodeSetParams) TW_ENTRY(cudaGraphExecGetId) \
    TW_ENTRY(cudaGraphExternalSemaphoresSignalNodeGetParams) TW_ENTRY(cudaGraphExternalSemaphoresSignalNodeSetParams) \
    TW_ENTRY(cudaGraphExternalSemaphoresWaitNodeGetParams) TW_ENTRY(cudaGraphExternalSemaphoresWaitNodeSetParams) \
    TW_ENTRY(cudaGraphGetId) TW_ENTRY(cudaGraphNodeGetContainingGraph) TW_ENTRY(cudaGraphNodeGetLocalId) \
    TW_ENTRY(cudaGraphNodeGetToolsId) TW_ENTRY(cudaGraphicsMapResources) \
    TW_ENTRY(cudaGraphicsResourceGetMappedMipmappedArray) TW_ENTRY(cudaGraphicsResourceGetMappedPointer) \
    TW_ENTRY(cudaGraphicsResourceSetMapFlags) TW_ENTRY(cudaGraphicsSubResourceGetMappedArray) \
    TW_ENTRY(cudaGraphicsUnmapResources) TW_ENTRY(cudaGraphicsUnregisterResource) TW_ENTRY(cudaGreenCtxCreate) \
    TW_ENTRY(cudaImportExternalMemory) TW_ENTRY(cudaImportExternalSemaphore) TW_ENTRY(cudaIpcCloseMemHandle) \
    TW_ENTRY(cudaIpcGetEventHandle) TW_ENTRY(cudaIpcGetMemHandle) TW_ENTRY(cudaIpcOpenEventHandle) \
    TW_ENTRY(cudaIpcOpenMemHandle) TW_ENTRY(cudaLibraryEnumerateKernels) \
    TW_ENTRY(cudaLibraryGetKernelCount) TW_ENTRY(cudaLibraryGetManaged) \
    TW_ENTRY(cudaLibraryGetUnifiedFunction) TW_ENTRY(cudaLogsCurrent) TW_ENTRY(cudaLogsDumpToFile) \
    TW_ENTRY(cudaLogsDumpToMemory) TW_ENTRY(cudaLogsRegisterCallback) TW_ENTRY(cudaLogsUnregisterCallback) \
    TW_ENTRY(cudaMalloc3DArray) TW_ENTRY(cudaMallocArray) TW_ENTRY(cudaMallocMipmappedArray) \
    TW_ENTRY(cudaMemGetLocationInfo) TW_ENTRY(cudaMemPoolExportPointer) TW_ENTRY(cudaMemPoolExportToShareableHandle) \
    TW_ENTRY(cudaMemPoolImportFromShareableHandle) TW_ENTRY(cudaMemPoolImportPointer) \
    TW_ENTRY(cudaMemcpy2DArrayToArray) TW_ENTRY(cudaMemcpy2DFromArray) TW_ENTRY(cudaMemcpy2DFromArrayAsync) \
    TW_ENTRY(cudaMemcpy2DToArray) TW_ENTRY(cudaMemcpy2DToArrayAsync) TW_ENTRY(cudaMemcpy3DWithAttributesAsync) \
    TW_ENTRY(cudaMemcpyArrayToArray) TW_ENTRY(cudaMemcpyFromArray) TW_ENTRY(cudaMemcpyFromArrayAsync) \
    TW_ENTRY(cudaMemcpyToArray) TW_ENTRY(cudaMemcpyToArrayAsync) TW_ENTRY(cudaMemcpyWithAttributesAsync) \
    TW_ENTRY(cudaMipmappedArrayGetMemoryRequirements) TW_ENTRY(cudaMipmappedArrayGetSparseProperties) \
    TW_ENTRY(cudaOccupancyMaxActiveClusters) TW_ENTRY(cudaOccupancyMaxPotentialClusterSize) \
    TW_ENTRY(cudaSignalExternalSemaphoresAsync) TW_ENTRY(cudaStreamBeginRecaptureToGraph) \
    TW_ENTRY(cudaStreamGetDevResource) TW_ENTRY(cudaWaitExternalSemaphoresAsync)
TW_UNSUPPORTED_ENTRIES
#undef TW_ENTRY
