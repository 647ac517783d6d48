"""Writes ops on parts of tiles, and the kernel of one of several blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.layouts import log2
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import And, Cmp, Shr
from tilewright.ir.ops.control import CONTROL_FLOW, For, LoopOp, PassingOp, deciding_values
from tilewright.ir.ops.gpu.cluster import ClusterGather
from tilewright.ir.ops.linear import Mma, Reduce
from tilewright.ir.ops.shape import Iota
from tilewright.ir.rewrite import ValueMap, clone_block, open_block, with_body
from tilewright.ir.structured import emit_if
from tilewright.ir.types import TileType
from tilewright.transforms.gpu.tile_splitting.demand import (
    HALVES,
    Axis,
    CannotSplit,
    DemandAnalysis,
    Division,
    carried_by,
    needed_by_stores,
)
from tilewright.transforms.gpu.tile_splitting.views import part_of_iota, part_of_view

_ROWS, _COLUMNS = 64, 16  # of the result of an MMA op, at least, that a block computes


class PartWriter:
    """Writes ops on parts of tiles, with a builder: those of the part that ``_part`` says."""

    def __init__(self, needs: DemandAnalysis, b: Builder) -> None:
        self.needs, self._b = needs, b
        self._division = needs.division
        self._values: dict[tuple[Value, Axis], Value] = {}
        self._part: Value

    def _resized(self, n: int) -> int:
        """The extent of a tile along the axis of its parts."""
        return n // self._division.parts

    def _part_of(self, t: TileType, axis: Axis) -> TileType:
        return t.with_shape(tuple(self._resized(n) if a == axis else n for a, n in enumerate(t.shape)))

    def _get(self, value: Value, axis: Axis) -> Value:
        return self._values[value, axis]

    def _write(self, op: Op) -> None:
        """``op`` in every form in which its results are needed."""
        for axis in dict.fromkeys(axis for value in op.results for axis in self.needs.of(value)):
            self._copy(op, axis)

    def _copy(self, op: Op, axis: Axis) -> None:
        """``op``, its results, or what it stores, divided along ``axis``."""
        operands = [self._get(v, a) for v, a in zip(op.operands, self._division.operand_axes(op, axis))]
        found = self._replaced(op, axis, operands)
        if found is None:
            attributes = dict(op.attributes)
            if axis is not None:
                if isinstance(op, memory.ViewMemoryOp):
                    self._narrow(op, axis, operands)
                if isinstance(attributes.get("type"), TileType):
                    attributes["type"] = self._part_of(attributes["type"], axis)
                if "shape" in attributes:
                    attributes["shape"] = self._part_of(op.result.tile, axis).shape
            inner: ValueMap = {v: self._get(v, None) for v in op.captured()}
            regions = [clone_block(region, inner) for region in op.regions]
            types = tuple(v.type if axis is None else self._part_of(v.tile, axis) for v in op.results)
            copied = type(op)(operands, op.segments, attributes, regions, types, op.loc)
            self._b.insert(copied)
            across = isinstance(op, Reduce) and axis is None and op in self._division.across
            found = self._across(copied) if across else list(copied.results)
        self._values.update(zip(((old, axis) for old in op.results), found))

    def _replaced(self, op: Op, axis: Axis, operands: Sequence[Value]) -> list[Value] | None:
        """What stands for the results of ``op`` where it is not ``op`` of parts."""
        if isinstance(op, (memory.AssumeDivisible, memory.AssumeBounded, memory.AssumeBlocked)) and axis is not None:
            return [operands[0]]
        if isinstance(op, Iota) and axis is not None:
            return [part_of_iota(self._b, self._part_of(op.result.tile, axis), self._part)]
        return None

    def _narrow(self, op: memory.ViewMemoryOp, axis: int, operands: list[Value]) -> None:
        """Let ``operands`` of an access say where its part is."""
        view = op.view.op
        assert isinstance(view, memory.MakePartitionView)
        at = len(operands) - len(view.type.tile_shape) + axis
        size, whole = view.type.tile_shape[axis] // self._division.parts, self._get(view.view, None)
        operands[0], operands[at] = part_of_view(
            self._b, view.type, whole, operands[at], axis, size, self._part, promised=op.promised[axis]
        )

    def _across(self, op: Op) -> list[Value]:
        """The results of the reduction ``op`` of a part, combined with those of the other parts."""
        parts = self._b.emit_op(ClusterGather, op.results, ctas=self._division.parts).results
        body = clone_block(op.regions[0], {})
        attributes, types = {**op.attributes, "axis": 0}, tuple(v.type for v in op.results)
        return list(self._b.insert(type(op)(parts, op.segments, attributes, [body], types, op.loc)).results)


class TileSplitter(PartWriter):
    """Writes the kernel of one of several blocks: the one that the number of the block along the first axis says."""

    def __init__(self, function: Function, axes: Mapping[Any, Axis], division: Division = HALVES) -> None:
        """Stores store parts along their ``axes``; what has none the first block stores."""
        needed = DemandAnalysis(needed_by_stores(function, axes, division), division)
        super().__init__(needed, Builder(Block(), function.loc))
        self._function, self._axes = function, axes

    def function(self) -> Function:
        copied: ValueMap = {}
        self._b.block = open_block(self._function.body, copied)
        self._values = {(old, None): new for old, new in copied.items()}
        number, last = self._b.emit(memory.Bid, axis=0), self._b.constant(self._division.parts - 1, int32)
        self._part = self._b.emit(And, number, last)
        self._fill(self._function.body)
        return with_body(self._function, self._b.block)

    def _fill(self, block: Block) -> None:
        for op in block.ops:
            self._b.loc = op.loc
            if op.spec.terminator:
                self._end(op)
            elif isinstance(op, CONTROL_FLOW):
                self._structured(op)
            elif op in self._axes:
                self._store(op, self._axes[op])
            else:
                self._write(op)

    def _store(self, op: Op, axis: Axis) -> None:
        if axis is not None:
            self._copy(op, axis)
            return
        first = self._b.emit(Cmp, self._part, self._b.constant(0, int32), predicate=CmpPredicate.EQ)

        def copy() -> list[Value]:
            self._copy(op, None)
            return []

        emit_if(self._b, first, copy)

    def _copy(self, op: Op, axis: Axis) -> None:
        if isinstance(op, Mma) and axis is not None:
            least = (_ROWS, _COLUMNS)[axis - op.acc.tile.rank + 2 :][:1]
            if any(self._resized(op.acc.tile.shape[axis]) < n for n in least):
                raise CannotSplit
        super()._copy(op, axis)

    def _structured(self, op: Op) -> None:
        carried, fixed = carried_by(op), deciding_values(op)
        results = carried if isinstance(op, For) else op.results
        operands = [self._get(v, None) for v in fixed]
        operands += self._versions(op.inits if isinstance(op, LoopOp) else (), carried)
        attributes, types = dict(op.attributes), tuple(self._part_of(v.tile, axis) for v, axis in self._keys(results))
        if "types" in attributes:
            attributes["types"] = types
        segments = (*[1] * len(fixed), len(operands) - len(fixed))[: len(op.segments)]
        regions = [self._region(op, region) for region in op.regions]
        made = type(op)(operands, segments, attributes, regions, types, op.loc)
        self._b.insert(made)
        keys = [(old, axis) for old, like in zip(op.results, results) for axis in self.needs.of(like)]
        self._values.update(zip(keys, made.results))

    def _region(self, op: Op, region: Block) -> Block:
        block = Block()
        index = [(v, None) for v in region.args[: len(region.args) - len(carried_by(op))]]
        for value, axis in (*index, *self._keys(carried_by(op))):
            self._values[value, axis] = block.add_arg(self._part_of(value.tile, axis), value.name)
        with self._b.at(block):
            self._fill(region)
        return block

    def _end(self, op: Op) -> None:
        operands = self._versions(op.operands, op.receivers if isinstance(op, PassingOp) else ())
        self._b.insert(type(op)(operands, (len(operands),)[: len(op.segments)], {}, [], (), op.loc))

    def _keys(self, values: Iterable[Value]) -> list[tuple[Value, Axis]]:
        """``values`` in every form in which they are needed."""
        return [(value, axis) for value in values for axis in self.needs.of(value)]

    def _versions(self, values: Iterable[Value], like: Iterable[Value]) -> list[Value]:
        """Each of ``values`` in every form in which that of ``like`` is needed."""
        return [self._get(value, axis) for value, other in zip(values, like) for axis in self.needs.of(other)]

    def _replaced(self, op: Op, axis: Axis, operands: Sequence[Value]) -> list[Value] | None:
        if isinstance(op, (memory.Bid, memory.NumBlocks)) and op.axis == 0:
            number, bits = self._b.emit(type(op), axis=0), self._b.constant(log2(self._division.parts), int32)
            return [self._b.emit(Shr, number, bits)]
        return super()._replaced(op, axis, operands)
