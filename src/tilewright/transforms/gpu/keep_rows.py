"""Rows that several loops read, one after the other, stay in shared memory from the first one on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import KEPT_ROWS
from tilewright.ir.ops.arith import Add, Cmp, Div, Min
from tilewright.ir.ops.control import CONTROL_FLOW, For
from tilewright.ir.ops.gpu import memory
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.ops.memory import AssumeDivisible
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.reachable import are_alike
from tilewright.ir.rewrite import Rewriter, clone_block, open_block, replace_ops
from tilewright.ir.types import SharedType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.load_ahead import AheadLoad, written_objects
from tilewright.transforms.gpu.pipeline_loads import OperandLoad, copied_rows, read_copy

_AHEAD = 4  # iterations of the first loop
# Tiles that a loop loads beside rows which are kept: with few warps on an SM they are waited for. Layer norm of 28,672
# columns in steps, with weights and biases, has 2,207 GB/s so, and 2,735 without (one H200).
_MOST_BESIDE = 1


@dataclass(eq=False)
class _Kept:
    """The tile of each iteration that ``loads`` of several loops give, and its copies."""

    loads: dict[For, OperandLoad]
    ring: Value | None = None


@dataclass(frozen=True)
class KeepRows(InPlacePass):
    """Copies what the first of several loops over the same steps loads to shared memory, a few iterations ahead, and
    has the others read it there: the first ``steps`` of a row. What follows each loop loads as before.

    Without ``steps`` nothing is kept; the hint ``KEPT_ROWS`` says which parameter is the length of such rows, and how
    many elements, and bytes, a step has. For kernels without MMA ops that store to nothing of what is kept. Runs before
    other loads of loops are copied ahead.
    """

    name: ClassVar[str] = "keep-rows"
    steps: int = 0

    def change(self, function: Function) -> bool:
        found = [] if function.ops_of((GpuMma, Wgmma)) else _kept(function)
        if not self.steps:
            length = _length(function, found)
            if length is not None:
                function.hints[KEPT_ROWS] = length
            return length is not None
        loops: dict[For, list[_Kept]] = {}
        for kept in found:
            for loop in kept.loads:
                loops.setdefault(loop, []).append(kept)
        return replace_ops(function, loops, lambda r, loop, kept, b: _Rebuilt(r, loop, kept, b, self.steps).results)


def _kept(function: Function) -> list[_Kept]:
    if any(map(is_ordered, function.walk())):  # what follows may be something else
        return []
    alias = AnalysisManager(function).get(AliasAnalysis)
    written = written_objects(function.walk(), alias)
    found: list[_Kept] = []
    for block in function.blocks():
        groups: list[_Kept] = []
        for loop in block.ops:
            if not isinstance(loop, For) or constant_of(loop.bounds[0]) != 0 or constant_of(loop.step) != 1:
                continue
            if any(isinstance(op, CONTROL_FLOW) for op in loop.body.walk()):
                continue
            loads = (AheadLoad.of(op, loop.body) for op in loop.body.ops if isinstance(op, memory.GlobalLoad))
            for load in copied_rows(x for x in loads if x is not None and x.op.result.tile.rank):
                if not may_alias(alias.underlying_object(load.op.ptrs), written):
                    _add(groups, loop, load)
        found += [kept for kept in groups if len(kept.loads) > 1]
    return found


def _add(groups: list[_Kept], loop: For, load: OperandLoad) -> None:
    """Put ``load`` of ``loop`` to those of the same tiles."""
    for kept in groups:
        first, other = next(iter(kept.loads.items()))
        if first.bounds[1] is loop.bounds[1] and loop not in kept.loads and _same(load.op, other.op):
            kept.loads[loop] = load
            return
    groups.append(_Kept({loop: load}))


def _same(x: memory.GlobalLoad, y: memory.GlobalLoad) -> bool:
    """Whether both load the same in iterations of the same number."""
    assert x.block is not None and y.block is not None
    number = dict(zip(x.block.args[:1], y.block.args[:1]))
    return x.vector == y.vector and are_alike(x.ptrs, y.ptrs, number) and are_alike(x.mask, y.mask, number)


def _length(function: Function, found: Sequence[_Kept]) -> tuple[int, int, int] | None:
    """The number of the parameter that is the length of the rows, and the elements and bytes of a step; None where the
    length is none, or rows have several."""
    uppers = {next(iter(kept.loads)).bounds[1].op for kept in found}
    upper = next(iter(uppers), None)
    if len(uppers) != 1 or not isinstance(upper, Div):
        return None
    length, step = upper.lhs, constant_of(upper.rhs)
    while isinstance(length.op, AssumeDivisible):
        length = length.op.x
    if length not in function.body.args or not isinstance(step, int):
        return None
    kept = {load.op for group in found for load in group.loads.values()}
    loads = [op for loop in {loop for group in found for loop in group.loads} for op in loop.body.ops]
    beside = Counter(op.block for op in loads if isinstance(op, memory.GlobalLoad) and op not in kept)
    if any(count > _MOST_BESIDE for count in beside.values()):
        return None
    sizes = sum(next(iter(kept.loads.values())).type.bytes for kept in found)
    return function.body.args.index(length), step, sizes


class _Rebuilt:
    """The loops that take the place of another one, and the ``results``."""

    def __init__(self, rewriter: Rewriter, loop: For, kept: list[_Kept], b: Builder, steps: int) -> None:
        self.rewriter, self.loop, self.kept, self.b, self.steps = rewriter, loop, kept, b, steps
        outside = dict(rewriter.values)
        lower, upper, step = rewriter.all(loop.bounds)
        self.end = b.emit(Min, upper, b.constant(steps, upper.tile.element))
        self.new = [k for k in kept if k.ring is None]
        for k in self.new:
            t = k.loads[loop].type
            k.ring = b.emit(memory.SharedAlloc, type=SharedType(t.dtype, t.layout, steps + 1))  # one for no iteration
        for i in range(_AHEAD if self.new else 0):
            self._copy(b.constant(i, upper.tile.element))
        body = self._body()
        made = b.emit_op(For, lower, self.end, step, rewriter.all(loop.inits), body=body)
        if self.new:
            b.emit_op(memory.AsyncWait)
        rest = clone_block(loop.body, outside)
        self.results = b.emit_op(For, self.end, upper, step, list(made.results), body=rest).results

    def _copy(self, at: Value) -> None:
        """Begin the copies of the iteration ``at``, if it is kept."""
        b = self.b
        exists = b.emit(Cmp, at, self.end, predicate=CmpPredicate.LT)
        slot = b.emit(Min, at, b.constant(self.steps, at.tile.element))
        for kept in self.new:
            load = kept.loads[self.loop].ahead
            pointers, mask, _ = load.at(at, exists, self.rewriter.values, b)
            copy = b.emit(memory.SharedCopy, kept.ring, slot)
            b.emit_op(memory.AsyncCopy, copy, pointers, mask, vector=load.op.vector)
        b.emit_op(memory.AsyncCommit)

    def _body(self) -> Block:
        b, values = self.b, self.rewriter.values
        read = {kept.loads[self.loop].op: kept for kept in self.kept}
        body = open_block(self.loop.body, values)
        at = body.args[0]
        with b.at(body):
            if self.new:
                b.emit_op(memory.AsyncWait, pending=_AHEAD - 1)
                self._copy(b.emit(Add, at, b.constant(_AHEAD, at.tile.element)))
            for op in self.loop.body.ops:
                b.loc = op.loc
                if isinstance(op, memory.GlobalLoad) and op in read:
                    slot = b.emit(memory.SharedCopy, read[op].ring, at)
                    values[op.result] = read_copy(op, slot, op.result.tile, self.rewriter, b)
                else:
                    self.rewriter.insert(op, b)
        return body
