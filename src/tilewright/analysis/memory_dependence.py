"""Memory accesses in the order in which they run: what is pending where ways meet, and in the next iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from tilewright.ir.core import Block, Op
from tilewright.ir.ops.control import Break, Continue, For, If, LoopOp

_State = TypeVar("_State", bound="PendingAccesses")


class PendingAccesses(Protocol):
    """Accesses that a later one may depend on, as nothing has made threads wait for each other since. None at first."""

    def copy(self: _State) -> _State:
        """As much, to be changed apart."""

    def merge(self: _State, other: _State) -> None:
        """Add those of ``other``: of another way to the same op."""

    def in_next_iteration(self: _State, loop: LoopOp) -> _State:
        """Go on in another iteration of ``loop``, in which values are others."""


class DependenceWalk(Generic[_State]):
    """Goes through a block and what is nested in it as it runs; through loops until they add nothing that is pending.

    ``access`` is told of each op; for an op of a loop it must say the same again, once it has found a dependence.
    """

    def __init__(self) -> None:
        self._continued: list[list[_State]] = []  # at the jumps of the loops around
        self._left: list[list[_State]] = []

    def access(self, op: Op, state: _State) -> None:
        """Find out what ``op`` depends on, and add what it accesses to ``state``."""
        raise NotImplementedError

    def enter(self, loop: LoopOp, state: _State) -> None:
        """``loop`` begins, with ``state``."""

    def walk(self, block: Block, state: _State) -> _State | None:
        """What is pending at the end of ``block``, where ``state`` was at its start; None when it ends in a jump."""
        for op in block.ops:
            if isinstance(op, LoopOp):
                state = self._loop(op, state)
            elif isinstance(op, If):
                state = _merged([self.walk(r, state.copy()) for r in op.regions], state)
            elif isinstance(op, Continue):
                self._continued[-1].append(state)
                return None
            elif isinstance(op, Break):
                self._left[-1].append(state)
                return None
            else:
                self.access(op, state)
        return state

    def _loop(self, op: LoopOp, before: _State) -> _State:
        self.enter(op, before)
        entry = before.copy()
        while True:
            self._continued.append([])
            self._left.append([])
            self.walk(op.body, entry.copy())
            continued, left = self._continued.pop(), self._left.pop()
            known = entry.copy()
            for state in continued:
                entry.merge(state.in_next_iteration(op))
            if entry == known:
                break
        ends = [*left, *continued] if isinstance(op, For) else left
        return _merged([*([before] if isinstance(op, For) else []), *(s.in_next_iteration(op) for s in ends)], before)


def _merged(states: Sequence[_State | None], like: _State) -> _State:
    """What is pending after any of ``states``; nothing, where control does not come out of any."""
    merged = type(like)()
    for state in states:
        if state is not None:
            merged.merge(state)
    return merged
