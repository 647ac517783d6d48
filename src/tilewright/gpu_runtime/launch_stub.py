"""How machine code queues a launch: what ``GpuExecutable.launch`` does, without a step in Python."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tilewright.backends.native import Embedded, LaunchStub, embedded_function
from tilewright.backends.native.body import Body
from tilewright.backends.native.code import stub_code
from tilewright.gpu_runtime import abi, driver
from tilewright.gpu_runtime.launch_parameters import MANY_BLOCKS, LaunchParameters, ParameterLayout
from tilewright.gpu_runtime.tables import TableMemory

_NO_RECORD = ctypes.c_int64()  # of a stub that is made for one kernel
_BUSY, _MOST = 9, 10  # of so many SMs, in all rounds of CTAs, where blocks are joined
Loaded = tuple[ParameterLayout, driver.LoadedKernel]
Blocks = tuple[int, int, int]  # along each axis of a grid
Joined = Sequence[tuple[Blocks, "Loaded | None"]]  # the most first


def launch_stub(
    kernel: Loaded | None,
    others: Sequence[tuple[int | None, int, Loaded | None]] = (),
    least: Sequence[tuple[int, int]] = (),
    lists: Mapping[int, TableMemory] = MappingProxyType({}),
    joined: Joined = (),
    processors: int = 1,
) -> LaunchStub | None:
    """The entry of a loaded kernel whose launch needs no other memory; None where it takes floats of 16 bits, or none
    is loaded. ``lists`` has, for the parameters that are tables by value, the memory of one that differs by addresses.

    ``others`` are variants of it for grids with up to so many blocks, or values of the parameter of that number, fewest
    first, and ``joined`` those for as many blocks that keep ``processors`` busy; Python starts those that are None, and
    what has a smaller value than the ``least`` of a parameter.
    """
    loaded = [found for found in (kernel, *(variant for _, variant in joined)) if found is not None]
    if not loaded or not all(abi.can_pack(layout.formats) for layout, _ in loaded):
        return None
    body = Body()
    for i, bound in least:
        body.require(body.let(f"icmp sge i64 {body.load('i64', '%values', 8 * i)}, {bound}"))
    code = body.stack("i32")
    for i, (blocks, variant) in enumerate(joined):
        body.branch(_keep_busy(body, blocks, processors), f"joined{i}", f"apart{i}")
        body.label(f"joined{i}")
        if variant is None:
            body.require("false")
        else:
            body.store("i32", _start(body, *variant), code)
            body.kept.append(variant)
        body.jump("started")
        body.label(f"apart{i}")
    if kernel is None:
        body.require("false")
    else:
        body.store("i32", _start(body, *kernel, others, lists), code)
    body.jump("started")
    body.label("started")
    return LaunchStub(stub_code(body, body.load("i32", code)), _NO_RECORD, (*body.kept, *loaded))


def _start(
    body: Body,
    layout: ParameterLayout,
    kernel: driver.LoadedKernel,
    others: Sequence[tuple[int | None, int, Loaded | None]] = (),
    lists: Mapping[int, TableMemory] = MappingProxyType({}),
) -> str:
    """The error number of the launch of ``kernel``, or one of the ``others``."""
    pointers, config, handle = (
        _parameters(body, layout, lists),
        _configuration(body, layout),
        body.external(kernel.handle.value or 0),
    )
    if others:
        handle = _variant(body, layout, handle, others, config)
    state = body.call("PyEval_SaveThread")
    code = _launch(body, config, handle, pointers)
    body.call("PyEval_RestoreThread", state)
    return code


def keep_busy(grid: Blocks, joined: Blocks, processors: int) -> bool:
    """Whether as many blocks as are ``joined`` divide ``grid``, and the last round of CTAs leaves few SMs idle."""
    ctas = math.prod(grid) // math.prod(joined)
    whole = all(n % each == 0 for n, each in zip(grid, joined))
    return whole and _MOST * ctas >= _BUSY * processors * -(-ctas // processors)


def _keep_busy(body: Body, joined: Blocks, processors: int) -> str:
    """``keep_busy`` of the grid."""
    blocks = body.let(f"mul i64 {body.let('mul i64 %x, %y')}, %z")
    ctas = body.let(f"udiv i64 {blocks}, {math.prod(joined)}")
    rounds = body.let(f"udiv i64 {body.let(f'add i64 {ctas}, {processors - 1}')}, {processors}")
    needed = body.let(f"mul i64 {rounds}, {_BUSY * processors}")
    busy = body.let(f"icmp uge i64 {body.let(f'mul i64 {ctas}, {_MOST}')}, {needed}")
    for axis, each in zip("xyz", joined):
        rest = body.let(f"urem i64 %{axis}, {each}")
        busy = body.let(f"and i1 {busy}, {body.let(f'icmp eq i64 {rest}, 0')}")
    return busy


def embedded(name: str, layout: ParameterLayout, kernels: Sequence[driver.LoadedKernel]) -> Embedded:
    """The function ``i64 @name(ptr values, i64 x, i64 y, i64 z, i64 stream, i64 threads, ptr schedule, ptr pool)``,
    which queues a launch on a stream of any device that has one of ``kernels``, and calls nothing of Python."""
    body = Body()
    context, entered = body.stack("ptr"), body.stack("i32")
    body.store("i32", 0, entered)
    blocks = body.let(f"mul i64 {body.let('mul i64 %x, %y')}, %z")
    body.branch(body.let(f"icmp eq i64 {blocks}, 0"), "done", "begin")
    body.label("begin")
    body.require_equal("i32", _call(body, "cuStreamGetCtx", "i64 %stream", f"ptr {context}"), 0)
    current, handle = body.load("ptr", context), "null"
    for kernel in kernels:
        here = body.let(f"icmp eq ptr {current}, {body.external(kernel.device.context)}")
        handle = body.let(f"select i1 {here}, ptr {body.external(kernel.handle.value or 0)}, ptr {handle}")
    body.require(body.let(f"icmp ne ptr {handle}, null"))
    body.require_equal("i32", _call(body, "cuCtxPushCurrent_v2", f"ptr {current}"), 0)
    body.store("i32", 1, entered)
    pointers, config = _parameters(body, layout), _configuration(body, layout)
    body.require_equal("i32", _launch(body, config, handle, pointers), 0)
    _call(body, "cuCtxPopCurrent_v2", f"ptr {context}")
    body.jump("done")
    body.label("no")
    body.branch(body.let(f"icmp ne i32 {body.load('i32', entered)}, 0"), "leave", "failed")
    body.label("leave")
    _call(body, "cuCtxPopCurrent_v2", f"ptr {context}")
    body.jump("failed")
    text = embedded_function(name, body, "done:\nret i64 0\nfailed:\nret i64 1")
    return Embedded(text, "", (), (*body.kept, *kernels))


def _parameters(body: Body, layout: ParameterLayout, lists: Mapping[int, TableMemory] = MappingProxyType({})) -> str:
    """The address of the addresses of all parameters."""
    numbers, maps = abi.pack(body, layout.formats), [encoder.emit(body) for encoder in layout.maps]
    if layout.blocks > 1:
        numbers[-1] = body.stack("i64")
        body.store("i64", "%x", numbers[-1])
    for i, table in lists.items():
        numbers[i] = table.emit(body, body.load("ptr", "%values", 8 * i))
    added = [body.stack("i64") for _ in range(layout.added)]
    for slot in added:
        body.store("i64", 0, slot)
    parameters = layout.ordered(numbers, maps, added)
    pointers = body.stack(f"[{max(len(parameters), 1)} x ptr]")
    for i, parameter in enumerate(parameters):
        body.store("ptr", parameter, pointers, 8 * i)
    return pointers


def _launch(body: Body, config: str, handle: str, pointers: str) -> str:
    return _call(body, "cuLaunchKernelEx", f"ptr {config}", f"ptr {handle}", f"ptr {pointers}", "ptr null")


def _call(body: Body, name: str, *arguments: str) -> str:
    """The error number that a function of the driver gives."""
    return body.let(f"call i32 {body.external(driver.address(name))}({', '.join(arguments)})")


def _variant(
    body: Body,
    layout: ParameterLayout,
    handle: str,
    others: Sequence[tuple[int | None, int, Loaded | None]],
    config: str,
) -> str:
    """The handle of the variant for the grid; its threads and bytes of shared memory go to ``config``."""
    blocks = body.let(f"mul i64 {body.let('mul i64 %x, %y')}, %z")
    threads, size = str(layout.threads), str(layout.shared_bytes)
    for index, most, variant in reversed(others):
        number = blocks if index is None else body.load("i64", "%values", 8 * index)
        fits = body.let(f"icmp sle i64 {number}, {most}")
        other, like = "null", layout
        if variant is not None and variant[0].launched_like(layout):
            like, kernel = variant
            other = body.external(kernel.handle.value or 0)
            body.kept.append(kernel)
        handle = body.let(f"select i1 {fits}, ptr {other}, ptr {handle}")
        threads = body.let(f"select i1 {fits}, i32 {like.threads}, i32 {threads}")
        size = body.let(f"select i1 {fits}, i32 {like.shared_bytes}, i32 {size}")
    body.require(body.let(f"icmp ne ptr {handle}, null"))
    body.store("i32", threads, config, LaunchParameters.THREADS)
    body.store("i32", size, config, LaunchParameters.SHARED)
    return handle


def _configuration(body: Body, layout: ParameterLayout) -> str:
    """The configuration of ``launch_parameters.LaunchParameters``, on the stack."""
    params = LaunchParameters(layout)
    body.kept.append(params)
    params.configure((0, 0, 0), 0)
    config = body.stack(f"[{len(params.config)} x i8]")
    for i, (word,) in enumerate(struct.iter_unpack("=Q", params.config)):
        body.store("i64", body.number(word), config, 8 * i)
    x, y, z = (body.let(f"udiv i64 %{axis}, {n}") for axis, n in zip("xyz", layout.joined))
    ctas = body.let(f"mul i64 {x}, {layout.ctas}")
    if layout.blocks > 1:
        blocks = body.let(f"mul i64 {body.let('mul i64 %x, %y')}, %z")
        many = body.let(f"icmp ugt i64 {blocks}, {MANY_BLOCKS}")
        many = body.let(f"and i1 {many}, {body.let(f'icmp uge i64 %x, {layout.blocks}')}")
        fewer = body.let(f"udiv i64 {body.let(f'add i64 %x, {layout.blocks - 1}')}, {layout.blocks}")
        ctas = body.let(f"select i1 {many}, i64 {fewer}, i64 {ctas}")
    for i, extent in enumerate((ctas, y, z)):
        body.store("i32", body.let(f"trunc i64 {extent} to i32"), config, 4 * i)
    if layout.pairs:
        odd = body.let(f"icmp ne i64 {body.let(f'and i64 {x}, 1')}, 0")
        body.store("i32", body.let(f"select i1 {odd}, i32 0, i32 {layout.attribute_count}"), config, params.ATTRIBUTES)
    body.store("i64", "%stream", config, params.STREAM)
    return config
