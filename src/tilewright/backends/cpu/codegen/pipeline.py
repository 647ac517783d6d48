"""The passes over Tile IR before code is generated for a processor."""

from __future__ import annotations

from tilewright.ir.core import Function
from tilewright.transforms.base import Pass
from tilewright.transforms.clip_views import ClipViews
from tilewright.transforms.pipelines import OPTIMIZE, run_passes

PASSES: tuple[Pass, ...] = (
    ClipViews(),  # first: of the bounds that are promised, BoundsCheckElimination proves again what it can
    *OPTIMIZE,
)


def optimize(function: Function) -> Function:
    """``function`` after ``PASSES``."""
    return run_passes(function, PASSES)
