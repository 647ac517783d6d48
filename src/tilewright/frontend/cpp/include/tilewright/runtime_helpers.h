// Functions of the CUDA runtime that are made of others: pitched memory, symbols, host callbacks.
#pragma once
#pragma clang system_header

// Rows of `width` bytes, each `pitch` bytes after the one before.
inline cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
    if (!pitch) return __tw_host_report(cudaErrorInvalidValue);
    *pitch = (width + 511) / 512 * 512;
    return cudaMalloc(address, *pitch * height);
}
template <typename T>
inline cudaError_t cudaMallocPitch(T** address, size_t* pitch, size_t width, size_t height) {
    return cudaMallocPitch((void**)address, pitch, width, height);
}
inline cudaError_t cudaMemcpy2D(void* target, size_t target_pitch, void const* source, size_t source_pitch,
                                size_t width, size_t height, cudaMemcpyKind kind) {
    if (width > target_pitch || width > source_pitch) return __tw_host_report(cudaErrorInvalidPitchValue);
    for (size_t row = 0; row < height; ++row) {
        cudaError_t error = cudaMemcpy((char*)target + row * target_pitch, (char const*)source + row * source_pitch,
                                       width, kind);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, void const* source, size_t source_pitch,
                                     size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    if (error != cudaSuccess) return error;
    return cudaMemcpy2D(target, target_pitch, source, source_pitch, width, height, kind);
}
inline cudaError_t cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height) {
    if (width > pitch) return __tw_host_report(cudaErrorInvalidPitchValue);
    for (size_t row = 0; row < height; ++row) {
        cudaError_t error = cudaMemset((char*)address + row * pitch, value, width);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
inline cudaError_t cudaMemset2DAsync(void* address, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error != cudaSuccess ? error : cudaMemset2D(address, pitch, value, width, height);
}

// Symbols are variables of SIMT code, which lie in the memory of this process; tile code cannot name them.
template <typename T>
inline cudaError_t cudaMemcpyToSymbol(T const& symbol, void const* source, size_t count, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    if (kind == cudaMemcpyDeviceToHost) return __tw_host_report(cudaErrorInvalidMemcpyDirection);
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    return cudaMemcpy((char*)&symbol + offset, source, count, cudaMemcpyDefault);
}
template <typename T>
inline cudaError_t cudaMemcpyToSymbolAsync(T const& symbol, void const* source, size_t count, size_t offset,
                                           cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error != cudaSuccess ? error : cudaMemcpyToSymbol(symbol, source, count, offset, kind);
}
template <typename T>
inline cudaError_t cudaMemcpyFromSymbol(void* target, T const& symbol, size_t count, size_t offset = 0,
                                        cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    if (kind == cudaMemcpyHostToDevice) return __tw_host_report(cudaErrorInvalidMemcpyDirection);
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    return cudaMemcpy(target, (char const*)&symbol + offset, count, cudaMemcpyDefault);
}
template <typename T>
inline cudaError_t cudaMemcpyFromSymbolAsync(void* target, T const& symbol, size_t count, size_t offset,
                                             cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error != cudaSuccess ? error : cudaMemcpyFromSymbol(target, symbol, count, offset, kind);
}
template <typename T>
inline cudaError_t cudaGetSymbolAddress(void** address, T const& symbol) {
    if (!address) return __tw_host_report(cudaErrorInvalidValue);
    *address = (void*)&symbol;
    return cudaSuccess;
}
template <typename T>
inline cudaError_t cudaGetSymbolSize(size_t* size, T const&) {
    if (!size) return __tw_host_report(cudaErrorInvalidValue);
    *size = sizeof(T);
    return cudaSuccess;
}

// Memory of the host serves as memory of the device where the runtime gave it out.
inline cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
    cudaPointerAttributes found;
    cudaError_t error = cudaPointerGetAttributes(&found, host);
    if (error != cudaSuccess) return error;
    if (!device || flags || found.type == cudaMemoryTypeUnregistered) return __tw_host_report(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}
template <typename T>
inline cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned int flags) {
    return cudaHostGetDevicePointer((void**)device, host, flags);
}
struct cudaMemLocation {
    int type, id;
};
inline cudaError_t cudaMemPrefetchAsync(void const*, size_t, int, cudaStream_t stream = nullptr) {
    return cudaStreamQuery(stream);
}
inline cudaError_t cudaMemPrefetchAsync(void const*, size_t, cudaMemLocation, unsigned int,
                                        cudaStream_t stream = nullptr) {
    return cudaStreamQuery(stream);
}

// What was asked for before a host function has ended already.
typedef void (*cudaHostFn_t)(void*);
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void*);
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    cudaError_t error = function ? cudaStreamQuery(stream) : __tw_host_report(cudaErrorInvalidValue);
    if (error == cudaSuccess) function(data);
    return error;
}
inline cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                         unsigned int flags) {
    if (!function || flags) return __tw_host_report(cudaErrorInvalidValue);
    cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaSuccess) function(stream, error, data);
    return error;
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}
inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = nullptr, unsigned int = 0) {
    return cudaEventRecord(event, stream);
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = 0;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int* possible, int device, int peer) {
    if (!possible || device || peer) return __tw_host_report(possible ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    *possible = 0;
    return cudaSuccess;
}
inline cudaError_t cudaSetDeviceFlags(unsigned int) { return cudaSuccess; }
inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
