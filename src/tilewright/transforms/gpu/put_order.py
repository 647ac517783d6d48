"""Which stores the TMA unit may do, and which of them wait: it keeps no order, with those of threads or its own."""

from __future__ import annotations

from collections.abc import Set

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.arith import Add, Cast, Mul, Sub
from tilewright.ir.ops.control import For, LoopOp
from tilewright.ir.ops.memory import AtomicView, MemoryOp, StoreView
from tilewright.ir.ops.shape import constant_of

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


def stored_again(function: Function, puts: Set[_Put]) -> frozenset[_Put]:
    """Members of ``puts`` that may reach a tile to which an earlier one is still being stored, by another op or in an
    iteration before. What is only added has no order."""
    roots = AnalysisManager(function).get(AliasAnalysis)
    writers = {op: roots.underlying_object(op.address) for op in puts}

    def follows(op: _Put, other: _Put) -> bool:
        if isinstance(op, AtomicView) and isinstance(other, AtomicView):
            return False
        return not _has_own_tiles(op) if op is other else may_alias(writers[op], {writers[other]})

    return frozenset(op for op in puts if any(follows(op, other) for other in puts))


def _has_own_tiles(op: _Put) -> bool:
    """Whether ``op`` reaches another tile in each iteration: for each loop around, a coordinate is a multiple of its
    induction variable."""
    loops = [around for around in op.ancestors if isinstance(around, LoopOp)]
    return all(isinstance(loop, For) and any(_counts(v, loop, loops[-1]) for v in op.indices) for loop in loops)


def _counts(value: Value, loop: For, outermost: Op) -> bool:
    """Whether ``value`` is a multiple of the induction variable of ``loop``, and a sum with what ``outermost`` does not
    change."""
    op = value.op
    if op is None:
        return value is loop.body.args[0]
    if isinstance(op, Cast):
        return _counts(op.x, loop, outermost)
    if not isinstance(op, (Add, Sub, Mul)):
        return False
    return any(
        _counts(x, loop, outermost) and (bool(constant_of(y)) if isinstance(op, Mul) else not _is_made_in(outermost, y))
        for x, y in ((op.lhs, op.rhs), (op.rhs, op.lhs))
    )


def _is_made_in(loop: Op, value: Value) -> bool:
    around = None if value.block is None else value.block.parent
    return around is not None and (around is loop or loop in around.ancestors)
