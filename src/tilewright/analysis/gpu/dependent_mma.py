"""MMA loops that follow each other, such as the two of attention."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.gpu.lowering_plan import LoweringPlan
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.gpu.tma_descriptors import plan_lowering
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import depends, mma_loops, mma_ops
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load, LoadView


def find_dependent_mma_loops(function: Function, target: GpuTarget, *, realign: bool) -> Sequence[For]:
    """The loops of ``function`` with two MMA ops of 16-bit floats, one computed from the other, in which the TMA
    unit does all loads. Empty when there is another MMA loop: what is decided for them holds for all."""
    if not target.has_wgmma:
        return []
    plan = AnalysisManager(function).get(plan_lowering, target, True, realign)
    loops = mma_loops(function)
    return loops if all(_is_dependent(loop, plan) for loop in loops) else []


def _is_dependent(loop: For, plan: LoweringPlan) -> bool:
    inside = [op for o in loop.body.ops for op in o.walk()]
    loads = [op for op in inside if isinstance(op, (Load, LoadView))]
    pair = mma_ops(loop)
    if len(pair) != 2 or any(not isinstance(p, Mma) or p.x.tile.element.bitwidth != 16 for p in pair):
        return False
    pipelined = loop not in plan.unpipelined and all(op in plan.descriptors for op in loads)
    return pipelined and depends(pair[1], pair[0])
