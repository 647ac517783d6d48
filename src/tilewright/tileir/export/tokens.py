"""Tokens: which memory ops a memory op of CUDA Tile IR comes after."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import is_pure
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.ops import control, linear, memory
from tilewright.tileir.export.emitter import Emitter
from tilewright.tileir.module import Value
from tilewright.tileir.types import TOKEN

_LOADS = (memory.LoadView, memory.Load)
_PRODUCTS = (linear.Mma, linear.MmaScaled)
# Ops that tokens order.
ORDERED: frozenset[type[Op]] = frozenset(
    (
        memory.LoadView,
        memory.StoreView,
        memory.Load,
        memory.Store,
        memory.AtomicRmw,
        memory.AtomicCas,
        memory.AtomicView,
        memory.Print,
        linear.Scan,  # beside products, through memory of its own
    )
)
_SURVEYED = ORDERED | {control.For, control.Loop, control.If}  # combiners have no memory ops
_OUTPUT, _SCRATCH, _ALL = "output", "scratch", "all"
_READ, _WRITE = 1, 2  # what ops do to a memory, and what of it a token that is carried comes after
_UNORDERED = (MemoryOrder.WEAK, MemoryOrder.RELAXED)  # with accesses to other memory
Slot = tuple[Hashable, int]
Accesses = dict[Hashable, int]


class Tokens:
    """The tokens of a function while its ops are exported, in program order.

    An access is ordered with those of the same memory only, and loads not with each other: a load comes after the last
    write, a write after the loads since then. All memory is one where an address may be in any, or where an access
    acquires or releases; in ``program_order`` every op comes after the one before it, and so where a loop with products
    accesses what it has written: of the iteration that ``tileiras`` 13.5 does apart, as it loads ahead, it leaves out
    barriers. ``kinds`` are all kinds of ops that the function has, ``unused`` the loads that nothing needs, with what
    is computed of them.
    """

    def __init__(self, e: Emitter) -> None:
        self._e, function = e, e.kernel.function
        self._alias = AnalysisManager(function).get(AliasAnalysis)
        self._in_order = e.kernel.program_order
        self._is_apart = not self._in_order
        self._ops: dict[Op, tuple[Hashable, int]] = {}
        self._regions: dict[Op, Accesses] = {}
        self.kinds: set[type[Op]] = set()
        self.has_nests, self._fors = False, 0  # whether a ``for`` is in another one, and how many are around
        self.unused: set[Op] = set()
        self._needed: set[Op] = set()  # among what is computed of loads
        self._before: set[Hashable] = set()  # what was written when an op comes,
        self._again: set[Hashable] = set()  # and is accessed afterwards
        self._clashes = False  # whether an iteration accesses one memory several times, and writes it
        self._written = {key for key, effect in self._survey(function.body).items() if effect & _WRITE}
        if linear.Scan in self.kinds and linear.Mma not in self.kinds:
            self._written.discard(_SCRATCH)
            for accesses in self._regions.values():
                accesses.pop(_SCRATCH, None)
        self._of = self._ops  # what an op does to which memory, as it is ordered
        if self._in_order or not self._is_apart:
            self._of = {op: self._as_one(*access) for op, access in self._ops.items()}
            if self._in_order or self._written:
                self._written = {_ALL}
        self._first = Value(TOKEN)  # which the first ops come after
        self._write: dict[Hashable, Value] = {}  # the token of the last write
        self._last: dict[Hashable, tuple[Value, ...]] = {}  # that one and those of the loads since

    def begin(self) -> None:
        """Make the token that the first ops come after."""
        if self._ops:
            self._first = self._e.make["make_token"](self._e, {}, TOKEN)

    def _survey(self, block: Block) -> Accesses:
        """What the ops of ``block`` do to which memory."""
        found: Accesses = {}
        kinds = list(map(type, block.ops))
        self.kinds.update(kinds)
        surveyed: Iterable[Any] = itertools.compress(block.ops, map(_SURVEYED.__contains__, kinds))
        for op in surveyed:
            if self.unused and op in self.unused:
                continue
            kind = type(op)
            if kind in _LOADS and op.memory_order is memory.WEAK and not self._is_needed(op):
                self.unused |= _computed(op)
            elif kind in ORDERED:
                key, effect = self._ops[op] = self._access(op)
                self._add(found, key, effect)
                if key in self._before:
                    self._again.add(key)
                elif effect == _WRITE:
                    self._before.add(key)
            else:
                own: Accesses = {}
                is_for = kind is control.For
                self.has_nests |= is_for and self._fors > 0
                self._fors += is_for
                before, after, clashes = self._before, set[Hashable](), self._clashes
                self._clashes = False
                for region in op.regions:  # of a branch one is done
                    self._before = set(before)
                    _add(own, self._survey(region))
                    after |= self._before
                self._before = after
                self._fors -= is_for
                late = self._clashes and not self._e.kernel.ahead and is_for
                if late and any(isinstance(o, _PRODUCTS) for o in op.regions[0].ops):
                    self._in_order, self._is_apart = True, False
                self._clashes |= clashes
                if own:
                    self._regions[op] = own
                    for key, effect in own.items():
                        self._add(found, key, effect)
                if isinstance(op, (control.For, control.Loop)):  # whose iterations come after each other
                    self._again |= {key for key, effect in own.items() if effect == _READ | _WRITE}
        return found

    def _is_needed(self, load: Op) -> bool:
        """Whether more than pure ops needs what is computed of ``load``. ``tileiras`` 13.5 stores such a tile where
        others are in shared memory, for it does not wait for it."""
        needed, seen, way, left = self._needed, {load}, [load], [iter(_users(load))]
        while left:
            for user in left[-1]:
                if user in needed or not is_pure(user):
                    needed.update(way)
                    return True
                if user not in seen:
                    seen.add(user)
                    way.append(user)
                    left.append(iter(_users(user)))
                    break
            else:
                way.pop()
                left.pop()
        return False

    def _add(self, to: Accesses, key: Hashable, effect: int) -> None:
        """Add what comes after that."""
        before = to.get(key, 0)
        to[key] = effect = before | effect
        if before and effect & _WRITE:
            self._clashes = True

    def may_be_late(self, op: Op) -> bool:
        """Whether the memory of ``op`` is accessed again after it was written: ``tileiras`` 13.5 does not wait until
        the TMA unit has written, nor does the unit see what threads wrote. Other iterations write elsewhere."""
        again = self._again
        return bool(again) and (None in again or self._ops[op][0] in again)

    def is_written(self, op: Op) -> bool:
        """Whether the function writes the memory of ``op``."""
        return self._of[op][0] in self._written

    def _access(self, op: Op) -> tuple[Hashable, int]:
        """What memory ``op`` reaches, and what it does there."""
        if not isinstance(op, memory.MemoryOp):
            return _SCRATCH if isinstance(op, linear.Scan) else _OUTPUT, _WRITE
        root = self._alias.underlying_object(op.address)
        order = op.memory_order
        if root is None or order not in _UNORDERED:
            self._is_apart = False
        return root, _READ if order is memory.WEAK and type(op) in _LOADS else _WRITE

    def _as_one(self, key: Hashable, effect: int) -> tuple[Hashable, int]:
        """An access where memory, or the order of all ops, is one."""
        return (key if self._is_apart else _ALL), (_WRITE if self._in_order else effect)

    def before(self, op: Op) -> Value:
        """What ``op`` comes after."""
        key, effect = self._of[op]
        return self._write.get(key, self._first) if effect == _READ else self._now(key)

    def after(self, op: Op, token: Value) -> None:
        """``op`` has been made, with this token."""
        key, effect = self._of[op]
        if effect == _WRITE:
            self._write[key], self._last[key] = token, (token,)
        elif key in self._written:
            self._last[key] = (*self._last.get(key, (self._first,)), token)

    def _now(self, key: Hashable) -> Value:
        """What a write of the memory ``key`` comes after: the loads since the last one, and that one again, as
        ``tileiras`` 13.5 drops the order of loads whose numbers it does not need."""
        last = self._last.get(key, (self._first,))
        if len(last) > 1:
            last = self._last[key] = (self._e.make["join_tokens"](self._e, {"tokens": list(last)}, TOKEN),)
        return last[0]

    def carried(self, op: Op) -> list[Slot]:
        """The tokens that a loop or a branch takes and gives beside its values."""
        accesses = self._regions.get(op, {})
        if not self._is_apart and accesses:
            accesses = {_ALL: _WRITE if self._in_order else functools.reduce(operator.or_, accesses.values())}
        found: list[Slot] = []
        for key, effect in accesses.items():
            if key not in self._written:
                continue
            if effect == _READ | _WRITE:
                found += (key, _WRITE), (key, _READ)
            else:
                found.append((key, _READ if effect == _READ else _READ | _WRITE))
        return found

    def values(self, slots: Sequence[Slot]) -> list[Value]:
        """The tokens now in ``slots``."""
        return [self._write.get(key, self._first) if what == _WRITE else self._now(key) for key, what in slots]

    def set(self, slots: Sequence[Slot], values: Sequence[Value]) -> None:
        """What follows comes after ``values``, as the slots say."""
        for (key, what), value in zip(slots, values):
            if what & _WRITE:
                self._write[key] = value
            self._last[key] = (value,)

    def state(self) -> Any:
        """What ``restore`` takes, after the ops of a region."""
        return dict(self._write), dict(self._last)

    def restore(self, state: Any) -> None:
        self._write, self._last = state


def _computed(load: Op) -> set[Op]:
    """``load`` and what is computed of it."""
    found, pending = set[Op](), [load]
    while pending:
        op = pending.pop()
        found.add(op)
        pending += [user for user in _users(op) if user not in found]
    return found


def _users(op: Op) -> Collection[Op]:
    if len(op.results) == 1:
        return op.results[0].users
    return [user for result in op.results for user in result.users]


def _add(to: Accesses, accesses: Accesses) -> None:
    for key, effect in accesses.items():
        to[key] = to.get(key, 0) | effect


_THROUGH_POINTERS = (memory.Load, memory.Store, memory.AtomicRmw, memory.AtomicCas)


def moves_through_memory(function: Function) -> bool:
    """Whether what threads write may be accessed by others, as gathers, scatters and atomics do: barriers are missing
    then."""
    alias = AnalysisManager(function).get(AliasAnalysis)
    accesses: dict[Any, list[memory.MemoryOp]] = {}
    for op in function.walk():
        if isinstance(op, memory.MemoryOp):
            accesses.setdefault(alias.underlying_object(op.address), []).append(op)
    groups = [list(itertools.chain(*accesses.values()))] if None in accesses else accesses.values()
    return any(
        len(ops) > 1
        and any(isinstance(op, _THROUGH_POINTERS) for op in ops)
        and not all(isinstance(op, (memory.Load, memory.LoadView)) for op in ops)
        for ops in groups
    )
