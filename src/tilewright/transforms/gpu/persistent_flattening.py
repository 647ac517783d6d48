"""A loop over tiles around an MMA loop becomes one loop over the steps of all tiles.

Triton pipelines innermost loops only. In one loop the loads of the next tile are in flight while the last one is
stored; in two the tensor cores wait for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.gpu.lowering_plan import LoweringPlan
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.gpu.tma_descriptors import plan_lowering
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import float32, int64
from tilewright.ir.effects import has_early_exit, is_pure
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.ops.arith import Add, Cast, Cmp, Div, Max, Mul, Select, Sub
from tilewright.ir.ops.control import Continue, For, If, LoopOp, Yield
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Load, LoadView, Store, StoreView
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.rewrite import Rewriter, ValueMap, clone_op
from tilewright.ir.structured import emit_for, emit_if
from tilewright.ir.types import TileType


@dataclass(frozen=True)
class LoopNest:
    """A loop over tiles: ``before`` and ``after`` are the ops around the MMA loop, ``carried`` the numbers
    that ``before`` computes for what follows it."""

    outer: For
    before: Sequence[Op]
    inner: For
    after: Sequence[Op]
    carried: Sequence[Value]


@dataclass(frozen=True)
class FlattenPersistentLoops:
    """Makes one loop of a loop over tiles and that of its MMA ops, where the TMA unit does all that the tiles need."""

    target: GpuTarget
    realign: bool
    name: ClassVar[str] = "flatten-persistent-loops"

    def run(self, function: Function) -> Function:
        return _flattened(function, self.target, self.realign) if self.target.has_wgmma else function


def _flattened(function: Function, target: GpuTarget, realign: bool) -> Function:
    plan = AnalysisManager(function).get(plan_lowering, target, True, realign)
    loops = (op for op in function.walk() if isinstance(op, For))
    nests: dict[Op, LoopNest] = {op: nest for op in loops if (nest := _nest(op, plan)) is not None}
    if not nests:
        return function
    flattener = _Flattener(nests)
    flat = flattener.function(function)
    plan = AnalysisManager(flat).get(plan_lowering, target, True, realign)
    return function if any(_is_interrupted(loop, plan) for loop in flattener.loops_of_all) else flat


def _is_interrupted(loop: Op, plan: LoweringPlan) -> bool:
    """Whether loads of ``loop`` cannot be pipelined, or a barrier in it would end the pipeline."""
    inside = (op for region in loop.regions for op in region.walk())
    return loop in plan.unpipelined or any(op in plan.unpipelined or op in plan.barriers_before for op in inside)


def _nest(outer: For, plan: LoweringPlan) -> LoopNest | None:
    ops = outer.regions[0].ops[:-1]
    loops = [op for op in ops if isinstance(op, For)]
    if outer.results or len(loops) != 1 or any(has_early_exit(op) for op in ops):
        return None
    (inner,) = loops
    at = ops.index(inner)
    before, after, body = ops[:at], ops[at + 1 :], inner.body
    if any(isinstance(op, LoopOp) for part in (before, body.ops, after) for o in part for op in o.walk()):
        return None
    if any(has_early_exit(op) for op in body.ops[:-1]) or not all(is_pure(op) for op in before):
        return None  # what comes before a tile will are pipelined
    stores = [op for o in after for op in o.walk() if isinstance(op, (Store, StoreView))]
    if not stores or not all(op in plan.descriptors for op in stores) or not _is_fetched(body, plan):
        return None
    inside = {value for op in before for value in op.results} | {outer.regions[0].args[0]}
    if inside.intersection(inner.operands):
        return None
    carried = [v for op in before for v in op.results if any(u.ancestor_in(outer.body) not in before for u in v.users)]
    if not all(isinstance(v.type, TileType) and not v.tile.shape and not v.tile.is_pointer for v in carried):
        return None
    return LoopNest(outer, before, inner, after, carried)


def _is_fetched(body: Block, plan: LoweringPlan) -> bool:
    """Whether ``body`` has one MMA op, and the TMA unit does all loads, and brings its operands to where they are
    multiplied. Several, or one from registers, Triton would run one after the other where a loop carries zeros."""
    mmas = [op for op in body.ops if isinstance(op, Mma)]
    loads = [op for op in body.walk() if isinstance(op, (Load, LoadView))]
    return (
        len(mmas) == 1
        and mmas[0] not in plan.register_operand
        and all(_runs_asynchronously(op) for op in mmas)
        and all(op in plan.descriptors for op in loads)
        and all(_is_loaded(v, plan) for op in mmas for v in (op.x, op.y))
    )


def _runs_asynchronously(mma: Mma) -> bool:
    """Whether Hopper's tensor cores take the MMA op as it is, and sum in float32."""
    element = mma.x.tile.element
    takes = element.short in ("f16", "bf16", "tf32") or (element.bitwidth == 8 and mma.fast_acc)
    return takes and mma.acc.tile.element is float32


