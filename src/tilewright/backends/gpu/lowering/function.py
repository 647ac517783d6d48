"""A function of the gpu stage as an LLVM module for one thread: a kernel, its parameters, launch bounds and lines."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from llvmlite import ir

from tilewright.backends.gpu.lowering import control, memory, mma, tiles, tma, wgmma
from tilewright.backends.gpu.lowering.assembly import I8, I32, VOID
from tilewright.backends.gpu.lowering.context import Context
from tilewright.backends.gpu.lowering.demand import register_strides
from tilewright.backends.gpu.target import TRIPLE, Architecture
from tilewright.backends.vector import storage_type
from tilewright.ir.core import Function, Op
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.gpu.memory import SharedAlloc
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tma import TensorMap

RULES = {**control.RULES, **tiles.RULES, **memory.RULES, **mma.RULES, **tma.RULES, **wgmma.RULES}
_SHARED_SPACE = 3
_REGISTERS, _REGISTER_STEP = 65536, 8  # of an SM; those of a thread are multiples of the step


@dataclass(frozen=True)
class Lowered:
    """LLVM IR in text form, and what a launch needs to know of it."""

    text: str
    name: str
    threads: int
    shared_bytes: int
    maps: tuple[TensorMap, ...]


def lower(function: Function, target: Architecture) -> Lowered:
    """LLVM IR of ``function``, which is in the gpu stage.

    TileUnsupportedFeatureError, at the op, for what has no code. Parameters are those of the function, each in the
    storage form of its dtype; pointers are 64-bit addresses. Then come its tensor maps.
    """
    maps = tuple(op for op in function.walk() if isinstance(op, TensorMap))
    roles = next((op for op in function.walk() if isinstance(op, WarpSpecialize)), None)
    tile_threads = num_warps(function) * LANES
    threads = tile_threads + (roles.producer_warps * LANES if roles is not None else 0)
    module = ir.Module(function.name)
    module.triple = TRIPLE
    parameters = [storage_type(v.tile.dtype) for v in function.body.args] + [ir.PointerType()] * len(maps)
    symbol = re.sub(r"\W", "_", function.name)
    kernel = ir.Function(module, ir.FunctionType(VOID, parameters), symbol)
    kernel.calling_convention = "ptx_kernel"
    set.add(kernel.attributes, f'"nvvm.reqntid"="{threads},1,1"')  # llvmlite knows no attributes of targets
    occupancy = function.hints.get("occupancy")
    if roles is not None and roles.registers is not None:
        most = _REGISTERS // threads // _REGISTER_STEP * _REGISTER_STEP  # that roles redistribute
        set.update(kernel.attributes, (f'"nvvm.maxnreg"="{most}"', '"nvvm.minctasm"="1"'))
    elif isinstance(occupancy, int):
        set.add(kernel.attributes, f'"nvvm.minctasm"="{occupancy}"')
    builder = ir.IRBuilder(kernel.append_basic_block("entry"))
    lines = _Lines(module, kernel, function)
    cx = Context(builder, target, RULES)
    cx.strides = register_strides(function)
    cx.locate = lambda op: lines.locate(builder, op)
    lines.locate(builder, function.body.ops[0] if function.body.ops else None)
    cx.tile_threads = tile_threads
    for op, argument in zip(maps, kernel.args[len(function.body.args) :]):
        tma.mark_tensor_map(argument)
        cx.maps[op] = argument
    for value, argument in zip(function.body.args, kernel.args):
        cx.values[value] = [cx.scalars.vector.to_register(value.tile.dtype, argument)]
    allocations = [op for op in function.walk() if isinstance(op, SharedAlloc)]
    if allocations:
        cx.shared_base = _shared_base(builder, max(op.alignment for op in allocations))
    cx.run(function.body)
    return Lowered(str(module), symbol, threads, memory.shared_bytes(allocations), maps)


def _shared_base(builder: ir.IRBuilder, alignment: int) -> ir.Value:
    memory_type = ir.ArrayType(I8, 0)
    shared = ir.GlobalVariable(builder.module, memory_type, memory.SHARED, addrspace=_SHARED_SPACE)
    shared.linkage = "external"
    shared.align = alignment
    return builder.ptrtoint(shared, I32)


class _Lines:
    """Debug info that has nothing but the lines of the source: ptxas refuses more for optimized code."""

    def __init__(self, module: ir.Module, kernel: ir.Function, function: Function) -> None:
        self._module = module
        folder, name = os.path.split(function.loc.file)
        self._file = module.add_debug_info("DIFile", {"filename": name, "directory": folder})
        unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": ir.DIToken("DW_LANG_Python"),
                "file": self._file,
                "producer": "tilewright",
                "isOptimized": True,
                "runtimeVersion": 0,
                "emissionKind": ir.DIToken("DebugDirectivesOnly"),
            },
            is_distinct=True,
        )
        kind = module.add_debug_info("DISubroutineType", {"types": module.add_metadata([])})
        self._scope = module.add_debug_info(
            "DISubprogram",
            {
                "name": function.name,
                "file": self._file,
                "line": function.loc.line,
                "type": kind,
                "isDefinition": True,
                "unit": unit,
                "scopeLine": function.loc.line,
            },
            is_distinct=True,
        )
        kernel.set_metadata("dbg", self._scope)
        module.add_named_metadata("llvm.dbg.cu", unit)
        flag = [ir.Constant(I32, 2), "Debug Info Version", ir.Constant(I32, 3)]
        module.add_named_metadata("llvm.module.flags", module.add_metadata(flag))
        self._function = function

    def locate(self, builder: ir.IRBuilder, op: Op | None) -> None:
        """Instructions from here on are of the line of ``op``: for inlined code, of the call in the kernel's file."""
        loc = self._function.loc if op is None else op.loc
        line = next((at.line for at in loc.chain() if at.file == self._function.loc.file), self._function.loc.line)
        builder.debug_metadata = self._module.add_debug_info(
            "DILocation", {"line": line, "column": 1, "scope": self._scope}
        )
