// Functions of the CUDA runtime that are made of others: symbols, prefetching, peers.
#pragma once
#pragma clang system_header

template <typename T>
inline cudaError_t cudaMallocPitch(T** address, size_t* pitch, size_t width, size_t height) {
    return cudaMallocPitch((void**)address, pitch, width, height);
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
inline cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphNode_t const* after,
                                                  size_t number, T const& symbol, void const* source, size_t count,
                                                  size_t offset, cudaMemcpyKind) {
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    void* target = (char*)&symbol + offset;
    return cudaGraphAddMemcpyNode1D(node, graph, after, number, target, source, count, cudaMemcpyDefault);
}
template <typename T>
inline cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    cudaGraphNode_t const* after, size_t number, void* target,
                                                    T const& symbol, size_t count, size_t offset, cudaMemcpyKind) {
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    void const* source = (char const*)&symbol + offset;
    return cudaGraphAddMemcpyNode1D(node, graph, after, number, target, source, count, cudaMemcpyDefault);
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
    __tw_host_symbol(*address, sizeof(T));
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
inline cudaError_t cudaMemPrefetchAsync(void const*, size_t, int, cudaStream_t stream = nullptr) {
    return cudaStreamQuery(stream);
}
inline cudaError_t cudaMemPrefetchAsync(void const*, size_t, cudaMemLocation, unsigned int,
                                        cudaStream_t stream = nullptr) {
    return cudaStreamQuery(stream);
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
inline cudaError_t cudaDeviceGetByPCIBusId(int* device, char const* text) {
    if (!device || !text) return __tw_host_report(cudaErrorInvalidValue);
    char own[16];
    cudaDeviceGetPCIBusId(own, sizeof own, 0);
    if (__builtin_strcmp(own, text) != 0) return __tw_host_report(cudaErrorInvalidDevice);
    *device = 0;
    return cudaSuccess;
}
inline cudaError_t cudaChooseDevice(int* device, cudaDeviceProp const* wanted) {
    return device && wanted ? cudaGetDevice(device) : __tw_host_report(cudaErrorInvalidValue);
}
// There is one device, which is its only peer.
inline cudaError_t cudaMemcpyPeer(void* target, int device, void const* source, int peer, size_t size) {
    if (device || peer) return __tw_host_report(cudaErrorInvalidDevice);
    return cudaMemcpy(target, source, size, cudaMemcpyDeviceToDevice);
}
inline cudaError_t cudaMemcpyPeerAsync(void* target, int device, void const* source, int peer, size_t size,
                                       cudaStream_t stream = nullptr) {
    if (device || peer) return __tw_host_report(cudaErrorInvalidDevice);
    return cudaMemcpyAsync(target, source, size, cudaMemcpyDeviceToDevice, stream);
}
// Wishes about caches and scheduling, which change nothing here.
inline cudaError_t cudaSetDeviceFlags(unsigned int) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
    if (!flags) return __tw_host_report(cudaErrorInvalidValue);
    *flags = cudaDeviceScheduleAuto | cudaDeviceMapHost;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* wish) {
    if (!wish) return __tw_host_report(cudaErrorInvalidValue);
    *wish = cudaFuncCachePreferNone;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* wish) {
    if (!wish) return __tw_host_report(cudaErrorInvalidValue);
    *wish = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}
template <typename T>
inline cudaError_t cudaFuncSetSharedMemConfig(T function, cudaSharedMemConfig) {
    return function ? cudaSuccess : __tw_host_report(cudaErrorInvalidValue);
}
inline cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
inline cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void const*, size_t = 0,
                                            unsigned int = cudaMemAttachSingle) {
    return cudaStreamQuery(stream);
}
inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
