"""A function of the gpu stage as an LLVM module for one thread: a kernel, its parameters, launch bounds and lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.analysis.gpu.joined_mma import joined_mma
from tilewright.analysis.gpu.target import SM_REGISTERS
from tilewright.backends.gpu.lowering import (
    control,
    division,
    matrices,
    memory,
    mma,
    narrowing,
    packed_arithmetic,
    rescaling,
    short_rows,
    tensor_memory,
    tiles,
    tma,
    wgmma,
    words,
)
from tilewright.backends.gpu.lowering.assembly import I8, I32, I64, VOID
from tilewright.backends.gpu.lowering.context import Context
from tilewright.backends.gpu.lowering.demand import equal_conditions, register_strides
from tilewright.backends.gpu.tables import reads
from tilewright.backends.gpu.target import TRIPLE, Architecture
from tilewright.backends.native.lines import SourceLines
from tilewright.backends.native.text_builder import TextBuilder
from tilewright.backends.vector import storage_type
from tilewright.ir.core import Function
from tilewright.ir.dtypes import float32
from tilewright.ir.gpu_parameters import MAP_ALIGNMENT, MAP_BYTES, TableParameter
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.arith import Div
from tilewright.ir.ops.gpu.barriers import MbarrierExpect
from tilewright.ir.ops.gpu.memory import SharedAlloc
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat
from tilewright.ir.ops.gpu.tma import ParameterMap
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.types import TileType
from tilewright.transforms.gpu.allocate_shared import shared_bytes

_MODULES = (
    control,
    tiles,
    memory,
    mma,
    tma,
    wgmma,
    tensor_memory,
    matrices,
    narrowing,
    rescaling,
    division,
    words,
    short_rows,
)
RULES = {rule: how for module in _MODULES for rule, how in module.RULES.items()}
_GLOBAL_SPACE, _SHARED_SPACE = 1, 3
# Beside so many quotients by one number a thread has few enough other registers only if ptxas is told so.
_QUOTIENTS, _REGISTERS_WITH_QUOTIENTS, _MOST_CTAS = 32, 64, 32
_REGISTER_STEP = 8  # those of a thread are multiples of it


@dataclass(frozen=True)
class Kernel:
    """A kernel in an LLVM module, and what a launch needs to know of it."""

    name: str
    threads: int
    shared_bytes: int
    maps: tuple[ParameterMap, ...]


@dataclass(frozen=True)
class Signature:
    """How programs without Python call a kernel: by ``symbol``, with ``parameters``.

    Each is of a type, and of the function the parameter at a position, or None for one that is not used. What blocks
    report goes to the variable ``output``, of so many bytes, in place of the parameter behind all of these.
    """

    symbol: str
    parameters: tuple[tuple[TileType, int | None], ...]
    output: tuple[str, int] | None = None


def module_of(name: str) -> ir.Module:
    """An empty module for kernels."""
    module = ir.Module(name, context=ir.Context())  # the default one would keep the names of types
    module.triple = TRIPLE
    return module


def add_kernel(
    module: ir.Module,
    function: Function,
    target: Architecture,
    called: Signature | None = None,
    *,
    tables: Sequence[TableParameter] = (),
    capacity: int = 0,
) -> Kernel:
    """Add ``function``, in the gpu stage, to ``module``: to be ``called`` as that says, or with its own parameters.

    Each of these is in the storage form of its dtype; pointers are 64-bit addresses, but ``tables`` by value have room
    for ``capacity`` arrays. Then come its tensor maps. TileUnsupportedFeatureError, at the op, for what has no code.
    """
    maps = tuple(function.ops_of(ParameterMap))
    roles = next(iter(function.ops_of(WarpSpecialize)), None)
    tile_threads = num_warps(function) * LANES
    threads = tile_threads + (roles.producer_warps * LANES if roles is not None else 0)
    if called is None:
        own = tuple((v.tile, i) for i, v in enumerate(function.body.args))
        called = Signature(re.sub(r"\W", "_", function.name, flags=re.ASCII), own)
    by_value = {t.index for t in tables if t.by_value}
    types = [ir.PointerType() if i in by_value else storage_type(t.dtype) for t, i in called.parameters]
    types += [ir.PointerType()] * len(maps)
    kernel = ir.Function(module, ir.FunctionType(VOID, types), called.symbol)
    kernel.calling_convention = "ptx_kernel"
    limits = {"reqntid": f"{threads},1,1", **_register_limits(function, roles, threads, tile_threads)}
    for name, limit in limits.items():
        set.add(kernel.attributes, f'"nvvm.{name}"="{limit}"')  # llvmlite knows no attributes of targets
    builder = TextBuilder(kernel.append_basic_block("entry"))
    lines = SourceLines(module, kernel, function, "DebugDirectivesOnly")  # ptxas refuses more for optimized code
    cx = Context(builder, target, RULES)
    cx.by_words = packed_arithmetic.by_words
    cx.equal_conditions = equal_conditions(function)
    cx.strides = register_strides(function, cx.equal_conditions)
    cx.locate = lambda op: lines.locate(builder, op)
    lines.locate(builder, function.body.ops[0] if function.body.ops else None)
    cx.tile_threads = tile_threads
    cx.tables = {t.index: t for t in tables}
    cx.joined, cx.packed_accumulators = joined_mma(function), wgmma.packed_accumulators(function)
    for op, argument in zip(maps, kernel.args[len(called.parameters) :]):
        _mark_by_value(argument, MAP_BYTES, MAP_ALIGNMENT)
        cx.maps[op] = argument
    for i, (value, given) in enumerate(zip(function.body.args, _arguments(builder, function, kernel, called))):
        table = cx.tables.get(i)
        if table is not None and table.by_value:
            _mark_by_value(given, capacity * table.entry_bytes, MAP_ALIGNMENT)
            address, rows = builder.ptrtoint(given, I64), capacity * table.map_bytes
            cx.values[value] = [builder.add(address, ir.Constant(I64, rows)) if rows else address]
            cx.parameter_loads.update(reads(value) or ())
            continue
        cx.values[value] = [cx.scalars.to_register(value.tile.dtype, given)]
    allocations = function.ops_of(SharedAlloc)
    if allocations:
        cx.shared_base = _shared_base(builder, max(op.alignment for op in allocations))
    if roles is None and (maps or function.ops_of(MbarrierExpect)):
        cx.elected = tma.elected(cx)
    if target.has_dependent_launch:  # a launch may start it beside the kernel before it
        cx.asm("griddepcontrol.wait;")
    cx.run(function.body)
    return Kernel(called.symbol, threads, shared_bytes(function), maps)


def _register_limits(
    function: Function, roles: WarpSpecialize | None, threads: int, tile_threads: int
) -> dict[str, int]:
    """What limits the registers of a thread, by the names of attributes."""
    occupancy = function.hints.get("occupancy")
    if roles is not None and roles.registers is not None:
        load, compute = roles.registers  # that are redistributed
        most = (load * (threads - tile_threads) + compute * tile_threads) // threads // _REGISTER_STEP * _REGISTER_STEP
        return {"maxnreg": most, "minctasm": 1}
    if isinstance(occupancy, int):
        return {"minctasm": occupancy}
    shared = (op for op in function.ops_of(Div) if isinstance(op.rhs.op, (BroadcastDistributed, Splat)))
    if sum(op.result.layout.num_registers for op in shared if op.result.tile.element is float32) == _QUOTIENTS:
        return {"minctasm": min(SM_REGISTERS // (_REGISTERS_WITH_QUOTIENTS * threads), _MOST_CTAS)}
    # Where registers do not suffice, ptxas (12.8, 13.5) otherwise goes back to 32 of them, for all that it is told.
    return {"minctasm": 1} if function.ops_of(MmaOp) else {}


def _mark_by_value(argument: ir.Argument, size: int, alignment: int) -> None:
    """A parameter is by value, and read where it is, in the memory of parameters."""
    for attribute in (f"byval([{size} x i8])", f"align {alignment}", '"nvvm.grid_constant"'):
        set.add(argument.attributes, attribute)  # llvmlite knows no attributes of targets


def _arguments(b: ir.IRBuilder, function: Function, kernel: ir.Function, called: Signature) -> list[ir.Value]:
    """What stands for each parameter of ``function``."""
    found = {i: arg for (_, i), arg in zip(called.parameters, kernel.args) if i is not None}
    if called.output is not None:
        name, size = called.output
        buffer_type = ir.ArrayType(I8, size)
        buffer = ir.GlobalVariable(b.module, buffer_type, name, addrspace=_GLOBAL_SPACE)
        buffer.initializer, buffer.align = ir.Constant(buffer_type, None), 8
        found[len(function.body.args) - 1] = b.ptrtoint(buffer, I64)
    return [found[i] for i in range(len(function.body.args))]


def _shared_base(builder: ir.IRBuilder, alignment: int) -> ir.Value:
    shared = builder.module.globals.get(memory.SHARED)
    if shared is None:
        shared = ir.GlobalVariable(builder.module, ir.ArrayType(I8, 0), memory.SHARED, addrspace=_SHARED_SPACE)
        shared.linkage = "external"
    shared.align = max(shared.align or 1, alignment)
    return builder.ptrtoint(shared, I32)
