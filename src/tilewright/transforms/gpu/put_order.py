"""Which stores the TMA unit may do, and which of them wait: it keeps no order, with those of threads or its own."""

from __future__ import annotations

from collections.abc import Sequence, Set

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
    """The ops of ``puts`` to whose arrays nothing else stores, but others of them, in tiles of a view that do not
    overlap."""
    roots = AnalysisManager(function).get(AliasAnalysis)
    stores = [op for op in function.walk() if isinstance(op, MemoryOp) and roots.effect(op) & Effect.WRITE]
    writers = {op: roots.underlying_object(op.address) for op in stores}
    kept = frozenset(puts)

    def overlaps(op: _Put) -> bool:
        if not isinstance(op, StoreView):
            return False  # what is added has no order
        t = op.view.partition
        others = {root for other, root in writers.items() if other not in kept}
        return t.steps != t.tile_shape or may_alias(writers[op], others)

    while dropped := frozenset(filter(overlaps, kept)):
        kept -= dropped
    return kept


def stored_once(function: Function) -> frozenset[Value]:
    """The arrays of which each element is stored no more than once by a block, by one op in loops, as far as its view
    says."""
    alias = AnalysisManager(function).get(AliasAnalysis)
    stores = [op for op in function.walk() if isinstance(op, MemoryOp) and alias.effect(op) & Effect.WRITE]
    looped = {op for op in stores if isinstance(op, StoreView) and any(isinstance(o, LoopOp) for o in op.ancestors)}
    alone = stored_apart(function, looped)
    roots = [alias.underlying_object(op.address) for op in alone]
    kept = (root for op, root in zip(alone, roots) if roots.count(root) == 1 and _has_own_tiles(op))
    return frozenset(root for root in kept if root is not None)


def stored_again(function: Function, puts: Set[_Put]) -> frozenset[_Put]:
    """Members of ``puts`` that may reach a tile to which an earlier one is still being stored, by another op or in an
    iteration before. What is only added has no order."""
    roots = AnalysisManager(function).get(AliasAnalysis)
    writers = {op: roots.underlying_object(op.address) for op in puts}

    def follows(op: _Put, other: _Put) -> bool:
        if isinstance(op, AtomicView) and isinstance(other, AtomicView):
            return False
        return not _has_own_tiles(op) if op is other else may_alias(writers[op], {writers[other]})

    found: list[_Put] = []
    for op in function.walk():
        if (
            isinstance(op, _Put)
            and op in puts
            and any(follows(op, other) for other in puts)
            and not _waits_already(op, found, puts)
        ):
            found.append(op)
    return frozenset(found)


def _waits_already(op: _Put, found: Sequence[_Put], puts: Set[_Put]) -> bool:
    """Whether one of those ``found`` is before ``op`` in its block, since when nothing but other tiles was stored."""
    last = next((other for other in reversed(found) if other.block is op.block), None)
    if last is None or op.block is None:
        return False
    ops = op.block.ops
    since = [o for outer in ops[ops.index(last) : ops.index(op)] for o in outer.walk() if o in puts]
    return all(_are_apart(op, other) for other in since if isinstance(other, _Put))


def _are_apart(op: _Put, other: _Put) -> bool:
    """Whether both store to tiles of one view whose indices differ by a number."""
    apart = any(a is b and m != n for (a, m), (b, n) in zip(map(_shifted, op.indices), map(_shifted, other.indices)))
    return apart and op.view is other.view and op.view.partition.steps == op.view.partition.tile_shape


def _shifted(value: Value) -> tuple[Value | None, int]:
    """The value to which a constant is added, and the constant; None for constants."""
    number = constant_of(value)
    if number is not None:
        return None, int(number)
    if isinstance(value.op, Add):
        for x, y in ((value.op.lhs, value.op.rhs), (value.op.rhs, value.op.lhs)):
            if (added := constant_of(y)) is not None:
                return x, int(added)
    return value, 0


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
