"""Loops whose steps need more registers than warp groups have are run in steps of half as much.

In the backward pass of attention a step has the scores of its queries, and their gradients, beside the accumulators of
keys and values. In two steps of half of the queries each there is half as much beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.analysis.mma_graph import mma_loops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import int32, int64
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.arith import And, Cast, Mul, Shr
from tilewright.ir.ops.control import CONTROL_FLOW, For
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load, LoadView
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.rewrite import Rewriter, clone_function, replace_ops
from tilewright.ir.structured import emit_for
from tilewright.transforms.gpu.split_mma import groups_of, words_beside
from tilewright.transforms.gpu.tile_splitting.demand import Axis, CannotSplit, DemandAnalysis
from tilewright.transforms.gpu.tile_splitting.splitter import PartWriter
from tilewright.transforms.gpu.wgmma_choice import MOST_WORDS
from tilewright.transforms.pipelines import optimize

# Of a thread for sums and a left operand, with one warp group and with two, whose threads have registers of one that
# loads: benchmarks/results/gpu_attention.md.
_MOST_WORDS = {1: 208, 2: MOST_WORDS}


class SplitSteps:
    """Halves the steps of loops over the axis along which all that they carry is summed by MMA ops, while these need
    too many registers. Runs on optimized Tile IR, after what divides tiles among CTAs."""

    name: ClassVar[str] = "split-steps"

    def run(self, function: Function) -> Function:
        while any(map(_needs_of_half, mma_loops(function))):
            function = clone_function(function)
            halved = {loop: needs for loop in mma_loops(function) if (needs := _needs_of_half(loop)) is not None}
            replace_ops(function, halved, _in_halves)
            function = optimize(function)
        return function


def _needs_of_half(loop: For) -> DemandAnalysis | None:
    """How values are needed in half of a step of ``loop``; None where a step stays as it is."""
    sums = _sums(loop)
    found = [op for op in loop.body.ops if isinstance(op, Mma)]
    if not sums or len(sums) == len(found) or words_beside(found) <= _MOST_WORDS[groups_of(found)]:
        return None
    if constant_of(loop.step) != 1 or not all(map(_may_be_halved, loop.body.ops[:-1])):
        return None
    try:
        needs = DemandAnalysis(factor for op in sums for factor in ((op.x, 1), (op.y, 0)))
    except CannotSplit:
        return None
    outside = [v.op for v in needs.halved() if v.op is None or v.op.block is not loop.body]
    return needs if all(op is not None and is_pure(op) and not op.regions for op in outside) else None


def _may_be_halved(op: Op) -> bool:
    return (isinstance(op, (Load, LoadView)) and op.is_weak) or (is_pure(op) and not isinstance(op, CONTROL_FLOW))


def _sums(loop: For) -> list[Mma]:
    """The MMA ops that give what ``loop`` carries, which nothing else sees; none where it carries anything else."""
    sums = [value.op for value in loop.next_values]
    found = [op for op in sums if isinstance(op, Mma) and op.x.tile.rank == 2]
    own = all(
        op.acc is carried and carried.users == {op} and op.result.users == {loop.body.terminator}
        for op, carried in zip(found, loop.carried)
    )
    return found if own and len(found) == len(sums) == len(set(sums)) else []


def _in_halves(rewriter: Rewriter, loop: For, needs: DemandAnalysis, b: Builder) -> Sequence[Value]:
    lower, upper, step = (b.emit(Cast, v, dtype=int64) for v in rewriter.all(loop.bounds))  # doubled they still fit
    two = b.constant(2, int64)
    bounds = b.emit(Mul, lower, two), b.emit(Mul, upper, two), step
    return emit_for(b, bounds, rewriter.all(loop.inits), _HalfStep(rewriter, loop, needs, b).emit).results


class _HalfStep(PartWriter):
    """Writes half of a step of ``loop``; what comes from outside of it has been rebuilt by ``rewriter``."""

    def __init__(self, rewriter: Rewriter, loop: For, needs: DemandAnalysis, b: Builder) -> None:
        super().__init__(needs, b)
        self._rewriter, self._loop, self._sums = rewriter, loop, _sums(loop)

    def emit(self, variable: Value, *carried: Value) -> list[Value]:
        b, one, whole = self._b, self._b.constant(1, int64), self._loop.body.args[0]
        self._values[whole, None] = b.emit(Cast, b.emit(Shr, variable, one), dtype=whole.tile.element)
        self._part = b.emit(Cast, b.emit(And, variable, one), dtype=int32)
        for op in self._loop.body.ops[:-1]:
            b.loc = op.loc
            if isinstance(op, Mma) and op in self._sums:
                operands = [self._get(op.x, 1), self._get(op.y, 0), carried[self._sums.index(op)]]
                made = type(op)(operands, op.segments, dict(op.attributes), (), (op.acc.type,), op.loc)
                self._values[op.result, None] = b.insert(made).result
            else:
                self._write(op)
        return [self._values[op.result, None] for op in self._sums]

    def _get(self, value: Value, axis: Axis) -> Value:
        if (value, axis) not in self._values and value.op is not None and value.op.block is not self._loop.body:
            if axis is None:
                return self._rewriter.value(value)
            self._copy(value.op, axis)
        return self._values.get((value, axis)) or self._rewriter.value(value)
