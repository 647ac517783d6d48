"""Where the threads of a block must wait for each other so that memory ops take effect in program order.

The elements of a tile are spread over threads in a way that differs from op to op, so a load after a store of the
same array may run in another thread. A barrier goes before each memory op that conflicts with one since the last
barrier; ``roots`` says which may.

Loads of a loop may run ahead of all that the loop does, barriers included, up to what comes before the loop: those of a
loop that stores to nothing it loads from, and orders no memory (the others are ``unpipelined``). No barrier inside such
a loop is for them, then: it keeps stores of one iteration from those of another. What was stored before the loop is
waited for by a barrier before it, not by one before the load.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.analysis.alias import AliasAnalysis, MemoryObject, may_alias
from tilewright.analysis.memory_dependence import DependenceWalk
from tilewright.ir.core import Block, Function, Op
from tilewright.ir.effects import RELEASES, acquires
from tilewright.ir.enums import MemoryOrder
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import For, LoopOp
from tilewright.ir.ops.memory import MemoryOp


@dataclass
class Pending:
    """Accesses since the last barrier."""

    reads: set[MemoryObject] = field(default_factory=set)
    writes: set[MemoryObject] = field(default_factory=set)
    released: bool = True  # nothing since the last barrier that a release would have to wait for

    def copy(self) -> Pending:
        return Pending(set(self.reads), set(self.writes), self.released)

    def merge(self, other: Pending) -> None:
        self.reads |= other.reads
        self.writes |= other.writes
        self.released = self.released and other.released

    def barrier(self) -> None:
        """Threads have waited for each other."""
        self.reads.clear()
        self.writes.clear()
        self.released = True

    def in_next_iteration(self, loop: LoopOp) -> Pending:
        """As many: arrays are told apart, not their tiles."""
        return self.copy()


class BarrierInsertion(DependenceWalk[Pending]):
    """Finds the ops of ``function`` that need a barrier before them, and loops whose loads must not run ahead.

    Ops for which ``acquires`` holds need a barrier after them.
    """

    def __init__(self, function: Function, roots: AliasAnalysis) -> None:
        super().__init__()
        self._roots = roots
        self.barriers: set[Op] = set()
        self.unpipelined: set[Op] = set()
        self.walk(function.body, Pending())

    def access(self, op: Op, state: Pending) -> None:
        if isinstance(op, MemoryOp) and self._roots.effect(op):
            self._access(op, state)

    def enter(self, loop: LoopOp, state: Pending) -> None:
        if self._conflicts_within(loop.body):
            self.unpipelined.add(loop)
        elif isinstance(loop, For):
            self._before_loads(loop, state)

    def _access(self, op: MemoryOp, pending: Pending) -> None:
        root = self._roots.underlying_object(op.address)
        effect = self._roots.effect(op)
        order = op.memory_order
        writes = bool(effect & Effect.WRITE)
        releases = order in RELEASES
        conflict = may_alias(root, pending.writes) or (writes and may_alias(root, pending.reads))
        conflict = conflict or (releases and not pending.released)
        if conflict or op in self.barriers:
            self.barriers.add(op)
            pending.barrier()
        if effect & Effect.READ:
            pending.reads.add(root)
        if writes:
            pending.writes.add(root)
        pending.released = False
        if acquires(op):
            pending.barrier()  # one follows it

    def _before_loads(self, loop: For, pending: Pending) -> None:
        """What the loads of ``loop``, which may run ahead to before it, have to wait for."""
        reads = [op for op in loop.body.walk() if isinstance(op, MemoryOp) and op.spec.effect & Effect.READ]
        roots = [self._roots.underlying_object(op.address) for op in reads]
        if loop in self.barriers or any(may_alias(root, pending.writes) for root in roots):
            self.barriers.add(loop)
            pending.barrier()

    def _conflicts_within(self, body: Block) -> bool:
        """Whether an iteration may read what an earlier one wrote, or holds ops that order memory."""
        accesses = [op for op in body.walk() if isinstance(op, MemoryOp) and self._roots.effect(op)]
        if any(op.memory_order not in (MemoryOrder.WEAK, MemoryOrder.RELAXED) for op in accesses):
            return True
        reads, writes = self._roots.accessed(accesses)
        return any(may_alias(root, writes) for root in reads)
