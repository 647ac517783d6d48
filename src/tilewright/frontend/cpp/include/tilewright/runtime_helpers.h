// Functions of the CUDA runtime that are made of others: symbols, prefetching, peers.
#pragma once
#pragma clang system_header

template <typename T>
inline cudaError_t cudaMallocPitch(T** address, size_t* pitch, size_t width, size_t height) {
    return cudaMallocPitch((void**)address, pitch, width, height);
}
// Symbols are variables of SIMT code, which lie in the memory of this process; tile code cannot name them.
template <typename T>
inline cudaError_t cudaMemcpyToSymbolAsync(T const& symbol, void const* source, size_t count, size_t offset = 0,
                                           cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = nullptr) {
    if (kind == cudaMemcpyDeviceToHost) return __tw_host_report(cudaErrorInvalidMemcpyDirection);
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    return cudaMemcpyAsync(__tw_symbol(&symbol) + offset, source, count, cudaMemcpyDefault, stream);
}
template <typename T>
inline cudaError_t cudaMemcpyToSymbol(T const& symbol, void const* source, size_t count, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    return cudaMemcpyToSymbolAsync(symbol, source, count, offset, kind);
}
template <typename T>
inline cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphNode_t const* after,
                                                  size_t number, T const& symbol, void const* source, size_t count,
                                                  size_t offset, cudaMemcpyKind) {
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    void* target = __tw_symbol(&symbol) + offset;
    return cudaGraphAddMemcpyNode1D(node, graph, after, number, target, source, count, cudaMemcpyDefault);
}
template <typename T>
inline cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    cudaGraphNode_t const* after, size_t number, void* target,
                                                    T const& symbol, size_t count, size_t offset, cudaMemcpyKind) {
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    void const* source = __tw_symbol(&symbol) + offset;
    return cudaGraphAddMemcpyNode1D(node, graph, after, number, target, source, count, cudaMemcpyDefault);
}
template <typename T>
inline cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, T const& symbol, void const* source,
                                                        size_t count, size_t offset, cudaMemcpyKind) {
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    return cudaGraphMemcpyNodeSetParams1D(node, __tw_symbol(&symbol) + offset, source, count, cudaMemcpyDefault);
}
template <typename T>
inline cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* target, T const& symbol,
                                                          size_t count, size_t offset, cudaMemcpyKind) {
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    return cudaGraphMemcpyNodeSetParams1D(node, target, __tw_symbol(&symbol) + offset, count, cudaMemcpyDefault);
}
template <typename T>
inline cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, T const& symbol,
                                                            void const* source, size_t count, size_t offset,
                                                            cudaMemcpyKind) {
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    return cudaGraphExecMemcpyNodeSetParams1D(exec, node, __tw_symbol(&symbol) + offset, source, count, cudaMemcpyDefault);
}
template <typename T>
inline cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, void* target,
                                                              T const& symbol, size_t count, size_t offset,
                                                              cudaMemcpyKind) {
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    return cudaGraphExecMemcpyNodeSetParams1D(exec, node, target, __tw_symbol(&symbol) + offset, count, cudaMemcpyDefault);
}
template <typename T>
inline cudaError_t cudaMemcpyFromSymbolAsync(void* target, T const& symbol, size_t count, size_t offset = 0,
                                             cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = nullptr) {
    if (kind == cudaMemcpyHostToDevice) return __tw_host_report(cudaErrorInvalidMemcpyDirection);
    if (offset + count > sizeof(T)) return __tw_host_report(cudaErrorInvalidValue);
    return cudaMemcpyAsync(target, __tw_symbol(&symbol) + offset, count, cudaMemcpyDefault, stream);
}
template <typename T>
inline cudaError_t cudaMemcpyFromSymbol(void* target, T const& symbol, size_t count, size_t offset = 0,
                                        cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    return cudaMemcpyFromSymbolAsync(target, symbol, count, offset, kind);
}
template <typename T>
inline cudaError_t cudaGetSymbolAddress(void** address, T const& symbol) {
    if (!address) return __tw_host_report(cudaErrorInvalidValue);
    *address = __tw_symbol(&symbol, sizeof(T));
    return *address ? cudaSuccess : __tw_host_report(cudaErrorMemoryAllocation);
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
// Before CUDA 13 a number was the location.
constexpr cudaMemLocation __tw_location(int device) {
    return {device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, device < 0 ? 0 : device};
}
inline cudaError_t cudaMemPrefetchAsync(void const* address, size_t size, int device, cudaStream_t stream = nullptr) {
    return cudaMemPrefetchAsync(address, size, __tw_location(device), 0, stream);
}
inline cudaError_t cudaMemAdvise(void const* address, size_t size, cudaMemoryAdvise advice, int device) {
    return cudaMemAdvise(address, size, advice, __tw_location(device));
}
inline cudaError_t cudaMemRangeGetAttributes(void** values, size_t* bytes, cudaMemRangeAttribute* attributes,
                                             size_t count, void const* address, size_t size) {
    if (!values || !bytes || !attributes || !count) return __tw_host_report(cudaErrorInvalidValue);
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < count && error == cudaSuccess; ++i)
        error = cudaMemRangeGetAttribute(values[i], bytes[i], attributes[i], address, size);
    return error;
}
inline cudaError_t cudaMemPrefetchBatchAsync(void** addresses, size_t* sizes, size_t count, cudaMemLocation* locations,
                                             size_t* firsts, size_t number, unsigned long long, cudaStream_t stream) {
    if (!addresses || !sizes || !locations || !firsts || !number || firsts[0]) return __tw_host_report(cudaErrorInvalidValue);
    cudaError_t error = cudaSuccess;
    for (size_t i = 0, at = 0; i < count && error == cudaSuccess; ++i) {
        while (at + 1 < number && firsts[at + 1] <= i) ++at;
        error = cudaMemPrefetchAsync(addresses[i], sizes[i], locations[at], 0, stream);
    }
    return error;
}
// What is discarded may still be there.
inline cudaError_t cudaMemDiscardBatchAsync(void** addresses, size_t* sizes, size_t, unsigned long long,
                                            cudaStream_t stream) {
    return addresses && sizes ? cudaStreamQuery(stream) : __tw_host_report(cudaErrorInvalidValue);
}
inline cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void** addresses, size_t* sizes, size_t count,
                                                       cudaMemLocation* locations, size_t* firsts, size_t number,
                                                       unsigned long long flags, cudaStream_t stream) {
    return cudaMemPrefetchBatchAsync(addresses, sizes, count, locations, firsts, number, flags, stream);
}
template <typename T, typename S>
inline cudaError_t cudaMemcpyBatchAsync(T* const* targets, S* const* sources, size_t const* sizes, size_t count,
                                        cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t stream) {
    if (!targets || !sources || !sizes) return __tw_host_report(cudaErrorInvalidValue);
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < count && error == cudaSuccess; ++i)
        error = cudaMemcpyAsync((void*)targets[i], (void const*)sources[i], sizes[i], cudaMemcpyDefault, stream);
    return error;
}
inline cudaError_t cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp* list, unsigned long long,
                                          cudaStream_t stream) {
    if (!list) return __tw_host_report(cudaErrorInvalidValue);
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < count && error == cudaSuccess; ++i) {
        cudaMemcpy3DParms how{};
        cudaExtent const& extent = how.extent = list[i].extent;
        auto place = [&](cudaMemcpy3DOperand const& what, cudaPitchedPtr& at) {
            auto const& p = what.op.ptr;
            size_t row = p.rowLength ? p.rowLength : extent.width, rows = p.layerHeight ? p.layerHeight : extent.height;
            at = make_cudaPitchedPtr(p.ptr, row, row, rows);
            return what.type == cudaMemcpyOperandTypePointer;
        };
        if (!place(list[i].src, how.srcPtr) || !place(list[i].dst, how.dstPtr))
            return __tw_host_unsupported("a copy of a cudaArray_t");
        how.kind = cudaMemcpyDefault;
        error = cudaMemcpy3DAsync(&how, stream);
    }
    return error;
}
inline cudaError_t cudaGetDriverEntryPoint(char const* name, void** function, unsigned long long flags,
                                           cudaDriverEntryPointQueryResult* found = nullptr) {
    return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, found);
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
inline cudaError_t cudaMemcpy3DPeerAsync(cudaMemcpy3DPeerParms const* what, cudaStream_t stream = nullptr) {
    if (!what) return __tw_host_report(cudaErrorInvalidValue);
    if (what->srcDevice || what->dstDevice) return __tw_host_report(cudaErrorInvalidDevice);
    cudaMemcpy3DParms how{what->srcArray, what->srcPos, what->srcPtr, what->dstArray, what->dstPos, what->dstPtr,
                          what->extent, cudaMemcpyDefault};
    return cudaMemcpy3DAsync(&how, stream);
}
inline cudaError_t cudaMemcpy3DPeer(cudaMemcpy3DPeerParms const* what) { return cudaMemcpy3DPeerAsync(what, nullptr); }
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int) { return __tw_host_report(cudaErrorInvalidDevice); }
inline cudaError_t cudaDeviceDisablePeerAccess(int) { return __tw_host_report(cudaErrorInvalidDevice); }
inline cudaError_t cudaDeviceGetP2PAttribute(int*, cudaDeviceP2PAttr, int, int) {
    return __tw_host_report(cudaErrorInvalidDevice);
}
inline cudaError_t cudaSetValidDevices(int* devices, int count) {
    if (count < 0 || (count && !devices)) return __tw_host_report(cudaErrorInvalidValue);
    for (int i = 0; i < count; ++i)
        if (devices[i]) return __tw_host_report(cudaErrorInvalidDevice);
    return cudaSuccess;
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
