"""Tables of 32 float32 in two registers of 512 bits, for processors that look numbers up there."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.vector.types import F32
from tilewright.backends.vector.value import Val

LANES = 16  # of a vector that the tables serve
INDEX_BITS = 5
SIZE = 1 << INDEX_BITS


def lookup(index: Val, table: Sequence[float]) -> Val:
    """The entries of ``table`` whose numbers are the low bits of ``index``."""
    low, high = (Val(index.at, _constants(table[i : i + LANES])) for i in (0, LANES))
    return index.at.instruction("avx512.vpermi2var.ps.512", F32, low, index, high)


def _constants(values: Sequence[float]) -> ir.Constant:
    return ir.Constant(ir.VectorType(F32, len(values)), [ir.Constant(F32, v) for v in values])
