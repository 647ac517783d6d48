"""Whether one thread that sees no tiles can find out which tiles are loaded, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.analysis.liveness import Liveness
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.control import CONTROL_FLOW, Break, Continue, For, If, Loop, LoopOp, Yield, deciding_values
from tilewright.ir.types import TileType


class ProducerSlice:
    """Which values follow from the arguments, the place in the grid and pure ops on scalars alone."""

    def __init__(self, function: Function) -> None:
        self._flow = AnalysisManager(function).get(Liveness)

    def covers(self, op: Op, values: Iterable[Value]) -> bool:
        """Whether ``values`` can be computed, and whether and how often control comes to ``op``."""
        pending = list(values)
        around: Op | None = op.parent
        while around is not None:
            pending += self._decides(around)
            around = around.parent
        seen: set[Value] = set()
        while pending:
            value = pending.pop()
            if value not in seen:
                seen.add(value)
                if not isinstance(value.type, TileType) or value.type.rank:
                    return False
                sources = self._sources(value)
                if sources is None:
                    return False
                pending += sources
        return True

    def _decides(self, op: Op) -> Iterator[Value]:
        """What decides how often the regions of ``op`` run: also the branches that leave them."""
        if not isinstance(op, CONTROL_FLOW):
            return
        yield from deciding_values(op)
        if isinstance(op, LoopOp):
            for nested in op.walk():
                if isinstance(nested, (Continue, Break)):
                    branch = nested.parent
                    while isinstance(branch, If):
                        yield branch.condition
                        branch = branch.parent

    def _sources(self, value: Value) -> list[Value] | None:
        """What ``value`` is computed from; None where that is more than a pure op on scalars."""
        owner = value.owner
        if isinstance(owner, Block):
            loop = owner.parent
            if loop is None:
                return []
            if isinstance(loop, For) and value.index == 0:
                return list(loop.bounds)
            return self._carried(loop, value.index - isinstance(loop, For)) if isinstance(loop, LoopOp) else None
        if isinstance(owner, For):
            return [*owner.bounds, *self._carried(owner, value.index)]
        if isinstance(owner, (If, Loop)):
            wanted = Yield if isinstance(owner, If) else Break
            exits = [e for e in self._flow.exits.get(owner, []) if isinstance(e, wanted)]
            return [*self._decides(owner), *(e.values[value.index] for e in exits)]
        return list(owner.operands) if is_pure(owner) and not owner.regions else None

    def _carried(self, loop: LoopOp, i: int) -> list[Value]:
        next_values = [e.values[i] for e in self._flow.exits.get(loop, []) if isinstance(e, Continue)]
        return [loop.inits[i], *next_values, *self._decides(loop)]
