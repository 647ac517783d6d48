"""Pairs of neighbouring CTAs that fetch a tile together.

Where rows of a matrix do not start on whole sectors of the L2 cache, what the blocks fetch from it limits an MMA op.
Two blocks of a cluster that need the same tile of an operand then fetch one half each, for both. They go through the
steps of their tiles side by side, the same number of them. In a loop over tiles one may do the last tile again that
another has done; in a kernel with a tile for each block, the loop runs equally often in both.

A block tells the other one that it is done with a step when the tensor cores are. So only they may read the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from tilewright.analysis.gpu.lowering_plan import LoweringPlan, axes_kept
from tilewright.analysis.gpu.tma_descriptors import has_pitch
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.mma_graph import mma_ops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType, bool_, int32
from tilewright.ir.effects import is_ordered, is_pure
from tilewright.ir.enums import CmpPredicate, RoundingMode
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import And, Cast, Cmp, Div, Min, Sub, Xor
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.exit import Exit
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Assert, Bid, NumBlocks, StoreView
from tilewright.ir.ops.shape import Permute, Reshape, constant_of
from tilewright.ir.reachable import reachable
from tilewright.ir.rewrite import ValueMap, clone_op
from tilewright.ir.types import ElementType, PointerType, TileType

_SECTOR = 32  # bytes
_HALF = 16  # bits of an element; the strides of others are either known to be whole sectors or not known so well
_UNITS = (64, 8, 16)  # M, N and K of the matrix instructions for such elements divide those of what they multiply


def shared_loads(
    function: Function, outer: For, inner: For, carried: Sequence[Value], plan: LoweringPlan, facts: IntegerRanges
) -> dict[Op, Sequence[Value]]:
    """The loads of ``inner`` that pairs of CTAs may share, and the numbers of a tile that say which tile is loaded:
    those of the left or of the right operands, whichever are larger, since neighbouring tiles have one in common.

    ``outer`` must be a loop that every block runs, over the tiles that are left to it, and equally many steps each.
    """
    lower, upper, step = outer.bounds
    together = (
        _comes_to(outer, function)
        and counts_blocks(lower, Bid)
        and counts_blocks(step, NumBlocks)
        and all(_is_uniform(v, function) for v in (upper, *inner.bounds))
    )
    body = inner.regions[0]
    if not together or any(user.ancestor_in(body) for user in outer.body.args[0].users):
        return {}
    factors = {
        "right": set(_sources((op.y for op in mma_ops(inner)), lambda op: True)),
        "left": set(_sources((op.x for op in mma_ops(inner)), lambda op: True)),
    }
    sides: dict[str, dict[Op, Sequence[Value]]] = {side: {} for side in factors}
    for op in _loads(body, function, plan, facts):
        numbers = _numbers(op.indices, carried, inner, function)
        if numbers is not None:
            for side in sides:
                if op.result in factors[side]:
                    sides[side][op] = numbers
    return max(sides.values(), key=lambda loads: sum(op.results[0].tile.size for op in loads))


def loads_of_one_tile(
    function: Function, loop: For, plan: LoweringPlan, facts: IntegerRanges
) -> dict[Op, Sequence[Value]]:
    """The loads of ``loop`` that pairs of CTAs may share, and the numbers that say which tile is loaded, of those
    that differ between blocks. Where a tile is the same in both blocks without any, only those.

    Both blocks must come to ``loop``, which so must not be inside another op, and run it equally often.
    """
    together = _comes_to(loop, function) and all(_is_uniform(v, function) for v in loop.bounds)
    if not together:
        return {}
    found: dict[Op, Sequence[Value]] = {}
    for op in _loads(loop.regions[0], function, plan, facts):
        numbers = _differing(op.indices, loop, function)
        if numbers is not None:
            found[op] = numbers
    alike = {op: numbers for op, numbers in found.items() if not numbers}
    return alike or found


def of_the_mate(numbers: Iterable[Value], function: Function, values: ValueMap, b: Builder) -> ValueMap:
    """All ``values`` with those from which ``numbers`` come as the other block of the pair has them; as they are in the
    last block of an odd number, which is in no pair."""
    needed = {v.op for v in _sources(numbers, lambda op: True)}
    theirs = dict(values)
    for op in function.body.ops:
        if op not in needed or all(_is_uniform(v, function) for v in op.results):
            continue
        if isinstance(op, Bid):
            one = b.constant(1, op.result.tile.element)
            last = b.emit(Sub, b.emit(NumBlocks, axis=0), one)
            theirs[op.result] = b.emit(Min, b.emit(Xor, values[op.result], one), last)
        else:
            b.insert(clone_op(op, theirs))
    return theirs


def _loads(body: Block, function: Function, plan: LoweringPlan, facts: IntegerRanges) -> list[Any]:
    """The loads of the loop ``body`` that pairs may share, if both blocks need the tile, and that pay."""
    return [
        op
        for op in body.ops
        if op in plan.descriptors and _pays(op, plan, facts) and _is_only_multiplied(op.results[0], body)
    ]


def _is_only_multiplied(value: Value, body: Block) -> bool:
    """Whether nothing but MMA ops of ``body`` sees ``value``, all of which read it from where it was loaded."""
    for op in value.users:
        if op.block is not body or not (_reads_in_place(op, value) if isinstance(op, Mma) else _moves_nothing(op)):
            return False
        if not isinstance(op, Mma) and not _is_only_multiplied(op.results[0], body):
            return False
    return True


def _reads_in_place(mma: Mma, value: Value) -> bool:
    """Whether Hopper's tensor cores read the operand ``value`` of ``mma`` from shared memory."""
    total = mma.acc
    sizes = *total.tile.shape[-2:], mma.x.tile.shape[-1]
    return value is not total and all(n % unit == 0 for n, unit in zip(sizes, _UNITS))


