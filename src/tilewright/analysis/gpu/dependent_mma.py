"""Loops of products that follow each other, such as the two of attention."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.gpu.lowering_plan import Plan
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.gpu.tma_descriptors import make_plan
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import depends, loops_of_products, products
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load, LoadView


def find_chains(function: Function, target: GpuTarget, *, staging: bool) -> Sequence[For]:
    """The loops of ``function`` with two products of 16-bit floats, one computed from the other, in which the copy
    engine does all loads. Empty when there is another loop of products: what is decided for them holds for all."""
    if not target.has_wgmma:
        return []
    plan = AnalysisManager(function).get(make_plan, target, True, staging)
    loops = loops_of_products(function)
    return loops if all(_is_chain(loop, plan) for loop in loops) else []


def _is_chain(loop: For, plan: Plan) -> bool:
    inside = [op for o in loop.body.ops for op in o.walk()]
    loads = [op for op in inside if isinstance(op, (Load, LoadView))]
    pair = products(loop)
    if len(pair) != 2 or any(not isinstance(p, Mma) or p.x.tile.element.bitwidth != 16 for p in pair):
        return False
    ahead = loop not in plan.unpipelined and all(op in plan.descriptors for op in loads)
    return ahead and depends(pair[1], pair[0])
