"""Barriers between accesses of different threads to the same memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tilewright.analysis.alias import AliasAnalysis, MemoryObject
from tilewright.analysis.gpu.group_access import box_offset, group_offset
from tilewright.analysis.manager import AnalysisManager
from tilewright.analysis.memory_dependence import DependenceWalk
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import ACQUIRES, RELEASES
from tilewright.ir.gpu_stage import STORED_ONCE, num_warps
from tilewright.ir.layouts import LANES, WARP, LinearLayout
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.gpu import memory
from tilewright.ir.ops.gpu.barriers import GroupBarrier
from tilewright.ir.ops.gpu.cluster import ClusterBarrier
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tensor_memory import Tcgen05Mma, Tcgen05Wait
from tilewright.ir.ops.gpu.tma import TensorMap, TmaStore, TmaStoreWait
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, Wgmma, WgmmaWait
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, MemoryOp, PointerMemoryOp
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.types import SharedType
from tilewright.transforms.base import InPlacePass

_WAITS = (memory.Barrier, ClusterBarrier, memory.AsyncWait, memory.AsyncCopy, TmaStore, TmaStoreWait)
_MULTIPLY = (Wgmma, WgmmaWait, Tcgen05Mma, Tcgen05Wait)


@functools.cache  # mypy asks instances of its arguments for the hash, not the classes
def _is_ordered(kind: type[Op]) -> bool:
    """Whether ops of ``kind`` access memory, or wait, so that barriers order them: most do not."""
    return issubclass(kind, (*_WAITS, memory.SharedMemoryOp, MemoryOp, *_MULTIPLY, WarpSpecialize))


class InsertBarriers(InPlacePass):
    """Puts a barrier of the CTA before each access that depends on one of another thread since the last barrier.

    Tile IR has memory ops take effect in program order; in the gpu stage the elements of a tile belong to threads that
    do not wait for each other. Accesses depend on each other when one writes and their memory may overlap: bytes of
    shared memory, arrays in global memory. An element that both access through the same pointers has one thread; what
    a block stores no more than once (``STORED_ONCE``) no store waits for.
    Where warps are specialized, the barriers are of those that have tiles; rings have barriers of their own. Where
    each of two warp groups has bytes of its own, it waits for itself alone.
    Runs last: the passes before it decide what lies where in shared memory.
    """

    name: ClassVar[str] = "insert-barriers"

    def change(self, function: Function) -> bool:
        found = _Dependences(function)
        roles = bool(function.ops_of(WarpSpecialize))
        barrier = {"id": memory.CONSUMERS, "threads": num_warps(function) * LANES} if roles else {}
        for op in found.needed:
            Builder.before(op).emit_op(memory.Barrier, **barrier)
        for op in found.needed_by_group - found.needed:
            Builder.before(op).emit_op(GroupBarrier)
        return bool(found.needed or found.needed_by_group)


@dataclass(frozen=True)
class _Access:
    """One access: bytes from ``low`` to ``high`` of shared memory, or memory behind ``root`` in global memory."""

    writes: bool
    root: MemoryObject = None
    low: int = 0
    high: int = 0
    pointers: Value | None = None  # through which each element is accessed by one thread, in this iteration
    atomic: bool = False
    once: bool = False  # stores what no other op of the block stores, nor in another iteration
    everything: bool = False  # orders all of global memory
    group: int | None = None  # the bit of an offset by which the bytes of warp groups differ, which are apart
    group_done: bool = False  # the warp groups have waited since, each for itself
    private: Op | None = None  # an allocation each of whose elements one thread accesses
    copies: bool = False  # asynchronously, to where MMA ops of one warp group read in its ring, which threads wait for
    multiplies: bool = False  # by one warp group
    mma: Op | None = None  # that reads it
    allocation: Op | None = None  # whose bytes these are

    @property
    def is_shared(self) -> bool:
        return self.high > self.low

    def depends_on(self, other: _Access) -> bool:
        if self.is_shared != other.is_shared or not (self.writes or other.writes):
            return False
        if self.is_shared:
            alone = self.private is not None and self.private is other.private
            alone = alone or (self.copies and other.multiplies and self.allocation is other.allocation)
            meets = self.low < other.high and other.low < self.high and not alone
            return meets and not (other.group_done and self.in_groups_with(other))
        if self.everything or other.everything:
            return True
        if self.pointers is not None and self.pointers is other.pointers:
            return False
        if (self.atomic and other.atomic) or (self.once and other.once and self.root is other.root):
            return False
        return self.root is None or other.root is None or self.root is other.root

    def in_next_iteration(self) -> _Access:
        return replace(self, pointers=None)

    def in_groups_with(self, other: _Access) -> bool:
        """Whether each warp group accesses the same bytes in both."""
        return self.group is not None and (self.group, self.low, self.high) == (other.group, other.low, other.high)


@dataclass
class _Pending:
    """What was accessed since the last barrier, what asynchronous copies under way write and read, and what MMA ops in
    flight read."""

    pending: set[_Access] = field(default_factory=set)
    arriving: set[_Access] = field(default_factory=set)
    leaving: set[_Access] = field(default_factory=set)
    multiplied: set[_Access] = field(default_factory=set)

    def copy(self) -> _Pending:
        return _Pending(set(self.pending), set(self.arriving), set(self.leaving), set(self.multiplied))

    def merge(self, other: _Pending) -> None:
        self.pending |= other.pending
        self.arriving |= other.arriving
        self.leaving |= other.leaving
        self.multiplied |= other.multiplied

    def in_next_iteration(self, loop: LoopOp) -> _Pending:
        every = self.pending, self.arriving, self.leaving, self.multiplied
        return _Pending(*({a.in_next_iteration() for a in of} for of in every))

    def wait(self, op: WgmmaWait | Tcgen05Wait) -> None:
        """``op`` waits, as if the warp groups read now what they multiply."""
        self.pending |= self.multiplied
        if isinstance(op, WgmmaWait):
            ended = {v.op for v in op.accs}
            self.multiplied = {a for a in self.multiplied if op.pending and a.mma not in ended}


class _Dependences(DependenceWalk[_Pending]):
    """The ops of ``function`` that ``needed`` a barrier before them, and those where one of each group is enough."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.needed: set[Op] = set()
        self.needed_by_group: set[Op] = set()
        self._alias = AnalysisManager(function).get(AliasAnalysis)
        once = function.hints.get(STORED_ONCE, ())
        self._once = {function.body.args[i] for i in once} if isinstance(once, tuple) else set()
        self.walk(function.body, _Pending())

    def enter(self, loop: LoopOp, state: _Pending) -> None:
        """One barrier before ``loop`` does for all of its iterations, where no access in it depends on another one."""
        inside = [op for op in loop.body.walk() if _is_ordered(type(op))]  # type: ignore[arg-type]
        if any(isinstance(op, _WAITS) for op in inside):
            return
        accesses = [replace(a, pointers=None) for op in inside for a in self._accesses(op)]
        if any(a.depends_on(b) for a in accesses for b in accesses):
            return
        found = [(a, p) for a in accesses for p in state.pending if a.depends_on(p)]
        if loop in self.needed or not all(a.in_groups_with(p) for a, p in found):
            self.needed.add(loop)
            state.pending.clear()

    def access(self, op: Op, state: _Pending) -> None:
        if not _is_ordered(type(op)):  # type: ignore[arg-type]
            return
        if isinstance(op, WarpSpecialize):
            self.walk(op.consumer, state)
            return
        if isinstance(op, (memory.Barrier, ClusterBarrier)):
            state.pending.clear()
            return
        if isinstance(op, memory.AsyncWait):
            state.pending |= state.arriving  # as if the threads wrote it now
            if not op.pending:
                state.arriving.clear()
            return
        if isinstance(op, TmaStoreWait):
            state.pending |= state.leaving  # as if the threads read it now
            if not op.pending:
                state.leaving.clear()
            return
        if isinstance(op, (WgmmaWait, Tcgen05Wait)):
            state.wait(op)
            return
        accesses = list(self._accesses(op))
        found = [(a, p) for a in accesses for p in state.pending if a.depends_on(p)]
        if found:
            (self.needed_by_group if all(a.in_groups_with(p) for a, p in found) else self.needed).add(op)
        if op in self.needed:
            state.pending.clear()
        elif op in self.needed_by_group:
            state.pending = {replace(p, group_done=p.group is not None) for p in state.pending}
        if isinstance(op, memory.AsyncCopy):  # what has not arrived no barrier makes readable
            state.arriving.update(a for a in accesses if a.is_shared)
            accesses = [a for a in accesses if not a.is_shared]
        if isinstance(op, TmaStore):
            state.leaving.update(accesses)
        if isinstance(op, Tcgen05Mma) or (isinstance(op, Wgmma) and op.pending != 0):
            state.multiplied.update(accesses)
        state.pending.update(accesses)

    def _accesses(self, op: Op) -> Iterator[_Access]:
        if isinstance(op, (memory.SharedMemoryOp, memory.AsyncCopy)):
            writes = not isinstance(op, (memory.SharedLoad, memory.SharedExtract, TmaStore))
            copies = isinstance(op, memory.AsyncCopy)
            found: dict[str, Any] = {"group": _group(op), "private": _private(op)}
            allocation = _allocation(op.buffer)[0]
            yield _Access(writes, None, *_range(op.buffer), copies=copies, allocation=allocation, **found)
        if isinstance(op, (Wgmma, Tcgen05Mma)):
            layout = op.acc.layout if isinstance(op, Wgmma) else None
            one = layout is not None and layout.size(WARP) == GROUP_WARPS
            for operand in (op.x, op.y):
                if isinstance(operand.type, SharedType):
                    allocation = _allocation(operand)[0]
                    yield _Access(False, None, *_range(operand), multiplies=one, mma=op, allocation=allocation)
        if isinstance(op, memory.AsyncCopy):
            yield _Access(False, self._alias.underlying_object(op.ptrs))
        if isinstance(op, MemoryOp) and self._alias.effect(op):
            assert isinstance(op, PointerMemoryOp)
            root = self._alias.underlying_object(op.ptrs)
            layout = op.ptrs.tile.layout
            alone = layout is not None and layout.is_injective
            atomic = isinstance(op, (AtomicRmw, AtomicCas))
            order = op.memory_order
            writes = bool(op.spec.effect & Effect.WRITE)
            everything = order in RELEASES or order in ACQUIRES
            once = writes and root in self._once
            yield _Access(writes or everything, root, 0, 0, op.ptrs if alone else None, atomic, once, everything)


