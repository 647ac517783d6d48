"""MMA ops of a block that wait for no other one begin beside the first, or before one in front of them is waited for:
the tensor cores have work while what follows from that is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from tilewright.analysis.alias import AliasAnalysis, may_alias
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.mma_graph import depends, live_sums
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import is_ordered, is_pure
from tilewright.ir.gpu_stage import num_warps
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.gpu.memory import GlobalLoad, GlobalStore, SharedAlloc, SharedLoad, SharedStore
from tilewright.ir.ops.gpu.tma import Fetch, Put
from tilewright.ir.ops.gpu.wgmma import StageOperand, Wgmma
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import TileType
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.gpu.load_ahead import written_objects

_MOST_WORDS = 208  # registers of a thread for accumulators and a left operand: benchmarks/results/gpu_attention.md
# Of those that are needed at a time, where all together are more: with 160 the gated delta rule spills and is slower.
_MOST_LIVE = 144
# With what is staged or fetched goes what brings it to another layout in shared memory of its own.
_MOVED = (Fetch, StageOperand, SharedAlloc, SharedStore, SharedLoad)


class HoistMma(InPlacePass):
    """Moves MMA ops of warp groups that need no result of others of their block, but to add to it, behind the first
    one, in their order, with what computes their operands: as in the gradients of attention the product of gradients
    and values beside the scores, or in linear attention that with the state.

    Where registers do not suffice for all accumulators, behind the one in front of it, before that is waited for, as
    long as they suffice for those that are needed at a time, and what threads put into shared memory for it behind the
    one before; so also one whose result only leaves a block that stores others. Runs before ``defer-accumulators``.
    """

    name: ClassVar[str] = "hoist-mma"

    def change(self, function: Function) -> bool:
        alias = AnalysisManager(function).get(AliasAnalysis)
        blocks = dict.fromkeys(op.block for op in function.ops_of(Wgmma) if op.block is not None)
        moved = [_Hoist(block, alias, LANES * num_warps(function)).run() for block in blocks]
        return any(moved)


def _words(block: Block) -> int:
    """Registers of all threads for accumulators and the largest left operand of the MMA ops of ``block``: not for what
    the last one gives, if that waits for others, whose sums are over then, and adds to nothing."""
    *others, last = mmas = _mmas(block.ops)
    after = isinstance(last.acc.op, Constant) and any(depends(last, op) for op in others)
    sums = sum(op.acc.tile.size for op in (others if after else mmas) if not isinstance(op.acc.op, Wgmma))
    return sum([sums, *sorted(op.x.tile.size // 2 for op in mmas if isinstance(op.x.type, TileType))[-1:]])


def _mmas(ops: Sequence[Op]) -> list[Wgmma]:
    return [op for op in ops if isinstance(op, Wgmma)]


@dataclass(frozen=True)
class _Hoist:
    """Hoists the MMA ops of ``block``, of so many ``threads``."""

    block: Block
    alias: AliasAnalysis
    threads: int

    def run(self) -> bool:
        """Whether something has moved."""
        before = list(self.block.ops)
        all_fit = _words(self.block) <= _MOST_WORDS * self.threads
        made = self._behind_first(before) if all_fit else before
        for first, second in pairwise(_mmas(made)):
            if not all_fit or self._leaves(second):
                made = self._behind(made, first, second)
        for first, last in () if all_fit else zip(_mmas(made), _mmas(made)[2:]):
            made = self._stage_behind(made, first, last)
        for first, second in pairwise(_mmas(made)):
            made = self._leaving_behind(made, first, second)
        if made == before:
            return False
        self.block.splice(made[:-1], before=self.block.terminator)
        return True

    def _leaves(self, op: Wgmma) -> bool:
        """Whether the block stores results, and what ``op`` gives is not among them, but carried on."""
        stores = any(isinstance(o, (Put, GlobalStore)) for o in self.block.ops)
        return stores and all(user is self.block.terminator for user in op.result.users)

    def _behind_first(self, ops: list[Op]) -> list[Op]:
        first, *others = _mmas(ops)
        at = ops.index(first) + 1
        order = _Order(ops[:at], ops[at:])
        for op in others:
            order = (None if self._leaves(op) else order.with_next(op, self.alias)) or order
        return order.ops

    def _behind(self, ops: list[Op], first: Wgmma, second: Wgmma) -> list[Op]:
        """``ops`` with ``second`` behind ``first``, if anything in between waits for that."""
        at, end = ops.index(first) + 1, ops.index(second)
        waits = any(first.result in _operands(op) for op in ops[at:end])
        moved = _Order(ops[:at], ops[at:]).with_next(second, self.alias) if waits else None
        return moved.ops if moved is not None and self._fits(moved) else ops

    def _leaving_behind(self, ops: list[Op], first: Wgmma, second: Wgmma) -> list[Op]:
        """``ops`` with ``first``, whose sum only leaves, behind ``second``, whose sum is stored beside it then."""
        fetched = all(isinstance(v.type, TileType) or isinstance(v.op, Fetch) for v in (first.x, first.y))
        needed = any(depends(op, second) for op in _mmas(ops))
        if needed or not (fetched and self._leaves(first)) or self._leaves(second):
            return ops
        others = [op for op in ops if op is not first]
        at = others.index(second) + 1
        return [*others[:at], first, *others[at:]]

    def _stage_behind(self, ops: list[Op], first: Wgmma, last: Wgmma) -> list[Op]:
        """``ops`` with what threads put into shared memory for ``last`` behind ``first``, where no MMA op gives it."""
        for v in (last.x, last.y):
            at, op = ops.index(first) + 1, v.op
            if isinstance(op, StageOperand) and op in ops[at:]:
                moved = _Order(ops[:at], ops[at:]).with_next(op, self.alias)
                ops = moved.ops if moved is not None and self._fits(moved, op.value.tile.size) else ops
        return ops

    def _fits(self, order: _Order, beside: int = 0) -> bool:
        """Whether registers suffice for the sums that are needed at a time, and so many elements ``beside`` them."""
        mmas = _mmas(order.ops)
        scaled = {v for m in mmas if m.acc.op is not None for v in m.acc.op.operands if v in self.block.args}
        carried = sum(v.tile.size for v in scaled)  # sums that are scaled before they are added to
        return live_sums(mmas, order.ops) + carried + beside <= _MOST_LIVE * self.threads


@dataclass(frozen=True)
class _Order:
    """The ops of a block: those ``placed``, in order, and those that are ``left``."""

    placed: list[Op]
    left: list[Op]

    @property
    def ops(self) -> list[Op]:
        return self.placed + self.left

    def with_next(self, op: Wgmma | StageOperand, alias: AliasAnalysis) -> _Order | None:
        """With ``op`` next, and before it what of the rest it needs, and what has to see its accumulators before; None
        where that waits for another MMA op, or cannot be moved."""
        made = {v: o for o in self.left for v in o.results}
        found: set[Op] = set()
        pending: list[Op] = [op]
        while pending:
            user = pending.pop()
            for other in (*self._beside(user, op), *(made[v] for v in _operands(user) if v in made)):
                if other not in found and other is not op:
                    found.add(other)
                    pending.append(other)
        results = {o.result for o in self.placed if isinstance(o, Wgmma)}
        own = [op.x, op.y] if isinstance(op, Wgmma) else op.operands
        waits = not results.isdisjoint([*own, *(v for o in found for v in _operands(o))])
        if waits or not all(self._moves(o, alias) for o in found):
            return None
        moved = [*(o for o in self.left if o in found), op]
        return _Order(self.placed + moved, [o for o in self.left if o not in moved])

    def _beside(self, op: Op, last: Op) -> list[Op]:
        """What goes with ``op``: before an MMA op, the ``last`` one, what takes its accumulators; with a fetch, others
        of the same tile; before a load from shared memory, what is stored there."""
        if isinstance(op, Wgmma) and op is last:
            before = [] if isinstance(op.acc.op, Constant) else self.left[: self.left.index(op)]
            return [o for o in before if op.acc in o.operands]
        if isinstance(op, SharedLoad):
            return [o for o in self.left if isinstance(o, SharedStore) and o.buffer is op.buffer]
        if not isinstance(op, Fetch):
            return []
        return [o for o in self.left if isinstance(o, Fetch) and o.operands == op.operands]

    def _moves(self, op: Op, alias: AliasAnalysis) -> bool:
        if isinstance(op, (SharedLoad, SharedStore)) and isinstance(op.buffer.op, SharedAlloc):
            return sum(isinstance(user, SharedStore) for user in op.buffer.users) == 1  # else loads see another one
        if not isinstance(op, GlobalLoad):
            return is_pure(op) or isinstance(op, _MOVED)
        others = [o for outer in self.left for o in outer.walk()]
        free = op.is_weak and not any(is_ordered(o) for o in others)
        return free and not may_alias(alias.underlying_object(op.ptrs), written_objects(others, alias))


def _operands(op: Op) -> Sequence[Value]:
    return [v for o in op.walk() for v in o.operands]