def _is_loaded(value: Value, plan: LoweringPlan) -> bool:
    """Whether ``value`` is a tile as the TMA unit leaves it in shared memory."""
    while isinstance(value.op, (Reshape, Permute, Cast)) and (
        not isinstance(value.op, Cast) or value.op in plan.rounded
    ):
        value = value.op.x
    return value.op in plan.descriptors


class _Flattener(Rewriter):
    def __init__(self, nests: Mapping[Op, LoopNest]) -> None:
        super().__init__()
        self.nests = nests
        self.loops_of_all: list[Op] = []  # over the steps of all tiles

    def insert(self, op: Op, builder: Builder) -> None:
        nest = self.nests.get(op)
        if nest is None:
            super().insert(op, builder)
            return
        builder.loc = op.loc
        tiles, steps = self._count(nest.outer, builder), self._count(nest.inner, builder)
        flat, plain = Block(), Block()
        with builder.at(flat):
            self._one_loop(nest, tiles, steps, builder)
            builder.emit_op(Yield, [])
        with builder.at(plain):
            self._no_steps(nest, builder)
            builder.emit_op(Yield, [])
        some = builder.emit(Cmp, steps, builder.constant(0, int64), predicate=CmpPredicate.GT)
        builder.emit_op(If, some, types=(), then=flat, orelse=plain)

    def _count(self, loop: For, b: Builder) -> Value:
        """How often the body of ``loop`` runs."""
        lower, upper, step = (b.emit(Cast, v, dtype=int64) for v in self.all(loop.bounds))
        count = b.emit(Div, b.emit(Sub, upper, lower), step, rounding=RoundingMode.RP)
        return b.emit(Max, count, b.constant(0, int64))

    def _no_steps(self, nest: LoopNest, b: Builder) -> None:
        """The loop over tiles without that of MMA ops, which would not run."""

        def tile(number: Value) -> list[Value]:
            values = {**self.values, nest.outer.body.args[0]: number}
            _clone(nest.before, values, b)
            values.update(zip(nest.inner.results, self.all(nest.inner.inits)))
            _clone(nest.after, values, b)
            return []

        emit_for(b, self.all(nest.outer.bounds), [], tile)

    def _one_loop(self, nest: LoopNest, tiles: Value, steps: Value, b: Builder) -> None:
        """Carries the tile, the step, the numbers of the tile, and the accumulators. It starts after the last step of a
        tile before the first."""
        lower, _, step = self.all(nest.outer.bounds)
        first_k, _, step_k = self.all(nest.inner.bounds)
        inits = self.all(nest.inner.inits)  # what the accumulators of every tile start with
        rest = b.emit(Cast, b.emit(Sub, steps, b.constant(1, int64)), dtype=first_k.tile.element)
        last_k = b.emit(Add, first_k, b.emit(Mul, rest, step_k))
        numbers = [b.constant(0, v.tile.element) for v in nest.carried]
        start = [b.emit(Sub, lower, step), last_k, *numbers, *inits]
        body, values = Block(), dict(self.values)
        body.add_arg(steps.type)
        tile, k, *carried = [body.add_arg(v.type) for v in start]
        numbers, accumulators = carried[: len(numbers)], carried[len(numbers) :]
        with b.at(body):
            new = b.emit(Cmp, k, last_k, predicate=CmpPredicate.EQ)
            k = b.emit(Select, new, first_k, b.emit(Add, k, step_k))
            tile, *numbers = self._next_tile(nest, new, tile, numbers, b)
            values[nest.outer.body.args[0]] = tile
            values.update(zip(nest.carried, numbers))
            values.update(zip(nest.inner.body.args, (k, *accumulators)))
            _clone(nest.inner.body.ops[:-1], values, b)
            accumulators = [values.get(v, v) for v in nest.inner.next_values]

            def finish() -> list[Value]:
                values.update(zip(nest.inner.results, accumulators))
                _clone(nest.after, values, b)
                return inits

            ends = b.emit(Cmp, k, last_k, predicate=CmpPredicate.EQ)
            following = emit_if(b, ends, finish, lambda: accumulators)
            b.emit_op(Continue, [tile, k, *numbers, *following])
        zero, one = b.constant(0, int64), b.constant(1, int64)
        self.loops_of_all.append(b.emit_op(For, zero, b.emit(Mul, tiles, steps), one, start, body=body))

    def _next_tile(self, nest: LoopNest, new: Value, tile: Value, numbers: Sequence[Value], b: Builder) -> list[Value]:
        """The tile and its numbers, which change where ``new`` says."""
        step = self.value(nest.outer.bounds[2])

        def advance() -> list[Value]:
            following = b.emit(Add, tile, step)
            values = {**self.values, nest.outer.body.args[0]: following}
            _clone(nest.before, values, b)
            return [following, *(values[v] for v in nest.carried)]

        return emit_if(b, new, advance, lambda: [tile, *numbers])


def _clone(ops: Sequence[Op], values: ValueMap, b: Builder) -> None:
    for op in ops:
        b.insert(clone_op(op, values))
