"""Which stores the TMA unit may do: it keeps no order with those of threads, nor among its own."""

from __future__ import annotations

from collections.abc import Set

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.memory import AtomicView, MemoryOp, StoreView

_Put = StoreView | AtomicView


def stored_apart(function: Function, puts: Set[_Put]) -> frozenset[_Put]:
    """The ops of ``puts`` to whose arrays nothing else stores, but others of them in the same tiles, which do not
    overlap."""
    roots = AnalysisManager(function).get(AliasAnalysis)
    stores = [op for op in function.walk() if isinstance(op, MemoryOp) and roots.effect(op) & Effect.WRITE]
    writers = {op: roots.underlying_object(op.address) for op in stores}
    kept = frozenset(puts)

    def overlaps(op: _Put) -> bool:
        if not isinstance(op, StoreView):
            return False  # what is added has no order
        t = op.view.partition
        others = {root for other, root in writers.items() if other not in kept or other.address.type != t}
        return t.steps != t.tile_shape or may_alias(writers[op], others)

    while dropped := frozenset(filter(overlaps, kept)):
        kept -= dropped
    return kept
