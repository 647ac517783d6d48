"""A CUDA driver that only looks at what it is asked to launch."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

from tilewright.backends.base import Capabilities
from tilewright.gpu_runtime.artifact import Artifact, GpuBinary
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.executable import FIRST, GpuExecutable
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.runtime.variants import MultiVersioned

Launch = tuple[tuple[int, int, int], int, list[bytes]]
_POINTER, _WORD, _INT = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int
_ENCODE = ctypes.CFUNCTYPE(_INT, _POINTER, _INT, _INT, _WORD, *[_POINTER] * 4, *[_INT] * 4)
_REPLACE = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER)
_AXES = 5  # of the largest tensor map
_MAP = struct.Struct(f"={1 + 2 * _AXES}Q")
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_ONE, _TWO = (ctypes.CFUNCTYPE(_INT, *[_POINTER] * n) for n in (1, 2))
_SEND = ctypes.CFUNCTYPE(_INT, _WORD, _POINTER, _WORD, _POINTER)
_BORROW, _FREE = ctypes.CFUNCTYPE(_INT, _POINTER, _WORD, _POINTER, _POINTER), ctypes.CFUNCTYPE(_INT, _WORD, _POINTER)


class Graph(NamedTuple):
    """One of a single kernel."""

    grid: tuple[int, int, int]
    parameters: list[bytes]
    attributes: list[tuple[int, bytes]]
    form: tuple[int, int]


class Driver:
    """A driver that looks at each launch: grid, stream and parameters, and the number of attributes. ``codes`` are
    what its next calls return."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.attributes: list[int] = []
        self.forms: list[tuple[int, int]] = []  # the handle of each launch, and its bytes of shared memory
        self.processors = 132
        self.version = 12080
        self.codes: list[int] = []
        self.index = 0
        self.entered = 0  # how often a context was made current
        self.maps: list[tuple[Any, ...]] = []  # what was encoded
        self.cuLaunchKernelEx = _LAUNCH(self._launch)
        self.cuTensorMapEncodeTiled = _ENCODE(self._encode)
        self.cuTensorMapReplaceAddress = _REPLACE(self._replace)
        self.context = 4096
        self.capturing = False
        self.launched_graphs = 0
        self.created = 0
        self.mode = 0  # of captures, for this thread
        self.graphs: dict[int, Graph] = {}
        self.borrowed: dict[int, Any] = {}  # memory by its address
        self.lent: list[tuple[int, int]] = []  # addresses and sizes, of all that was
        self.pool = ctypes.c_void_p(8192)
        self.cuMemAllocFromPoolAsync, self.cuMemFreeAsync = _BORROW(self._lend), _FREE(self._take_back)
        self.cuMemcpyHtoDAsync_v2 = _SEND(self._send)
        self.cuStreamIsCapturing = _TWO(self._is_capturing)
        self.cuCtxGetCurrent = _ONE(self._get_current)
        self.cuGraphLaunch = _TWO(self._launch_graph)

    def _launch(self, config: Any, handle: Any, pointers: Any, _: None) -> int:
        code = self.codes.pop(0) if self.codes else 0
        if not code:
            x, y, z, *_, shared, stream, _place, count = struct.unpack("=7I4xQQI", ctypes.string_at(config, 52))
            self.attributes.append(count)
            self.forms.append((handle, shared))
            self.launches.append(((x, y, z), stream, _parameters(pointers)))
        return code

    def _is_capturing(self, stream: int, state: int) -> int:
        ctypes.c_int.from_address(state).value = int(self.capturing)
        return 0

    def _get_current(self, place: int) -> int:
        ctypes.c_uint64.from_address(place).value = self.context
        return 0

    def cuDriverGetVersion(self, found: Any) -> int:
        found._obj.value = self.version
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> int:
        mode._obj.value, self.mode = self.mode, mode._obj.value
        return 0

    def cuGraphCreate(self, graph: Any, flags: int) -> int:
        assert self.mode == 2
        self.created += 1
        graph._obj.value = self.created
        return 0

    def cuGraphAddKernelNode_v2(self, node: Any, graph: Any, before: None, count: Any, parameters: Any) -> int:
        handle, x, y, z, *_, shared, pointers = struct.unpack_from("=Q7I4xQ", parameters)
        self.graphs[graph.value] = Graph((x, y, z), _parameters(pointers), [], (handle, shared))
        node._obj.value = graph.value
        return 0

    def cuGraphKernelNodeSetAttribute(self, node: Any, number: int, value: bytes) -> int:
        self.graphs[node.value].attributes.append((number, value))
        return 0

    def cuGraphInstantiateWithFlags(self, made: Any, graph: Any, flags: Any) -> int:
        made._obj.value = graph.value
        return 0

    def cuGraphDestroy(self, graph: Any) -> int:
        return 0

    def cuGraphExecDestroy(self, made: Any) -> int:
        assert self.mode == 2
        self.graphs.pop(made.value, None)  # not there if it is of the driver of another test
        return 0

    def _launch_graph(self, made: int, stream: int | None) -> int:
        code = self.codes.pop(0) if self.codes else 0
        if not code:
            graph = self.graphs[made]
            self.attributes.append(len(graph.attributes))
            self.forms.append(graph.form)
            self.launches.append((graph.grid, stream or 0, graph.parameters))
            self.launched_graphs += 1
        return code

    def owns(self, stream: int) -> bool:
        return True

    def _encode(
        self, place: int, kind: int, rank: int, base: int, extents: int, steps: int, box: int, ones: int, *how: int
    ) -> int:
        def numbers(of: Any, address: int, count: int) -> list[int]:
            return list((of * count).from_address(address))

        assert place % 64 == 0
        sizes = numbers(ctypes.c_uint64, extents, rank), numbers(ctypes.c_uint64, steps, rank - 1)
        boxes = numbers(ctypes.c_uint32, box, rank), numbers(ctypes.c_uint32, ones, rank)
        self.maps.append((kind, rank, base, *sizes, *boxes, how))
        ctypes.memmove(place, encoded(base, *sizes), _MAP.size)
        return self.codes.pop(0) if self.codes else 0

    def _replace(self, place: int, base: int) -> int:
        ctypes.c_uint64.from_address(place).value = base
        return 0

    def _lend(self, place: int, size: int, pool: int, stream: int | None) -> int:
        assert pool == self.pool.value
        memory = ctypes.create_string_buffer(size + 128)
        address = ctypes.addressof(memory) + -ctypes.addressof(memory) % 128
        self.borrowed[address] = memory, stream
        self.lent.append((address, size))
        ctypes.c_uint64.from_address(place).value = address
        return self.codes.pop(0) if self.codes else 0

    def _take_back(self, address: int, stream: int | None) -> int:
        assert self.borrowed.pop(address)[1] == stream  # in the order of the launch
        return 0

    def _send(self, to: int, source: int, size: int, stream: int | None) -> int:
        ctypes.memmove(to, source, size)
        return 0

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        self.entered += 1
        yield

    def cuGetErrorString(self, code: int, text: Any) -> int:
        return 0


