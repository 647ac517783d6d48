// Graphs: nodes with what they run after. An executable graph is a copy, in an order that satisfies the dependencies.
#include "runtime.h"

using tilewright::list;
using tilewright::node;

struct CUgraphNode_st : node {
    cudaGraphNode_t original;  // of which a clone is a copy
};
struct CUgraph_st {
    list<cudaGraphNode_t> nodes;
    cudaGraphNode_t newest;  // of those that were captured
};
struct CUgraphExec_st {
    cudaGraph_t graph;
};

namespace tilewright {

static list<cudaGraph_t> graphs;
static list<cudaGraphExec_t> executables;

static void** copied(kernel const& what, void** slots) {
    size_t bytes = what.parameters * sizeof(void*);
    for (unsigned i = 0; i < what.parameters; ++i) bytes += (what.sizes[i] + 15) / 16 * 16 + 16;
    auto** made = (void**)calloc(1, bytes + 16);
    auto at = (size_t(made + what.parameters) + 15) / 16 * 16;
    for (unsigned i = 0; i < what.parameters; ++i) {
        made[i] = memcpy((void*)at, slots[i], what.sizes[i]);
        at += (what.sizes[i] + 15) / 16 * 16;
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
static cudaGraphNode_t added(cudaGraph_t graph, node const& what) {
    auto made = (cudaGraphNode_t)calloc(1, sizeof(CUgraphNode_st));
    *(node*)made = what;
    made->original = made;
    return graph->nodes.add(made);
}
cudaError_t capture(cudaStream_t stream, node const& what) {
    locked here;
    cudaGraph_t graph = capturing(stream);
    cudaGraphNode_t made = added(graph, what);
    if (graph->newest) made->after.add(graph->newest);
    graph->newest = made;
    return cudaSuccess;
}

static cudaError_t run(cudaGraph_t graph);
static cudaError_t run(node const& n) {
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
        case cudaGraphNodeTypeGraph: return run(n.child);
        case cudaGraphNodeTypeEmpty: return cudaSuccess;
    }
    return cudaErrorUnknown;
}
static cudaError_t run(cudaGraph_t graph) {
    for (cudaGraphNode_t each : graph->nodes) {
        cudaError_t error = run(*each);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

static void destroy(cudaGraph_t graph) {
    for (cudaGraphNode_t each : graph->nodes) {
        each->after.clear();
        free(each->slots);
        if (each->child) destroy(each->child);
        free(each);
    }
    graph->nodes.clear();
    free(graph);
}
// A copy whose nodes are sorted; null where they depend on each other in a circle.
static cudaGraph_t sorted(cudaGraph_t graph) {
    auto made = (cudaGraph_t)calloc(1, sizeof(CUgraph_st));
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
            if (copy.child) copy.child = sorted(copy.child);
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
static bool has(cudaGraph_t graph, cudaGraphNode_t const* nodes, size_t count) {
    bool found = graphs.holds(graph) && (nodes || !count);
    for (size_t i = 0; found && i < count; ++i) found = graph->nodes.holds(nodes[i]);
    return found;
}
static cudaError_t add_node(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                            node const& what) {
    locked here;
    if (!out || !has(graph, after, count)) return report(cudaErrorInvalidValue);
    *out = added(graph, what);
    for (size_t i = 0; i < count; ++i) (*out)->after.add(after[i]);
    return report(cudaSuccess);
}
static cudaError_t kernel_node_of(node& made, cudaKernelNodeParams const* p) {
    if (!p || p->extra) return cudaErrorInvalidValue;
    kernel const* what = find_kernel(p->func);
    if (!what) return cudaErrorInvalidDeviceFunction;
    if (!p->kernelParams && what->parameters) return cudaErrorInvalidValue;
    configuration how{{p->gridDim.x, p->gridDim.y, p->gridDim.z}, {p->blockDim.x, p->blockDim.y, p->blockDim.z},
                      p->sharedMemBytes, nullptr};
    cudaError_t error = check(how);
    if (error == cudaSuccess) made = kernel_node(what, how, p->kernelParams);
    return error;
}
static cudaError_t set_kernel(cudaGraphNode_t into, cudaKernelNodeParams const* p) {
    node made{};
    if (!into || into->type != cudaGraphNodeTypeKernel) return report(cudaErrorInvalidValue);
    cudaError_t error = kernel_node_of(made, p);
    if (error != cudaSuccess) return report(error);
    free(into->slots);
    into->what = made.what;
    into->how = made.how;
    into->slots = made.slots;
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
    if (!graphs.discard(graph)) return report(cudaErrorInvalidValue);
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
    node made{};
    cudaError_t error = kernel_node_of(made, what);
    return error != cudaSuccess ? report(error) : add_node(out, graph, after, count, made);
}
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                   cudaMemcpy3DParms const* what) {
    if (!what) return report(cudaErrorInvalidValue);
    node made{};
    made.type = cudaGraphNodeTypeMemcpy;
    made.copy = *what;
    return add_node(out, graph, after, count, made);
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after,
                                     size_t count, void* target, void const* source, size_t size, cudaMemcpyKind kind) {
    cudaMemcpy3DParms how{};
    how.srcPtr = {(void*)source, size, size, 1};
    how.dstPtr = {target, size, size, 1};
    how.extent = {size, 1, 1};
    how.kind = kind;
    return cudaGraphAddMemcpyNode(out, graph, after, count, &how);
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                   cudaMemsetParams const* what) {
    bool sized = what && (what->elementSize == 1 || what->elementSize == 2 || what->elementSize == 4);
    if (!sized) return report(cudaErrorInvalidValue);
    node made{};
    made.type = cudaGraphNodeTypeMemset;
    made.fill = *what;
    return add_node(out, graph, after, count, made);
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count,
                                 cudaHostNodeParams const* what) {
    if (!what || !what->fn) return report(cudaErrorInvalidValue);
    node made{};
    made.type = cudaGraphNodeTypeHost;
    made.host = *what;
    return add_node(out, graph, after, count, made);
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after, size_t count) {
    node made{};
    made.type = cudaGraphNodeTypeEmpty;
    return add_node(out, graph, after, count, made);
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* out, cudaGraph_t graph, cudaGraphNode_t const* after,
                                       size_t count, cudaGraph_t child) {
    locked here;
    if (!graphs.holds(child) || child == graph) return report(cudaErrorInvalidValue);
    node made{};
    made.type = cudaGraphNodeTypeGraph;
    made.child = sorted(child);
    return made.child ? add_node(out, graph, after, count, made) : report(cudaErrorInvalidValue);
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
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t into, cudaKernelNodeParams const* what) {
    return set_kernel(into, what);
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t from, cudaGraphNodeType* type) {
    if (!from || !type) return report(cudaErrorInvalidValue);
    *type = from->type;
    return report(cudaSuccess);
}
static cudaError_t nodes_of(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count, bool roots) {
    locked here;
    if (!count || !graphs.holds(graph)) return report(cudaErrorInvalidValue);
    size_t found = 0;
    for (cudaGraphNode_t each : graph->nodes) {
        if (roots && each->after.count) continue;
        if (nodes && found < *count) nodes[found] = each;
        ++found;
    }
    if (!nodes || found < *count) *count = found;
    return report(cudaSuccess);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    return nodes_of(graph, nodes, count, false);
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    return nodes_of(graph, nodes, count, true);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
    locked here;
    if (!exec || !graphs.holds(graph)) return report(cudaErrorInvalidValue);
    cudaGraph_t made = sorted(graph);
    if (!made) return report(cudaErrorInvalidValue);
    *exec = executables.add((cudaGraphExec_t)malloc(sizeof(CUgraphExec_st)));
    (*exec)->graph = made;
    return report(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    locked here;
    if (!executables.discard(exec)) return report(cudaErrorInvalidValue);
    destroy(exec->graph);
    free(exec);
    return report(cudaSuccess);
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t original,
                                             cudaKernelNodeParams const* what) {
    locked here;
    if (!executables.holds(exec)) return report(cudaErrorInvalidValue);
    for (cudaGraphNode_t each : exec->graph->nodes)
        if (each->original == original) return set_kernel(each, what);
    return report(cudaErrorInvalidValue);
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
    if (error == cudaSuccess && capturing(stream)) {
        node made{};
        made.type = cudaGraphNodeTypeGraph;
        made.child = sorted(exec->graph);
        return report(capture(stream, made));
    }
    return report(error != cudaSuccess ? error : tilewright::run(exec->graph));
}
}
