"""Dead code elimination, including values that loops carry without anyone reading them."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.liveness import Liveness
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.ops.control import CONTROL_FLOW, For, If, Loop, LoopOp, PassingOp
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.transforms.base import InPlacePass

_ENTERED = (*CONTROL_FLOW, WarpSpecialize)  # ops whose regions hold ops of all kinds, as those of combiners do not


class DeadCodeElimination(InPlacePass):
    """Removes ops whose results nobody needs. An unused weak load goes too; stores and output stay."""

    name: ClassVar[str] = "dce"
    preserves = frozenset({IntegerRanges})

    def change(self, function: Function) -> bool:
        live = AnalysisManager(function).get(Liveness)
        everything = list(function.walk())
        ends = [op for op in everything if op.spec.terminator and isinstance(op, PassingOp) and op.receivers]
        passed = [[r in live.values for r in op.receivers] for op in ends]
        for end, kept in zip(ends, passed):
            if not all(kept):
                values = [v for v, keep in zip(end.values, kept) if keep]
                end.set_operands(values, (len(values),))
        kept_flow = [op for op in everything if op.regions and isinstance(op, CONTROL_FLOW) and op in live.ops]
        narrowed = [_narrow(op, live) for op in kept_flow]
        return _sweep(function.body, live) or any(narrowed)


def _narrow(op: Op, live: Liveness) -> bool:
    """Take the values that are not live from what a loop carries, and from the results; whether there are any."""
    carried = [v in live.values for v in op.carried] if isinstance(op, LoopOp) else []
    kept = [r in live.values for r in op.results]
    if isinstance(op, LoopOp) and not all(carried):
        fixed = op.bounds if isinstance(op, For) else ()
        inits = [v for v, keep in zip(op.inits, carried) if keep]
        op.body.keep_args([True] * (len(op.body.args) - len(carried)) + carried)
        op.set_operands([*fixed, *inits], (*[1] * len(fixed), len(inits)))
    if not all(kept):
        op.keep_results(kept)
        if isinstance(op, (If, Loop)):
            op.types = tuple(r.type for r in op.results)
    return not all(carried + kept)


def _sweep(block: Block, live: Liveness) -> bool:
    """Erase the ops of ``block`` that are not live, and those in them; whether there are any."""
    dead = dict.fromkeys(op for op in block.ops if op not in live.ops and not op.spec.terminator)
    around = [op for op in block.ops if op.regions and isinstance(op, _ENTERED) and op not in dead]
    swept = [_sweep(region, live) for op in around for region in op.regions]
    block.erase(dead)
    return bool(dead) or any(swept)
