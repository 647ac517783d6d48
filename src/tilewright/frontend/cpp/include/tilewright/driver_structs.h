// Structures of the driver that only functions take which are not supported.
#pragma once
#pragma clang system_header

struct CUDA_ARRAY_MEMORY_REQUIREMENTS { size_t size, alignment; unsigned int reserved[4]; };
struct CUDA_ARRAY_SPARSE_PROPERTIES { struct { unsigned int width, height, depth; } tileExtent; unsigned int
    miptailFirstLevel; unsigned long long miptailSize; unsigned int flags, reserved[4]; };
union CUstreamBatchMemOpParams { CUstreamBatchMemOpType operation; struct { CUstreamBatchMemOpType operation;
    CUdeviceptr address; union { cuuint32_t value; cuuint64_t value64; }; unsigned int flags; CUdeviceptr alias; }
    waitValue; struct { CUstreamBatchMemOpType operation; CUdeviceptr address; union { cuuint32_t value; cuuint64_t
    value64; }; unsigned int flags; CUdeviceptr alias; } writeValue; struct { CUstreamBatchMemOpType operation;
    unsigned int flags; } flushRemoteWrites; struct { CUstreamBatchMemOpType operation; unsigned int flags; }
    memoryBarrier; cuuint64_t pad[6]; };
struct CUDA_BATCH_MEM_OP_NODE_PARAMS { CUcontext ctx; unsigned int count; CUstreamBatchMemOpParams* paramArray;
    unsigned int flags; };
struct CUDA_CHILD_GRAPH_NODE_PARAMS { CUgraph graph; CUgraphChildGraphNodeOwnership ownership; };
struct CUDA_CONDITIONAL_NODE_PARAMS { CUgraphConditionalHandle handle; CUgraphConditionalNodeType type; unsigned int
    size; CUgraph* phGraph_out; CUcontext ctx; };
struct CUDA_EVENT_RECORD_NODE_PARAMS { CUevent event; };
struct CUDA_EVENT_WAIT_NODE_PARAMS { CUevent event; };
struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC { unsigned long long offset, size; unsigned int flags, reserved[16]; };
struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC { CUexternalMemoryHandleType type; union { int fd; struct { void* handle;
    const void* name; } win32; const void* nvSciBufObject; } handle; unsigned long long size; unsigned int flags,
    reserved[16]; };
struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC { unsigned long long offset; CUDA_ARRAY3D_DESCRIPTOR arrayDesc;
    unsigned int numLevels, reserved[16]; };
struct CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC { CUexternalSemaphoreHandleType type; union { int fd; struct { void*
    handle; const void* name; } win32; const void* nvSciSyncObj; } handle; unsigned int flags, reserved[16]; };
struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS { struct { struct { unsigned long long value; } fence; union { void*
    fence; unsigned long long reserved; } nvSciSync; struct { unsigned long long key; } keyedMutex; unsigned int
    reserved[12]; } params; unsigned int flags, reserved[16]; };
struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS { struct { struct { unsigned long long value; } fence; union { void* fence;
    unsigned long long reserved; } nvSciSync; struct { unsigned long long key; unsigned int timeoutMs; } keyedMutex;
    unsigned int reserved[10]; } params; unsigned int flags, reserved[16]; };
struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS { CUexternalSemaphore* extSemArray; const
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS* paramsArray; unsigned int numExtSems; };
struct CUDA_EXT_SEM_WAIT_NODE_PARAMS { CUexternalSemaphore* extSemArray; const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS*
    paramsArray; unsigned int numExtSems; };
struct CUDA_GRAPH_INSTANTIATE_PARAMS { cuuint64_t flags; CUstream hUploadStream; CUgraphNode hErrNode_out;
    CUgraphInstantiateResult result_out; };
struct CUDA_LAUNCH_PARAMS { CUfunction function; unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
    blockDimZ, sharedMemBytes; CUstream hStream; void** kernelParams; };
struct CUextent3D { size_t width, height, depth; };
struct CUoffset3D { size_t x, y, z; };
struct CUmemcpy3DOperand { CUmemcpy3DOperandType type; union { struct { CUdeviceptr ptr; size_t rowLength,
    layerHeight; CUmemLocation locHint; } ptr; struct { CUarray array; CUoffset3D offset; } array; } op; };
struct CUDA_MEMCPY3D_BATCH_OP { CUmemcpy3DOperand src, dst; CUextent3D extent; CUmemcpySrcAccessOrder srcAccessOrder;
    unsigned int flags; };
struct CUDA_MEMCPY3D_PEER { size_t srcXInBytes, srcY, srcZ, srcLOD; CUmemorytype srcMemoryType; const void* srcHost;
    CUdeviceptr srcDevice; CUarray srcArray; CUcontext srcContext; size_t srcPitch, srcHeight, dstXInBytes, dstY,
    dstZ, dstLOD; CUmemorytype dstMemoryType; void* dstHost; CUdeviceptr dstDevice; CUarray dstArray; CUcontext
    dstContext; size_t dstPitch, dstHeight, WidthInBytes, Height, Depth; };
struct CUDA_MEMCPY_NODE_PARAMS { int flags, reserved; CUcontext copyCtx; CUDA_MEMCPY3D copyParams; };
struct CUDA_MEM_ALLOC_NODE_PARAMS { CUmemPoolProps poolProps; const CUmemAccessDesc* accessDescs; size_t
    accessDescCount, bytesize; CUdeviceptr dptr; };
