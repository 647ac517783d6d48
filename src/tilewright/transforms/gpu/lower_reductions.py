"""Reductions and scans in stages: within a thread, across the lanes of a warp, across warps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from tilewright.analysis.gpu.contiguity import Contiguity
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Value
from tilewright.ir.dtypes import bool_, int32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout
from tilewright.ir.ops.arith import And, Cast, Cmp, Or, Select
from tilewright.ir.ops.gpu import tiles
from tilewright.ir.ops.gpu.tma import Part
from tilewright.ir.ops.linear import CombiningOp, Reduce, Scan
from tilewright.ir.ops.shape import Constant, Iota, Reshape
from tilewright.ir.reachable import reachable
from tilewright.ir.rewrite import Rewriter, clone_block, replace_ops
from tilewright.ir.structured import emit_region
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.blocked_layouts import along_axis
from tilewright.transforms.gpu.combiners import TileCombiner, Tiles

_REARRANGING = Reshape, tiles.BroadcastDistributed, tiles.ConvertLayout, Cast
_FEWEST_OF_RUN = 8  # elements of a thread, of lines that several warps scan


class LowerReductions(InPlacePass):
    """Turns reductions and scans of distributed tiles into stages that the hardware has.

    A thread combines what it holds; lanes exchange partial results in a butterfly; what is left to combine across warps
    is converted to a layout in which each warp has it (through shared memory), and combined within threads again. Only
    a commutative reduction may combine in the order in which its layout has the elements: others are first brought to
    a layout in which each thread has a run of the axis.
    Runs right after layouts are assigned: the conversions that it makes are lowered with the others.
    """

    name: ClassVar[str] = "lower-reductions"

    def change(self, function: Function) -> bool:
        combining = function.ops_of(CombiningOp)
        if not combining:
            return False
        warps, facts = num_warps(function), AnalysisManager(function).get(Contiguity)
        growing = {op: {k for k, v in enumerate(op.values) if _grows(v, op.axis, facts)} for op in combining}
        return replace_ops(function, {op: (warps, numbers) for op, numbers in growing.items()}, _lowered)


def _grows(value: Value, axis: int, facts: Contiguity) -> bool:
    """Whether the elements of ``value`` count along ``axis``: those of an iota, which all fit into its dtypes."""
    steps = list(reachable([value], lambda v: v.op.operands if isinstance(v.op, _REARRANGING) else ()))
    count = steps[-1].tile.size if isinstance(steps[-1].op, Iota) else 0
    counts = count and all(v.tile.element.is_integer and v.tile.element.max >= count - 1 for v in steps)
    return bool(counts) and facts.runs(value).contiguity[axis] >= value.tile.shape[axis]


def _lowered(rewriter: Rewriter, op: CombiningOp, how: tuple[int, set[int]], b: Builder) -> list[Value]:
    warps, growing = how
    body, values = clone_block(op.body, dict(rewriter.values)), rewriter.all(op.values)
    stages = _Stages(op, body, b, warps, growing)
    found = stages.reduce(values) if isinstance(op, Reduce) else stages.scan(values)
    body.clear()  # which is copied where it is needed: what it takes from around it has no users in it
    for k, (old, new) in enumerate(zip(op.results, found)):
        found[k] = new if new.type == old.type else b.emit(tiles.ConvertLayout, new, type=old.type)
        found[k].name = found[k].name or old.name
    return found


class _Stages:
    """The stages of one reduction or scan. Of ``growing`` operands it is known that they count along the axis."""

    def __init__(self, op: CombiningOp, body: Block, b: Builder, warps: int, growing: set[int]) -> None:
        self.op = op
        self.growing = growing
        self.axis = op.axis
        self.body = body
        self.b = b
        self.warps = warps
        self.combine = TileCombiner(body, b)
        self.commutative = isinstance(op, Reduce) and op.commutative

    # -- reductions

    def reduce(self, values: Tiles) -> Tiles:
        layout = values[0].layout
        if not layout.is_permutation or not (self.commutative or _in_order(layout, self.axis)):
            values = self._converted(values, along_axis(layout.shape, self.axis, self.warps))
        values = self._within_threads(values, _knowing(self.body, self.growing))
        values = self._across_lanes(values)
        values = self._across_warps(values)
        shape = values[0].tile.shape
        rest = shape[: self.axis] + shape[self.axis + 1 :]
        return [self.b.emit(Reshape, v, shape=rest) for v in values]

    def _within_threads(self, values: Tiles, body: Block) -> Tiles:
        if not values[0].layout.axis_bits(REGISTER, self.axis):
            body.clear()
            return values
        return self.b.emit_op(tiles.ThreadReduce, values, axis=self.axis, body=body).results

    def _across_lanes(self, values: Tiles) -> Tiles:
        """The butterfly, from the lowest bit of the axis to the highest: then all lanes have the result."""
        layout = values[0].layout
        lanes = {image[self.axis]: 1 << i for i, image in enumerate(layout.images(LANE)) if image[self.axis]}
        for bit in sorted(lanes):
            others = [self.b.emit(tiles.Shuffle, v, lane_xor=lanes[bit]) for v in values]
            if self.commutative:
                values = self.combine(values, others)
            else:
                upper = self._has_bits(layout, self.axis, bit)
                values = self.combine(self._select(upper, others, values), self._select(upper, values, others))
        return self._without(values, sum(lanes))

    def _without(self, values: Tiles, bits: int) -> Tiles:
        return [self.b.emit(tiles.DropBits, v, axis=self.axis, bits=bits) for v in values] if bits else values

    def _across_warps(self, values: Tiles) -> Tiles:
        return self._within_threads(self._gathered(values, self.axis), clone_block(self.body, {}))

    def _gathered(self, values: Tiles, axis: int) -> Tiles:
        """In each thread what all warps have along ``axis``."""
        layout = values[0].layout
        images = layout.images(WARP)
        along = [b for b, image in zip(layout.bases(WARP), images) if image[axis]]
        others = [0 if image[axis] else b for b, image in zip(layout.bases(WARP), images)]
        registers = (*layout.bases(REGISTER), *along)
        return self._converted(values, layout.with_bases(WARP, others).with_bases(REGISTER, registers))

    # -- scans

    def scan(self, values: Tiles) -> Tiles:
        """Runs within threads, and before each what is combined of all runs before it."""
        home = values[0].layout
        values = self._converted(values, along_axis(home.shape, self.axis, self.warps, fewest=_FEWEST_OF_RUN))
        layout = values[0].layout
        runs, warps = (layout.axis_bits(dim, self.axis).bit_count() for dim in (REGISTER, WARP))
        shape, axis = layout.shape, self.axis
        split = (*shape[:axis], 1 << warps, shape[axis] >> runs + warps, 1 << runs, *shape[axis + 1 :])
        values = [self.b.emit(Reshape, v, shape=split) for v in values]
        assert isinstance(self.op, Scan)
        reverse = self.op.reverse
        body = clone_block(self.body, {})
        scanned = self.b.emit_op(tiles.ThreadScan, values, axis=axis + 2, reverse=reverse, body=body).results
        if split[axis + 1] > 1:
            totals = [self._total(v, axis + 2, reverse) for v in scanned]
            before, valid, totals = self._before(totals, axis + 1, reverse)
            if warps:
                before, valid = self._before_warps(before, valid, totals, reverse)
            scanned = self._after(scanned, before, valid)
        joined = [self.b.emit(Reshape, v, shape=shape) for v in scanned]
        return self._converted(joined, home)

    def _total(self, scanned: Value, axis: int, reverse: bool) -> Value:
        """The last element of each run along ``axis``, which is within threads: the axis then has length 1."""
        t = scanned.tile
        if t.shape[axis] == 1:
            return scanned
        body = emit_region(self.b, [TileType(t.dtype)] * 2, lambda *args: [args[0 if reverse else 1]])
        return self.b.emit(tiles.ThreadReduce, [scanned], axis=axis, body=body)

    def _before(self, totals: Tiles, axis: int, reverse: bool) -> tuple[Tiles, Value, Tiles]:
        """What is combined of the totals of all lanes before each, which lanes have one before them, and the totals of
        all lanes, which each has."""
        layout = totals[0].layout
        lanes = {image[axis]: 1 << i for i, image in enumerate(layout.images(LANE)) if image[axis]}
        before, seen = totals, 0
        for bit in sorted(lanes):
            others = [self.b.emit(tiles.Shuffle, v, lane_xor=lanes[bit]) for v in totals]
            behind = self._has_bits(layout, axis, bit, clear=reverse)
            joined = others
            if seen:
                joined = self._select(
                    self._has_bits(layout, axis, seen, clear=reverse), self.combine(others, before), others
                )
            before = self._select(behind, joined, before)
            first, second = self._select(behind, others, totals), self._select(behind, totals, others)
            totals = self.combine(first, second)
            seen |= bit
        return before, self._has_bits(layout, axis, seen, clear=reverse), totals

    def _before_warps(self, before: Tiles, valid: Value, totals: Tiles, reverse: bool) -> tuple[Tiles, Value]:
        """``before`` and ``valid`` with what is combined of the ``totals`` of all warps before each."""
        axis, b = self.axis, self.b
        lanes, count = totals[0].tile.shape[axis + 1], totals[0].tile.shape[axis]
        totals = [b.emit(tiles.DropBits, v, axis=axis + 1, bits=lanes - 1) for v in totals]
        layout = totals[0].layout
        of_all = self._gathered(totals, axis)
        order = [*reversed(range(count))] if reverse else [*range(count)]

        def spread(values: Sequence[Value], target: LinearLayout) -> Tiles:
            types = (TileType(v.tile.dtype, target.shape, target) for v in values)
            return [b.emit(tiles.BroadcastDistributed, v, type=t) for v, t in zip(values, types)]

        def total(warp: int) -> Tiles:
            return spread([b.emit(Part, v, axis=axis, size=1, index=warp) for v in of_all], layout)

        sums = total(order[0])
        for warp in order[1:-1]:
            sums = self._select(self._beyond(layout, axis, warp, reverse), self.combine(sums, total(warp)), sums)
        *sums, behind = spread([*sums, self._beyond(layout, axis, order[0], reverse)], before[0].layout)
        both = self._select(valid, self.combine(sums, before), sums)
        return self._select(behind, both, before), b.emit(Or, valid, behind)

    def _after(self, scanned: Sequence[Value], before: Tiles, valid: Value) -> Tiles:
        layout = scanned[0].layout
        spread = [
            self.b.emit(tiles.BroadcastDistributed, v, type=TileType(v.tile.dtype, layout.shape, layout))
            for v in (*before, valid)
        ]
        return self._select(spread[-1], self.combine(spread[:-1], scanned), scanned)

    # -- what both need

    def _converted(self, values: Tiles, layout: LinearLayout) -> Tiles:
        if values[0].layout == layout:
            return values
        return [self.b.emit(tiles.ConvertLayout, v, type=v.tile.with_layout(layout)) for v in values]

    def _select(self, condition: Value, x: Sequence[Value], y: Sequence[Value]) -> Tiles:
        return [self.b.emit(Select, condition, a, b) for a, b in zip(x, y)]

    def _has_bits(self, layout: LinearLayout, axis: int, bits: int, *, clear: bool = False) -> Value:
        """Where the coordinate along ``axis`` has any of ``bits`` set, or clear."""
        return self._compared(layout, axis, bits, CmpPredicate.NE, bits if clear else 0)

    def _beyond(self, layout: LinearLayout, axis: int, place: int, reverse: bool) -> Value:
        """Where the coordinate along ``axis`` is above ``place``, or below."""
        predicate = CmpPredicate.LT if reverse else CmpPredicate.GT
        return self._compared(layout, axis, layout.shape[axis] - 1, predicate, place)

    def _compared(self, layout: LinearLayout, axis: int, bits: int, predicate: CmpPredicate, number: int) -> Value:
        """How ``bits`` of the coordinate along ``axis`` compare to a ``number``."""
        after = math.prod(layout.shape[axis + 1 :])
        want = TileType(int32, layout.shape, layout)
        index = self.b.emit(Iota, type=want)
        masked = self.b.emit(And, index, _full(self.b, bits * after, want))
        return self.b.emit(Cmp, masked, _full(self.b, number * after, want), predicate=predicate)


def _knowing(body: Block, growing: set[int]) -> Block:
    """A copy of the combiner ``body`` for operands of which the left one is before the right one along the axis: which
    of two ``growing`` numbers is smaller is no question then, such as where the index breaks the ties of an argmax."""
    body = clone_block(body, {})
    count = len(body.args) // 2
    pairs = [(body.args[k], body.args[count + k]) for k in growing]
    for op in list(body.ops):
        if isinstance(op, Cmp) and (op.lhs, op.rhs) in pairs and op.predicate in (CmpPredicate.LT, CmpPredicate.GT):
            op.replace_by([Builder.before(op).constant(op.predicate is CmpPredicate.LT, bool_)])
    return body


def _full(b: Builder, value: int, t: TileType) -> Value:
    return b.emit(Constant, value=value, type=t)


def _in_order(layout: LinearLayout, axis: int) -> bool:
    """Whether registers have the lowest bits of the axis, lanes the next ones, and warps the highest."""
    registers, lanes, warps = (layout.axis_bits(dim, axis) for dim in (REGISTER, LANE, WARP))
    return registers + 1 & registers == 0 and _follows(lanes, registers) and _follows(warps, registers | lanes)


def _follows(bits: int, lower: int) -> bool:
    both = bits | lower
    return not bits or (bits > lower and both + 1 & both == 0)
