// Streams, events, host functions, and the capture of streams into graphs.
#include "runtime.h"
#include <time.h>

struct CUstream_st {
    unsigned flags;
    int priority;
    unsigned long long id;
    // While it is captured: into what, of which capture, and the nodes after which its next work runs.
    cudaGraph_t graph;
    unsigned long long capture;
    tilewright::list<cudaGraphNode_t> after;
    tilewright::attributes about;
    unsigned lane;
};
struct CUevent_st {
    bool recorded;
    unsigned flags;
    double seconds;  // 0 until the stream comes there
    tilewright::list<unsigned long long> before;  // the work that it comes after
    // Of the captured stream that recorded it.
    cudaGraph_t graph;
    unsigned long long capture;
    tilewright::list<cudaGraphNode_t> after;
};

namespace tilewright {

static list<cudaStream_t> streams;
static list<cudaEvent_t> events;
struct capture_of {
    unsigned long long number;
    cudaStream_t origin;  // where it has begun
    bool given, invalid;  // the program gave the graph; it did what is not allowed meanwhile
};
static list<capture_of> captures;  // that go on

unsigned lane_of(cudaStream_t stream) {
    locked here;
    return streams.holds(stream) ? stream->lane : 0;
}
static bool is_default(cudaStream_t stream) { return size_t(stream) <= 2; }
cudaError_t on(cudaStream_t stream) {
    locked here;
    return is_default(stream) || streams.holds(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
cudaGraph_t capturing(cudaStream_t stream) {
    locked here;
    return is_default(stream) || !streams.holds(stream) ? nullptr : stream->graph;
}
static void become(list<cudaGraphNode_t>& into, cudaGraphNode_t const* nodes, size_t count) {
    list<cudaGraphNode_t> made{};
    for (size_t i = 0; i < count; ++i) made.add(nodes[i]);
    into.clear();
    into = made;
}
cudaError_t capture(cudaStream_t stream, node const& what) {
    locked here;
    cudaGraphNode_t made = added(stream->graph, what);
    for (cudaGraphNode_t each : stream->after) ((node*)made)->after.add((node*)each);
    become(stream->after, &made, 1);
    return cudaSuccess;
}
static capture_of* capture_numbered(unsigned long long number) {
    for (capture_of& each : captures)
        if (each.number == number) return &each;
    return nullptr;
}
static void begin_capture(cudaStream_t stream, bool given) {
    static unsigned long long next = 1;
    stream->capture = next++;
    captures.add({stream->capture, stream, given, false});
}
// The capture is to end with an error, as the program did what gives `error` meanwhile.
static cudaError_t invalidate(unsigned long long number, cudaError_t error) {
    if (capture_of* found = capture_numbered(number)) found->invalid = true;
    return error;
}
// Whether `what` is among `ends`, or among what these run after.
static bool leads_to(list<cudaGraphNode_t> const& ends, cudaGraphNode_t what) {
    list<node*> seen{};
    for (cudaGraphNode_t each : ends) seen.add((node*)each);
    for (size_t i = 0; i < seen.count; ++i)
        for (node* each : seen[i]->after)
            if (!seen.holds(each)) seen.add(each);
    bool found = seen.holds((node*)what);
    seen.clear();
    return found;
}
// Ends the capture that `stream` takes part in, for all of its streams: what is wrong with it.
static cudaError_t end_capture(cudaStream_t stream) {
    capture_of ended = *capture_numbered(stream->capture);
    cudaError_t error = ended.invalid           ? cudaErrorStreamCaptureInvalidated
                        : ended.origin != stream ? cudaErrorStreamCaptureUnmatched
                                                 : cudaSuccess;
    cudaGraph_t graph = stream->graph;
    for (cudaStream_t each : streams) {
        if (!each->graph || each->capture != ended.number || each == stream) continue;
        for (cudaGraphNode_t last : each->after)
            if (!error && !leads_to(stream->after, last)) error = cudaErrorStreamCaptureUnjoined;
    }
    for (cudaStream_t each : streams)
        if (each->graph && each->capture == ended.number) each->graph = nullptr, each->after.clear();
    for (cudaEvent_t each : events)
        if (each->graph && each->capture == ended.number) each->graph = nullptr;
    for (size_t i = captures.count; i-- > 0;)
        if (captures[i].number == ended.number) captures.remove(i);
    if (error && !ended.given) cudaGraphDestroy(graph);
    return error;
}
cudaError_t attributes::get(unsigned id, cudaLaunchAttributeValue* value) const {
    if (!value || id == 0 || id >= sizeof values / sizeof *values) return cudaErrorInvalidValue;
    *value = values[id];
    return cudaSuccess;
}
cudaError_t attributes::set(unsigned id, cudaLaunchAttributeValue const* value) {
    if (!value || id == 0 || id >= sizeof values / sizeof *values) return cudaErrorInvalidValue;
    values[id] = *value;
    return cudaSuccess;
}
static attributes about_default;
static attributes& about(cudaStream_t stream) { return is_default(stream) ? about_default : stream->about; }
// That something has not ended is no failure.
static cudaError_t unless_unready(cudaError_t error) { return error == cudaErrorNotReady ? error : report(error); }
static cudaError_t known(cudaEvent_t event) {
    return events.holds(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
static cudaError_t call_on(cudaStream_t stream, cudaHostFn_t function, void* data) {
    cudaError_t error = on(stream);
    if (error != cudaSuccess) return error;
    node made{};
    made.type = cudaGraphNodeTypeHost;
    made.host = {function, data};
    if (capturing(stream)) return capture(stream, made);
    return in_order(stream, true, [] { return cudaSuccess; }, [&] { return made; });
}
// A stream, or a graph, comes to the place where an event was recorded.
cudaError_t record_now(cudaEvent_t event) {
    locked here;
    if (!events.holds(event)) return cudaSuccess;  // destroyed meanwhile
    event->recorded = true;
    event->seconds = now();
    return cudaSuccess;
}

}  // namespace tilewright

using namespace tilewright;

extern "C" {
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
    static unsigned long long next = 3;
    if (!stream || flags > cudaStreamNonBlocking) return report(cudaErrorInvalidValue);
    locked here;
    *stream = streams.add((cudaStream_t)malloc(sizeof(CUstream_st)));
    **stream = {flags, priority, next++};
    (*stream)->about.values[cudaLaunchAttributePriority].priority = priority;
    (*stream)->lane = new_lane(!(flags & cudaStreamNonBlocking));
    return report(cudaSuccess);
}
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID id, cudaStreamAttrValue* value) {
    locked here;
    return report(on(stream) != cudaSuccess ? on(stream) : about(stream).get(id, value));
}
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID id, cudaStreamAttrValue const* value) {
    locked here;
    return report(on(stream) != cudaSuccess ? on(stream) : about(stream).set(id, value));
}
cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
    locked here;
    if (on(to) != cudaSuccess || on(from) != cudaSuccess) return report(cudaErrorInvalidResourceHandle);
    about(to) = about(from);
    return report(cudaSuccess);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    locked here;
    if (!streams.holds(stream)) return report(cudaErrorInvalidResourceHandle);
    if (stream->graph && capture_numbered(stream->capture)->origin == stream) {
        invalidate(stream->capture, cudaErrorStreamCaptureInvalidated);
        end_capture(stream);
    }
    streams.discard(stream);
    leave_lane(stream->lane);
    stream->after.clear();
    free(stream);
    return report(cudaSuccess);
}
static cudaError_t end_of(cudaStream_t stream, bool ask) {
    {
        locked here;
        if (capturing(stream)) return report(invalidate(stream->capture, cudaErrorStreamCaptureUnsupported));
        if (on(stream) != cudaSuccess) return report(on(stream));
    }
    return unless_unready(join(stream, ask));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return end_of(stream, false); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return end_of(stream, true); }
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
    if (error == cudaSuccess && !event->graph) wait_for(stream, event->before);
    if (error != cudaSuccess || !event->graph || is_default(stream)) return report(error);
    if (!stream->graph) stream->graph = event->graph, stream->capture = event->capture;
    for (cudaGraphNode_t each : event->after)
        if (!stream->after.holds(each)) stream->after.add(each);
    return report(error);
}
cudaError_t cudaDeviceSynchronize() {
    {
        locked here;
        for (capture_of& each : captures) each.invalid = true;
        if (captures.count) return report(cudaErrorStreamCaptureUnsupported);
    }
    return report(join_all());
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    return report(function ? call_on(stream, function, data) : cudaErrorInvalidValue);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned int flags) {
    if (!function || flags) return report(cudaErrorInvalidValue);
    if (capturing(stream)) return end_of(stream, true);
    struct callback {
        cudaStream_t stream;
        cudaStreamCallback_t function;
        void* data;
    };
    auto* given = (callback*)malloc(sizeof(callback));
    *given = {stream, function, data};
    auto const call = [](void* at) {
        callback const what = *(callback*)at;
        free(at);
        what.function(what.stream, cudaSuccess, what.data);
    };
    return report(call_on(stream, call, given));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
    if (!event || flags > 7) return report(cudaErrorInvalidValue);
    locked here;
    *event = events.add((cudaEvent_t)malloc(sizeof(CUevent_st)));
    **event = {false, flags, 0};
    return report(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    {
        locked here;
        cudaError_t error = on(stream) != cudaSuccess ? on(stream) : known(event);
        if (error != cudaSuccess) return report(error);
        event->graph = capturing(stream);
        if (event->graph) event->capture = stream->capture;
        become(event->after, event->graph ? stream->after.items : nullptr, event->graph ? stream->after.count : 0);
        event->recorded = !event->graph;
        event->seconds = now();
        if (event->graph || mark(stream, &event->before)) return report(cudaSuccess);
        event->seconds = 0;
    }
    node made{};
    made.type = cudaGraphNodeTypeEventRecord;
    made.event = event;
    cudaError_t const error = in_order(stream, false, [&] { return record_now(event); }, [&] { return made; });
    mark(stream, &event->before);
    return report(error);
}
static cudaError_t end_of(cudaEvent_t event, bool ask) {
    list<unsigned long long> before{};
    {
        locked here;
        bool captured = known(event) == cudaSuccess && event->graph;
        if (captured || known(event) != cudaSuccess) return report(captured ? invalidate(event->capture, cudaErrorCapturedEvent) : known(event));
        for (unsigned long long each : event->before) before.add(each);
    }
    cudaError_t const error = join(before, ask);
    before.clear();
    return unless_unready(error);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return end_of(event, false); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return end_of(event, true); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    if (!milliseconds) return report(cudaErrorInvalidValue);
    {
        locked here;
        bool both = known(begin) == cudaSuccess && known(end) == cudaSuccess && begin->recorded && end->recorded;
        if (!both || ((begin->flags | end->flags) & cudaEventDisableTiming)) return report(cudaErrorInvalidResourceHandle);
    }
    if (end_of(begin, true) != cudaSuccess || end_of(end, true) != cudaSuccess) return cudaErrorNotReady;
    *milliseconds = float((end->seconds - begin->seconds) * 1e3);
    return report(cudaSuccess);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    locked here;
    if (!events.discard(event)) return report(cudaErrorInvalidResourceHandle);
    event->after.clear();
    event->before.clear();
    free(event);
    return report(cudaSuccess);
}

// Capture. A graph's nodes are in the order in which the program asks for their work, which satisfies all dependencies.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    locked here;
    if (mode > cudaStreamCaptureModeRelaxed) return report(cudaErrorInvalidValue);
    if (is_default(stream)) return report(cudaErrorStreamCaptureUnsupported);
    if (on(stream) != cudaSuccess) return report(on(stream));
    if (stream->graph) return report(cudaErrorIllegalState);
    begin_capture(stream, false);
    return cudaGraphCreate(&stream->graph, 0);
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, cudaGraphNode_t const* after,
                                          cudaGraphEdgeData const*, size_t count, cudaStreamCaptureMode mode) {
    locked here;
    if (mode > cudaStreamCaptureModeRelaxed || !has(graph, after, count)) return report(cudaErrorInvalidValue);
    if (is_default(stream)) return report(cudaErrorStreamCaptureUnsupported);
    if (on(stream) != cudaSuccess || stream->graph) return report(on(stream) != cudaSuccess ? on(stream) : cudaErrorIllegalState);
    begin_capture(stream, true);
    stream->graph = graph;
    become(stream->after, after, count);
    return report(cudaSuccess);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, cudaGraphNode_t const** after, cudaGraphEdgeData const** edges,
                                     size_t* count) {
    locked here;
    cudaError_t error = cudaStreamIsCapturing(stream, status);
    if (error != cudaSuccess || !capturing(stream)) return error;
    if (id) *id = stream->capture;
    if (graph) *graph = stream->graph;
    if (after) *after = stream->after.items;
    if (edges) *edges = nullptr;
    if (count) *count = stream->after.count;
    return report(cudaSuccess);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, cudaGraphEdgeData const*,
                                                size_t count, unsigned int flags) {
    locked here;
    if (!capturing(stream)) return report(on(stream) != cudaSuccess ? on(stream) : cudaErrorIllegalState);
    if (flags > cudaStreamSetCaptureDependencies || !has(stream->graph, nodes, count)) return report(cudaErrorInvalidValue);
    if (flags == cudaStreamSetCaptureDependencies) become(stream->after, nodes, count);
    for (size_t i = 0; i < count && flags == cudaStreamAddCaptureDependencies; ++i)
        if (!stream->after.holds(nodes[i])) stream->after.add(nodes[i]);
    return report(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    locked here;
    if (!capturing(stream)) return report(on(stream) != cudaSuccess ? on(stream) : cudaErrorIllegalState);
    if (!graph && !capture_numbered(stream->capture)->given) return report(cudaErrorInvalidValue);
    cudaGraph_t made = stream->graph;
    cudaError_t error = end_capture(stream);
    if (graph) *graph = error ? nullptr : made;
    return report(error);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    if (on(stream) != cudaSuccess || !status) return report(status ? on(stream) : cudaErrorInvalidValue);
    locked here;
    bool invalid = capturing(stream) && capture_numbered(stream->capture)->invalid;
    *status = invalid             ? cudaStreamCaptureStatusInvalidated
              : capturing(stream) ? cudaStreamCaptureStatusActive
                                  : cudaStreamCaptureStatusNone;
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
