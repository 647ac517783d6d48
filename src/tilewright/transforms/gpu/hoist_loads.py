"""Loads of what results need, before the MMA ops in front of them."""

from __future__ import annotations

import itertools
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis, MemoryObject, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function, Op
from tilewright.ir.effects import has_early_exit, is_ordered
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.load_ahead import made_by, pure_slice, written_objects

# Registers of a thread that loads take while a persistent kernel multiplies: benchmarks/results/gpu_attention.md
_WORDS_BESIDE_MMA = 24


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
