"""The floating-point environment of the threads that run blocks.

The thread that launches a kernel may have another rounding mode, or flush subnormal numbers, because a library
asked for that; the pool's threads do not. All of them compute alike only in an environment of our own.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.backends.cpu.codegen.lanes import POINTER
from tilewright.backends.external import call_external, external
from tilewright.backends.vector.types import I32, I64

_X86_DEFAULT = 0x1F80  # to nearest, subnormal numbers kept, no traps


def enter_default(builder: ir.IRBuilder, triple: str) -> Callable[[], None]:
    """Round to nearest, keep subnormal numbers and trap nothing from here on; the result emits the way back."""
    if triple.startswith(("x86_64", "i686", "i386")):
        saved, fresh = builder.alloca(I32), builder.alloca(I32)
        load = external(builder.module, "llvm.x86.sse.ldmxcsr", ir.VoidType(), [POINTER])
        call_external(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), [saved], [POINTER])
        builder.store(ir.Constant(I32, _X86_DEFAULT), fresh)
        builder.call(load, [fresh])
        return lambda: builder.call(load, [saved])
    if triple.startswith(("aarch64", "arm64")):
        change = external(builder.module, "llvm.aarch64.set.fpcr", ir.VoidType(), [I64])
        before = call_external(builder, "llvm.aarch64.get.fpcr", I64, [])
        builder.call(change, [ir.Constant(I64, 0)])
        return lambda: builder.call(change, [before])
    return lambda: None
