"""Machine code that queues a launch of a kernel, made of one description of its parameters: launches from Python, from
machine code and from other programs enter it, and graphs are made by it."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tilewright.backends import native
from tilewright.backends.native import Embedded, LaunchStub, embedded_function
from tilewright.backends.native.body import Body
from tilewright.backends.native.code import machine_code, stub_code
from tilewright.gpu_runtime import abi, driver
from tilewright.gpu_runtime.artifact import Artifact
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.gpu_runtime.tables import TableMemory
from tilewright.gpu_runtime.tensormap import MapEncoder, memory_for_nothing
from tilewright.ir.gpu_parameters import Descriptor

# CUlaunchConfig: grid, block, shared bytes, stream, attributes, their number. CUlaunchAttribute: id, value.
CONFIG, ATTRIBUTE = struct.Struct("=7I4xQQI4x"), struct.Struct("=I4x64s")
_STREAM, _COUNT = 32, 48  # where the stream is, and the number of attributes
_CLUSTER_DIMENSION, _CLUSTER_SPREAD, PROGRAMMATIC_SERIALIZATION = 4, 5, 6
_PROGRAMMATIC_IN_GRAPHS = 12030  # the first version of CUDA whose graphs have programmatic dependent launches
MANY_BLOCKS = 2048  # of a grid whose CTAs run several each
_CALLED = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 4)
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)  # cuLaunchKernelEx, and what stands for it
Blocks = tuple[int, int, int]  # along each axis of a grid

# What ``LaunchCode`` gives below 0: nothing has happened. Below these stand the numbers of choices that were not there.
PYTHON, UNMAPPED, EMPTY, CHOICE = -1, -2, -3, -4
ENCODING = 1 << 32  # is added to errors of encoding a tensor map


class Choice(NamedTuple):
    """Where another variant of a kernel is launched: with as many blocks as are ``joined``, if that keeps so many per
    cent of SMs ``busy``, or else where the number of blocks, or the one ``parameter``, is at most ``most``. None
    for the kernel itself."""

    variant: Constraints | None
    joined: Blocks | None = None
    busy: int = 0
    most: int = 0
    parameter: int | None = None

    def suits(self, grid: Blocks, blocks: int, processors: int, values: Sequence[Any] = ()) -> bool:
        """Whether it is for a launch with so many ``blocks`` of the kernel, with ``values`` where they are known."""
        if self.joined is not None:
            ctas = math.prod(grid) // math.prod(self.joined)
            whole = all(n % each == 0 for n, each in zip(grid, self.joined))
            return whole and 100 * ctas >= self.busy * processors * -(-ctas // processors)
        if self.parameter is None:
            return blocks <= self.most
        return bool(values) and values[self.parameter] <= self.most

    def emit(self, body: Body, blocks: str, processors: int) -> str:
        """``suits``, of the grid and the values of a launch."""
        if self.joined is None:
            number = blocks if self.parameter is None else body.load("i64", "%values", 8 * self.parameter)
            return body.let(f"icmp sle i64 {number}, {body.number(self.most)}")
        ctas = body.let(f"udiv i64 {_product(body)}, {body.number(math.prod(self.joined))}")
        more = body.let(f"add i64 {ctas}, {body.number(processors - 1)}")
        rounds = body.let(f"udiv i64 {more}, {body.number(processors)}")
        needed = body.let(f"mul i64 {rounds}, {body.number(self.busy * processors)}")
        busy = body.let(f"icmp uge i64 {body.let(f'mul i64 {ctas}, 100')}, {needed}")
        for axis, each in zip("xyz", self.joined):
            rest = body.let(f"urem i64 %{axis}, {body.number(each)}")
            busy = body.let(f"and i1 {busy}, {body.let(f'icmp eq i64 {rest}, 0')}")
        return busy


class ParameterLayout:
    """The parameters of a kernel in their order, and its configuration but for grid and stream."""

    def __init__(self, artifact: Artifact) -> None:
        binary = artifact.binary
        self.artifact = artifact
        descriptors = artifact.descriptors
        self.words = any(d.needs_realign for d in descriptors)  # with arrays themselves, behind the numbers
        if self.words:
            descriptors = _given_by_words(descriptors, len(artifact.formats))
        self.maps = [MapEncoder(d, box) for d, box in zip(descriptors, binary.descriptors)]
        self.pairs = any(d.pairs for d in descriptors)  # clusters of 2, where the grid's width is even
        self.ctas = binary.num_ctas * artifact.ctas_of_block  # of a block of the grid
        beside = binary.dependent_launch and driver.version() >= _PROGRAMMATIC_IN_GRAPHS
        apart = [ATTRIBUTE.pack(PROGRAMMATIC_SERIALIZATION, struct.pack("=i", 1))] if beside else []
        attributes = [*apart, *_attributes(2 if self.pairs else binary.num_ctas)]
        self.attribute_count, self.attributes = len(attributes), ctypes.create_string_buffer(b"".join(attributes))
        self.attributes_apart = len(apart)  # how many a grid without clusters has

    def emit(self, body: Body, handle: str, nothing: str, error: str) -> str:
        """What the driver says to the launch of the kernel ``handle``. ``nothing`` and ``error`` are for its maps."""
        artifact, blocks = self.artifact, self.artifact.blocks_of_cta
        numbers = [body.at("%values", 8 * i) for i in range(len(artifact.formats))]
        for table in artifact.tables:
            if table.by_value:
                numbers[table.index] = body.load("ptr", numbers[table.index])
        if blocks > 1:
            numbers[-1] = body.stack("i64")
            body.store("i64", "%x", numbers[-1])
        maps = [encoder.emit(body, nothing, error) for encoder in self.maps]
        null = body.stack("i64")
        body.store("i64", 0, null)
        parameters = [*numbers, *maps, *[null] * artifact.hidden]
        pointers = body.stack(f"[{max(len(parameters), 1)} x ptr]")
        for i, parameter in enumerate(parameters):
            body.store("ptr", parameter, pointers, 8 * i)
        given = f"ptr {self._configuration(body)}, ptr {handle}, ptr {pointers}, ptr null"
        return body.let(f"call i32 %launch({given})")

    def _configuration(self, body: Body) -> str:
        artifact, binary = self.artifact, self.artifact.binary
        config, blocks = body.stack(f"[{CONFIG.size} x i8]"), self.artifact.blocks_of_cta
        known = CONFIG.pack(0, 0, 0, binary.threads, 1, 1, binary.shared_bytes, 0, 0, self.attribute_count)
        for i, (word,) in enumerate(struct.iter_unpack("=Q", known)):
            body.store("i64", body.number(word), config, 8 * i)
        body.store("ptr", body.memory(self.attributes), config, _STREAM + 8)
        body.store("i64", "%stream", config, _STREAM)
        x, y, z = (body.let(f"udiv i64 %{axis}, {body.number(n)}") for axis, n in zip("xyz", artifact.joined))
        ctas = body.let(f"mul i64 {x}, {body.number(self.ctas)}")
        if blocks > 1:
            many = body.let(f"icmp ugt i64 {_product(body)}, {MANY_BLOCKS}")
            many = body.let(f"and i1 {many}, {body.let(f'icmp uge i64 %x, {body.number(blocks)}')}")
            fewer = body.let(f"udiv i64 {body.let(f'add i64 %x, {body.number(blocks - 1)}')}, {body.number(blocks)}")
            ctas = body.let(f"select i1 {many}, i64 {fewer}, i64 {ctas}")
        for i, extent in enumerate((ctas, y, z)):
            body.store("i32", body.let(f"trunc i64 {extent} to i32"), config, 4 * i)
        if self.pairs:
            odd = body.let(f"icmp ne i64 {body.let(f'and i64 {x}, 1')}, 0")
            count = body.let(f"select i1 {odd}, i32 {self.attributes_apart}, i32 {self.attribute_count}")
            body.store("i32", count, config, _COUNT)
        return config


class LaunchCode:
    """The function ``i64 start(ptr launch, ptr values, i64 x, i64 y, i64 z, i64 stream)`` of a loaded kernel, which
    calls ``launch`` as cuLaunchKernelEx is called. It gives 0, an error of the driver, or what is less than 0.

    ``values`` are the parameters, 8 bytes each, as the kernel takes them: of tables by value the addresses, and behind
    them address, extents and strides of each array whose layout has ``words``. It calls nothing of Python.
    """

    def __init__(
        self,
        layout: ParameterLayout,
        kernel: driver.LoadedKernel | None,
        choices: Sequence[Choice] = (),
        least: Sequence[tuple[int, int]] = (),
        processors: int = 1,
    ) -> None:
        self.device = None if kernel is None else kernel.device
        self.choices = choices
        self._nothing = ctypes.c_uint64()
        self._variants = (ctypes.c_uint64 * max(len(choices), 1))()  # their machine code, where it is there
        body = Body()
        for i, bound in least:
            body.require(body.let(f"icmp sge i64 {body.load('i64', '%values', 8 * i)}, {bound}"))
        joined = body.number(math.prod(layout.artifact.joined))
        blocks = body.let(f"udiv i64 {_product(body)}, {joined}") if choices else ""
        for i, choice in enumerate(choices):
            chosen = "own" if choice.variant is None else f"choice{i}"
            body.unless(choice.emit(body, blocks, processors), chosen)
        body.jump("no" if kernel is None else "own")
        if kernel is not None:
            body.label("own")
            nothing, error = body.load("i64", body.memory(self._nothing)), body.stack("i32")
            code = layout.emit(body, body.external(kernel.handle.value or 0), nothing, error)
            body.do(f"ret i64 {body.let(f'zext i32 {code} to i64')}")
            if layout.maps:
                _refuse_maps(body, error)
        for i, choice in enumerate(choices):
            if choice.variant is not None:
                self._launch_variant(body, i)
        text = body.named(f"i64 @start({_given('%launch')})", f"no:\nret i64 {PYTHON}")
        try:
            self._code = machine_code("start", text, body.addresses)
        except native.NotCompiled:
            native.compiler()  # loads LLVM
            self._code = machine_code("start", text, body.addresses)
        self.address: int = self._code.address("start")
        self._start, self._kept = _CALLED(self.address), (body.kept, layout, kernel)
        self._others: dict[int, LaunchCode] = {}

    def _launch_variant(self, body: Body, i: int) -> None:
        """Launch the variant of choice ``i``. What that needs itself, it says when Python launches it."""
        body.label(f"choice{i}")
        variant, missing = body.load("ptr", body.memory(self._variants), 8 * i), CHOICE - i
        body.branch(body.let(f"icmp eq ptr {variant}, null"), f"missing{i}", f"there{i}")
        body.label(f"missing{i}")
        body.do(f"ret i64 {missing}")
        body.label(f"there{i}")
        code = body.let(f"call i64 {variant}({_given('%launch')})")
        nested = body.let(f"icmp slt i64 {code}, 0")
        body.do(f"ret i64 {body.let(f'select i1 {nested}, i64 {missing}, i64 {code}')}")

    def start(self, values: Any, grid: Blocks, stream: int, launch: Any) -> int:
        """What machine code gives, from Python."""
        found = int(self._start(launch, values, *grid, stream))
        if found == EMPTY and self.device is not None:
            self._nothing.value = memory_for_nothing(self.device.index)
            return self.start(values, grid, stream, launch)
        return found

    def add(self, i: int, variant: LaunchCode) -> None:
        """Let launches that need it take the ``variant`` of choice ``i``."""
        self._others[i], self._variants[i] = variant, variant.address


def launch_stub(code: LaunchCode, formats: Sequence[str], lists: Mapping[int, TableMemory]) -> LaunchStub:
    """The entry of a kernel with parameters of these ``formats``. ``lists`` has, for the parameters that are tables by
    value, the memory of one that differs by addresses."""
    body = Body()
    launch, start = body.load("ptr", "%record"), body.load("ptr", "%record", 8)
    abi.narrow(body, formats)
    for i, table in lists.items():
        body.store("ptr", table.emit(body, body.load("ptr", "%values", 8 * i)), "%values", 8 * i)
    state = body.call("PyEval_SaveThread")
    failed = body.let(f"icmp ne i64 {body.let(f'call i64 {start}({_given(launch)})')}, 0")
    body.call("PyEval_RestoreThread", state)
    record = (ctypes.c_uint64 * 2)(driver.address("cuLaunchKernelEx"), code.address)
    return LaunchStub(stub_code(body, body.let(f"zext i1 {failed} to i32")), record, (*body.kept, code))


def embedded(name: str, formats: Sequence[str], codes: Sequence[LaunchCode]) -> Embedded:
    """The function ``i64 @name(ptr values, i64 x, i64 y, i64 z, i64 stream, i64 threads, ptr schedule, ptr pool)``,
    which queues a launch on a stream of any device that has one of ``codes``, and calls nothing of Python."""
    body = Body()
    context = body.stack("ptr")
    body.branch(body.let(f"icmp eq i64 {_product(body)}, 0"), "done", "begin")
    body.label("begin")
    body.require_equal("i32", _call(body, "cuStreamGetCtx", "i64 %stream", f"ptr {context}"), 0)
    current, start = body.load("ptr", context), "null"
    for code in codes:
        here = body.let(
            f"icmp eq ptr {current}, {body.external(code.device.context if code.device is not None else 0)}"
        )
        start = body.let(f"select i1 {here}, ptr {body.external(code.address)}, ptr {start}")
    body.require(body.let(f"icmp ne ptr {start}, null"))
    body.require_equal("i32", _call(body, "cuCtxPushCurrent_v2", f"ptr {current}"), 0)
    abi.narrow(body, formats)
    launch = body.external(driver.address("cuLaunchKernelEx"))
    failed = body.let(f"call i64 {start}({_given(launch)})")
    _call(body, "cuCtxPopCurrent_v2", f"ptr {context}")
    body.require_equal("i64", failed, 0)
    body.jump("done")
    text = embedded_function(name, body, "no:\nret i64 1\ndone:\nret i64 0")
    return Embedded(text, "", (), (*body.kept, *codes))


def _given(launch: str) -> str:
    """What ``start`` is given with ``launch``."""
    return f"ptr {launch}, ptr %values, i64 %x, i64 %y, i64 %z, i64 %stream"


def _refuse_maps(body: Body, error: str) -> None:
    """Where ``MapEncoder.emit`` goes to."""
    body.label("unencoded")
    code = body.let(f"zext i32 {body.load('i32', error)} to i64")
    body.do(f"ret i64 {body.let(f'or i64 {code}, {ENCODING}')}")
    for label, number in (("empty", EMPTY), ("unmapped", UNMAPPED)):
        body.label(label)
        body.do(f"ret i64 {number}")


def _product(body: Body) -> str:
    """The number of blocks of the grid."""
    return body.let(f"mul i64 {body.let('mul i64 %x, %y')}, %z")


def _call(body: Body, name: str, *arguments: str) -> str:
    """The error number that a function of the driver gives."""
    return body.let(f"call i32 {body.external(driver.address(name))}({', '.join(arguments)})")


def _given_by_words(descriptors: Sequence[Descriptor], first: int) -> tuple[Descriptor, ...]:
    """Descriptors of arrays whose addresses, extents and strides are words from the ``first`` one on."""
    found = []
    for d in descriptors:
        rank = len(d.shape)
        shape, strides = (tuple(("p", first + at + axis, 1) for axis in range(rank)) for at in (1, 1 + rank))
        found.append(replace(d, base=first, shape=shape, strides=strides))
        first += 1 + 2 * rank
    return tuple(found)


@functools.cache
def _attributes(num_ctas: int) -> list[bytes]:
    if num_ctas == 1:
        return []
    return [
        ATTRIBUTE.pack(_CLUSTER_DIMENSION, struct.pack("=3I", num_ctas, 1, 1)),
        ATTRIBUTE.pack(_CLUSTER_SPREAD, struct.pack("=I", 1)),
    ]
