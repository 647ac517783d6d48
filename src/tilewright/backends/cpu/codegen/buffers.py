"""Scratch memory of a block: where tiles live that are needed as a whole."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.vector import register_type
from tilewright.backends.vector.types import I8
from tilewright.ir.dtypes import DType
from tilewright.ir.types import ElementType
from tilewright.records import NamedTuple


def element_type(dtype: ElementType) -> ir.Type:
    """The LLVM type of an element in a buffer: its register type, so that a narrow float is converted only once."""
    return I8 if isinstance(dtype, DType) and dtype.is_bool else register_type(dtype)


class Buffer(NamedTuple):
    """A tile in scratch memory, in row-major order."""

    pointer: ir.Value
    offset: int
    size: int
    dtype: ElementType
