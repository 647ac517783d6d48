// The error codes of the CUDA runtime: name, number, what cudaGetErrorString says.
#pragma once
#pragma clang system_header

#define TW_ERRORS(X) \
    X(Success, 0, "no error") \
    X(ErrorInvalidValue, 1, "invalid argument") \
    X(ErrorMemoryAllocation, 2, "out of memory") \
    X(ErrorInitializationError, 3, "initialization error") \
    X(ErrorCudartUnloading, 4, "driver shutting down") \
    X(ErrorProfilerDisabled, 5, "profiler disabled while using external profiling tool") \
    X(ErrorProfilerNotInitialized, 6, "profiler not initialized: call cudaProfilerInitialize()") \
    X(ErrorProfilerAlreadyStarted, 7, "profiler already started") \
    X(ErrorProfilerAlreadyStopped, 8, "profiler already stopped") \
    X(ErrorInvalidConfiguration, 9, "invalid configuration argument") \
    X(ErrorInvalidPitchValue, 12, "invalid pitch argument") \
    X(ErrorInvalidSymbol, 13, "invalid device symbol") \
    X(ErrorInvalidHostPointer, 16, "invalid host pointer") \
    X(ErrorInvalidDevicePointer, 17, "invalid device pointer") \
    X(ErrorInvalidTexture, 18, "invalid texture reference") \
    X(ErrorInvalidTextureBinding, 19, "texture is not bound to a pointer") \
    X(ErrorInvalidChannelDescriptor, 20, "invalid channel descriptor") \
    X(ErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
    X(ErrorAddressOfConstant, 22, "invalid address of constant") \
    X(ErrorTextureFetchFailed, 23, "fetch from texture failed") \
    X(ErrorTextureNotBound, 24, "cannot fetch from a texture that is not bound") \
    X(ErrorSynchronizationError, 25, "incorrect use of __syncthreads()") \
    X(ErrorInvalidFilterSetting, 26, "linear filtering not supported for non-float type") \
    X(ErrorInvalidNormSetting, 27, "read as normalized float not supported for data type") \
    X(ErrorMixedDeviceExecution, 28, "device emulation mode and device execution mode cannot be mixed") \
    X(ErrorNotYetImplemented, 31, "feature not yet implemented") \
    X(ErrorMemoryValueTooLarge, 32, "memory size or pointer value too large to fit in 32 bit") \
    X(ErrorStubLibrary, 34, "CUDA driver is a stub library") \
    X(ErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version") \
    X(ErrorCallRequiresNewerDriver, 36, "API call is not supported in the installed CUDA driver") \
    X(ErrorInvalidSurface, 37, "invalid surface reference") \
    X(ErrorDuplicateVariableName, 43, "duplicate global variable looked up by string name") \
    X(ErrorDuplicateTextureName, 44, "duplicate texture looked up by string name") \
    X(ErrorDuplicateSurfaceName, 45, "duplicate surface looked up by string name") \
    X(ErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable") \
    X(ErrorIncompatibleDriverContext, 49, "incompatible driver context") \
    X(ErrorMissingConfiguration, 52, "__global__ function call is not configured") \
    X(ErrorPriorLaunchFailure, 53, "unspecified launch failure in prior launch") \
    X(ErrorLaunchMaxDepthExceeded, 65, "launch would exceed maximum depth of nested launches") \
    X(ErrorLaunchFileScopedTex, 66, "launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)") \
    X(ErrorLaunchFileScopedSurf, 67, "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)") \
    X(ErrorSyncDepthExceeded, 68, "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth") \
    X(ErrorLaunchPendingCountExceeded, 69, "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount") \
    X(ErrorInvalidDeviceFunction, 98, "invalid device function") \
    X(ErrorNoDevice, 100, "no CUDA-capable device is detected") \
    X(ErrorInvalidDevice, 101, "invalid device ordinal") \
    X(ErrorDeviceNotLicensed, 102, "device doesn't have valid Grid license") \
    X(ErrorSoftwareValidityNotEstablished, 103, "integrity checks failed") \
    X(ErrorStartupFailure, 127, "startup failure in cuda runtime") \
    X(ErrorInvalidKernelImage, 200, "device kernel image is invalid") \
    X(ErrorDeviceUninitialized, 201, "invalid device context") \
    X(ErrorMapBufferObjectFailed, 205, "mapping of buffer object failed") \
    X(ErrorUnmapBufferObjectFailed, 206, "unmapping of buffer object failed") \
    X(ErrorArrayIsMapped, 207, "array is mapped") \
    X(ErrorAlreadyMapped, 208, "resource already mapped") \
    X(ErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device") \
    X(ErrorAlreadyAcquired, 210, "resource already acquired") \
    X(ErrorNotMapped, 211, "resource not mapped") \
    X(ErrorNotMappedAsArray, 212, "resource not mapped as array") \
    X(ErrorNotMappedAsPointer, 213, "resource not mapped as pointer") \
    X(ErrorECCUncorrectable, 214, "uncorrectable ECC error encountered") \
    X(ErrorUnsupportedLimit, 215, "limit is not supported on this architecture") \
    X(ErrorDeviceAlreadyInUse, 216, "exclusive-thread device already in use by a different thread") \
    X(ErrorPeerAccessUnsupported, 217, "peer access is not supported between these two devices") \
    X(ErrorInvalidPtx, 218, "a PTX JIT compilation failed") \
    X(ErrorInvalidGraphicsContext, 219, "invalid OpenGL or DirectX context") \
    X(ErrorNvlinkUncorrectable, 220, "uncorrectable NVLink error detected during the execution") \
    X(ErrorJitCompilerNotFound, 221, "PTX JIT compiler library not found") \
    X(ErrorUnsupportedPtxVersion, 222, "the provided PTX was compiled with an unsupported toolchain.") \
    X(ErrorJitCompilationDisabled, 223, "PTX JIT compilation was disabled") \
    X(ErrorUnsupportedExecAffinity, 224, "the provided execution affinity is not supported") \
    X(ErrorUnsupportedDevSideSync, 225, "the provided PTX contains unsupported call to cudaDeviceSynchronize") \
    X(ErrorContained, 226, "Invalid access of peer GPU memory over nvlink or a hardware error") \
    X(ErrorInvalidSource, 300, "device kernel image is invalid") \
    X(ErrorFileNotFound, 301, "file not found") \
    X(ErrorSharedObjectSymbolNotFound, 302, "shared object symbol not found") \
    X(ErrorSharedObjectInitFailed, 303, "shared object initialization failed") \
    X(ErrorOperatingSystem, 304, "OS call failed or operation not supported on this OS") \
    X(ErrorInvalidResourceHandle, 400, "invalid resource handle") \
    X(ErrorIllegalState, 401, "the operation cannot be performed in the present state") \
    X(ErrorLossyQuery, 402, "attempted introspection would be semantically lossy") \
    X(ErrorSymbolNotFound, 500, "named symbol not found") \
    X(ErrorNotReady, 600, "device not ready") \
    X(ErrorIllegalAddress, 700, "an illegal memory access was encountered") \
    X(ErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
    X(ErrorLaunchTimeout, 702, "the launch timed out and was terminated") \
    X(ErrorLaunchIncompatibleTexturing, 703, "launch uses incompatible texturing mode") \
    X(ErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled") \
    X(ErrorPeerAccessNotEnabled, 705, "peer access has not been enabled") \
    X(ErrorSetOnActiveProcess, 708, "cannot set while device is active in this process") \
    X(ErrorContextIsDestroyed, 709, "context is destroyed") \
    X(ErrorAssert, 710, "device-side assert triggered") \
    X(ErrorTooManyPeers, 711, "peer mapping resources exhausted") \
    X(ErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
    X(ErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
    X(ErrorHardwareStackError, 714, "hardware stack error") \
    X(ErrorIllegalInstruction, 715, "an illegal instruction was encountered") \
    X(ErrorMisalignedAddress, 716, "misaligned address") \
    X(ErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space") \
    X(ErrorInvalidPc, 718, "invalid program counter") \
    X(ErrorLaunchFailure, 719, "unspecified launch failure") \
    X(ErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch") \
    X(ErrorTensorMemoryLeak, 721, "tensor memory not completely freed") \
    X(ErrorNotPermitted, 800, "operation not permitted") \
    X(ErrorNotSupported, 801, "operation not supported") \
    X(ErrorSystemNotReady, 802, "system not yet initialized") \
    X(ErrorSystemDriverMismatch, 803, "system has unsupported display driver / cuda driver combination") \
    X(ErrorCompatNotSupportedOnDevice, 804, "forward compatibility was attempted on non supported HW") \
    X(ErrorMpsConnectionFailed, 805, "MPS client failed to connect to the MPS control daemon or the MPS server") \
    X(ErrorMpsRpcFailure, 806, "the remote procedural call between the MPS server and the MPS client failed") \
    X(ErrorMpsServerNotReady, 807, "MPS server is not ready to accept new MPS client requests") \
    X(ErrorMpsMaxClientsReached, 808, "the hardware resources required to create MPS client have been exhausted") \
    X(ErrorMpsMaxConnectionsReached, 809, "the hardware resources required to support device connections have been exhausted") \
    X(ErrorMpsClientTerminated, 810, "the MPS client has been terminated by the server") \
    X(ErrorCdpNotSupported, 811, "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it") \
    X(ErrorCdpVersionMismatch, 812, "unsupported interaction between different versions of CUDA Dynamic Parallelism") \
    X(ErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing") \
    X(ErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture") \
    X(ErrorStreamCaptureMerge, 902, "operation would result in a merge of separate capture sequences") \
    X(ErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began") \
    X(ErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work") \
    X(ErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream") \
    X(ErrorStreamCaptureImplicit, 906, "operation would make the legacy stream depend on a capturing blocking stream") \
    X(ErrorCapturedEvent, 907, "operation not permitted on an event last recorded in a capturing stream") \
    X(ErrorStreamCaptureWrongThread, 908, "attempt to terminate a thread-local capture sequence from another thread") \
    X(ErrorTimeout, 909, "wait operation timed out") \
    X(ErrorGraphExecUpdateFailure, 910, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update") \
    X(ErrorExternalDevice, 911, "an async error has occured in external entity outside of CUDA") \
    X(ErrorInvalidClusterSize, 912, "a kernel launch error has occurred due to cluster misconfiguration") \
    X(ErrorFunctionNotLoaded, 913, "the function handle is not loaded when calling an API that requires a loaded function") \
    X(ErrorInvalidResourceType, 914, "one or more resources passed in are not valid resource types for the operation") \
    X(ErrorInvalidResourceConfiguration, 915, "one or more resources are insufficient or non-applicable for the operation") \
    X(ErrorUnknown, 999, "unknown error") \
    X(ErrorApiFailureBase, 10000, "api failure base")

typedef enum cudaError {
#define TW_CODE(name, code, text) cuda##name = code,
    TW_ERRORS(TW_CODE)
#undef TW_CODE
} cudaError_t;
