"""Loops of few MMA ops that wait for each other, and load nothing, are written out: what one step converts for its MMA
ops, those of the next one read, too."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.trip_counts import constant_trip_count
from tilewright.ir.core import Function
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import Mma
from tilewright.ir.rewrite import replace_ops
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.unrolling import written_out

_MOST_STEPS = 8  # powers of a matrix up to the 256th


class UnrollMma(InPlacePass):
    """Puts its steps in the place of a loop with a constant number of them, up to eight, in which MMA ops multiply
    what it carries, and all is pure: as in the inverse of a triangular matrix by powers of two.

    Runs before ``choose-wgmma``, and common subexpressions after it.
    """

    name: ClassVar[str] = "unroll-mma"

    def change(self, function: Function) -> bool:
        counts = {op: constant_trip_count(op) for op in function.ops_of(For) if _only_multiplies(op)}
        return replace_ops(function, {op: n for op, n in counts.items() if n and n <= _MOST_STEPS}, written_out)


def _only_multiplies(loop: For) -> bool:
    """Whether ``loop`` has MMA ops, of which each has a factor that ``loop`` computes, and nothing else to see."""
    ops = loop.body.ops[:-1]
    mmas = [op for op in ops if isinstance(op, Mma)]
    computed = {v for op in ops for v in op.results} | set(loop.carried)
    pure = all(is_pure(op) and not op.regions for op in ops)
    return bool(mmas) and pure and all(op.x in computed or op.y in computed for op in mmas)
