"""The description of one elementwise operation, as the emitting functions receive it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir.dtypes import DType
from tilewright.ir.enums import RoundingMode
from tilewright.ir.types import ElementType
from tilewright.records import NamedTuple

LEFT_IS_RESULT = "left_is_result"  # an attribute of the code generator: the left operand is a result of the same op


class ElementOp(NamedTuple):
    """Name, operand and result dtypes and attributes of an IR op, without its operands."""

    name: str
    element: ElementType
    result: ElementType
    attrs: Mapping[str, Any]

    @property
    def dtype(self) -> DType:
        """The operand dtype of an operation on numbers."""
        assert isinstance(self.element, DType), f"{self.name} of pointers"
        return self.element

    @property
    def rounding(self) -> RoundingMode:
        return self.attrs.get("rounding", RoundingMode.RN)

    @property
    def flush_to_zero(self) -> bool:
        return bool(self.attrs.get("flush_to_zero", False))
