"""How tiles lie in scratch memory. Apart from the code generator, so that a stored kernel loads without it."""

from __future__ import annotations

from tilewright.ir.dtypes import DType
from tilewright.ir.types import ElementType

ALIGNMENT = 64  # a cache line, and the widest vector register


def aligned(size: int, unit: int = ALIGNMENT) -> int:
    """``size`` bytes, rounded up to a multiple of ``unit``."""
    return -(-size // unit) * unit


def element_bytes(dtype: ElementType) -> int:
    """The size of an element in scratch memory: narrow floats are kept as float32, pointers are addresses."""
    if not isinstance(dtype, DType):
        return 8
    return max(dtype.bytes, 4) if dtype.is_floating else dtype.bytes
