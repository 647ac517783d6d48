"""The pass that keeps packed operands of products for the blocks that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis, MemoryObject, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import is_factor
from tilewright.backends.cpu.loops.fused import array_tiles
from tilewright.backends.cpu.scratch import aligned, element_bytes
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import is_ordered, is_pure
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.loops import LoopNest, ReserveScratch
from tilewright.ir.ops.memory import Bid, LoadView, MemoryOp
from tilewright.ir.ops.shape import Permute, Reshape, constant_of
from tilewright.transforms.base import InPlacePass

# Bytes of a tile: one that a first-level cache keeps beside others is copied again soon enough.
_SMALLEST = 16 << 10
# Bytes that each thread keeps of an operand in all: the second-level cache of a core of Intel's Sapphire Rapids, or
# two of those of AMD's Zen 4.
_LARGEST = 2 << 20
STATE_WORDS = 3  # before the indices of a panel: see ``codegen.panels``


class PackPanels(InPlacePass):
    """Gives nests that copy operands of MMA ops in a loop room for the results of all iterations, one behind the other.

    Blocks that multiply the same columns read them from there, as in the BLAS: in the array, each row of such a tile
    is on a page of its own. In kernels that only read the array, where the tile depends on nothing but the iteration
    and indices that are known before the loop.

    Last, as it enlarges the scratch memory, in which other passes look for room.
    """

    name: ClassVar[str] = "pack-panels"

    def change(self, function: Function) -> bool:
        """Never fails."""
        ops = list(function.walk())
        if not any(isinstance(op, Mma) for op in ops) or any(map(is_ordered, ops)):
            return False
        reserve = function.body.ops[0]
        assert isinstance(reserve, ReserveScratch)
        alias = AnalysisManager(function).get(AliasAnalysis)
        _, written = alias.accessed(op for op in ops if isinstance(op, MemoryOp))
        before = reserve.bytes
        for loop in ops:
            if isinstance(loop, For) and constant_of(loop.step) == 1 and _is_uniform(loop.lower):
                for nest in loop.body.ops:
                    if isinstance(nest, LoopNest) and _is_panel(nest, loop, alias, written):
                        reserve.bytes = _make_room(nest, reserve.bytes)
        return reserve.bytes > before


def panel_indices(nest: LoopNest) -> Sequence[Value]:
    """The indices that the tile of ``nest`` depends on beside the iteration of the loop around."""
    counter = nest.block.args[0] if nest.block is not None else None
    loads = [v.op for v in array_tiles(nest)]
    found = [v for load in loads if isinstance(load, LoadView) for v in load.indices]
    return [v for v in dict.fromkeys(found) if v is not counter and constant_of(v) is None]


def state_bytes(nest: LoopNest) -> int:
    """The size of what is noted of the panels of ``nest``, in front of them."""
    return aligned(8 * (STATE_WORDS + len(panel_indices(nest))))


def panel_bytes(nest: LoopNest) -> int:
    t = nest.results[0].tile
    return aligned(t.size * element_bytes(t.dtype))


def _make_room(nest: LoopNest, used: int) -> int:
    """Put the panels of ``nest`` behind the ``used`` bytes of scratch memory; the size with them."""
    offset, count = aligned(used), _LARGEST // panel_bytes(nest)
    nest.panels = (offset, count)
    return offset + state_bytes(nest) + count * panel_bytes(nest)


def _is_panel(nest: LoopNest, loop: For, alias: AliasAnalysis, written: set[MemoryObject]) -> bool:
    if nest.panels or len(nest.results) != 1 or nest.buffers[0] is None:
        return False
    if not _SMALLEST <= panel_bytes(nest) <= _LARGEST // 2:
        return False
    *body, _ = nest.body.ops
    loads, inside = array_tiles(nest), {r for op in body for r in op.results}
    others = {v for op in nest.body.ops for v in op.operands} - inside - set(loads)
    return (
        any(loop.body.args[0] in load.op.operands for load in loads if load.op is not None)
        and all(map(is_pure, body))
        and all(_is_repeated(load.op, loop, alias, written) for load in loads)
        and all(map(_is_uniform, others))
        and is_factor(nest.results[0], (Reshape, Permute))
    )


def _is_repeated(load: Op | None, loop: For, alias: AliasAnalysis, written: set[MemoryObject]) -> bool:
    """Whether ``load`` gives the same tile in all blocks that have the same indices before the loop."""
    if not isinstance(load, LoadView) or load.block is not loop.body or not _is_uniform(load.view):
        return False
    if not all(v is loop.body.args[0] or _is_before(v, loop) for v in load.indices):
        return False
    return not may_alias(alias.underlying_object(load.view), written)


def _is_before(value: Value, loop: For) -> bool:
    return value.block is not loop.body if value.op is None else value.op.ancestor_in(loop.body) is None


def _is_uniform(value: Value) -> bool:
    """Whether ``value`` is the same in all blocks: it is computed from parameters and constants."""
    if value.op is None:
        return value.block is not None and value.block.parent is None
    op = value.op
    return is_pure(op) and not op.regions and not isinstance(op, Bid) and all(map(_is_uniform, op.operands))
