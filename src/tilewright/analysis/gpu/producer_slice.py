"""Whether one thread that sees no tiles can find out which tiles are loaded, and where."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.ops.control import CONTROL_FLOW, Break, Continue, For, If, LoopOp, deciding_values, incoming
from tilewright.ir.types import TileType


def slice_covers(op: Op, values: Iterable[Value], reads: Container[Op] = ()) -> bool:
    """Whether ``values``, and whether and how often control comes to ``op``, follow from the arguments, the position in
    the grid, pure ops on single elements and the loads ``reads`` alone."""
    pending = list(values)
    around: Op | None = op.parent
    while around is not None:
        pending += _decides(around)
        around = around.parent
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value not in seen:
            seen.add(value)
            if isinstance(value.type, TileType) and value.type.size != 1:
                return False
            sources = _sources(value, reads)
            if sources is None:
                return False
            pending += sources
    return True


def _decides(op: Op) -> Iterator[Value]:
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


def _sources(value: Value, reads: Container[Op]) -> list[Value] | None:
    """What ``value`` is computed from; None where that is more than a pure op or one of ``reads``."""
    owner = value.owner
    made = incoming(value)
    if made is not None:
        around = owner.parent if isinstance(owner, Block) else owner
        assert around is not None
        return [*_decides(around), *made]
    if isinstance(owner, Block):
        loop = owner.parent
        return [] if loop is None else list(loop.bounds) if isinstance(loop, For) else None
    return list(owner.operands) if owner in reads or (is_pure(owner) and not owner.regions) else None
