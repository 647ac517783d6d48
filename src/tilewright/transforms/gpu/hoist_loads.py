"""Loads of global memory before the arithmetic that does not need them, so that they are under way together."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis, MemoryObject, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import SIDE_EFFECTS, has_early_exit, has_effect, is_ordered
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import AsyncCommit, AsyncCopy, GlobalLoad, SharedStore
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.rewrite import ValueMap, clone_op, open_block, with_body
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.load_ahead import made_by, pure_slice, written_objects

_TO_SHARED = (SharedStore, AsyncCopy, AsyncCommit)  # write no global memory
_WORDS = 8  # registers of a thread that loads may take before their time: more would cost occupancy
_WORDS_BESIDE_MMA = 24  # the same, while a loop of a persistent kernel multiplies: benchmarks/results/gpu_attention.md


@dataclass(frozen=True)
class HoistLoads:
    """Moves each load, and what its addresses and mask need, behind the load before it in its block.

    The assembler moves none over what may branch, such as a division. Loads stay behind writes to global memory and
    barriers, and where they wait for other loads; together they take up to ``words`` registers of a thread longer than
    they had to.
    Runs when layouts are known, and before barriers are inserted.
    """

    name: ClassVar[str] = "hoist-loads"
    words: int = _WORDS

    def run(self, function: Function) -> Function:
        if sum(isinstance(op, GlobalLoad) for op in function.walk()) < 2:
            return function
        return with_body(function, self._block(function.body, {}))

    def _block(self, block: Block, values: ValueMap) -> Block:
        copied = open_block(block, values)
        for op in self._order(block):
            copied.append(clone_op(op, values, clone_regions=self._block))
        return copied

    def _order(self, block: Block) -> list[Op]:
        found: list[Op] = []
        segment: list[Op] = []
        for op in block.ops:
            segment.append(op)
            if (has_effect(op, SIDE_EFFECTS) and not isinstance(op, _TO_SHARED)) or op.spec.terminator:
                found += self._segment(segment)
                segment = []
        return found + segment

    def _segment(self, ops: list[Op]) -> list[Op]:
        """``ops``, of which only the last one writes global memory, in another order."""
        loads = [op for op in ops if isinstance(op, GlobalLoad) and op.is_weak]
        if len(loads) < 2:
            return ops
        made = made_by(ops)
        first, room = ops.index(loads[0]), self.words
        kept = set(ops[: first + 1])
        early: dict[Op, None] = {}
        for load in loads[1:]:
            needed = pure_slice(load.operands, made)
            room -= _words(load)
            if needed is not None and room >= 0:
                early.update(dict.fromkeys(op for op in (*needed, load) if op not in kept))
        return [*ops[: first + 1], *early, *(op for op in ops[first + 1 :] if op not in early)]


def _words(load: GlobalLoad) -> int:
    """The registers of a thread that hold what was loaded until it is converted."""
    t = load.result.type
    if not isinstance(t, TileType) or t.layout is None:
        return 1
    return max(t.layout.num_registers * (64 if t.is_pointer else t.element.bitwidth) // 32, 1)


class HoistLoadsOverLoops(InPlacePass):
    """Moves loads of what the kernel does not write in front of the loop of MMA ops of warp groups before them, as far
    as it does not give their addresses: the MMA ops run while they are under way.

    In loops over blocks, whose CTA has an SM for itself, such as for the results of a persistent kernel.
    """

    name: ClassVar[str] = "hoist-loads-over-loops"

    def change(self, function: Function) -> bool:
        loops = [op for op in function.ops_of(For) if isinstance(op.parent, For) and _multiplies(op)]
        if not loops or any(map(is_ordered, function.walk())):
            return False
        alias = AnalysisManager(function).get(AliasAnalysis)
        written = written_objects(function.walk(), alias)
        moved = [self._hoist(loop, alias, written) for loop in loops]
        return any(moved)

    def _hoist(self, loop: For, alias: AliasAnalysis, written: set[MemoryObject]) -> bool:
        """Whether loads have moved over ``loop``."""
        assert loop.block is not None
        after = loop.block.ops[loop.block.ops.index(loop) + 1 : -1]
        made, moved, room = made_by(after), dict[Op, None](), _WORDS_BESIDE_MMA
        for op in itertools.takewhile(lambda op: not has_early_exit(op), after):
            if not isinstance(op, GlobalLoad) or may_alias(alias.underlying_object(op.ptrs), written):
                continue
            needed = pure_slice(op.operands, made, loop.results)
            if needed is not None and _words(op) <= room:
                room -= _words(op)
                moved.update(dict.fromkeys((*needed, op)))
        loop.block.splice(moved, before=loop)
        return bool(moved)


def _multiplies(loop: For) -> bool:
    return not has_early_exit(loop) and any(isinstance(op, Wgmma) for op in loop.walk())
