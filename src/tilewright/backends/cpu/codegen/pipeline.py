"""The passes over Tile IR before code is generated for a processor."""

from __future__ import annotations

from tilewright.backends.cpu.loops.unroll import UnrollShortLoops
from tilewright.ir.core import Function
from tilewright.ir.dtypes import float64
from tilewright.transforms.base import Pass
from tilewright.transforms.clip_views import ClipViews
from tilewright.transforms.expand_views import ExpandViews
from tilewright.transforms.lower_mma_scaled import LowerMmaScaled
from tilewright.transforms.lower_packing import LowerPacking
from tilewright.transforms.pipelines import HOIST, SIMPLIFY, run_passes
from tilewright.transforms.raise_to_views import RaiseToViews

LOWERINGS: tuple[Pass, ...] = (  # of what there is no code for
    LowerPacking(in_memory=True),
    ExpandViews(),  # so that slots across blocks hold scalars and tiles only
    LowerMmaScaled(float64),
)
PASSES: tuple[Pass, ...] = (
    ClipViews(),  # first: of the bounds that are promised, BoundsCheckElimination proves again what it can
    *LOWERINGS,
    UnrollShortLoops(),  # before folding, which finds what an iteration's number decides
    *SIMPLIFY,
    RaiseToViews(),  # after folding and CSE, so that equal indices are one value; what it leaves unused goes next
    *HOIST,
)


def optimize(function: Function) -> Function:
    """``function`` after ``PASSES``."""
    return run_passes(function, PASSES)
