"""Asynchronous work of the threads of a CTA: done as late as what waits for it allows, so that a missing wait shows.

Bytes of shared memory that a copy fills are not there until it has arrived; those that one reads, or a product, are not
written until it is done. Each of both is a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.ptx.parser import Instruction

Array = np.ndarray[Any, Any]
Action = Callable[[Array], None]  # of those threads


@dataclass
class _Work:
    group: Array  # the number of its group, for each thread
    threads: Array
    action: Action


class Groups:
    """Work that each thread begins, commits in groups, and waits for: the oldest groups first."""

    def __init__(self, threads: int) -> None:
        self.committed = np.zeros(threads, np.int64)
        self._begun: list[_Work] = []

    def begin(self, threads: Array, action: Action) -> None:
        """``action`` is done once for each of ``threads``, but for several at a time."""
        self._begun.append(_Work(self.committed.copy(), threads.copy(), action))

    def commit(self, threads: Array) -> None:
        self.committed[threads] += 1

    def wait(self, threads: Array, pending: int) -> None:
        """All groups of ``threads`` but the last ``pending`` ones are done, the latest first: they have no order."""
        for work in reversed(self._begun):
            due = work.threads & threads & (work.group < self.committed - pending)
            if due.any():
                work.action(due)
                work.threads &= ~due
        self._begun = [work for work in self._begun if work.threads.any()]

    def instruct(self, i: Instruction, threads: Array) -> bool:
        """Commit or wait; whether ``i`` says one of both."""
        if "commit_group" in i.opcode:
            self.commit(threads)
        elif "wait_group" in i.opcode:
            self.wait(threads, int(str(i.operands[0])))
        else:
            return False
        return True

    def __bool__(self) -> bool:
        return bool(self._begun)


class BulkStores:
    """Copies out of shared memory, which a wait may end for their source alone: they are in memory later."""

    def __init__(self, threads: int) -> None:
        self._reads, self._writes = Groups(threads), Groups(threads)

    def begin(self, threads: Array, read: Action, write: Action) -> None:
        self._reads.begin(threads, read)
        self._writes.begin(threads, write)

    def instruct(self, i: Instruction, threads: Array) -> bool:
        """Commit or wait; whether ``i`` says one of both."""
        found = self._reads.instruct(i, threads)
        if found and "read" not in i.opcode:
            self._writes.instruct(i, threads)
        return found

    def end(self, threads: Array) -> bool:
        """All threads have ended, and what they stored is in memory; whether nothing still read shared memory."""
        if self._reads:
            return False
        self._writes.commit(threads)
        self._writes.wait(threads, 0)
        return True


class Held:
    """How many pieces of work that are not done read each byte of shared memory."""

    def __init__(self, size: int) -> None:
        self.count = np.zeros(size, np.int64)

    def hold(self, places: Array, threads: Array) -> Action:
        """Until what this returns was done for all of ``threads``."""
        held, left = np.zeros(self.count.size, np.bool_), threads.copy()
        held[places] = True
        places = np.flatnonzero(held)
        self.count[places] += 1

        def release(done: Array) -> None:
            left[done] = False
            if not left.any():
                self.count[places] -= 1

        return release
