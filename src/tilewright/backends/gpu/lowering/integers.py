"""Integers of 8 and 16 bits live in registers of 32 bits, extended as their dtype says.

ptxas (13.0, 13.5) packs two values of 16 bits into a register and may spill the lower half for both, and it is wrong
about some negations, minima and maxima of 16 bits. So arithmetic is that of 32 bits, and what an op may leave of the
range is extended anew; memory and packed words have the storage form.
"""

from __future__ import annotations

from typing import TypeGuard

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import I32
from tilewright.ir.dtypes import DType, int32, uint32
from tilewright.ir.types import ElementType


def is_narrow(dtype: ElementType) -> TypeGuard[DType]:
    """Whether ``dtype`` is an integer type of fewer than 32 bits."""
    return isinstance(dtype, DType) and dtype.is_integer and dtype.bitwidth < 32


def widened(dtype: ElementType) -> ElementType:
    """The dtype of which registers of ``dtype`` are."""
    return (int32 if dtype.is_signed else uint32) if is_narrow(dtype) else dtype


def extended(b: ir.IRBuilder, x: ir.Value, dtype: DType) -> ir.Value:
    """A register of the narrow ``dtype`` from the low bits of ``x``, which has 32 bits or those of ``dtype``."""
    narrow = ir.IntType(dtype.bitwidth)
    if dtype.is_signed:
        return b.sext(x if x.type == narrow else b.trunc(x, narrow), I32)
    return b.zext(x, I32) if x.type == narrow else b.and_(x, ir.Constant(I32, dtype.max))


def wrapped(dtype: DType, value: int) -> int:
    """The number of the integer type ``dtype`` that is ``value`` modulo its size."""
    return (value - dtype.min) % (1 << dtype.bitwidth) + dtype.min
