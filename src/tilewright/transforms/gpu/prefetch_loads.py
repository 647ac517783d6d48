"""Loads of the next iteration while this one computes, in registers: for loops over rows without MMA ops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.gpu.target import SM_REGISTERS, most_registers
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import mma_ops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.arith import Add, And, Cmp, Div, Max, Mul, Rem, Select, Sub
from tilewright.ir.ops.control import Continue, For, LoopOp
from tilewright.ir.ops.gpu.memory import AsyncCopy, GlobalLoad, PrefetchEach, SharedStore
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, Wgmma
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.reachable import reachable
from tilewright.ir.rewrite import Rewriter, ValueMap, open_block, replace_ops, stand_for
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.load_ahead import AheadLoad, has_state, loads_ahead

_OTHER_REGISTERS = 30  # of a thread, for what is no tile
_SPARE = 16  # registers of a thread: with fewer the assembler spills
_FEW_REGISTERS = 8  # of a thread, for what runs ahead in loops with MMA ops
# Of one warp group, of which several CTAs share an SM: 64x128x64 tiles whose left operands are scaled by 8 registers
# have 433 TFLOP/s without and 333 with these ahead (``benchmarks/gpu_operands.py``, one H200).
_FEWER_REGISTERS = 4
_OF_TILE = 24  # of a thread, for what a tile of a persistent kernel loads
_ENOUGH_CTAS = 8  # on an SM: more make room for less
_STEPS = (1, 2, 4, 8)  # of a loop of which several iterations are loaded ahead: so it is known how many are whole
_VECTOR_REGISTERS = 2  # of a thread, for a vector that changes a state
_ASKED = 4  # iterations, in which vectors come to the L2 cache that are loaded one iteration ahead
_AHEAD = 4  # iterations, of vectors that change a state: one takes less time than a load


class PrefetchLoads(InPlacePass):
    """Lets a loop load what its next iteration needs before it computes, and carry it.

    A load takes part whose addresses follow from the induction variable, and which reads what the loop does not store,
    in loops without jumps, and without other nested loops than those of MMA ops of warp groups. There is none where the
    registers for it would leave an SM with fewer CTAs, and none of more than eight registers in loops with MMA ops, or
    24 in those over tiles. Vectors that change the larger state of a recurrence are loaded for four iterations, which
    are written out, while those before run: registers that wait for a load are not moved. Where an MMA op adds to a
    sum that fades, vectors are brought to the L2 cache as many iterations ahead.
    Runs when layouts are known, before loads are hoisted.
    """

    name: ClassVar[str] = "prefetch-loads"

    def change(self, function: Function) -> bool:
        alias = AnalysisManager(function).get(AliasAnalysis)
        loops = {op: found for op in function.ops_of(For) if (found := loads_ahead(op, alias, groups=True))}
        warps = num_warps(function)
        chosen = {
            loop: (found, iterations_ahead(loop, found, warps))
            for loop, found in loops.items()
            if _leaves_room(loop, found, warps)
        }
        return replace_ops(function, chosen, _prefetched)


def registers_of(body: Block) -> int:
    """About how many a thread has in a kernel or an iteration with this ``body``."""
    largest = max((_words(v) for op in body.ops for v in op.results), default=0)
    return _OTHER_REGISTERS + largest + sum(map(_words, body.args))


def ctas_of_sm(registers: int, warps: int) -> int:
    """For how many CTAs an SM has ``registers`` of each thread."""
    return SM_REGISTERS // (-(-registers // 8) * 8 * warps * LANES)


def _leaves_room(loop: For, loads: Sequence[AheadLoad], warps: int) -> bool:
    """Whether an SM has as many CTAs with the loaded tiles in registers as without, or enough."""
    loaded = sum(_words(load.op.result) for load in loads)
    if all(any(isinstance(op, kind) for op in loop.body.ops) for kind in (Wgmma, AsyncCopy)):
        return loaded <= _FEW_REGISTERS  # numbers, of what is gathered beside the accumulators
    if iterations_ahead(loop, loads, warps) > 1:
        return True
    before = registers_of(loop.body)
    after = before + loaded
    ctas = [ctas_of_sm(registers, warps) for registers in (before, after)]
    most = most_registers(warps * LANES)
    if any(isinstance(op, (GpuMma, Wgmma)) for op in loop.body.ops):  # whose operands take registers, too
        alone = any(isinstance(op, GpuMma) for op in loop.body.ops) or warps > GROUP_WARPS or has_state(loop)
        few = _OF_TILE if _is_of_tiles(loop) else _FEW_REGISTERS if alone else _FEWER_REGISTERS
        stored = [load.op for load in loads if all(isinstance(op, SharedStore) for op in load.op.result.users)]
        sums = sum(op.acc.layout.num_registers for op in mma_ops(loop) if isinstance(op, GpuMma))
        if stored and sums:  # with large ones an SM holds few CTAs as it is; one register holds one element
            few, loaded = sums, sum(op.ptrs.layout.num_registers for op in stored)
        return after + _SPARE <= most and loaded <= few
    return after + _SPARE <= most and ctas[1] > 0 and (ctas[1] == ctas[0] or ctas[1] >= _ENOUGH_CTAS)


def _is_of_tiles(loop: For) -> bool:
    """Whether ``loop`` has one of steps in it."""
    return any(isinstance(op, For) for op in loop.body.ops)


def iterations_ahead(loop: For, loads: Sequence[AheadLoad], warps: int) -> int:
    """How many iterations of ``loop``, which needs no tensor cores, are loaded ahead."""
    step, words = constant_of(loop.step), [_words(load.op.result) for load in loads]
    tiles = [v for v in loop.carried if isinstance(v.type, TileType) and v.type.rank > 1]
    state = max((_words(v) for v in tiles if min(v.tile.shape) > 1), default=0)
    vectors = max(words) <= min(_VECTOR_REGISTERS, state - 1) and sum(words) <= _FEW_REGISTERS
    room = most_registers(warps * LANES) - registers_of(loop.body) - _SPARE >= 2 * _AHEAD * sum(words)
    multiplies = any(isinstance(op, (GpuMma, Wgmma, AsyncCopy)) for op in loop.body.ops)
    counted = step in _STEPS and loop.step.tile.element is int32
    return _AHEAD if vectors and room and not multiplies and counted else 1


def _words(value: Value) -> int:
    """The registers of a thread that ``value`` takes; indices and addresses are computed again."""
    t = value.type
    if not isinstance(t, TileType) or t.is_pointer:
        return 0
    loaded = isinstance(value.op, GlobalLoad)
    if not loaded and not t.element.is_floating:
        return 0
    count = 1 if t.layout is None else t.layout.num_registers
    return max(count * (t.element.bitwidth if loaded else max(t.element.bitwidth, 32)) // 32, 1)


def _fades(loop: For) -> bool:
    """Whether warp groups add to what each step of ``loop`` computes of a sum that it carries, by its only MMA op: such
    a step takes less time than a load. States of Mamba-2 take 52 us in place of 61 so, by ``mma.sync`` 61 either way,
    as those wait for copies, too (one H200)."""
    mmas, nested = mma_ops(loop), any(isinstance(op, LoopOp) for op in loop.body.ops)
    if nested or len(mmas) != 1 or not isinstance(mmas[0], Wgmma):
        return False
    made = mmas[0].acc.op
    return made is not None and made.block is loop.body


def _ask_for(loads: Iterable[AheadLoad], at: Value, last: Value, values: ValueMap, b: Builder) -> None:
    """Have the vectors of ``loads`` in the iteration ``at`` brought to the L2 cache, if that is before ``last``."""
    exists = b.emit(Cmp, at, last, predicate=CmpPredicate.LT)
    for load in loads:
        shape = load.op.result.tile.shape
        if 1 < max(shape, default=1) == math.prod(shape) and not load.numbers:
            pointers, mask, _ = load.at(at, exists, values, b)
            b.emit_op(PrefetchEach, pointers, mask)


def _carried_numbers(loop: For, loads: Sequence[AheadLoad]) -> list[Div | Rem]:
    """The quotients and remainders that both ``loop`` and the addresses of ``loads`` need: those of the next iteration
    are computed for its loads, and each takes as long as some twenty other numbers."""
    taken = {load.op for load in loads}
    needed = reachable(
        [v for op in loop.body.ops if op not in taken and not is_pure(op) for o in op.walk() for v in o.operands],
        lambda v: v.op.operands if v.op is not None and v.op not in taken else (),
    )
    found, slices = set(needed), {op for load in loads for op in load.slice}
    divided = [op for op in loop.body.ops if isinstance(op, (Div, Rem)) and op in slices and not op.result.tile.rank]
    return [op for op in divided if op.result in found and constant_of(op.rhs) is None]


def _prefetched(rewriter: Rewriter, op: For, how: tuple[Sequence[AheadLoad], int], b: Builder) -> Sequence[Value]:
    """The loop with loads of the next iteration, or of as many as it runs before it goes on. A loop without them runs
    those that are left then."""
    values, (loads, ahead) = rewriter.values, how
    lower, upper, step = rewriter.all(op.bounds)
    last, stride = upper, step
    if ahead > 1:
        whole = ahead * constant_of(op.step)
        count = b.emit(Max, b.emit(Sub, upper, lower), b.constant(0, int32))
        last, stride = b.emit(Add, lower, b.emit(And, count, b.constant(-whole, int32))), b.constant(whole, int32)
    different = {tuple(load.op.operands): load for load in loads}
    numbers = [b.constant(k * constant_of(op.step), int32) for k in range(1, ahead)]
    kept = _carried_numbers(op, loads) if ahead == 1 else []

    def iterations(first: Value) -> list[Value]:
        return [first, *(b.emit(Add, first, number) for number in numbers)]

    def loaded(first: Value, exist: Value | None) -> list[Value]:
        """What ``loads`` give in the iterations from ``first`` on, which may not ``exist``: of the same place once; and
        the numbers that are ``kept``."""
        found = []
        for at in iterations(first):
            made: ValueMap = {}
            for load in different.values():
                b.loc = load.op.loc
                found.append(b.emit(GlobalLoad, *load.at(at, exist, values, b, made), vector=load.op.vector))
        return [*found, *(made[number.result] for number in kept)]

    inits = [*rewriter.all(op.inits), *loaded(lower, b.emit(Cmp, lower, last, predicate=CmpPredicate.LT))]
    body = open_block(op.body, values)
    ready = iter([body.add_arg(v.type) for v in inits[len(op.inits) :]])
    with b.at(body):
        if ahead == 1 and _fades(op):
            distance = b.emit(Mul, step, b.constant(_ASKED, step.tile.element))
            _ask_for(different.values(), b.emit(Add, body.args[0], distance), last, values, b)
        more = b.emit(Cmp, stride, b.emit(Sub, last, body.args[0]), predicate=CmpPredicate.LT)
        next_ = b.emit(Add, body.args[0], stride)
        if ahead > 1:  # in the end those of these iterations once more, as a condition for each load takes longer
            following = loaded(b.emit(Select, more, next_, body.args[0]), None)
        else:
            following = loaded(next_, more)
        carried = body.args[1 : len(op.inits) + 1]
        for at in iterations(body.args[0]):
            values.update(zip(op.body.args, (at, *carried)))
            values_of = dict(zip(different, ready))
            taken: dict[Op, Value] = {load.op: values_of[tuple(load.op.operands)] for load in loads}
            taken.update(zip(kept, ready))
            values.update((made.results[0], value) for made, value in taken.items())
            for nested in op.body.ops[:-1]:
                b.loc = nested.loc
                if nested not in taken:
                    rewriter.insert(nested, b)
            carried = rewriter.all(op.next_values)
        b.emit_op(Continue, [*carried, *following])
    made = b.emit_op(For, lower, last, stride, inits, body=body)
    if ahead > 1:
        made = b.emit_op(For, last, upper, step, made.results[: len(op.inits)], body=rewriter.block(op.body, values))
    stand_for(op, made, values)
    return made.results
