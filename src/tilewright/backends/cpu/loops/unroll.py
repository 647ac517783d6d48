"""The pass that unrolls short loops over tiles."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.trip_counts import constant_trip_count
from tilewright.ir.core import Function
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.ir.rewrite import replace_ops
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.unrolling import written_out

_MOST_TRIPS = 4  # windows of 2 and filters of 3 and 4
_MOST_OPS = 512  # of the unrolled loop, before these are simplified: a window of 3 x 3 that is gathered has 400


class UnrollShortLoops(InPlacePass):
    """Unrolls loops of known bounds that carry tiles through a few iterations, such as the taps of a filter.

    A carried tile is in memory between two iterations; without the loop all of them are fused. Products are left alone:
    these keep what they add to in registers along K.
    """

    name: ClassVar[str] = "unroll-short-loops"

    def change(self, function: Function) -> bool:
        changed = False
        while replace_ops(function, {op: n for op in function.ops_of(For) if (n := _trips(op))}, written_out):
            changed = True  # those around loops that are written out may have none now
        return changed


def _trips(op: For) -> int:
    """How many iterations are to be written out, 0 where the loop is to stay."""
    simple = all(not o.regions or isinstance(o, (Reduce, Scan)) for o in op.body.ops)
    carries = any(isinstance(v.type, TileType) and v.type.size > 1 for v in op.inits)
    if not (simple and carries) or any(isinstance(o, Mma) for o in op.body.ops):
        return 0
    trips = constant_trip_count(op) or 0
    return trips if trips <= min(_MOST_TRIPS, _MOST_OPS // len(op.body.ops)) else 0
