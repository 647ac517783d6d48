// Graphs: nodes with what they run after. An executable graph is a copy, in an order that satisfies the dependencies.
#include "runtime.h"

using tilewright::list;
using tilewright::node;

struct CUgraphNode_st : node {
    cudaGraphNode_t original;  // of which a clone is a copy
};
// What a condition is when a graph is launched.
struct condition {
    unsigned* value;
    unsigned first;
};
struct CUuserObject_st {
    void* data;
    cudaHostFn_t destroy;
    unsigned count;
};
struct CUgraph_st {
    list<cudaGraphNode_t> nodes;
    list<condition> conditions;
    list<cudaUserObject_t> objects;  // each as often as it is held
    bool embedded;  // it is of a node, and ends with it
};
struct CUgraphExec_st {
    cudaGraph_t graph;
    unsigned long long flags;
};

namespace tilewright {

static list<cudaGraph_t> graphs;
static list<cudaGraphExec_t> executables;

// A copy of the parts at `slots`.
static void** copied(kernel const& what, void** slots) {
    size_t bytes = what.parameters * sizeof(void*);
    for (unsigned i = 0; i < what.parameters; ++i) bytes += (what.parts[i].size + 15) / 16 * 16 + 16;
    auto** made = (void**)calloc(1, bytes + 16);
    auto at = (size_t(made + what.parameters) + 15) / 16 * 16;
    for (unsigned i = 0; i < what.parameters; ++i) {
        made[i] = memcpy((void*)at, slots[i], what.parts[i].size);
        at += (what.parts[i].size + 15) / 16 * 16;
    }
    return made;
}
node kernel_node(kernel const* what, configuration const& how, void** slots) {
    node made{};
    made.type = cudaGraphNodeTypeKernel;
    made.what = what;
    made.how = how;
    made.slots = copied(*what, slots);
    return made;
}
cudaGraphNode_t added(cudaGraph_t graph, node const& what) {
    auto made = (cudaGraphNode_t)calloc(1, sizeof(CUgraphNode_st));
    *(node*)made = what;
    made->original = made;
    hold_reserved(what.memory.dptr, true);
    return graph->nodes.add(made);
}

static cudaError_t run(cudaGraph_t graph, bool again);
cudaError_t record_now(cudaEvent_t event);
static cudaError_t run_condition(cudaConditionalNodeParams const& c, bool again) {
    auto value = (unsigned const volatile*)c.handle;
    if (c.type == cudaGraphCondTypeWhile) {
        while (*value)
            if (cudaError_t error = run(c.phGraph_out[0], again)) return error;
        return cudaSuccess;
    }
    unsigned chosen = c.type == cudaGraphCondTypeSwitch ? *value : *value ? 0 : 1;
    return chosen < c.size ? run(c.phGraph_out[chosen], again) : cudaSuccess;
}
// `again` where allocations of a launch before may be there still.
cudaError_t run(node const& n, bool again) {
    if (n.disabled) return cudaSuccess;
    switch (n.type) {
        case cudaGraphNodeTypeKernel: return run(*n.what, n.how, n.slots);
        case cudaGraphNodeTypeMemcpy: return copy3d(n.copy);
        case cudaGraphNodeTypeMemset:
            for (size_t row = 0; row < n.fill.height; ++row) {
                void* start = (char*)n.fill.dst + row * n.fill.pitch;
                cudaError_t error = fill(start, n.fill.value, n.fill.elementSize, n.fill.width);
                if (error != cudaSuccess) return error;
            }
            return cudaSuccess;
        case cudaGraphNodeTypeHost: n.host.fn(n.host.userData); return cudaSuccess;
        case cudaGraphNodeTypeGraph: return run(n.child, again);
        case cudaGraphNodeTypeMemAlloc: return allocate_reserved(n.memory.dptr, again);
        case cudaGraphNodeTypeMemFree: return release(n.memory.dptr, false);
        case cudaGraphNodeTypeConditional: return run_condition(n.condition, again);
        case cudaGraphNodeTypeEmpty: return cudaSuccess;
        case cudaGraphNodeTypeEventRecord: return record_now(n.event);
        case cudaGraphNodeTypeWaitEvent: return cudaEventSynchronize(n.event);
        default: break;
    }
    return cudaErrorUnknown;
}
static cudaError_t run(cudaGraph_t graph, bool again) {
    for (condition const& each : graph->conditions) *each.value = each.first;
    for (cudaGraphNode_t each : graph->nodes) {
        cudaError_t error = run(*each, again);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

// Whether something in a graph may wait for what the program does later.
static bool waits(cudaGraph_t graph) {
    bool any = false;
    for (cudaGraphNode_t each : graph->nodes) {
        any |= each->type == cudaGraphNodeTypeHost || (each->what && each->what->waits) || (each->child && waits(each->child));
        for (unsigned i = 0; each->condition.phGraph_out && i < each->condition.size; ++i) any |= waits(each->condition.phGraph_out[i]);
    }
    return any;
}

static void destroy(cudaGraph_t graph);
// What a node has of its own.
static void drop(node const& what) {
    free(what.slots);
    if (what.child) destroy(what.child);
    hold_reserved(what.memory.dptr, false);
    for (unsigned i = 0; what.condition.phGraph_out && i < what.condition.size; ++i) destroy(what.condition.phGraph_out[i]);
    free(what.condition.phGraph_out);
}
static void destroy(cudaGraphNode_t what) {
    what->after.clear();
    drop(*what);
    free(what);
}
void forget(node const& what) {
    locked here;
    free(what.slots);
    if (what.child) destroy(what.child);
}
static bool let_go(cudaUserObject_t object, unsigned count) {
    if (object->count < count) return false;
    object->count -= count;
    if (object->count) return true;
    object->destroy(object->data);
    free(object);
    return true;
}
static void destroy(cudaGraph_t graph) {
    graphs.discard(graph);
    for (cudaGraphNode_t each : graph->nodes) destroy(each);
    for (cudaUserObject_t each : graph->objects) let_go(each, 1);
    graph->nodes.clear();
    graph->conditions.clear();
    graph->objects.clear();
    free(graph);
}
static cudaGraph_t embedded(cudaGraph_t child);
// Copies of the graphs of a condition, or empty ones where there are none yet.
static cudaGraph_t* bodies(cudaConditionalNodeParams const& of) {
    auto made = (cudaGraph_t*)calloc(of.size, sizeof(cudaGraph_t));
    for (unsigned i = 0; i < of.size; ++i) {
        cudaGraph_t copy = of.phGraph_out ? embedded(of.phGraph_out[i]) : nullptr;
        made[i] = copy ? copy : graphs.add((cudaGraph_t)calloc(1, sizeof(CUgraph_st)));
        made[i]->embedded = true;
    }
    return made;
}
// A copy whose nodes are sorted; null where they depend on each other in a circle.
static cudaGraph_t sorted(cudaGraph_t graph) {
    auto made = (cudaGraph_t)calloc(1, sizeof(CUgraph_st));
    for (condition const& each : graph->conditions) made->conditions.add(each);
    for (cudaUserObject_t each : graph->objects) ++made->objects.add(each)->count;
    list<cudaGraphNode_t> done{};
    for (bool moved = true; moved && done.count < graph->nodes.count;) {
        moved = false;
        for (cudaGraphNode_t each : graph->nodes) {
            bool ready = !done.holds(each);
            for (node* before : each->after) ready &= done.holds((cudaGraphNode_t)before);
            if (!ready) continue;
            done.add(each);
            node copy = *each;
            copy.after = {};
            if (copy.slots) copy.slots = copied(*copy.what, copy.slots);
            if (copy.child) copy.child = embedded(copy.child);
            if (copy.condition.phGraph_out) copy.condition.phGraph_out = bodies(copy.condition);
            cudaGraphNode_t clone = added(made, copy);
            clone->original = each;
            for (node* before : each->after) clone->after.add(made->nodes[done.find((cudaGraphNode_t)before)]);
            moved = true;
        }
    }
    bool whole = done.count == graph->nodes.count;
    done.clear();
    if (whole) return made;
    destroy(made);
    return nullptr;
}
// A copy of `child` for a node.
static cudaGraph_t embedded(cudaGraph_t child) {
    cudaGraph_t made = sorted(child);
    if (!made) return nullptr;
    made->embedded = true;
    return graphs.add(made);
}
static cudaGraph_t graph_of(cudaGraphNode_t what) {
    for (cudaGraph_t each : graphs)
        if (each->nodes.holds(what)) return each;
    return nullptr;
}
// The node of an executable graph, or of a clone, that is a copy of `original`; null where there is none.
static cudaGraphNode_t copy_of(cudaGraph_t graph, cudaGraphNode_t original) {
    for (cudaGraphNode_t each : graph->nodes)
        if (each->original == original) return each;
    return nullptr;
}
bool has(cudaGraph_t graph, cudaGraphNode_t const* nodes, size_t count) {
    bool found = graphs.holds(graph) && (nodes || !count);
    for (size_t i = 0; found && i < count; ++i) found = graph->nodes.holds(nodes[i]);
    return found;
}
static cudaError_t add_node(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                            node const& what) {
    locked here;
    if (!out || !has(graph, after, count)) return report(cudaErrorInvalidValue);
    cudaGraphNode_t made = added(graph, what);
    for (size_t i = 0; i < count; ++i) made->after.add(after[i]);
    *out = made;  // which may be among `after`
    return report(cudaSuccess);
}
// What the parameters of each kind of node make.
static cudaError_t make(node& made, cudaKernelNodeParams const& p) {
    if (p.extra) return cudaErrorInvalidValue;
    kernel const* what = find_kernel(p.func);
    if (!what) return cudaErrorInvalidDeviceFunction;
    if (!p.kernelParams && what->parameters) return cudaErrorInvalidValue;
    configuration how{{p.gridDim.x, p.gridDim.y, p.gridDim.z}, {p.blockDim.x, p.blockDim.y, p.blockDim.z},
                      p.sharedMemBytes, nullptr};
    cudaError_t error = check(how);
    void* room[most_parameters];
    if (error == cudaSuccess) made = kernel_node(what, how, parts_of(*what, p.kernelParams, room));
    return error;
}
static cudaError_t make(node& made, cudaMemcpy3DParms const& p) {
    made.type = cudaGraphNodeTypeMemcpy;
    made.copy = p;
    return cudaSuccess;
}
static cudaError_t make(node& made, cudaMemsetParams const& p) {
    made.type = cudaGraphNodeTypeMemset;
    made.fill = p;
    return p.elementSize == 1 || p.elementSize == 2 || p.elementSize == 4 ? cudaSuccess : cudaErrorInvalidValue;
}
static cudaError_t make(node& made, cudaHostNodeParams const& p) {
    made.type = cudaGraphNodeTypeHost;
    made.host = p;
    return p.fn ? cudaSuccess : cudaErrorInvalidValue;
}
static cudaMemcpy3DParms row(void* target, void const* source, size_t size, cudaMemcpyKind kind) {
    cudaMemcpy3DParms how{};
    how.srcPtr = {(void*)source, size, size, 1};
    how.dstPtr = {target, size, size, 1};
    how.extent = {size, 1, 1};
    how.kind = kind;
    return how;
}
template <typename P>
static cudaError_t add(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count, P const* what) {
    node made{};
    cudaError_t error = what ? make(made, *what) : cudaErrorInvalidValue;
    return error != cudaSuccess ? report(error) : add_node(out, graph, after, count, made);
}
static void become(cudaGraphNode_t into, node made) {
    hold_reserved(made.memory.dptr, true);
    drop(*into);
    made.after = into->after;
    made.disabled = into->disabled;
    *(node*)into = made;
}
template <typename P>
static cudaError_t set(cudaGraphNode_t into, P const* what) {
    node made{};
    cudaError_t error = into && what ? make(made, *what) : cudaErrorInvalidValue;
    if (error != cudaSuccess || into->type != made.type) return report(error != cudaSuccess ? error : cudaErrorInvalidValue);
    become(into, made);
    return report(cudaSuccess);
}
template <typename P>
static cudaError_t set(cudaGraphExec_t exec, cudaGraphNode_t original, P const* what) {
    locked here;
    if (!executables.holds(exec)) return report(cudaErrorInvalidValue);
    return set(copy_of(exec->graph, original), what);
}
template <typename P>
static cudaError_t get(cudaGraphNode_t from, cudaGraphNodeType type, P node::*member, P* what) {
    if (!from || !what || from->type != type) return report(cudaErrorInvalidValue);
    *what = from->*member;
    return report(cudaSuccess);
}
static cudaError_t add_event(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                             cudaGraphNodeType type, cudaEvent_t event) {
    node made{};
    made.type = type;
    made.event = event;
    return event ? add_node(out, graph, after, count, made) : report(cudaErrorInvalidValue);
}
static cudaError_t set_event(cudaGraphNode_t into, cudaGraphNodeType type, cudaEvent_t event) {
    if (!into || into->type != type || !event) return report(cudaErrorInvalidValue);
    into->event = event;
    return report(cudaSuccess);
}
static cudaError_t set_event(cudaGraphExec_t exec, cudaGraphNode_t original, cudaGraphNodeType type, cudaEvent_t event) {
    locked here;
    return set_event(executables.holds(exec) ? copy_of(exec->graph, original) : nullptr, type, event);
}
static cudaError_t make(node& made, cudaMemAllocNodeParams const& p) {
    made.type = cudaGraphNodeTypeMemAlloc;
    made.memory = p;
    made.memory.dptr = nullptr;
    made.memory.accessDescs = nullptr, made.memory.accessDescCount = 0;  // they are the program's, and say nothing here
    if (!p.bytesize || p.poolProps.allocType != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
    if (p.poolProps.handleTypes != cudaMemHandleTypeNone) return cudaErrorNotSupported;
    made.memory.dptr = reserve(p.bytesize);
    return made.memory.dptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
static cudaError_t make(node& made, cudaMemFreeNodeParams const& p) {
    made.type = cudaGraphNodeTypeMemFree;
    made.memory.dptr = p.dptr;
    return p.dptr ? cudaSuccess : cudaErrorInvalidValue;
}
static cudaError_t make(node& made, cudaChildGraphNodeParams const& p) {
    made.type = cudaGraphNodeTypeGraph;
    made.child = graphs.holds(p.graph) ? embedded(p.graph) : nullptr;
    if (made.child && p.ownership == cudaGraphChildGraphOwnershipMove) destroy(p.graph);
    return made.child ? cudaSuccess : cudaErrorInvalidValue;
}
static cudaError_t make(node& made, cudaConditionalNodeParams const& p) {
    made.type = cudaGraphNodeTypeConditional;
    unsigned const most = p.type == cudaGraphCondTypeIf ? 2 : p.type == cudaGraphCondTypeWhile ? 1 : 1u << 16;
    if (!p.handle || p.type > cudaGraphCondTypeSwitch || !p.size || p.size > most) return cudaErrorInvalidValue;
    made.condition = {p.handle, p.type, p.size, nullptr};
    made.condition.phGraph_out = bodies(made.condition);
    return cudaSuccess;
}
// What the parameters of a node of any kind make.
static cudaError_t make(node& made, cudaGraphNodeParams const& p) {
    switch (p.type) {
        case cudaGraphNodeTypeKernel: return make(made, (cudaKernelNodeParams const&)p.kernel);
        case cudaGraphNodeTypeMemcpy: return make(made, p.memcpy.copyParams);
        case cudaGraphNodeTypeMemset: return make(made, (cudaMemsetParams const&)p.memset);
        case cudaGraphNodeTypeHost: return make(made, (cudaHostNodeParams const&)p.host);
        case cudaGraphNodeTypeGraph: return make(made, p.graph);
        case cudaGraphNodeTypeMemAlloc: return make(made, (cudaMemAllocNodeParams const&)p.alloc);
        case cudaGraphNodeTypeMemFree: return make(made, p.free);
        case cudaGraphNodeTypeConditional: return make(made, p.conditional);
        case cudaGraphNodeTypeEmpty: made.type = p.type; return cudaSuccess;
        case cudaGraphNodeTypeEventRecord:
        case cudaGraphNodeTypeWaitEvent:
            made.type = p.type;
            made.event = p.type == cudaGraphNodeTypeWaitEvent ? p.eventWait.event : p.eventRecord.event;
            return made.event ? cudaSuccess : cudaErrorInvalidValue;
        default: return __tw_host_unsupported("a node of a graph for external semaphores");
    }
}
// Writes the nodes that `visit` gives, as many as there is room for; without `nodes`, only their number.
template <typename F>
static cudaError_t listed(cudaGraphNode_t* nodes, size_t* count, F visit) {
    size_t found = 0;
    visit([&](node* each) {
        if (nodes && found < *count) nodes[found] = (cudaGraphNode_t)each;
        ++found;
    });
    if (nodes) for (size_t i = found; i < *count; ++i) nodes[i] = nullptr;
    if (!nodes || found < *count) *count = found;
    return report(cudaSuccess);
}

}  // namespace tilewright

using namespace tilewright;

extern "C" {
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
    if (!graph || flags) return report(cudaErrorInvalidValue);
    locked here;
    *graph = graphs.add((cudaGraph_t)calloc(1, sizeof(CUgraph_st)));
    return report(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    locked here;
    if (!graphs.holds(graph) || graph->embedded) return report(cudaErrorInvalidValue);
    destroy(graph);
    return report(cudaSuccess);
}
cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
    locked here;
    if (!clone || !graphs.holds(graph)) return report(cudaErrorInvalidValue);
    cudaGraph_t made = sorted(graph);
    if (!made) return report(cudaErrorInvalidValue);
    *clone = graphs.add(made);
    return report(cudaSuccess);
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                   cudaKernelNodeParams const* what) {
    return add(out, graph, after, count, what);
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t into, cudaKernelNodeParams const* what) { return set(into, what); }
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t original, cudaKernelNodeParams const* what) {
    return set(exec, original, what);
}
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                   cudaMemcpy3DParms const* what) {
    return add(out, graph, after, count, what);
}
cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t into, cudaMemcpy3DParms const* what) { return set(into, what); }
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t original, cudaMemcpy3DParms const* what) {
    return set(exec, original, what);
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t from, cudaMemcpy3DParms* what) {
    return get(from, cudaGraphNodeTypeMemcpy, &node::copy, what);
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                   cudaMemsetParams const* what) {
    return add(out, graph, after, count, what);
}
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t into, cudaMemsetParams const* what) { return set(into, what); }
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t original, cudaMemsetParams const* what) {
    return set(exec, original, what);
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t from, cudaMemsetParams* what) {
    return get(from, cudaGraphNodeTypeMemset, &node::fill, what);
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                   cudaHostNodeParams const* what) {
    return add(out, graph, after, count, what);
}
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t into, cudaHostNodeParams const* what) { return set(into, what); }
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t original, cudaHostNodeParams const* what) {
    return set(exec, original, what);
}
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t from, cudaHostNodeParams* what) {
    return get(from, cudaGraphNodeTypeHost, &node::host, what);
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                     void* target, void const* source, size_t size, cudaMemcpyKind kind) {
    cudaMemcpy3DParms how = row(target, source, size, kind);
    return add(out, graph, after, count, &how);
}
cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t into, void* target, void const* source, size_t size,
                                           cudaMemcpyKind kind) {
    cudaMemcpy3DParms how = row(target, source, size, kind);
    return set(into, &how);
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t original, void* target,
                                               void const* source, size_t size, cudaMemcpyKind kind) {
    cudaMemcpy3DParms how = row(target, source, size, kind);
    return set(exec, original, &how);
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count) {
    node made{};
    made.type = cudaGraphNodeTypeEmpty;
    return add_node(out, graph, after, count, made);
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after,
                                       size_t count, cudaGraph_t child) {
    locked here;
    cudaChildGraphNodeParams what{child, cudaGraphChildGraphOwnershipClone};
    return child == graph ? report(cudaErrorInvalidValue) : add(out, graph, after, count, &what);
}
cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t original, cudaGraph_t child) {
    locked here;
    cudaChildGraphNodeParams what{child, cudaGraphChildGraphOwnershipClone};
    return set(exec, original, &what);
}
cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                     cudaMemAllocNodeParams* what) {
    cudaError_t error = add(out, graph, after, count, what);
    if (error == cudaSuccess) what->dptr = (*out)->memory.dptr;
    return error;
}
cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t from, cudaMemAllocNodeParams* what) {
    return get(from, cudaGraphNodeTypeMemAlloc, &node::memory, what);
}
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                    void* address) {
    cudaMemFreeNodeParams what{address};
    return add(out, graph, after, count, &what);
}
cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t from, void* address) {
    cudaMemAllocNodeParams found;
    cudaError_t error = address ? get(from, cudaGraphNodeTypeMemFree, &node::memory, &found) : report(cudaErrorInvalidValue);
    if (error == cudaSuccess) *(void**)address = found.dptr;
    return error;
}
// The value is an integer in memory of the device, which stays: kernels that have the handle may write to it.
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph, unsigned int value,
                                             unsigned int flags) {
    locked here;
    if (!handle || !graphs.holds(graph) || flags > cudaGraphCondAssignDefault) return report(cudaErrorInvalidValue);
    void* made;
    cudaError_t error = allocate(&made, sizeof value, cudaMemoryTypeManaged);
    if (error != cudaSuccess) return error;
    *(unsigned*)made = value;
    if (flags) graph->conditions.add({(unsigned*)made, value});
    *handle = (cudaGraphConditionalHandle)made;
    return report(cudaSuccess);
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after,
                             cudaGraphEdgeData const*, size_t count, cudaGraphNodeParams* what) {
    locked here;
    cudaError_t error = add(out, graph, after, count, what);
    if (error != cudaSuccess) return error;
    if (what->type == cudaGraphNodeTypeMemAlloc) what->alloc.dptr = (*out)->memory.dptr;
    if (what->type == cudaGraphNodeTypeConditional) what->conditional.phGraph_out = (*out)->condition.phGraph_out;
    return error;
}
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t into, cudaGraphNodeParams* what) { return set(into, what); }
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t original, cudaGraphNodeParams* what) {
    return set(exec, original, what);
}
cudaError_t cudaGraphNodeGetParams(cudaGraphNode_t from, cudaGraphNodeParams* what) {
    if (!from || !what) return report(cudaErrorInvalidValue);
    memset((void*)what, 0, sizeof *what);
    what->type = from->type;
    switch (from->type) {
        case cudaGraphNodeTypeKernel: return cudaGraphKernelNodeGetParams(from, &what->kernel);
        case cudaGraphNodeTypeMemcpy: what->memcpy.copyParams = from->copy; break;
        case cudaGraphNodeTypeMemset: (cudaMemsetParams&)what->memset = from->fill; break;
        case cudaGraphNodeTypeHost: (cudaHostNodeParams&)what->host = from->host; break;
        case cudaGraphNodeTypeGraph: what->graph = {from->child, cudaGraphChildGraphOwnershipClone}; break;
        case cudaGraphNodeTypeEventRecord: what->eventRecord.event = from->event; break;
        case cudaGraphNodeTypeWaitEvent: what->eventWait.event = from->event; break;
        case cudaGraphNodeTypeMemAlloc: (cudaMemAllocNodeParams&)what->alloc = from->memory; break;
        case cudaGraphNodeTypeMemFree: what->free.dptr = from->memory.dptr; break;
        case cudaGraphNodeTypeConditional: what->conditional = from->condition; break;
        default: break;
    }
    return report(cudaSuccess);
}
cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID id, cudaKernelNodeAttrValue* value) {
    bool of_kernel = node && node->type == cudaGraphNodeTypeKernel;
    return report(of_kernel ? node->about.get(id, value) : cudaErrorInvalidValue);
}
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID id,
                                            cudaKernelNodeAttrValue const* value) {
    bool of_kernel = node && node->type == cudaGraphNodeTypeKernel;
    return report(of_kernel ? node->about.set(id, value) : cudaErrorInvalidValue);
}
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
    bool kernels = to && from && to->type == cudaGraphNodeTypeKernel && from->type == cudaGraphNodeTypeKernel;
    if (kernels) to->about = from->about;
    return report(kernels ? cudaSuccess : cudaErrorInvalidValue);
}
// Of CUDA's flags none changes what is written: a node, its kind, its kernel, and edges.
static void print(FILE* file, cudaGraph_t graph) {
    static char const* const kinds[] = {"KERNEL", "MEMCPY", "MEMSET", "HOST", "GRAPH", "EMPTY", "EVENT_WAIT",
        "EVENT_RECORD", "", "", "MEM_ALLOC", "MEM_FREE", "", "CONDITIONAL"};
    fprintf(file, "subgraph cluster_%p {\nlabel=\"graph %p\"\n", (void*)graph, (void*)graph);
    for (size_t i = 0; i < graph->nodes.count; ++i) {
        cudaGraphNode_t each = graph->nodes[i];
        fprintf(file, "\"%p\" [shape=\"record\" label=\"{%s|ID %zu", (void*)each, kinds[each->type], i);
        if (each->what) {
            configuration const& c = each->how;
            fputc('|', file);
            for (char const* at = each->what->name; *at; ++at) fprintf(file, strchr("<>{}|\"\\ ", *at) ? "\\%c" : "%c", *at);
            fprintf(file, "\\\<\\\<\\\<(%u,%u,%u),(%u,%u,%u),%zu\\\>\\\>\\\>", c.grid[0], c.grid[1], c.grid[2], c.block[0], c.block[1], c.block[2], c.shared);
        }
        fputs("}\"];\n", file);
    }
    for (cudaGraphNode_t each : graph->nodes)
        for (node* before : each->after) fprintf(file, "\"%p\" -> \"%p\";\n", (void*)before, (void*)each);
    for (cudaGraphNode_t each : graph->nodes) {
        if (each->child) print(file, each->child);
        for (unsigned i = 0; each->condition.phGraph_out && i < each->condition.size; ++i) print(file, each->condition.phGraph_out[i]);
    }
    fputs("}\n", file);
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, char const* path, unsigned int) {
    locked here;
    FILE* file = path && graphs.holds(graph) ? fopen(path, "w") : nullptr;
    if (!file) return report(path && graphs.holds(graph) ? cudaErrorOperatingSystem : cudaErrorInvalidValue);
    fputs("digraph dot {\n", file);
    print(file, graph);
    fputs("}\n", file);
    return report(fclose(file) ? cudaErrorOperatingSystem : cudaSuccess);
}
// Objects of the program that live as long as graphs that hold them.
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy, unsigned int count,
                                 unsigned int flags) {
    if (!object || !destroy || !count || flags != cudaUserObjectNoDestructorSync) return report(cudaErrorInvalidValue);
    *object = (cudaUserObject_t)malloc(sizeof(CUuserObject_st));
    **object = {data, destroy, count};
    return report(cudaSuccess);
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
    locked here;
    if (!object || !count) return report(cudaErrorInvalidValue);
    object->count += count;
    return report(cudaSuccess);
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
    locked here;
    return report(object && count && let_go(object, count) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags) {
    locked here;
    if (!graphs.holds(graph) || !object || !count || flags > cudaGraphUserObjectMove) return report(cudaErrorInvalidValue);
    if (!flags) object->count += count;
    for (unsigned i = 0; i < count; ++i) graph->objects.add(object);
    return report(cudaSuccess);
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count) {
    locked here;
    if (!graphs.holds(graph) || !object || !count) return report(cudaErrorInvalidValue);
    for (unsigned i = 0; i < count; ++i) {
        if (!graph->objects.discard(object)) return report(cudaErrorInvalidValue);
        let_go(object, 1);
    }
    return report(cudaSuccess);
}
cudaError_t __tw_graph_edges(cudaGraph_t graph, cudaGraphNode_t const* from, cudaGraphNode_t const* to, size_t count,
                             bool add) {
    locked here;
    if (!has(graph, from, count) || !has(graph, to, count)) return report(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; ++i)
        if (add ? to[i]->after.holds(from[i]) : !to[i]->after.holds(from[i])) return report(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; ++i) {
        if (add) to[i]->after.add(from[i]);
        else to[i]->after.discard(from[i]);
    }
    return report(cudaSuccess);
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t from, cudaKernelNodeParams* what) {
    if (!from || !what || from->type != cudaGraphNodeTypeKernel) return report(cudaErrorInvalidValue);
    configuration const& how = from->how;
    *what = {(void*)from->what->stub, {how.grid[0], how.grid[1], how.grid[2]},
             {how.block[0], how.block[1], how.block[2]}, unsigned(how.shared), from->slots, nullptr};
    return report(cudaSuccess);
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t from, cudaGraphNodeType* type) {
    if (!from || !type) return report(cudaErrorInvalidValue);
    *type = from->type;
    return report(cudaSuccess);
}
static cudaError_t nodes_of(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count, bool roots) {
    locked here;
    if (!count || !graphs.holds(graph)) return report(cudaErrorInvalidValue);
    return listed(nodes, count, [&](auto give) {
        for (cudaGraphNode_t each : graph->nodes)
            if (!roots || !each->after.count) give(each);
    });
}
// Edges have no ports and are of one type.
static void plain(cudaGraphEdgeData* edges, cudaGraphNode_t* nodes, size_t count) {
    if (edges && nodes) memset(edges, 0, count * sizeof *edges);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t of, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                                         size_t* count) {
    locked here;
    if (!count || !graph_of(of)) return report(cudaErrorInvalidValue);
    plain(edges, nodes, *count);
    return listed(nodes, count, [&](auto give) {
        for (node* each : of->after) give(each);
    });
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t of, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                                           size_t* count) {
    locked here;
    cudaGraph_t graph = graph_of(of);
    if (!count || !graph) return report(cudaErrorInvalidValue);
    plain(edges, nodes, *count);
    return listed(nodes, count, [&](auto give) {
        for (cudaGraphNode_t each : graph->nodes)
            if (each->after.holds(of)) give(each);
    });
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                              size_t* count) {
    locked here;
    if (!count || !graphs.holds(graph) || !from != !to) return report(cudaErrorInvalidValue);
    plain(edges, from, *count);
    size_t room = *count;
    listed(from, count, [&](auto give) {
        for (cudaGraphNode_t each : graph->nodes)
            for (node* before : each->after) give(before);
    });
    return listed(to, to ? &room : count, [&](auto give) {
        for (cudaGraphNode_t each : graph->nodes)
            for (size_t i = 0; i < each->after.count; ++i) give(each);
    });
}
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t what) {
    locked here;
    cudaGraph_t graph = graph_of(what);
    if (!graph) return report(cudaErrorInvalidValue);
    graph->nodes.discard(what);
    for (cudaGraphNode_t each : graph->nodes) each->after.discard(what);
    destroy(what);
    return report(cudaSuccess);
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t from, cudaGraph_t* child) {
    return get(from, cudaGraphNodeTypeGraph, &node::child, child);
}
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* out, cudaGraphNode_t original, cudaGraph_t clone) {
    locked here;
    cudaGraphNode_t found = graphs.holds(clone) ? copy_of(clone, original) : nullptr;
    if (!out || !found) return report(cudaErrorInvalidValue);
    *out = found;
    return report(cudaSuccess);
}
// Of an executable graph; only kernels, copies and fills may be left out.
static cudaGraphNode_t optional(cudaGraphExec_t exec, cudaGraphNode_t original) {
    cudaGraphNode_t found = executables.holds(exec) ? copy_of(exec->graph, original) : nullptr;
    return found && found->type <= cudaGraphNodeTypeMemset ? found : nullptr;
}
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t original, unsigned int enabled) {
    locked here;
    cudaGraphNode_t found = optional(exec, original);
    if (found) found->disabled = !enabled;
    return report(found ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t original, unsigned int* enabled) {
    locked here;
    cudaGraphNode_t found = optional(exec, original);
    if (found && enabled) *enabled = !found->disabled;
    return report(found && enabled ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after,
                                        size_t count, cudaEvent_t event) {
    return add_event(out, graph, after, count, cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after,
                                      size_t count, cudaEvent_t event) {
    return add_event(out, graph, after, count, cudaGraphNodeTypeWaitEvent, event);
}
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t from, cudaEvent_t* event) {
    return get(from, cudaGraphNodeTypeEventRecord, &node::event, event);
}
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t from, cudaEvent_t* event) {
    return get(from, cudaGraphNodeTypeWaitEvent, &node::event, event);
}
cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t into, cudaEvent_t event) {
    return set_event(into, cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t into, cudaEvent_t event) {
    return set_event(into, cudaGraphNodeTypeWaitEvent, event);
}
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t original, cudaEvent_t event) {
    return set_event(exec, original, cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t original, cudaEvent_t event) {
    return set_event(exec, original, cudaGraphNodeTypeWaitEvent, event);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    return nodes_of(graph, nodes, count, false);
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    return nodes_of(graph, nodes, count, true);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
    locked here;
    if (!exec || !graphs.holds(graph)) return report(cudaErrorInvalidValue);
    cudaGraph_t made = sorted(graph);
    if (!made) return report(cudaErrorInvalidValue);
    *exec = executables.add((cudaGraphExec_t)malloc(sizeof(CUgraphExec_st)));
    **exec = {made, flags};
    return report(cudaSuccess);
}
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* how) {
    if (!how) return report(cudaErrorInvalidValue);
    cudaError_t error = cudaGraphInstantiateWithFlags(exec, graph, how->flags);
    how->errNode_out = nullptr;
    how->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateInvalidStructure;
    return error;
}
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
    locked here;
    if (!flags || !executables.holds(exec)) return report(cudaErrorInvalidValue);
    *flags = exec->flags;
    return report(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    locked here;
    if (!executables.discard(exec)) return report(cudaErrorInvalidValue);
    destroy(exec->graph);
    free(exec);
    return report(cudaSuccess);
}
// The nodes of `graph` must be those that `exec` was made of, but for their parameters.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* about) {
    locked here;
    if (!about || !executables.holds(exec) || !graphs.holds(graph)) return report(cudaErrorInvalidValue);
    cudaGraph_t made = sorted(graph);
    *about = {made ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateError, nullptr, nullptr};
    if (!made) return report(cudaErrorInvalidValue);
    list<cudaGraphNode_t> const &old = exec->graph->nodes, &now = made->nodes;
    if (old.count != now.count) about->result = cudaGraphExecUpdateErrorTopologyChanged;
    for (int types = 0; types < 2; ++types)
        for (size_t i = 0; about->result == cudaGraphExecUpdateSuccess && i < now.count; ++i) {
            bool same = types ? old[i]->type == now[i]->type : old[i]->after.count == now[i]->after.count;
            for (size_t k = 0; same && !types && k < now[i]->after.count; ++k)
                same = old.find((cudaGraphNode_t)old[i]->after[k]) == now.find((cudaGraphNode_t)now[i]->after[k]);
            if (same) continue;
            about->result = types ? cudaGraphExecUpdateErrorNodeTypeChanged : cudaGraphExecUpdateErrorTopologyChanged;
            about->errorNode = now[i]->original;
        }
    for (size_t i = 0; about->result == cudaGraphExecUpdateSuccess && i < now.count; ++i) {
        become(old[i], *now[i]);
        now[i]->slots = nullptr, now[i]->child = nullptr, now[i]->condition.phGraph_out = nullptr;
    }
    destroy(made);
    return report(about->result == cudaGraphExecUpdateSuccess ? cudaSuccess : cudaErrorGraphExecUpdateFailure);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
    locked here;
    return report(executables.holds(exec) ? on(stream) : cudaErrorInvalidValue);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    {
        locked here;
        if (!executables.holds(exec)) return report(cudaErrorInvalidValue);
    }
    cudaError_t error = on(stream);
    node made{};
    made.type = cudaGraphNodeTypeGraph;
    made.again = exec->flags & cudaGraphInstantiateFlagAutoFreeOnLaunch;
    auto const copied = [&] {
        locked here;
        made.child = embedded(exec->graph);
        return made;
    };
    if (error == cudaSuccess && capturing(stream)) return report(capture(stream, copied()));
    auto const launched = [&] { return tilewright::run(exec->graph, made.again); };
    return report(error != cudaSuccess ? error : in_order(stream, waits(exec->graph), launched, copied));
}
}
