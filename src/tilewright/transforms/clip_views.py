"""Makes accesses beyond the bounds of views harmless."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.ir.core import Function
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.ir.rewrite import clone_function


@dataclass(frozen=True)
class ClipViews:
    """Takes back the promises of loads and stores to stay inside their views.

    What lies outside then loads as padding, zero where none is named, and is not stored, as the TMA unit of a GPU does
    it; published kernels rely on that where the documents leave it undefined.
    """

    name: ClassVar[str] = "clip-views"

    def run(self, function: Function) -> Function:
        if not any(isinstance(op, (LoadView, StoreView)) and any(op.in_bounds) for op in function.walk()):
            return function
        copied = clone_function(function)
        for op in copied.walk():
            if isinstance(op, (LoadView, StoreView)):
                op.in_bounds = (False,) * len(op.in_bounds)
        return copied
