"""From where to where in a function its values are needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate

from tilewright.ir.core import Block, Function, Op, Value


class LiveRanges:
    """The ops of a function numbered in program order: ``first``, and ``last`` with all that is nested in them.

    What is used in a region is needed to the end of the op around it that is in the block of the value: a loop may run
    the region again.
    """

    def __init__(self, function: Function) -> None:
        self.first: dict[Op, int] = {}
        self.last: dict[Op, int] = {}
        self._number(function.body)

    def _number(self, block: Block) -> None:
        for op in block.ops:
            self.first[op] = len(self.first)
            for region in op.regions:
                self._number(region)
            self.last[op] = len(self.first) - 1

    def end(self, users: Iterable[Op], block: Block | None) -> int:
        """The end of the last of ``users``, seen from ``block``; 0 without any."""
        assert block is not None
        return max((self.last[user.ancestor_in(block) or user] for user in users), default=0)

    def of_result(self, value: Value) -> tuple[int, int]:
        """From the op that defines ``value`` to its last use, or to its end where there is none."""
        assert value.op is not None
        return self.first[value.op], max(self.last[value.op], self.end(value.users, value.block))


def max_live(lives: Iterable[tuple[int, int, float]]) -> float:
    """The largest sum of sizes that is live at any time, of live ranges given by their ends and sizes."""
    changes: defaultdict[int, float] = defaultdict(float)
    for begin, end, size in lives:
        changes[begin] += size
        changes[max(begin, end)] -= size
    return max(accumulate(changes[i] for i in sorted(changes)), default=0)