struct CUDA_MEM_FREE_NODE_PARAMS { CUdeviceptr dptr; };
struct CUDA_POINTER_ATTRIBUTE_P2P_TOKENS { unsigned long long p2pToken; unsigned int vaSpaceToken; };
struct CUDA_RESOURCE_DESC { CUresourcetype resType; union { struct { CUarray hArray; } array; struct {
    CUmipmappedArray hMipmappedArray; } mipmap; struct { CUdeviceptr devPtr; CUarray_format format; unsigned int
    numChannels; size_t sizeInBytes; } linear; struct { CUdeviceptr devPtr; CUarray_format format; unsigned int
    numChannels; size_t width, height, pitchInBytes; } pitch2D; struct { int reserved[32]; } reserved; } res; unsigned
    int flags; };
struct CUDA_RESOURCE_VIEW_DESC { CUresourceViewFormat format; size_t width, height, depth; unsigned int
    firstMipmapLevel, lastMipmapLevel, firstLayer, lastLayer, reserved[16]; };
struct CUDA_TEXTURE_DESC { CUaddress_mode addressMode[3]; CUfilter_mode filterMode; unsigned int flags, maxAnisotropy;
    CUfilter_mode mipmapFilterMode; float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp, borderColor[4];
    int reserved[12]; };
struct CUarrayMapInfo { CUresourcetype resourceType; union { CUmipmappedArray mipmap; CUarray array; } resource;
    CUarraySparseSubresourceType subresourceType; union { struct { unsigned int level, layer, offsetX, offsetY,
    offsetZ, extentWidth, extentHeight, extentDepth; } sparseLevel; struct { unsigned int layer; unsigned long long
    offset, size; } miptail; } subresource; CUmemOperationType memOperationType; CUmemHandleType memHandleType; union
    { CUmemGenericAllocationHandle memHandle; } memHandle; unsigned long long offset; unsigned int deviceBitMask,
    flags, reserved[2]; };
struct CUasyncNotificationInfo { CUasyncNotificationType type; union { struct { unsigned long long bytesOverBudget; }
    overBudget; } info; };
struct CUcheckpointCheckpointArgs { cuuint64_t reserved[8]; };
struct CUcheckpointGpuPair { CUuuid oldUuid, newUuid; };
struct CUcheckpointLockArgs { unsigned int timeoutMs, reserved0; cuuint64_t reserved1[7]; };
struct CUcheckpointRestoreArgs { CUcheckpointGpuPair* gpuPairs; unsigned int gpuPairsCount; char reserved[52 -
    sizeof(CUcheckpointGpuPair *)]; cuuint64_t reserved1; };
struct CUcheckpointUnlockArgs { cuuint64_t reserved[8]; };
struct CUctxCigParam { CUcigDataType sharedDataType; void* sharedData; };
struct CUexecAffinitySmCount { unsigned int val; };
struct CUexecAffinityParam { CUexecAffinityType type; union { CUexecAffinitySmCount smCount; } param; };
struct CUctxCreateParams { CUexecAffinityParam* execAffinityParams; int numExecAffinityParams; CUctxCigParam*
    cigParams; };
struct CUdevSmResource { unsigned int smCount, minSmPartitionSize, smCoscheduledAlignment; };
struct CUgraphExecUpdateResultInfo { CUgraphExecUpdateResult result; CUgraphNode errorNode, errorFromNode; };
struct CUgraphNodeParams { CUgraphNodeType type; int reserved0[3]; union { long long reserved1[29];
    CUDA_KERNEL_NODE_PARAMS kernel; CUDA_MEMCPY_NODE_PARAMS memcpy; CUDA_MEMSET_NODE_PARAMS memset;
    CUDA_HOST_NODE_PARAMS host; CUDA_CHILD_GRAPH_NODE_PARAMS graph; CUDA_EVENT_WAIT_NODE_PARAMS eventWait;
    CUDA_EVENT_RECORD_NODE_PARAMS eventRecord; CUDA_EXT_SEM_SIGNAL_NODE_PARAMS extSemSignal;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS extSemWait; CUDA_MEM_ALLOC_NODE_PARAMS alloc; CUDA_MEM_FREE_NODE_PARAMS free;
    CUDA_BATCH_MEM_OP_NODE_PARAMS memOp; CUDA_CONDITIONAL_NODE_PARAMS conditional; }; long long reserved2; };
struct CUmemDecompressParams { size_t srcNumBytes, dstNumBytes; cuuint32_t* dstActBytes; const void* src; void* dst;
    CUmemDecompressAlgorithm algo; unsigned char padding[20]; };
struct CUmemFabricHandle { unsigned char data[64]; };
struct CUmemPoolPtrExportData { unsigned char reserved[64]; };
struct CUmemcpyAttributes { CUmemcpySrcAccessOrder srcAccessOrder; CUmemLocation srcLocHint, dstLocHint; unsigned int
    flags; };
struct CUmulticastObjectProp { unsigned int numDevices; size_t size; unsigned long long handleTypes, flags; };
struct CUlibraryHostUniversalFunctionAndDataTable { void *functionTable; size_t functionWindowSize; void *dataTable;
    size_t dataWindowSize; };
