"""Where in shared memory each tile lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.analysis.first_fit import first_fit
from tilewright.analysis.live_ranges import LiveRanges
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.errors import TileError
from tilewright.ir.ops.control import incoming
from tilewright.ir.ops.gpu.cluster import ClusterStore
from tilewright.ir.ops.gpu.memory import AsyncCopy, AsyncWait, SharedAlloc, SharedCopy
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.tma import TmaLoad, TmaStore
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.ir.reachable import reachable
from tilewright.transforms.base import InPlacePass

MOST_SHARED_BYTES = 232448  # of a CTA on sm_90 and sm_100: CUDA C++ Programming Guide, "Technical specifications"
_SMALL_BYTES, _SMALL_BYTES_IN_ALL = 512, 4096  # one number of 32 bits from each warp, or of each row
_ALWAYS = 1 << 62
_RESERVED = 1024  # bytes that the driver has of each CTA, from sm_80 on: CUDA C++ Programming Guide, "Shared memory"


class OutOfSharedMemory(TileError):
    """The tiles of a kernel that are live at the same time do not fit."""


@dataclass(frozen=True)
class AllocateShared(InPlacePass):
    """Gives every ``gpu.shared_alloc`` an offset; tiles that are not live at the same time share memory.

    A tile is live from its allocation to its last use, and to the end of a loop around that one if it is allocated
    outside; one that an asynchronous copy fills, to the next wait; one that the TMA unit stores, to the end; one that
    an MMA op reads, to where that is waited for. One that another thread fetches is live as long as those use it that
    wait for what it fetches, as far as CTAs do not fetch for each other. One that other CTAs store to shares none, and
    the smallest ones share none where there is room: what warps exchange for a reduction needs no barrier before it
    then.
    Runs when all shared memory is asked for, and before barriers are inserted, which keep apart what shares memory.
    OutOfSharedMemory, when ``limit`` bytes are not enough, at the allocation that does not fit.
    """

    name: ClassVar[str] = "allocate-shared"
    limit: int = MOST_SHARED_BYTES

    def change(self, function: Function) -> bool:
        if not any(isinstance(op, SharedAlloc) and op.offset is None for op in function.walk()):
            return False
        intervals = _intervals(function)
        try:
            self._place_all(_apart(intervals))
        except OutOfSharedMemory:
            self._place_all(intervals)
        return True

    def _place_all(self, intervals: list[_Interval]) -> None:
        placed: list[tuple[_Interval, int]] = []
        # The largest first: what is small fits into the gaps.
        for interval in sorted(intervals, key=lambda i: (-i.op.type.bytes, i.first)):
            offset = self._allocate(interval, placed)
            interval.op.offset = offset
            placed.append((interval, offset))

    def _allocate(self, interval: _Interval, placed: list[tuple[_Interval, int]]) -> int:
        op = interval.op
        taken = ((o, o + i.op.type.bytes) for i, o in placed if i.overlaps(interval))
        offset = first_fit(op.type.bytes, taken, op.alignment)
        if offset + op.type.bytes > self.limit:
            raise OutOfSharedMemory(
                f"{op.type.tile} needs {op.type.bytes} bytes of shared memory beside {offset} bytes that are in use at "
                f"the same time, of {self.limit} bytes that a block can have; use smaller tiles, or fewer at a time",
                op.loc,
            )
        return offset


@dataclass(frozen=True)
class _Interval:
    op: SharedAlloc
    first: int
    last: int

    def overlaps(self, other: _Interval) -> bool:
        return self.first <= other.last and other.first <= self.last


def _apart(intervals: list[_Interval]) -> list[_Interval]:
    """``intervals``, of which those of small tiles last all the time, as far as these take little memory in all."""
    found, room = [], _SMALL_BYTES_IN_ALL
    for interval in intervals:
        small = interval.op.type.bytes <= min(_SMALL_BYTES, room)
        room -= interval.op.type.bytes * small
        found.append(_Interval(interval.op, 0, _ALWAYS) if small else interval)
    return found


def _intervals(function: Function) -> list[_Interval]:
    """The life of each allocation, as numbers of ops in program order."""
    ranges = LiveRanges(function)
    waits = [at for op, at in ranges.first.items() if isinstance(op, AsyncWait)]
    landings = _landings(function)

    roles = next(iter(function.ops_of(WarpSpecialize)), None)

    def end(value: Value, block: Block | None, users: Sequence[Op] | None = None) -> int:
        """The end of the last use of ``value``, or of these ``users``, seen from ``block``."""
        users = list(value.users) if users is None else users
        found = ranges.end(users, block)
        for op in users:
            if isinstance(op, AsyncCopy):
                after = min((w for w in waits if w > ranges.first[op]), default=len(ranges.first))
                found = max(found, after)
            if isinstance(op, TmaStore):
                found = len(ranges.first)  # the TMA unit reads it until the end, or the last store, is waited for
            if isinstance(op, SharedCopy):
                found = max(found, end(op.result, block))
            found = max(found, ranges.end(landings.get(op, ()), block))
        return found

    found = []
    for op in function.ops_of(SharedAlloc):
        if any(isinstance(user, ClusterStore) for user in op.result.users):  # of other CTAs at any time
            found.append(_Interval(op, 0, _ALWAYS))
            continue
        used = _consumed(op, roles) if roles is not None else None
        last = end(op.result, op.block) if used is None or roles is None else end(op.result, roles.consumer, used)
        found.append(_Interval(op, ranges.first[op], max(last, ranges.first[op])))
    return found


def _landings(function: Function) -> dict[Op, list[Op]]:
    """Where each MMA op of warp groups is waited for, also as one that others add to, or whose sum a loop carries."""
    found: dict[Op, list[Op]] = {}
    for wait in function.ops_of(WgmmaWait):
        sums = reachable(wait.accs, lambda v: [v.op.acc] if isinstance(v.op, Wgmma) else incoming(v) or ())
        for op in {v.op for v in sums if isinstance(v.op, Wgmma)}:
            found.setdefault(op, []).append(wait)
    return found


def _consumed(op: SharedAlloc, roles: WarpSpecialize) -> list[Op] | None:
    """The uses of ``op`` by those who wait for what others fetch to it; None where not all of it is such."""
    fetching = {user for user in op.result.users if user.ancestor_in(roles.producer) is not None}
    loads = [load for copy in fetching if isinstance(copy, SharedCopy) for load in copy.result.users]
    if not loads or not all(isinstance(load, TmaLoad) and load.both is None for load in loads):
        return None
    return [user for user in op.result.users if user not in fetching]


def share_of_sm(limit: int, ctas: int) -> int:
    """The shared memory of a CTA where an SM is to hold so many; one alone can have ``limit`` bytes."""
    return (limit + _RESERVED) // ctas - _RESERVED


def shared_bytes(function: Function) -> int:
    """How much shared memory a CTA of ``function`` needs, once it is allocated."""
    allocations = function.ops_of(SharedAlloc)
    return max(((op.offset or 0) + op.type.bytes for op in allocations), default=0)
