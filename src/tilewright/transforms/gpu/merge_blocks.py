"""CTAs that run several small blocks of the grid: as many as an SM starts and holds would limit what is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Param, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import BLOCKS_OF_CTA, GRID_EXTENT, SHORT_ROWS
from tilewright.ir.opdef import Effect
from tilewright.ir.ops import memory
from tilewright.ir.ops.arith import Add, And, Cmp, Min, Mul, Select, Sub
from tilewright.ir.ops.control import Return
from tilewright.ir.ops.linear import CombiningOp
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Permute, Reshape
from tilewright.ir.rewrite import Rewriter, ValueMap, clone_block, open_block
from tilewright.ir.types import I32, TileType

_ELEMENTS, _ADDED = 1024, 4096  # of the largest tile that a CTA accesses, or adds up before it adds it to a few places
_MOST = 8  # blocks of a CTA
_LAST = (1 << 24) - 2  # index of a block
_WIDTH = "grid_width"
_VIEWS = (memory.MakeTensorView, memory.MakePartitionView)
_PROMISES = (memory.AssumeBlocked, memory.AssumeBounded, memory.AssumeDivisible)
_SHAPED = (Broadcast, CombiningOp, Constant, Iota, Permute, Reshape)
_OTHERS = (*_SHAPED, *_PROMISES, *_VIEWS, memory.AtomicView, memory.Bid, memory.NumBlocks, Return)
_STORES = (memory.Store, memory.AtomicRmw)
_ACCESSES = (*_STORES, memory.Load)


def blocks_of_cta(function: Function) -> int:
    """How many blocks a CTA may run of a kernel without control flow, none of whose blocks waits for another one: more
    than one where these are so small that it pays."""
    ops = function.body.ops
    numbered = any(isinstance(op, memory.Bid) and op.axis == 0 for op in ops)
    if not numbered or function.hints.keys() - {GRID_EXTENT, SHORT_ROWS} or not all(map(_is_known, ops)):
        return 1
    accesses = [op for op in ops if isinstance(op, memory.MemoryOp)]
    sums = [
        isinstance(op, memory.AtomicRmw) and op.value.tile.element.is_integer
        for op in accesses
        if op.spec.effect & Effect.WRITE
    ]
    most = _ADDED if sums and all(sums) else _ELEMENTS
    return max(min(_MOST, most // max(map(_size, accesses), default=most)), 1)


def _is_known(op: Op) -> bool:
    if isinstance(op, (memory.Load, memory.LoadView, memory.Store, memory.StoreView)):
        return op.is_weak
    if isinstance(op, memory.AtomicRmw):
        return not op.result.users
    return op.spec.elementwise or (isinstance(op, _OTHERS) and all(map(_is_closed, op.regions)))


def _is_closed(region: Block) -> bool:
    """Whether what ``region`` computes follows from its arguments, and differs among blocks by nothing else."""
    made = {*region.args, *(v for op in region.ops for v in op.results)}
    known = (op.spec.elementwise or isinstance(op, Constant) or op.spec.terminator for op in region.ops)
    return all(known) and all(v in made for op in region.ops for v in op.operands)


def _is_in_place(function: Function) -> bool:
    """Whether ``function`` may load what it stores."""
    alias, ops = AnalysisManager(function).get(AliasAnalysis), function.body.ops
    loaded, _ = alias.accessed(op for op in ops if isinstance(op, memory.Load))
    _, stored = alias.accessed(ops)
    return any(may_alias(root, stored) for root in loaded)


def _size(op: memory.MemoryOp) -> int:
    return op.view.partition.tile.size if isinstance(op, memory.ViewMemoryOp) else op.address.tile.size


class MergeBlocks:
    """Lets a CTA run small blocks that follow each other along the first axis of the grid: each tile gets an axis for
    them.

    The kernel takes the width of the grid as its last parameter, and the hint ``BLOCKS_OF_CTA`` says how many blocks a
    CTA has; where a launch has as many CTAs as blocks, it has one. A CTA with fewer computes its last one more than
    once, and stores it once. Where a kernel loads what it stores, nothing is loaded more than once either: new values
    could be there already, which as indices lie anywhere. Runs on addresses, and before layouts are assigned.
    """

    name: ClassVar[str] = "merge-blocks"

    def run(self, function: Function) -> Function:
        count = blocks_of_cta(function)
        return function if count == 1 else _Merger(count).function(function)


class _Merger(Rewriter):
    """Computes what differs among ``count`` blocks in tiles whose first axis is for these."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count
        self._merged: set[Value] = set()  # values of the rebuilt function that have the axis
        self._index: Value  # of each block along the first axis of the grid
        self._exists: Value  # whether there is one
        self._in_place = False

    def function(self, function: Function) -> Function:
        self._in_place = _is_in_place(function)
        made = super().function(function)
        params, hints = [*function.params, Param(_WIDTH, "scalar")], {**function.hints, BLOCKS_OF_CTA: self._count}
        return replace(made, params=params, hints=hints)

    def block(self, block: Block, values: ValueMap) -> Block:
        if block.parent is not None:
            return super().block(block, values)
        copied = open_block(block, values)
        b = Builder(copied, block.ops[0].loc)
        width = copied.add_arg(I32, _WIDTH)
        self._number(width, b)
        for op in block.ops:
            if isinstance(op, (memory.Bid, memory.NumBlocks)) and op.axis == 0:
                self.replace_all_uses(op, [self._index if isinstance(op, memory.Bid) else width])
            else:
                self.insert(op, b)
        return copied

    def _number(self, width: Value, b: Builder) -> None:
        line, one = b.emit(Iota, type=TileType(int32, (self._count,))), b.constant(1, int32)
        alone = b.emit(Cmp, b.emit(memory.NumBlocks, axis=0), width, predicate=CmpPredicate.EQ)
        each = b.emit(Select, alone, one, b.constant(self._count, int32))
        first = b.emit(Mul, b.emit(memory.Bid, axis=0), each)
        last = self._each(b.emit(Sub, b.emit(Min, each, b.emit(Sub, width, first)), one), b)
        index = b.emit(Add, self._each(first, b), b.emit(Min, line, last))
        self._index = b.emit(memory.AssumeBounded, index, lower=0, upper=_LAST)
        self._exists = b.emit(Cmp, line, last, predicate=CmpPredicate.LE)
        self._merged |= {self._index, self._exists}

    def _each(self, x: Value, b: Builder) -> Value:
        """``x``, which is the same for all blocks, for each of them."""
        shape, op = x.tile.shape, x.op
        if isinstance(op, Broadcast) and op.x.tile.size == 1:
            x = op.x
            return b.emit(Broadcast, b.emit(Reshape, x, shape=(1,) * (len(shape) + 1)), shape=(self._count, *shape))
        return b.emit(Broadcast, b.emit(Reshape, x, shape=(1, *shape)), shape=(self._count, *shape))

    def insert(self, op: Op, builder: Builder) -> None:
        builder.loc = op.loc
        operands = self.all(op.operands)
        if self._merged.isdisjoint(operands) and not isinstance(op, _STORES):
            super().insert(op, builder)
            return
        operands = [v if v in self._merged else self._each(v, builder) for v in operands]
        if isinstance(op, memory.AssumeBlocked):
            self.replace_all_uses(op, operands)
        elif isinstance(op, _ACCESSES if self._in_place else _STORES):
            self._access(op, operands, builder)
        else:
            types = [v.tile.with_shape((self._count, *v.tile.shape)) for v in op.results]
            regions = [clone_block(region, dict(self.values)) for region in op.regions]
            made = builder.insert(type(op)(operands, op.segments, self._attributes(op), regions, types, op.loc))
            self.replace_all_uses(op, made.results)
            self._merged.update(made.results)

    def _access(self, op: memory.Load | memory.Store | memory.AtomicRmw, operands: list[Value], b: Builder) -> None:
        """``op`` with ``operands``, for the blocks that there are."""
        given = dict(zip(op.operands, operands, strict=True))
        ptrs = given[op.address]
        exists = b.emit(Reshape, self._exists, shape=(self._count, *[1] * (len(ptrs.tile.shape) - 1)))
        mask = b.emit(Broadcast, exists, shape=ptrs.tile.shape)
        if op.mask is not None:
            mask = b.emit(And, mask, given[op.mask])
        rest = (mask, op.padding and given[op.padding]) if isinstance(op, memory.Load) else (given[op.value], mask)
        made = b.emit_op(type(op), ptrs, *rest, **op.attributes)
        self.replace_all_uses(op, made.results)
        self._merged.update(made.results)

    def _attributes(self, op: Op) -> dict[str, Any]:
        found = dict(op.attributes)
        if isinstance(op, (Broadcast, Reshape)):
            found["shape"] = (self._count, *op.shape)
        elif isinstance(op, Permute):
            found["axes"] = (0, *(axis + 1 for axis in op.axes))
        elif isinstance(op, CombiningOp):
            found["axis"] = op.axis + 1
        elif isinstance(op, memory.AssumeDivisible) and op.along is not None:
            found["along"] = op.along + 1
        return found
