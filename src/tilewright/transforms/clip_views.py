"""Makes accesses beyond the bounds of views harmless."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.liveness import Liveness
from tilewright.ir.core import Function
from tilewright.ir.ops.memory import LoadView, StoreView
from tilewright.transforms.base import InPlacePass


class ClipViews(InPlacePass):
    """Takes back the promises of loads and stores to stay inside their views.

    What lies outside then loads as padding, zero where none is named, and is not stored, as the TMA unit of a GPU does
    it; published kernels rely on that where the documents leave it undefined.
    """

    name: ClassVar[str] = "clip-views"
    preserves = frozenset({IntegerRanges, AliasAnalysis, Liveness, argument_effects})

    def change(self, function: Function) -> bool:
        promising = [op for op in function.walk() if isinstance(op, (LoadView, StoreView)) and any(op.in_bounds)]
        for op in promising:
            op.in_bounds = (False,) * len(op.in_bounds)
        return bool(promising)
