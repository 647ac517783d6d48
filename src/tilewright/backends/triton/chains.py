"""Loops of products that follow each other, such as the two of attention."""

from __future__ import annotations

from tilewright.backends.triton.target import GpuTarget
from tilewright.backends.triton.ttir.plan import make_plan
from tilewright.backends.triton.ttir.state import Plan
from tilewright.ir.core import Function, Op
from tilewright.passes.integers import IntegerFacts


def find_chains(function: Function, target: GpuTarget, *, staging: bool) -> list[Op]:
    """The loops of ``function`` with two products of 16-bit floats, one computed from the other, in which the copy
    engine does all loads. Empty when there is another loop of products: what is decided for them holds for all."""
    if not target.has_wgmma:
        return []
    plan = make_plan(function, target, IntegerFacts(function), descriptors=True, staging=staging)
    loops = [op for op in function.walk() if op.name == "for" and products(op)]
    return loops if all(_is_chain(loop, plan) for loop in loops) else []


def products(loop: Op) -> list[Op]:
    """The products of an iteration, in order."""
    return [op for op in loop.regions[0].ops if op.name in ("mma", "mma_scaled")]


def _is_chain(loop: Op, plan: Plan) -> bool:
    inside = [op for o in loop.regions[0].ops for op in o.walk()]
    loads = [op for op in inside if op.name.startswith("load")]
    pair = products(loop)
    if len(pair) != 2 or any(p.name != "mma" or p.operands[0].tile.element.bitwidth != 16 for p in pair):
        return False
    ahead = loop not in plan.unpipelined and all(op in plan.descriptors for op in loads)
    return ahead and depends(pair[1], pair[0])


def depends(later: Op, earlier: Op) -> bool:
    """Whether a factor of ``later`` is computed from the result of ``earlier`` in the same iteration."""
    seen: set[Op] = set()
    pending = [v.op for v in later.operands[:2] if v.op is not None]
    while pending:
        op = pending.pop()
        if op is earlier:
            return True
        if op not in seen:
            seen.add(op)
            pending += [v.op for o in op.walk() for v in o.operands if v.op is not None]
    return False