def _group(op: memory.SharedMemoryOp | memory.AsyncCopy) -> int | None:
    """The bit of an offset by which the bytes of two warp groups differ; None where they are not apart."""
    t = op.buffer.type
    assert isinstance(t, SharedType)
    if isinstance(op, memory.SharedStore) and op.value.tile.layout is not None:
        return group_offset(t.layout, op.value.tile.layout)
    if isinstance(op, TmaStore) and op.by_group and isinstance(op.map.op, TensorMap):
        return box_offset(t, op.map.op)
    return None


def _private(op: memory.SharedMemoryOp | memory.AsyncCopy) -> Op | None:
    """The allocation behind ``op``, if all copies to it and loads from it have one layout, which gives each element to
    one thread: then nobody waits for others. With several layouts one barrier does for copies and loads."""
    allocation = _allocation(op.buffer)[0]
    layouts: set[LinearLayout | None] = set()
    direct = list(allocation.result.users)
    copies = [user for c in direct if isinstance(c, memory.SharedCopy) for user in c.result.users]
    for access in (*copies, *(user for user in direct if not isinstance(user, memory.SharedCopy))):
        if isinstance(access, memory.AsyncCopy):
            layouts.add(access.ptrs.layout)
        else:
            layouts.add(access.result.layout if isinstance(access, memory.SharedLoad) else None)
    (layout, *others) = layouts
    return allocation if not others and layout is not None and layout.is_injective else None


def _range(buffer: Value) -> tuple[int, int]:
    """Where the bytes of ``buffer`` begin and end."""
    allocation, copies = _allocation(buffer)
    assert allocation.offset is not None, "shared memory is not allocated yet"
    size = allocation.type.bytes // allocation.type.copies
    low = allocation.offset + (copies or 0) * size
    return low, allocation.offset + allocation.type.bytes if copies is None else low + size


def _allocation(buffer: Value) -> tuple[memory.SharedAlloc, int | None]:
    """The allocation behind a buffer, and the number of the copy if that is known and not the only one."""
    op = buffer.op
    if isinstance(op, memory.SharedCopy):
        return _allocation(op.buffer)[0], constant_of(op.index)
    assert isinstance(op, memory.SharedAlloc), buffer
    return op, None
