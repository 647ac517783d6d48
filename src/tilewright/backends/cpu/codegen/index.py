"""Index arithmetic on 64-bit integers of which many are known at compile time: those are Python ints and fold."""

from __future__ import annotations

from typing import TypeAlias

from llvmlite import ir

from tilewright.backends.vector.types import I64

Index: TypeAlias = int | ir.Value


def as_value(x: Index) -> ir.Value:
    """``x`` as an LLVM i64."""
    return ir.Constant(I64, x) if isinstance(x, int) else x


def add(builder: ir.IRBuilder, a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return builder.add(as_value(a), as_value(b))


def sub(builder: ir.IRBuilder, a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if isinstance(b, int) and b == 0 else builder.sub(as_value(a), as_value(b))


def mul(builder: ir.IRBuilder, a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    for x, y in ((a, b), (b, a)):
        if isinstance(x, int) and x in (0, 1):
            return y if x else 0
    return builder.mul(as_value(a), as_value(b))


def shift_right(builder: ir.IRBuilder, a: Index, bits: int) -> Index:
    if isinstance(a, int):
        return a >> bits
    return a if bits == 0 else builder.lshr(a, ir.Constant(I64, bits))


def low_bits(builder: ir.IRBuilder, a: Index, n: int) -> Index:
    """``a`` modulo ``n``, a power of two."""
    if isinstance(a, int):
        return a & (n - 1)
    return 0 if n == 1 else builder.and_(a, ir.Constant(I64, n - 1))


def minimum(builder: ir.IRBuilder, a: Index, b: Index, order: str = "<") -> Index:
    """The one of both that comes first in this ``order``."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b) if order == "<" else max(a, b)
    x, y = as_value(a), as_value(b)
    return builder.select(builder.icmp_signed(order, x, y), x, y)


def maximum(builder: ir.IRBuilder, a: Index, b: Index) -> Index:
    return minimum(builder, a, b, ">")
