"""The layout that each tile is computed in: from accesses to global memory and MMA ops on to what is made of them."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.analysis.gpu.layout_conversion import is_transposed
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.ops import memory
from tilewright.ir.ops.control import CONTROL_FLOW, Break, Continue, If, Loop, LoopOp, Yield
from tilewright.ir.ops.gpu.cluster import ClusterGather, gathered_layout
from tilewright.ir.ops.gpu.wgmma import (
    Interleave,
    LoadFetched,
    Wgmma,
    left_layout,
)
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.ir.ops.shape import Cat, Extract, Insert, Permute, Reshape
from tilewright.ir.types import TileType
from tilewright.transforms.gpu.fetched_layouts import fetched_layout, layout_as_sums
from tilewright.transforms.gpu.layout_choice import AccessLayouts

_LIKE_OPERAND = (memory.AssumeBlocked, memory.AssumeBounded, memory.AssumeDivisible, Scan)


class Homes:
    """The layout that each tile is computed in, its *home*; None for tiles that are recomputed wherever they are used.

    Loads have the layout of their accesses; elementwise ops, scans, permutations, reshapes and reductions that of
    their operands; loops and branches that of what they carry. What depends on no such value (indices, pointers,
    masks, constants) and broadcasts have no home.
    """

    def __init__(self, function: Function, accesses: AccessLayouts) -> None:
        self._accesses = accesses
        self._homes: dict[Value, LinearLayout | None] = {}
        while self._visit(function.body, []):
            pass
        self._settle(function)

    def home(self, value: Value) -> LinearLayout | None:
        return self._homes.get(value)

    def of_carried(self, value: Value) -> LinearLayout:
        """The layout of a tile that has to have one."""
        return self._homes.get(value) or self._accesses.layout(value.tile.shape)

    def _set(self, value: Value, layout: LinearLayout | None) -> bool:
        """Whether that is news."""
        if layout is None or not isinstance(value.type, TileType) or not value.type.rank:
            return False
        if self._homes.get(value) is not None:
            return False
        self._homes[value] = layout
        return True

    def _visit(self, block: Block, enclosing: list[Op]) -> bool:
        changed = False
        for op in block.ops:
            if isinstance(op, LoopOp):
                for arg, init in zip(op.carried, op.inits):
                    changed |= self._set(arg, self._of_accumulator(op, arg) or self.home(init))
            if op.regions and isinstance(op, CONTROL_FLOW):
                for region in op.regions:
                    changed |= self._visit(region, [*enclosing, op])
            if op.spec.terminator:
                for target, source in self._passed(op, enclosing):
                    changed |= self._set(target, self.home(source))
            for value in op.results:
                if isinstance(value.type, TileType) and value.type.rank and value not in self._homes:
                    changed |= self._set(value, self._rule(op, value))
        return changed

    def _of_accumulator(self, loop: LoopOp, arg: Value) -> LinearLayout | None:
        """The layout that an MMA op gives what ``loop`` carries as ``arg``: what is loaded before is converted once."""
        end = loop.body.terminator
        following = end.values[list(loop.carried).index(arg)] if isinstance(end, Continue) else arg
        return self._rule(following.op, following) if isinstance(following.op, (Mma, Wgmma)) else None

    @staticmethod
    def _passed(op: Op, enclosing: list[Op]) -> Iterator[tuple[Value, Value]]:
        """What a terminator hands on, and to where."""
        if isinstance(op, Yield) and enclosing and isinstance(enclosing[-1], If):
            yield from zip(enclosing[-1].results, op.operands)
        elif isinstance(op, (Continue, Break)):
            loop = next(o for o in reversed(enclosing) if isinstance(o, LoopOp))
            if isinstance(op, Break):
                yield from zip(loop.results, op.operands)
            else:
                yield from zip(loop.carried, op.operands)
                if not isinstance(loop, Loop):
                    yield from zip(loop.results, op.operands)

    def _rule(self, op: Op, value: Value) -> LinearLayout | None:
        if op.spec.elementwise or isinstance(op, _LIKE_OPERAND):
            homes = [h for v in op.operands if (h := self.home(v)) is not None]
            if isinstance(op, Scan) and not homes:
                return self._accesses.layout(value.tile.shape)
            # One in which no element is held twice, rather than what a reduction left.
            return next((h for h in homes if h.is_injective), homes[0] if homes else None)
        if isinstance(op, Reduce):
            return self.of_carried(op.values[0]).slice(op.axis)
        if isinstance(op, ClusterGather):
            x = op.values[list(op.results).index(value)]
            one = self.of_carried(x) if x.tile.rank else self._accesses.layout((1,))
            return gathered_layout(one, op.ctas).reshape(value.tile.shape)
        if isinstance(op, Reshape):
            home = self.home(op.x)
            return home.reshape(op.shape) if home is not None else None
        if isinstance(op, Permute):
            home = self.home(op.x)
            return None if home is None else self._as_sums(op, home) or home.permute(op.axes)
        if isinstance(op, Mma):
            return self._accesses.cores.home(op)
        if isinstance(op, Wgmma):
            return op.sum_layout(self._accesses.warps)
        if isinstance(op, memory.Load):
            return self._accesses.of(op)
        if isinstance(op, LoadFetched):
            return fetched_layout(op, self._accesses.warps)
        if isinstance(op, Interleave):
            if op.axis == 1:
                return left_layout(value.tile.shape, self._accesses.warps, value.tile.element.bytes)
            home = self.home(op.x)
            return None if home is None else home.reshape(op.split).permute(op.order).reshape(value.tile.shape)
        if isinstance(op, (memory.AtomicRmw, memory.AtomicCas, Extract, Insert, Cat)):
            return self._accesses.layout(value.tile.shape)
        return None

    def _as_sums(self, op: Permute, home: LinearLayout) -> LinearLayout | None:
        """See ``layout_as_sums``, where instructions transpose matrices of 16 bits; else None."""
        found = layout_as_sums(op, self._accesses.warps)
        if found is None or not is_transposed(home, found.permute([op.axes.index(k) for k in range(2)]), 2):
            return None
        return found

    def _settle(self, function: Function) -> None:
        """Carried tiles without a home get that of accesses; so do the loops and branches that give them."""
        for op in function.ops_of(CONTROL_FLOW):
            for value in (*op.results, *(a for r in op.regions for a in r.args)):
                if isinstance(value.type, TileType) and value.type.rank:
                    self._set(value, self._accesses.layout(value.type.shape))
            if isinstance(op, LoopOp) and not isinstance(op, Loop):
                for arg, result in zip(op.carried, op.results):
                    if (home := self.home(arg)) is not None:
                        self._homes[result] = home