def _moves_nothing(op: Op) -> bool:
    """Whether the result of ``op`` is the same tile in shared memory, seen otherwise."""
    if isinstance(op, Reshape):  # by axes of one element
        old, new = (v.tile.shape for v in (op.x, op.results[0]))
        return [old[k] for k in axes_kept(old)] == [new[k] for k in axes_kept(new)]
    return isinstance(op, Permute)


def _pays(load: Any, plan: LoweringPlan, facts: IntegerRanges) -> bool:
    """Whether the rows of a matrix do not start on sectors. Those of a copy do. Of a list, blocks may load from arrays
    that are not the same."""
    d, type_ = plan.descriptors[load], load.view.type
    if d.needs_realign or d.listed or len(d.block) != 2 or 1 in d.block or type_.view.dtype.bitwidth != _HALF:
        return False
    return not has_pitch(load.view.op.view.op, type_.view, d.axes[-1], facts, _SECTOR)


def _comes_to(loop: Op, function: Function) -> bool:
    """Whether every block comes to ``loop`` and goes through it without waiting for another one."""
    ops = function.body.ops
    return loop in ops and not any(_stops(o) for op in ops[: ops.index(loop) + 1] for o in op.walk())


def _stops(op: Op) -> bool:
    """Whether a block may end at ``op``, or wait there for another one, which a pair may not."""
    return isinstance(op, (Assert, Exit)) or is_ordered(op)


def only_stores(op: Op) -> bool:
    """Whether ``op`` may be done twice: it only loads and stores tiles."""
    if op.regions:
        return all(only_stores(o) for region in op.regions for o in region.ops)
    return isinstance(op, StoreView) or op.spec.effect in (Effect.NONE, Effect.READ)


def are_equal(
    numbers: Sequence[Value], ours: Mapping[Value, Value], theirs: Mapping[Value, Value], b: Builder
) -> Value:
    """Whether each of ``numbers`` has one value in both."""
    same = [b.emit(Cmp, ours[v], theirs[v], predicate=CmpPredicate.EQ) for v in numbers]
    return reduce(lambda x, y: b.emit(And, x, y), same) if same else b.constant(True, bool_)


def counts_blocks(value: Value, kind: type[Bid | NumBlocks]) -> bool:
    """Whether ``value`` is the number of the block, or of the blocks, along the first axis of the grid."""
    while isinstance(value.op, Cast) and _holds_all(value.tile.element):
        value = value.op.x
    return isinstance(value.op, kind) and value.op.axis == 0


def _holds_all(dtype: ElementType) -> bool:
    """Whether every number of a block is one of this type."""
    return isinstance(dtype, DType) and dtype.is_integer and dtype.bitwidth >= int32.bitwidth


def _is_uniform(value: Value, function: Function) -> bool:
    """Whether ``value`` is the same in both blocks of a pair."""
    return all(
        _is_plain(v.op) and not counts_blocks(v, Bid) if v.op is not None else v in function.body.args
        for v in _sources([value], lambda op: not numbers_pairs(op))
    )


def numbers_pairs(op: Op) -> bool:
    """Whether the result of ``op`` is the number of the pair, or of several, that the block is in."""
    if not isinstance(op, Div) or op.rounding not in (RoundingMode.RM, RoundingMode.RZ):
        return False
    count = constant_of(op.rhs)
    return counts_blocks(op.lhs, Bid) and count is not None and count > 0 and count % 2 == 0


def _is_plain(op: Op) -> bool:
    """Whether the results of ``op`` come from its operands alone."""
    return is_pure(op) and not op.regions


def _numbers(indices: Sequence[Value], carried: Sequence[Value], loop: Op, function: Function) -> list[Value] | None:
    """Loop-carried scalars that ``indices`` depend on; None where they depend on what blocks may not share."""
    body = loop.regions[0]
    inside = {op for op in body.ops if _is_plain(op)}
    found = _sources(indices, lambda op: op in inside)
    others = (v for v in found if v not in carried and v.op not in inside and v is not body.args[0])
    return [v for v in found if v in carried] if all(_is_uniform(v, function) for v in others) else None


def _differing(indices: Sequence[Value], loop: Op, function: Function) -> list[Value] | None:
    """What ``indices`` come from that is computed before ``loop`` and differs between blocks; None where they come from
    what blocks may not share."""
    body = loop.regions[0]
    inside = {op for op in body.ops if _is_plain(op)}
    before = [v for v in _sources(indices, lambda op: op in inside) if v.op not in inside and v is not body.args[0]]
    found = [v for v in before if not _is_uniform(v, function)]
    return found if all(_is_known(v, function) for v in found) else None


def _is_known(number: Value, function: Function) -> bool:
    """Whether a block can tell the ``number`` of another one: it comes from that of the block and from arguments."""
    type_ = number.type
    if not isinstance(type_, TileType) or type_.shape or isinstance(type_.dtype, PointerType):
        return False
    sources = _sources([number], lambda op: True)
    return all(_is_plain(v.op) if v.op is not None else v in function.body.args for v in sources)


def _sources(values: Iterable[Value], enters: Callable[[Op], bool]) -> list[Value]:
    """``values`` and what they are computed from, by operations that ``enters`` says."""
    return list(reachable(values, lambda v: v.op.operands if v.op is not None and enters(v.op) else ()))
