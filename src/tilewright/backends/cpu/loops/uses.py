"""How many ops still need a value, while code is being emitted."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import Block, Function, Op, Value


class Uses:
    """For each value, the number of ops of its own block that are not complete and use it.

    An op with regions uses what its regions use. A pure op whose code is emitted where its result is needed is
    complete when that result is no longer needed.
    """

    def __init__(self, function: Function) -> None:
        self.remaining: dict[Value, int] = {}
        self._used: dict[Op, tuple[Value, ...]] = {}
        self._count(function.body)

    def _count(self, block: Block) -> None:
        """Count the uses in ``block``.

        The values are in program order, which the order of the code follows: sets would order them by their addresses.
        """
        self.remaining.update(dict.fromkeys(block.args, 0))
        for op in block.ops:
            for region in op.regions:
                self._count(region)
            used = dict.fromkeys((*op.operands, *op.captured()))
            self._used[op] = tuple(v for v in used if v.block is block)
            for v in self._used[op]:
                self.remaining[v] += 1
            self.remaining.update(dict.fromkeys(op.results, 0))

    def used(self, op: Op) -> tuple[Value, ...]:
        """The values of the block of ``op`` that it uses, regions included."""
        return self._used[op]

    def complete(self, op: Op) -> list[Value]:
        """Record that ``op`` needs its operands no more; returns those that nothing needs any more."""
        dead = []
        for v in self._used[op]:
            self.remaining[v] -= 1
            if self.remaining[v] == 0:
                dead.append(v)
        return dead

    def would_die(self, ops: Sequence[Op], deferred: set[Op]) -> set[Value]:
        """The values that nothing would need if ``ops`` were complete; ``deferred`` ops complete with their result."""
        taken: dict[Value, int] = {}
        dead: set[Value] = set()
        pending = list(ops)
        while pending:
            for v in self._used[pending.pop()]:
                taken[v] = taken.get(v, 0) + 1
                if taken[v] == self.remaining[v]:
                    dead.add(v)
                    if v.op in deferred:
                        pending.append(v.op)
        return dead
