// Streams, events, host functions, and the capture of streams into graphs.
#include "runtime.h"
#include <time.h>

struct CUstream_st {
    unsigned flags;
    int priority;
    unsigned long long id;
    cudaGraph_t graph;  // into which it is captured
};
struct CUevent_st {
    bool recorded;
    unsigned flags;
    double seconds;
    cudaGraph_t graph;  // of the captured stream that recorded it
};

namespace tilewright {

static list<cudaStream_t> streams;
static list<cudaEvent_t> events;

static bool is_default(cudaStream_t stream) { return size_t(stream) <= 2; }
cudaError_t on(cudaStream_t stream) {
    locked here;
    return is_default(stream) || streams.holds(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
cudaGraph_t capturing(cudaStream_t stream) {
    locked here;
    return is_default(stream) || !streams.holds(stream) ? nullptr : stream->graph;
}
static cudaError_t known(cudaEvent_t event) {
    return events.holds(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
static cudaError_t call_on(cudaStream_t stream, cudaHostFn_t function, void* data) {
    cudaError_t error = on(stream);
    if (error != cudaSuccess) return error;
    if (!capturing(stream)) {
        function(data);
        return cudaSuccess;
    }
    node made{};
    made.type = cudaGraphNodeTypeHost;
    made.host = {function, data};
    return capture(stream, made);
}

}  // namespace tilewright

using namespace tilewright;

extern "C" {
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
    static unsigned long long next = 3;
    if (!stream || flags > cudaStreamNonBlocking) return report(cudaErrorInvalidValue);
    locked here;
    *stream = streams.add((cudaStream_t)malloc(sizeof(CUstream_st)));
    **stream = {flags, priority, next++, nullptr};
    return report(cudaSuccess);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    locked here;
    if (!streams.discard(stream)) return report(cudaErrorInvalidResourceHandle);
    free(stream);
    return report(cudaSuccess);
}
static cudaError_t end_of(cudaStream_t stream) {
    cudaError_t error = on(stream);
    return report(error == cudaSuccess && capturing(stream) ? cudaErrorStreamCaptureUnsupported : error);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return end_of(stream); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return end_of(stream); }
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
    locked here;
    if (on(stream) != cudaSuccess || !flags) return report(flags ? on(stream) : cudaErrorInvalidValue);
    *flags = is_default(stream) ? 0 : stream->flags;
    return report(cudaSuccess);
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    locked here;
    if (on(stream) != cudaSuccess || !priority) return report(priority ? on(stream) : cudaErrorInvalidValue);
    *priority = is_default(stream) ? 0 : stream->priority;
    return report(cudaSuccess);
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
    locked here;
    if (on(stream) != cudaSuccess || !id) return report(id ? on(stream) : cudaErrorInvalidValue);
    *id = is_default(stream) ? size_t(stream) : stream->id;
    return report(cudaSuccess);
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
    if (on(stream) != cudaSuccess || !device) return report(device ? on(stream) : cudaErrorInvalidValue);
    *device = 0;
    return report(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    locked here;
    if (flags > 1) return report(cudaErrorInvalidValue);
    cudaError_t error = on(stream) != cudaSuccess ? on(stream) : known(event);
    // A stream that waits for a captured one takes part in its capture.
    if (error == cudaSuccess && event->graph && !is_default(stream)) stream->graph = event->graph;
    return report(error);
}
cudaError_t cudaDeviceSynchronize() { return report(cudaSuccess); }

// Host functions. What was asked for before them has ended already.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    return report(function ? call_on(stream, function, data) : cudaErrorInvalidValue);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned int flags) {
    if (!function || flags) return report(cudaErrorInvalidValue);
    if (capturing(stream)) return report(cudaErrorStreamCaptureUnsupported);
    cudaError_t error = on(stream);
    if (error == cudaSuccess) function(stream, error, data);
    return report(error);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
    if (!event || flags > 7) return report(cudaErrorInvalidValue);
    locked here;
    *event = events.add((cudaEvent_t)malloc(sizeof(CUevent_st)));
    **event = {false, flags, 0, nullptr};
    return report(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    locked here;
    cudaError_t error = on(stream) != cudaSuccess ? on(stream) : known(event);
    if (error != cudaSuccess) return report(error);
    event->graph = capturing(stream);
    event->recorded = !event->graph;
    event->seconds = now();
    return report(cudaSuccess);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    locked here;
    return report(known(event));
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    locked here;
    if (!milliseconds) return report(cudaErrorInvalidValue);
    bool both = known(begin) == cudaSuccess && known(end) == cudaSuccess && begin->recorded && end->recorded;
    if (!both || ((begin->flags | end->flags) & cudaEventDisableTiming)) return report(cudaErrorInvalidResourceHandle);
    *milliseconds = float((end->seconds - begin->seconds) * 1e3);
    return report(cudaSuccess);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    locked here;
    if (!events.discard(event)) return report(cudaErrorInvalidResourceHandle);
    free(event);
    return report(cudaSuccess);
}

// Capture. Work goes into the graph in the order in which the program asks for it, which satisfies all dependencies.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    locked here;
    if (mode > cudaStreamCaptureModeRelaxed) return report(cudaErrorInvalidValue);
    if (is_default(stream)) return report(cudaErrorStreamCaptureUnsupported);
    if (on(stream) != cudaSuccess) return report(on(stream));
    if (stream->graph) return report(cudaErrorIllegalState);
    return cudaGraphCreate(&stream->graph, 0);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    locked here;
    if (!graph) return report(cudaErrorInvalidValue);
    if (!capturing(stream)) return report(on(stream) != cudaSuccess ? on(stream) : cudaErrorIllegalState);
    *graph = stream->graph;
    for (cudaStream_t each : streams)
        if (each->graph == *graph) each->graph = nullptr;
    for (cudaEvent_t each : events)
        if (each->graph == *graph) each->graph = nullptr;
    return report(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    if (on(stream) != cudaSuccess || !status) return report(status ? on(stream) : cudaErrorInvalidValue);
    *status = capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return report(cudaSuccess);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
    if (!mode || *mode > cudaStreamCaptureModeRelaxed) return report(cudaErrorInvalidValue);
    cudaStreamCaptureMode before = current;
    current = *mode;
    *mode = before;
    return report(cudaSuccess);
}
}
