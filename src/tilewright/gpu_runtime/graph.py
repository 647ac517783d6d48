"""A bound launch as a CUDA graph of one kernel, which the driver queues sooner than a launch."""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable
from typing import Any

from tilewright.backends import native
from tilewright.backends.native.body import Body
from tilewright.backends.native.code import caller
from tilewright.gpu_runtime import driver
from tilewright.gpu_runtime.launch_code import ATTRIBUTE, CONFIG, LAUNCH, PROGRAMMATIC_SERIALIZATION

_NODE = struct.Struct("=Q28s4xQ24x")  # the kernel; grid, block and shared bytes; parameters
_OF_THE_DRIVER = (0, 1, 2)  # streams that are one of whichever context is current


class Graph:
    """The launch that ``queue`` makes of what stands for cuLaunchKernelEx, with copies of its parameters. CudaError
    when the driver refuses."""

    def __init__(self, queue: Callable[[Any], object], device: driver.Device) -> None:
        graph, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        with driver.beside_captures(), device.current():
            driver.call("cuGraphCreate", ctypes.byref(graph), 0)
            try:
                queue(LAUNCH(lambda config, kernel, pointers, _: _add(graph, config, kernel, pointers)))
                driver.call("cuGraphInstantiateWithFlags", ctypes.byref(self.handle), graph, ctypes.c_ulonglong(0))
            finally:
                driver.call("cuGraphDestroy", graph)
        # At the end of the process the driver frees all.
        weakref.finalize(self, _destroy, self.handle).atexit = False


def _add(graph: ctypes.c_void_p, config: int, kernel: int, pointers: int) -> int:
    """Add to ``graph`` what cuLaunchKernelEx is given; the error of the driver."""
    node, words = ctypes.c_void_p(), ctypes.string_at(config, CONFIG.size)
    *_, attributes, count = CONFIG.unpack(words)
    parameters = ctypes.create_string_buffer(_NODE.pack(kernel, words[: 7 * 4], pointers))
    try:
        driver.call("cuGraphAddKernelNode_v2", ctypes.byref(node), graph, None, ctypes.c_size_t(0), parameters)
        for number, value in ATTRIBUTE.iter_unpack(ctypes.string_at(attributes, count * ATTRIBUTE.size)):
            if number != PROGRAMMATIC_SERIALIZATION:  # there is none in the graph
                driver.call("cuGraphKernelNodeSetAttribute", node, number, value)
    except driver.CudaError as e:
        return e.code
    return 0


def _destroy(graph: ctypes.c_void_p) -> None:
    with driver.beside_captures():
        driver.function("cuGraphExecDestroy")(graph)  # which may be gone with its device


def launcher(
    queue: Callable[[Any], object], stream: int, on: driver.Device, otherwise: Callable[[], None]
) -> Callable[[], None]:
    """A function that queues on ``stream`` the launch of a ``Graph``; ``otherwise`` does, or says why that is not
    possible, where a graph cannot: while another graph is recorded, or where the stream is one of another context."""
    if stream not in _OF_THE_DRIVER and not on.owns(stream):
        return otherwise
    try:
        graph = Graph(queue, on)
    except driver.CudaError:
        return otherwise
    functions = [driver.address(n) for n in ("cuStreamIsCapturing", "cuCtxGetCurrent", "cuGraphLaunch")]
    words = (*functions, stream, on.context, graph.handle.value or 0, 0)
    native.compiler()
    return caller(_queue, words, otherwise, graph)


def _queue(body: Body, record: str) -> None:
    """A graph must not be launched by two threads at once; the last word of ``record`` says that one does."""
    *words, busy = (8 * i for i in range(7))
    capturing, current, launch, stream, context, graph = (body.load("ptr", record, at) for at in words)
    found = body.stack("i64")
    body.require_equal("i64", body.load("i64", record, busy), 0)
    body.store("i64", 0, found)
    body.require_equal("i32", body.let(f"call i32 {capturing}(ptr {stream}, ptr {found})"), 0)
    body.require_equal("i64", body.load("i64", found), 0)
    body.require_equal("i32", body.let(f"call i32 {current}(ptr {found})"), 0)
    body.require_equal("ptr", body.load("ptr", found), context)
    body.store("i64", 1, record, busy)
    state = body.call("PyEval_SaveThread")
    code = body.let(f"call i32 {launch}(ptr {graph}, ptr {stream})")
    body.call("PyEval_RestoreThread", state)
    body.store("i64", 0, record, busy)
    body.require_equal("i32", code, 0)