def _in_place(d: Descriptor) -> Descriptor:
    return replace(d, needs_realign=False, transposed=False)


def _parameters(pointers: int) -> list[bytes]:
    addresses = (ctypes.c_uint64 * 4).from_address(pointers)
    return [ctypes.string_at(a, 8) for a in addresses if a]


def encoded(base: int, extents: Sequence[int], steps: Sequence[int]) -> bytes:
    """What this driver writes for a tensor map."""
    return _MAP.pack(base, *(*extents, *[0] * _AXES)[:_AXES], *(*steps, *[0] * _AXES)[:_AXES])


class Compiler:
    """A backend whose executables are those that ``make`` gives for a function and a variant, None at first.

    Each has a target of its own: kernels that launches of others run are kept by target for as long as the process runs.
    """

    name, device = "triton", "cuda"
    capabilities = Capabilities(direct_launch=True, variants=True)
    _numbers = itertools.count()

    def __init__(self, make: Callable[[Any, Any], Any]) -> None:
        self.compile = lambda function, options, variant=None: make(function, variant)
        self._number = next(self._numbers)  # an address would be that of a later one, too

    def target(self) -> str:
        return f"tests {self._number}"


def versions(function: Any, make: Callable[[Any, Any], Any]) -> MultiVersioned:
    """What launches ``function`` as ``make`` compiles it."""
    compiler: Any = Compiler(make)
    return MultiVersioned(make(function, None), function, compiler, {})


def executable(
    formats: tuple[str, ...],
    on: Any = None,
    maps: Sequence[tuple[Descriptor, dict[str, Any]]] = (),
    depths: tuple[int, int] = (0, 0),
    shared: int = 0,
    copier: Any = None,
    local_bytes: int = 0,
) -> MultiVersioned:
    """A kernel with numbers of these formats and maps, and as many parameters added by the compiler as make four. The
    handles of its variants are their stages. ``copier`` is the kernel that copies arrays. With ``local_bytes`` of a
    block the last number is the address of those."""
    function: Any = SimpleNamespace(params=[SimpleNamespace(role="scalar")] * len(formats), name="kernel")

    def loaded(variant: Constraints, handle: int, **chosen: Any) -> GpuExecutable:
        described = [(d if variant.realign else _in_place(d), box) for d, box in maps if variant.descriptors]
        binary = GpuBinary(b"", "kernel", 128, 1, chosen.pop("shared", 0), tuple(meta for _, meta in described))
        descriptors, hidden = tuple(d for d, _ in described), max(4 - len(formats), 0)
        made = GpuExecutable(function, Artifact(binary, formats, descriptors, hidden, **chosen), variant, dict)
        for device in (0, 1):
            found: Any = SimpleNamespace(handle=ctypes.c_void_p(handle or 16 + device), device=on or Driver())
            made._loaded[device] = found
        return made

    def make(of: Any, variant: Constraints | None) -> Any:
        if of is not function:
            return copier
        if variant is not None and variant.stages:
            return loaded(variant, variant.stages, shared=100 * variant.stages)
        return loaded(variant or FIRST, 0, shared=shared, depths=depths, local_bytes=local_bytes)

    return versions(function, make)
