"""Graphs of C++ programs beyond launches, copies and captures in order: see ``test_programs`` for these."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KERNELS = """#include <cstdio>
#include <string>
static int failures = 0;
#define CHECK(x) (x) ? (void)0 : (void)(++failures, printf("line %d: %s\\n", __LINE__, #x))
#define IS(call, code) CHECK((call) == code)
__global__ void count(int* cell, int by, cudaGraphConditionalHandle again, int until) {
    *cell += by;
    cudaGraphSetConditional(again, *cell < until);
}
__global__ void square(float const* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}
__global__ void decide(int const* which, cudaGraphConditionalHandle handle) { cudaGraphSetConditional(handle, *which); }
__global__ void digit(int* seen, int value) { *seen = 10 * *seen + value; }
static int destroyed;
static void destroy(void* data) { destroyed += *(int*)data; }
static cudaGraphNodeParams launch(void* kernel, void** arguments) {
    cudaGraphNodeParams made = {cudaGraphNodeTypeKernel};
    made.kernel.func = kernel, made.kernel.gridDim = dim3(1), made.kernel.blockDim = dim3(1);
    made.kernel.kernelParams = arguments;
    return made;
}
static cudaGraphNodeParams condition(cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type, unsigned size) {
    cudaGraphNodeParams made = {cudaGraphNodeTypeConditional};
    made.conditional.handle = handle, made.conditional.type = type, made.conditional.size = size;
    return made;
}
"""


def _check(tmp_path: Path, body: str, before: str = "") -> None:
    program = tmp_path / "program.cu"
    program.write_text(f"{KERNELS}{before}int main() {{\n{body}\nreturn failures; }}\n")
    command = [sys.executable, "-m", "tilewright", "run", "program.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_conditions(tmp_path: Path) -> None:
    _check(
        tmp_path,
        """
    int *cell, by = 3, until = 10; cudaGraph_t graph; cudaGraphNode_t node; cudaGraphExec_t exec; cudaStream_t stream;
    cudaMallocManaged(&cell, 3 * sizeof(int)); cell[0] = cell[1] = cell[2] = 0;
    IS(cudaStreamCreate(&stream), cudaSuccess);
    // while: the handle begins with 1 at each launch, and the kernel that the body was captured with clears it
    IS(cudaGraphCreate(&graph, 0), cudaSuccess);
    cudaGraphConditionalHandle again;
    IS(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault), cudaSuccess);
    auto loop = condition(again, cudaGraphCondTypeWhile, 1);
    IS(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &loop), cudaSuccess);
    cudaGraph_t body = loop.conditional.phGraph_out[0];
    IS(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal), cudaSuccess);
    count<<<1, 1, 0, stream>>>(cell, by, again, until);
    IS(cudaStreamEndCapture(stream, nullptr), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    CHECK(cell[0] == 12);
    IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    CHECK(cell[0] == 15);
    IS(cudaGraphExecDestroy(exec), cudaSuccess); IS(cudaGraphDestroy(graph), cudaSuccess);
    // if and else, behind the node that decides; the new node takes the place of the one that it follows
    IS(cudaGraphCreate(&graph, 0), cudaSuccess);
    cudaGraphConditionalHandle handle;
    IS(cudaGraphConditionalHandleCreate(&handle, graph), cudaSuccess);
    int* which = cell + 1; int* seen = cell + 2; void* deciding[] = {&which, &handle};
    auto first = launch((void*)decide, deciding);
    IS(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &first), cudaSuccess);
    auto either = condition(handle, cudaGraphCondTypeIf, 2);
    IS(cudaGraphAddNode(&node, graph, &node, nullptr, 1, &either), cudaSuccess);
    for (int i = 0; i < 2; ++i) {
        int value = i + 1; void* arguments[] = {&seen, &value}; cudaGraphNode_t inner;
        auto one = launch((void*)digit, arguments);
        IS(cudaGraphAddNode(&inner, either.conditional.phGraph_out[i], nullptr, 0, &one), cudaSuccess);
    }
    IS(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (int value : {1, 0, 7}) { *which = value; IS(cudaGraphLaunch(exec, stream), cudaSuccess); }
    CHECK(*seen == 121);
    auto wrong = condition(handle, cudaGraphCondTypeWhile, 2);
    IS(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &wrong), cudaErrorInvalidValue);
    """,
    )


def test_memory_of_graphs(tmp_path: Path) -> None:
    _check(
        tmp_path,
        """
    const int n = 500; float *x, h[n]; cudaGraph_t graph; cudaGraphNode_t made, launched, copied, freed; cudaGraphExec_t exec;
    cudaMallocManaged(&x, sizeof h); for (int i = 0; i < n; ++i) x[i] = i;
    unsigned long long used = 7; cudaStream_t stream; cudaStreamCreate(&stream);
    IS(cudaGraphCreate(&graph, 0), cudaSuccess);
    cudaMemAllocNodeParams memory = {}; memory.bytesize = sizeof h;
    IS(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, &memory), cudaErrorInvalidValue);
    memory.poolProps.allocType = cudaMemAllocationTypePinned; memory.poolProps.location = {cudaMemLocationTypeDevice, 0};
    IS(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, &memory), cudaSuccess);
    auto* y = (float*)memory.dptr; int count = n; void* arguments[] = {&x, &y, &count};
    cudaKernelNodeParams kernel = {}; kernel.func = (void*)square; kernel.gridDim = dim3(4); kernel.blockDim = dim3(128);
    kernel.kernelParams = arguments;
    IS(cudaMemset(y, 0, 4), cudaErrorInvalidValue);  // nothing has allocated it
    IS(cudaGraphAddKernelNode(&launched, graph, &made, 1, &kernel), cudaSuccess);
    IS(cudaGraphAddMemcpyNode1D(&copied, graph, &launched, 1, h, y, sizeof h, cudaMemcpyDeviceToHost), cudaSuccess);
    IS(cudaGraphAddMemFreeNode(&freed, graph, &copied, 1, y), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (int turn = 0; turn < 2; ++turn) {
        h[20] = 0; IS(cudaGraphLaunch(exec, stream), cudaSuccess); CHECK(h[20] == 400);
    }
    IS(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used), cudaSuccess); CHECK(used == 0);
    IS(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &used), cudaSuccess); CHECK(used == sizeof h);
    IS(cudaGraphExecDestroy(exec), cudaSuccess); IS(cudaGraphDestroy(graph), cudaSuccess);
    IS(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &used), cudaSuccess); CHECK(used == 0);
    // captured; the program frees what the last launch has left
    float* z; size_t nodes = 0; cudaGraphNode_t first; cudaGraphNodeType type;
    IS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    IS(cudaMallocAsync(&z, sizeof h, stream), cudaSuccess);
    square<<<4, 128, 0, stream>>>(x, z, n);
    IS(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    IS(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess); CHECK(nodes == 2); nodes = 1;
    IS(cudaGraphGetRootNodes(graph, &first, &nodes), cudaSuccess);
    IS(cudaGraphNodeGetType(first, &type), cudaSuccess); CHECK(type == cudaGraphNodeTypeMemAlloc);
    IS(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess); IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    IS(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue); cudaGetLastError();
    IS(cudaGraphExecDestroy(exec), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch), cudaSuccess);
    IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    IS(cudaGraphExecDestroy(exec), cudaSuccess); IS(cudaGraphDestroy(graph), cudaSuccess);
    CHECK(z[30] == 900);
    IS(cudaFree(z), cudaSuccess); IS(cudaFree(z), cudaErrorInvalidValue);
    """,
    )


def test_captures_keep_what_runs_after_what(tmp_path: Path) -> None:
    _check(
        tmp_path,
        """
    int *a, *b; cudaMallocManaged(&a, 4); cudaMallocManaged(&b, 4); *a = *b = 1;
    cudaStream_t one, two; cudaEvent_t fork, join; cudaGraph_t graph, same; cudaGraphExec_t exec; size_t edges, count;
    cudaStreamCreate(&one); cudaStreamCreate(&two); cudaEventCreate(&fork); cudaEventCreate(&join);
    cudaStreamCaptureStatus status; unsigned long long id; cudaGraphNode_t const* after; cudaGraphNode_t extra;
    IS(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal), cudaSuccess);
    digit<<<1, 1, 0, one>>>(a, 2);
    IS(cudaEventRecord(fork, one), cudaSuccess); IS(cudaStreamWaitEvent(two, fork), cudaSuccess);
    digit<<<1, 1, 0, one>>>(a, 3); digit<<<1, 1, 0, two>>>(b, 4);
    IS(cudaEventRecord(join, two), cudaSuccess); IS(cudaStreamWaitEvent(one, join), cudaSuccess);
    IS(cudaStreamGetCaptureInfo(one, &status, &id, &same, &after, nullptr, &count), cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusActive && count == 2);
    IS(cudaGraphAddEmptyNode(&extra, same, after, count), cudaSuccess);
    IS(cudaStreamUpdateCaptureDependencies(one, &extra, nullptr, 1, cudaStreamSetCaptureDependencies), cudaSuccess);
    digit<<<1, 1, 0, one>>>(a, 5);
    IS(cudaStreamEndCapture(one, &graph), cudaSuccess);
    CHECK(graph == same);
    IS(cudaGraphGetEdges(graph, nullptr, nullptr, &edges), cudaSuccess); CHECK(edges == 5);
    IS(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess); IS(cudaGraphLaunch(exec, one), cudaSuccess);
    CHECK(*a == 1235 && *b == 14);
    // the picture names kernels
    IS(cudaGraphDebugDotPrint(graph, "graph.dot", 0), cudaSuccess);
    char text[4096] = {}; FILE* file = fopen("graph.dot", "r"); CHECK(fread(text, 1, sizeof text - 1, file) > 0); fclose(file);
    remove("graph.dot");
    CHECK(std::string(text).find("digraph") == 0 && std::string(text).find("KERNEL|ID 0|digit") != std::string::npos);
    // objects of the program end with the last graph that holds them
    int weight = 5; cudaUserObject_t object;
    IS(cudaUserObjectCreate(&object, &weight, destroy, 1, cudaUserObjectNoDestructorSync), cudaSuccess);
    IS(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove), cudaSuccess);
    IS(cudaGraphExecDestroy(exec), cudaSuccess); IS(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    IS(cudaGraphDestroy(graph), cudaSuccess); CHECK(destroyed == 0);
    IS(cudaGraphExecDestroy(exec), cudaSuccess); CHECK(destroyed == 5);
    """,
    )


def test_attributes_and_parameters_are_what_a_program_has_set(tmp_path: Path) -> None:
    _check(
        tmp_path,
        """
    int* seen; int value = 4; cudaMallocManaged(&seen, 4); *seen = 1; void* arguments[] = {&seen, &value};
    cudaGraph_t graph; cudaGraphNode_t node, other; cudaGraphExec_t exec; cudaGraphCreate(&graph, 0);
    auto what = launch((void*)digit, arguments);
    IS(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &what), cudaSuccess);
    cudaKernelNodeAttrValue wish = {}, back; wish.accessPolicyWindow.hitRatio = 0.25f;
    IS(cudaGraphKernelNodeSetAttribute(node, cudaKernelNodeAttributeAccessPolicyWindow, &wish), cudaSuccess);
    IS(cudaGraphAddNode(&other, graph, &node, nullptr, 1, &what), cudaSuccess);
    IS(cudaGraphKernelNodeCopyAttributes(other, node), cudaSuccess);
    IS(cudaGraphKernelNodeGetAttribute(other, cudaKernelNodeAttributeAccessPolicyWindow, &back), cudaSuccess);
    CHECK(back.accessPolicyWindow.hitRatio == 0.25f);
    IS(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess); IS(cudaGraphLaunch(exec, 0), cudaSuccess); CHECK(*seen == 144);
    value = 5; IS(cudaGraphExecNodeSetParams(exec, other, &what), cudaSuccess);
    IS(cudaGraphLaunch(exec, 0), cudaSuccess); CHECK(*seen == 14445);
    cudaGraphNodeParams found = {}; IS(cudaGraphNodeGetParams(node, &found), cudaSuccess);
    CHECK(found.type == cudaGraphNodeTypeKernel && *(int*)found.kernel.kernelParams[1] == 4);
    cudaStream_t stream, copy; cudaStreamCreate(&stream); cudaStreamCreate(&copy);
    cudaStreamAttrValue window = {}, got; window.accessPolicyWindow.num_bytes = 64;
    IS(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window), cudaSuccess);
    IS(cudaStreamCopyAttributes(copy, stream), cudaSuccess);
    IS(cudaStreamGetAttribute(copy, cudaStreamAttributeAccessPolicyWindow, &got), cudaSuccess);
    CHECK(got.accessPolicyWindow.num_bytes == 64);
    """,
    )


def test_what_the_driver_and_memory_are_asked(tmp_path: Path) -> None:
    body = """
    void* found; cudaDriverEntryPointQueryResult how; int *p, h[4] = {1, 2, 3, 4}, value;
    cudaMallocManaged(&p, sizeof h);
    IS(cudaGetDriverEntryPoint("cuMemcpyHtoD", &found, cudaEnableDefault, &how), cudaSuccess);
    CHECK(how == cudaDriverEntryPointSuccess);
    CHECK(((int (*)(unsigned long long, void const*, size_t))found)((unsigned long long)p, h, sizeof h) == 0 && p[3] == 4);
    IS(cudaGetDriverEntryPointByVersion("cuNothing", &found, 12000, cudaEnableDefault, &how), cudaSuccess);
    CHECK(!found && how == cudaDriverEntryPointSymbolNotFound);
    IS(cudaGetDriverEntryPoint("cuNothing", &found, cudaEnableDefault), cudaErrorSymbolNotFound);
    IS(cudaMemAdvise(p, sizeof h, cudaMemAdviseSetReadMostly, {cudaMemLocationTypeDevice, 0}), cudaSuccess);
    IS(cudaMemPrefetchAsync(p, sizeof h, cudaCpuDeviceId), cudaSuccess);
    int most, last; void* values[] = {&most, &last}; size_t sizes[] = {4, 4};
    cudaMemRangeAttribute asked[] = {cudaMemRangeAttributeReadMostly, cudaMemRangeAttributeLastPrefetchLocation};
    IS(cudaMemRangeGetAttributes(values, sizes, asked, 2, p, sizeof h), cudaSuccess);
    CHECK(most == 1 && last == cudaCpuDeviceId);
    IS(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributePreferredLocation, p, 4), cudaSuccess);
    CHECK(value == cudaInvalidDeviceId);
    unsigned flags; int* pinned; cudaHostAlloc(&pinned, 64, cudaHostAllocMapped);
    IS(cudaHostGetFlags(&flags, pinned), cudaSuccess); CHECK(flags == cudaHostAllocMapped);
    IS(cudaHostGetFlags(&flags, h), cudaErrorInvalidValue);
    int* targets[] = {p, p + 2}; int const* sources[] = {h + 2, h}; size_t bytes[] = {8, 8};
    IS(cudaMemcpyBatchAsync(targets, sources, bytes, 2, nullptr, nullptr, 0, nullptr), cudaSuccess);
    CHECK(p[0] == 3 && p[3] == 2);
    int* seen = p; value = 6; void* arguments[] = {&seen, &value}; cudaKernel_t kernel; *seen = 1;
    IS(cudaGetKernel(&kernel, (void const*)digit), cudaSuccess);
    IS(cudaLaunchKernel((void const*)kernel, dim3(1), dim3(1), arguments, 0, 0), cudaSuccess); CHECK(*seen == 16);
    IS(cudaLaunchCooperativeKernel((void const*)digit, dim3(1), dim3(1), arguments, 0, 0), cudaSuccess); CHECK(*seen == 166);
    IS(cudaLaunchCooperativeKernel((void const*)digit, dim3(1 << 20), dim3(1), arguments, 0, 0), cudaErrorCooperativeLaunchTooLarge);
    IS(cudaDeviceGetAttribute(&value, cudaDevAttrCooperativeLaunch, 0), cudaSuccess); CHECK(value == 1);
    cudaLaunchAttribute together{}; together.id = cudaLaunchAttributeCooperative; together.val.cooperative = 1;
    cudaLaunchConfig_t config{}; config.gridDim = config.blockDim = 1; config.attrs = &together; config.numAttrs = 1;
    IS(cudaLaunchKernelExC(&config, (void const*)digit, arguments), cudaSuccess); CHECK(*seen == 1661);
    config.gridDim = 1 << 20;
    IS(cudaLaunchKernelEx(&config, digit, seen, 6), cudaErrorCooperativeLaunchTooLarge);
    """
    _check(tmp_path, body)


def test_captures_that_are_wrong(tmp_path: Path) -> None:
    """They give no graph, and the stream works as before."""
    _check(
        tmp_path,
        """
    int *seen, three = 3; cudaGraph_t graph; cudaStream_t first, second; cudaEvent_t fork, join; cudaStreamCaptureStatus status;
    cudaMallocManaged(&seen, sizeof(int)); *seen = 0;
    cudaStreamCreate(&first); cudaStreamCreate(&second); cudaEventCreate(&fork); cudaEventCreate(&join);
    auto begin = [&] { IS(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal), cudaSuccess); };
    auto end = [&](cudaError_t wanted) {
        graph = cudaGraph_t(&three);
        IS(cudaStreamEndCapture(first, &graph), wanted);
        CHECK(!graph == (wanted != cudaSuccess));
        digit<<<1, 1, 0, first>>>(seen, 0);
        IS(cudaStreamSynchronize(first), cudaSuccess);
    };
    // asking whether it has ended
    begin();
    IS(cudaStreamQuery(first), cudaErrorStreamCaptureUnsupported);
    IS(cudaStreamIsCapturing(first, &status), cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    end(cudaErrorStreamCaptureInvalidated);
    begin(); IS(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported); end(cudaErrorStreamCaptureInvalidated);
    IS(cudaDeviceSynchronize(), cudaSuccess);
    begin(); cudaEventRecord(fork, first); IS(cudaEventSynchronize(fork), cudaErrorCapturedEvent);
    end(cudaErrorStreamCaptureInvalidated);
    IS(cudaEventSynchronize(fork), cudaSuccess);
    // a stream that does not come back
    begin(); cudaEventRecord(fork, first); cudaStreamWaitEvent(second, fork, 0); digit<<<1, 1, 0, second>>>(seen, 1);
    end(cudaErrorStreamCaptureUnjoined);
    IS(cudaStreamSynchronize(second), cudaSuccess);
    // one without work of its own need not
    begin(); cudaEventRecord(fork, first); cudaStreamWaitEvent(second, fork, 0); digit<<<1, 1, 0, first>>>(seen, 1);
    end(cudaSuccess);
    IS(cudaGraphDestroy(graph), cudaSuccess);
    // another stream ends it
    begin(); cudaEventRecord(fork, first); cudaStreamWaitEvent(second, fork, 0);
    IS(cudaStreamEndCapture(second, &graph), cudaErrorStreamCaptureUnmatched);
    IS(cudaStreamIsCapturing(first, &status), cudaSuccess); CHECK(status == cudaStreamCaptureStatusNone);
    // the stream goes
    begin(); IS(cudaStreamDestroy(first), cudaSuccess); IS(cudaDeviceSynchronize(), cudaSuccess);
    CHECK(*seen == 0);
""",
    )


TABLE = """
__constant__ int table[4];
__global__ void read(int* out) { out[threadIdx.x] = table[threadIdx.x]; }
"""


def test_copies_of_symbols_are_captured(tmp_path: Path) -> None:
    _check(
        tmp_path,
        """
    int *out, values[4] = {1, 2, 3, 4}, back[2]; cudaGraph_t graph; cudaGraphExec_t exec; cudaStream_t stream;
    cudaMallocManaged(&out, sizeof values); cudaStreamCreate(&stream);
    IS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    IS(cudaMemcpyToSymbolAsync(table, values, sizeof values, 0, cudaMemcpyHostToDevice, stream), cudaSuccess);
    read<<<1, 4, 0, stream>>>(out);
    IS(cudaMemcpyFromSymbolAsync(back, table, 8, 8, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    IS(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    IS(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    values[3] = 7;
    IS(cudaGraphLaunch(exec, stream), cudaSuccess); IS(cudaStreamSynchronize(stream), cudaSuccess);
    CHECK(out[0] == 1 && out[3] == 7 && back[0] == 3 && back[1] == 7);
    IS(cudaMemcpyToSymbolAsync(table, values, sizeof values + 4), cudaErrorInvalidValue);
    IS(cudaMemcpyFromSymbolAsync(back, table, 8), cudaSuccess); CHECK(back[1] == 2);
""",
        TABLE,
    )
