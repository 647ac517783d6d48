"""Grid-stride loops become a block for each of these."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import RoundingMode
from tilewright.ir.gpu_stage import GRID_EXTENT
from tilewright.ir.ops.arith import Add, Cast, Div, Mul, Rem
from tilewright.ir.ops.control import Continue, For
from tilewright.ir.ops.linear import MmaOp
from tilewright.ir.ops.memory import (
    AssumeBounded,
    AssumeDivisible,
    Bid,
    Load,
    LoadView,
    LocalArray,
    NumBlocks,
    Store,
    StoreView,
)
from tilewright.ir.ops.shape import Reshape, constant_of
from tilewright.ir.reachable import are_alike
from tilewright.ir.types import PartitionViewType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.sink_loads import SinkLoads
from tilewright.transforms.gpu.tile_splitting.split import is_independent
from tilewright.transforms.pipelines import run_passes
from tilewright.transforms.raise_to_views import RaiseToViews

# Bytes of the largest tile that an iteration loads, with fewer of which starting its block would take longer; and its
# elements, of more of which an SM has one block at a time, which then has nothing under way: on an H200 softmax of
# 8,192 columns of bfloat16 has 3,669 GB/s in a loop and 4,135 in blocks, of 1,024 3,478 and 4,133, of 32,768 3,729 and
# 3,499 (benchmarks/results/gpu_memory.md). Loops do not copy rows ahead of which shared memory has no room for two: of
# 32,768 columns of float32 softmax has 3,529 in a loop and 3,630 in blocks.
_LEAST_BYTES, _MOST_ELEMENTS, _MOST_COPIED = 2 << 10, 16 << 10, 100 << 10
_Place = tuple[int, tuple[int, ...]]  # axes of a tile's index that tell iterations apart, and by which divisor


class ExpandGridStrideLoops(InPlacePass):
    """Runs each iteration of ``for i in range(bid(0), n, num_blocks(0))`` in a block of its own, where this loop is all
    that a kernel does, n follows from a parameter, and no iteration needs, or overwrites, what another one stores: SMs
    that are faster run more of them, and load some while they compute others.

    The hint ``GRID_EXTENT`` says how many blocks a launch has along the first axis, whatever grid it is given. Runs on
    optimized Tile IR.
    """

    name: ClassVar[str] = "expand-grid-stride-loops"

    def change(self, function: Function) -> bool:
        loop = _loop(function)
        rows = None if loop is None else _rows(loop.upper, function)
        if loop is None or rows is None or not _pays(function, loop) or not _is_expandable(function):
            return False
        function.hints[GRID_EXTENT] = rows
        loop.body.args[0].replace_all_uses_with(loop.lower)
        function.body.splice(loop.body.ops[:-1], before=loop)
        loop.erase()
        return SinkLoads().change(function) or True  # what all iterations need has no registers before it is used


def _loop(function: Function) -> For | None:
    """The grid-stride loop that is all that ``function`` does but for loads, and alone knows its block."""
    *before, loop = function.body.ops[:-1] or [function.body.terminator]
    if not isinstance(loop, For) or loop.inits:
        return None
    numbers = [op for op in function.walk() if isinstance(op, (Bid, NumBlocks)) and op.axis == 0]
    over_grid = isinstance(loop.lower.op, Bid) and isinstance(loop.step.op, NumBlocks)
    alone = all(list(op.result.users) == [loop] for op in numbers) and len(numbers) == 2
    prepares = all(is_pure(op) or isinstance(op, (Load, LoadView)) for op in before)
    jumps = any(isinstance(op, Continue) for op in loop.body.walk() if op is not loop.body.terminator)
    return loop if over_grid and alone and prepares and not jumps else None


def _rows(upper: Value, function: Function) -> tuple[int, ...] | None:
    """How many iterations end at ``upper``, see ``grid_extent``; None where that follows from no parameter alone."""
    factor, addend, up, divisor = 1, 0, 0, 1
    number = _as_said(upper)
    if isinstance(number.op, Div) and isinstance(found := constant_of(number.op.rhs), int) and found > 0:
        divisor, up = found, found - 1 if number.op.rounding is RoundingMode.RP else 0
        number = _as_said(number.op.lhs)
    for kind in (Add, Mul):
        if isinstance(number.op, kind):
            constants = [n for v in number.op.operands if isinstance(n := constant_of(v), int)]
            others = [v for v in number.op.operands if constant_of(v) is None]
            if len(constants) != 1 or constants[0] < 0:
                return None
            addend, factor = (constants[0], factor) if kind is Add else (addend, constants[0])
            number = _as_said(others[0])
    if number not in function.body.args or number.tile.element is not int32:
        return None
    return function.body.args.index(number), factor, addend, up, divisor


def _as_said(number: Value) -> Value:
    """``number`` without what is promised of it."""
    while isinstance(number.op, (AssumeBounded, AssumeDivisible)):
        number = number.op.x
    return number


def _pays(function: Function, loop: For) -> bool:
    """Whether an iteration moves enough, and more than what each block loads before."""
    if function.ops_of((MmaOp, LocalArray)):
        return False
    inside = {op for op in loop.body.walk() if isinstance(op, (Load, LoadView))}
    loads = function.ops_of((Load, LoadView))
    tiles = {op: op.results[0].tile for op in loads if not op.results[0].tile.is_pointer}
    sizes = {op: t.bytes for op, t in tiles.items()}
    moved, again = (sum(n for op, n in sizes.items() if (op in inside) is way) for way in (True, False))
    elements, size = (max(found, default=0) for found in ([t.size for t in tiles.values()], sizes.values()))
    return size >= _LEAST_BYTES and (elements <= _MOST_ELEMENTS or size > _MOST_COPIED) and again <= moved


def _is_expandable(function: Function) -> bool:
    """Whether iterations of the loop, which ``function`` has, need nothing of each other, and store to other places."""
    if not is_independent(function):
        return False
    viewed = run_passes(function, (RaiseToViews(),)) if function.ops_of(Store) else function
    loop = _loop(viewed)
    if loop is None:
        return False
    stores = [op for op in loop.body.walk() if isinstance(op, (Store, StoreView))]
    roots = AnalysisManager(viewed).get(AliasAnalysis)
    objects = [roots.underlying_object(op.address) for op in stores]
    places = [set(_places(op, loop.body.args[0])) if isinstance(op, StoreView) else set() for op in stores]
    if not all(places) or None in objects:
        return False
    found = list(zip(stores, objects, places))
    return not any(
        may_alias(x, {y}) and (p.isdisjoint(q) or not are_alike(a.address, b.address))
        for (a, x, p), (b, y, q) in itertools.combinations(found, 2)
    )


def _places(store: StoreView, number: Value) -> Iterator[_Place]:
    """How the index of the tile that is stored differs among iterations, of that ``number``: by one coordinate, or by
    quotient and rest, along axes on which tiles lie beside each other."""
    t = store.view.type
    assert isinstance(t, PartitionViewType)
    apart = [k for k, (n, step) in enumerate(zip(t.tile_shape, t.steps)) if step >= n]
    index = {k: _source(store.indices[k]) for k in apart}
    yield from ((0, (k,)) for k in apart if index[k] is number)
    ops = {k: v.op for k, v in index.items()}
    for k, whole in ops.items():
        for i, rest in ops.items():
            if isinstance(whole, Div) and isinstance(rest, Rem) and whole.lhs is rest.lhs is number:
                divisor = constant_of(whole.rhs)
                alike = whole.rounding is rest.rounding is not RoundingMode.RP and constant_of(rest.rhs) == divisor
                if alike and isinstance(divisor, int) and divisor > 0:
                    yield divisor, (k, i)


def _source(index: Value) -> Value:
    """``index`` before it was widened."""
    op: Op | None = index.op
    while isinstance(op, Reshape) or (
        isinstance(op, Cast) and op.x.tile.element is int32 and op.dtype.is_signed and op.dtype.bitwidth >= 32
    ):
        index, op = op.x, op.x.op
    return index
