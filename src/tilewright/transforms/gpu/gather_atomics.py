"""Sums by atomics in few places are added up in shared memory first."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import int32, uint32
from tilewright.ir.enums import AtomicKind, CmpPredicate
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.ops.arith import And, Cast, Cmp
from tilewright.ir.ops.gpu.memory import SharedAdd, SharedAlloc, SharedLoad, SharedStore
from tilewright.ir.ops.gpu.tiles import Splat
from tilewright.ir.ops.memory import AtomicRmw
from tilewright.ir.ops.shape import Constant, Iota, PtrOffset, constant_of
from tilewright.ir.rewrite import clone_op
from tilewright.ir.structured import emit_if
from tilewright.ir.types import SharedType, TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.blocked_layouts import blocked

_FEWEST = 512  # elements of a tile that is added
_EACH = 4  # elements for a place, at least
_MOST = 2048  # places


class GatherAtomics(InPlacePass):
    """Adds the integers that a CTA adds to places of a line, such as those of a histogram, up in shared memory, and
    each sum to its place, where the mask says that there are few places. Nobody reads what was there.

    Runs when layouts are known, and before shared memory is allocated.
    """

    name: ClassVar[str] = "gather-atomics"

    def change(self, function: Function) -> bool:
        ranges = AnalysisManager(function).get(IntegerRanges)
        found = [(op, end) for op in function.ops_of(AtomicRmw) if (end := _end(op, ranges)) is not None]
        for op, end in found:
            _gather(op, end, num_warps(function))
        return bool(found)


def _end(op: AtomicRmw, ranges: IntegerRanges) -> Value | None:
    """A scalar that is more than the place of any element that is added; None for what is no such sum."""
    t, ptrs = op.value.tile, op.ptrs.op
    if op.kind is not AtomicKind.ADD or op.result.users or t.dtype not in (int32, uint32) or t.size < _FEWEST:
        return None
    if not isinstance(ptrs, PtrOffset) or not isinstance(ptrs.ptr.op, Splat):
        return None
    end, positive = None, ranges.range(ptrs.offset)[0] >= 0
    for c in _conjuncts(op.mask):
        if isinstance(c.op, Cmp) and c.op.lhs is ptrs.offset:
            if c.op.predicate is CmpPredicate.LT and isinstance(c.op.rhs.op, Splat):
                end = c.op.rhs.op.x
            positive = positive or (c.op.predicate is CmpPredicate.GE and constant_of(c.op.rhs) == 0)
    return end if positive else None


def _conjuncts(mask: Value | None) -> list[Value]:
    if mask is None or not isinstance(mask.op, And):
        return [] if mask is None else [mask]
    return [c for v in mask.op.operands for c in _conjuncts(v)]


def _gather(op: AtomicRmw, end: Value, warps: int) -> None:
    """A branch that adds up first where the line has so few places that it pays."""
    b, t = Builder.before(op), op.value.tile
    places = min(t.size // _EACH, _MOST)
    line = blocked((places,), (0,), 1, warps)
    sums = TileType(t.dtype, (places,), line)
    assert isinstance(op.ptrs.op, PtrOffset) and isinstance(op.ptrs.op.ptr.op, Splat)
    offset, base = op.ptrs.op.offset, op.ptrs.op.ptr.op.x

    def together() -> list[Value]:
        buffer = b.emit(SharedAlloc, type=SharedType(t.element, LinearLayout.row_major((places,))))
        b.emit_op(SharedStore, buffer, b.emit(Constant, value=0, type=sums))
        b.emit_op(SharedAdd, buffer, b.emit(Cast, offset, dtype=int32), op.value, op.mask)
        found = b.emit(SharedLoad, buffer, type=sums)
        numbers = b.emit(Iota, type=sums.with_dtype(int32))
        ptrs = b.emit(PtrOffset, b.emit(Splat, base, type=sums.with_dtype(base.tile.dtype)), numbers)
        some = b.emit(Cmp, found, b.emit(Constant, value=0, type=sums), predicate=CmpPredicate.NE)
        b.emit_op(AtomicRmw, ptrs, found, some, **op.attributes)
        return []

    def alone() -> list[Value]:
        b.insert(clone_op(op, {}))
        return []

    few = b.emit(Cmp, end, b.constant(places, end.tile.element), predicate=CmpPredicate.LE)
    emit_if(b, few, together, alone)
    op.erase()
