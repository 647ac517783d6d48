"""Elementwise ops through the gpu backend's lowering to PTX, run on arrays, an element a thread."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from support.ptx.machine import Cta
from support.ptx.parser import Entry, parse

from tilewright.backends.gpu.lowering.assembly import I32, I64, VOID
from tilewright.backends.gpu.lowering.scalars import ScalarEmitter
from tilewright.backends.gpu.target import TRIPLE, architecture, emit_ptx
from tilewright.backends.launch_arguments import Buffer
from tilewright.backends.native.text_builder import TextBuilder, text_of
from tilewright.backends.reference.memory import Memory
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op
from tilewright.ir.dtypes import DType, bool_
from tilewright.ir.location import Loc
from tilewright.ir.types import TileType

Array = np.ndarray[Any, Any]
MOST_THREADS = 1 << 14  # at once, which is no matter here


def _module(op: Op) -> ir.Module:
    """A kernel whose thread i applies ``op`` to elements i of arrays."""
    module = ir.Module("element")
    module.triple = TRIPLE
    function = ir.Function(module, ir.FunctionType(VOID, [I64] * (1 + len(op.operands))), "run")
    function.calling_convention = "ptx_kernel"
    builder = TextBuilder(function.append_basic_block("entry"))
    register = ir.Function(module, ir.FunctionType(I32, []), "llvm.nvvm.read.ptx.sreg.tid.x")
    index = builder.zext(builder.call(register, []), I64)
    emitter = ScalarEmitter(builder)

    def place(argument: ir.Value, dtype: DType) -> tuple[ir.Value, ir.Type]:
        type_ = emitter.vector.storage_type(dtype)
        address = builder.add(argument, builder.mul(index, ir.Constant(I64, dtype.bytes)))
        return builder.inttoptr(address, ir.PointerType(addrspace=1)), type_

    operands = []
    for argument, value in zip(function.args[1:], op.operands):
        pointer, type_ = place(argument, value.tile.element)
        operands.append(emitter.to_register(value.tile.element, builder.load(pointer, typ=type_)))
    result = op.result.tile.element
    pointer, _ = place(function.args[0], result)
    builder.store(emitter.to_storage(result, emitter.of(op)(operands)), pointer)
    builder.ret_void()
    return module


@functools.lru_cache(maxsize=64)
def _compiled(cls: type[Op], dtypes: tuple[DType, ...], attributes: tuple[tuple[str, Any], ...]) -> tuple[Op, str, Entry]:  # fmt: skip
    block = Block(tuple(TileType(t) for t in dtypes))
    op = Builder(block, Loc("element.py", 1)).emit_op(cls, *block.args, **dict(attributes))
    ptx = emit_ptx(text_of(_module(op)), architecture("sm_80"))
    return op, ptx, parse(ptx)["run"]


def ptx_of(cls: type[Op], *dtypes: DType, **attributes: Any) -> str:
    """The PTX of a kernel that applies the op to an element."""
    return _compiled(cls, dtypes, tuple(attributes.items()))[1]


def apply(cls: type[Op], *operands: Array, dtypes: tuple[DType, ...], **attributes: Any) -> Array:
    """The op on arrays of one size in the storage form of ``dtypes``."""
    op, _, entry = _compiled(cls, dtypes, tuple(attributes.items()))
    result = op.result.tile.element
    arrays = [np.ascontiguousarray(x) for x in operands]
    out = np.zeros(arrays[0].size, result.storage)
    for first in range(0, out.size, MOST_THREADS):
        parts = [out[first : first + MOST_THREADS], *(x[first : first + MOST_THREADS] for x in arrays)]
        buffers = [
            Buffer(str(i), x.ctypes.data, x.ctypes.data, x.ctypes.data + x.nbytes, bool_, i == 0)
            for i, x in enumerate(parts)
        ]
        parameters = [b.address.to_bytes(8, "little") for b in buffers]
        Cta(entry, parameters, Memory(buffers), parts[0].size, 0, (0, 0, 0), (1, 1, 1)).run()
    return out
