"""The passes over Tile IR before the gpu stage, for one architecture."""

from __future__ import annotations

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.gpu.hints import with_resolved_hints
from tilewright.ir.core import Function
from tilewright.ir.ops.linear import MmaOp
from tilewright.transforms.base import Pass
from tilewright.transforms.pipelines import HOIST, optimize, run_passes
from tilewright.transforms.raise_to_views import RaiseToViews

_RAISED: tuple[Pass, ...] = (RaiseToViews(rank=2), *HOIST)  # which moves the new views out of loops


def optimized_for(function: Function, target: GpuTarget) -> Function:
    """``function``, optimized, with the values that its hints have for ``target``. Beside MMA ops that read shared
    memory what pointers reach in order are tiles of views, which the TMA unit copies there."""
    found = with_resolved_hints(optimize(function), target)
    copied = (target.has_wgmma or target.has_tensor_memory) and found.ops_of(MmaOp)
    return AnalysisManager(found).get(_raised) if copied else found


def _raised(function: Function) -> Function:
    return run_passes(function, _RAISED)
