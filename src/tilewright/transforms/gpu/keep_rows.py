"""Rows that several loops read, one after the other, stay in registers from the first one on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.effects import is_ordered
from tilewright.ir.enums import RoundingMode
from tilewright.ir.gpu_stage import KEPT_ROWS
from tilewright.ir.ops.arith import Div
from tilewright.ir.ops.control import CONTROL_FLOW, For
from tilewright.ir.ops.gpu.cluster import ClusterGather
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.ops.memory import AssumeDivisible
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.reachable import are_alike
from tilewright.ir.rewrite import Rewriter, clone_op, replace_ops
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.load_ahead import AheadLoad, written_objects

MOST_KEPT = 64 << 10  # bytes of the registers of a CTA, which has a fourth of those of an SM


@dataclass(eq=False)
class _Row:
    """The ``tiles`` of a row, one of each iteration, that ``loads`` of several loops give."""

    loads: dict[For, AheadLoad]
    tiles: list[Value] = field(default_factory=list)


@dataclass(frozen=True)
class KeepRows(InPlacePass):
    """Writes out loops over the pieces of a row that several of them read, of which there are ``steps``: all that the
    first one reads is loaded before it, and the others read no memory again.

    Without ``steps`` all stays; the hint ``KEPT_ROWS`` says which parameter is the length of such rows, and how many
    elements, and bytes, a step has. For kernels without MMA ops that store to nothing of what is kept. Runs before
    loads of loops are copied ahead.
    """

    name: ClassVar[str] = "keep-rows"
    steps: int = 0

    def change(self, function: Function) -> bool:
        found = [] if function.ops_of((GpuMma, Wgmma)) else _rows(function)
        if not self.steps:
            length = _length(function, found)
            if length is not None:
                function.hints[KEPT_ROWS] = length
            return length is not None
        if self.steps * sum(map(_bytes, found)) > MOST_KEPT:
            return False
        loops: dict[For, list[_Row]] = {}
        for row in found:
            for loop in row.loads:
                loops.setdefault(loop, []).append(row)
        return replace_ops(function, loops, lambda r, loop, rows, b: _written_out(r, loop, rows, self.steps, b))


def _rows(function: Function) -> list[_Row]:
    if any(map(is_ordered, function.walk())):  # what follows may be something else
        return []
    alias = AnalysisManager(function).get(AliasAnalysis)
    written = written_objects(function.walk(), alias)
    found: list[_Row] = []
    for block in function.blocks():
        rows: list[_Row] = []
        for loop in block.ops:
            if not isinstance(loop, For) or constant_of(loop.bounds[0]) != 0 or constant_of(loop.step) != 1:
                continue
            if any(isinstance(op, (*CONTROL_FLOW, ClusterGather)) for op in loop.body.walk()):
                continue
            loads = (AheadLoad.of(op, loop.body) for op in loop.body.ops if isinstance(op, GlobalLoad) and op.is_weak)
            for load in loads:
                tile = load is not None and load.op.result.tile.rank > 0
                if load is not None and tile and not may_alias(alias.underlying_object(load.op.ptrs), written):
                    _add(rows, loop, load)
        found += [row for row in rows if len(row.loads) > 1]
    return found


def _add(rows: list[_Row], loop: For, load: AheadLoad) -> None:
    """Put ``load`` of ``loop`` to those of the same tiles."""
    for row in rows:
        first, other = next(iter(row.loads.items()))
        if first.bounds[1] is loop.bounds[1] and loop not in row.loads and _same(load.op, other.op):
            row.loads[loop] = load
            return
    rows.append(_Row({loop: load}))


def _same(x: GlobalLoad, y: GlobalLoad) -> bool:
    """Whether both load the same in iterations of the same number."""
    assert x.block is not None and y.block is not None
    number = dict(zip(x.block.args[:1], y.block.args[:1]))
    pairs = (x.ptrs, y.ptrs), (x.mask, y.mask), (x.padding, y.padding)
    return x.vector == y.vector and all(are_alike(a, b, number) for a, b in pairs)


def _length(function: Function, found: Sequence[_Row]) -> tuple[int, int, int] | None:
    """The number of the parameter that is the length of the rows, and the elements and bytes of a step; None where the
    length is none, or rows have several."""
    uppers = {next(iter(row.loads)).bounds[1].op for row in found}
    upper = next(iter(uppers), None)
    if len(uppers) != 1 or not isinstance(upper, Div) or upper.rounding is not RoundingMode.RP:
        return None
    length, step = upper.lhs, constant_of(upper.rhs)
    while isinstance(length.op, AssumeDivisible):
        length = length.op.x
    if length not in function.body.args or not isinstance(step, int):
        return None
    return function.body.args.index(length), step, sum(map(_bytes, found))


def _bytes(row: _Row) -> int:
    """How many the tile of a step has."""
    return next(iter(row.loads.values())).op.result.tile.bytes


def _written_out(rewriter: Rewriter, loop: For, rows: Sequence[_Row], steps: int, b: Builder) -> Sequence[Value]:
    """What ``loop`` carries in the end of its ``steps``, written out."""
    number, body = loop.bounds[0].tile.element, loop.body
    numbers = [b.constant(i, number) for i in range(steps)]
    for row in rows:
        load = row.loads[loop]
        if not row.tiles:
            row.tiles = [
                b.emit(GlobalLoad, *load.at(at, None, rewriter.values, b), vector=load.op.vector) for at in numbers
            ]
    carried, loaded = rewriter.all(loop.inits), {row.loads[loop].op for row in rows}
    for i, at in enumerate(numbers):
        values = {**rewriter.values, body.args[0]: at, **dict(zip(loop.carried, carried))}
        values |= {row.loads[loop].op.result: row.tiles[i] for row in rows}
        for op in body.ops[:-1]:
            if op not in loaded:
                b.insert(clone_op(op, values))
        carried = [values.get(v, v) for v in loop.next_values]
    return carried
